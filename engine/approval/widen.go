package approval

import (
	"slices"
	"time"
)

// The requesting side has no say. Whom the agent names as its side is excluded by that
// claim, and so an agent could bar the reviewers one by one. Where too few are left by
// claims, an Escalate fact widens the requirements that they have emptied: people of
// Terms.IfTooFew may decide them as well. It never asks for fewer people, and nobody
// excluded gets a say by it.

// Widening lists the requirements of the turn that are to be widened: people could
// bring it to its end if nobody were excluded by claim, and cannot as it is. These are
// the requirements in which somebody excluded by claim would have a say. It is nil
// where nothing is to be widened, or has been already.
func Widening(p Plan, facts []Fact, people []Voter, now time.Time) []int {
	if len(p.ByClaim) == 0 || Possible(p, facts, people, now) {
		return nil
	}
	unclaimed := p
	unclaimed.Excluded = slices.DeleteFunc(slices.Clone(p.Excluded), func(who string) bool { return slices.Contains(p.ByClaim, who) })
	if !Possible(unclaimed, facts, people, now) {
		return nil // it is not the claims that have emptied it
	}
	m := replay(unclaimed, facts, now)
	f := factAt(now)
	var emptied []int
	for i := m.lo; i < m.hi; i++ {
		if slices.ContainsFunc(people, func(v Voter) bool {
			f.Voter = v
			return slices.Contains(p.ByClaim, v.Identity) && m.mayVoteOn(i, f)
		}) {
			emptied = append(emptied, i)
		}
	}
	if !replay(p, facts, now).mayEscalate(&Fact{Details: Details{Widened: emptied}}) {
		return nil
	}
	return emptied
}

// mayEscalate reports whether the turn can be escalated at once, or widened.
func (m *machine) mayEscalate(f *Fact) bool {
	if len(f.Details.Widened) == 0 {
		return m.escalated == nil && m.hasLater(f)
	}
	ofTurn := !slices.ContainsFunc(f.Details.Widened, func(i int) bool { return i < m.lo || i >= m.hi })
	return m.widened == nil && len(m.p.ByClaim) > 0 && m.p.IfTooFew != "" && ofTurn && m.kind().PeopleDecide()
}

// WidenedTo is the role whose people may decide as well because claims left too few,
// in this edition or a former one; "" where that has not happened.
func (a Approval) WidenedTo() string {
	if slices.ContainsFunc(a.Facts, func(f Fact) bool { return len(f.Details.Widened) > 0 }) {
		return a.Plan.IfTooFew
	}
	return ""
}
