package policy_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/spm"
	"holdpoint/engine/policy"
)

func parseRapid(t rapid.TB, text []byte) canon.Value {
	v, err := canon.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}

func loadRapid(t rapid.TB, text []byte) *policy.Bundle {
	b, problems := policy.Load(text, policy.Options{Now: now})
	if policy.HasErrors(problems) {
		t.Fatalf("%v\n%s", problems, text)
	}
	return b
}

const exampleYAML = `# Who may pay.
version: 1.4.2
generated_at: 2026-01-01T00:00:00Z
expires_at: "2099-01-01T00:00:00Z"
defaults: {outcome: DENY}
rules:
  - id: small
    description: |-
      Small payments
      run at once.
    match: {tool_name: pay, environment: "*"}
    when:
      tool_args_match:
        amount: {lte: 100, gt: 0}
        "0": null
    outcome: ALLOW
  - id: large
    description: 'Two people agree.'
    match:
      tool_name: [pay, refund]
      environment: prod
    outcome: REQUIRE_APPROVAL
    approver_role: finance
    constraints: {max: 1e3, note: "a\tb"}
    approval:
      quorum: 2
      within: 30m
`

const exampleJSON = `{"version":"1.4.2","generated_at":"2026-01-01T00:00:00Z","expires_at":"2099-01-01T00:00:00Z","defaults":{"outcome":"DENY"},"rules":[
{"id":"small","description":"Small payments\nrun at once.","match":{"tool_name":"pay","environment":"*"},"when":{"tool_args_match":{"amount":{"lte":100,"gt":0},"0":null}},"outcome":"ALLOW"},
{"id":"large","description":"Two people agree.","match":{"tool_name":["pay","refund"],"environment":"prod"},"outcome":"REQUIRE_APPROVAL","approver_role":"finance","constraints":{"max":1000,"note":"a\tb"},"approval":{"quorum":2,"within":"30m"}}]}`

func TestYAMLIsJSON(t *testing.T) {
	y, j := load(t, exampleYAML), load(t, exampleJSON)
	if y.Digest != j.Digest {
		t.Errorf("the digests differ: %s, %s", y.Digest, j.Digest)
	}
	var places []string
	for _, r := range y.Rules() {
		places = append(places, fmt.Sprintf("%s %d:%d", r.ID, r.Line, r.Column))
	}
	if got, want := strings.Join(places, ", "), "small 7:5, large 17:5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestYAMLErrors(t *testing.T) {
	rule := func(line string) string {
		return strings.Replace(exampleYAML, "    approver_role: finance\n", "    "+line+"\n", 1)
	}
	for _, tt := range []struct{ name, text, want, says string }{
		{"duplicate key", rule("outcome: DENY"), "23:5 duplicate_key", "same name"},
		{"key of another case", rule("Outcome: DENY"), "23:5 case_variant_key", "only by case"},
		{"anchor", rule("approver_role: &a finance"), "23:20 yaml_anchor", "write out"},
		{"alias", rule("approver_role: *a"), "23:20 yaml_alias", "write out"},
		{"merge", rule("<<: {a: 1}"), "23:5 yaml_merge", "write out"},
		{"tag", rule("approver_role: !!str 5"), "23:20 yaml_tag", "quotes"},
		{"document", exampleYAML + "---\na: 1\n", "28:1 yaml_documents", "one document"},
		{"number", rule("approver_role: 5"), "23:20 type", "put it in quotes"},
		{"hex", rule("constraints2: 0x10"), "23:19 yaml_number", "as JSON writes it"},
		{"underscore", rule("constraints2: 1_000"), "23:19 yaml_number", "as JSON writes it"},
		{"infinity", rule("constraints2: .inf"), "23:19 yaml_number", "as JSON writes it"},
		{"not exact", rule("constraints2: 9007199254740993"), "23:19 number_not_exact", "fewer digits"},
		{"old boolean", rule("approver_role: no"), "23:20 yaml_word", "quotes"},
		{"key no text", rule("5: a"), "23:5 yaml_key", "quotes"},
		{"question mark", rule("? a"), "23:5 yaml_key", "colon"},
		{"NUL", rule(`approver_role: "a\0"`), "23:20 nul_character", "NUL"},
		{"tab", rule("\tapprover_role: a"), "23:5 syntax", "not YAML"},
		{"in a list", strings.Replace(exampleYAML, "[pay, refund]", "[pay, 5]", 1), "20:24 type", "match.tool_name[1]"},
		{"in a rule", strings.Replace(exampleYAML, "lte: 100", "lte: x", 1), "14:23 operand_not_a_number", "has to be a number"},
		{"empty", "", "1:1 syntax", "one document"},
		{"text", "hello", "1:1 type", "a bundle has to be an object"},
		{"CR LF", strings.ReplaceAll(rule("approver_role: 5 # a number"), "\n", "\r\n"), "23:20 type", "put it in quotes"},
		{"a document behind an end", exampleYAML + "...\na: 1\n", "29:1 yaml_documents", "one document"},
		{"YAML of JSON's depth", "a: " + strings.Repeat("[", 64) + strings.Repeat("]", 64), "1:23 too_deep", "more than 20"},
		{"mark", "\uFEFFversion: 1", "1:1 byte_order_mark", "mark"},
		{"Latin", "version: \xE9", "1:1 invalid_utf8", "UTF-8"},
	} {
		b, problems := policy.Load([]byte(tt.text), policy.Options{File: "p.yaml", Now: now})
		found := ""
		for _, p := range problems {
			if got := fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Code); got == tt.want && strings.Contains(p.String(), tt.says) {
				found = got
			}
		}
		if b != nil || found == "" {
			t.Errorf("%s: got %v, want %s", tt.name, problems, tt.want)
		}
	}
}

// The same bundle in JSON and in YAML, however a writer of YAML spells it, is
// one bundle.
func TestYAMLAndJSONAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := mustJSON(t, drawBundle(t))
		var tree any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		written, err := yaml.MarshalWithOptions(tree, yaml.Flow(rapid.Bool().Draw(t, "flow")))
		if err != nil {
			t.Fatal(err)
		}
		if written[0] == '{' { // Flow style would be taken for JSON
			written = append([]byte("# YAML\n"), written...)
		}
		j, y := loadRapid(t, text), loadRapid(t, written)
		if j.Digest != y.Digest {
			t.Fatalf("the digests differ\n%s\n%s", text, written)
		}
		r := spm.RequestOf(parseRapid(t, mustJSON(t, genRequest.Draw(t, "request"))))
		if a, b := j.Decide(r, now), y.Decide(r, now); !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v, %+v", a, b)
		}
	})
}
