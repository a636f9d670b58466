package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/policy"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

// ParamsBody is Agent-SPM's CheckToolCallParams, for the documentation; the
// policy's own strict reader reads it (engine/policy). An AgentActionRequest is
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
}

// CheckedAction is Agent-SPM's SecurityCheckResult, and the approval.
type CheckedAction struct {
	Allowed  bool            `json:"allowed" doc:"Run the call only when this is true."`
	Decision policy.Decision `json:"decision"`
	Event    engine.Event    `json:"event" doc:"The event that was appended to the audit log."`
	Approval *Approval       `json:"approval,omitempty" doc:"Set when the call waits for people."`
}

// MarkdownBody is a ThreeGate document.
type MarkdownBody string

// RequestedTool is the answer to a ThreeGate draft.
type RequestedTool struct {
	RequestID string          `json:"request_id"`
	Digest    string          `json:"digest" doc:"SHA-256 of the document's bytes."`
	Outcome   engine.Outcome  `json:"outcome"`
	Reasons   []engine.Reason `json:"reasons"`
	Approval  *Approval       `json:"approval,omitempty"`
}

// ValidateBody asks whether a tool may receive data of these tags.
type ValidateBody struct {
	ToolName string   `json:"tool_name"`
	DataTags []string `json:"data_tags,omitempty"`
}

// InterceptRequestBody asks what of a payload a tool may receive.
type InterceptRequestBody struct {
	ToolName string          `json:"tool_name"`
	Payload  json.RawMessage `json:"payload"`
	DataTags []string        `json:"data_tags,omitempty"`
}

// InterceptResponseBody asks what of a tool's response the agent may see.
type InterceptResponseBody struct {
	ToolName string          `json:"tool_name"`
	Response json.RawMessage `json:"response"`
}

// dialects are the doors of the other systems.
func (a *API) dialects() []operation {
	problems := []int{400, 401, 403, 413, 415, 422, 423, 429, 503}
	contract := func(path, summary, detail string, in, out any, handle func(*call) error) operation {
		return operation{
			method: "POST", path: "/v1/tool-contracts/" + path, summary: summary, scope: identity.ScopeCheck, in: in, out: out,
			statuses: []int{200}, problems: problems, repeats: true, handle: handle, detail: detail,
		}
	}
	return []operation{
		{
			method: "POST", path: "/v1/tool-calls/check", summary: "Propose a tool call (Agent-SPM)", scope: identity.ScopeCheck,
			detail: "Judges Agent-SPM's CheckToolCallParams, or an AgentActionRequest, by the policy in force. 200: decided at once — run the call only when allowed is true. 202: it waits; follow approval. 429: a rate limit; the call was not judged.",
			in:     ParamsBody{}, out: CheckedAction{}, statuses: []int{200, 202}, problems: problems, repeats: true, handle: a.checkToolCall,
		},
		{
			method: "POST", path: "/v1/tool-requests", summary: "Request a tool execution (ThreeGate)", scope: identity.ScopeCheck,
			detail: "Takes a draft: approved_by and approved_utc are left out or empty. 202: a person has to approve it; the approval then holds the promoted document and a token bound to it. 422 names every rule that is broken. A document that is approved already is taken only with the token, as Holdpoint-Token; nothing is spent.",
			in:     MarkdownBody(""), out: RequestedTool{}, statuses: []int{200, 202}, problems: problems, repeats: true, handle: a.requestTool, takes: "text/markdown",
		},
		contract("validate-request", "May a tool receive data of these tags (SafeAI)",
			"Looks at declared tags only. An undeclared tool is not allowed.", ValidateBody{}, safeai.Validation{}, a.validateRequest),
		contract("intercept-request", "What of a payload may a tool receive (SafeAI)",
			"Blocks what the contract forbids and anything secret, and masks what else it does not cover.", InterceptRequestBody{}, safeai.Interception{}, a.interceptRequest),
		contract("intercept-response", "What of a response may the agent see (SafeAI)",
			"Strips every field that the contract does not list.", InterceptResponseBody{}, safeai.Filtered{}, a.interceptResponse),
	}
}

