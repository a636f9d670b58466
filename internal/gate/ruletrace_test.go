package gate_test

import (
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/policy"
	"holdpoint/engine/registry"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// trace is which rules met the call, as the person is told; nil where they are not.
func (h *harness) trace(who, id string) *gate.RuleTrace {
	h.t.Helper()
	t, err := h.Queries.RuleTrace(h.t.Context(), h.people[who], h.card(who, id))
	if err != nil {
		h.t.Fatal(err)
	}
	return t
}

// TestRuleTrace: a card's rules are those of the policy that judged its call, whatever is
// in force since; without that policy there are none.
func TestRuleTrace(t *testing.T) {
	h := newPolicyHarness(t)
	a := *h.check(params("pay", "")).Approval
	here := h.trace("ada", a.ID)
	if here == nil || len(here.Steps) != 1 || here.Steps[0].ID != "pay" || here.Steps[0].Held != policy.Holds || here.Former || here.Differs || here.Elsewhere != 7 || here.ByDefault {
		t.Fatalf("by the policy in force: %+v", here)
	}
	if told := h.trace("owner", a.ID); told != nil {
		t.Errorf("the requesting side is told %+v", told)
	}
	judged, text := h.judge.Load(), bundleText
	h.rules.Policy = bundle(t, strings.Replace(text, "id: pay,", "id: other,", 1))
	h.judgeBy(h.rules)
	if gone := h.trace("ada", a.ID); gone == nil || !gone.Gone || len(gone.Steps) != 0 {
		t.Errorf("its policy is not kept: %+v", gone)
	}
	if err := h.Store.Rules.KeepRuleset(t.Context(), judged.Digest(), judged.Body()); err != nil {
		t.Fatal(err)
	}
	d := store.Document{Kind: store.PolicyDocument, KnownAs: judged.Policy.Digest, Body: []byte(text)}
	e := engine.Event{ID: store.NewEventID(), Type: engine.Admin, Outcome: engine.Allow, Reasons: []engine.Reason{}, SafePayload: []byte(`{}`), Actor: engine.Actor{Kind: engine.SystemActor, ID: "test"}}
	if _, err := h.Store.Rules.Activate(t.Context(), d, "test", e, func(store.Replacing) ([]string, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	for range 2 { // as it is read, and as it is remembered
		if former := h.trace("ada", a.ID); former == nil || !former.Former || former.Version != "1" || len(former.Steps) != 1 || former.Steps[0].ID != "pay" || former.Differs {
			t.Errorf("by the policy of its time: %+v", former)
		}
	}
}

// TestRuleTraceSaysWhenItDiffers: what is registered may have changed since the call was
// judged, and with it the rules that match.
func TestRuleTraceSaysWhenItDiffers(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	h.rules.Policy = bundle(t, `
version: "1"
generated_at: 2026-01-01T00:00:00Z
expires_at: 2099-01-01T00:00:00Z
rules:
  - {id: unknown-tool, description: Nobody knows it., match: {tool_name: "*", environment: "*", tool_registered: false}, outcome: REQUIRE_APPROVAL, approver_role: reviewer}
  - {id: known-tool, description: Known., match: {tool_name: "*", environment: "*"}, outcome: REQUIRE_HUMAN, approver_role: reviewer}
defaults: {outcome: DENY}
`)
	h.judgeBy(h.rules)
	a := *h.check(params("pay", "")).Approval
	if got := h.trace("ada", a.ID); got.Differs || len(got.Steps) != 1 || got.Behind != 1 {
		t.Errorf("as it was judged: %+v", got)
	}
	if err := h.Registry.RegisterTool(t.Context(), operator, registry.Tool{Name: "pay"}, nil); err != nil {
		t.Fatal(err)
	}
	h.judgeBy(h.rules)
	if got := h.trace("ada", a.ID); !got.Differs || len(got.Steps) != 2 {
		t.Errorf("with the tool registered since: %+v", got)
	}
}
