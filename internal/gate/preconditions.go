package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/authzen"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// errStale says that a token is stale, or has to be marked so.
var errStale = errors.New("the call does not fit the world any more")

// unchanged compares what a call was made to depend on with what the caller
// finds now. Where anything is different, or was not looked at, the token is
// spent on nothing.
func unchanged(a approval.Approval, found map[string]string) *access.Refusal {
	for name := range a.Preconditions {
		if _, looked := found[name]; !looked {
			return &access.Refusal{Kind: access.Invalid, Code: "preconditions_required", Detail: "The call depends on things being as they were. Say in preconditions what they are now; all names of the approval's preconditions are needed."}
		}
	}
	for name, value := range a.Preconditions {
		if found[name] != value {
			return staleToken
		}
	}
	return nil
}

// outdated marks the token of a call that does not fit the world any more, and
// asks people anew.
func (g *Gate) outdated(ctx context.Context, p access.Principal, id string, r RedeemRequest, event func(*store.Change) engine.Event) error {
	_, err := change[access.Done](ctx, g.core, id, nil, event, func(c *store.Change) (access.Done, error) {
		switch {
		case c.Token == nil || c.Token.RedeemedAt != nil:
			return access.Done{}, usedToken // by somebody who was quicker, before anything had changed
		case c.Token.StaleAt == nil:
			if err := c.Stale(); err != nil {
				return access.Done{}, err
			}
		}
		return access.Done{}, staleToken
	})
	if !errors.Is(err, staleToken) {
		return err
	}
	return g.succeed(ctx, p, id, r, staleToken)
}

// succeed asks people anew for a call that does not fit the world any more: the
// same call, depending on what the caller has found now. The refusal names the
// approval that was opened. However often and by how many at once it is asked for,
// there is one.
func (g *Gate) succeed(ctx context.Context, p access.Principal, id string, r RedeemRequest, stale *access.Refusal) error {
	record, err := g.Store.Approvals.Get(ctx, id)
	if err != nil {
		return err
	}
	if record.Approval.Successor != "" {
		return stale.WithSuccessor(record.Approval.Successor)
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
	if record.Approval.Call.Dialect == DialectAuthZEN {
		request, _ := authzen.Parse(doc) // proposeAgain has read it without a mistake
		g.bind(&proposal, request)
	}
	conditions := maps.Clone(record.Approval.Preconditions)
	for name := range conditions {
		conditions[name] = r.Preconditions[name]
	}
	proposal.session = record.Approval.Session
	// Whoever has written these arguments approves them as little as before.
	proposal.barred, proposal.barredByClaim = record.Approval.Plan.Excluded, record.Approval.Plan.ByClaim
	opened := func(o Outcome) string {
		if o.Approval == nil || o.Approval.Status != approval.Pending {
			return "" // the rules in force decide it at once, when it is proposed again
		}
		return o.Approval.ID
	}
	// No caller's key has this credential.
	once := &access.Idempotency[Outcome]{
		Request: access.Request{Credential: "successor", Key: id, Hash: []byte(id)},
		Render:  func(o Outcome, _ error) access.Reply { return access.Reply{Body: []byte(opened(o))} },
	}
	o, err := g.submit(ctx, p, &proposal, Request{ID: r.RequestID, Separate: true, Circumstances: approval.Circumstances{Preconditions: conditions}}, once)
	linked := ""
	var refused *access.Refusal
	var kept *access.Replay
	switch {
	case errors.As(err, &refused):
		return stale // too many wait, or a limit is reached: the agent may ask again itself
	case errors.As(err, &kept):
		linked = string(kept.Reply.Body)
	case err != nil:
		return err
	default:
		linked = opened(o)
	}
	if linked == "" {
		return stale
	}
	err = g.Store.Approvals.Change(ctx, id, nil, func(c *store.Change) error {
		if c.Approval.Successor != "" {
			linked = c.Approval.Successor
			return nil
		}
		e := g.event(engine.Redeemed, engine.Deny, c.Approval, p.Actor(), r.RequestID)
		e.Reasons = []engine.Reason{{Code: "SUCCEEDED_BY", Message: "People are asked anew, by " + linked + "."}}
		c.AddEvent(e)
		return c.Succeed(linked)
	})
	if err != nil {
		return err
	}
	return stale.WithSuccessor(linked)
}

// proposeAgain reads an approval's sealed document as the proposal that it was,
// with what it claims capped at limit.
func (g *core) proposeAgain(a approval.Approval, doc canon.Value, limit string) (Proposal, error) {
	p, err := proposeCapped(a.Call.Dialect, doc, a.Call.AgentID, limit, g.Store.Clock())
	if err == nil && !p.Valid {
		err = errors.New("the document is not valid any more")
	}
	p.Call.Environment, p.Call.RequestID = a.Call.Environment, a.Call.RequestID
	return p, err
}
