package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/dialect/authzen"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// The refusals of AuthZEN's Access Request and Approval Profile.
var (
	notRequestable = &access.Refusal{Kind: access.Malformed, Code: "not_requestable", Detail: "This evaluation opened no approval, so there is nothing to ask for."}
	invalidBinding = &access.Refusal{Kind: access.Malformed, Code: "invalid_denial_binding", Detail: "No evaluation of this agent has this id and is about this subject, action and resource."}
	expiredDenial  = &access.Refusal{Kind: access.Expired, Code: "expired_denial", Detail: "The time in which this could be asked for is over. Evaluate it again."}
)

// EvaluationID names an evaluation to those who ask for access by it: its event, and the
// approval that it waits for.
func EvaluationID(e engine.Event, waiting *approval.Approval) string {
	if waiting == nil || waiting.Status != approval.Pending {
		return e.ID
	}
	return e.ID + "." + waiting.ID
}

// RequestAccess records that a program asks for access after an evaluation that waits.
// The evaluation has asked people already, so the answer is the approval that waits.
func (g *Gate) RequestAccess(ctx context.Context, p access.Principal, s authzen.Submission, requestID string, once *access.Idempotency[View]) (View, error) {
	var none View
	refuse := func(r *access.Refusal) (View, error) {
		return none, g.refuse(ctx, r, engine.Event{
			ID: store.NewEventID(), Type: engine.Refusal, RequestID: requestID, AgentID: p.AgentID, SafePayload: json.RawMessage(`{}`), Actor: p.Actor(),
		})
	}
	if err := g.answered(ctx, p, once.Of()); err != nil {
		return none, err
	}
	event, id, waited := strings.Cut(s.EvaluationID, ".")
	if !waited {
		return refuse(notRequestable)
	}
	v, err := g.Queries.ForAgent(ctx, p, id)
	if errors.Is(err, access.NoSuchApproval) {
		return refuse(invalidBinding)
	}
	if err != nil {
		return none, err
	}
	bound, err := g.Store.Events.Evaluated(ctx, event, id, g.Sealer.Digest(s.Binding()))
	switch {
	case err != nil:
		return none, err
	case !bound:
		return refuse(invalidBinding)
	case !v.Now.Before(v.Approval.Plan.ExpiresAt):
		return refuse(expiredDenial)
	case v.Approval.Status != approval.Pending:
		return v, nil
	}
	told := func(c *store.Change) engine.Event {
		e := g.event(engine.Decided, c.Approval.Decision.Outcome, c.Approval, p.Actor(), requestID)
		e.Reasons = []engine.Reason{{Code: "ACCESS_REQUESTED", Message: "Access was asked for after this evaluation. The call waits already, so nobody is asked again."}}
		_ = e.SetPayload(map[string]any{"dialect": DialectAuthZEN, "joined": true}) // these always encode
		return e
	}
	return change(ctx, g.core, id, once, told, func(c *store.Change) (View, error) {
		c.AddEvent(told(c))
		return View{Approval: c.Approval, Now: c.Now}, nil
	})
}

// What a program does about an approval that does not permit its call.
const (
	retryEvaluation = "retry"
	noNextAction    = "none"
)

