package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/token"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// RedeemRequest is a token and the call that it is to be spent on.
type RedeemRequest struct {
	Token     string
	Tool      string
	Arguments canon.Value
	// Preconditions are what the caller finds the things to be now that the call
	// was made to depend on.
	Preconditions map[string]string
	// Lease is how long the call may take before nobody knows what became of it; 0
	// leaves it to the gate.
	Lease     time.Duration
	RequestID string
}

// Redemption is a spent token: the agent may run the call now, once, within
// the constraints.
type Redemption struct {
	ApprovalID  string
	Constraints json.RawMessage
	// LeaseUntil is by when the agent has to say what became of the call.
	LeaseUntil time.Time
	// Event names what the log has of it, and when that was. A refusal has it, too.
	Event EventRef
}

// EventRef names an event.
type EventRef struct {
	ID string
	At time.Time
}

var (
	invalidToken = &access.Refusal{Kind: access.Unauthenticated, Code: "token_invalid", Detail: "This token is not one that is good here."}
	expiredToken = &access.Refusal{Kind: access.Unauthenticated, Code: "token_expired", Detail: "This token has expired. Ask the approval for a fresh one."}
	staleToken   = &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "What the call depends on has changed since it was asked for, so it cannot run. Ask again."}
	usedToken    = &access.Refusal{Kind: access.Conflict, Code: "token_used", Detail: "This token has been redeemed already."}
)

// Redeem spends a token: signature, issuer, environment and times, the agent,
// the call's digest and that it is unspent are all checked in the one
// transaction that spends it.
func (g *Gate) Redeem(ctx context.Context, p access.Principal, r RedeemRequest, once *access.Idempotency[Redemption]) (Redemption, error) {
	by, said := p.Actor(), EventRef{store.NewEventID(), g.Store.Clock()}
	claims, kid, err := g.openToken(ctx, r.Token)
	if err != nil && !errors.Is(err, token.ErrInvalid) {
		return Redemption{Event: said}, err // whether it is ours could not be looked up
	}
	if err != nil {
		return Redemption{Event: said}, g.refuse(ctx, invalidToken, engine.Event{
			ID: said.ID, Type: engine.Redeemed, RequestID: r.RequestID,
			AgentID: p.AgentID, SafePayload: []byte(`{}`), Actor: by,
		})
	}
	if r.Lease < 0 || r.Lease > MaxLease {
		return Redemption{Event: said}, g.refuse(ctx, &access.Refusal{Kind: access.Invalid, Code: "lease", Detail: "A lease lasts at most " + MaxLease.String() + "."}, engine.Event{
			ID: said.ID, Type: engine.Redeemed, RequestID: r.RequestID,
			ApprovalID: claims.ApprovalID, AgentID: p.AgentID, SafePayload: []byte(`{}`), Actor: by,
		})
	}
	lease := cmp.Or(r.Lease, g.Lease)
	if err := g.ticketStillGood(ctx, p, claims.ApprovalID, by, r.RequestID, said.ID); err != nil {
		return Redemption{Event: said}, err
	}
	event := func(c *store.Change) engine.Event {
		e := g.event(engine.Redeemed, engine.Allow, c.Approval, by, r.RequestID)
		e.ID = said.ID
		return e
	}
	spend := func(c *store.Change) (none Redemption, err error) {
		said.At = c.Now
		none.Event = said
		if r := g.spendable(c, p, claims, kid); r != nil {
			return none, r
		}
		if r := boundTo(c.Approval, claims, r.Tool, r.Arguments); r != nil {
			return none, r
		}
		if refused := unchanged(c.Approval, r.Preconditions); refused != nil {
			return none, refused
		}
		if err := c.Redeem(p.KeyID, lease); err != nil {
			return none, err
		}
		e := event(c)
		e.Reasons = []engine.Reason{{Code: "REDEEMED", Message: "The token was redeemed; the call may run once."}}
		c.AddEvent(e)
		constraints := c.Approval.Decision.Constraints
		if c.Token.Constraints != nil {
			constraints = c.Token.Constraints
		}
		return Redemption{ApprovalID: c.Approval.ID, Constraints: constraints, LeaseUntil: c.Now.Add(lease), Event: said}, nil
	}
	result, err := change(ctx, g.core, claims.ApprovalID, once, event, func(c *store.Change) (Redemption, error) {
		result, err := spend(c)
		if errors.Is(err, staleToken) {
			return result, errStale
		}
		return result, err
	})
	if errors.Is(err, errStale) {
		// Its answer is not kept: it names the successor, which is the same every time.
		return Redemption{Event: said}, g.outdated(ctx, p, claims.ApprovalID, r, event)
	}
	if kept := (*access.Replay)(nil); errors.As(err, &kept) {
		return Redemption{Event: said}, g.unlessKilled(ctx, p.AgentID, p.Actor(), err)
	}
	if errors.Is(err, store.ErrNotFound) {
		// Signed by us, for an approval that this database does not have.
		return Redemption{Event: said}, g.refuse(ctx, invalidToken, engine.Event{
			ID: said.ID, Type: engine.Redeemed, RequestID: r.RequestID,
			AgentID: p.AgentID, SafePayload: []byte(`{}`), Actor: by,
		})
	}
	if isKilled(err) {
		// The switch was thrown between looking and writing: nothing was spent.
		return Redemption{Event: said}, g.refuse(ctx, killedRefusal, engine.Event{
			ID: said.ID, Type: engine.Redeemed, RequestID: r.RequestID,
			ApprovalID: claims.ApprovalID, AgentID: p.AgentID, SafePayload: []byte(`{}`), Actor: by,
		})
	}
	if err != nil {
		return Redemption{Event: said}, err
	}
	return result, nil
}

