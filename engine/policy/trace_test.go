package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
)

// A trace names the rules whose decisions Consider returns, in its order, and the
// conditions of each say the same.
func TestTraceIsConsider(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b, q := anyBundle(r, true), claimed(r)
		var want, got []string
		for _, d := range b.Consider(q, judgedAt) {
			want = append(want, d.Rule)
		}
		trace := b.Trace(q, judgedAt)
		for _, s := range trace.Steps {
			failed := slices.ContainsFunc(s.Conditions, func(c policy.TracedCondition) bool { return !c.Held })
			byClaim := slices.ContainsFunc(s.Conditions, func(c policy.TracedCondition) bool { return c.ByClaim })
			// Two conditions on what is said can exclude each other, with it and without it.
			if failed && s.Held != policy.HoldsNot || !failed && !byClaim && s.Held == policy.HoldsNot {
				t.Fatalf("rule %s is %s by %+v", s.ID, s.Held, s.Conditions)
			}
			if s.Held == policy.Holds && byClaim || s.Held == policy.HoldsClaimed && !byClaim {
				t.Fatalf("rule %s is %s by %+v", s.ID, s.Held, s.Conditions)
			}
			if s.Held != policy.HoldsNot {
				got = append(got, s.ID)
			}
		}
		if trace.ByDefault {
			got = append(got, "")
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the trace has %q, the decision %q", got, want)
		}
		if n := len(trace.Steps) + trace.Omitted + trace.Behind + trace.Elsewhere; n != len(b.Rules()) {
			t.Fatalf("%d of %d rules", n, len(b.Rules()))
		}
	})
}

// traceBundle has rules about a tool, and others.
func traceBundle(t *testing.T, rules ...string) *policy.Bundle {
	t.Helper()
	b, problems := policy.Load([]byte("version: '1'\ngenerated_at: 2026-01-01T00:00:00Z\nexpires_at: 2036-01-01T00:00:00Z\nrules:\n"+strings.Join(rules, "")+"defaults: {outcome: DENY}\n"), policy.Options{})
	if b == nil {
		t.Fatal(problems)
	}
	return b
}

// What is told is bounded, and says nothing of the call's arguments.
func TestTraceIsBounded(t *testing.T) {
	var rules []string
	for i := range 100 {
		rules = append(rules, fmt.Sprintf("  - {id: r%d, description: d, match: {tool_name: pay, environment: '*'}, when: {tool_args_match: {amount: {gt: %d}}}, outcome: DENY}\n", i, 1000+i))
	}
	rules = append(rules,
		"  - {id: other, description: d, match: {tool_name: read, environment: '*'}, outcome: ALLOW}\n",
		"  - {id: this, description: d, match: {tool_name: pay, environment: '*'}, outcome: REQUIRE_APPROVAL}\n",
		"  - {id: behind, description: d, match: {tool_name: '*', environment: '*'}, outcome: DENY}\n")
	b := traceBundle(t, rules...)
	args, err := canon.Parse([]byte(`{"amount":7,"note":"canary"}`))
	if err != nil {
		t.Fatal(err)
	}
	trace := b.Trace(&policy.Request{Tool: "pay", Environment: "dev", Args: args}, judgedAt)
	if len(trace.Steps) != 31 || trace.Omitted != 70 || trace.Elsewhere != 1 || trace.Behind != 1 || trace.ByDefault {
		t.Errorf("%d steps, %d omitted, %d elsewhere, %d behind", len(trace.Steps), trace.Omitted, trace.Elsewhere, trace.Behind)
	}
	last := trace.Steps[len(trace.Steps)-1]
	if last.ID != "this" || last.Held != policy.Holds {
		t.Errorf("the last is %+v", last)
	}
	if text := fmt.Sprint(trace); strings.Contains(text, "canary") {
		t.Errorf("it tells an argument: %s", text)
	}
	if late := b.Trace(&policy.Request{Tool: "pay"}, b.ExpiresAt.AddDate(1, 0, 0)); !late.Expired || len(late.Steps) != 0 {
		t.Errorf("an expired bundle: %+v", late)
	}
}

// What a condition on numbers fails by is told: the argument is missing, or is no number.
func TestTraceWithoutANumber(t *testing.T) {
	b := traceBundle(t, "  - {id: large, description: d, match: {tool_name: pay, environment: '*'}, when: {tool_args_match: {amount: {gt: 500}, currency: EUR}}, outcome: DENY}\n",
		"  - {id: any, description: d, match: {tool_name: '*', environment: '*'}, when: {tool_args_match: {amount: {gt: 500}}}, outcome: DENY}\n")
	for text, want := range map[string]string{
		`{"amount":"950.00","currency":"EUR"}`: "amount", `{"currency":"EUR"}`: "amount", `{"amount":null,"currency":1}`: "amount",
		`{"amount":7,"currency":"EUR"}`: "", `{"amount":950}`: "", `{"amount":950,"currency":"EUR"}`: "",
	} {
		args, err := canon.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, c := range b.Trace(&policy.Request{Tool: "pay", Args: args}, judgedAt).Steps[0].Conditions {
			if c.NoNumber {
				got += strings.Trim(strings.TrimPrefix(c.Name, "when.tool_args_match["), `"]`)
			}
		}
		if got != want {
			t.Errorf("%s: without a number is %q, want %q", text, got, want)
		}
		// A rule for every tool says nothing of one that has no such argument.
		if trace := b.Trace(&policy.Request{Tool: "read", Args: args}, judgedAt); trace.Steps[0].Conditions[2].NoNumber != (text != `{"currency":"EUR"}` && want != "") {
			t.Errorf("%s: a rule for every tool: %+v", text, trace.Steps[0].Conditions)
		}
	}
}

// A rule that is too costly to try ends the trace, as it ends the decision.
func TestTraceTooLong(t *testing.T) {
	b := traceBundle(t,
		"  - {id: costly, description: d, match: {tool_name: pay, environment: '*'}, when: {matches_regex: 'a[ab]{20}c'}, outcome: ALLOW}\n",
		"  - {id: next, description: d, match: {tool_name: pay, environment: '*'}, outcome: ALLOW}\n")
	args := canon.Object(canon.Member{Name: "a", Value: canon.String(strings.Repeat("ab", 300_000))})
	trace := b.Trace(&policy.Request{Tool: "pay", Environment: "dev", Args: args}, judgedAt)
	if len(trace.Steps) != 1 || trace.Steps[0].Held != policy.TooLong || trace.Behind != 1 || trace.ByDefault {
		t.Errorf("%+v", trace)
	}
}
