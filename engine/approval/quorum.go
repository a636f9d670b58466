package approval

import (
	"slices"
	"time"

	"holdpoint/engine"
)

// place is one person that a requirement needs: whoever has the role, or one to
// which the requirement had been escalated when they spoke.
type place struct {
	requirement int
	role        string
	signed      bool // it takes a signed vote
}

// ballot is an approving vote of this turn, with the requirements that it may
// fill because they had been escalated to the voter.
type ballot struct {
	*Fact
	later []int
}

func (m *machine) ballot(f *Fact) ballot {
	b := ballot{Fact: f}
	for i := m.lo; i < m.hi; i++ {
		if hasAny(f.Voter, m.escalatedTo(i, f)) {
			b.later = append(b.later, i)
		}
	}
	return b
}

func (b ballot) fills(p place) bool {
	return (b.Signed || !p.signed) && (slices.Contains(b.Voter.speaker().Roles, p.role) || slices.Contains(b.later, p.requirement))
}

// maxChoices bounds how many combinations of any_of groups are looked at.
const maxChoices = 64

// layouts are the ways in which the waiting requirements can be filled: one for
// each combination of the groups of which any one is enough. In each, the places
// whose time is up first come first.
func (m *machine) layouts() [][]place {
	order := make([]int, 0, m.hi-m.lo)
	due := map[int]time.Time{}
	for i := m.lo; i < m.hi; i++ {
		order, due[i] = append(order, i), m.due(i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return due[a].Compare(due[b]) })
	all := [][]place{nil}
	for _, i := range order {
		r := m.p.Requirements[i]
		groups := r.AnyOf
		if len(groups) == 0 {
			groups = []engine.Group{{Role: r.Role, Needed: r.Needed}}
		}
		var next [][]place
		for _, layout := range all {
			for _, g := range groups {
				if len(next) == maxChoices {
					break
				}
				with := slices.Clone(layout)
				for range g.Needed {
					with = append(with, place{i, g.Role, r.Signed})
				}
				next = append(next, with)
			}
		}
		all = next
	}
	return all
}

// match fills places with votes, each vote one place at most: a largest
// matching, in which the first places are filled rather than the last. It
// returns which place each vote fills, -1 for none.
func match(places []place, votes []ballot) []int {
	taken := make([]int, len(votes))
	for i := range taken {
		taken[i] = -1
	}
	var fill func(i int, asked []bool) bool
	fill = func(i int, asked []bool) bool {
		for v, b := range votes {
			if asked[v] || !b.fills(places[i]) {
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

// filled counts the places that the votes fill, in all layouts together: a vote is worth
// something if it fills a place in any of them.
func (m *machine) filled(votes []ballot) int {
	total := 0
	for _, layout := range m.layouts() {
		total += count(match(layout, votes))
	}
	return total
}

func count(taken []int) int {
	n := 0
	for _, t := range taken {
		if t >= 0 {
			n++
		}
	}
	return n
}

// fill counts the turn's votes into its requirements: in the layout that leaves
// the most time, and of those that leave as much in the one that lacks the fewest.
func (m *machine) fill() {
	var needed, given []int
	var until time.Time
	least := 0
	for _, layout := range m.layouts() {
		taken := match(layout, m.ballots)
		wants, has := make([]int, m.hi-m.lo), make([]int, m.hi-m.lo)
		for _, p := range layout {
			wants[p.requirement-m.lo]++
		}
		for _, t := range taken {
			if t >= 0 {
				has[layout[t].requirement-m.lo]++
			}
		}
		lacks, first := len(layout)-count(taken), m.overall()
		for i := range wants {
			if due := m.due(m.lo + i); has[i] < wants[i] && due.Before(first) {
				first = due
			}
		}
		if needed == nil || first.After(until) || first.Equal(until) && lacks < least {
			needed, given, until, least = wants, has, first, lacks
		}
	}
	for i := range needed {
		m.Requirements[m.lo+i].Needed, m.Requirements[m.lo+i].Given = needed[i], given[i]
	}
}

// mayVoteOn reports whether the voter of f has a say in requirement i.
func (m *machine) mayVoteOn(i int, f *Fact) bool {
	r := m.p.Requirements[i]
	if !f.Voter.eligible(m.p) || !r.Kind.Traits().VotesCount || r.Signed && f.Kind == Vote && !f.Signed {
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
		roles = append(roles, m.escalatedTo(i, f)...)
	}
	return hasAny(f.Voter, roles)
}

// mayFill reports whether the voter can fill a place of this turn.
func (m *machine) mayFill(f *Fact) bool {
	for i := m.lo; i < m.hi; i++ {
		if m.mayVoteOn(i, f) {
			return true
		}
	}
	return false
}

// mayDeny reports whether the voter has a say in any requirement, so that their no counts.
func (m *machine) mayDeny(f *Fact) bool {
	for i := range m.p.Requirements {
		if m.mayVoteOn(i, f) {
			return true
		}
	}
	return false
}

// Possible reports whether the people, each for themselves and as they stand, could still bring
// the turn to its end together with the votes that are there. It is true of an approval that is
// over, and of one that does not wait for people.
func Possible(p Plan, facts []Fact, people []Voter, now time.Time) bool {
	m := replay(p, facts, now)
	if m.Status != Pending {
		return true
	}
	switch {
	case m.traits().Discharger == engine.Accountable:
		return slices.ContainsFunc(people, func(v Voter) bool { return v.Active && slices.Contains(p.Accountable, v.Identity) })
	case !m.kind().PeopleDecide():
		return true
	}
	votes := slices.Clone(m.ballots)
	for _, v := range m.voters(people) {
		f := factAt(now)
		f.Voter, f.Signed = v, true
		votes = append(votes, m.ballot(f))
	}
	return slices.ContainsFunc(m.layouts(), func(layout []place) bool { return count(match(layout, votes)) == len(layout) })
}

// voters are those of the people whose voice is still to be heard. All accounts
// of one human being are one voter, who may choose by which of them to speak.
func (m *machine) voters(people []Voter) []Voter {
	var voters []Voter
	for _, v := range people {
		heard := func(f *Fact) bool { return shareVoice(f.Voter, v) }
		silenced := func(f *Fact) bool { return silences(v, f.Voter) }
		if len(v.Via) > 0 || !v.eligible(m.p) || slices.ContainsFunc(m.yeses, heard) || slices.ContainsFunc(m.noes, silenced) {
			continue
		}
		i := slices.IndexFunc(voters, func(other Voter) bool { return other.Identity == v.Identity })
		if i < 0 {
			voters = append(voters, Voter{Identity: v.Identity, Active: true, Roles: slices.Clone(v.Roles)})
			continue
		}
		voters[i].Roles = append(voters[i].Roles, v.Roles...)
	}
	return voters
}
