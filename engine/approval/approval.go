package approval

import (
	"time"

	"holdpoint/engine"
)

// Execution is what became of an approved call after it was approved (WIRE).
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

	State State
	Facts []Fact
}

// Denial returns the kind of no and the comment that go with a denial, and
// false when the approval was not denied by anybody.
func (a Approval) Denial() (Fact, bool) {
	if a.Status != Denied || a.State.Decisive == nil {
		return Fact{}, false
	}
	return *a.State.Decisive, true
}

// MayVote reports why the person with this standing could not approve the
// approval now, or nil.
func (a Approval) MayVote(v Voter, now time.Time) error {
	if a.Status.Terminal() {
		return ErrDecided
	}
	return Admit(a.Plan, a.Facts, Fact{Kind: Vote, Yes: true, Voter: v, Actor: engine.Actor{Kind: engine.HumanActor}}, now)
}
