package aana

import (
	"encoding/json"
	"slices"
	"testing"

	"holdpoint/schemas"
)

// The published schema and this package say the same: every closed list, every
// field, every required field.
func TestSchemaSaysWhatTheCodeSays(t *testing.T) {
	text, err := schemas.FS.ReadFile(schemas.AgentActionContractV1)
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		AdditionalProperties *bool    `json:"additionalProperties"`
		Required             []string `json:"required"`
		Properties           map[string]struct {
			object
			Enum     []string `json:"enum"`
			Const    string   `json:"const"`
			MaxItems int      `json:"maxItems"`
		} `json:"properties"`
	}
	var schema struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatalf("the schema is not valid JSON: %v", err)
	}
	evidence := schema.Defs["evidence"]
	subject, freshness := schema.Properties["authorization_subject"], evidence.Properties["freshness"]

	for _, tt := range []struct {
		name      string
		got, want []string
	}{
		{"tool_category", schema.Properties["tool_category"].Enum, names(categories)},
		{"authorization_state", schema.Properties["authorization_state"].Enum, names(states)},
		{"risk_domain", schema.Properties["risk_domain"].Enum, names(riskDomains)},
		{"recommended_route", schema.Properties["recommended_route"].Enum, routes},
		{"schema_version", []string{schema.Properties["schema_version"].Const}, versions},
		{"subject_type", subject.Properties["subject_type"].Enum, subjectTypes},
		{"kind", evidence.Properties["kind"].Enum, kinds},
		{"trust_tier", evidence.Properties["trust_tier"].Enum, trustTiers},
		{"redaction_status", evidence.Properties["redaction_status"].Enum, redactionStatuses},
		{"status", freshness.Properties["status"].Enum, freshnessStatuses},
		{"required", schema.Required, eventFields},
		{"evidence required", evidence.Required, evidenceFields},
		{"freshness required", freshness.Required, freshnessFields},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s: the schema has %q, the code %q", tt.name, tt.got, tt.want)
		}
	}
	if got := schema.Properties["evidence_refs"].MaxItems; got != MaxEvidence {
		t.Errorf("maxItems: the schema has %d, the code %d", got, MaxEvidence)
	}
	for name, o := range map[string]object{"event": schema.object, "evidence": evidence, "freshness": freshness.object, "subject": subject.object} {
		if o.AdditionalProperties == nil || *o.AdditionalProperties {
			t.Errorf("%s: the schema lets unknown fields in", name)
		}
	}

	// The code knows exactly the schema's fields: null is wrong for each of
	// them, but unknown to none.
	for name, fields := range map[string][]string{
		"$":                            keys(schema.Properties),
		"$.authorization_subject":      keys(subject.Properties),
		"$.evidence_refs[0]":           keys(evidence.Properties),
		"$.evidence_refs[0].freshness": keys(freshness.Properties),
	} {
		for _, field := range append(fields, "no_such_field") {
			document := map[string]any{field: nil}
			switch name {
			case "$.authorization_subject":
				document = map[string]any{"authorization_subject": document}
			case "$.evidence_refs[0]":
				document = map[string]any{"evidence_refs": []any{document}}
			case "$.evidence_refs[0].freshness":
				document = map[string]any{"evidence_refs": []any{map[string]any{"freshness": document}}}
			}
			got := ""
			for _, e := range parseErrors(t, document) {
				if e.Path == name+"."+field {
					got = e.Message
					break
				}
			}
			if unknown := got == "The contract does not know this field."; got == "" || unknown != (field == "no_such_field") {
				t.Errorf("%s.%s: got %q", name, field, got)
			}
		}
	}
}
