package api

import (
	"encoding/json"
	"net/http"
	"strings"

	"holdpoint/engine/dialect/safeai"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

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

// safeai is the door for SafeAI's tool contracts.
func (a dialectDoor) safeai() []operation {
	contract := func(path, summary, detail string, in, out any, handle func(*call) error) operation {
		return operation{
			method: "POST", path: "/v1/tool-contracts/" + path, summary: summary, scope: identity.ScopeCheck, in: in, out: out,
			statuses: []int{200}, problems: dialectProblems, repeats: true, handle: handle, detail: detail,
		}
	}
	return []operation{
		contract("validate-request", "May a tool receive data of these tags (SafeAI)",
			"Looks at declared tags only. An undeclared tool is not allowed.", ValidateBody{}, safeai.Validation{}, a.validateRequest),
		contract("intercept-request", "What of a payload may a tool receive (SafeAI)",
			"Blocks what the contract forbids and anything secret, and masks what else it does not cover.", InterceptRequestBody{}, safeai.Interception{}, a.interceptRequest),
		contract("intercept-response", "What of a response may the agent see (SafeAI)",
			"Strips every field that the contract does not list.", InterceptResponseBody{}, safeai.Filtered{}, a.interceptResponse),
	}
}

func (a dialectDoor) validateRequest(c *call) error {
	var in ValidateBody
	return a.askContract(c, &in, gate.ValidateRequest, "", func() (string, []string) { return in.ToolName, in.DataTags })
}

func (a dialectDoor) interceptRequest(c *call) error {
	var in InterceptRequestBody
	return a.askContract(c, &in, gate.InterceptRequest, "payload", func() (string, []string) { return in.ToolName, in.DataTags })
}

func (a dialectDoor) interceptResponse(c *call) error {
	var in InterceptResponseBody
	return a.askContract(c, &in, gate.InterceptResponse, "response", func() (string, []string) { return in.ToolName, nil })
}

// askContract reads a question into in and answers it. payload is the member
// that holds the data.
func (a dialectDoor) askContract(c *call, in any, method gate.ContractMethod, payload string, about func() (tool string, tags []string)) error {
	body, err := readInto(c, in)
	if err != nil {
		return err
	}
	tool, tags := about()
	if strings.TrimSpace(tool) == "" {
		return &failure{
			Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "tool_name is empty.",
			Fields: []FieldError{{Path: "/tool_name", Message: "is empty"}},
		}
	}
	data, _ := body.Get(payload)
	return answer(a.API, c, body, func(once *access.Idempotency[any]) (any, error) {
		return a.Gate.AskContract(c.r.Context(), c.principal, gate.ContractQuestion{Method: method, Tool: tool, DataTags: tags, Payload: data}, RequestID(c.r.Context()), once)
	}, func(result any) (access.Reply, error) { return jsonReply(http.StatusOK, result, nil) })
}
