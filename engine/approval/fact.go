package approval

import (
	"errors"
	"slices"
	"time"

	"holdpoint/engine"
)

// FactKind is what a fact contributes.
type FactKind string

// The kinds of fact. Ticket and Verification have their place in the order and
// no door that makes them yet: a requirement of those kinds can only expire.
const (
	Vote         FactKind = "vote"
	Reply        FactKind = "answer"
	Cancel       FactKind = "cancel"
	TicketLink   FactKind = "ticket"
	Verification FactKind = "verification"
)

// Denial says what kind of no a denial is (WIRE).
type Denial string

// The four kinds of denial.
const (
	WrongArgs Denial = "wrong_args" // the right thing, done wrongly: retry with other arguments
	NotNow    Denial = "not_now"    // may be asked again later
	Never     Denial = "never"      // must not be asked again
	NeedsInfo Denial = "needs_info" // say more and ask again
)

// Retryable reports whether the agent may propose the call again.
func (d Denial) Retryable() bool { return d == WrongArgs || d == NotNow || d == NeedsInfo }

// Valid reports whether d is one of the four kinds.
func (d Denial) Valid() bool { return d == Never || d.Retryable() }

// Voter is the standing of the person behind a vote, as it is when the facts
// are read, not as it was when the vote was cast: a vote of somebody who has
// been disabled or has lost the role since is void.
type Voter struct {
	// Identity is shared by all accounts of one human being.
	Identity string
	Roles    []string
	Active   bool
}

// Fact is something that people or systems contributed. Seq and At are given
// by the database, under the lock on the approval's row.
type Fact struct {
	Seq  int64
	At   time.Time
	Kind FactKind
	// Actor is who contributed; for votes a human.
	Actor engine.Actor
	// Yes is a vote to approve or an answer that confirms.
	Yes bool
	// Denial and Comment explain a vote; both may be empty when Yes.
	Denial  Denial
	Comment string
	// Voter is set on votes only.
	Voter Voter
}

// Why a fact is not admitted. Each is a refusal with its own stable code.
var (
	ErrDecided         = errors.New("the approval is already decided")
	ErrExpired         = errors.New("the approval's deadline has passed")
	ErrSelfReview      = errors.New("somebody of the requesting side cannot review it")
	ErrMachine         = errors.New("only a signed-in person can decide this")
	ErrNotEligible     = errors.New("the person has not the role that this approval asks for")
	ErrAlreadyVoted    = errors.New("the person has already voted")
	ErrNothingToAnswer = errors.New("the approval is not waiting for an answer")
)

// Admit reports why a new fact must be refused, or nil when it may be appended
// at now. A fact that Admit lets through always changes what Advance returns.
func Admit(p Plan, facts []Fact, f Fact, now time.Time) error {
	s := Advance(p, facts, now)
	switch s.Status {
	case Expired:
		return ErrExpired
	case Approved, Denied, Cancelled:
		return ErrDecided
	case Pending:
	}
	switch f.Kind {
	case Cancel:
		return nil
	case Reply:
		if p.Requirements[s.Stage].Kind != engine.Answer {
			return ErrNothingToAnswer
		}
		if f.Actor.Kind != engine.ServiceActor {
			return ErrMachine
		}
		return nil
	case Vote:
		switch {
		case f.Actor.Kind != engine.HumanActor:
			return ErrMachine
		case !f.Voter.Active:
			return ErrNotEligible
		case slices.Contains(p.Excluded, f.Voter.Identity):
			return ErrSelfReview
		case f.Yes && !s.mayApprove(p, s.Stage, f.Voter, now):
			return ErrNotEligible
		case !f.Yes && !s.mayDeny(p, f.Voter, now):
			return ErrNotEligible
		case f.Yes && slices.Contains(s.approvers, f.Voter.Identity):
			return ErrAlreadyVoted
		}
		return nil
	case TicketLink, Verification:
	}
	return ErrNotEligible
}

// mayApprove reports whether the voter can fill a place in stage i at a moment:
// by the requirement's own role or, when it is that stage's turn, by one that
// it has escalated to.
func (s *State) mayApprove(p Plan, i int, v Voter, at time.Time) bool {
	req := p.Requirements[i]
	switch req.Kind {
	case engine.Answer, engine.Review, engine.Human:
	case engine.StepUp, engine.Ticket:
		return false
	}
	if !stands(p, v) {
		return false
	}
	return slices.Contains(v.Roles, req.Role) || i == s.Stage && slices.ContainsFunc(req.Escalation, func(e engine.Escalation) bool {
		return !at.Before(s.since.Add(time.Duration(e.After))) && slices.Contains(v.Roles, e.Role)
	})
}

// mayDeny reports whether the voter has a say in any stage.
func (s *State) mayDeny(p Plan, v Voter, at time.Time) bool {
	for i := range p.Requirements {
		if s.mayApprove(p, i, v, at) {
			return true
		}
	}
	return false
}

// stands reports whether the voter may have a say at all.
func stands(p Plan, v Voter) bool {
	return v.Active && v.Identity != "" && !slices.Contains(p.Excluded, v.Identity)
}
