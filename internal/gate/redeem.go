package gate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/token"
	"holdpoint/internal/store"
)

// RedeemRequest is a token and the call that it is to be spent on.
type RedeemRequest struct {
	Token     string
	Tool      string
	Arguments canon.Value
	RequestID string
}

// Redemption is a spent token: the agent may run the call now, once, within
// the constraints.
type Redemption struct {
	ApprovalID  string
	Constraints json.RawMessage
}

var (
	invalidToken = &Refusal{Status: 401, Code: "token_invalid", Detail: "This token is not one that is good here."}
	expiredToken = &Refusal{Status: 401, Code: "token_expired", Detail: "This token has expired. Ask the approval for a fresh one."}
	usedToken    = &Refusal{Status: 409, Code: "token_used", Detail: "This token has been redeemed already."}
)

// Redeem spends a token: signature, issuer, environment and times, the agent,
// the call's digest and that it is unspent are all checked in the one
// transaction that spends it.
func (g *Gate) Redeem(ctx context.Context, p Principal, r RedeemRequest, once *Once) (Redemption, error) {
	by := p.actor()
	claims, kid, err := token.Open(g.Ring, r.Token, g.Issuer, g.Judge.Environment())
	if err != nil {
		return Redemption{}, g.refuse(ctx, invalidToken, engine.Event{
			ID: newEventID(), Type: engine.Redeemed, RequestID: r.RequestID,
			AgentID: p.AgentID, SafePayload: []byte(`{}`), Actor: by,
		})
	}
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Redeemed, engine.Allow, c.Approval, by, r.RequestID)
	}
	result, err := g.change(ctx, claims.ApprovalID, once, event, func(c *store.Change) (any, error) {
		a := c.Approval
		switch {
		case claims.Subject != p.AgentID || a.Call.AgentID != p.AgentID:
			return nil, &Refusal{Status: 404, Code: "not_found", Detail: "There is no such token."}
		case slices.Contains(c.Revoked, kid):
			return nil, invalidToken
		case c.Token == nil || c.Token.JTI != claims.ID || a.Status != approval.Approved || claims.Digest != a.Call.Digest:
			return nil, invalidToken
		case c.Token.RedeemedAt != nil:
			return nil, usedToken
		case claims.At(c.Now) != nil || !c.Now.Before(c.Token.ValidUntil):
			return nil, expiredToken
		case canon.Digest(r.Tool, r.Arguments) != a.Call.Digest:
			return nil, &Refusal{Status: 403, Code: "arguments_mismatch", Detail: "These are not the tool and arguments that were approved. The token is still good for those."}
		}
		if err := c.Redeem(p.KeyID); err != nil {
			return nil, err
		}
		e := event(c)
		e.Reasons = []engine.Reason{{Code: "REDEEMED", Message: "The token was redeemed; the call may run once."}}
		c.AddEvent(e)
		return Redemption{ApprovalID: a.ID, Constraints: a.Decision.Constraints}, nil
	})
	if errors.Is(err, store.ErrNotFound) {
		// Signed by us, for an approval that this database does not have.
		return Redemption{}, g.refuse(ctx, invalidToken, engine.Event{
			ID: newEventID(), Type: engine.Redeemed, RequestID: r.RequestID,
			AgentID: p.AgentID, SafePayload: []byte(`{}`), Actor: by,
		})
	}
	if err != nil {
		return Redemption{}, err
	}
	return result.(Redemption), nil
}

// ExecutionRequest is what became of a redeemed call.
type ExecutionRequest struct {
	ApprovalID string
	Outcome    approval.Execution // Succeeded, Failed or Unknown
	DurationMS int64
	RequestID  string
}

// Executed records what the agent says became of the call. It is said once.
func (g *Gate) Executed(ctx context.Context, p Principal, r ExecutionRequest, once *Once) (approval.Approval, error) {
	by := p.actor()
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Executed, engine.Allow, c.Approval, by, r.RequestID)
	}
	result, err := g.change(ctx, r.ApprovalID, once, event, func(c *store.Change) (any, error) {
		switch {
		case p.AgentID == "" || c.Approval.Call.AgentID != p.AgentID:
			return nil, notFound
		case c.Approval.Execution == approval.NotRun:
			return nil, &Refusal{Status: 409, Code: "not_redeemed", Detail: "The approval's token has not been redeemed, so nothing can have run."}
		case c.Approval.Execution != approval.Redeemed:
			return nil, &Refusal{Status: 409, Code: "already_reported", Detail: "What became of this call has been reported already."}
		}
		if err := c.Executed(r.Outcome); err != nil {
			return nil, err
		}
		e := event(c)
		e.Reasons = []engine.Reason{{Code: "EXECUTION_" + map[approval.Execution]string{
			approval.Succeeded: "SUCCEEDED", approval.Failed: "FAILED",
			approval.Unknown: "UNKNOWN",
		}[r.Outcome], Message: "The agent reported what became of the call."}}
		payload, err := json.Marshal(map[string]any{"execution": r.Outcome, "duration_ms": r.DurationMS})
		if err != nil {
			return nil, err
		}
		e.SafePayload = payload
		c.AddEvent(e)
		return c.Approval, nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return approval.Approval{}, g.refuse(ctx, notFound, engine.Event{
			ID: newEventID(), Type: engine.Executed, RequestID: r.RequestID,
			ApprovalID: formed(r.ApprovalID), AgentID: p.AgentID, SafePayload: []byte(`{}`), Actor: by,
		})
	}
	if err != nil {
		return approval.Approval{}, err
	}
	return result.(approval.Approval), nil
}
