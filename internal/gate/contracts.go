package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// ContractMethod is one of SafeAI's three methods.
type ContractMethod string

// The three methods.
const (
	ValidateRequest   ContractMethod = "validate_tool_request"
	InterceptRequest  ContractMethod = "intercept_tool_request"
	InterceptResponse ContractMethod = "intercept_tool_response"
)

// ContractQuestion is what a tool's contract is asked about. Payload is the
// request's, or the tool's response.
type ContractQuestion struct {
	Method   ContractMethod
	Tool     string
	DataTags []string
	Payload  canon.Value
}

// AskContract answers a question by the tool contracts in force, in the
// method's own form, and puts the answer on record without any value of it.
// Where no contracts are in force no tool is declared, and nothing is allowed.
func (g *Gate) AskContract(ctx context.Context, p access.Principal, q ContractQuestion, requestID string, once *access.Idempotency[any]) (any, error) {
	if r := bounded(engine.Call{Tool: q.Tool}); r != nil {
		return nil, g.refuse(ctx, r, engine.Event{
			ID: store.NewEventID(), Type: engine.Refusal, RequestID: requestID, AgentID: p.AgentID, SafePayload: json.RawMessage(`{}`), Actor: p.Actor(),
		})
	}
	if err := g.answered(ctx, p, once.Of()); err != nil {
		return nil, err
	}
	asks := g.asking(p, DialectSafeAI, q.Tool, requestID)
	v, err := g.vetoed(ctx, &asks)
	if err != nil {
		return nil, err
	}
	if v != nil {
		return nil, g.contractVetoed(ctx, p, q, &asks, v)
	}
	judge := g.Judge()
	asks.Call.Environment, asks.Arguments, asks.labels, asks.state = judge.Environment, q.Payload, q.DataTags, stateOf(p.MaxState)
	labels := slices.Concat(q.DataTags, judge.tool(&asks).DataLabels)
	contracts := judge.Contracts
	if contracts == nil {
		contracts = noContracts
	}
	var answer any
	reason := engine.Reason{Code: "tool_contract_allowed", Message: "The tool's contract allows it."}
	outcome := engine.Allow
	payload := map[string]any{"method": q.Method, "data_tags": words(q.DataTags)}
	// What the caller is told names its own tags and members; the log does not.
	deny := func(answered *string) {
		message := "The tool's contract does not allow it."
		if answered == nil {
			message = "The tool has no contract."
		}
		outcome, reason = engine.Deny, engine.Reason{Code: safeai.Violation, Message: message}
	}
	redacted := func(list []safeai.Redaction) {
		tags := make([]string, 0, len(list))
		for _, r := range list {
			tags = append(tags, r.Tag)
		}
		slices.Sort(tags)
		payload["redactions"], payload["redacted_tags"] = len(list), slices.Compact(tags)
	}
	switch q.Method {
	case ValidateRequest:
		v := contracts.ValidateRequest(q.Tool, labels)
		if answer = v; !v.Allowed {
			deny(v.Reason)
		}
	case InterceptRequest:
		i := contracts.InterceptRequest(q.Tool, q.Payload, labels, judge.Detector)
		if i.Action != safeai.Allow {
			deny(i.Reason)
		} else if d := judge.Beside(&asks, g.Store.Clock()); d.Route != engine.Accept {
			// The contract is one of several judges here too.
			outcome, reason = engine.Deny, boundedReasons(d.StrictestFirst())[0]
			i = i.Blocked(blockedBecause(d.Route, reason))
		}
		answer = i
		payload["detected_tags"] = i.DetectedTags
		redacted(i.Redactions)
	case InterceptResponse:
		f := contracts.InterceptResponse(q.Tool, q.Payload, judge.Detector)
		answer = f
		payload["stripped_fields"] = len(f.StrippedFields)
		redacted(f.Redactions)
	default:
		return nil, fmt.Errorf("unknown contract method %q", q.Method)
	}
	encoded, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("encode what was asked of a contract: %w", err)
	}
	sub := store.Submission{Event: engine.Event{
		ID: store.NewEventID(), Type: engine.ToolContract, RequestID: requestID, AgentID: p.AgentID, ToolName: q.Tool, Outcome: outcome,
		Reasons: []engine.Reason{reason}, SafePayload: encoded, Actor: p.Actor(), PolicyDigest: judge.Digest(),
	}}
	sub.Idempotency = access.Adapt(once, func(store.SubmitResult) any { return answer })
	_, err = g.Store.Submit(ctx, sub)
	if isKilled(err) {
		return nil, g.refuse(ctx, killedRefusal, engine.Event{
			ID: store.NewEventID(), Type: engine.Refusal, RequestID: requestID, AgentID: p.AgentID, ToolName: q.Tool, SafePayload: encoded, Actor: p.Actor(),
		})
	}
	return answer, g.unlessKilled(ctx, p.AgentID, p.Actor(), err)
}

// blockedBecause is what the caller of an interception is told of a call that its
// contract allows and the other rules do not let through at once.
func blockedBecause(route engine.Route, first engine.Reason) string {
	text := first.Code + ": " + first.Message
	if route.Waits() {
		text += " Propose the call to have it approved."
	}
	return text
}

// contractVetoed turns a question away that a veto has stopped.
func (g *Gate) contractVetoed(ctx context.Context, p access.Principal, q ContractQuestion, asks *Proposal, v *veto) error {
	e := g.decided(p, asks, engine.Decision{Findings: []engine.Finding{v.finding}, Route: engine.Refuse, PolicyDigest: g.Judge().Digest()})
	e.Type, e.Outcome, e.PluginSource, e.ToolName = engine.ToolContract, v.outcome, v.source, q.Tool
	if _, err := g.Store.Submit(ctx, store.Submission{Event: e}); err != nil {
		return err
	}
	switch {
	case v.refusal != nil:
		return v.refusal
	case v.outcome == engine.KillSwitch:
		return killedRefusal
	}
	return &access.Refusal{Kind: access.Forbidden, Code: v.finding.Code, Detail: v.finding.Message}
}

var noContracts = func() *safeai.Set {
	s, _ := safeai.Parse(canon.Object(canon.Member{Name: "tool_contracts", Value: canon.Object()}))
	return s
}()
