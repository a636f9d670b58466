package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/temporal"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// Trackers asks the trackers of tickets.
type Trackers interface {
	// Check asks the ticket's tracker whether the ticket covers a call that was
	// asked for at a time. The answer has a Code when it does not. An error means
	// that the tracker cannot be asked now, and holds no secrets.
	Check(ctx context.Context, t approval.Ticket, terms *engine.TicketTerms, requestedAt, now time.Time) (approval.Ticket, error)
}

// TicketChecker writes down what trackers say of tickets that were attached.
type TicketChecker struct {
	Store *store.Store
	// Trackers is nil where none is configured: tickets then wait for a worker that
	// knows their tracker.
	Trackers Trackers
	Event    EventMaker
	Logger   *slog.Logger
}

const (
	// askFor is how long a tracker has to answer.
	askFor = 10 * time.Second
	// askAgain is how soon it is asked again, at the earliest.
	askAgain = 5 * time.Second
)

// asker is who asks trackers, as the audit log names it.
var asker = engine.Actor{Kind: engine.SystemActor, ID: "tickets", Channel: "engine"}

var (
	// errMoved says that there is nothing left to say of the ticket: the approval is
	// over, another one was attached, or somebody else has looked at it.
	errMoved = errors.New("the ticket is not the one that is waited for any more")
	// errStopped says that a kill switch keeps a yes from counting.
	errStopped = errors.New("a kill switch stops the agent")
)

// CheckTicket asks the tracker of the ticket that was attached last, outside any
// transaction, and adds the answer to the approval unless that has moved on
// meanwhile. It is the activity of that name; a repetition adds nothing.
func (t *TicketChecker) CheckTicket(ctx context.Context, in workflows.CheckTicketInput) (workflows.CheckTicketResult, error) {
	r, err := t.Store.Approvals.Get(ctx, in.ApprovalID)
	if errors.Is(err, store.ErrNotFound) {
		return workflows.CheckTicketResult{}, temporal.NewNonRetryableApplicationError("no such approval", "not_found", nil)
	}
	if err != nil {
		return workflows.CheckTicketResult{}, fmt.Errorf("read %s to look at its ticket: %w", in.ApprovalID, err)
	}
	link := waitedFor(r.Approval)
	if link == nil {
		return workflows.CheckTicketResult{}, nil
	}
	later := workflows.CheckTicketResult{RetryIn: askAgain}
	found, err := t.ask(ctx, r, *link.Details.Ticket)
	if err != nil {
		t.Logger.WarnContext(ctx, "a ticket's tracker gives no answer", "approval", in.ApprovalID, "system", link.Details.Ticket.System, "error", err)
		return later, nil
	}
	err = t.Store.Approvals.Change(ctx, in.ApprovalID, nil, func(c *store.Change) (any, error, error) {
		return nil, nil, t.add(c, link.Seq, found)
	})
	switch {
	case errors.Is(err, errMoved):
		return workflows.CheckTicketResult{}, nil
	case errors.Is(err, errStopped), errors.Is(err, store.ErrKilled):
		return later, nil
	case err != nil:
		return workflows.CheckTicketResult{}, fmt.Errorf("write down what was found of the ticket of %s: %w", in.ApprovalID, err)
	}
	return workflows.CheckTicketResult{}, nil
}

func (t *TicketChecker) ask(ctx context.Context, r store.Record, ticket approval.Ticket) (approval.Ticket, error) {
	if t.Trackers == nil {
		return ticket, errors.New("no ticket system is configured")
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	return t.Trackers.Check(ctx, ticket, r.Approval.Plan.Requirements[r.Approval.State.Stage].Ticket, r.Approval.Plan.OpenedAt, r.Now)
}

// waitedFor is the ticket that an approval waits to hear of; nil for none.
func waitedFor(a approval.Approval) *approval.Fact {
	if a.Status != approval.Pending || a.State.Status != approval.Pending || a.State.Checked != nil {
		return nil
	}
	return a.State.Ticket
}

// add appends what was found of the ticket that fact seq attached, and its event.
func (t *TicketChecker) add(c *store.Change, seq int64, found approval.Ticket) error {
	link := waitedFor(c.Approval)
	if link == nil || link.Seq != seq {
		return errMoved
	}
	f := approval.Fact{Kind: approval.TicketCheck, Actor: asker, Yes: found.Code == "", Details: approval.Details{Ticket: &found}}
	if f.Yes && c.Kill != nil {
		return errStopped
	}
	if approval.Admit(c.Approval.Plan, c.Approval.Facts, f, c.Now) != nil {
		return errMoved
	}
	deadline := c.Approval.State.Deadline
	if err := c.AddFact(f); err != nil {
		return err
	}
	if !c.Now.Before(deadline) {
		return errMoved
	}
	e := t.Event(engine.Ticketed, c.Approval.Decision.Outcome, c.Approval, asker)
	e.Reasons = []engine.Reason{{Code: "TICKET_VALIDATED", Message: "The ticket was found to cover the call."}}
	if !f.Yes {
		e.Reasons = []engine.Reason{{Code: "TICKET_REJECTED", Message: "The ticket does not cover the call (" + found.Code + "): " + found.Message}}
	}
	var err error
	if e.SafePayload, err = json.Marshal(lastFact(c).Told()); err != nil {
		return fmt.Errorf("encode what was found of a ticket: %w", err)
	}
	c.AddEvent(e)
	return nil
}
