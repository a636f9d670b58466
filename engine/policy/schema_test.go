package policy

import (
	"encoding/json"
	"slices"
	"testing"

	"holdpoint/engine"
	"holdpoint/schemas"
)

// The published schema and this package say the same: every closed list, every
// field, every bound.
func TestSchemaSaysWhatTheCodeSays(t *testing.T) {
	text, err := schemas.FS.ReadFile(schemas.PolicyBundle)
	if err != nil {
		t.Fatal(err)
	}
	type property struct {
		Enum       []any                      `json:"enum"`
		MaxItems   int                        `json:"maxItems"`
		MaxLength  int                        `json:"maxLength"`
		Maximum    int                        `json:"maximum"`
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var schema struct {
		property
		Defs map[string]property `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatalf("the schema is not valid JSON: %v", err)
	}
	keys := func(m map[string]json.RawMessage) []string {
		var names []string
		for name := range m {
			names = append(names, name)
		}
		return names
	}
	of := func(m map[string]json.RawMessage, name string) (p property) {
		if err := json.Unmarshal(m[name], &p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return p
	}
	words := func(list []any) []string {
		var names []string
		for _, v := range list {
			if s, ok := v.(string); ok && s != "" {
				names = append(names, s)
			}
		}
		return names
	}
	var outcomeNames []string
	for _, o := range outcomes {
		outcomeNames = append(outcomeNames, string(o))
	}
	for _, tt := range []struct {
		name      string
		got, want []string
	}{
		{"bundle", schema.Required, []string{"version", "generated_at", "expires_at", "rules", "defaults"}},
		{"outcome", words(schema.Defs["outcome"].Enum), outcomeNames},
		{"rule", keys(schema.Defs["rule"].Properties), ruleFields},
		{"rule required", schema.Defs["rule"].Required, []string{"id", "description", "match", "outcome"}},
		{"match", keys(schema.Defs["match"].Properties), matchFields},
		{"match required", schema.Defs["match"].Required, []string{"tool_name", "environment"}},
		{"trust", words(of(schema.Defs["match"].Properties, "trust_level_min").Enum), trustLevels},
		{"categories", words(schema.Defs["tool_category"].Enum), engine.ToolCategories()},
		{"claims", words(schema.Defs["claim"].Enum), claimNames},
		{"when", keys(schema.Defs["when"].Properties), whenFields},
		{"operators", keys(schema.Defs["operators"].Properties), operatorNames},
		{"approval", keys(schema.Defs["approval"].Properties), approvalFields},
		{"group", keys(schema.Defs["group"].Properties), groupFields},
		{"group required", schema.Defs["group"].Required, groupFields},
		{"ticket", keys(schema.Defs["ticket"].Properties), ticketFields},
	} {
		slices.Sort(tt.got)
		want := slices.Sorted(slices.Values(tt.want))
		if !slices.Equal(tt.got, want) {
			t.Errorf("%s: the schema has %q, the code %q", tt.name, tt.got, want)
		}
	}
	for name, pair := range map[string][2]int{
		"rules":      {of(schema.Properties, "rules").MaxItems, MaxRules},
		"regex":      {of(schema.Defs["when"].Properties, "matches_regex").MaxLength, MaxRegex},
		"people":     {schema.Defs["people"].Maximum, MaxQuorum},
		"escalation": {of(schema.Defs["approval"].Properties, "escalation").MaxItems, MaxEscalations},
		"groups":     {of(schema.Defs["approval"].Properties, "groups").MaxItems, MaxQuorum},
		"any_of":     {of(schema.Defs["approval"].Properties, "any_of").MaxItems, MaxQuorum},
		"reminders":  {of(schema.Defs["approval"].Properties, "reminders").MaxItems, MaxList},
		"suggest":    {of(schema.Defs["approval"].Properties, "suggest").MaxItems, MaxList},
		"signatures": {of(schema.Properties, "signed_by").MaxItems, MaxSignatures},
		"names":      {schema.Defs["names"].MaxItems, MaxList},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: the schema has %d, the code %d", name, pair[0], pair[1])
		}
	}
}
