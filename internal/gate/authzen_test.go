package gate_test

import (
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/policy"
	"holdpoint/internal/gate"
)

// asking is a harness whose policy asks people about everything.
func asking(t *testing.T) *harness {
	t.Helper()
	h := newHarness(t, routing(time.Hour, 1))
	b, problems := policy.Load([]byte(`{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2036-01-01T00:00:00Z","rules":[],"defaults":{"outcome":"REQUIRE_APPROVAL"}}`), policy.Options{})
	if b == nil {
		t.Fatal(problems)
	}
	h.judgeBy(gate.Rules{Environment: "test", Routing: routing(time.Hour, 1), Policy: b})
	return h
}

const refundOrder = `{"subject":{"type":"user","id":"ada@example.com"},"action":{"name":"refund","properties":{"amount":12}},"resource":{"type":"order","id":"7","properties":{"open":true}}}`

// evaluated is the approval that an evaluation waits for.
func (h *harness) evaluated(doc string) approval.Approval {
	h.t.Helper()
	got, wrong, err := h.Evaluate(h.t.Context(), h.agent, parse(h.t, doc), gate.Request{}, nil)
	if err != nil || len(wrong) > 0 || got.Approval == nil || got.Decision.Route == engine.Accept {
		h.t.Fatalf("%+v, %v, %v", got, wrong, err)
	}
	return *got.Approval
}

// The arguments of an evaluation can be edited, into a call that can be judged.
func TestEvaluationIsEdited(t *testing.T) {
	h := asking(t)
	a := h.evaluated(refundOrder)
	for _, arguments := range []string{`{"amount":1}`, `{"amount":1,"resource_type":"order","resource_id":""}`, `{"amount":1,"resource_type":"order","resource_id":7}`} {
		if _, err := h.edit("ben", a, arguments); code(err) != "edit_invalid" {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	a, err := h.edit("ben", a, `{"amount":1,"open":false,"note":"less","resource_type":"order","resource_id":"7"}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.vote("dina", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	got := h.get(a.ID).Approval
	if got.Status != approval.Approved {
		t.Fatalf("it is %s: %+v", got.Status, got.Reasons)
	}
}

// The person whom an evaluation names as its subject does not decide over it.
func TestEvaluationIsNotDecidedByItsSubject(t *testing.T) {
	h := asking(t)
	a := h.evaluated(strings.Replace(refundOrder, "ada@example.com", h.people["ada"].Email, 1))
	if err := h.vote("ada", a, true); code(err) != "self_review" {
		t.Errorf("the subject votes: %v", err)
	}
	if err := h.vote("ben", a, true); err != nil {
		t.Errorf("somebody else votes: %v", err)
	}
}
