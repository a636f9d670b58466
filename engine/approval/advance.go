package approval

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"holdpoint/engine"
)

// claimFor is how long a claim lasts that nobody gives back.
const claimFor = 30 * time.Minute

// machine computes a State, one fact after another.
type machine struct {
	State
	p      Plan
	lo, hi int       // the requirements whose turn it is
	since  time.Time // when it came

	ballots  []ballot // the approving votes of this turn
	cast     []*Fact  // all approving votes, of former turns as well
	yeses    []*Fact  // those, and the ones that were taken back
	noes     []*Fact
	breakers []*Fact

	question, claim, ticket *Fact
	pauses                  []span
	extended                time.Duration
	escalated               *Fact     // it escalated this turn at once
	widened                 *Fact     // it widened this turn to Terms.IfTooFew
	latest                  time.Time // when the last fact that counted came
	clocks                  map[string]clock
}

// Advance says where facts leave an approval at now. Facts may come in any
// order; they count in the order of Seq, each at its own time: a quorum that
// was complete before the deadline approves even if this is computed later,
// and a fact at or after the deadline does not count. It never answers
// Expired early, and always answers a terminal state once the deadline has
// passed. Facts after the decisive one change nothing.
func Advance(p Plan, facts []Fact, now time.Time) State { return replay(p, facts, now).State }

func replay(p Plan, facts []Fact, now time.Time) *machine {
	p.Requirements = askingSomeone(p.Requirements)
	m := &machine{p: p, latest: p.began(), State: State{Status: Pending, Requirements: make([]Progress, len(p.Requirements))}}
	for i, r := range p.Requirements {
		m.Requirements[i] = Progress{Kind: r.Kind, Role: r.Role, Needed: r.Needed, Status: Queued, ExpiresAt: p.ExpiresAt, AnyOf: r.AnyOf, Form: r.Form, Signed: r.Signed}
		if r.Deny > 1 {
			m.Requirements[i].DenyNeeded = r.Deny
		}
	}
	if len(p.Requirements) == 0 && p.AcceptedAs != "" {
		m.end(Approved, p.OpenedAt, nil)
		return m
	}
	if len(p.Requirements) == 0 {
		// A plan that asks for nothing is a mistake of ours: it must not approve.
		m.end(Denied, p.OpenedAt, nil)
		return m
	}
	m.startTurn(0, p.began())
	ordered := slices.SortedFunc(slices.Values(facts), func(a, b Fact) int { return cmp.Compare(a.Seq, b.Seq) })
	for i := range ordered {
		f := &ordered[i]
		if f.Edition != p.Edition && f.Kind != Cancel {
			continue // about what is no longer asked
		}
		if m.expired(f.At) {
			return m
		}
		if m.admit(f) != nil {
			continue
		}
		m.latest = f.At
		if m.take(f); m.Status != Pending {
			return m
		}
	}
	if !m.expired(now) {
		m.finishWaiting(now)
	}
	return m
}

// askingSomeone is the requirements with at least one person for each: one that asks
// for nobody is a mistake of ours, and nothing must satisfy it by itself.
func askingSomeone(requirements []engine.Requirement) []engine.Requirement {
	out := slices.Clone(requirements)
	for i := range out {
		out[i].Needed = max(out[i].Needed, 1)
		if len(out[i].AnyOf) == 0 {
			continue
		}
		out[i].AnyOf = slices.Clone(out[i].AnyOf)
		out[i].Needed = math.MaxInt
		for k := range out[i].AnyOf {
			g := &out[i].AnyOf[k]
			g.Needed = max(g.Needed, 1)
			out[i].Needed = min(out[i].Needed, g.Needed)
		}
	}
	return out
}

// expired ends the approval if its time is up by then. A requirement that had
// been met in time and is not any more ends it when that happened, not before.
func (m *machine) expired(by time.Time) bool {
	deadline := m.deadline()
	if by.Before(deadline) {
		return false
	}
	if deadline.Before(m.latest) {
		deadline = m.latest
	}
	m.end(Expired, deadline, nil)
	return true
}

