package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/stakes"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// alikeCall is a call that somebody wants to decide together with others.
type alikeCall struct {
	id    string
	found gate.Card
	view  views.Approval // its card
	args  []views.Argument
	apart string // why it is not decided together with others, or ""
}

// maxColumns is how many arguments that differ have a column.
const maxColumns = 8

// plainCalls are those of the calls that are decided together.
func plainCalls(calls []alikeCall) []alikeCall {
	return slices.DeleteFunc(slices.Clone(calls), func(c alikeCall) bool { return c.apart != "" })
}

// reasonApart says why a call is decided on its own card, whatever the others are, or "". In
// the table is only what is plain: whatever asks its reader to look twice is not.
func (c *alikeCall) reasonApart() string {
	v, a := c.view, c.found.Approval
	own := func(what string) string { return what + ": decide it on its own card." }
	switch {
	case v.Over:
		return "Meanwhile: " + v.Sentence
	case !v.Decide.Approve:
		return v.Decide.Note
	case a.NeedsProof():
		return own("A person has to decide this one, having proved who they are")
	case c.found.Long:
		return own("Its arguments are long")
	case c.found.Masked != nil:
		return own("It has values that look like secrets")
	case v.Decide.Blocked != "":
		return v.Decide.Blocked
	case a.Plan.Edition > 1 || edited(a):
		return own("It has changed since it was first asked")
	case a.State.Question != nil:
		return own("A question is open")
	case v.Warnings.Total() > 0:
		return own("Something in it is not what it looks like")
	case len(v.Resembles) > 0:
		return own("A text in it looks like one that was approved before, and is another")
	case v.Rules != nil && len(v.Rules.Unread) > 0:
		return own("A rule had no number to compare, and might have asked for more people")
	case v.ToolRequest != nil:
		return own("It is a document")
	case v.Answers != nil || v.Ticket != nil:
		return own("Something was supplied for it")
	case slices.ContainsFunc(a.Facts, addsText):
		return own("People have written about it")
	}
	return c.readArguments()
}

// addsText reports whether a fact tells readers something that is in no table.
func addsText(f approval.Fact) bool {
	switch f.Kind {
	case approval.Comment, approval.Question, approval.Information, approval.BreakGlass, approval.Edit, approval.Reopen:
		return true
	case approval.Vote:
		return !f.Yes || f.Comment != "" || len(f.Details.Constraints) > 0 || f.Details.ValidFor > 0
	default:
		return false
	}
}

// readArguments takes the arguments apart, or says why they are in no table.
func (c *alikeCall) readArguments() string {
	if _, lines, runes := c.view.Arguments.Code.Preview(previewLines, previewRunes); lines > 0 || runes > 0 {
		return "Its arguments are long: decide it on its own card."
	}
	args, err := canon.Parse(c.found.Arguments)
	if err != nil || c.view.Arguments.Code.Broken {
		return "Its arguments cannot be read: look at its own card."
	}
	var plain bool
	if c.args, plain = leavesOf("", args, nil); !plain {
		return "The names of its arguments do not fit a table: decide it on its own card."
	}
	return ""
}

// leavesOf are the parts of a value that are no objects, by what they are called, unless
// a name could be taken for another one's path.
func leavesOf(path string, v canon.Value, list []views.Argument) (_ []views.Argument, plain bool) {
	if v.Kind() != canon.ObjectKind || v.Len() == 0 && path != "" {
		text := v.Canonical()
		return append(list, views.Argument{Path: cmp.Or(path, "all arguments"), JSON: string(text), Code: views.JSON(text)}), true
	}
	plain = true
	for name, member := range v.All() {
		if strings.TrimSpace(name) != name || name == "" || strings.Contains(name, pathSign) {
			return list, false
		}
		at := name
		if path != "" {
			at = path + pathSign + name
		}
		var ok bool
		list, ok = leavesOf(at, member, list)
		plain = plain && ok
	}
	return list, plain
}

// showsArgument reports whether the call's sentence has all of the argument at a path.
func (c alikeCall) showsArgument(path string) bool {
	place := strings.ReplaceAll(path, pathSign, ".")
	i := slices.IndexFunc(c.args, func(a views.Argument) bool { return a.Path == path })
	if i < 0 {
		return false
	}
	value, err := canon.Parse([]byte(c.args[i].JSON))
	return err == nil && slices.ContainsFunc(c.view.Stakes.Parts, func(p stakes.Part) bool {
		switch {
		case p.Place != place:
			return false
		case p.Kind == stakes.Exact: // an amount may be a text
			return value.Kind() == canon.NumberKind || value.Str() != "" && strings.Contains(strings.ReplaceAll(p.Text, ",", ""), value.Str())
		}
		return p.Kind == stakes.Text && p.Text == value.Str()
	})
}

