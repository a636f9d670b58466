package safeai

import (
	"encoding/json"

	"holdpoint/engine/canon"
)

// MarshalJSON writes {action, payload, reason, redactions, detected_tags}.
func (i Interception) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Action       string          `json:"action"`
		Payload      json.RawMessage `json:"payload"`
		Reason       *string         `json:"reason"`
		Redactions   []Redaction     `json:"redactions"`
		DetectedTags []string        `json:"detected_tags"`
	}{i.Action, rawJSON(i.Payload), i.Reason, list(i.Redactions), list(i.DetectedTags)})
}

// MarshalJSON writes {safe_response, stripped_fields, redactions}.
func (f Filtered) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		SafeResponse   json.RawMessage `json:"safe_response"`
		StrippedFields []string        `json:"stripped_fields"`
		Redactions     []Redaction     `json:"redactions"`
	}{rawJSON(f.SafeResponse), list(f.StrippedFields), list(f.Redactions)})
}

func rawJSON(v canon.Value) json.RawMessage { return v.Canonical() }

// list is s, but never null in JSON.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