// take lets an admitted fact count.
func (m *machine) take(f *Fact) {
	if f.Discharger() != "" {
		m.takeGiven(f)
		return
	}
	switch f.Kind {
	case Cancel:
		m.end(Cancelled, f.At, f)
		return
	case Vote:
		m.vote(f)
	case BreakGlass:
		m.breakers = append(slices.DeleteFunc(m.breakers, func(b *Fact) bool { return b.Voter.Identity == f.Voter.Identity }), f)
		m.notify(engine.NotifyBreakGlass, fmt.Sprintf("break_glass/%d", f.Seq), m.lo)
		if f.Details.Alone || len(m.breakers) > 1 {
			m.Broken, m.Owed = true, f.Details.Alone && len(m.breakers) < 2
			m.end(Approved, f.At, f)
			return
		}
	case TicketLink:
		m.ticket, m.Ticket, m.Checked = f, f, nil
	case Question:
		m.question = f
		m.notify(engine.NotifyInfoRequested, fmt.Sprintf("question/%d", f.Seq), m.lo)
		if left := time.Duration(m.p.PauseFor) - m.paused(); left > 0 {
			m.pauses = append(m.pauses, span{f.At, f.At.Add(left)})
		}
	case Information:
		if last := len(m.pauses) - 1; last >= 0 && m.pauses[last].to.After(f.At) {
			m.pauses[last].to = f.At
		}
		m.question = nil
		m.notify(engine.NotifyInfoGiven, fmt.Sprintf("information/%d", f.Seq), m.lo)
	case Claim:
		m.claim = f
		if f.Details.For != "" {
			m.notify(engine.NotifyPassedOn, f.PassedOnKey(), m.lo)
		}
	case Unclaim:
		m.claim = nil
	case Extend:
		m.extended += time.Duration(f.Details.By)
	case Escalate:
		if len(f.Details.Widened) > 0 {
			m.widened = f
		} else {
			m.escalated = f
		}
		m.notify(engine.NotifyEscalated, fmt.Sprintf("escalate/%d", f.Seq), m.lo)
	case Comment, Edit, Reopen, Reply, Verification, TicketCheck:
	}
	if m.Status != Pending || !m.traits().VotesCount {
		return
	}
	// More time, or a pause, may change which places have to be filled first.
	m.fill()
	if m.missing() < 0 {
		m.passed(f)
	}
}

// takeGiven lets a fact count that gives what the turn asks for, or refuses it. A ticket that
// does not cover the call refuses nothing: another one may.
func (m *machine) takeGiven(f *Fact) {
	if f.Kind == TicketCheck {
		m.Checked = f
	}
	switch {
	case f.Yes:
		m.passed(f)
	case f.Kind != TicketCheck:
		m.end(Denied, f.At, f)
	}
}

// missing is the first requirement of the turn that is not met, -1 for none.
func (m *machine) missing() int {
	for i := m.lo; i < m.hi; i++ {
		if m.Requirements[i].Given < m.Requirements[i].Needed {
			return i
		}
	}
	return -1
}

// passed ends the turn with the fact that met all that it asked for.
func (m *machine) passed(f *Fact) {
	for i := m.lo; i < m.hi; i++ {
		m.Requirements[i].Given, m.Requirements[i].Status = m.Requirements[i].Needed, Satisfied
	}
	if m.hi == len(m.p.Requirements) {
		m.end(Approved, f.At, f)
		return
	}
	m.startTurn(m.hi, f.At)
}

// vote counts a person's yes or no. A no takes the person's former yes back. One
// that has carried a turn which is over cannot be taken out of it again: the
// approval lacks somebody then, and there is no way back, so it is denied.
func (m *machine) vote(f *Fact) {
	same := func(other *Fact) bool { return shareVoice(other.Voter, f.Voter) }
	if f.Yes {
		m.noes = slices.DeleteFunc(m.noes, same)
		m.ballots, m.cast, m.yeses = append(m.ballots, m.ballot(f)), append(m.cast, f), append(m.yeses, f)
		return
	}
	m.noes = append(m.noes, f)
	now := len(m.ballots)
	m.ballots = slices.DeleteFunc(m.ballots, func(b ballot) bool { return same(b.Fact) })
	back, all := now-len(m.ballots), len(m.cast)
	m.cast, m.breakers = slices.DeleteFunc(m.cast, same), slices.DeleteFunc(m.breakers, same)
	if all-len(m.cast) > back {
		m.end(Denied, f.At, f)
		return
	}
	for i, r := range m.p.Requirements {
		if m.noesOf(i) >= max(r.Deny, 1) {
			m.end(Denied, f.At, f)
			return
		}
	}
}

