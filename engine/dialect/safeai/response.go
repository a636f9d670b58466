package safeai

import (
	"slices"

	"holdpoint/engine/canon"
	"holdpoint/engine/redact"
)

// Filtered is the answer to intercept_tool_response.
type Filtered struct {
	// SafeResponse is an object: the fields that the agent may see, in the order
	// of the response.
	SafeResponse canon.Value
	// StrippedFields lists the others by name, sorted.
	StrippedFields []string
	// Redactions lists what was masked in SafeResponse.
	Redactions []Redaction
}

// InterceptResponse keeps the top-level fields of a response that the tool's
// contract lists, by exactly that name; of a tool without a contract it keeps nothing. What is kept
// stays as it is, unless the contract has mask_response: then everything found
// in it that the contract's request tags do not cover is masked, and every
// secret. A response that is not an object has no fields, and nothing of it is kept.
func (s *Set) InterceptResponse(tool string, response canon.Value, d *redact.Detector) Filtered {
	c := s.find(tool)
	out := Filtered{SafeResponse: canon.Object()}
	if response.Kind() != canon.ObjectKind {
		return out
	}
	out.SafeResponse = response.Map(func(name string, v canon.Value) (canon.Value, bool) {
		kept := c != nil && slices.Contains(c.fields, name)
		if !kept {
			out.StrippedFields = append(out.StrippedFields, name)
		}
		return v, kept
	})
	slices.Sort(out.StrippedFields)
	if out.SafeResponse.Len() == 0 {
		return out
	}
	if c.maskResponse {
		m := masker{detector: d, covered: c.accepts}
		out.SafeResponse = m.mask(out.SafeResponse, "$")
		out.Redactions = m.redactions
	}
	return out
}
