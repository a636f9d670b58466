package api

import (
	"encoding/json"
	"net/http"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/policy"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

// ParamsBody is Agent-SPM's CheckToolCallParams, for the documentation; the
// dialect's own strict reader reads it (engine/dialect/spm). An AgentActionRequest is
// taken as well.
type ParamsBody struct {
	ToolName        string          `json:"toolName" minLength:"1"`
	ToolArgs        json.RawMessage `json:"toolArgs" doc:"The arguments, as an object. Approval binds to exactly these."`
	AgentID         string          `json:"agentId" doc:"Informative: the agent is the one that the key belongs to."`
	AgentName       string          `json:"agentName,omitempty"`
	Environment     string          `json:"environment,omitempty" doc:"Where the call runs. The gate's own environment is judged as well, and the stricter decision counts."`
	Owner           string          `json:"owner,omitempty"`
	ActionType      string          `json:"actionType,omitempty"`
	UserInput       string          `json:"userInput,omitempty"`
	DataLabels      []string        `json:"dataLabels,omitempty"`
	RiskHints       []string        `json:"riskHints,omitempty"`
	SessionID       string          `json:"sessionId,omitempty"`
	ParentAgentID   string          `json:"parentAgentId,omitempty"`
	AgentType       string          `json:"agentType,omitempty" doc:"The registered type counts."`
	TrustLevel      string          `json:"trustLevel,omitempty" enum:"untrusted,basic,verified,privileged,system" doc:"The registered level counts."`
	Roles           []string        `json:"roles,omitempty" doc:"The registered roles count."`
	Capabilities    []string        `json:"capabilities,omitempty"`
	MaxDelegation   int             `json:"maxDelegationDepth,omitempty"`
	Attestation     any             `json:"attestation,omitempty" doc:"{issuer, issued_at, expires_at, signature}: Ed25519 over the RFC 8785 form of {agent_id, expires_at, issued_at, issuer}."`
	ToolIdentity    any             `json:"toolIdentity,omitempty" doc:"{tool_name, version, provider, manifest_hash, …}"`
	DelegationChain []string        `json:"delegationChain,omitempty" doc:"The agents that handed the task on; the caller is the last."`
	WantToken       bool            `json:"want_token,omitempty" doc:"Ask for a token for an accepted call, too. Holdpoint's own member, which the dialect's reader does not see; Prefer: token says the same."`
	Separate        bool            `json:"separate,omitempty" doc:"Ask for an approval of its own where the very call waits already. Holdpoint's own member, too; Prefer: separate says the same."`
}

// CheckedAction is Agent-SPM's SecurityCheckResult, and the approval.
type CheckedAction struct {
	Allowed  bool            `json:"allowed" doc:"Run the call only when this is true."`
	Decision policy.Decision `json:"decision"`
	Event    engine.Event    `json:"event" doc:"The event that was appended to the audit log."`
	Approval *Approval       `json:"approval,omitempty" doc:"The approval that the call waits for; of an accepted call that wants a token, the one that has it. In a refusal with the reason DENIED_BEFORE: the former approval by which people denied this very call. It has ended, its denial says how, and nobody is asked again."`
	Joined   bool            `json:"joined,omitempty" doc:"True when the very call waited already: approval is that one, and nobody is asked again. separate asks for another."`
}

// dialectProblems are the codes of the problems of whatever proposes or judges a call.
var dialectProblems = []int{400, 401, 403, 413, 415, 422, 423, 429, 503}

// spm is the door for Agent-SPM.
func (a dialectDoor) spm() []operation {
	return []operation{
		{
			method: "POST", path: "/v1/tool-calls/check", summary: "Propose a tool call (Agent-SPM)", scope: identity.ScopeCheck,
			detail:  "Judges Agent-SPM's CheckToolCallParams, or an AgentActionRequest, by the policy in force. 200: decided at once — run the call only when allowed is true. 202: it waits; follow approval. 429: a rate limit; the call was not judged.",
			headers: proposing, example: map[string]any{"toolName": "create_transfer", "toolArgs": map[string]any{"amount": 120}, "agentId": "billing"},
			in: ParamsBody{}, out: CheckedAction{}, statuses: []int{200, 202}, problems: dialectProblems, repeats: true, handle: a.checkToolCall,
		},
	}
}

func (a dialectDoor) checkToolCall(c *call) error {
	started := time.Now()
	body, document, request, err := proposed(c)
	if err != nil {
		return err
	}
	render := func(checked gate.CheckedAction) (access.Reply, error) {
		answer := CheckedAction{Allowed: checked.Allowed, Decision: checked.Decision, Event: checked.Event, Approval: a.waiting(c, checked.Approval), Joined: checked.Joined}
		return decidedReply(answer, answer.Approval)
	}
	return checked(a.API, c, body, request, func(once *access.Idempotency[gate.CheckedAction]) (gate.CheckedAction, error) {
		checked, wrong, err := a.Gate.CheckToolCall(c.r.Context(), c.principal, document, request, once)
		if len(wrong) > 0 {
			f := &failure{Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "The body is no CheckToolCallParams or AgentActionRequest: " + wrong[0].Path + " " + wrong[0].Message}
			for _, w := range wrong {
				f.Fields = append(f.Fields, FieldError(w))
			}
			return checked, f
		}
		if err == nil {
			a.decided(gate.DialectSPM, checked.Decision.Outcome.Route(), started)
		}
		return checked, err
	}, render)
}
