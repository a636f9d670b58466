package gate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/redact"
	"holdpoint/engine/registry"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// Each of Agent-SPM's eleven outcomes is really the outcome of an event.
func TestAllElevenOutcomesAreEvents(t *testing.T) {
	h := newPolicyHarness(t)
	ctx := context.Background()
	for _, tool := range []string{"read_a", "unknown", "change", "reset"} {
		h.check(params(tool, ""))
	}
	denied, human := *h.check(params("pay", "")).Approval, *h.check(params("deploy", "")).Approval
	if err := h.vote("ada", denied, false); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"ada", "stranger"} {
		if err := h.vote(who, human, true); err != nil {
			t.Fatal(err)
		}
	}
	brief := strings.Replace(bundleText, "expires_in: 30m, escalation: [{after: 10m, role: other}]", "expires_in: 1s", 1)
	h.rules.Policy = bundle(t, brief)
	h.judgeBy(h.rules)
	late := *h.check(params("pay", "")).Approval
	time.Sleep(1100 * time.Millisecond) // the deadline is the database's time
	for _, a := range []approval.Approval{denied, human, late} {
		h.settle(a.ID)
	}
	if err := h.Registry.PutSettings(ctx, operator, registry.Settings{Limits: registry.Limits{Agent: registry.Rate{Calls: 1, Per: engine.Duration(time.Hour)}}}, nil); err != nil {
		t.Fatal(err)
	}
	h.check(params("read_a", ""))
	if _, _, err := h.CheckToolCall(ctx, h.agent, parse(t, params("read_a", "")), gate.Request{}, nil); code(err) != "RATE_LIMIT_AGENT" {
		t.Fatal(err)
	}
	if err := h.Registry.ThrowKillSwitch(ctx, operator, "bot", "", nil); err != nil {
		t.Fatal(err)
	}
	h.check(params("read_a", ""))
	events, err := h.Events(ctx, store.EventFilter{AgentID: "bot"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[engine.Outcome]string{}
	for _, e := range events {
		if e.Type == engine.Decided || e.Type == engine.Settled {
			seen[e.Outcome] = e.Reasons[0].Code
		}
	}
	for outcome, reason := range map[engine.Outcome]string{
		engine.Allow: "reads", engine.Deny: "DEFAULT_DENY", engine.RequireApproval: "pay", engine.RequireStepUp: "step", engine.RequireTicket: "ticket",
		engine.RequireHuman: "groups", engine.Approved: "HUMAN_APPROVED", engine.Rejected: "REJECTED", engine.KillSwitch: registry.AgentKill,
		engine.RateLimited: "RATE_LIMIT_AGENT", engine.Timeout: "TIMEOUT",
	} {
		if seen[outcome] != reason {
			t.Errorf("%s: reasons %q, want %q", outcome, seen[outcome], reason)
		}
	}
	if len(seen) != 11 {
		t.Errorf("%d outcomes: %v", len(seen), seen)
	}
}

// What a tool answered is looked at and not kept.
func TestOutputIsValidated(t *testing.T) {
	h := newPolicyHarness(t)
	ctx := context.Background()
	run := func() string {
		t.Helper()
		a := *h.check(params("pay", "")).Approval
		for _, who := range []string{"ada", "ben"} {
			if err := h.vote(who, a, true); err != nil {
				t.Fatal(err)
			}
		}
		h.settle(a.ID)
		if err := h.redeem(h.agent, h.get(a.ID).Token, "pay", args); err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	id := run()
	output := parse(t, `{"status":"paid","note":"canary-output","raw":"password=hunter2-and-more-characters"}`)
	done, err := h.Executed(ctx, h.agent, gate.ExecutionRequest{ApprovalID: id, Outcome: approval.Succeeded, Output: &output, Findings: []string{"SLOW", "what ever <b>"}}, nil)
	if err != nil || done.Output == nil || done.Output.SafeResponse.Len() != 3 {
		t.Fatalf("without contracts: %+v %v", done.Output, err)
	}
	set, problems := safeai.Load([]byte("tool_contracts:\n  pay: {allowed_request_tags: [personal], allowed_response_fields: [status]}\n"), "contracts.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	h.rules.Contracts, h.rules.Detector = set, redact.New()
	h.judgeBy(h.rules)
	id = run()
	done, err = h.Executed(ctx, h.agent, gate.ExecutionRequest{ApprovalID: id, Outcome: approval.Succeeded, Output: &output}, nil)
	if err != nil || string(done.Output.SafeResponse.Canonical()) != `{"status":"paid"}` || !slices.Equal(done.Output.StrippedFields, []string{"note", "raw"}) {
		t.Fatalf("by its contract: %+v %v", done.Output, err)
	}
	events, err := h.Events(ctx, store.EventFilter{ApprovalID: id}, 100)
	last := events[len(events)-1]
	if err != nil || !slices.Equal(reasons(last.Reasons), []string{"EXECUTION_SUCCEEDED", "OUTPUT_HOLDS_SECRET"}) || last.PluginSource != "output_validator" ||
		strings.Contains(string(last.SafePayload), "canary") || strings.Contains(string(last.SafePayload), "hunter2") {
		t.Errorf("the event: %v %s", last.Reasons, last.SafePayload)
	}
}
