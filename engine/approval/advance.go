package approval

import (
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
	// Stage is the index of the requirement that is waiting, or that was when
	// the approval ended.
	Stage int
	// Deadline is when the waiting requirement's time is up; Wake is the next
	// moment at which anything changes by itself, the deadline or an escalation
	// before it. Both are zero once it is over.
	Deadline, Wake time.Time
	// Requirements has one entry for each of the plan's.
	Requirements []Progress
	// Decisive is the fact that ended the approval; nil for a deadline.
	Decisive *Fact

	approvers []string
	since     time.Time // when the waiting requirement's turn came
}

// Advance says where facts leave an approval at now. Facts may come in any
// order; they count in the order of Seq, each at its own time: a quorum that
// was complete before the deadline approves even if this is computed later,
// and a fact at or after the deadline does not count. It never answers
// Expired early, and always answers a terminal state once the deadline has
// passed. Facts after the decisive one change nothing.
func Advance(p Plan, facts []Fact, now time.Time) State {
	s := State{Status: Pending, Requirements: make([]Progress, len(p.Requirements))}
	for i, r := range p.Requirements {
		s.Requirements[i] = Progress{Kind: r.Kind, Role: r.Role, Needed: r.Needed, Status: Queued, ExpiresAt: p.ExpiresAt}
	}
	if len(p.Requirements) == 0 {
		// A plan that asks for nothing is a mistake of ours: it must not approve.
		return s.end(Denied, p.OpenedAt, nil)
	}
	s.turn(p, 0, p.OpenedAt)

	ordered := slices.SortedFunc(slices.Values(facts), func(a, b Fact) int {
		switch {
		case a.Seq < b.Seq:
			return -1
		case a.Seq > b.Seq:
			return 1
		}
		return 0
	})
	for i := range ordered {
		f := &ordered[i]
		if !f.At.Before(s.Deadline) {
			return s.end(Expired, s.Deadline, nil)
		}
		switch f.Kind {
		case Cancel:
			return s.end(Cancelled, f.At, f)
		case Reply:
			if p.Requirements[s.Stage].Kind != engine.Answer || f.Actor.Kind != engine.ServiceActor {
				continue
			}
			if !f.Yes {
				return s.end(Denied, f.At, f)
			}
			s.Requirements[s.Stage].Given = s.Requirements[s.Stage].Needed
		case Vote:
			if f.Actor.Kind != engine.HumanActor {
				continue
			}
			if !f.Yes {
				if s.mayDeny(p, f.Voter, f.At) {
					return s.end(Denied, f.At, f)
				}
				continue
			}
			if !s.mayApprove(p, s.Stage, f.Voter, f.At) || slices.Contains(s.approvers, f.Voter.Identity) {
				continue
			}
			s.approvers = append(s.approvers, f.Voter.Identity)
			s.Requirements[s.Stage].Given++
		case TicketLink, Verification:
			continue
		}
		if cur := &s.Requirements[s.Stage]; cur.Given >= cur.Needed {
			cur.Status = Satisfied
			if s.Stage+1 == len(p.Requirements) {
				return s.end(Approved, f.At, f)
			}
			s.turn(p, s.Stage+1, f.At)
		}
	}
	if !now.Before(s.Deadline) {
		return s.end(Expired, s.Deadline, nil)
	}
	s.Wake = s.Deadline
	for _, e := range p.Requirements[s.Stage].Escalation {
		switch at := s.since.Add(time.Duration(e.After)); {
		case !at.After(now):
			s.Requirements[s.Stage].Escalated = append(s.Requirements[s.Stage].Escalated, e.Role)
		case at.Before(s.Wake):
			s.Wake = at
		}
	}
	return s
}

// turn makes stage i the waiting one from since on.
func (s *State) turn(p Plan, i int, since time.Time) {
	s.Stage, s.since = i, since
	s.Deadline = p.deadline(i, since)
	s.Requirements[i].Status = Waiting
	s.Requirements[i].ExpiresAt = s.Deadline
}

// end closes the state.
func (s State) end(status Status, at time.Time, decisive *Fact) State {
	s.Status, s.At, s.Deadline, s.Wake, s.Decisive = status, at, time.Time{}, time.Time{}, decisive
	for i := range s.Requirements {
		if s.Requirements[i].Status != Satisfied {
			s.Requirements[i].Status = Closed
		}
	}
	return s
}
