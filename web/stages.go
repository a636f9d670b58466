package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
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

// addPlanDetail adds to a requirement's view what its plan says of time and people.
func addPlanDetail(v *views.Requirement, a approval.Approval, i int, r approval.Progress) {
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

// editionOf says how the call came to be what it is now; nil where it was not
// changed.
func editionOf(a approval.Approval, name func(string) string) *views.Edition {
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
	for _, f := range factsInOrder(a.Facts) {
		if f.Kind != approval.Vote && f.Kind != approval.BreakGlass {
			continue
		}
		v := views.Vote{Who: name(f.Actor.ID), Yes: f.Yes, What: f.Statement().Timeline, Comment: f.Comment, At: f.At}
		if len(f.Via) > 0 {
			v.For = name(f.Via[len(f.Via)-1])
		}
		if f.Details.Signature != nil {
			v.What += ", signed with a passkey"
		}
		switch {
		case f.Edition != a.Plan.Edition:
			v.What += " (counts no more: the call has changed)"
		case !f.Voter.Active && f.Regained:
			v.What += " (does not count: the account was disabled since)"
		case !f.Voter.Active:
			v.What += " (does not count: the account is disabled)"
		}
		vs = append(vs, v)
	}
	return vs
}

// followUp is what came after the end.
func followUp(c gate.Card, name func(string) string) views.FollowUp {
	a := c.Approval
	v := views.FollowUp{Successor: a.Successor}
	if a.Execution == approval.Redeemed {
		v.Lease = c.LeaseUntil
	}
	if r := c.Reconciled; r != nil {
		what := "found out that the call succeeded"
		if r.Outcome == approval.Failed {
			what = "found out that the call failed or never ran"
		}
		v.Remarks = append(v.Remarks, views.Moment{At: r.At, Who: name(r.PersonID), What: what, Comment: r.Comment})
	}
	if w := c.BreakGlassReview; w != nil {
		if v.AwaitsReview = w.DoneAt == nil; !v.AwaitsReview {
			what := "says that breaking the glass was justified"
			if !w.Justified {
				what = "says that breaking the glass was not justified"
			}
			v.Remarks = append(v.Remarks, views.Moment{At: *w.DoneAt, Who: name(w.PersonID), What: what, Comment: w.Comment})
		}
	}
	return v
}

// pausedUntil is until when the clock stands still; zero when it goes on.
func pausedUntil(a approval.Approval) time.Time {
	if over(a) {
		return time.Time{}
	}
	return a.State.PausedUntil
}

// approvalPath says in one line who is needed, in which order, and who may decide as
// well later; it is empty where one look at the stages says as much.
func approvalPath(a approval.Approval) string {
	text, later := "", ""
	for i, r := range a.Plan.Requirements {
		switch {
		case i > 0 && r.Kind.PeopleDecide() && a.Plan.Requirements[i-1].Kind == r.Kind:
			text += " and " // in any order
		case i > 0:
			text += ", then "
		}
		switch {
		case len(r.AnyOf) > 0:
			text += "either " + rolesOf(approval.Progress{AnyOf: r.AnyOf})
		case !r.Kind.Traits().VotesCount:
			text += lowerFirst(requirementWords(r.Kind, ""))
		case r.Role == "":
			text += views.Plural(r.Needed, "person", "people")
		default:
			text += strconv.Itoa(r.Needed) + " of " + r.Role
		}
		for _, e := range r.Escalation {
			if i == 0 {
				later += "; after " + brief(time.Duration(e.After)) + " also " + e.Role
			}
		}
	}
	if len(a.Plan.Requirements) < 2 && later == "" {
		return ""
	}
	return text + later
}

func requirement(c gate.Card, i int, r approval.Progress) views.Requirement {
	v := views.Requirement{What: requirementWords(r.Kind, rolesOf(approval.Progress{Role: r.Role, AnyOf: r.AnyOf})), Given: r.Given, Needed: r.Needed, Code: string(r.Status), Signed: r.Signed}
	switch r.Status {
	case approval.Waiting:
		v.Standing = "waiting now"
		if r.Given >= r.Needed {
			v.Standing = "enough; the others are still awaited"
		}
		if left := r.Needed - r.Given; i == c.Approval.State.Stage && c.Eligible < left && r.Kind.Traits().VotesCount && len(r.AnyOf) == 0 {
			v.Short = "Only " + views.Plural(c.Eligible, "person", "people") + " can still do this, too few to complete it."
			if c.Eligible == 0 {
				v.Short = "Nobody can do this now. Unless somebody gets the role, it runs out of time."
			}
		}
	case approval.Queued:
		v.Standing = "its turn comes later"
	case approval.Satisfied:
		v.Standing = "done"
	case approval.Closed:
		v.Standing = "no longer needed"
	}
	addPlanDetail(&v, c.Approval, i, r)
	return v
}

func requirementWords(k engine.Kind, role string) string {
	kind := k.Traits()
	title := cmp.Or(kind.Title, words(string(k)))
	if role == "" || !kind.VotesCount {
		return title
	}
	return title + " by " + role
}

// escalation says who may decide as well: those who may already, and those who
// will when it has waited longer.
func escalation(steps []engine.Escalation, already []string) string {
	var parts []string
	if len(already) > 0 {
		parts = append(parts, "by now also "+list(already))
	}
	for _, e := range steps {
		if !slices.Contains(already, e.Role) {
			parts = append(parts, "after "+brief(time.Duration(e.After))+" also "+e.Role)
		}
	}
	return strings.Join(parts, ", ")
}