// RedeemedAt says when the token of an approval was spent whose redemption was
// answered with success before, for the answer to its repetition. Once it is on
// record what became of the call, it refuses: whoever repeats the redemption then
// would run the call again.
func (g *Gate) RedeemedAt(ctx context.Context, p access.Principal, approvalID, requestID string) (time.Time, error) {
	r, err := g.Store.Approvals.Get(ctx, approvalID)
	if err != nil {
		return time.Time{}, err
	}
	if r.Token == nil || r.Token.RedeemedAt == nil {
		return time.Time{}, fmt.Errorf("the token of %s is not spent, although that was answered", approvalID)
	}
	if r.Approval.Execution != approval.Redeemed {
		return time.Time{}, g.refuse(ctx, &access.Refusal{
			Kind: access.Conflict, Code: "already_reported",
			Detail: "This token was redeemed before, and what became of the call is on record: " + string(r.Approval.Execution) + ". Do not run it again.",
		}, g.event(engine.Redeemed, engine.Deny, r.Approval, p.Actor(), requestID))
	}
	return r.Token.RedeemedAt.UTC(), nil
}

// spendable refuses a token that is not this agent's, not good any more, or
// spent, and every token of what has been stopped or revoked since.
func (g *Gate) spendable(c *store.Change, p access.Principal, claims token.Claims, kid string) *access.Refusal {
	a := c.Approval
	switch {
	case claims.Subject != p.AgentID || a.Call.AgentID != p.AgentID:
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such token."}
	case slices.Contains(c.Revoked, kid):
		return invalidToken
	case c.Kill != nil:
		return killedRefusal
	case c.Token == nil || c.Token.JTI != claims.ID || a.Status != approval.Approved:
		return invalidToken
	case c.Token.RedeemedAt != nil:
		return usedToken
	case c.Token.StaleAt != nil:
		return staleToken
	case claims.At(c.Now) != nil || !c.Now.Before(c.Token.ValidUntil):
		return expiredToken
	}
	return g.stillRegistered(a)
}

// killedRefusal is the refusal of anything that would let a stopped agent go on.
var killedRefusal = &access.Refusal{Kind: access.Stopped, Code: "kill_switch", Detail: "A kill switch stops this agent: nothing of it can be approved or run while it is on."}

// stillRegistered refuses to let a call run whose agent or tool has been
// revoked since it was approved.
func (g *Gate) stillRegistered(a approval.Approval) *access.Refusal {
	known := g.Judge().Registry
	if agent, ok := known.Agents[a.Call.AgentID]; ok && agent.RevokedAt != nil {
		return &access.Refusal{Kind: access.Stopped, Code: "agent_revoked", Detail: "The agent's registration has been revoked since the call was approved."}
	}
	if tool, ok := known.Tools[a.Call.Tool]; ok && tool.RevokedAt != nil {
		return &access.Refusal{Kind: access.Stopped, Code: "tool_revoked", Detail: "The tool's registration has been revoked since the call was approved."}
	}
	return nil
}
