package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// TicketChecker writes down what trackers say of tickets that were attached.
type TicketChecker struct {
	Store  *store.Store
	Sealer *seal.Sealer
	// Tracker is nil where none is configured: tickets then wait for a worker that
	// knows their tracker.
	Tracker Tracker
	Logger  *slog.Logger
}

const (
	// trackerTimeout is how long a tracker has to answer.
	trackerTimeout = 10 * time.Second
	// trackerRetry is how soon it is asked again, at the earliest.
	trackerRetry = 5 * time.Second
)

// ticketActor is who asks trackers, as the audit log names it.
var ticketActor = engine.Actor{Kind: engine.SystemActor, ID: "tickets", Channel: "engine"}

var (
	// errTicketMoved says that there is nothing left to say of the ticket: the
	// approval is over, another one was attached, or somebody else has checked it.
	errTicketMoved = errors.New("the ticket is not the one that is waited for any more")
	// errStopped says that a kill switch keeps a yes from counting.
	errStopped = errors.New("a kill switch stops the agent")
)

// Check asks the tracker of the ticket that was attached last, outside any
// transaction, and adds the answer to the approval unless that has moved on
// meanwhile; a repetition adds nothing. It returns how soon to ask again where
// there was no answer, 0 where there was. For an approval that does not exist it
// returns store.ErrNotFound.
func (t *TicketChecker) Check(ctx context.Context, id string) (retryIn time.Duration, err error) {
	r, err := t.Store.Approvals.Get(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("read %s to look at its ticket: %w", id, err)
	}
	link := unchecked(r.Approval)
	if link == nil {
		return 0, nil
	}
	found, err := t.ask(ctx, r, *link.Details.Ticket)
	if err != nil {
		t.Logger.WarnContext(ctx, "a ticket's tracker gives no answer", "approval", id, "system", link.Details.Ticket.System, "error", err)
		return trackerRetry, nil
	}
	err = t.Store.Approvals.Change(ctx, id, nil, func(c *store.Change) error {
		return t.add(c, link.Seq, found)
	})
	switch {
	case errors.Is(err, errTicketMoved):
		return 0, nil
	case errors.Is(err, errStopped), errors.Is(err, store.ErrKilled):
		return trackerRetry, nil
	case err != nil:
		return 0, fmt.Errorf("write down what was found of the ticket of %s: %w", id, err)
	}
	return 0, nil
}

func (t *TicketChecker) ask(ctx context.Context, r store.Record, ticket approval.Ticket) (approval.Ticket, error) {
	if t.Tracker == nil {
		return ticket, errors.New("no ticket system is configured")
	}
	ctx, cancel := context.WithTimeout(ctx, trackerTimeout)
	defer cancel()
	return t.Tracker.Check(ctx, ticket, r.Approval.Plan.Requirements[r.Approval.State.Stage].Ticket, r.Approval.Plan.OpenedAt, r.Now)
}

// unchecked is the ticket that an approval waits to hear of; nil for none.
func unchecked(a approval.Approval) *approval.Fact {
	if a.Status != approval.Pending || a.State.Status != approval.Pending || a.State.Checked != nil {
		return nil
	}
	return a.State.Ticket
}

// add appends what was found of the ticket that fact seq attached, and its event.
func (t *TicketChecker) add(c *store.Change, seq int64, found approval.Ticket) error {
	link := unchecked(c.Approval)
	if link == nil || link.Seq != seq {
		return errTicketMoved
	}
	f := approval.Fact{Kind: approval.TicketCheck, Actor: ticketActor, Yes: found.Code == "", Details: approval.Details{Ticket: &found}}
	if f.Yes && c.Kill != nil {
		return errStopped
	}
	if approval.Admit(c.Approval.Plan, c.Approval.Facts, f, c.Now) != nil {
		return errTicketMoved
	}
	deadline := c.Approval.State.Deadline
	if err := addFact(t.Sealer, c, f, engine.Ticketed); err != nil {
		return err
	}
	if !c.Now.Before(deadline) {
		return errTicketMoved // the fact's own time is past the deadline
	}
	return nil
}
