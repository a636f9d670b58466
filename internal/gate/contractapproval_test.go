package gate_test

import (
	"testing"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/redact"
	"holdpoint/internal/gate"
)

// A contract that needs an approval has people asked once, and lets the call that they
// have approved through when it is judged again.
func TestContractNeedsAnApproval(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	set, problems := safeai.Load([]byte("tool_contracts:\n  search_docs:\n    allowed_request_fields: [query]\n    requires_approval: true\n"), "c.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	rules := h.rules
	rules.Contracts, rules.Detector = set, redact.New()
	h.judgeBy(rules)
	a := h.open(harmless)
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	if got := h.get(a.ID); got.Approval.Status != approval.Approved || got.Token == "" {
		t.Errorf("it is %s, with the reasons %v", got.Approval.Status, got.Approval.Reasons)
	}
	checked, err := h.PreToolCheck(t.Context(), h.agent, parse(t, `{"tool_name":"search_docs","tool_category":"public_read","authorization_state":"none","evidence_refs":[],"risk_domain":"research","proposed_arguments":{"query":"q","site":"x"},"recommended_route":"accept"}`), gate.Request{}, nil)
	if err != nil || checked.Approval != nil || checked.Envelope.GateDecision != "fail" {
		t.Errorf("with another field: %+v, %v", checked, err)
	}
}