// noesOf counts the noes of those who have a say in requirement i.
func (m *machine) noesOf(i int) int {
	n := 0
	for _, f := range m.noes {
		if m.mayVoteOn(i, f) {
			n++
		}
	}
	if m.p.Requirements[i].Deny > 1 {
		m.Requirements[i].Denied = n
	}
	return n
}

// startTurn makes the requirements from i on that belong together the waiting ones:
// people's decisions of one kind may come in any order.
func (m *machine) startTurn(i int, since time.Time) {
	m.Stage, m.lo, m.hi, m.since = i, i, i+1, since
	for m.kind().PeopleDecide() && m.hi < len(m.p.Requirements) && m.p.Requirements[m.hi].Kind == m.kind() {
		m.hi++
	}
	// A look at a ticket is one by what this turn asks of it.
	m.ballots, m.escalated, m.widened, m.ticket = nil, nil, nil, nil
	for j := m.lo; j < m.hi; j++ {
		m.Requirements[j].Status = Waiting
	}
	if m.traits().VotesCount {
		m.fill()
	}
	m.notifyTurn(i)
}

// kind is that of the requirements whose turn it is.
func (m *machine) kind() engine.Kind { return m.p.Requirements[m.lo].Kind }

func (m *machine) traits() engine.Traits { return m.kind().Traits() }

// finishWaiting completes the state of an approval that goes on waiting.
func (m *machine) finishWaiting(now time.Time) {
	m.Deadline, m.ExpiresAt = m.deadline(), m.overall()
	m.Wake = m.Deadline
	for i := range m.Requirements {
		switch r := &m.Requirements[i]; r.Status {
		case Waiting:
			r.ExpiresAt = m.due(i)
			r.Escalated = m.escalatedTo(i, factAt(now))
			m.noesOf(i)
		case Queued:
			r.ExpiresAt = m.ExpiresAt
			m.noesOf(i)
		case Satisfied, Closed:
		}
	}
	m.Stage = max(m.missing(), m.lo)
	for i := m.lo; i < m.hi; i++ {
		for _, e := range m.p.Requirements[i].Escalation {
			if m.escalated == nil {
				m.wake(m.dueAfter(i, e.After), now)
			}
		}
		for _, after := range m.p.Requirements[i].Reminders {
			if m.Requirements[i].Given < m.Requirements[i].Needed {
				m.wake(m.dueAfter(i, after), now)
			}
		}
	}
	m.Question = m.question
	if last := len(m.pauses) - 1; m.question != nil && last >= 0 && m.pauses[last].to.After(now) {
		m.PausedUntil = m.pauses[last].to
		m.wake(m.PausedUntil, now)
	}
	if m.claimed(now) {
		m.Claim = m.claim
		if m.claim.Details.For == "" {
			m.wake(m.claim.At.Add(claimFor), now)
		}
	}
	m.Counted = m.counted()
	m.remind(now)
}

// claimed reports whether somebody has taken it on, and not too long ago. Whom it was
// passed on to may be asleep: that is not forgotten.
func (m *machine) claimed(now time.Time) bool {
	return m.claim != nil && (m.claim.Details.For != "" || now.Before(m.claim.At.Add(claimFor)))
}

func (m *machine) wake(at, now time.Time) {
	if at.After(now) && at.Before(m.Wake) {
		m.Wake = at
	}
}

func (m *machine) counted() []Fact {
	var votes []Fact
	for _, f := range append(slices.Clone(m.cast), m.breakers...) {
		votes = append(votes, *f)
	}
	return votes
}

// end closes the state.
func (m *machine) end(status Status, at time.Time, decisive *Fact) {
	m.Counted = m.counted()
	m.ExpiresAt = m.p.ExpiresAt
	if m.hi > 0 {
		m.ExpiresAt = m.overall()
		m.Stage = max(m.missing(), m.lo)
	}
	m.Status, m.At, m.Deadline, m.Wake, m.Decisive = status, at, time.Time{}, time.Time{}, decisive
	m.Question, m.Claim, m.PausedUntil = nil, nil, time.Time{}
	for i := range m.Requirements {
		if m.Requirements[i].Status != Satisfied {
			m.Requirements[i].Status = Closed
		}
	}
}
