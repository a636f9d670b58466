package policy_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
)

// claimed is a random request with random claims, of few words so that they meet
// those of the rules.
func claimed(r *rapid.T) *policy.Request {
	word := rapid.SampledFrom([]string{"", "pii", "public", "prod", "dev", "mcp"})
	provider := word.Draw(r, "provider")
	q := &policy.Request{
		Tool: "t", Environment: "prod", DataLabels: rapid.SliceOfN(word, 0, 1).Draw(r, "registered labels"), Provider: &provider,
		Args: canon.Object(canon.Member{Name: "a", Value: canon.String(word.Draw(r, "argument"))}),
		Claims: policy.Claims{
			UserInput: word.Draw(r, "user input"), DataLabels: rapid.SliceOfN(word, 0, 3).Draw(r, "labels"),
			Environment: word.Draw(r, "environment"), Provider: word.Draw(r, "claimed provider"),
		},
	}
	return q
}

// anyBundle is a random bundle of rules that look at claims. believing says
// whether its rules may believe some.
func anyBundle(r *rapid.T, believing bool) *policy.Bundle {
	word := rapid.SampledFrom([]string{"pii", "public", "prod", "dev", "mcp"})
	outcome := rapid.SampledFrom([]string{"ALLOW", "DENY", "REQUIRE_APPROVAL", "REQUIRE_TICKET"})
	var rules []any
	for i := range rapid.IntRange(0, 5).Draw(r, "rules") {
		match := map[string]any{"tool_name": "*", "environment": rapid.SampledFrom([]string{"*", "prod", "dev"}).Draw(r, "environment")}
		if rapid.Bool().Draw(r, "by provider") {
			match["tool_provider"] = word.Draw(r, "provider")
		}
		when := map[string]any{}
		for name, on := range map[string]bool{"contains_any": true, "not_contains": true, "data_labels_any": true} {
			if rapid.Bool().Draw(r, name) == on {
				when[name] = []any{word.Draw(r, "word")}
			}
		}
		rule := map[string]any{"id": string(rune('a' + i)), "description": "d", "match": match, "when": when, "outcome": outcome.Draw(r, "outcome")}
		if believing {
			rule["trust_claims"] = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"environment", "provider", "data_labels", "user_input"}), rapid.ID[string]).Draw(r, "believes")
		}
		rules = append(rules, rule)
	}
	text, err := json.Marshal(map[string]any{
		"version": "1", "generated_at": "2026-01-01T00:00:00Z", "expires_at": "2036-01-01T00:00:00Z", "rules": append([]any{}, rules...),
		"defaults": map[string]any{"outcome": outcome.Draw(r, "default")},
	})
	if err != nil {
		r.Fatal(err)
	}
	b, problems := policy.Load(text, policy.Options{})
	if b == nil {
		r.Fatal(problems)
	}
	return b
}

func strictest(list []policy.Decision) engine.Route {
	route := engine.Accept
	for _, d := range list {
		route = route.Stricter(d.Outcome.Route())
	}
	return route
}

var judgedAt = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// No claim loosens a decision: not one alone, not all, not one more beside others.
func TestNoClaimLoosens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b, q := anyBundle(r, false), claimed(r)
		all := strictest(b.Consider(q, judgedAt))
		fewer := *q
		for name, leave := range map[string]func(*policy.Claims){
			"user input":  func(c *policy.Claims) { c.UserInput = "" },
			"labels":      func(c *policy.Claims) { c.DataLabels = c.DataLabels[:len(c.DataLabels)/2] },
			"environment": func(c *policy.Claims) { c.Environment = "" },
			"provider":    func(c *policy.Claims) { c.Provider = "" },
			"everything":  func(c *policy.Claims) { *c = policy.Claims{} },
		} {
			fewer.Claims = q.Claims
			leave(&fewer.Claims)
			if got := strictest(b.Consider(&fewer, judgedAt)); got > all {
				r.Fatalf("without the claim of %s: %s, with it: %s", name, got, all)
			}
		}
	})
}

// What Consider answers is at least as strict as Decide with all claims taken for
// true, and as Decide with none; with everything believed it is the former.
func TestConsiderCoversDecide(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b, q := anyBundle(r, rapid.Bool().Draw(r, "believing")), claimed(r)
		got := strictest(b.Consider(q, judgedAt))
		if want := b.Decide(policy.Believing(q), judgedAt).Outcome.Route(); got < want {
			r.Fatalf("got %s, with all claims believed it is %s", got, want)
		}
	})
}

func TestTrustedClaims(t *testing.T) {
	load := func(trust string) *policy.Bundle {
		b, problems := policy.Load([]byte(`{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2036-01-01T00:00:00Z","rules":[
			{"id":"open","description":"d","match":{"tool_name":"*","environment":"*"},"when":{"data_labels_any":["public"]}`+trust+`,"outcome":"ALLOW"},
			{"id":"user","description":"d","match":{"tool_name":"*","environment":"*"},"when":{"contains_any":["delete"]},"outcome":"REQUIRE_APPROVAL"}
		],"defaults":{"outcome":"DENY"}}`), policy.Options{})
		if b == nil {
			t.Fatal(problems)
		}
		return b
	}
	public := policy.Claims{DataLabels: []string{"public"}}
	for name, tt := range map[string]struct {
		trust    string
		labels   []string
		claims   policy.Claims
		outcomes []engine.Outcome
	}{
		"a claim is not enough":        {"", nil, public, []engine.Outcome{engine.Allow, engine.Deny}},
		"unless the rule believes it":  {`,"trust_claims":["data_labels"]`, nil, public, []engine.Outcome{engine.Allow}},
		"another belief is another":    {`,"trust_claims":["user_input"]`, nil, public, []engine.Outcome{engine.Allow, engine.Deny}},
		"what is registered is enough": {"", []string{"public"}, public, []engine.Outcome{engine.Allow}},
		"a claim can be the stricter":  {"", nil, policy.Claims{UserInput: "delete it"}, []engine.Outcome{engine.RequireApproval, engine.Deny}},
		"nothing claimed":              {"", nil, policy.Claims{}, []engine.Outcome{engine.Deny}},
	} {
		var got []engine.Outcome
		for _, d := range load(tt.trust).Consider(&policy.Request{Tool: "t", Environment: "prod", DataLabels: tt.labels, Args: canon.Object(), Claims: tt.claims}, judgedAt) {
			got = append(got, d.Outcome)
		}
		if !slices.Equal(got, tt.outcomes) {
			t.Errorf("%s: got %v, want %v", name, got, tt.outcomes)
		}
	}
}
