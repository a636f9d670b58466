package approval

import (
	"errors"
	"slices"
	"time"

	"holdpoint/engine"
)

// Execution is what became of an approved call after it was approved (docs/spec/wire.md).
type Execution string

// The five states of execution. Unknown is an answer, not an absence: the agent
// said that it cannot tell.
const (
	NotRun    Execution = "none"
	Redeemed  Execution = "redeemed"
	Succeeded Execution = "succeeded"
	Failed    Execution = "failed"
	Unknown   Execution = "unknown"
)

// Circumstances are what the caller says of a call beside its document.
type Circumstances struct {
	// Session is the caller's name for the session that the call belongs to.
	Session string
	// Preconditions are what has to be unchanged when the call runs (an ETag, a
	// revision), by the caller's own names for them.
	Preconditions map[string]string
}

// Approval is the record of one approval: what was asked, what it takes, and
// where it stands. Status is what is written; State is what its facts say, and
// runs ahead of Status for the moment between a decisive fact and its
// settlement.
type Approval struct {
	ID       string
	Call     engine.Call
	Decision engine.Decision
	Plan     Plan
	// Version counts what a reviewer looks at: it changes when the card does,
	// not when somebody else votes.
	Version int
	// Revision changes with every change at all; waiting readers watch it.
	Revision  int64
	Status    Status
	Execution Execution
	EndedAt   time.Time
	// Reasons says why it ended; empty while pending.
	Reasons []engine.Reason
	// RequestedBy is the principal whose credential proposed the call.
	RequestedBy engine.Actor
	Circumstances
	// Successor is the approval that was opened in this one's place, because the
	// world had changed; "" for none.
	Successor string
	// ErasedAt is when the request and what people said of it were erased; zero while they are
	// there.
	ErasedAt time.Time

	State State
	Facts []Fact
	// Unlogged are facts in the database that no event confirms (HoldAgainst). They count for
	// nothing.
	Unlogged []Fact
	// Final is how the approval stood when it ended; nil while pending.
	Final *Final
}

// Final keeps what an ended approval's state was at its end: what happens to
// the voters afterwards does not change it any more.
type Final struct {
	Status       Status     `json:"status"`
	At           time.Time  `json:"at"`
	Stage        int        `json:"stage"`
	Requirements []Progress `json:"requirements"`
	// Decisive is the Seq of the fact that ended it; 0 for a deadline.
	Decisive int64 `json:"decisive,omitempty"`
	// Broken says that it was approved in an emergency, by breaking the glass. Owed says that
	// one person did so alone, so that somebody else has to review it.
	Broken bool `json:"broken,omitempty"`
	Owed   bool `json:"owed,omitempty"`
	// Counted are the Seqs of the votes that counted.
	Counted []int64 `json:"counted,omitempty"`
}

// Final returns what is kept of a state in which the approval has ended.
func (s State) Final() Final {
	f := Final{Status: s.Status, At: s.At, Stage: s.Stage, Requirements: s.Requirements}
	if s.Decisive != nil {
		f.Decisive = s.Decisive.Seq
	}
	f.Broken, f.Owed = s.Broken, s.Owed
	for _, vote := range s.Counted {
		f.Counted = append(f.Counted, vote.Seq)
	}
	return f
}

// ComputeState sets the approval's State at now: computed from its facts while it
// is pending, and from Final afterwards.
func (a *Approval) ComputeState(now time.Time) {
	if a.Final == nil {
		a.State = Advance(a.Plan, a.Facts, now)
		return
	}
	a.State = State{
		Status: a.Final.Status, At: a.Final.At, Stage: a.Final.Stage, Requirements: a.Final.Requirements, ExpiresAt: a.Plan.ExpiresAt,
		Broken: a.Final.Broken, Owed: a.Final.Owed,
	}
	for i := range a.Facts {
		if slices.Contains(a.Final.Counted, a.Facts[i].Seq) {
			a.State.Counted = append(a.State.Counted, a.Facts[i])
		}
		if a.Facts[i].Seq == a.Final.Decisive {
			a.State.Decisive = &a.Facts[i]
		}
	}
}

// Over reports whether nothing more can happen to it: it was not approved, or what
// became of the call is on record.
func (a Approval) Over() bool {
	switch a.Execution {
	case Succeeded, Failed, Unknown:
		return true
	case NotRun, Redeemed:
	}
	return a.Status.Terminal() && a.Status != Approved
}

// Denial returns the fact that denied the approval, and false when nobody did.
func (a Approval) Denial() (Fact, bool) {
	if a.Status != Denied || a.State.Decisive == nil || a.State.Decisive.Yes {
		return Fact{}, false
	}
	return *a.State.Decisive, true
}

// Ticket is the ticket that was attached last in this edition, with what its
// tracker said of it once checked.
func (a Approval) Ticket() (ticket Ticket, checked, attached bool) {
	for _, f := range a.Facts {
		if f.Edition != a.Plan.Edition || f.Details.Ticket == nil {
			continue
		}
		switch f.Kind {
		case TicketLink:
			ticket, checked, attached = *f.Details.Ticket, false, true
		case TicketCheck:
			ticket, checked = *f.Details.Ticket, true
		default:
		}
	}
	return ticket, checked, attached
}

// MayVote returns nil if a person with this standing could approve now, once they have proved
// who they are and signed; else it says why not.
func (a Approval) MayVote(v Voter, now time.Time) error {
	if a.Status.Terminal() {
		return ErrDecided
	}
	return Admit(a.Plan, a.Facts, Fact{
		Kind: Vote, Yes: true, Voter: v, Actor: engine.Actor{Kind: engine.HumanActor}, Details: Details{Proof: &Proof{Method: "passkey", At: now}}, Signed: true,
	}, now)
}

// NeedsSignature reports whether a vote of the person with this standing now takes the
// signature of their passkey.
func (a Approval) NeedsSignature(v Voter, yes bool, now time.Time) bool {
	f := Fact{Kind: Vote, Yes: yes, Voter: v, Actor: engine.Actor{Kind: engine.HumanActor}, Details: Details{Proof: &Proof{Method: "passkey", At: now}}}
	return !a.Status.Terminal() && errors.Is(Admit(a.Plan, a.Facts, f, now), ErrNotSigned)
}

// NeedsProof reports whether a vote now has to come with a fresh proof of who the
// voter is.
func (a Approval) NeedsProof() bool {
	return !a.Status.Terminal() && a.State.Stage < len(a.Plan.Requirements) && a.Plan.Requirements[a.State.Stage].Kind.Traits().FreshProof
}
