package engine

import (
	"encoding/json"
	"reflect"
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
	met := pair(out.Requirements, again.Requirements)
	for k, want := range again.Requirements {
		if met[k] >= 0 {
			continue
		}
		// One that stands for another already cannot stand for this one as well.
		i := -1
		for j, have := range out.Requirements {
			if i < 0 && !slices.Contains(met, j) && have.sameThing(want) {
				i = j
			}
		}
		if i < 0 {
			i, out.Requirements = len(out.Requirements), append(out.Requirements, want)
		} else {
			out.Requirements[i] = out.Requirements[i].stricter(want)
		}
		met[k] = i
	}
	if again.ExpiresIn > 0 && (out.ExpiresIn == 0 || again.ExpiresIn < out.ExpiresIn) {
		out.ExpiresIn = again.ExpiresIn
	}
	return out.conclude()
}

// sameThing reports whether one requirement can be as much as both: both ask the
// same side for the same kind of thing, and for no two different ones.
func (r Requirement) sameThing(other Requirement) bool {
	_, one := r.Ticket.narrowed(other.Ticket)
	return one && (r.Kind == other.Kind || r.Kind.PeopleDecide() && other.Kind.PeopleDecide()) &&
		(other.Role == "" || r.Role == other.Role) && slices.Equal(r.AnyOf, other.AnyOf) &&
		(len(r.Form) == 0 || len(other.Form) == 0 || sameForm(r.Form, other.Form))
}

// stricter is, of everything that both say, what asks for more.
func (r Requirement) stricter(other Requirement) Requirement {
	if other.Kind.Order() > r.Kind.Order() {
		r.Kind = other.Kind
	}
	r.Needed = max(r.Needed, other.Needed)
	r.Signed = r.Signed || other.Signed
	if other.Deny > 0 {
		r.Deny = min(max(r.Deny, 1), other.Deny)
	}
	// Hours of two calendars cannot be compared; all hours are the sooner ones.
	sooner := other.Within > 0 && (r.Within == 0 || other.Within < r.Within)
	if sooner && (r.Calendar == "" || other.Calendar == "" || r.Calendar == other.Calendar) {
		r.Within = other.Within
	}
	r.Ticket, _ = r.Ticket.narrowed(other.Ticket)
	if len(r.Form) == 0 {
		r.Form = other.Form
	}
	return r
}

// Unmet returns what a re-check asks for and nobody has given: the requirements
// of again that none of those discharged is as much as. Each of these stands for
// one: of two groups both have to be there.
func Unmet(discharged []Requirement, again Decision) []Requirement {
	var unmet []Requirement
	for k, i := range pair(discharged, again.Requirements) {
		if i < 0 {
			unmet = append(unmet, again.Requirements[k])
		}
	}
	return unmet
}

// Combined is what two checks ask for together: all of both, but for people of
// one check whom the other asks for anyway. Each requirement stands for one: two
// of one check stay two. A confirmation, a proof and a ticket are no decisions of
// people and stay beside them; the very same is asked for once.
func Combined(a, b []Requirement) []Requirement {
	if len(a)+len(b) == 0 {
		return nil // as nearly always
	}
	others, unmatched := slices.Clone(a), slices.Clone(a)
	for _, r := range b {
		if i := slices.IndexFunc(unmatched, func(have Requirement) bool { return reflect.DeepEqual(have, r) }); i >= 0 {
			unmatched = slices.Delete(unmatched, i, i+1)
		} else {
			others = append(others, r)
		}
	}
	people := func(list []Requirement) (of []Requirement) {
		for _, r := range list {
			if r.Kind.PeopleDecide() {
				of = append(of, r)
			}
		}
		return of
	}
	a, b = people(a), people(b)
	both := slices.Concat(a, Unmet(a, Decision{Requirements: b}))
	if other := append(Unmet(b, Decision{Requirements: a}), b...); len(other) < len(both) || len(other) == len(both) && len(both) > len(a) {
		both = other
	}
	return append(slices.DeleteFunc(others, func(r Requirement) bool { return r.Kind.PeopleDecide() }), both...)
}

// pair finds for each of wanted one of given that covers it, -1 for none: each
// once, and so that as many as can be are covered.
func pair(given, wanted []Requirement) []int {
	stands := make([]int, len(given)) // for which of wanted each stands
	for i := range stands {
		stands[i] = -1
	}
	var find func(k int, asked []bool) bool
	find = func(k int, asked []bool) bool {
		for i, have := range given {
			if asked[i] || !have.covers(wanted[k]) {
				continue
			}
			asked[i] = true
			if stands[i] < 0 || find(stands[i], asked) {
				stands[i] = k
				return true
			}
		}
		return false
	}
	for k := range wanted {
		find(k, make([]bool, len(given)))
	}
	paired := make([]int, len(wanted))
	for k := range paired {
		paired[k] = slices.Index(stands, k)
	}
	return paired
}

// covers reports whether satisfying r is as much as satisfying want: of the same
// kind or, for people's decisions, of a stricter one, by as many, of the role.
// What want says nothing of, routing says, and is no more than before.
func (r Requirement) covers(want Requirement) bool {
	kind := r.Kind == want.Kind || r.Kind.Traits().VotesCount && want.Kind.Traits().VotesCount && r.Kind.Order() > want.Kind.Order()
	// Whichever group of r agrees, one of want's has.
	for _, have := range r.groups() {
		if !slices.ContainsFunc(want.groups(), func(g Group) bool { return (g.Role == "" || have.Role == g.Role) && have.Needed >= g.Needed }) {
			return false
		}
	}
	return kind && (r.Signed || !want.Signed) && (want.Deny == 0 || max(r.Deny, 1) <= want.Deny) && want.Ticket.within(r.Ticket) &&
		(len(want.Form) == 0 || sameForm(r.Form, want.Form))
}

// groups are those of which one has to agree.
func (r Requirement) groups() []Group {
	if len(r.AnyOf) > 0 {
		return r.AnyOf
	}
	return []Group{{Role: r.Role, Needed: r.Needed}}
}

// Undischarged returns the findings of a re-check that keep an approved call
// from running: those that would stop it and were not among the findings shown
// to the people who approved, with a route at least as strict, or that no
// requirement in discharged can discharge. A refusal is never dischargeable.
// An empty result means that the call may run.
func Undischarged(shown []Finding, discharged []Requirement, again Decision) []Finding {
	limit := Accept
	for _, r := range discharged {
		limit = limit.Stricter(r.Kind.Traits().Discharges)
	}
	var left []Finding
	for _, f := range again.Findings {
		if f.Route == Accept {
			continue
		}
		known := slices.ContainsFunc(shown, func(s Finding) bool {
			return s.Source == f.Source && s.Code == f.Code && s.Route >= f.Route
		})
		if f.Route == Refuse || f.Route > limit || !known {
			left = append(left, f)
		}
	}
	return left
}

// sameForm reports whether two schemas are the same JSON, however it is written:
// a database keeps neither blanks nor the order of names.
func sameForm(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
