package api

import (
	"encoding/json"
	"time"

	"holdpoint/engine/dialect/aana"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

// EventBody is an Agent Action Contract v1 event, for the documentation; the
// dialect's own strict reader reads it (engine/dialect/aana).
type EventBody struct {
	ToolName             string          `json:"tool_name" minLength:"1" doc:"Exact name of the tool that the agent intends to call."`
	ToolCategory         string          `json:"tool_category" enum:"public_read,private_read,write,unknown" doc:"What kind of consequence the tool has."`
	AuthorizationState   string          `json:"authorization_state" enum:"none,user_claimed,authenticated,validated,confirmed" doc:"Strongest verified authorization; lowered to what the key may claim."`
	EvidenceRefs         []any           `json:"evidence_refs" doc:"Strings, or objects with source_id, kind, trust_tier, redaction_status, summary, freshness, provenance and so on."`
	RiskDomain           string          `json:"risk_domain" enum:"devops,finance,education,hr,legal,pharma,healthcare,commerce,customer_support,security,research,personal_productivity,public_information,unknown"`
	ProposedArguments    json.RawMessage `json:"proposed_arguments" doc:"The arguments, as an object. Approval binds to exactly these."`
	RecommendedRoute     string          `json:"recommended_route" enum:"accept,ask,defer,refuse" doc:"What the runtime itself would do; the stricter of both counts."`
	SchemaVersion        string          `json:"schema_version,omitempty" enum:"aana.agent_tool_precheck.v1"`
	RequestID            string          `json:"request_id,omitempty"`
	AgentID              string          `json:"agent_id,omitempty" doc:"Informative: the agent is the one that the key belongs to."`
	UserIntent           string          `json:"user_intent,omitempty"`
	AuthorizationSubject any             `json:"authorization_subject,omitempty" doc:"{subject_type, subject_ref}."`
	WantToken            bool            `json:"want_token,omitempty" doc:"Ask for a token for an accepted call, too. Holdpoint's own member, which the contract's reader does not see; Prefer: token says the same."`
	Separate             bool            `json:"separate,omitempty" doc:"Ask for an approval of its own where the very call waits already. Holdpoint's own member, too; Prefer: separate says the same."`
}

// Checked is the answer to a proposed call.
type Checked struct {
	aana.Envelope
	Constraints json.RawMessage `json:"constraints,omitempty" doc:"What an accepted call has to keep to, by the policy."`
	Approval    *Approval       `json:"approval,omitempty" doc:"The approval that the call waits for; of an accepted call that wants a token, the one that has it. In a refusal with the reason DENIED_BEFORE: the former approval by which people denied this very call. It has ended, its denial says how, and nobody is asked again."`
	Joined      bool            `json:"joined,omitempty" doc:"True when the very call waited already: approval is that one, and nobody is asked again. separate asks for another."`
}

// aana is the door for the Agent Action Contract.
func (a dialectDoor) aana() []operation {
	check := operation{
		method: "POST", path: "/v1/pre-tool-check", summary: "Propose a tool call", scope: identity.ScopeCheck,
		detail: "Judges an Agent Action Contract v1 event. 200: decided at once — run the call only when gate_decision is pass and recommended_action accept. 202: it waits for people; follow approval.",
		in:     EventBody{}, out: Checked{}, statuses: []int{200, 202}, problems: []int{400, 401, 403, 413, 415, 422, 429, 503}, repeats: true, handle: a.preToolCheck,
	}
	alias := check
	alias.path, alias.summary = "/pre-tool-check", "Propose a tool call (alias)"
	return []operation{check, alias}
}

func (a dialectDoor) preToolCheck(c *call) error {
	started := time.Now()
	body, document, request, err := proposed(c)
	if err != nil {
		return err
	}
	render := func(checked gate.Checked) (access.Reply, error) {
		answer := Checked{Envelope: checked.Envelope, Constraints: checked.Constraints, Approval: a.waiting(c, checked.Approval), Joined: checked.Joined}
		return decidedReply(answer, answer.Approval)
	}
	return checked(a.API, c, body, request, func(once *access.Once[gate.Checked]) (gate.Checked, error) {
		checked, err := a.Gate.PreToolCheck(c.r.Context(), c.principal, document, request, once)
		if err == nil {
			a.decided(gate.DialectAANA, checked.Route, started)
		}
		return checked, err
	}, render)
}
