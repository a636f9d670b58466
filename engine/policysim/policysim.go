// Package policysim compares what two policies make of the same calls: which
// outcomes change, for which tools and rules, and which calls that a person has
// denied would now pass without one. It only compares verdicts that others have
// reached, has no clock and no I/O, and never sees an argument.
package policysim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/policy"
)

// Verdict is what a policy makes of a call. Two are the same if they are equal.
type Verdict struct {
	// Outcome is "" where no policy was in force.
	Outcome engine.Outcome `json:"outcome"`
	// Rule is the rule that decided; "" is the default. Where a call was judged
	// for two environments, both rules stand there.
	Rule string `json:"rule"`
	// Terms is what else the verdict says, in words: who is asked, until when,
	// with which constraints. It may be "".
	Terms string `json:"terms,omitempty"`
}

// String is the outcome and the rule.
func (v Verdict) String() string {
	switch {
	case v.Outcome == "":
		return "no policy"
	case v.Rule == "":
		return string(v.Outcome) + " (default)"
	}
	return string(v.Outcome) + " (" + v.Rule + ")"
}

// strictness orders verdicts: by route, no policy being the loosest.
func (v Verdict) strictness() int {
	if v.Outcome == "" {
		return int(engine.Accept)
	}
	return int(v.Outcome.Route())
}

// VerdictOf is a policy's decision as a verdict.
func VerdictOf(d policy.Decision) Verdict {
	v := Verdict{Outcome: d.Outcome, Rule: d.Rule}
	var expires engine.Duration
	if d.Approval != nil && d.Outcome.Route().Waits() {
		expires = d.Approval.ExpiresIn
	}
	v.Terms = Terms(d.Requirements(), expires, d.Constraints)
	return v
}

// Terms says in words what a decision asks for and carries along.
func Terms(asks []engine.Requirement, expiresIn engine.Duration, constraints json.RawMessage) string {
	var parts []string
	for _, r := range asks {
		parts = append(parts, term(r))
	}
	if expiresIn > 0 {
		parts = append(parts, "expires in "+time.Duration(expiresIn).String())
	}
	if constraints != nil {
		parts = append(parts, "constraints "+string(constraints))
	}
	return strings.Join(parts, "; ")
}

// term says in words what one requirement asks for. Two that ask for different
// things have different words.
func term(r engine.Requirement) string {
	var b strings.Builder
	b.WriteString(string(r.Kind))
	switch {
	case len(r.AnyOf) > 0:
		for i, g := range r.AnyOf {
			word := " or"
			if i == 0 {
				word = " by"
			}
			b.Write(fmt.Appendf(nil, "%s %d × %s", word, g.Needed, g.Role))
		}
	case r.Kind.PeopleDecide():
		b.Write(fmt.Appendf(nil, " by %d", max(r.Needed, 1)))
	}
	if r.Role != "" {
		b.WriteString(" × " + r.Role)
	}
	if len(r.Form) > 0 {
		b.WriteString(" with " + string(r.Form))
	}
	if t := r.Ticket; t != nil {
		if t.System != "" {
			b.WriteString(", of " + t.System)
		}
		if len(t.Projects) > 0 {
			b.WriteString(", in " + strings.Join(t.Projects, " or "))
		}
		if len(t.States) > 0 {
			b.WriteString(", that is " + strings.Join(t.States, " or "))
		}
		if t.MaxAge > 0 {
			b.WriteString(", not older than " + time.Duration(t.MaxAge).String())
		}
	}
	if r.Within > 0 {
		b.WriteString(" within " + time.Duration(r.Within).String())
	}
	if r.Calendar != "" {
		b.WriteString(" in the hours of " + r.Calendar)
	}
	if r.Deny > 0 {
		b.Write(fmt.Appendf(nil, ", denied by %d", r.Deny))
	}
	if r.Signed {
		b.WriteString(", signed")
	}
	for i, after := range r.Reminders {
		word := ","
		if i == 0 {
			word = ", reminded after"
		}
		b.WriteString(word + " " + time.Duration(after).String())
	}
	for _, e := range r.Escalation {
		b.WriteString(", after " + time.Duration(e.After).String() + " also " + e.Role)
	}
	if len(r.Suggested) > 0 {
		b.WriteString(", suggested to " + strings.Join(r.Suggested, ", "))
	}
	return b.String()
}

// Case is one call with both verdicts.
type Case struct {
	// ID is an approval's id or the place of a line.
	ID   string
	Tool string
	// Old is nil where there is nothing to compare with.
	Old *Verdict
	New Verdict
	// Denial is how a person denied the call; nil if nobody did.
	Denial *Denial
	// Then is the route that the call took, and Now the one that it would take,
	// everything but the policy being as it was. Reviewed says that Now asks for
	// a review all the same. They are only looked at beside a Denial.
	Then, Now engine.Route
	Reviewed  bool
}

// Denial is a person's no.
type Denial struct {
	By   string    `json:"by"` // the person's id
	Name string    `json:"name,omitempty"`
	At   time.Time `json:"at"`
	Kind string    `json:"kind,omitempty"`
}

