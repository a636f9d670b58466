package policies

import (
	"strings"
	"testing"
	"time"

	"holdpoint/engine/policy"
	"holdpoint/engine/policytest"
	"holdpoint/engine/toolcontract"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestDev(t *testing.T) {
	data, err := Dev(now)
	if err != nil {
		t.Fatal(err)
	}
	b, problems := policy.Load(data, policy.Options{Now: now})
	for _, p := range problems {
		t.Error(p)
	}
	for _, p := range policy.Lint(b) {
		if p.Code != "order_matters" { // what the two ALLOW rules at the top are for
			t.Error(p)
		}
	}
	for _, role := range b.Roles() {
		switch role {
		case "reviewer", "finance-approver", "security-approver":
		default:
			t.Errorf("nobody of the example people has the role %s", role)
		}
	}
	if b.Version != "1" || !b.GeneratedAt.Equal(now) || !b.ExpiresAt.Equal(now.AddDate(10, 0, 0)) || b.Default != "REQUIRE_APPROVAL" {
		t.Errorf("version %s, %s to %s, default %s", b.Version, b.GeneratedAt, b.ExpiresAt, b.Default)
	}
	if rules := b.Rules(); rules[0].ID != "agent-action-contract" || rules[1].ID != "tool-requests" || len(rules) < 35 {
		t.Errorf("%d rules, the first of them %s, %s", len(rules), rules[0].ID, rules[1].ID)
	}
}

func TestExamples(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			read := func(file string) []byte {
				data, err := FS.ReadFile(name + "/" + file)
				if err != nil {
					t.Fatal(err)
				}
				return data
			}
			b, problems := policy.Load(read("policy.yaml"), policy.Options{Now: now})
			for _, p := range problems {
				t.Error(p)
			}
			for _, p := range policy.Lint(b) {
				t.Error(p)
			}
			set, wrong := toolcontract.Load(read("contracts.yaml"), "")
			if set == nil {
				t.Fatal(wrong)
			}
			f, mistakes := policytest.Load(read("tests.yaml"), "tests.yaml")
			if f == nil {
				t.Fatal(mistakes)
			}
			results := f.Run(b, time.Time{})
			for _, r := range results {
				if !r.Passed {
					t.Error(r.Text())
				}
			}
			if c := policytest.Cover(b, results); c.Percent != 100 {
				t.Error(c.Text("policy.yaml"))
			}
			// The page names every tool of the contracts.
			readme := string(read("README.md"))
			for _, tool := range set.Tools() {
				_, verb, _ := strings.Cut(tool, "_")
				if !strings.Contains(readme, "`"+tool+"`") && !strings.Contains(readme, "`_"+verb+"`") && !strings.HasPrefix(tool, "kubectl_get") {
					t.Errorf("README.md says nothing of %s", tool)
				}
			}
		})
	}
}
