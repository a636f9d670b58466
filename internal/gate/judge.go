package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/contract"
)

// DialectAANA is the Agent Action Contract v1.
const DialectAANA = "aana"

// Judge judges calls by the rules in force. It is a value: the same documents
// at the same time always get the same decisions.
type Judge struct {
	environment string
	routing     approval.Routing
	digest      string
}

// NewJudge makes a judge for one environment. The routing must pass its Check.
func NewJudge(environment string, routing approval.Routing) (*Judge, error) {
	encoded, err := json.Marshal(map[string]any{"contract": contract.Version, "environment": environment, "routing": routing})
	if err != nil {
		return nil, fmt.Errorf("encode the policy: %w", err)
	}
	v, err := canon.Parse(encoded)
	if err != nil {
		return nil, fmt.Errorf("read the policy back: %w", err)
	}
	sum := sha256.Sum256(v.Canonical())
	return &Judge{environment: environment, routing: routing, digest: "sha256:" + hex.EncodeToString(sum[:])}, nil
}

// Digest names everything that decisions depend on beside the call itself.
func (j *Judge) Digest() string { return j.digest }

// Environment is where the calls that this judge judges would run.
func (j *Judge) Environment() string { return j.environment }

// Rule is the routing rule for a call.
func (j *Judge) Rule(call engine.Call) approval.Rule { return j.routing.For(call) }

// Judgement is a decision and what its dialect makes of it.
type Judgement struct {
	Call     engine.Call
	Decision engine.Decision
	// Valid says that the document had the contract's structure.
	Valid  bool
	Event  contract.Event
	Result contract.Result
	// Document is what was sent, as it was read.
	Document canon.Value
}

// AANA judges an Agent Action Contract event that the principal sent. What the
// event claims of itself beyond what the principal may claim is lowered.
func (j *Judge) AANA(p Principal, doc canon.Value, now time.Time) Judgement {
	event, invalid := contract.Parse(doc)
	if len(invalid) > 0 {
		result := contract.Invalid(doc, invalid)
		call := engine.Call{Dialect: DialectAANA, AgentID: p.AgentID, Tool: toolName(doc), Environment: j.environment}
		return Judgement{Call: call, Result: result, Decision: engine.Evaluate(call, j.digest, opinion(result))}
	}
	call := j.call(p.AgentID, event)
	limit, err := contract.ParseState(p.MaxState)
	if err != nil {
		limit = contract.None
	}
	event, capped := event.Capped(limit)
	result := event.Judge(now)
	checks := []engine.Check{opinion(result)}
	if capped {
		checks = append(checks, func(engine.Call) engine.Opinion {
			return engine.Opinion{Findings: []engine.Finding{{
				Source: "credential", Code: "authorization_state_capped", Route: engine.Accept,
				Message: fmt.Sprintf("The key may claim at most %q; the higher claim was lowered.", p.MaxState),
			}}}
		})
	}
	decision := engine.Evaluate(call, j.digest, checks...)
	if decision.Route.Waits() {
		// What would still stand in the way of a confirmed call is shown to
		// people now, instead of turning their approval down afterwards.
		confirmed := engine.Evaluate(call, j.digest, opinion(confirm(event, "apr_").Judge(now)))
		decision = decision.Foresee(confirmed)
	}
	return Judgement{Call: call, Valid: true, Event: event, Result: result, Document: doc, Decision: decision}
}

// Again judges the sealed document of an approval whose requirements have been
// met, as confirm has it.
func (j *Judge) Again(a approval.Approval, document []byte, now time.Time) (engine.Decision, error) {
	if a.Call.Dialect != DialectAANA {
		return engine.Decision{}, fmt.Errorf("judge again: unknown dialect %q", a.Call.Dialect)
	}
	doc, err := canon.Parse(document)
	if err != nil {
		return engine.Decision{}, fmt.Errorf("read the sealed document of %s again: %w", a.ID, err)
	}
	event, invalid := contract.Parse(doc)
	if len(invalid) > 0 {
		return engine.Evaluate(a.Call, j.digest, opinion(contract.Invalid(doc, invalid))), nil
	}
	call := j.call(a.Call.AgentID, event)
	if call.Digest != a.Call.Digest {
		return engine.Decision{}, fmt.Errorf("judge again: the sealed document of %s is not the call that was approved", a.ID)
	}
	return engine.Evaluate(call, j.digest, opinion(confirm(event, a.ID).Judge(now))), nil
}

// confirm is the event as it is once people have approved it: confirmed, with
// the approval as evidence, and the runtime's wish to ask or defer granted. A
// wish to refuse stands.
func confirm(e contract.Event, approvalID string) contract.Event {
	e = e.Confirmed(approvalID)
	if e.Recommended.Waits() {
		e.Recommended = engine.Accept
	}
	return e
}

// toolName is the name that an event without the contract's structure gives its
// tool, for the log; "" when it is no string.
func toolName(doc canon.Value) string {
	name, _ := doc.Get("tool_name")
	return name.Str()
}

func (j *Judge) call(agentID string, e contract.Event) engine.Call {
	return engine.Call{
		Dialect: DialectAANA, RequestID: e.RequestID, AgentID: agentID, Tool: e.ToolName, RiskDomain: string(e.RiskDomain),
		Category: string(e.Category), Environment: j.environment, Digest: canon.Digest(e.ToolName, e.Arguments),
	}
}

func opinion(r contract.Result) engine.Check {
	return func(engine.Call) engine.Opinion { return r.Opinion() }
}
