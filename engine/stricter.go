package engine

import (
	"bytes"
	"slices"
)

// Stricter is what a call takes of which again has found more than d did: the
// findings of both, and of each requirement the stricter of the two. What
// again's rules no longer ask for stays asked. The constraints are d's.
func (d Decision) Stricter(again Decision) Decision {
	out := d
	out.PolicyDigest = again.PolicyDigest
	out.Findings, out.Requirements = slices.Clone(d.Findings), slices.Clone(d.Requirements)
	for _, f := range again.Findings {
		if f.Route > Accept && !slices.ContainsFunc(d.Findings, func(s Finding) bool {
			return s.Source == f.Source && s.Code == f.Code && s.Route >= f.Route
		}) {
			out.Findings = append(out.Findings, f)
		}
	}
	// What stands for one thing that is wanted does not stand for another.
	covered := covering(d.Requirements, again.Requirements)
	taken := slices.Clone(covered)
	for w, want := range again.Requirements {
		if covered[w] >= 0 {
			continue
		}
		i := -1
		for j, have := range out.Requirements {
			if have.samePeople(want) && !slices.Contains(taken, j) {
				i = j
				break
			}
		}
		if i < 0 {
			i = len(out.Requirements)
			out.Requirements = append(out.Requirements, want)
		} else {
			out.Requirements[i] = out.Requirements[i].stricter(want)
		}
		taken = append(taken, i)
	}
	out.Route = Accept
	return out.conclude()
}

// samePeople reports whether both ask the same side for the same kind of thing,
// so that one can be asked for as much as both.
func (r Requirement) samePeople(other Requirement) bool {
	people := func(k Kind) bool { return k == Review || k == Human }
	_, one := r.Ticket.narrowed(other.Ticket)
	if len(r.Form) > 0 && len(other.Form) > 0 && !bytes.Equal(r.Form, other.Form) || !one {
		return false
	}
	return (r.Kind == other.Kind || people(r.Kind) && people(other.Kind)) && r.Role == other.Role && slices.Equal(r.AnyOf, other.AnyOf)
}

// stricter is, of everything that both say, what asks for more.
func (r Requirement) stricter(other Requirement) Requirement {
	if other.Kind.Order() > r.Kind.Order() {
		r.Kind = other.Kind
	}
	r.Needed = max(r.Needed, other.Needed)
	r.Deny = min(max(r.Deny, 1), max(other.Deny, 1))
	if other.Within > 0 && (r.Within == 0 || other.Within < r.Within) {
		r.Within, r.Calendar = other.Within, other.Calendar
	}
	r.Ticket, _ = r.Ticket.narrowed(other.Ticket)
	if len(other.Form) > 0 {
		r.Form = other.Form
	}
	return r
}
