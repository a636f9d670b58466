package web

import (
	"strings"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// stages groups the requirements whose turn comes together: people's decisions of
// one kind that follow each other.
func stages(c gate.Card) []views.Stage {
	var list []views.Stage
	reqs := c.Approval.State.Requirements
	for i, r := range reqs {
		v := requirement(c, i, r)
		if i > 0 && r.Kind.PeopleDecide() && reqs[i-1].Kind == r.Kind {
			last := &list[len(list)-1]
			last.Requirements = append(last.Requirements, v)
			continue
		}
		list = append(list, views.Stage{Requirements: []views.Requirement{v}})
	}
	return list
}

// rolesOf are whose people can give it: "finance-approver", or "2 of finance or 1
// of security".
func rolesOf(r approval.Progress) string {
	if len(r.AnyOf) == 0 {
		return strings.Join(append([]string{r.Role}, r.Escalated...), " or ")
	}
	var groups []string
	for _, g := range r.AnyOf {
		groups = append(groups, views.Thousands(g.Needed)+" of "+g.Role)
	}
	if len(r.Escalated) > 0 {
		groups = append(groups, strings.Join(r.Escalated, " or "))
	}
	return strings.Join(groups, " or ")
}

// detail adds to a requirement's view what its plan says of time and people.
func detail(v *views.Requirement, a approval.Approval, i int, r approval.Progress) {
	if r.DenyNeeded > 1 && r.Status != approval.Satisfied {
		v.Denied = views.Thousands(r.Denied) + " of " + views.Thousands(r.DenyNeeded) + " noes; fewer do not stop it"
	}
	if i >= len(a.Plan.Requirements) || r.Status != approval.Waiting && r.Status != approval.Queued {
		return
	}
	req := a.Plan.Requirements[i]
	v.Escalation = escalation(req.Escalation, r.Escalated)
	v.Calendar = req.Calendar
	if r.Status == approval.Waiting {
		v.Suggested = req.Suggested
		if req.Within > 0 && r.Given < r.Needed {
			v.Due = r.ExpiresAt
		}
	}
}

// edition says how the call came to be what it is now; nil where it was not
// changed.
func edition(a approval.Approval, name func(string) string) *views.Edition {
	if a.Plan.Edition < 2 {
		return nil
	}
	for i := len(a.Facts) - 1; i >= 0; i-- {
		f := a.Facts[i]
		if f.Edition >= a.Plan.Edition {
			continue
		}
		switch f.Kind {
		case approval.Edit:
			what := "changed the arguments"
			if len(f.Details.Changed) > 0 {
				what = "changed " + list(f.Details.Changed)
			}
			return &views.Edition{Who: name(f.Actor.ID), What: what, Why: f.Comment, At: f.At}
		case approval.Reopen:
			return &views.Edition{Who: "Holdpoint", What: "asks anew, because the rules ask for more than before", At: f.At}
		default:
		}
	}
	return nil
}

// votes are what people have said, in order.
func votes(a approval.Approval, name func(string) string) []views.Vote {
	var vs []views.Vote
	for _, f := range inOrder(a.Facts) {
		if f.Kind != approval.Vote && f.Kind != approval.BreakGlass {
			continue
		}
		v := views.Vote{Who: name(f.Actor.ID), Yes: f.Yes, What: voteWords(f), Comment: f.Comment, At: f.At}
		if len(f.Via) > 0 {
			v.For = name(f.Via[len(f.Via)-1])
		}
		switch {
		case f.Edition != a.Plan.Edition:
			v.What += " (counts no more: the call has changed)"
		case !f.Voter.Active:
			v.What += " (does not count: the account is disabled)"
		}
		vs = append(vs, v)
	}
	return vs
}

// after is what came after the end.
func after(c gate.Card, name func(string) string) views.After {
	a := c.Approval
	v := views.After{Successor: a.Successor}
	if a.Execution == approval.Redeemed {
		v.Lease = c.LeaseUntil
	}
	if r := c.Reconciled; r != nil {
		what := "found out that the call succeeded"
		if r.Outcome == approval.Failed {
			what = "found out that the call failed or never ran"
		}
		v.Said = append(v.Said, views.Moment{At: r.At, Who: name(r.PersonID), What: what, Comment: r.Comment})
	}
	if w := c.Afterwards; w != nil {
		if v.Owed = w.DoneAt == nil; !v.Owed {
			what := "says that breaking the glass was justified"
			if !w.Justified {
				what = "says that breaking the glass was not justified"
			}
			v.Said = append(v.Said, views.Moment{At: *w.DoneAt, Who: name(w.PersonID), What: what, Comment: w.Comment})
		}
	}
	return v
}

// errandRow tells something that the person is asked for.
func errandRow(a approval.Approval, what string, name func(string) string) views.ErrandRow {
	row := views.ErrandRow{ID: a.ID, Tool: a.Call.Tool, Agent: name(a.Call.AgentID), What: what}
	if !over(a) {
		row.Deadline = deadline(a)
	}
	return row
}

// wantedOf says what a waiting call wants of its own side.
func wantedOf(a approval.Approval) string {
	if a.State.Question != nil {
		return "A reviewer asks a question"
	}
	req, _ := waiting(a)
	return req.Kind.Traits().Wanted
}

// stillUntil is until when the clock stands still; zero when it goes on.
func stillUntil(a approval.Approval) time.Time {
	if over(a) {
		return time.Time{}
	}
	return a.State.PausedUntil
}
