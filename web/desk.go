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
	"holdpoint/internal/gate"
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
	// ForPerson reads an approval without its card. Unlike Card it never counts
	// as having shown anything to anybody.
	ForPerson(ctx context.Context, p engine.Person, id string) (gate.View, error)
	// Vote records the person's vote and returns where that leaves the approval.
	Vote(ctx context.Context, v gate.VoteRequest) (approval.Approval, error)
	// Changes returns a channel that receives (coalesced) whenever any approval
	// changes, or only the one named by id when it is not "". It ends with ctx.
	Changes(ctx context.Context, id string) <-chan struct{}
}

// SignIn checks credentials. It answers engine.Person with VerifiedBy, or an
// error wrapping a *gate.Refusal (wrong_credentials 401, too_many_attempts 429)
// that is the same whether or not the account exists, or an
// *identity.SecondStep. code may be "". remote is the caller's address.
type SignIn interface {
	SignIn(ctx context.Context, email, password, code, remote string) (engine.Person, error)
	// SignedOut records that the person signed out.
	SignedOut(ctx context.Context, p engine.Person) error
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
