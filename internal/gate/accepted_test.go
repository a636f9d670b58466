package gate_test

import (
	"context"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// An accepted call whose caller wants a token has one, whoever ends in between.
// One that would not be accepted any more is not approved: its rules are asked
// again, as it stands and not as if people had approved it.
func TestAcceptedWithAToken(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	ctx := context.Background()
	propose := func() approval.Approval {
		t.Helper()
		checked, err := h.PreToolCheck(ctx, h.agent, parse(t, harmless), gate.Request{WantToken: true}, nil)
		if err != nil || checked.Route != engine.Accept || checked.Approval == nil {
			t.Fatalf("%+v, %v", checked, err)
		}
		return *checked.Approval
	}
	a := propose()
	v, err := h.Accepted(ctx, h.agent, a.ID)
	if err != nil || v.Approval.Status != approval.Approved || v.Token == "" || v.Approval.Reasons[0].Code != "ACCEPTED" {
		t.Fatalf("%+v, %v", v, err)
	}
	if again, err := h.Accepted(ctx, h.agent, a.ID); err != nil || again.Token == "" {
		t.Errorf("again: %v", err)
	}
	if _, err := h.Accepted(ctx, access.Principal{KeyID: "k", AgentID: "other-bot", Kind: access.AgentKey}, a.ID); code(err) != "not_found" {
		t.Errorf("another agent's: %v", err)
	}

	// The worker makes up for a process that has ended in between.
	b := propose()
	h.settle(b.ID)
	h.want("settled by the worker", h.get(b.ID).Approval, approval.Approved)

	// The tool is registered as a write meanwhile: nothing is approved for the agent's word.
	c := propose()
	if err := h.Registry.RegisterTool(ctx, operator, registry.Tool{Name: c.Call.Tool, Category: "write"}, nil); err != nil {
		t.Fatal(err)
	}
	h.judgeBy(h.rules)
	h.settle(c.ID)
	if got := h.get(c.ID).Approval; got.Status != approval.Pending || len(got.Plan.Requirements) == 0 || got.Plan.AcceptedAs != "" {
		t.Errorf("rules that ask for more: %s, %+v", got.Status, got.Plan)
	}
	// The next one is held, and its caller gets what everybody gets.
	checked, err := h.PreToolCheck(ctx, h.agent, parse(t, harmless), gate.Request{WantToken: true}, nil)
	if err != nil || !checked.Route.Waits() || checked.Approval == nil || checked.Approval.Plan.AcceptedAs != "" {
		t.Errorf("%+v, %v", checked, err)
	}
}

// Whoever writes such an approval into the database, without the event of a call
// that was accepted, has nothing approved.
func TestForgedAcceptanceApprovesNothing(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	a := h.open(deferred)
	h.db.Exec(`ALTER TABLE approvals DISABLE TRIGGER approvals_guard`)
	h.db.Exec(`UPDATE approvals SET requirements = '[]', terms = '{"accepted_as":"confirmed"}' WHERE id = $1`, a.ID)
	h.db.Exec(`ALTER TABLE approvals ENABLE TRIGGER approvals_guard`)
	_, err := h.settler.Settle(context.Background(), a.ID)
	if got := h.get(a.ID).Approval; got.Status == approval.Approved {
		t.Errorf("approved, %v", err)
	}
	if v, err := h.Accepted(context.Background(), h.agent, a.ID); v.Token != "" {
		t.Errorf("a token, %v", err)
	}
}