// pathSign stands between the names of a path.
const pathSign = " › "

// compare says which arguments are the same in all calls, and what those are called
// that are not.
func compare(calls []alikeCall) (same []views.Argument, differing []string) {
	texts := map[string]map[string]int{} // how often which value is there, by path
	var order []views.Argument
	for _, c := range calls {
		for _, a := range c.args {
			if texts[a.Path] == nil {
				texts[a.Path] = map[string]int{}
				order = append(order, a)
			}
			texts[a.Path][a.JSON]++
		}
	}
	for _, a := range order {
		if texts[a.Path][a.JSON] == len(calls) {
			same = append(same, a)
		} else {
			differing = append(differing, a.Path)
		}
	}
	return same, differing
}

// likenesses are what has to be the same in calls that are decided together, with what
// to say of one in which it is not.
var likenesses = []struct {
	of  func(alikeCall) string
	why func(c, usual alikeCall) string
}{
	{
		func(c alikeCall) string { return c.view.Tool },
		func(c, usual alikeCall) string {
			return "It is a call of " + c.view.Tool + ", and the others are of " + usual.view.Tool + "."
		},
	},
	{
		waitsFor,
		func(c, usual alikeCall) string {
			return "It waits for " + waitsFor(c) + ", and the others for " + waitsFor(usual) + "."
		},
	},
	{
		func(c alikeCall) string {
			return fmt.Sprintf("%q", []string{c.view.Requester.AgentID, c.view.Requester.Owner})
		},
		func(alikeCall, alikeCall) string { return "Another agent asks for it than for the others." },
	},
	{
		func(c alikeCall) string {
			return fmt.Sprintf("%q", []string{c.view.Environment, c.found.Stakes.Environment, fmt.Sprint(c.view.Tags)})
		},
		func(alikeCall, alikeCall) string {
			return "It is of another environment or risk domain than the others."
		},
	},
	{
		func(c alikeCall) string { return fmt.Sprintf("%q", c.view.Findings) },
		func(alikeCall, alikeCall) string { return "It was held for other reasons than the others." },
	},
	{
		progressOf,
		func(alikeCall, alikeCall) string {
			return "Other approvals are needed for it, or were given, than for the others."
		},
	},
	{
		func(c alikeCall) string {
			d := c.view.Decide
			return fmt.Sprintf("%s %v %v %v %s", c.found.Permits, d.Sign, d.SignDeny, c.found.InPlaceOf, c.view.Stakes.From)
		},
		func(alikeCall, alikeCall) string {
			return "Your vote on it would say something else than on the others."
		},
	},
}

// setApart sets apart which calls are not like most of the others, one likeness after
// the other. Of as many, the first ones stay.
func setApart(calls []alikeCall) {
	for _, l := range likenesses {
		count := map[string]int{}
		var usual alikeCall
		for _, c := range plainCalls(calls) {
			count[l.of(c)]++
		}
		most := 0
		for _, c := range plainCalls(calls) {
			if n := count[l.of(c)]; n > most {
				most, usual = n, c
			}
		}
		for i, c := range calls {
			if c.apart == "" && l.of(c) != l.of(usual) {
				calls[i].apart = l.why(c, usual)
			}
		}
	}
}

func waitsFor(c alikeCall) string {
	req, _ := waiting(c.found.Approval)
	return lowerFirst(requirementWords(req.Kind, rolesOf(req)))
}

// progressOf names who is needed for a call, and who has approved it.
func progressOf(c alikeCall) string {
	var b strings.Builder
	for _, s := range c.view.Stages {
		for _, r := range s.Requirements {
			fmt.Fprintf(&b, "%q %d %d %s %s %s %v;", r.What, r.Given, r.Needed, r.Code, r.Short, r.Denied, r.Signed)
		}
	}
	for _, v := range c.view.Votes {
		fmt.Fprintf(&b, "%q %q %q;", v.Who, v.For, v.What)
	}
	return b.String()
}
