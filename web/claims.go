package web

import (
	"encoding/json"

	"holdpoint/web/views"
)

// claims reads what the agent says about its own call from the document that
// proposed it (Agent Action Contract v1). All of it is the agent's word.
func claims(document []byte) views.Claims {
	if len(document) == 0 {
		return views.Claims{}
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(document, &doc); err != nil {
		return views.Claims{Unread: true}
	}
	c := views.Claims{Intent: text(doc["user_intent"])}
	for _, f := range []struct{ field, name string }{
		{"authorization_state", "Authorization"},
		{"authorization_subject", "On behalf of"},
		{"recommended_route", "Route it proposes"},
	} {
		if value := text(doc[f.field]); value != "" {
			c.Facts = append(c.Facts, views.Claim{Name: f.name, Value: value})
		}
	}
	var refs []json.RawMessage
	if json.Unmarshal(doc["evidence_refs"], &refs) != nil && len(doc["evidence_refs"]) > 0 {
		refs = []json.RawMessage{doc["evidence_refs"]}
	}
	for _, ref := range refs {
		c.Evidence = append(c.Evidence, evidence(ref))
	}
	return c
}

func evidence(ref json.RawMessage) views.Evidence {
	var fields map[string]json.RawMessage
	if json.Unmarshal(ref, &fields) != nil {
		return views.Evidence{Source: text(ref)}
	}
	e := views.Evidence{
		Source: text(fields["source_id"]), Kind: words(text(fields["kind"])), Trust: words(text(fields["trust_tier"])),
		Redaction: text(fields["redaction_status"]), Provenance: text(fields["provenance"]), Summary: text(fields["summary"]),
		Freshness: text(fields["freshness"]),
	}
	var freshness struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(fields["freshness"], &freshness) == nil {
		e.Freshness = freshness.Status
	}
	return e
}

// text is a JSON string's value, or the JSON itself for anything else.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
