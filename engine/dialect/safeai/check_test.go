package safeai_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/schemas"
)

func TestOpinion(t *testing.T) {
	set, problems := safeai.Load([]byte(good), "c.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, tt := range []struct {
		name, tool, args string
		tags             []string
		want             []string // parts of the messages
	}{
		{"nothing to say", "send_email", `{"to":"alice@example.com","n":1}`, []string{"personal.pii.email", ""}, nil},
		{"undeclared", "nope", `{}`, nil, []string{"no contract"}},
		{"undeclared with a secret", "nope", `{"p":"password=hunter2"}`, []string{"x"}, []string{"no contract", "secret.credential.password"}},
		{"declared tags", "send_email", `{}`, []string{"Personal.Financial", "public", "public"}, []string{"personal.financial", "public"}},
		{"a strange tag is not repeated", "send_email", `{}`, []string{"<b>hunter2</b>"}, []string{"unusual"}},
		{"a secret", "send_email", `{"a":[{"b":"ghp_0123456789abcdefghijABCDEFGHIJ012345"}]}`, nil, []string{"secret.token.github"}},
		{"a detected tag", "search", `{"q":"alice@example.com and bob@example.com"}`, nil, []string{"personal.pii.email"}},
		{"in a name", "search", `{"alice@example.com":1}`, nil, []string{"personal.pii.email"}},
	} {
		args, err := canon.Parse([]byte(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		o := set.Check(engine.Call{Tool: tt.tool}, args, tt.tags, detector)
		if len(o.Findings) != len(tt.want) || len(o.Requirements) > 0 {
			t.Errorf("%s: got %v", tt.name, o)
			continue
		}
		for i, f := range o.Findings {
			if f.Source != "tool_contract" || f.Code != "tool_contract_violation" || f.Route != engine.Refuse || !strings.Contains(f.Message, tt.want[i]) {
				t.Errorf("%s: got %+v, want %q in it", tt.name, f, tt.want[i])
			}
			if strings.Contains(f.Message, "alice") || strings.Contains(f.Message, "hunter2") || strings.Contains(f.Message, "0123") {
				t.Errorf("%s: a value is in %q", tt.name, f.Message)
			}
		}
	}
}

// A text that cannot be searched is blocked and refused.
func TestTooLongIsRefused(t *testing.T) {
	set, _ := safeai.Load([]byte(good), "c.yaml")
	args := canon.Object(canon.Member{Name: "body", Value: canon.String(strings.Repeat("a", 2<<20))})
	if o := set.Check(engine.Call{Tool: "search"}, args, nil, detector); len(o.Findings) != 1 {
		t.Errorf("got %v", o)
	}
	if got := set.InterceptRequest("search", args, nil, detector); got.Action != safeai.Block || !got.Payload.IsNull() {
		t.Errorf("got %s", got.Action)
	}
}

func TestEvalRefusesOtherInput(t *testing.T) {
	for _, text := range []string{
		`1`, `{}`, `{"tool_contracts":{}}`, `{"tool_contracts":{},"call":1}`, `{"tool_contracts":[],"call":{"method":"validate_tool_request","tool_name":"t"}}`,
		`{"tool_contracts":{},"call":{"method":"x","tool_name":"t"}}`, `{"tool_contracts":{},"call":{"method":"validate_tool_request"}}`,
		`{"tool_contracts":{},"call":{"method":"validate_tool_request","tool_name":"t","data_tags":"a"}}`,
		`{"tool_contracts":{},"call":{"method":"validate_tool_request","tool_name":"t","data_tags":[1]}}`,
		`{"tool_contracts":{"t":{"x":1}},"call":{"method":"validate_tool_request","tool_name":"t"}}`,
	} {
		v, err := canon.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := safeai.Eval(v, nil, detector); err == nil {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

// The published schema has the keys that Load knows.
func TestSchemaSaysWhatTheCodeSays(t *testing.T) {
	text, err := schemas.FS.ReadFile(schemas.ToolContracts)
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		AdditionalProperties any `json:"additionalProperties"`
		Required             []string
		Properties           map[string]json.RawMessage
	}
	var schema struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	contract := schema.Defs["contract"]
	if schema.AdditionalProperties != false || contract.AdditionalProperties != false || !slices.Equal(schema.Required, []string{"tool_contracts"}) {
		t.Errorf("got %v, %v and %q", schema.AdditionalProperties, contract.AdditionalProperties, schema.Required)
	}
	for key := range contract.Properties {
		doc := `{"tool_contracts":{"t":{"` + key + `":{}}}}`
		_, problems := safeai.Load([]byte(doc), "")
		if len(problems) != 1 || problems[0].Code != safeai.WrongType {
			t.Errorf("%s: got %v", key, problems)
		}
	}
	if len(contract.Properties) != 3 {
		t.Errorf("the schema has %d keys, the code 3", len(contract.Properties))
	}
}
