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

// join makes a decision durable. A call that waits already, as it is asked for now, joins
// the approval that waits, unless it is to have its own; else it opens one, if its agent
// has room for one more.
func (g *Gate) join(ctx context.Context, p access.Principal, proposal *Proposal, j Judgement, sub store.Submission, once *access.Idempotency[Outcome]) (Outcome, error) {
	if sub.Opening == nil || !j.Route.Waits() {
		return g.store(ctx, j, sub, once)
	}
	for {
		waiting := ""
		if sub.Opening.Joins {
			var err error
			if waiting, err = g.Store.Approvals.Waiting(ctx, sub.Opening); err != nil {
				return Outcome{}, err
			}
		}
		if waiting == "" {
			if err := g.checkPending(ctx, p, proposal, j.Decision); err != nil {
				return Outcome{}, err
			}
			o, err := g.store(ctx, j, sub, once)
			var since *store.Waiting
			if !errors.As(err, &since) {
				return o, err
			}
			waiting = since.ApprovalID // it was opened meanwhile
		}
		o, err := g.joinWaiting(ctx, p, proposal, j, waiting, once)
		if !errors.Is(err, errEnded) {
			return o, err
		}
	}
}

// errEnded says that an approval has ended since it was found waiting.
var errEnded = errors.New("the approval has ended")

// joinWaiting answers a proposed call with the approval that waits for it, under its
// lock: it waits still.
func (g *Gate) joinWaiting(ctx context.Context, p access.Principal, proposal *Proposal, j Judgement, id string, once *access.Idempotency[Outcome]) (Outcome, error) {
	e := g.decided(p, proposal, j.Decision)
	// Without requirements an event begins no approval (engine/audit.Replay).
	e.ApprovalID = id
	e.Reasons = append(e.Reasons, engine.Reason{Code: "JOINED", Message: "The very call waits already, as " + id + ": nobody is asked again."})
	if err := e.AddToPayload("joined", true); err != nil {
		return Outcome{}, err
	}
	o, err := change(ctx, g.core, id, once, func(*store.Change) engine.Event { return e }, func(c *store.Change) (Outcome, error) {
		if c.Approval.Status != approval.Pending {
			return Outcome{}, errEnded
		}
		joined := Outcome{Judgement: j, Event: e, Approval: &c.Approval, Joined: true}
		var err error
		joined.Event.Timestamp, err = c.AppendEvent(e)
		return joined, err
	})
	if err != nil {
		return Outcome{}, g.unlessKilled(ctx, p.AgentID, p.Actor(), err)
	}
	return o, nil
}

// checkPending refuses a call for which its agent has too many waiting already.
func (g *Gate) checkPending(ctx context.Context, p access.Principal, proposal *Proposal, d engine.Decision) error {
	pending, err := g.Store.Approvals.PendingCount(ctx, p.AgentID)
	if err != nil || pending < g.MaxPending {
		return err
	}
	r := &access.Refusal{
		Kind: access.RateLimited, Code: "too_many_pending", RetryAfter: 30 * time.Second,
		Detail: fmt.Sprintf("%d calls of this agent are waiting for people already. Cancel some or wait.", pending),
	}
	e := g.decided(p, proposal, d)
	e.Outcome, e.Reasons = engine.RateLimited, []engine.Reason{{Code: r.Code, Message: r.Detail}}
	if _, err := g.Store.Submit(ctx, store.Submission{Event: e}); err != nil {
		return err
	}
	return r
}