func (a *API) checkToolCall(c *call) error {
	started := time.Now()
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	request, err := asked(c)
	if err != nil {
		return err
	}
	render := func(result any) (gate.Reply, error) {
		checked := result.(gate.CheckedAction)
		answer := CheckedAction{Allowed: checked.Allowed, Decision: checked.Decision, Event: checked.Event, Approval: a.waiting(c, checked.Approval)}
		return decidedReply(answer, answer.Approval)
	}
	return a.answer(c, keyed(body, request), func(once *gate.Once) (any, error) {
		checked, wrong, err := a.Gate.CheckToolCall(c.r.Context(), c.principal, body, request, once)
		if len(wrong) > 0 {
			f := &failure{Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "The body is no CheckToolCallParams or AgentActionRequest: " + wrong[0].Path + " " + wrong[0].Message}
			for _, w := range wrong {
				f.Fields = append(f.Fields, FieldError(w))
			}
			return nil, f
		}
		if err == nil {
			a.decided(gate.DialectSPM, checked.Decision.Outcome.Route(), started)
		}
		return checked, err
	}, render)
}

// tokenHeader carries the token of a document that is approved already.
const tokenHeader = "Holdpoint-Token"

func (a *API) requestTool(c *call) error {
	started := time.Now()
	if err := ofType(c.r, "text/markdown"); err != nil {
		return err
	}
	document, err := readAll(c)
	if err != nil {
		return err
	}
	raw := c.r.Header.Get(tokenHeader)
	// What a repetition is compared by: the document's and the token's bytes.
	sum := sha256.Sum256(append(append(document, 0), raw...))
	key := canon.String(hex.EncodeToString(sum[:]))
	request, err := asked(c)
	if err != nil {
		return err
	}
	render := func(result any) (gate.Reply, error) {
		checked := result.(gate.CheckedDocument)
		answer := RequestedTool{
			RequestID: checked.RequestID, Digest: checked.Digest, Outcome: checked.Decision.Outcome,
			Reasons: engine.Reasons(checked.Decision.Findings), Approval: a.waiting(c, checked.Approval),
		}
		if raw != "" {
			return jsonReply(http.StatusOK, answer, nil)
		}
		return decidedReply(answer, answer.Approval)
	}
	return a.answer(c, keyed(key, request), func(once *gate.Once) (any, error) {
		var checked gate.CheckedDocument
		var broken []gate.Violation
		var err error
		if raw != "" {
			checked, broken, err = a.Gate.ApprovedTool(c.r.Context(), c.principal, document, raw, RequestID(c.r.Context()))
		} else {
			checked, broken, err = a.Gate.RequestTool(c.r.Context(), c.principal, document, request, once)
		}
		if len(broken) > 0 {
			return nil, &failure{
				Status: http.StatusUnprocessableEntity, Code: "invalid_tool_request", Violations: broken,
				Detail: "The document breaks the rules of tool requests: " + broken[0].Rule + ", " + broken[0].Message,
			}
		}
		if err == nil && raw == "" {
			a.decided(gate.DialectThreeGate, checked.Decision.Route, started)
		}
		return checked, err
	}, render)
}

func (a *API) validateRequest(c *call) error {
	var in ValidateBody
	return a.askContract(c, &in, gate.ValidateRequest, "", func() (string, []string) { return in.ToolName, in.DataTags })
}

func (a *API) interceptRequest(c *call) error {
	var in InterceptRequestBody
	return a.askContract(c, &in, gate.InterceptRequest, "payload", func() (string, []string) { return in.ToolName, in.DataTags })
}

func (a *API) interceptResponse(c *call) error {
	var in InterceptResponseBody
	return a.askContract(c, &in, gate.InterceptResponse, "response", func() (string, []string) { return in.ToolName, nil })
}

// askContract reads a question into in and answers it. payload is the member
// that holds the data.
func (a *API) askContract(c *call, in any, method gate.ContractMethod, payload string, said func() (tool string, tags []string)) error {
	body, err := readInto(c, in)
	if err != nil {
		return err
	}
	tool, tags := said()
	if strings.TrimSpace(tool) == "" {
		return &failure{
			Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "tool_name is empty.",
			Fields: []FieldError{{Path: "/tool_name", Message: "is empty"}},
		}
	}
	data, _ := body.Get(payload)
	return a.answer(c, body, func(once *gate.Once) (any, error) {
		return a.Gate.AskContract(c.r.Context(), c.principal, gate.ContractQuestion{Method: method, Tool: tool, DataTags: tags, Payload: data}, RequestID(c.r.Context()), once)
	}, func(result any) (gate.Reply, error) { return jsonReply(http.StatusOK, result, nil) })
}
