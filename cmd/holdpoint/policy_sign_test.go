package main

import (
	"strings"
	"testing"

	"holdpoint/engine/policy"
)

var signingSecret = []byte("a secret of some length")

const unsignedYAML = `# The policy of payments.
version: "1"   # raise it
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2036-01-01T00:00:00Z" # far away

# What nobody thought of.
defaults: {outcome: DENY}
rules:
  - id: a # the only one
    description: "signature: none"
    match: {tool_name: pay, environment: "*"}
    outcome: ALLOW
`

// TestSignedPolicy: signing changes the signature and nothing else, however the
// file is written.
func TestSignedPolicy(t *testing.T) {
	flat := strings.NewReplacer("version:", "  version:", "generated_at:", "  generated_at:", "expires_at:", "  expires_at:", "defaults:", "  defaults:", "rules:\n", "  rules:\n")
	const pretty = "{\n  \"version\": \"1\",\n  \"generated_at\": \"2026-01-01T00:00:00Z\",\n  \"expires_at\": \"2036-01-01T00:00:00Z\",\n" +
		"  \"defaults\": {\"outcome\": \"DENY\"},\n  \"rules\": [{\"id\": \"signature\", \"description\": \"\", \"match\": {\"tool_name\": \"a\", \"environment\": \"*\"}, \"outcome\": \"DENY\"}]\n}\n"
	for name, c := range map[string]struct {
		text     string
		replaces bool
	}{
		"YAML":                   {unsignedYAML, false},
		"no line break at end":   {strings.TrimSuffix(unsignedYAML, "\n"), false},
		"CR LF":                  {strings.ReplaceAll(unsignedYAML, "\n", "\r\n"), false},
		"CR LF in a text":        {strings.ReplaceAll(strings.Replace(unsignedYAML, "\"signature: none\"", "|\n      two\n      lines", 1), "\n", "\r\n"), false},
		"expires_at is last":     {strings.Replace(unsignedYAML, "expires_at: \"2036-01-01T00:00:00Z\" # far away\n", "", 1) + `expires_at: "2036-01-01T00:00:00Z"`, false},
		"indented":               {flat.Replace(unsignedYAML), false},
		"a document marker":      {"---\n" + unsignedYAML, false},
		"an empty signature":     {"signature: \"\"\n" + unsignedYAML, true},
		"nothing behind it":      {"signature:\n" + unsignedYAML, true},
		"a former one":           {unsignedYAML + "signature: \"00ff\" # by hand\n", true},
		"one in single quotes":   {unsignedYAML + "'signature' : '00ff'\n", true},
		"one without quotes":     {unsignedYAML + "signature: abcdef", true},
		"JSON":                   {pretty, false},
		"compact JSON":           {strings.Join(strings.Fields(pretty), ""), false},
		"JSON with a former one": {strings.Replace(pretty, "\"defaults\"", "\"signature\" : \"00ff\",\n  \"defaults\"", 1), true},
		"JSON with an empty one": {strings.Replace(pretty, "}]\n}", "}],\n  \"signature\": \"\"\n}", 1), true},
		"JSON with null":         {strings.Replace(pretty, "}]\n}", "}],\n  \"signature\":null}", 1), true},
	} {
		former, problems := policy.Load([]byte(c.text), policy.Options{})
		if former == nil {
			t.Fatalf("%s: %v", name, problems)
		}
		got, err := signedPolicy([]byte(c.text), "p", signingSecret)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, problems := policy.Load(got, policy.Options{Secret: signingSecret})
		if b == nil || b.Digest != former.Digest || !b.Signed {
			t.Errorf("%s: %v\n%s", name, problems, got)
			continue
		}
		again, err := signedPolicy(got, "p", signingSecret)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: signing again changes it: %v\n%s", name, err, again)
		}
		// Everything else is there, byte for byte.
		v := string(got)
		for _, line := range strings.SplitAfter(c.text, "\n") {
			if !strings.Contains(line, "signature") && !strings.Contains(v, strings.TrimRight(line, "\r\n")) {
				t.Errorf("%s: %q is gone from\n%s", name, line, v)
			}
		}
		if !c.replaces && len(got)-len(c.text) < 64+len(`signature: ""`) {
			t.Errorf("%s: %d bytes were added", name, len(got)-len(c.text))
		}
	}
	got, err := signedPolicy([]byte(unsignedYAML), "p", signingSecret)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(got), "signature: \"")
	if _, rest, _ := strings.Cut(after, "\n"); !ok || before+rest != unsignedYAML {
		t.Errorf("something else was changed:\n%s", got)
	}
}

// What cannot be signed without touching more than the signature is refused.
func TestSignedPolicyRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a signature of two lines": "signature: >\n  00\n  ff\n" + unsignedYAML,
		"the value below":          "signature:\n  00ff\n" + unsignedYAML,
	} {
		got, err := signedPolicy([]byte(text), "p", signingSecret)
		if err != nil {
			continue
		}
		if b, _ := policy.Load(got, policy.Options{Secret: signingSecret}); b != nil {
			t.Errorf("%s: signed as\n%s", name, got)
		}
	}
}
