package web

import (
	"net/http"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/policy"
	"holdpoint/internal/gate"
)

// TestRuleTrace: a card says which rule decided and why, folded, outside of what is kept as
// shown; the requesting side is not told.
func TestRuleTrace(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_1", "pay", `{"amount":1}`, nil)
	long := strings.Repeat("wide ", 100)
	c.m.rules = &gate.RuleTrace{Version: "2026-11\u202e", Default: engine.Deny, Trace: policy.Trace{
		Steps: []policy.Step{
			{Rule: policy.Rule{ID: "small", Outcome: engine.Allow}, Held: policy.HoldsNot, Conditions: []policy.TracedCondition{
				{Condition: policy.Condition{Held: true, Why: "The tool is fine."}}, {Condition: policy.Condition{Why: "The argument is not small."}},
			}},
			{Rule: policy.Rule{ID: "large", Description: long, Outcome: engine.RequireApproval}, Held: policy.Holds, Conditions: []policy.TracedCondition{{Condition: policy.Condition{Held: true, Why: "The tool is \"pay\"."}}}},
		},
		Elsewhere: 7, Behind: 1,
	}}
	card := c.get("/approvals/apr_1")
	card.want(t, http.StatusOK, `data-testid="rule-trace"`, "Rule large decides (2 rules were tried)", "The argument is not small.", "The tool is &#34;pay&#34;.",
		"Other rules: 1 behind the one that decides, not tried and 7 about other tools.", "[U+202E RIGHT-TO-LEFT OVERRIDE]")
	if strings.Contains(card.body, "The tool is fine.") || strings.Contains(card.body, long) {
		t.Error("the trace has what matters not, or a text without end")
	}
	if strings.Contains(c.m.seen[0], "rule-trace") {
		t.Error("the trace is part of what is kept as shown")
	}
	c.m.rules.Former, c.m.rules.Differs = true, true
	c.get("/approvals/apr_1").want(t, http.StatusOK, "not in force any more", "registered in another way now")
	c.m.rules = &gate.RuleTrace{Gone: true}
	c.get("/approvals/apr_1").want(t, http.StatusOK, "is not kept here any more")
	c.do("POST", "/logout", nil, "Sec-Fetch-Site", "same-origin")
	c.m.cards["apr_1"].Approval.Plan.Excluded = []string{"linus", "grace"}
	if page := c.signIn("grace@example.com").get("/approvals/apr_1"); page.StatusCode != http.StatusOK || strings.Contains(page.body, "rule-trace") {
		t.Errorf("the requesting side is told the rules (%s)", page.Status)
	}
}

// TestRulesWithoutANumber: a card says which rules might have asked for more, had an argument
// been a number. One that some other condition fails by as well, or that allows, is not told.
func TestRulesWithoutANumber(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_1", "pay", `{"amount":"950.00"}`, nil)
	fails := func(id string, o engine.Outcome, more ...policy.TracedCondition) policy.Step {
		text := policy.TracedCondition{Condition: policy.Condition{NoNumber: true, Why: "The argument \"amount\" is a string."}}
		return policy.Step{Rule: policy.Rule{ID: id, Outcome: o}, Held: policy.HoldsNot, Conditions: append(more, text)}
	}
	c.m.rules = &gate.RuleTrace{Default: engine.RequireApproval, Trace: policy.Trace{ByDefault: true, Steps: []policy.Step{
		fails("refund-large", engine.RequireApproval, policy.TracedCondition{Condition: policy.Condition{Held: true, Why: "The tool is \"pay\"."}}),
		fails("refund-elsewhere", engine.Deny, policy.TracedCondition{Condition: policy.Condition{Why: "The environment is another."}}),
		fails("refund-small", engine.Allow),
	}}}
	card := c.get("/approvals/apr_1")
	card.want(t, http.StatusOK, `data-testid="unread-rules"`, "1 rule of the policy did not apply for want of a number")
	_, told, _ := strings.Cut(card.body, `data-testid="unread-rules"`)
	told, _, _ = strings.Cut(told, "</section>")
	if !strings.Contains(told, "refund-large") || !strings.Contains(told, "is a string") || strings.Contains(told, "refund-elsewhere") || strings.Contains(told, "refund-small") {
		t.Errorf("it tells\n%s", told)
	}
	if strings.Contains(c.m.seen[0], "unread-rules") {
		t.Error("what is read again each time is part of what is kept as shown")
	}
	c.m.add("apr_2", "pay", `{"amount":"951.00"}`, nil)
	c.get(pageFor("apr_1", "apr_2")).want(t, http.StatusOK, "None of these calls can be decided together", "A rule had no number to compare")
}

// TestRuleTraceSummary: one line says what decided.
func TestRuleTraceSummary(t *testing.T) {
	step := func(id string, held policy.StepResult) policy.Step {
		return policy.Step{Rule: policy.Rule{ID: id}, Held: held}
	}
	for _, tt := range []struct {
		trace policy.Trace
		want  string
	}{
		{policy.Trace{ByDefault: true, Elsewhere: 3}, "No rule is about this tool: the policy’s default decides"},
		{policy.Trace{ByDefault: true, Steps: []policy.Step{step("a", policy.HoldsNot)}}, "No rule matches: the policy’s default decides (1 rule was tried)"},
		{policy.Trace{ByDefault: true, Steps: []policy.Step{step("a", policy.HoldsClaimed)}}, "Rule a and the policy’s default decide together (1 rule was tried)"},
		{policy.Trace{Steps: []policy.Step{step("a", policy.HoldsClaimed), step("b", policy.Holds)}}, "2 rules decide together (2 rules were tried)"},
		{policy.Trace{Steps: []policy.Step{step("a", policy.TooLong)}}, "Rule a could not be tried in bounded time, so the call is refused"},
		{policy.Trace{Expired: true}, "No rule was tried: the policy had expired"},
	} {
		if got := ruleTrace(&gate.RuleTrace{Trace: tt.trace, Default: engine.Deny}).Summary; got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
