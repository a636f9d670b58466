// Package tracker asks ticket trackers — Jira, GitHub, GitLab, Linear,
// ServiceNow and anything that speaks a small shape of our own — what they say
// of a ticket, and judges whether that ticket covers a call. It only reads. It
// believes nothing that a reference claims: identity and project come from the
// tracker's answer, and an answer about another ticket than the asked one is no
// answer. It never quotes a tracker's answer or a reference in an error, and
// never says a token.
package tracker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Ticket is what a tracker says of a ticket, in one shape for all of them.
type Ticket struct {
	// Ref is the ticket's short reference as this package writes it: PAY-12, owner/repo#12.
	Ref string `json:"ref"`
	// Title is cut after 300 characters, which then end with an ellipsis.
	Title string `json:"title"`
	// Project is what Terms.Projects is compared with; docs/tickets.md says what
	// it is for each kind.
	Project string `json:"project"`
	// State is the tracker's own word for where the ticket stands.
	State string `json:"state"`
	// URL is where people read the ticket. It is https, or http where plain http
	// is allowed for the tracker; it is empty if no such address is known.
	URL string `json:"url,omitempty"`
	// Closed is true if the tracker counts the ticket as done, cancelled or archived.
	Closed    bool      `json:"closed"`
	CreatedAt time.Time `json:"created_at"`
	// UpdatedAt is zero if the tracker does not say.
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	// Assignee is the name of whoever has the ticket, for people to read. It may be empty.
	Assignee string `json:"assignee,omitempty"`
}

// What a Source answers instead of a ticket.
var (
	// ErrNotFound: there is no such ticket, or it is not ours to see, or it has
	// become another one.
	ErrNotFound = errors.New("no such ticket")
	// ErrBadRef: the text is no reference of this tracker.
	ErrBadRef = errors.New("not a reference of this tracker")
	// ErrUnavailable: the tracker gave no usable answer. Asking again later may help.
	ErrUnavailable = errors.New("the tracker gave no usable answer")
)

// Source asks one tracker.
type Source interface {
	// Ref returns the one way in which we write the reference that ref is, asking
	// nobody: two that are alike mean the same ticket. The only error is ErrBadRef.
	Ref(ref string) (string, error)
	// Lookup returns the ticket that ref names: its short reference, or its full
	// address in the configured tracker. Every error matches ErrBadRef (the
	// tracker was not asked), ErrNotFound or ErrUnavailable, and holds neither
	// secrets nor anything that the tracker wrote. A ticket without an error has
	// Ref, State and CreatedAt.
	Lookup(ctx context.Context, ref string) (Ticket, error)
}

// New returns the source that config describes, or everything that is wrong
// with config.
func New(config Config) (Source, error) {
	if errs := config.Check(); len(errs) > 0 {
		return nil, fmt.Errorf("ticket connector %q: %w", config.Name, errors.Join(errs...))
	}
	t, err := config.tracker()
	if err != nil {
		return nil, fmt.Errorf("ticket connector %q: %w", config.Name, err)
	}
	kind, _ := kindOf(config.Kind)
	return kind.source(t), nil
}

func unavailable(reason string) error { return fmt.Errorf("%w: %s", ErrUnavailable, reason) }

// errUnreadable is an answer that is not of the tracker's documented shape.
var errUnreadable = unavailable("its answer is not of the expected shape")
