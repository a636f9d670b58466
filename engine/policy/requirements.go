package policy

import (
	"slices"

	"holdpoint/engine"
)

// Requirements is what the decision asks for before the call may run, in the
// order of discharge: what has to be supplied, the proof or the ticket, and the
// people, who decide together in any order. It is nil unless the outcome waits,
// and shares no list with the bundle.
func (d Decision) Requirements() []engine.Requirement {
	kind := d.Outcome.Kind()
	if kind == "" {
		return nil
	}
	a := d.Approval
	if a == nil {
		return []engine.Requirement{{Kind: kind, Role: d.ApproverRole, Needed: 1}}
	}
	var out []engine.Requirement
	if len(a.Ask) > 0 {
		out = append(out, a.timed(engine.Requirement{Kind: engine.Answer, Needed: 1, Form: slices.Clone(a.Ask)}))
	}
	if !kind.PeopleDecide() {
		first := a.timed(engine.Requirement{Kind: kind, Role: d.ApproverRole, Needed: 1, Escalation: a.escalation()})
		if a.Ticket != nil {
			terms := *a.Ticket
			terms.Projects, terms.States = slices.Clone(terms.Projects), slices.Clone(terms.States)
			first.Ticket = &terms
		}
		out = append(out, first)
		if a.Quorum == 0 && len(a.Groups) == 0 && len(a.AnyOf) == 0 {
			return out
		}
		kind = engine.Review
	}
	people := func(role string, needed int, anyOf []engine.Group) {
		out = append(out, a.timed(engine.Requirement{
			Kind: kind, Role: role, Needed: needed, AnyOf: anyOf, Deny: a.Deny, Signed: a.Signed, Escalation: a.escalation(), Suggested: slices.Clone(a.Suggest),
		}))
	}
	switch {
	case len(a.Groups) > 0:
		for _, g := range a.Groups {
			people(g.Role, g.Needed, nil)
		}
	case len(a.AnyOf) > 0:
		groups := make([]engine.Group, len(a.AnyOf))
		for i, g := range a.AnyOf {
			groups[i] = engine.Group(g)
		}
		people("", 1, groups)
	default:
		people(d.ApproverRole, max(a.Quorum, 1), nil)
	}
	return out
}

// timed is a requirement with the terms that count its time.
func (a *Approval) timed(r engine.Requirement) engine.Requirement {
	r.Within, r.Calendar, r.Reminders = a.Within, a.Calendar, slices.Clone(a.Reminders)
	return r
}

func (a *Approval) escalation() []engine.Escalation {
	var steps []engine.Escalation
	for _, e := range a.Escalation {
		steps = append(steps, engine.Escalation(e))
	}
	return steps
}
