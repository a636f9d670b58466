package policy_test

import (
	"testing"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
)

// Load never panics, says why it refuses, and what it takes it takes again from
// its canonical form, as the same bundle with the same decisions.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(exampleJSON))
	f.Add([]byte(exampleYAML))
	f.Add([]byte(bundleOf(ruleOf("a", `,"trust_level_min":"basic"`, `"matches_regex":"(?=a)[^b-d]{2,3}\\bx"`, `,"signature":"x"`))))
	f.Add([]byte("a: [b, {c: |\n  d\n}]\n? x\n- &y *z"))
	f.Add([]byte("\uFEFF{"))
	f.Add([]byte(bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_TICKET", "approval": {"any_of": [{"role": "q", "needed": 1}, {"role": "r", "needed": 2}], "deny": 2,
		"within": "4h", "calendar": "office", "reminders": ["30m", "2h"], "suggest": ["ada@example.com"], "ticket": {"system": "jira", "projects": ["PAY"], "max_age": "720h"},
		"ask": {"type": "object", "properties": {"reason": {"type": "string", "pattern": "^a+$"}}, "required": ["reason"]}}`))))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, problems := policy.Load(data, policy.Options{})
		if b == nil {
			if !policy.HasErrors(problems) {
				t.Fatalf("refused without a reason: %v", problems)
			}
			return
		}
		if policy.HasErrors(problems) {
			t.Fatalf("loaded with errors: %v", problems)
		}
		for _, r := range b.Rules() {
			if r.ID == "" || r.Line == 0 {
				t.Fatalf("a rule without id or place: %+v", r)
			}
		}
		policy.Lint(b)
		v, err := canon.Parse(data)
		if err != nil {
			return // YAML
		}
		again, problems := policy.Load(v.Canonical(), policy.Options{})
		if again == nil || again.Digest != b.Digest {
			t.Fatalf("the canonical form is another bundle: %v", problems)
		}
		r := &policy.Request{Tool: "pay", Environment: "prod", Args: v}
		if x, y := b.Decide(r, b.GeneratedAt), again.Decide(r, b.GeneratedAt); x.Rule != y.Rule || x.Outcome != y.Outcome {
			t.Fatalf("the canonical form decides otherwise: %+v, %+v", x, y)
		}
		b.Explain(r, b.GeneratedAt)
		if d := b.Decide(r, b.GeneratedAt); d.Outcome.Route().Waits() == (len(d.Requirements()) == 0) {
			t.Fatalf("%s asks for %+v", d.Outcome, d.Requirements())
		}
	})
}
