package gate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/threegate"
	"holdpoint/internal/gate"
)

const draft = `---
request_type: tool_request
schema_version: 1
request_id: "TR-20260503-081500Z-tides"
created_utc: "2026-05-03T08:15:00Z"
requested_by: "core_draft"
approved_by: ""
approved_utc: ""
purpose: "Find the highest tide of each month."
language: "python"
network: "none"
network_allowlist: []
cpu_limit: "1"
memory_limit_mb: 256
time_limit_sec: 30
inputs:
  - name: "tides.csv"
    sha256: "1c6d4b4f0f1f0cd03b4b7f1ad4a7b3f0a8f0d0d1a2b3c4d5e6f708192a3b4c5d"
  - name: "highest.py"
    sha256: "aa00bb11cc22dd33ee44ff5566778899aa00bb11cc22dd33ee44ff5566778899"
outputs_expected:
  - path: "highest.csv"
    description: "One row for each month."
constraints:
  - "No network"
---

## Command

python -u /in/highest.py --in /in/tides.csv --out /out/highest.csv

## Input Files

- /in/tides.csv sha256: 1c6d4b4f0f1f0cd03b4b7f1ad4a7b3f0a8f0d0d1a2b3c4d5e6f708192a3b4c5d
- /in/highest.py sha256: aa00bb11cc22dd33ee44ff5566778899aa00bb11cc22dd33ee44ff5566778899

## Output Expectations

- /out/highest.csv

## Risk Assessment

- Risk level: low
- Justification: Arithmetic over one table.
- Data sensitivity: public
- Network rationale: none
`

func document(text string) canon.Value { return threegate.Arguments([]byte(text)) }

// A draft waits for a person; what comes back is the same document with the
// person and the time in it, and a token that is good for those bytes alone.
func TestToolRequest(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	checked, broken, err := h.RequestTool(ctx, h.agent, []byte(draft), gate.Request{ID: "req"}, nil)
	if err != nil || len(broken) > 0 || checked.Approval == nil {
		t.Fatalf("%+v %v %v", checked, broken, err)
	}
	a := *checked.Approval
	if checked.Decision.Outcome != engine.RequireHuman || a.Plan.Requirements[0].Kind != engine.Human || checked.Digest != threegate.Digest([]byte(draft)) ||
		a.Call.Digest != checked.Digest || a.Call.RequestID != "TR-20260503-081500Z-tides" {
		t.Errorf("%s %+v of %s", checked.Decision.Outcome, a.Plan.Requirements, a.Call.Digest)
	}
	card, err := h.Queries.Card(ctx, h.people["ada"], a.ID, gate.Full)
	if err != nil || !strings.Contains(string(card.Arguments), "highest.py") {
		t.Fatalf("the card: %v", err)
	}
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	v := h.get(a.ID)
	if v.Approval.Status != approval.Approved || v.Token == "" || v.Approval.Reasons[0].Code != "HUMAN_APPROVED" {
		t.Fatalf("%s %v", v.Approval.Status, v.Approval.Reasons)
	}
	promoted := string(v.Promoted)
	if report := threegate.Judge(v.Promoted, time.Now()); !report.Valid || report.Request.ApprovedBy != "ada@example.com" {
		t.Fatalf("the promoted document: %+v\n%s", report.Violations, promoted)
	}
	if again := h.get(a.ID); string(again.Promoted) != promoted {
		t.Error("it is another document each time")
	}
	// A document that is approved already is believed with the token only.
	if _, broken, err := h.RequestTool(ctx, h.agent, v.Promoted, gate.Request{}, nil); err != nil || len(broken) == 0 || broken[0].Rule != "A0" {
		t.Errorf("without the token: %v %v", broken, err)
	}
	if got, broken, err := h.ApprovedTool(ctx, h.agent, v.Promoted, v.Token, ""); err != nil || len(broken) > 0 || got.Approval == nil || got.Approval.ID != a.ID {
		t.Errorf("with it: %+v %v %v", got, broken, err)
	}
	forged := strings.Replace(promoted, "highest.py --in", "highest.py -v --in", 1)
	if _, _, err := h.ApprovedTool(ctx, h.agent, []byte(forged), v.Token, ""); code(err) != "arguments_mismatch" {
		t.Errorf("another document with the token: %v", err)
	}
	other := strings.Replace(promoted, "ada@example.com", "ben@example.com", 1)
	for name, text := range map[string]string{"the draft": draft, "another command": forged, "another approver": other, "nothing": ""} {
		if _, err := h.Redeem(ctx, h.agent, gate.RedeemRequest{Token: v.Token, Tool: threegate.ToolName, Arguments: document(text)}, nil); code(err) != "arguments_mismatch" {
			t.Errorf("redeeming %s: %v", name, err)
		}
	}
	if _, err := h.Redeem(ctx, h.agent, gate.RedeemRequest{Token: v.Token, Tool: "other", Arguments: document(promoted)}, nil); code(err) != "arguments_mismatch" {
		t.Errorf("another tool: %v", err)
	}
	more := canon.Object(append(document(promoted).Members(), canon.Member{Name: "x", Value: canon.Number(1)})...)
	if _, err := h.Redeem(ctx, h.agent, gate.RedeemRequest{Token: v.Token, Tool: threegate.ToolName, Arguments: more}, nil); code(err) != "arguments_mismatch" {
		t.Errorf("one more argument: %v", err)
	}
	redeem := gate.RedeemRequest{Token: v.Token, Tool: threegate.ToolName, Arguments: document(promoted)}
	if _, err := h.Redeem(ctx, h.agent, redeem, nil); err != nil {
		t.Errorf("redeeming it: %v", err)
	}
	if _, err := h.Redeem(ctx, h.agent, redeem, nil); code(err) != "token_used" {
		t.Errorf("redeeming it twice: %v", err)
	}
	if _, _, err := h.ApprovedTool(ctx, h.agent, v.Promoted, v.Token, ""); code(err) != "token_used" {
		t.Errorf("presenting it when it is spent: %v", err)
	}
}

func TestToolRequestsThatBreakRules(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	for name, text := range map[string]string{
		"nothing": "", "a shell": strings.Replace(draft, `"python"`, `"shell"`, 1), "two commands": strings.Replace(draft, "--out", "; rm --out", 1), "approved": strings.Replace(draft, `approved_by: ""`, `approved_by: "me"`, 1),
	} {
		_, broken, err := h.RequestTool(context.Background(), h.agent, []byte(text), gate.Request{}, nil)
		if err != nil || len(broken) == 0 {
			t.Errorf("%s: %v %v", name, broken, err)
		}
	}
	// What policy says of its commands counts, too.
	h.rules.Policy = bundle(t, `{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2099-01-01T00:00:00Z","rules":[
		{"id":"no-python","description":"No Python.","match":{"tool_name":"tool-exec","environment":"*"},"when":{"tool_args_match":{"language":"python"}},"outcome":"DENY"}],"defaults":{"outcome":"ALLOW"}}`)
	h.judgeBy(h.rules)
	checked, broken, err := h.RequestTool(context.Background(), h.agent, []byte(draft), gate.Request{}, nil)
	if err != nil || len(broken) > 0 || checked.Approval != nil || checked.Decision.Outcome != engine.Deny {
		t.Errorf("denied by policy: %+v %v %v", checked.Decision, broken, err)
	}
}
