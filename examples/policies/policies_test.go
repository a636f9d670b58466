package policies

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/policy"
	"holdpoint/engine/policytest"
	"holdpoint/schemas"
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
		// order_matters is what the ALLOW rule at the top is for, and what passes by deploy-rollout
		// waits for a reviewer by the default as well.
		if p.Code != "order_matters" && (p.Code != "number_only" || p.Rule != "deploy-rollout") {
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
	if rules := b.Rules(); rules[0].ID != "tool-requests" || rules[len(rules)-1].ID != "registered-tools" || len(rules) < 35 {
		t.Errorf("%d rules, from %s to %s", len(rules), rules[0].ID, rules[len(rules)-1].ID)
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
			office := func(calendar string) bool { return calendar == "office" }
			b, problems := policy.Load(read("policy.yaml"), policy.Options{Now: now, Calendars: office})
			for _, p := range problems {
				t.Error(p)
			}
			for _, p := range policy.Lint(b) {
				t.Error(p)
			}
			var tools []string
			if data, err := FS.ReadFile(name + "/contracts.yaml"); err == nil { // a shell's data has no kinds
				set, wrong := safeai.Load(data, "")
				if set == nil {
					t.Fatal(wrong)
				}
				tools = set.Tools()
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
			validates(t, read("policy.yaml"))
			// The page names every tool of the contracts.
			readme := string(read("README.md"))
			for _, tool := range tools {
				_, verb, _ := strings.Cut(tool, "_")
				if !strings.Contains(readme, "`"+tool+"`") && !strings.Contains(readme, "`_"+verb+"`") && !strings.HasPrefix(tool, "kubectl_get") {
					t.Errorf("README.md says nothing of %s", tool)
				}
			}
		})
	}
}

// validates holds a policy against the schema that editors are given.
func validates(t *testing.T, data []byte) {
	t.Helper()
	text, err := schemas.FS.ReadFile(schemas.PolicyBundle)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("bundle.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("bundle.json")
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("the schema does not accept it: %v", err)
	}
}

// The guide's own policy is one, and its own tests hold.
func TestGuide(t *testing.T) {
	data, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split(string(data), "```") {
		if text, ok := strings.CutPrefix(part, "yaml\n"); ok && i%2 == 1 {
			blocks = append(blocks, text)
		}
	}
	b, problems := policy.Load([]byte(blocks[0]), policy.Options{Now: now})
	for _, p := range append(problems, policy.Lint(b)...) {
		t.Error(p)
	}
	f, mistakes := policytest.Load([]byte(blocks[len(blocks)-1]), "tests.yaml")
	if f == nil {
		t.Fatal(mistakes)
	}
	for _, r := range f.Run(b, now) {
		if !r.Passed {
			t.Error(r.Text())
		}
	}
	// Every other piece fits into a file of tests or into a policy.
	for _, block := range blocks[1 : len(blocks)-1] {
		if strings.HasPrefix(block, "  - name:") {
			if _, mistakes := policytest.Load([]byte("tests:\n"+block), "tests.yaml"); len(mistakes) > 0 {
				t.Errorf("%v\n%s", mistakes, block)
			}
			continue
		}
		rule := "  - id: a\n    description: a\n    match: {tool_name: a, environment: a}\n"
		if strings.HasPrefix(block, "  - id:") {
			rule = block
		} else {
			if strings.HasPrefix(block, "tool_args_match") {
				rule += "    when:\n"
				block = "  " + strings.ReplaceAll(block, "\n", "\n  ")
			}
			rule += "    " + strings.ReplaceAll(strings.TrimSpace("\n"+block), "\n", "\n    ") + "\n    outcome: REQUIRE_APPROVAL\n"
			rule = strings.Replace(rule, "when:\n    tool_args", "when:\n      tool_args", 1)
		}
		head, _, _ := strings.Cut(blocks[0], "  - id:")
		if _, problems := policy.Load([]byte(head+rule), policy.Options{Now: now}); len(problems) > 0 {
			t.Errorf("%v\n%s", problems, rule)
		}
	}
}
