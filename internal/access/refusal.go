// Package access says who asks and what they may: principals with their roles,
// refusals by kind, and the kept answers of repeated requests. A door turns a kind
// into a status; this package knows no HTTP, reads no request, and decides nothing
// about a call.
package access

import (
	"context"
	"errors"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/store"
)

// Kind is what a refusal means to whoever is refused. The doors turn it into a status.
type Kind uint8

// The kinds of refusals.
const (
	Malformed       Kind = iota + 1 // the request cannot be read
	Unauthenticated                 // nobody is signed in, or the token is not good
	Forbidden                       // known, and not allowed
	NotFound                        // not there, or not theirs
	Conflict                        // too late, or once too often
	Expired                         // the deadline has passed
	TooLarge                        // more than is taken
	UnsupportedType                 // a type of content that is not taken
	Invalid                         // it can be read, and is wrong
	Stopped                         // a kill switch is on, or the agent or tool is revoked
	RateLimited                     // too many, for now
	Unavailable                     // it cannot be done at the moment
	Broken                          // what is stored contradicts itself
)

// Refusal is an error that the caller, not the system, has to do something
// about. Any other error from this package is an outage: nothing was granted.
type Refusal struct {
	Kind       Kind
	Code       string // stable: not_found, self_review, stale, token_used, …
	Detail     string // one or two sentences for a person, without any argument
	RetryAfter time.Duration
	// Successor is the approval to go on with instead, or "".
	Successor string
}

// Error is the code and the detail.
func (r *Refusal) Error() string { return r.Code + ": " + r.Detail }

// The kept answers of repeated requests, for the doors that must not know the store.
type (
	// Idempotency says how to keep the answer to a request that may be repeated.
	Idempotency[T any] = store.Idempotency[T]
	// Request names a request that may be repeated.
	Request = store.Request
	// Done is the result of an operation that returns nothing.
	Done = store.Done
	// Reply is an answer as it goes over the wire.
	Reply = store.Reply
	// Replay is the error that stands for "this was answered before".
	Replay = store.Replay
)

// IsUnavailable reports whether err means that the event store could not be
// asked: nothing was granted, and the caller may try again.
func IsUnavailable(err error) bool { return errors.Is(err, store.ErrUnavailable) }

// FromStore is err, or the refusal of a text that no database can keep.
func FromStore(err error) error {
	if errors.Is(err, store.ErrUnstorable) {
		return UnstorableText
	}
	return err
}

// RejectedRequest is what a door knows of a request that it turns away.
type RejectedRequest struct {
	RequestID, AgentID string
	Actor              engine.Actor
	Code, Message      string
	// Payload is the event's, a JSON object: what the door says of the request.
	Payload []byte
}

// OtherRequest refuses an Idempotency-Key that belongs to another request.
var OtherRequest = &Refusal{
	Kind: Invalid, Code: "idempotency_key_reused",
	Detail: "This Idempotency-Key was used for a different request. Use a new key for a new request.",
}

// UnstorableText refuses a text that no database can keep.
var UnstorableText = &Refusal{Kind: Invalid, Code: "unfit_text", Detail: "A text holds a character that cannot be kept, such as NUL."}

// NoSuchApproval is the one answer for an approval that is not there and for one that
// is somebody else's.
var NoSuchApproval = &Refusal{Kind: NotFound, Code: "not_found", Detail: "There is no such approval."}

// Refuse appends the refusal of something that somebody wanted to the audit log, as
// event says, and returns the refusal. An outage comes back instead of it.
func Refuse(ctx context.Context, s *store.Store, r *Refusal, event engine.Event) error {
	event.Outcome, event.Reasons = engine.Deny, []engine.Reason{{Code: r.Code, Message: r.Detail}}
	if _, err := s.Submit(ctx, store.Submission{Event: event}); err != nil {
		return err
	}
	return r
}

// WithSuccessor is the refusal with the approval to go on with.
func (r *Refusal) WithSuccessor(successor string) *Refusal {
	named := *r
	named.Successor = successor
	named.Detail = "What the call depends on has changed since it was asked for, so it cannot run. People are asked anew by the approval that is named as successor."
	return &named
}

// Adapt is once for an operation that returns B, from which convert makes once's
// result. It is nil for a nil once.
func Adapt[T, B any](once *Idempotency[T], convert func(B) T) *Idempotency[B] {
	if once == nil {
		return nil
	}
	return &Idempotency[B]{Request: once.Request, Render: func(result B, err error) Reply { return once.Render(convert(result), err) }}
}
