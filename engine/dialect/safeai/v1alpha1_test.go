package safeai_test

import (
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
)

const alpha = `version: v1alpha1
contract:
  tool_name: notify_customer
  description: Tells a customer something.
  accepts:
    tags: [internal, personal.pii.email]
    fields: [to, text]
  emits:
    tags: [internal]
    fields: [message_id, status]
  stores:
    fields: [to]
    retention: 30d
  side_effects:
    reversible: false
    requires_approval: true
    description: It cannot be taken back.
`

func TestSafeAIsOwnFiles(t *testing.T) {
	set, problems := safeai.Load([]byte(alpha), "a.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	native := `{"tool_contracts":{"notify_customer":{"allowed_request_tags":["personal.pii.email","internal"],"allowed_request_fields":["text","to"],
		"allowed_response_fields":["status","message_id"],"requires_approval":true}}}`
	same, problems := safeai.Load([]byte(native), "n.json")
	if len(problems) > 0 || same.Digest() != set.Digest() {
		t.Fatalf("got %v, digests %s and %s", problems, set.Digest(), same.Digest())
	}
	many, problems := safeai.Load([]byte(`{"contracts":[{"tool_name":"a","accepts":{},"emits":{},"side_effects":{"reversible":true,"requires_approval":false}},
		{"tool_name":"b","accepts":{"fields":["x"]},"emits":{},"side_effects":{"reversible":true,"requires_approval":false}}]}`), "m.json")
	if len(problems) > 0 || strings.Join(many.Tools(), " ") != "a b" {
		t.Fatalf("got %v", problems)
	}
	for _, tt := range []struct {
		name, tool, args string
		set              *safeai.Set
		route            engine.Route
	}{
		{"as declared", "notify_customer", `{"to":"x","text":"y"}`, set, engine.Defer},
		{"another field", "notify_customer", `{"to":"x","cc":"y"}`, set, engine.Refuse},
		{"a secret", "notify_customer", `{"to":"ghp_0123456789abcdefghijABCDEFGHIJ012345"}`, set, engine.Refuse},
		{"any field", "a", `{"cc":"y"}`, many, engine.Accept},
		{"a field", "b", `{"x":1}`, many, engine.Accept},
		{"no field", "b", `{}`, many, engine.Accept},
		{"not a field", "b", `{"X":1}`, many, engine.Refuse},
	} {
		args, err := canon.Parse([]byte(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		o := tt.set.Check(engine.Call{Tool: tt.tool}, args, nil, detector)
		d := engine.Evaluate(engine.Call{Tool: tt.tool}, "", func(engine.Call) engine.CheckResult { return o })
		if d.Route != tt.route || (d.Route == engine.Defer) != (len(d.Requirements) == 1) {
			t.Errorf("%s: got %+v", tt.name, d)
		}
		i := tt.set.InterceptRequest(tt.tool, args, nil, detector)
		if want := map[bool]string{true: safeai.Block, false: safeai.Allow}[tt.route == engine.Refuse]; i.Action != want {
			t.Errorf("%s: intercepting: got %+v, want %s", tt.name, i, want)
		}
	}
}

func TestSafeAIsOwnFilesNameEveryMistake(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"another version", "v1alpha1", "v2", "version has to be v1alpha1"},
		{"no tool", "  tool_name: notify_customer\n", "", "tool_name is missing"},
		{"a strange key", "  description: Tells", "  colour: red\n  description: Tells", `"colour" is no key`},
		{"no effects", "  side_effects:\n    reversible: false\n    requires_approval: true\n    description: It cannot be taken back.\n", "", "side_effects is missing"},
		{"half the effects", "    requires_approval: true\n", "", "requires_approval is missing"},
		{"a text for a truth", "requires_approval: true", `requires_approval: "true"`, "has to be true or false"},
		{"a text for a list", "fields: [to, text]", "fields: to", "has to be a list"},
		{"a wildcard", "tags: [internal, personal.pii.email]", `tags: ["personal.*"]`, "wildcard"},
		{"both", "version: v1alpha1", "version: v1alpha1\ncontracts: []", "either contract or contracts"},
		{"with ours", "version: v1alpha1", "version: v1alpha1\ntool_contracts: {}", `"contract" is no key of a contract file`},
	} {
		text := strings.Replace(alpha, tt.old, tt.new, 1)
		if text == alpha {
			t.Fatalf("%s: nothing was changed", tt.name)
		}
		set, problems := safeai.Load([]byte(text), "a.yaml")
		said := ""
		for _, p := range problems {
			said += p.String() + "\n"
		}
		if set != nil || !strings.Contains(said, tt.want) || !strings.Contains(said, "a.yaml:") {
			t.Errorf("%s: got %q, want %q in it", tt.name, said, tt.want)
		}
	}
}
