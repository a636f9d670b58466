// Package web is the console: the pages on which people sign in, see what waits
// for them, and decide. Handlers read forms and sessions, ask the Desk, and
// render pure templ views. It never talks to Postgres or Temporal, never runs
// an inline script, and never changes anything on a GET.
package web

import (
	"context"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

// Desk is what the console needs of the engine room. All methods return errors
// that wrap a *gate.Refusal when the person, not the system, has to do something
// about it; any other error is an outage and nothing happened.
type Desk interface {
	// Inbox lists the pending approvals on which the person may act now, the
	// most urgent deadline first, without arguments.
	Inbox(ctx context.Context, p engine.Person) ([]approval.Approval, error)
	// History lists approvals that have ended, newest end first. cursor is ""
	// or what the last call returned; next is "" at the end.
	History(ctx context.Context, p engine.Person, cursor string, limit int) (page []approval.Approval, next string, err error)
	// Card returns everything a reviewer needs to decide, and records when the
	// look at it shows the person all of the arguments.
	Card(ctx context.Context, p engine.Person, id string, look gate.Look) (gate.Card, error)
	// Show records that the person is about to be shown cards with all of their
	// arguments. Nothing is shown when it fails.
	Show(ctx context.Context, p engine.Person, channel string, cards ...gate.SeenCard) error
	// ForPerson reads an approval without its card. Unlike Card it never counts
	// as having shown anything to anybody.
	ForPerson(ctx context.Context, p engine.Person, id string) (gate.View, error)
	// Vote records the person's vote and returns where that leaves the approval.
	Vote(ctx context.Context, v gate.VoteRequest) (approval.Approval, error)
	Talk
	Fate
	// Errands lists what the person is asked for beside deciding.
	Errands(ctx context.Context, p engine.Person) (gate.Errands, error)
	// Session lists the calls of a session that the person may see, those that wait
	// first, and whether more were left out. look is as for Card.
	Session(ctx context.Context, p engine.Person, agentID, session string, look gate.Look) ([]gate.Card, bool, error)
	// Changes returns a channel that receives (coalesced) whenever any approval
	// changes, or only the one named by id when it is not "". It ends with ctx.
	Changes(ctx context.Context, id string) <-chan struct{}
}

// Talk is what people contribute to a waiting approval beside votes. The console
// keeps no answer for repetitions: once is nil. Errors are as Desk's are.
type Talk interface {
	Comment(ctx context.Context, s gate.Said, once *gate.Once) (approval.Approval, error)
	// Ask asks the requesting side, and InformInPerson answers for it.
	Ask(ctx context.Context, s gate.Said, once *gate.Once) (approval.Approval, error)
	InformInPerson(ctx context.Context, s gate.Said, once *gate.Once) (approval.Approval, error)
	Claim(ctx context.Context, s gate.Said, once *gate.Once) (approval.Approval, error)
	Unclaim(ctx context.Context, s gate.Said, once *gate.Once) (approval.Approval, error)
	Extend(ctx context.Context, s gate.Said, by time.Duration, once *gate.Once) (approval.Approval, error)
	AttachTicketInPerson(ctx context.Context, s gate.Said, system, ref string, once *gate.Once) (approval.Approval, error)
	// Edit changes the call's arguments.
	Edit(ctx context.Context, r gate.EditRequest, once *gate.Once) (approval.Approval, error)
	// MayStepUp refuses, before a code is spent on it, what StepUp would refuse.
	MayStepUp(ctx context.Context, s gate.Said, digest string, version int) error
	// StepUp records that the accountable person has just proved, by the method, who
	// they are; or, without yes, that they do not want the call.
	StepUp(ctx context.Context, s gate.Said, method string, yes bool, digest string, version int, once *gate.Once) (approval.Approval, error)
	// AnswerInPerson supplies what the call asks for.
	AnswerInPerson(ctx context.Context, s gate.Said, values canon.Value, digest string, version int, once *gate.Once) (approval.Approval, error)
	BreakGlass(ctx context.Context, s gate.Said, alone bool, digest string, version int, once *gate.Once) (approval.Approval, error)
}

// Fate is what people say of a call after its approval has ended.
type Fate interface {
	Reconcile(ctx context.Context, s gate.Said, outcome approval.Execution, once *gate.Once) (approval.Approval, error)
	ReviewAfterwards(ctx context.Context, s gate.Said, justified bool, once *gate.Once) (approval.Approval, error)
}

// Prover checks what people show to prove who they are, for one purpose and bound
// to what they prove it for.
type Prover interface {
	// Methods are the ways in which the person can: "passkey", "totp" and, for those
	// who have no second factor, "password".
	Methods(ctx context.Context, p engine.Person) ([]string, error)
	// Verify returns the method of a good proof. A refusal is a proof that is none.
	Verify(ctx context.Context, p engine.Person, purpose, boundTo string, proof identity.Proof) (method string, err error)
}

// Sessions is where sessions live. Values never leave the server: the cookie
// holds only a random id, of which only the hash is stored.
type Sessions interface {
	// Load returns the person of a live session, looked up afresh: a disabled
	// person, or an expired or ended session, is ErrNoSession.
	Load(ctx context.Context, idHash []byte) (engine.Person, error)
	// Save starts a session for the person, who has just proved who they are by
	// verifiedBy, that ends at expires at the latest.
	Save(ctx context.Context, idHash []byte, personID, verifiedBy string, expires time.Time) error
	// Verified notes that the person of a session has just proved again who they
	// are; ErrNoSession when it is not theirs, or over.
	Verified(ctx context.Context, idHash []byte, personID, verifiedBy string) error
	// Delete ends a session; ending one that does not exist is no error.
	Delete(ctx context.Context, idHash []byte) error
}

// Names gives display names. It is for lists, which come without cards.
type Names interface {
	// Names returns the registered names of the people and agents with these
	// ids; an id that has none is left out.
	Names(ctx context.Context, ids []string) (map[string]string, error)
}
