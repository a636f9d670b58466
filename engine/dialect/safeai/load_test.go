package safeai_test

import (
	"strings"
	"testing"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
)

const good = `# what our tools may see
tool_contracts:
  send_email:
    allowed_request_tags:
      - personal.pii.email
      - Personal.PII.Name
    allowed_response_fields: [status, message_id]
  search:
    allowed_request_tags: ["public"]
    mask_response: true
`

func TestLoad(t *testing.T) {
	set, problems := safeai.Load([]byte(good), "c.yaml")
	if len(problems) > 0 {
		t.Fatalf("got %v", problems)
	}
	if got := strings.Join(set.Tools(), " "); got != "search send_email" {
		t.Errorf("got tools %q", got)
	}
	if !set.Declared(" search ") || set.Declared("Search") {
		t.Error("tool names are compared after trimming, with case")
	}
	same := `{"tool_contracts": {
	  "search": {"mask_response": true, "allowed_request_tags": ["public", "Public."], "allowed_response_fields": null},
	  " send_email": {"allowed_response_fields": ["message_id", "status"], "allowed_request_tags": ["personal.pii.name", "personal.pii.email"]}}}`
	other, problems := safeai.Load([]byte(same), "c.json")
	if len(problems) > 0 {
		t.Fatalf("got %v", problems)
	}
	if set.Digest() != other.Digest() || !strings.HasPrefix(set.Digest(), "sha256:") {
		t.Errorf("got digests %s and %s, want one", set.Digest(), other.Digest())
	}
	changed, _ := safeai.Load([]byte(strings.Replace(good, "message_id", "message", 1)), "c.yaml")
	if changed.Digest() == set.Digest() {
		t.Error("another contract has the same digest")
	}
}

