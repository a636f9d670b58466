package approval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine"
)

// Status is where an approval stands (WIRE).
type Status string

// The five states; all but Pending are terminal.
const (
	Pending   Status = "pending"
	Approved  Status = "approved"
	Denied    Status = "denied"
	Expired   Status = "expired"
	Cancelled Status = "cancelled"
)

// Terminal reports whether nothing can change the status any more.
func (s Status) Terminal() bool { return s != Pending }

// Outcome is the audit outcome of an approval that ended so.
func (s Status) Outcome() engine.Outcome {
	switch s {
	case Approved:
		return engine.Approved
	case Expired:
		return engine.Timeout
	case Denied, Cancelled, Pending:
	}
	return engine.Rejected
}

// Standing is where one requirement stands.
type Standing string

// A requirement is queued until its turn, then waiting, then satisfied; when the
// approval ends without it, it is closed.
const (
	Queued    Standing = "queued"
	Waiting   Standing = "waiting"
	Satisfied Standing = "satisfied"
	Closed    Standing = "closed"
)

// Progress is a requirement and how far it has come. ExpiresAt of a queued one
// is the latest moment that it can have.
type Progress struct {
	Kind   engine.Kind `json:"kind" enum:"answer,step_up,ticket,review,human" doc:"What has to happen."`
	Role   string      `json:"role,omitempty" doc:"Whose people may do it."`
	Needed int         `json:"needed" doc:"How many distinct people it takes."`
	Given  int         `json:"given" doc:"How many have agreed so far."`
	Status Standing    `json:"status" enum:"queued,waiting,satisfied,closed"`
	// AnyOf lists the groups of which one is enough; needed and given are those of
	// the one that has come furthest.
	AnyOf []engine.Group `json:"any_of,omitempty" doc:"Groups of which one is enough; needed and given are those of the one that has come furthest."`
	// Denied and DenyNeeded count the noes where it takes more than one.
	Denied     int `json:"denied,omitempty" doc:"How many have said no so far, where it takes more than one."`
	DenyNeeded int `json:"deny_needed,omitempty" doc:"How many have to say no to deny it; left out where the first no does."`
	// Form is the JSON Schema of what has to be supplied with the answer.
	Form json.RawMessage `json:"form,omitempty" doc:"The JSON Schema of the values that the answer has to come with."`
	// Escalated names the roles that may decide as well by now.
	Escalated []string  `json:"escalated_to,omitempty" doc:"Whose people may do it as well, because it has waited so long."`
	ExpiresAt time.Time `json:"expires_at" doc:"When this requirement's time is up."`
}

// State is what Advance returns.
type State struct {
	Status Status
	// At is when the status was reached: the time of the deciding fact, or the
	// deadline itself. Zero while pending.
	At time.Time
	// Stage is the index of the first requirement that is waiting, or that was
	// when the approval ended.
	Stage int
	// Deadline is when the first of the waiting requirements' times is up; Wake is
	// the next moment at which anything changes by itself: the deadline, or an
	// escalation or reminder before it. Both are zero once it is over.
	Deadline, Wake time.Time
	// ExpiresAt is the overall deadline with all extensions and pauses.
	ExpiresAt time.Time
	// Requirements has one entry for each of the plan's.
	Requirements []Progress
	// Decisive is the fact that ended the approval; nil for a deadline.
	Decisive *Fact
	// Question is the open one, for whose answer the clock may stand still until
	// PausedUntil; nil when none is.
	Question    *Fact
	PausedUntil time.Time
	// Claim says who has taken it on; nil when nobody has.
	Claim *Fact
	// Ticket is the last one that was attached in this edition, with what was
	// found of it in Checked; nil while none was, or has not been looked at.
	Ticket, Checked *Fact
	// Broken says that it was approved by breaking the glass, and Owed that
	// somebody else has to look at that afterwards.
	Broken, Owed bool
	// Counted are the votes that fill places, or broke the glass.
	Counted []Fact
	// Due are the things to tell people of that have come up by now.
	Due []Announcement
}

// claimFor is how long a claim lasts that nobody gives back.
const claimFor = 30 * time.Minute

