package approval

import (
	"cmp"
	"slices"
	"time"

	"holdpoint/engine"
)

// place is one person that a requirement needs: whoever has one of the roles.
type place struct {
	requirement int
	roles       []string
}

// maxChoices bounds how many combinations of any_of groups are looked at.
const maxChoices = 64

// layouts are the ways in which the waiting requirements can be filled: one for
// each combination of the groups of which any one is enough. In each, the places
// whose time is up first come first.
func (m *machine) layouts(at time.Time) [][]place {
	order := make([]int, 0, m.hi-m.lo)
	for i := m.lo; i < m.hi; i++ {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m.soon(a), m.soon(b)) })
	all := [][]place{nil}
	for _, i := range order {
		r := m.p.Requirements[i]
		groups := r.AnyOf
		if len(groups) == 0 {
			groups = []engine.Group{{Role: r.Role, Needed: r.Needed}}
		}
		later := m.escalatedTo(i, at)
		var next [][]place
		for _, layout := range all {
			for _, g := range groups {
				with := slices.Clone(layout)
				for range g.Needed {
					with = append(with, place{i, append([]string{g.Role}, later...)})
				}
				if next = append(next, with); len(next) == maxChoices {
					break
				}
			}
			if len(next) == maxChoices {
				break
			}
		}
		all = next
	}
	return all
}

// soon orders requirements by how little time they have.
func (m *machine) soon(i int) engine.Duration {
	if within := m.p.Requirements[i].Within; within > 0 {
		return within
	}
	return engine.Duration(MaxExpiresIn)
}

// match fills places with votes, each vote one place at most: a largest
// matching, in which the first places are filled rather than the last. It
// returns which place each vote fills, -1 for none.
func match(places []place, votes []*Fact) []int {
	taken := make([]int, len(votes))
	for i := range taken {
		taken[i] = -1
	}
	var fill func(i int, asked []bool) bool
	fill = func(i int, asked []bool) bool {
		for v, f := range votes {
			if asked[v] || !hasAny(f.Voter, places[i].roles) {
				continue
			}
			asked[v] = true
			if taken[v] < 0 || fill(taken[v], asked) {
				taken[v] = i
				return true
			}
		}
		return false
	}
	for i := range places {
		fill(i, make([]bool, len(votes)))
	}
	return taken
}

func hasAny(v Voter, roles []string) bool {
	return slices.ContainsFunc(v.speaker().Roles, func(r string) bool { return slices.Contains(roles, r) })
}

// best is the layout that votes come nearest to filling, and what they fill.
func (m *machine) best(votes []*Fact, at time.Time) ([]place, []int) {
	var chosen []place
	var filled []int
	missing := -1
	for _, layout := range m.layouts(at) {
		taken := match(layout, votes)
		left := len(layout)
		for _, t := range taken {
			if t >= 0 {
				left--
			}
		}
		if missing < 0 || left < missing {
			chosen, filled, missing = layout, taken, left
		}
	}
	return chosen, filled
}

// filled measures how far votes bring the turn: a vote is worth something in any
// of the layouts.
func (m *machine) filled(votes []*Fact, at time.Time) int {
	total := 0
	for _, layout := range m.layouts(at) {
		for _, t := range match(layout, votes) {
			if t >= 0 {
				total++
			}
		}
	}
	return total
}

// fill counts the turn's votes into its requirements.
func (m *machine) fill(at time.Time) {
	layout, taken := m.best(m.ballots, at)
	for i := m.lo; i < m.hi; i++ {
		m.Requirements[i].Needed, m.Requirements[i].Given = 0, 0
	}
	for _, p := range layout {
		m.Requirements[p.requirement].Needed++
	}
	for _, t := range taken {
		if t >= 0 {
			m.Requirements[layout[t].requirement].Given++
		}
	}
}

// fits reports whether the voter can fill a place of requirement i.
func (m *machine) fits(i int, v Voter, at time.Time) bool {
	if !v.stands(m.p) {
		return false
	}
	r := m.p.Requirements[i]
	switch r.Kind {
	case engine.Answer, engine.Review, engine.Human:
	case engine.StepUp, engine.Ticket:
		return false
	}
	roles := []string{r.Role}
	if len(r.AnyOf) > 0 {
		roles = nil
	}
	for _, g := range r.AnyOf {
		roles = append(roles, g.Role)
	}
	if i >= m.lo && i < m.hi {
		roles = append(roles, m.escalatedTo(i, at)...)
	}
	return hasAny(v, roles)
}

// mayFill reports whether the voter can fill a place of this turn.
func (m *machine) mayFill(v Voter, at time.Time) bool {
	for i := m.lo; i < m.hi; i++ {
		if m.fits(i, v, at) {
			return true
		}
	}
	return false
}

// hasSay reports whether the voter has a say in any requirement.
func (m *machine) hasSay(v Voter, at time.Time) bool {
	return m.refuses(&Fact{Voter: v, At: at}) >= 0
}

// refuses is a requirement in which the no would count, -1 for none.
func (m *machine) refuses(f *Fact) int {
	for i := range m.p.Requirements {
		if m.fits(i, f.Voter, f.At) {
			return i
		}
	}
	return -1
}

// Possible reports whether the people, as they stand, could still bring the turn
// to its end together with the votes that are there. It says nothing of an
// approval that waits for no reviewers.
func Possible(p Plan, facts []Fact, people []Voter, now time.Time) bool {
	m := replay(p, facts, now)
	if m.Status != Pending {
		return true
	}
	switch m.kind() {
	case engine.StepUp:
		return slices.ContainsFunc(people, func(v Voter) bool { return v.Active && slices.Contains(p.Accountable, v.Identity) })
	case engine.Answer, engine.Ticket:
		return true
	case engine.Review, engine.Human:
	}
	votes := slices.Clone(m.ballots)
	for _, v := range people {
		f := &Fact{Voter: v}
		if v.stands(p) && !slices.ContainsFunc(append(slices.Clone(m.cast), votes...), func(b *Fact) bool { return shareVoice(b.Voter, v) }) {
			votes = append(votes, f)
		}
	}
	for _, layout := range m.layouts(now) {
		full := 0
		for _, t := range match(layout, votes) {
			if t >= 0 {
				full++
			}
		}
		if full == len(layout) {
			return true
		}
	}
	return false
}