func TestLoadNamesEveryMistake(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"all at once", `tool_contracts:
  send_email:
    allowed_request_tags:
      - personal.*
      - 12
      - ""
    allowed_response_fields: status
    mask: true
    mask_response: "yes"
  " send_email": {}
  "": {}
  search:
version: 1
`, `c.yaml:4:9: "personal.*" has a wildcard, and there are none (tool_contracts.send_email.allowed_request_tags[0]; bad_tag): a tag covers everything below it: write personal for all that is personal
c.yaml:5:9: this has to be a tag as text, not number (tool_contracts.send_email.allowed_request_tags[1]; wrong_type): put it in quotes
c.yaml:6:9: a tag has at least one part (tool_contracts.send_email.allowed_request_tags[2]; bad_tag): write personal.pii.email, for example
c.yaml:7:30: this has to be a list, not string (tool_contracts.send_email.allowed_response_fields; wrong_type)
c.yaml:8:5: "mask" is no key of a contract (tool_contracts.send_email.mask; unknown_key): the keys are allowed_request_tags, allowed_request_fields, allowed_response_fields, mask_response and requires_approval
c.yaml:9:20: this has to be true or false, not string (tool_contracts.send_email.mask_response; wrong_type)
c.yaml:10:3: "send_email" has a contract already (tool_contracts[" send_email"]; duplicate_tool): join the two, or rename one
c.yaml:11:3: a tool has to have a name that can be seen (tool_contracts[""]; bad_tool)
c.yaml:12:10: this has to be a mapping, not null (tool_contracts.search; wrong_type): write {} for an empty one
c.yaml:13:1: "version" is no key of a contract file (version; unknown_key): the only one is tool_contracts`},
		{"nothing", "", `c.yaml:1:1: the file has to hold one document (syntax)`},
		{"a list", "- a\n", `c.yaml:1:1: this has to be a mapping, not array (wrong_type)`},
		{"no contracts", "{}", `c.yaml:1:1: tool_contracts is missing (missing_key): put the tools under tool_contracts:`},
		{"duplicate key", "tool_contracts:\n  t:\n    mask_response: true\n    mask_response: false\n", `c.yaml:4:5: two members of one object have the same name (/tool_contracts/t/mask_response; duplicate_key): remove one of them`},
		{"duplicate tool", "tool_contracts:\n  t: {}\n  T: {}\n", `c.yaml:3:3: two members of one object have names that differ only by case (/tool_contracts/T; duplicate_key): names that differ only by case are taken for mistakes`},
		{"same name after trimming", "tool_contracts:\n  t: {}\n  \" t\": {}\n", `c.yaml:3:3: "t" has a contract already (tool_contracts[" t"]; duplicate_tool): join the two, or rename one`},
		{"anchor", "tool_contracts:\n  t: &a {}\n  u: *a\n", "c.yaml:2:6: anchors are not allowed (syntax): write out what it stands for\nc.yaml:3:6: aliases are not allowed (syntax): write out what it stands for; put a text that begins with * in quotes"},
		{"bare star", "tool_contracts:\n  t:\n    allowed_request_tags: [*]\n", "c.yaml:3:28: aliases are not allowed (syntax): write out what it stands for; put a text that begins with * in quotes"},
		{"two documents", "tool_contracts: {}\n---\ntool_contracts: {}\n", `c.yaml:2:1: a file holds one document only (syntax)`},
		{"json", "{\"tool_contracts\": {\n  \"t\": {\"allowed_request_tags\": [true]}}}", `c.yaml:2:34: this has to be a tag as text, not boolean (tool_contracts.t.allowed_request_tags[0]; wrong_type): put it in quotes`},
		{"broken json", "{\"tool_contracts\": {\n  \"t\": }", `c.yaml:2:8: there is something else where a value should be (/tool_contracts/t; syntax)`},
		{"duplicate in json", `{"tool_contracts": {"t": {}, "t": {}}}`, `c.yaml:1:30: two members of one object have the same name (/tool_contracts/t; duplicate_key): remove one of them`},
		{"key of another type", "tool_contracts:\n  1: {}\n", `c.yaml:2:3: a key is not text (/tool_contracts; syntax): put it in quotes`},
		{"a word of old YAML", "tool_contracts:\n  t:\n    allowed_response_fields: [on]\n", `c.yaml:3:31: some readers of YAML take on for a boolean (/tool_contracts/t/allowed_response_fields/0; syntax): put it in quotes, or write true or false`},
		{"CR LF behind a comment", "# tools\r\ntool_contracts: # all\r\n  # one\r\n  t: 1\r\n", `c.yaml:4:6: this has to be a mapping, not number (tool_contracts.t; wrong_type): put it in quotes`},
		{"space inside a tag", "tool_contracts:\n  t:\n    allowed_request_tags: [personal pii]\n", `c.yaml:3:28: "personal pii" holds a blank or a character that cannot be seen (tool_contracts.t.allowed_request_tags[0]; bad_tag): part words with dots`},
	} {
		set, problems := safeai.Load([]byte(tt.text), "c.yaml")
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if joined := strings.Join(got, "\n"); joined != tt.want || set != nil {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, joined, tt.want)
		}
	}
	for _, text := range []string{"\xff", "\uFEFFtool_contracts: {}", strings.Repeat("[", 100_000), strings.Repeat("- ", 100_000), "tool_contracts: [", "tool_contracts:\n\tt: {}\n", strings.Repeat(" ", canon.MaxBytes+1)} {
		if set, problems := safeai.Load([]byte(text), "c.yaml"); set != nil || len(problems) == 0 || problems[0].Line == 0 {
			t.Errorf("%.20q: got %v", text, problems)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"tool_contracts":{"t":{"allowed_request_tags":["a"]}}}`))
	f.Add([]byte("tool_contracts: {a: [*b, &c d], ? e : !!str f, <<: g}"))
	f.Add([]byte("tool_contracts:\n  t: |\n    x\n  u: >-\n    y\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, problems := safeai.Load(data, "f")
		if (set == nil) != (len(problems) > 0) {
			t.Fatalf("got set %v and problems %v", set, problems)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Code == "" || p.Message == "" {
				t.Errorf("an incomplete problem: %#v", p)
			}
		}
		if set == nil {
			return
		}
		again, _ := safeai.Load(data, "f")
		if again.Digest() != set.Digest() {
			t.Error("two digests")
		}
	})
}
