package holdpoint

import (
	"context"
	"encoding/json"
	"fmt"
)

// ToolCall is a proposed tool call in the words of Agent-SPM's
// CheckToolCallParams. ToolName, ToolArgs and AgentID are required; nil
// ToolArgs means none. What it says of its agent is what the server has
// registered, or does not count.
type ToolCall struct {
	ToolName string `json:"toolName"`
	// ToolArgs is whatever encoding/json writes as an object. Approval binds to
	// exactly these.
	ToolArgs        any      `json:"toolArgs"`
	AgentID         string   `json:"agentId"`
	Environment     string   `json:"environment,omitempty"`
	UserInput       string   `json:"userInput,omitempty"`
	DataLabels      []string `json:"dataLabels,omitempty"`
	RiskHints       []string `json:"riskHints,omitempty"`
	SessionID       string   `json:"sessionId,omitempty"`
	ParentAgentID   string   `json:"parentAgentId,omitempty"`
	DelegationChain []string `json:"delegationChain,omitempty"`
	ToolIdentity    any      `json:"toolIdentity,omitempty"`
	Attestation     any      `json:"attestation,omitempty"`
}

// SecurityResult is the answer to a ToolCall. Run the call when Allowed is
// true, within Constraints; when it has an Approval, Await that.
type SecurityResult struct {
	Allowed  bool `json:"allowed"`
	Decision struct {
		// Outcome is ALLOW, DENY, REQUIRE_APPROVAL, STEP_UP, REQUIRE_TICKET or REQUIRE_HUMAN.
		Outcome      string          `json:"outcome"`
		Reasons      []Reason        `json:"reasons"`
		ApproverRole string          `json:"approver_role"`
		Constraints  json.RawMessage `json:"constraints"`
	} `json:"decision"`
	Approval *Approval `json:"approval"`
}

// CheckToolCall proposes a call by the policy in force.
func (c *Client) CheckToolCall(ctx context.Context, t ToolCall) (SecurityResult, error) {
	if t.ToolArgs == nil {
		t.ToolArgs = struct{}{}
	}
	var r SecurityResult
	if err := c.post(ctx, "/v1/tool-calls/check", t, &r); err != nil {
		return SecurityResult{}, fmt.Errorf("check %s: %w", t.ToolName, err)
	}
	return r, nil
}

// ToolRequest is the answer to a ThreeGate draft.
type ToolRequest struct {
	RequestID string `json:"request_id"`
	Digest    string `json:"digest"` // SHA-256 of the draft's bytes
	// Approval is nil when the request is refused at once. Once it is approved,
	// its Document is the promoted document: redeem its Token for the tool
	// "tool-exec" with the arguments {"document": Document}.
	Approval *Approval `json:"approval"`
}

// RequestTool hands in a ThreeGate draft, a Markdown document. A *Problem with
// the code invalid_tool_request names the rules that it breaks.
func (c *Client) RequestTool(ctx context.Context, draft []byte) (ToolRequest, error) {
	var r ToolRequest
	if err := c.postAs(ctx, "/v1/tool-requests", "text/markdown", draft, &r); err != nil {
		return ToolRequest{}, fmt.Errorf("request a tool: %w", err)
	}
	return r, nil
}