// reevaluate answers a request that presents an approval: it is permitted once, by
// redeeming the approval's token, as any approved call is.
func (g *Gate) reevaluate(ctx context.Context, p access.Principal, request authzen.Request, proposal *Proposal, r Request, once *access.Idempotency[Evaluated]) (Evaluated, error) {
	if err := g.answered(ctx, p, once.Of()); err != nil {
		return Evaluated{}, err
	}
	turnedDown := func(code, next, message string) (Evaluated, error) {
		return g.notPermitted(ctx, p, proposal, r, notApplicable{code, next, message}, once)
	}
	v, err := g.Queries.ForAgent(ctx, p, request.Approval())
	if err != nil && !errors.Is(err, access.NoSuchApproval) {
		return Evaluated{}, err
	}
	bound := false
	if err == nil {
		// What was evaluated later for somebody else has not been shown to people.
		if bound, err = g.Store.Events.Bound(ctx, v.Approval.ID, proposal.binding); err != nil {
			return Evaluated{}, err
		}
	}
	switch a := v.Approval; {
	case !bound:
		return turnedDown("approval_unverifiable", noNextAction, "No approval of this agent for this subject, action and resource has this id.")
	case a.Status == approval.Pending:
		return turnedDown("approval_pending", retryEvaluation, "Nobody has decided yet.")
	case a.Status == approval.Expired:
		return turnedDown("approval_expired", noNextAction, "The approval ran out of time. Evaluate the call without it to ask again.")
	case a.Status != approval.Approved:
		return turnedDown("policy_denied", noNextAction, "It was not approved.")
	case v.Token == "":
		return turnedDown("approval_expired", noNextAction, "The approval was used, or is not good any more. Evaluate the call without it to ask again.")
	}
	finish := func(redeemed Redemption, err error) (Evaluated, error) {
		var refused *access.Refusal
		if errors.As(err, &refused) && refused.Kind != access.Unavailable {
			n := notApplicable{"policy_denied", noNextAction, refused.Detail}
			switch refused.Code {
			case "arguments_mismatch":
				n.code = "out_of_scope"
			case usedToken.Code, expiredToken.Code, staleToken.Code:
				n.code = "approval_expired"
			}
			d := g.Judge().refusal(proposal, n)
			return Evaluated{Decision: d, Event: engine.Event{ID: redeemed.Event.ID, Timestamp: redeemed.Event.At, Outcome: d.Outcome}, NextAction: n.next}, nil
		}
		if err != nil {
			return Evaluated{}, err
		}
		return Evaluated{
			Decision: engine.Decision{Route: engine.Accept, Outcome: engine.Allow, Constraints: redeemed.Constraints}, Approval: &v.Approval,
			Event:         engine.Event{ID: redeemed.Event.ID, Timestamp: redeemed.Event.At, Outcome: engine.Allow},
			ApprovedUntil: v.ValidUntil, LeaseUntil: redeemed.LeaseUntil,
		}, nil
	}
	var kept *access.Idempotency[Redemption]
	if once != nil {
		kept = &access.Idempotency[Redemption]{Request: once.Request, Render: func(redeemed Redemption, err error) access.Reply { return once.Render(finish(redeemed, err)) }}
	}
	return finish(g.Redeem(ctx, p, RedeemRequest{
		Token: v.Token, Tool: proposal.Call.Tool, Arguments: proposal.Arguments, Preconditions: r.Preconditions, RequestID: r.ID,
	}, kept))
}

// notApplicable is why an approval does not permit the call that it is presented for.
type notApplicable struct{ code, next, message string }

// refusal is the decision on a call whose approval does not permit it.
func (j *Judge) refusal(p *Proposal, n notApplicable) engine.Decision {
	return engine.Evaluate(p.Call, j.Digest(), always(engine.CheckResult{Findings: []engine.Finding{{Source: authzen.Dialect, Code: n.code, Route: engine.Refuse, Message: n.message}}}))
}

// notPermitted puts on record that an approval was presented that does not permit the
// call.
func (g *Gate) notPermitted(ctx context.Context, p access.Principal, proposal *Proposal, r Request, n notApplicable, once *access.Idempotency[Evaluated]) (Evaluated, error) {
	proposal.Call.RequestID = cmp.Or(proposal.Call.RequestID, r.ID)
	if refused := bounded(proposal.Call); refused != nil {
		return Evaluated{}, refused
	}
	d := g.Judge().refusal(proposal, n)
	finish := func(o Outcome) Evaluated {
		return Evaluated{Decision: o.Decision, Event: o.Event, NextAction: n.next}
	}
	o, err := g.store(ctx, Judgement{Decision: d}, store.Submission{Event: g.decided(p, proposal, d)}, access.Adapt(once, finish))
	if err != nil {
		return Evaluated{}, err
	}
	return finish(o), nil
}
