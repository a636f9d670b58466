package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/store"
)

// unchanged compares what a call was made to depend on with what the caller
// finds now. Where anything is different, or was not looked at, the token is
// spent on nothing.
func unchanged(c *store.Change, found map[string]string) (*Refusal, error) {
	for name := range c.Approval.Preconditions {
		if _, looked := found[name]; !looked {
			return &Refusal{Status: 422, Code: "preconditions_required", Detail: "The call depends on things being as they were. Say in preconditions what they are now; all names of the approval's preconditions are needed."}, nil
		}
	}
	if len(c.Approval.Preconditions) == 0 || maps.Equal(c.Approval.Preconditions, found) {
		return nil, nil
	}
	for name, value := range c.Approval.Preconditions {
		if found[name] != value {
			return staleToken, c.Stale()
		}
	}
	return nil, nil
}

// succeed asks people anew for a call that does not fit the world any more: the
// same call, depending on what the caller has found now. The refusal names the
// approval that was opened. A call that has its successor gets that one.
func (g *Gate) succeed(ctx context.Context, p Principal, id string, r RedeemRequest, stale *Refusal) error {
	record, err := g.Store.Get(ctx, id)
	if err != nil {
		return err
	}
	if record.Approval.Successor != "" {
		return stale.with(record.Approval.Successor)
	}
	document, err := g.Sealer.Open(id, record.Sealed)
	if err != nil {
		return stale // what was asked for is gone: nobody can be asked again
	}
	doc, err := canon.Parse(document)
	if err != nil {
		return fmt.Errorf("read the sealed document of %s: %w", id, err)
	}
	proposal, err := g.proposeAgain(record.Approval, doc, p.MaxState)
	if err != nil {
		return fmt.Errorf("ask again for %s: %w", id, err)
	}
	conditions := maps.Clone(record.Approval.Preconditions)
	for name := range conditions {
		conditions[name] = r.Preconditions[name]
	}
	proposal.session = record.Approval.Session
	o, err := g.submit(ctx, p, proposal, Request{ID: r.RequestID, Preconditions: conditions}, nil)
	var refused *Refusal
	if errors.As(err, &refused) {
		return stale // too many wait, or a limit is reached: the agent may ask again itself
	}
	if err != nil {
		return err
	}
	if o.Approval == nil || o.Approval.Status != approval.Pending {
		return stale // the rules in force decide it at once, when it is proposed again
	}
	linked := o.Approval.ID
	err = g.Store.Change(ctx, id, nil, func(c *store.Change) (any, error, error) {
		if c.Approval.Successor != "" {
			linked = c.Approval.Successor
			return nil, nil, nil
		}
		e := g.event(engine.Redeemed, engine.Deny, c.Approval, p.actor(), r.RequestID)
		e.Reasons = []engine.Reason{{Code: "SUCCEEDED_BY", Message: "People are asked anew, by " + linked + "."}}
		c.AddEvent(e)
		return nil, nil, c.Succeed(linked)
	})
	if err != nil {
		return err
	}
	return stale.with(linked)
}

// with is the refusal with the approval to go on with.
func (r *Refusal) with(successor string) *Refusal {
	named := *r
	named.Successor = successor
	named.Detail = "What the call depends on has changed since it was asked for, so it cannot run. People are asked anew by the approval that is named as successor."
	return &named
}

// proposeAgain reads an approval's sealed document as the proposal that it was,
// with what it claims capped at limit.
func (g *Gate) proposeAgain(a approval.Approval, doc canon.Value, limit string) (Proposal, error) {
	p, err := proposeCapped(a.Call.Dialect, doc, a.Call.AgentID, a.ID, limit, time.Now())
	if err == nil && !p.Valid {
		err = errors.New("the document is not valid any more")
	}
	p.Call.Environment, p.Call.RequestID = a.Call.Environment, a.Call.RequestID
	return p, err
}
