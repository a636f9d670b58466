package holdpoint

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestCheckToolCall(t *testing.T) {
	s, c := newWire(t, answer(202, `{"allowed":false,"decision":{"outcome":"REQUIRE_APPROVAL","reasons":[{"code":"pay","message":"m"}],"constraints":{"a":1}},"event":{},"approval":{"id":"apr_1"}}`))
	r, err := c.CheckToolCall(context.Background(), ToolCall{ToolName: "pay", AgentID: "bot"})
	if err != nil || r.Allowed || r.Decision.Outcome != "REQUIRE_APPROVAL" || r.Decision.Reasons[0].Code != "pay" || string(r.Decision.Constraints) != `{"a":1}` || r.Approval == nil || r.Approval.ID != "apr_1" {
		t.Errorf("got %+v, %v", r, err)
	}
	if want := `{"toolName":"pay","toolArgs":{},"agentId":"bot"}`; s.seen[0].line != "POST /v1/tool-calls/check" || s.seen[0].body != want || s.seen[0].idempotency == "" {
		t.Errorf("sent %+v", s.seen[0])
	}
}

func TestRequestTool(t *testing.T) {
	s, c := newWire(t, answer(202, `{"request_id":"TR-1","digest":"sha256:x","approval":{"id":"apr_1","document":"promoted"}}`), answer(422, `{"code":"invalid_tool_request","detail":"d","status":422}`))
	r, err := c.RequestTool(context.Background(), []byte("---\n"))
	if err != nil || r.RequestID != "TR-1" || r.Digest != "sha256:x" || r.Approval.Document != "promoted" {
		t.Errorf("got %+v, %v", r, err)
	}
	if s.seen[0].line != "POST /v1/tool-requests" || s.seen[0].body != "---\n" || s.seen[0].idempotency == "" {
		t.Errorf("sent %+v", s.seen[0])
	}
	var p *Problem
	if _, err := c.RequestTool(context.Background(), nil); !errors.As(err, &p) || p.Code != "invalid_tool_request" {
		t.Errorf("got %v", err)
	}
}

// What may run under constraints only is not run by a function that was not
// told of them.
func TestGuardDoesNotRunUnderConstraints(t *testing.T) {
	const accepted = `{"gate_decision":"pass","recommended_action":"accept","hard_blockers":[],"aix":{"hard_blockers":[]},"architecture_decision":{"route":"accept"},
		"execution_policy":{"execution_allowed":true},"validation_errors":[],"constraints":%s}`
	for constraints, want := range map[string]bool{`{"max":1}`: false, `{}`: true, `null`: true} {
		_, c := newWire(t, answer(200, fmt.Sprintf(accepted, constraints)))
		ran := false
		err := c.Guard(context.Background(), Event{ToolName: "x"}, func(context.Context) error { ran = true; return nil })
		if ran != want || (err == nil) != want || !want && !errors.Is(err, ErrConstraints) {
			t.Errorf("%s: ran %v, %v", constraints, ran, err)
		}
	}
}