// Change is a number of calls of one tool that got one verdict and would now
// get another.
type Change struct {
	Tool string   `json:"tool"`
	Old  *Verdict `json:"old,omitempty"`
	New  Verdict  `json:"new"`
	// Direction is "looser", "stricter" or "other", by the outcomes' routes, and
	// "new" where there is no old verdict.
	Direction string `json:"direction"`
	Count     int    `json:"count"`
	// Examples are the ids of the first few.
	Examples []string `json:"examples"`
}

// NowPassing is a call that a person denied and that would now pass without one.
type NowPassing struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
	Denial
	New Verdict `json:"new"`
	// Accepted says that the caller has accepted it.
	Accepted bool `json:"accepted,omitempty"`
}

// Report is what the comparison finds.
type Report struct {
	Calls int `json:"calls"`
	// Same is how many keep their verdict.
	Same    int      `json:"same"`
	Changes []Change `json:"changes"`
	// Passing are the past denials that would now pass.
	Passing []NowPassing `json:"passing_denials"`
}

// maxExamples is how many ids a Change keeps.
const maxExamples = 3

// Compare groups the cases, in whose order examples are taken. accepted are
// the ids of past denials that may pass.
func Compare(cases []Case, accepted []string) Report {
	type group struct {
		tool     string
		old, new Verdict
		compared bool
	}
	r := Report{Calls: len(cases), Changes: []Change{}, Passing: []NowPassing{}}
	index := map[group]int{}
	for _, c := range cases {
		if c.Denial != nil && c.Now < c.Then && c.Now < engine.Defer && !c.Reviewed {
			r.Passing = append(r.Passing, NowPassing{ID: c.ID, Tool: c.Tool, Denial: *c.Denial, New: c.New, Accepted: slices.Contains(accepted, c.ID)})
		}
		g := group{tool: c.Tool, new: c.New}
		if c.Old != nil {
			if *c.Old == c.New {
				r.Same++
				continue
			}
			g.old, g.compared = *c.Old, true
		}
		i, ok := index[g]
		if !ok {
			i = len(r.Changes)
			index[g] = i
			r.Changes = append(r.Changes, Change{Tool: c.Tool, Old: c.Old, New: c.New, Direction: direction(c.Old, c.New)})
		}
		r.Changes[i].Count++
		if len(r.Changes[i].Examples) < maxExamples {
			r.Changes[i].Examples = append(r.Changes[i].Examples, c.ID)
		}
	}
	slices.SortStableFunc(r.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(slices.Index(directions, a.Direction), slices.Index(directions, b.Direction)),
			cmp.Compare(b.Count, a.Count), cmp.Compare(a.Tool, b.Tool))
	})
	return r
}

// directions are in the order in which a person wants to read of them.
var directions = []string{"looser", "stricter", "other", "new"}

func direction(old *Verdict, now Verdict) string {
	switch {
	case old == nil:
		return "new"
	case now.strictness() < old.strictness():
		return "looser"
	case now.strictness() > old.strictness():
		return "stricter"
	}
	return "other"
}

// Open is how many past denials would now pass that nobody has accepted.
func (r Report) Open() int {
	n := 0
	for _, p := range r.Passing {
		if !p.Accepted {
			n++
		}
	}
	return n
}

// headings name the directions.
var headings = map[string]string{
	"looser": "Looser", "stricter": "Stricter", "other": "The same route, by another rule or on other terms", "new": "Outcomes",
}

// Text is the report for a person. Without old verdicts it tells the outcomes.
func (r Report) Text() string {
	var b strings.Builder
	heading := ""
	for _, c := range r.Changes {
		if h := headings[c.Direction]; h != heading {
			heading = h
			b.WriteString("\n" + h + ":\n")
		}
		old := ""
		if c.Old != nil {
			old = c.Old.String() + " → "
		}
		b.Write(fmt.Appendf(nil, "  %5d × %s: %s%s\n", c.Count, c.Tool, old, c.New))
		if c.Old != nil && c.Old.Terms != c.New.Terms {
			b.WriteString("          was: " + none(c.Old.Terms) + "\n          now: " + none(c.New.Terms) + "\n")
		}
		if more := c.Count - len(c.Examples); more > 0 {
			b.Write(fmt.Appendf(nil, "          %s and %d more\n", strings.Join(c.Examples, ", "), more))
		} else {
			b.WriteString("          " + strings.Join(c.Examples, ", ") + "\n")
		}
	}
	if len(r.Passing) == 0 {
		return b.String()
	}
	b.WriteString("\nDenied by a person, and would now pass without one:\n")
	for _, p := range r.Passing {
		who := p.By
		if p.Name != "" {
			who = p.Name + " (" + p.By + ")"
		}
		b.Write(fmt.Appendf(nil, "  %s %s: denied by %s at %s", p.ID, p.Tool, who, p.At.UTC().Format(time.RFC3339)))
		if p.Kind != "" {
			b.WriteString(" as " + p.Kind)
		}
		b.WriteString("; now " + p.New.String())
		if p.Accepted {
			b.WriteString("; accepted")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func none(s string) string {
	if s == "" {
		return "nothing else"
	}
	return s
}
