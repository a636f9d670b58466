package web

import (
	"cmp"
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// callSummary is what to know of a call beside its sentence, before reading on: v is the
// rest of its card.
func callSummary(c gate.Card, p engine.Person, v views.Approval) views.CallSummary {
	a := c.Approval
	named := c.Stakes.Environment
	s := views.CallSummary{
		Amount: c.Stakes.Sentence.Amount, Environment: cmp.Or(named, a.Call.Environment),
		Asked: a.Plan.OpenedAt, Alike: alikeWords(c.Alike),
	}
	if named != "" {
		s.Judged = a.Call.Environment
	}
	if over(a) {
		return s
	}
	s.Why = reasonAsked(c, p, v)
	for _, flag := range []struct {
		there bool
		text  string
	}{
		{v.Edition != nil, "Changed since it was first asked"},
		{a.State.Question != nil, "A question is open"},
		{v.Warnings.Total() > 0, "Deceptive characters"},
		{len(v.Resembles) > 0, "Looks like a known name, and is another"},
	} {
		if flag.there {
			s.Flags = append(s.Flags, flag.text)
		}
	}
	if c.Same != nil {
		s.Flags = append(s.Flags, sameWords(*c.Same, views.Ago(c.Same.At, c.Now)))
	}
	if c.Larger {
		s.Flags = append(s.Flags, "The amount is larger than in any of the last approved calls of this tool")
	}
	for _, place := range c.FirstTime {
		before := "the last " + views.Plural(c.Compared, "approved call", "approved calls") + " of this tool"
		if c.Compared == 1 {
			before = "the one approved call of this tool"
		}
		s.Flags = append(s.Flags, "First time: what is in “"+place+"” was not in "+before)
	}
	return s
}

// sameWords tell of an approved call that is the very same as another one; when is "before",
// or when that was.
func sameWords(same gate.SameCall, when string) string {
	return "The same arguments were approved " + when + ", and " + map[approval.Execution]string{
		approval.NotRun: "the call has not run yet", approval.Redeemed: "the call may be running", approval.Succeeded: "the call ran",
		approval.Failed: "the call failed", approval.Unknown: "nobody knows whether the call ran",
	}[same.Execution]
}

// reasonAsked says why a waiting call is shown to the person; "" where the form says why they
// cannot decide.
func reasonAsked(c gate.Card, p engine.Person, v views.Approval) string {
	mine := slices.IndexFunc(c.Approval.State.Requirements, func(r approval.Progress) bool {
		return r.Status == approval.Waiting && p.Has(r.Role)
	})
	switch {
	case v.Tasks.Any():
		return "You answer for the call"
	case c.CannotVote != nil:
		return ""
	case len(c.InPlaceOf) > 0:
		return "You stand in for " + nameIn(c.Names)(c.InPlaceOf[len(c.InPlaceOf)-1])
	case mine >= 0:
		return "You have the role " + c.Approval.State.Requirements[mine].Role
	default:
		return "You may decide it"
	}
}

// alikeBefore says the same of a row, in fewer words.
func alikeBefore(n gate.DecisionCounts) string {
	all := n.Approved + n.Denied
	like := "Last " + views.Thousands(all) + " of this agent and tool: "
	switch {
	case all == 0:
		return ""
	case all == 1 && n.Approved == 1:
		return "The only one of this agent and tool was approved"
	case all == 1:
		return "The only one of this agent and tool was denied"
	case n.Denied == 0:
		return like + "all approved"
	case n.Approved == 0:
		return like + "all denied"
	}
	return like + views.Thousands(n.Approved) + " approved, " + views.Thousands(n.Denied) + " denied"
}

// alikeWords say how calls like one were decided; "" where none was.
func alikeWords(n gate.DecisionCounts) string {
	all := n.Approved + n.Denied
	switch {
	case all == 0:
		return ""
	case all == 1 && n.Approved == 1:
		return "the only one before was approved"
	case all == 1:
		return "the only one before was denied"
	case n.Approved == all:
		return "all of the last " + views.Thousands(all) + " were approved"
	case n.Denied == all:
		return "all of the last " + views.Thousands(all) + " were denied"
	}
	return views.Thousands(n.Approved) + " of the last " + views.Thousands(all) + " were approved"
}
