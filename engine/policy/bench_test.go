package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"holdpoint/engine/dialect/spm"
	"holdpoint/engine/policy"
)

// benchmarkRequest is a call of about 1 KB.
const benchmarkRequest = `{"agent":{"agent_id":"agent-billing-7","name":"Billing","owner":"team@example.com","environment":"prod","agent_type":"workflow_agent","trust_level":"verified","roles":["finance.reader","payments"]},
"action":{"type":"tool_call","tool_name":"TOOL","tool_args":{"payment":"pay_881","amount":129.95,"currency":"EUR","reason":"Damaged on arrival, customer sent photos of the parcel and of what was in it.",
"lines":[{"sku":"A-100","quantity":1,"note":"blue, size M"},{"sku":"B-205","quantity":2,"note":"replacement is out of stock until May"}],"notify":true,
"address":{"name":"Jo Doe","street":"1 Example Street","city":"Springfield","zip":"12345","country":"US"},
"history":["ordered on the 3rd","shipped on the 4th","delivered on the 9th","complaint on the 10th"]},"tool_identity":{"tool_name":"TOOL","provider":"mcp"}},
"context":{"user_input":"Please refund the broken parts of my last order, the photos are attached.","data_labels":["PII"],"trace_id":"0af7651916cd43dd8448eb211c80319c"}}`

func benchmarkBundle(b *testing.B, n int, rule func(i int) string) *policy.Bundle {
	b.Helper()
	rules := make([]string, n)
	for i := range rules {
		rules[i] = rule(i)
	}
	v := parse(b, bundleOf(rules[:0]...))
	if n <= 1000 {
		return load(b, bundleOf(rules...))
	}
	// A document of so many rules is more than a Load takes.
	return compileMany(b, v, rules)
}

func named(i int) string {
	return strings.Replace(ruleOf(fmt.Sprintf("r%d", i), "", "", ""), `"tool_name": "*"`, fmt.Sprintf(`"tool_name": "tool_%d"`, i), 1)
}

func benchmarkDecide(b *testing.B, bundle *policy.Bundle, tool, want string) {
	b.Helper()
	r := spm.RequestOf(parse(b, strings.ReplaceAll(benchmarkRequest, "TOOL", tool)))
	if d := bundle.Decide(r, now); d.Rule != want {
		b.Fatalf("got rule %q, want %q", d.Rule, want)
	}
	b.ReportAllocs()
	for b.Loop() {
		bundle.Decide(r, now)
	}
}

func BenchmarkDecide(b *testing.B) {
	hundred := benchmarkBundle(b, 100, named)
	b.Run("100 first", func(b *testing.B) { benchmarkDecide(b, hundred, "tool_0", "r0") })
	b.Run("100 last", func(b *testing.B) { benchmarkDecide(b, hundred, "tool_99", "r99") })
	b.Run("100 none", func(b *testing.B) { benchmarkDecide(b, hundred, "other", "") })
	conditions := func(name func(i int) string) func(i int) string {
		return func(i int) string {
			amount, word := 1_000_000, "bulk export"
			if i == 99 {
				amount, word = 100, "broken"
			}
			r := ruleOf(fmt.Sprintf("r%d", i), "", fmt.Sprintf(`"contains_any": [%q, "invoice"], "tool_args_match": {"amount": {"gt": %d}}`, word, amount), "")
			return strings.Replace(r, `"tool_name": "*"`, fmt.Sprintf(`"tool_name": %q`, name(i)), 1)
		}
	}
	own := benchmarkBundle(b, 100, conditions(func(i int) string { return fmt.Sprintf("tool_%d", i) }))
	b.Run("100 last, conditions", func(b *testing.B) { benchmarkDecide(b, own, "tool_99", "r99") })
	same := benchmarkBundle(b, 100, conditions(func(int) string { return "*" }))
	b.Run("100 last, conditions, all candidates", func(b *testing.B) { benchmarkDecide(b, same, "tool_99", "r99") })
	words := benchmarkBundle(b, 100, func(i int) string {
		word := "bulk export"
		if i == 99 {
			word = "broken"
		}
		return ruleOf(fmt.Sprintf("r%d", i), "", fmt.Sprintf(`"contains_any": [%q]`, word), "")
	})
	b.Run("100 last, words, all candidates", func(b *testing.B) { benchmarkDecide(b, words, "tool_99", "r99") })
	many := benchmarkBundle(b, 10_000, named)
	b.Run("10000 first", func(b *testing.B) { benchmarkDecide(b, many, "tool_0", "r0") })
	b.Run("10000 last", func(b *testing.B) { benchmarkDecide(b, many, "tool_9999", "r9999") })
}

func BenchmarkLoad(b *testing.B) {
	rules := make([]string, 1000)
	for i := range rules {
		rules[i] = named(i)
	}
	text := []byte(bundleOf(rules...))
	b.ReportAllocs()
	for b.Loop() {
		if bundle, problems := policy.Load(text, policy.Options{Now: now}); bundle == nil {
			b.Fatal(problems)
		}
	}
}

// Decide allocates nothing without text conditions.
func TestDecideAllocatesNothing(t *testing.T) {
	b := load(t, bundleOf(
		ruleOf("a", `,"agent_type":["x"],"agent_roles_any":["q"],"trust_level_min":"system"`, "", ""),
		ruleOf("b", "", `"data_labels_any":["PCI"],"tool_args_match":{"amount":{"gt":1000},"lines":[1]}`, ""),
		named(1), ruleOf("c", `,"tool_provider":"mcp"`, `"tool_args_match":{"notify":true}`, `,"constraints":{"x":1},"outcome":"REQUIRE_HUMAN","approval":{"quorum":2}`)))
	r := spm.RequestOf(parse(t, benchmarkRequest))
	if d := b.Decide(r, now); d.Rule != "c" {
		t.Fatalf("got rule %q", d.Rule)
	}
	if n := testing.AllocsPerRun(100, func() { b.Decide(r, now) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}
