package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/spm"
	"holdpoint/engine/policy"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
)

// CheckedAction is the gate's answer to an Agent-SPM request: its
// SecurityCheckResult.
type CheckedAction struct {
	Allowed  bool
	Decision policy.Decision
	// Event is what was appended to the audit log.
	Event engine.Event
	// Approval is set when the call waits.
	Approval *approval.Approval
	// Joined says that it waited already when the call was proposed again.
	Joined bool
}

// FieldError is one mistake in a request: its place, as a JSON Pointer, and
// what is wrong with it.
type FieldError = spm.FieldError

// CheckToolCall judges Agent-SPM's CheckToolCallParams or AgentActionRequest
// and returns once the decision's event is durable. Field errors mean that the
// request was not judged.
func (g *Gate) CheckToolCall(ctx context.Context, p access.Principal, doc canon.Value, r Request, once *access.Idempotency[CheckedAction]) (CheckedAction, []FieldError, error) {
	proposal, wrong := proposeAction(p.AgentID, doc)
	proposal.state = stateOf(p.MaxState)
	if len(wrong) > 0 {
		return CheckedAction{}, wrong, nil
	}
	finish := func(o Outcome) CheckedAction {
		return CheckedAction{Allowed: o.Route == engine.Accept, Decision: spm.Answer(o.Decision, o.Policy), Event: o.Event, Approval: o.Approval, Joined: o.Joined}
	}
	o, err := g.submit(ctx, p, &proposal, r, access.Adapt(once, finish))
	if err != nil {
		return CheckedAction{}, nil, err
	}
	return finish(o), nil, nil
}

// proposeAction reads an Agent-SPM request of either form as a proposal.
func proposeAction(agentID string, doc canon.Value) (Proposal, []FieldError) {
	a, wrong := spm.Parse(doc)
	if len(wrong) > 0 {
		return Proposal{}, wrong
	}
	if wrong := tooLong(doc, a); wrong != nil {
		return Proposal{}, wrong
	}
	claim := registry.Claim{
		AgentID: agentID, Tool: a.Action.ToolName, ClaimedAgent: a.Agent.AgentID, Type: text(a.Agent.AgentType), Trust: text(a.Agent.TrustLevel),
		Roles: a.Agent.Roles, MaxDelegation: a.Agent.MaxDelegationDepth, Chain: a.Context.DelegationChain, Parent: text(a.Context.ParentAgentID),
	}
	if t := a.Action.ToolIdentity; t != nil {
		if t.ToolName != a.Action.ToolName {
			return Proposal{}, []FieldError{{Path: place(doc, "/action/tool_identity/tool_name", "/toolIdentity/tool_name"), Message: "is the identity of another tool than the one that is called"}}
		}
		claim.Provider, claim.ManifestHash = text(t.Provider), text(t.ManifestHash)
	}
	if at := a.Agent.Attestation; at != nil {
		claim.Attestation = &registry.Attestation{Issuer: at.Issuer, IssuedAt: at.IssuedAt, ExpiresAt: text(at.ExpiresAt), Signature: text(at.Signature)}
	}
	return Proposal{
		Call: engine.Call{
			Dialect: DialectSPM, RequestID: a.RequestID, AgentID: agentID, Tool: a.Action.ToolName, Category: a.Action.Type,
			Digest: canon.Digest(a.Action.ToolName, a.Action.ToolArgs),
		},
		Valid: true, Arguments: a.Action.ToolArgs, Document: doc, claim: claim, labels: a.Context.DataLabels,
		input: text(a.Context.UserInput), environment: claimedEnvironment(doc, a.Agent.Environment), session: text(a.Context.SessionID),
		subjects: []string{a.Agent.Owner},
		safe: []payloadMember{
			{"action_type", word(a.Action.Type)},
			{"data_labels", words(a.Context.DataLabels)},
			{"risk_hints", words(a.Context.RiskHints)},
			{"delegation_depth", len(a.Context.DelegationChain)},
		},
	}, nil
}

// Bounds of a request's names, in bytes, and of its lists.
const (
	maxField = 200
	maxList  = 200
)

// tooLong names what is longer than the log and the limits can keep.
func tooLong(doc canon.Value, a spm.Request) []FieldError {
	var wrong []FieldError
	for _, f := range []struct{ full, short, value string }{
		{"/action/type", "/actionType", a.Action.Type},
		{"/context/session_id", "/sessionId", text(a.Context.SessionID)},
		{"/agent/environment", "/environment", a.Agent.Environment},
	} {
		if len(f.value) > maxField {
			wrong = append(wrong, FieldError{Path: place(doc, f.full, f.short), Message: fmt.Sprintf("has %d bytes; at most %d are accepted", len(f.value), maxField)})
		}
	}
	for _, f := range []struct {
		full, short string
		n           int
	}{
		{"/context/data_labels", "/dataLabels", len(a.Context.DataLabels)},
		{"/context/risk_hints", "/riskHints", len(a.Context.RiskHints)},
		{"/agent/roles", "/roles", len(a.Agent.Roles)},
		{"/agent/capabilities", "/capabilities", len(a.Agent.Capabilities)},
	} {
		if f.n > maxList {
			wrong = append(wrong, FieldError{Path: place(doc, f.full, f.short), Message: fmt.Sprintf("has %d elements; at most %d are accepted", f.n, maxList)})
		}
	}
	return wrong
}

// place is where a field stands in a request of either form.
func place(doc canon.Value, full, short string) string {
	if _, ok := doc.Get("action"); ok {
		return full
	}
	return short
}

// claimedEnvironment is the environment that a request names; the default of a
// request that names none is no claim.
func claimedEnvironment(doc canon.Value, environment string) string {
	if _, full := doc.Get("action"); full {
		return environment
	}
	if _, named := doc.Get("environment"); named {
		return environment
	}
	return ""
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Bounds of what an event tells of free words that a caller chose.
const (
	maxWord  = 64
	maxWords = 20
)

// word is a caller's own word if it has the form of a name, so that nothing
// else finds its way into the log.
func word(s string) string {
	if len(s) > maxWord || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' && r != '-' && r != '.' && r != ':'
	}) {
		return "[other]"
	}
	return s
}

func words(list []string) []string {
	shown := make([]string, 0, min(len(list), maxWords))
	for _, s := range list[:min(len(list), maxWords)] {
		shown = append(shown, word(s))
	}
	if n := len(list) - len(shown); n > 0 {
		shown = append(shown, fmt.Sprintf("[%d more]", n))
	}
	return slices.Compact(shown)
}
