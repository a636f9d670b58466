package gate

import (
	"context"
	"encoding/json"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// UngatedExecution is a call that ran although nothing had permitted it, as the
// program beside the agent has found.
type UngatedExecution struct {
	Tool      string
	Arguments *canon.Value // nil when they are not told; they are not kept
	Outcome   approval.Execution
	Session   string // the host's conversation
	CallID    string // the host's id of the call
	Host      string // what the agent runs in
	RequestID string
}

// ungatedExecution is the reason's code of a call that ran without a decision.
const ungatedExecution = "UNGATED_EXECUTION"

// ReportUngated puts on record that a call ran without a decision, also while a kill switch
// stops its agent, and returns the event. The digest finds the decisions on the same call.
func (g *Gate) ReportUngated(ctx context.Context, p access.Principal, u UngatedExecution, once *access.Idempotency[engine.Event]) (engine.Event, error) {
	if p.AgentID == "" {
		return engine.Event{}, &access.Refusal{Kind: access.Forbidden, Code: "not_an_agent", Detail: "Only an agent's own key, or its runtime's, reports what the agent ran."}
	}
	e := engine.Event{
		ID: store.NewEventID(), Type: engine.Ungated, RequestID: u.RequestID, AgentID: p.AgentID, ToolName: u.Tool, Outcome: engine.Allow,
		Reasons:     []engine.Reason{{Code: ungatedExecution, Message: "The call ran without a decision that permitted it."}},
		SafePayload: json.RawMessage(`{}`), Actor: p.Actor(), PolicyDigest: g.Judge().Digest(),
	}
	if r := bounded(engine.Call{Tool: u.Tool}); r != nil {
		e.ToolName, e.Type = "", engine.Refusal
		return engine.Event{}, g.refuse(ctx, r, e)
	}
	payload := map[string]any{"execution": u.Outcome, "session": word(u.Session), "call_id": word(u.CallID), "host": word(u.Host)}
	if u.Arguments != nil {
		e.DigestHMAC = g.Sealer.Digest(canon.Digest(u.Tool, *u.Arguments))
		payload["argument_count"], payload["argument_keys"] = u.Arguments.Len(), words(aana.ArgumentKeys(*u.Arguments))
	}
	if err := e.SetPayload(payload); err != nil {
		return engine.Event{}, err
	}
	finish := func(stored store.SubmitResult) engine.Event {
		told := e
		told.Timestamp = stored.At.UTC().Truncate(time.Microsecond)
		return told
	}
	stored, err := g.Store.Submit(ctx, store.Submission{Event: e, Idempotency: access.Adapt(once, finish)})
	if err != nil {
		return engine.Event{}, err
	}
	return finish(stored), nil
}