// machine is a State in the making.
type machine struct {
	State
	p      Plan
	lo, hi int       // the requirements whose turn it is
	since  time.Time // when it came

	ballots  []*Fact // the approving votes of this turn
	cast     []*Fact // all approving votes, of former turns as well
	yeses    []*Fact // those, and the ones that were taken back
	noes     []*Fact
	breakers []*Fact

	question, claim, ticket *Fact
	pauses                  []span
	extended                time.Duration
	escalated               time.Time // when the turn was escalated at once
}

// Advance says where facts leave an approval at now. Facts may come in any
// order; they count in the order of Seq, each at its own time: a quorum that
// was complete before the deadline approves even if this is computed later,
// and a fact at or after the deadline does not count. It never answers
// Expired early, and always answers a terminal state once the deadline has
// passed. Facts after the decisive one change nothing.
func Advance(p Plan, facts []Fact, now time.Time) State { return replay(p, facts, now).State }

func replay(p Plan, facts []Fact, now time.Time) *machine {
	m := &machine{p: p, State: State{Status: Pending, Requirements: make([]Progress, len(p.Requirements))}}
	for i, r := range p.Requirements {
		m.Requirements[i] = Progress{Kind: r.Kind, Role: r.Role, Needed: r.Needed, Status: Queued, ExpiresAt: p.ExpiresAt, AnyOf: r.AnyOf, Form: r.Form}
		if r.Deny > 1 {
			m.Requirements[i].DenyNeeded = r.Deny
		}
	}
	if len(p.Requirements) == 0 {
		// A plan that asks for nothing is a mistake of ours: it must not approve.
		m.end(Denied, p.OpenedAt, nil)
		return m
	}
	m.turn(0, p.began())
	ordered := slices.SortedFunc(slices.Values(facts), func(a, b Fact) int { return cmp.Compare(a.Seq, b.Seq) })
	for i := range ordered {
		f := &ordered[i]
		if f.Edition != p.Edition && f.Kind != Cancel {
			continue // about what is no longer asked
		}
		if deadline := m.deadline(); !f.At.Before(deadline) {
			m.end(Expired, deadline, nil)
			return m
		}
		if m.admit(f) != nil {
			continue
		}
		if m.take(f); m.Status != Pending {
			return m
		}
	}
	if deadline := m.deadline(); !now.Before(deadline) {
		m.end(Expired, deadline, nil)
		return m
	}
	m.stand(now)
	return m
}

// take lets an admitted fact count.
func (m *machine) take(f *Fact) {
	switch f.Kind {
	case Cancel:
		m.end(Cancelled, f.At, f)
		return
	case Reply, Verification:
		if !f.Yes {
			m.end(Denied, f.At, f)
			return
		}
		m.Requirements[m.lo].Given = m.Requirements[m.lo].Needed
	case Vote:
		m.vote(f)
	case BreakGlass:
		m.breakers = append(m.breakers, f)
		m.tell(TellBreakGlass, fmt.Sprintf("break_glass/%d", f.Seq), m.lo)
		if f.Details.Alone || len(m.breakers) > 1 {
			m.Broken, m.Owed = true, f.Details.Alone && len(m.breakers) < 2
			m.end(Approved, f.At, f)
			return
		}
	case TicketLink:
		m.ticket, m.Ticket, m.Checked = f, f, nil
	case TicketCheck:
		m.Checked = f
		if f.Yes {
			m.Requirements[m.lo].Given = m.Requirements[m.lo].Needed
		}
	case Question:
		m.question = f
		m.tell(TellInfoRequested, fmt.Sprintf("question/%d", f.Seq), m.lo)
		if left := time.Duration(m.p.PauseFor) - m.paused(); left > 0 {
			m.pauses = append(m.pauses, span{f.At, f.At.Add(left)})
		}
	case Information:
		if last := len(m.pauses) - 1; last >= 0 && m.pauses[last].to.After(f.At) {
			m.pauses[last].to = f.At
		}
		m.question = nil
		m.tell(TellInfoGiven, fmt.Sprintf("information/%d", f.Seq), m.lo)
	case Claim:
		m.claim = f
	case Unclaim:
		m.claim = nil
	case Extend:
		m.extended += time.Duration(f.Details.By)
	case Escalate:
		m.escalated = f.At
		m.tell(TellEscalated, fmt.Sprintf("escalate/%d", f.Seq), m.lo)
	case Comment, Edit, Reopen:
	}
	if m.Status != Pending {
		return
	}
	for i := m.lo; i < m.hi; i++ {
		if m.Requirements[i].Given < m.Requirements[i].Needed {
			return
		}
	}
	for i := m.lo; i < m.hi; i++ {
		m.Requirements[i].Status = Satisfied
	}
	if m.hi == len(m.p.Requirements) {
		m.end(Approved, f.At, f)
		return
	}
	m.turn(m.hi, f.At)
}

