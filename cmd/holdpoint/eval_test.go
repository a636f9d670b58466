package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"holdpoint/engine/dialect/aana"
)

// TestEvalNamesAreExact: what the doors take for a mistake, two names that differ by case only,
// eval judges as other implementations of a dialect do. A name that is there twice it refuses.
func TestEvalNamesAreExact(t *testing.T) {
	safeAI, err := evalSafeAI("")
	if err != nil {
		t.Fatal(err)
	}
	spm, err := evalSPM("")
	if err != nil {
		t.Fatal(err)
	}
	contract := func(input []byte) any { return aana.Eval(input, time.Now()) }
	for _, test := range []struct {
		eval        func([]byte) any
		input, says string
	}{
		{safeAI, `{"tool_contracts":{"t":{"allowed_request_tags":[],"allowed_response_fields":["x"]}},"call":{"method":"intercept_tool_response","tool_name":"t","response":{"x":1,"X":2}}}`, `"stripped_fields":["X"]`},
		{safeAI, `{"tool_contracts":{"t":{"allowed_request_tags":[],"allowed_response_fields":["x"]}},"call":{"method":"intercept_tool_response","tool_name":"t","response":{"x":1,"x":2}}}`, `duplicate_key`},
		{spm, `{"policy_bundle":{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2036-01-01T00:00:00Z","rules":[{"id":"r","description":"d","match":{"tool_name":"*","environment":"*"},"when":{"tool_args_match":{"A":1}},"outcome":"DENY"}],"defaults":{"outcome":"ALLOW"}},` +
			`"request":{"agent":{"agent_id":"a","environment":"prod"},"action":{"type":"tool_call","tool_name":"t","tool_args":{"A":1,"a":2}},"context":{}}}`, `"outcome":"DENY"`},
		{contract, `{"tool_name":"t","tool_category":"public_read","authorization_state":"none","evidence_refs":[],"risk_domain":"research","proposed_arguments":{"q":1,"Q":2},"recommended_route":"accept"}`, `"route":"accept"`},
	} {
		result, err := json.Marshal(test.eval([]byte(test.input)))
		if err != nil || !strings.Contains(string(result), test.says) {
			t.Errorf("%s\nis %s, %v; want %s", test.input, result, err, test.says)
		}
	}
}
