package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// Tracker looks tickets up.
type Tracker interface {
	// Names are the systems that there are.
	Names() []string
	// Ticket reads a reference of a system, "" for the only one that there is, as
	// the ticket that it means, without asking anybody. An error is for people to
	// read: there is no such system, or the text is no reference of it.
	Ticket(system, ref string) (approval.Ticket, error)
	// Check asks the ticket's tracker whether it covers a call that was asked for at
	// a time. The answer has a Code when it does not. An error means that the
	// tracker cannot be asked now.
	Check(ctx context.Context, t approval.Ticket, terms *engine.TicketTerms, requestedAt, now time.Time) (approval.Ticket, error)
}

// AttachTicket attaches a ticket for the requesting side. Its tracker is asked by
// the approval's workflow.
func (g *Contributions) AttachTicket(ctx context.Context, p access.Principal, id, system, ref, requestID string, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	by := p.Actor()
	ticket, refused := g.ticket(system, ref)
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Ticketed, c.Approval.Decision.Outcome, c.Approval, by, requestID)
	}
	return g.contribute(ctx, id, once, approval.Fact{Kind: approval.TicketLink, Actor: by, Details: approval.Details{Ticket: &ticket}}, event, func(c *store.Change) error {
		if p.AgentID == "" || p.AgentID != c.Approval.Call.AgentID {
			return access.NoSuchApproval
		}
		return wanted(c.Approval, ticket, refused)
	})
}

// AttachTicketInPerson is AttachTicket by somebody who may see the approval.
func (g *Contributions) AttachTicketInPerson(ctx context.Context, s Contribution, system, ref string, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	ticket, refused := g.ticket(system, ref)
	return g.contributeFact(ctx, s, engine.Ticketed, approval.Fact{Kind: approval.TicketLink, Details: approval.Details{Ticket: &ticket}}, once, func(c *store.Change) error {
		return wanted(c.Approval, ticket, refused)
	})
}

// wanted refuses a ticket of a system that the approval does not ask for.
func wanted(a approval.Approval, t approval.Ticket, refused error) error {
	if settledRefusal(a) != nil || a.State.Status != approval.Pending {
		return nil // contribute refuses it
	}
	req := a.Plan.Requirements[a.State.Stage]
	if req.Kind.Traits().Discharger != engine.Tracker {
		return nil // contribute refuses it
	}
	if refused != nil {
		return refused
	}
	if req.Ticket != nil && req.Ticket.System != "" && req.Ticket.System != t.System {
		return &access.Refusal{Kind: access.Invalid, Code: "ticket_system", Detail: fmt.Sprintf("This call needs a ticket of %s.", req.Ticket.System)}
	}
	return nil
}

func (g *Contributions) ticket(system, ref string) (approval.Ticket, error) {
	if g.Tickets == nil {
		return approval.Ticket{}, &access.Refusal{Kind: access.Conflict, Code: "no_ticket_system", Detail: "No ticket system is configured here, so no ticket can be looked at."}
	}
	t, err := g.Tickets.Ticket(system, ref)
	if err != nil {
		return t, &access.Refusal{Kind: access.Invalid, Code: "ticket_ref", Detail: "That is no ticket: " + err.Error() + "."}
	}
	return t, nil
}

// ticketStillGood looks at an approved call's ticket once more before the call
// runs: what was closed or moved since does not cover it any more. Where the
// tracker cannot be asked, nothing is granted.
func (g *Gate) ticketStillGood(ctx context.Context, p access.Principal, id string, by engine.Actor, requestID, eventID string) error {
	r, err := g.Store.Approvals.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (r.Approval.Call.AgentID != p.AgentID || r.Approval.Status != approval.Approved || r.Approval.Execution != approval.NotRun) {
		return nil // Redeem refuses it
	}
	if err != nil {
		return err
	}
	event := func() engine.Event {
		e := g.event(engine.Redeemed, engine.Deny, r.Approval, by, requestID)
		e.ID = eventID
		return e
	}
	for _, c := range coveredBy(r.Approval) {
		again, err := g.lookAgain(ctx, c, r)
		if err != nil {
			g.Logger.WarnContext(ctx, "a ticket's tracker gives no answer", "approval", id, "system", c.ticket.System, "error", err)
			return g.refuse(ctx, ticketUnavailable, event())
		}
		if again.Code != "" {
			return g.refuse(ctx, &access.Refusal{
				Kind: access.Conflict, Code: "ticket_rejected", Detail: "The ticket does not cover the call any more: " + again.Message,
			}, event())
		}
	}
	return nil
}

var ticketUnavailable = &access.Refusal{
	Kind: access.Unavailable, Code: "ticket_unavailable", RetryAfter: 5 * time.Second,
	Detail: "The ticket's tracker cannot be asked at the moment. Nothing was spent; try again.",
}

func (g *Gate) lookAgain(ctx context.Context, c coveredTicket, r store.Record) (approval.Ticket, error) {
	if g.Tickets == nil {
		return c.ticket, errors.New("no ticket system is configured")
	}
	return g.Tickets.Check(ctx, c.ticket, c.terms, r.Approval.Plan.OpenedAt, r.Now)
}

// coveredTicket is a ticket that an approval was given for, and what it had to be.
type coveredTicket struct {
	ticket approval.Ticket
	terms  *engine.TicketTerms
}

// coveredBy lists the tickets that an approval was given for. Each that was found
// good has satisfied one of the requirements, in their order.
func coveredBy(a approval.Approval) (all []coveredTicket) {
	var good []approval.Ticket
	for _, f := range a.Facts {
		if f.Kind == approval.TicketCheck && f.Yes && f.Edition == a.Plan.Edition {
			good = append(good, *f.Details.Ticket)
		}
	}
	for _, req := range a.Plan.Requirements {
		if req.Kind.Traits().Discharger == engine.Tracker && len(all) < len(good) {
			all = append(all, coveredTicket{good[len(all)], req.Ticket})
		}
	}
	return all
}