// vote counts a person's yes or no. A no takes the person's former yes back.
func (m *machine) vote(f *Fact) {
	same := func(other *Fact) bool { return shareVoice(other.Voter, f.Voter) }
	if f.Yes {
		m.noes = slices.DeleteFunc(m.noes, same)
		m.ballots, m.cast, m.yeses = append(m.ballots, f), append(m.cast, f), append(m.yeses, f)
		m.fill(f.At)
		return
	}
	m.noes = append(m.noes, f)
	m.ballots, m.cast = slices.DeleteFunc(m.ballots, same), slices.DeleteFunc(m.cast, same)
	if m.voted() {
		m.fill(f.At)
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
		if m.fits(i, f.Voter, f.At) {
			n++
		}
	}
	if m.p.Requirements[i].Deny > 1 {
		m.Requirements[i].Denied = n
	}
	return n
}

// turn makes the requirements from i on that belong together the waiting ones:
// people's decisions of one kind may come in any order.
func (m *machine) turn(i int, since time.Time) {
	m.Stage, m.lo, m.hi, m.since = i, i, i+1, since
	for m.people() && m.hi < len(m.p.Requirements) && m.p.Requirements[m.hi].Kind == m.kind() {
		m.hi++
	}
	m.ballots, m.escalated = nil, time.Time{}
	for j := m.lo; j < m.hi; j++ {
		m.Requirements[j].Status = Waiting
	}
	if m.voted() {
		m.fill(since)
	}
	m.tell(turned, fmt.Sprintf("turn/%d/%d", m.p.Edition, i), i)
}

// kind is that of the requirements whose turn it is.
func (m *machine) kind() engine.Kind { return m.p.Requirements[m.lo].Kind }

// people reports whether reviewers decide now.
func (m *machine) people() bool { return m.kind() == engine.Review || m.kind() == engine.Human }

// voted reports whether votes fill what it waits for.
func (m *machine) voted() bool { return m.people() || m.kind() == engine.Answer }

// stand completes the state of an approval that goes on waiting.
func (m *machine) stand(now time.Time) {
	m.Deadline, m.ExpiresAt = m.deadline(), m.overall()
	m.Wake = m.Deadline
	for i := range m.Requirements {
		switch r := &m.Requirements[i]; r.Status {
		case Waiting:
			r.ExpiresAt = m.due(i)
			r.Escalated = m.escalatedTo(i, now)
			m.noesOf(i)
		case Queued:
			r.ExpiresAt = m.ExpiresAt
		case Satisfied, Closed:
		}
	}
	for i := m.lo; i < m.hi; i++ {
		if m.Requirements[i].Given < m.Requirements[i].Needed {
			m.Stage = i
			break
		}
	}
	for i := m.lo; i < m.hi; i++ {
		if m.Requirements[i].Given >= m.Requirements[i].Needed {
			continue
		}
		for _, e := range m.p.Requirements[i].Escalation {
			m.wake(m.reach(i, e.After), now)
		}
		for _, after := range m.p.Requirements[i].Reminders {
			m.wake(m.reach(i, after), now)
		}
	}
	m.Question = m.question
	if last := len(m.pauses) - 1; m.question != nil && last >= 0 && m.pauses[last].to.After(now) {
		m.PausedUntil = m.pauses[last].to
	}
	if m.claim != nil && now.Before(m.claim.At.Add(claimFor)) {
		m.Claim = m.claim
	}
	m.Counted = m.counted()
	m.remind(now)
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
	}
	m.Status, m.At, m.Deadline, m.Wake, m.Decisive = status, at, time.Time{}, time.Time{}, decisive
	m.Question, m.Claim, m.PausedUntil = nil, nil, time.Time{}
	for i := range m.Requirements {
		if m.Requirements[i].Status != Satisfied {
			m.Requirements[i].Status = Closed
		}
	}
}
