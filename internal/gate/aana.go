package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
)

// Checked is the gate's answer to a proposed Agent Action Contract event.
type Checked struct {
	Route    engine.Route
	Envelope aana.Envelope
	// Constraints is what an accepted call has to keep to; nil for nothing.
	Constraints json.RawMessage
	// Approval is set when the call waits.
	Approval *approval.Approval
	// Joined says that it waited already when the call was proposed again.
	Joined bool
}

// PreToolCheck judges an Agent Action Contract event and returns once the
// decision's event is durable: accepted and refused calls are over with that,
// a waiting one has its approval. A *Refusal means that the call was not
// judged; a *Replay that it was answered before.
func (g *Gate) PreToolCheck(ctx context.Context, p access.Principal, doc canon.Value, r Request, once *access.Idempotency[Checked]) (Checked, error) {
	proposal := proposeEvent(p.AgentID, stateOf(p.MaxState), doc, g.Store.Clock())
	finish := func(o Outcome) Checked {
		return Checked{Route: o.Route, Envelope: proposal.result.Envelope(objections(o.Decision)), Constraints: o.Constraints, Approval: o.Approval, Joined: o.Joined}
	}
	o, err := g.submit(ctx, p, &proposal, r, access.Adapt(once, finish))
	if err != nil {
		return Checked{}, err
	}
	return finish(o), nil
}

// objections is a decision without the rules of the policy that allow the call:
// AANA's answer says why AANA allows it, and who objects.
func objections(d engine.Decision) engine.Decision {
	d.Findings = slices.DeleteFunc(slices.Clone(d.Findings), func(f engine.Finding) bool {
		return f.Source == policySource && f.Route == engine.Accept
	})
	return d
}

// proposeEvent reads an Agent Action Contract event as a proposal. What it
// claims of itself beyond limit is lowered.
func proposeEvent(agentID string, limit aana.State, doc canon.Value, now time.Time) Proposal {
	event, invalid := aana.Parse(doc)
	if len(invalid) > 0 {
		result := aana.Invalid(doc, invalid)
		call := engine.Call{Dialect: DialectAANA, AgentID: agentID, Tool: toolName(doc)}
		if len(call.Tool) > maxToolName || registry.ConfusableName(call.Tool) {
			call.Tool = "" // AANA refuses it anyway; its text is not for the log
		}
		return Proposal{Call: call, Document: doc, own: []engine.Check{always(result.CheckResult())}, result: result}
	}
	event, capped := event.Capped(limit)
	result := event.Judge(now)
	p := Proposal{
		Call: engine.Call{
			Dialect: DialectAANA, RequestID: event.RequestID, AgentID: agentID, Tool: event.ToolName, RiskDomain: string(event.RiskDomain),
			Category: string(event.Category), Digest: canon.Digest(event.ToolName, event.Arguments),
		},
		Valid: true, Arguments: event.Arguments, Document: doc, input: event.UserIntent, subjects: []string{event.Subject.Ref},
		claim: registry.Claim{AgentID: agentID, Tool: event.ToolName}, event: &event, state: limit,
		result: result, keys: result.ArgumentKeys(),
		safe: []payloadMember{
			{"tool_category", string(event.Category)},
			{"risk_domain", string(event.RiskDomain)},
			{"authorization_state", string(event.State)},
			{"evidence_ref_count", len(event.Evidence)},
		},
	}
	if capped {
		p.own = append(p.own, always(engine.CheckResult{Findings: []engine.Finding{{
			Source: "credential", Code: "authorization_state_capped", Route: engine.Accept,
			Message: fmt.Sprintf("The key may claim at most %q; the higher claim was lowered.", limit),
		}}}))
	}
	return p
}

// confirm is the event as it is once people have approved it: confirmed, with
// the approval as evidence, and the runtime's wish to ask or defer granted. A
// wish to refuse stands.
func confirm(e aana.Event, approvalID string) aana.Event {
	e = e.Confirmed(approvalID)
	if e.Recommended.Waits() {
		e.Recommended = engine.Accept
	}
	return e
}

// toolName is the name that an event without AANA's structure gives its
// tool, for the log; "" when it is no string.
func toolName(doc canon.Value) string {
	name, _ := doc.Get("tool_name")
	return name.Str()
}
