package gate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/redact"
	"holdpoint/engine/toolcontract"
	"holdpoint/internal/store"
)

// ExecutionRequest is what became of a redeemed call.
type ExecutionRequest struct {
	ApprovalID string
	Outcome    approval.Execution // Succeeded, Failed or Unknown
	DurationMS int64
	// Findings are the codes of what the host found wrong with the output.
	Findings []string
	// Output is what the tool answered, to be looked at; nil when it was not sent.
	Output    *canon.Value
	RequestID string
}

// ExecutedCall is a call of which it is known what became of it.
type ExecutedCall struct {
	Approval approval.Approval
	// Output is what of the tool's answer the agent may see; nil when no answer
	// was sent.
	Output *toolcontract.Filtered
}

// Executed records what the agent says became of the call. It is said once. An
// output that comes with it is looked at and not kept: the event holds what was
// found in it, by kind and number.
func (g *Gate) Executed(ctx context.Context, p Principal, r ExecutionRequest, once *Once) (ExecutedCall, error) {
	by := p.actor()
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Executed, engine.Allow, c.Approval, by, r.RequestID)
	}
	payload := map[string]any{"execution": r.Outcome, "duration_ms": r.DurationMS}
	if len(r.Findings) > 0 {
		payload["output_findings"] = words(r.Findings)
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
		done := ExecutedCall{Approval: c.Approval}
		if found := g.validateOutput(c.Approval, r, &done, payload); found != nil {
			e.Reasons, e.PluginSource = append(e.Reasons, *found), outputValidator
		}
		e.Reasons = append(e.Reasons, g.executed(ctx, c.Approval, r)...)
		encoded, err := json.Marshal(payload)
		if err != nil {
			return nil, err
		}
		e.SafePayload = encoded
		c.AddEvent(e)
		return done, nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return ExecutedCall{}, g.refuse(ctx, notFound, engine.Event{
			ID: newEventID(), Type: engine.Executed, RequestID: r.RequestID,
			ApprovalID: formed(r.ApprovalID), AgentID: p.AgentID, SafePayload: []byte(`{}`), Actor: by,
		})
	}
	if err != nil {
		return ExecutedCall{}, err
	}
	return result.(ExecutedCall), nil
}

// outputValidator is the plugin source of what was found in an output.
const outputValidator = "output_validator"

// validateOutput looks at a tool's answer: it keeps what the tool's contract
// lets the agent see, and says what kinds of data were found in all of it. Where
// no contracts are in force nothing is stripped.
func (g *Gate) validateOutput(a approval.Approval, r ExecutionRequest, done *ExecutedCall, payload map[string]any) *engine.Reason {
	if r.Output == nil {
		return nil
	}
	judge := g.Judge()
	filtered := toolcontract.Filtered{SafeResponse: *r.Output}
	if judge.Contracts != nil {
		filtered = judge.Contracts.InterceptResponse(a.Call.Tool, *r.Output, judge.Detector)
	}
	done.Output = &filtered
	payload["stripped_fields"], payload["redactions"] = len(filtered.StrippedFields), len(filtered.Redactions)
	var tags []string
	if judge.Detector != nil {
		tags = toolcontract.Tags(*r.Output, judge.Detector)
		payload["output_tags"] = tags
	}
	if slices.ContainsFunc(tags, redact.Secret) {
		return &engine.Reason{Code: "OUTPUT_HOLDS_SECRET", Message: "The tool's answer holds what looks like a secret."}
	}
	if len(filtered.StrippedFields) > 0 || len(filtered.Redactions) > 0 {
		return &engine.Reason{Code: "OUTPUT_FILTERED", Message: "Parts of the tool's answer are not for the agent, by the tool's contract."}
	}
	return nil
}

// executed tells the plugins what became of the call. What they say changes
// nothing any more; their failures are put on record.
func (g *Gate) executed(ctx context.Context, a approval.Approval, r ExecutionRequest) []engine.Reason {
	var failed []engine.Reason
	for _, plugin := range g.plugins() {
		if plugin.Executed == nil {
			continue
		}
		if err := guard(func() error { return plugin.Executed(ctx, a, r) }); err != nil {
			g.Logger.ErrorContext(ctx, "a plugin failed after the execution", "plugin", plugin.Name, "error", err)
			failed = append(failed, engine.Reason{Code: "PLUGIN_ERROR", Message: "The plugin " + plugin.Name + " failed after the execution."})
		}
	}
	return failed
}
