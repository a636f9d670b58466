package safeai

import (
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine/canon"
	"holdpoint/engine/redact"
)

// Validation is the answer to validate_tool_request.
type Validation struct {
	Allowed bool `json:"allowed"`
	// Reason is "" when the call is allowed, and null for a tool without a contract.
	Reason *string `json:"reason"`
}

// ValidateRequest reports whether a tool may be given data of these tags. The
// reason names the first tag, in the order given, that its contract does not
// cover. Blank tags say nothing.
func (s *Set) ValidateRequest(tool string, dataTags []string) Validation {
	c := s.find(tool)
	if c == nil {
		return Validation{}
	}
	reason := ""
	if tag, ok := c.firstUncovered(dataTags); ok {
		reason = reasonFor(tag, c.tool)
		return Validation{Reason: &reason}
	}
	return Validation{Allowed: true, Reason: &reason}
}

func reasonFor(tag, tool string) string {
	return "Tag '" + tag + "' not in allowed_request_tags for " + tool
}

// firstUncovered is the normal form of the first tag that the contract does not cover.
func (c *contract) firstUncovered(tags []string) (string, bool) {
	for _, raw := range tags {
		if tag := normal(raw); tag != "" && !c.accepts(tag) {
			return tag, true
		}
	}
	return "", false
}

// The actions of an Interception.
const (
	Allow = "allow"
	Block = "block"
)

// Interception is the answer to intercept_tool_request.
type Interception struct {
	Action string
	// Payload is what may be sent, masked; it is null when Action is Block.
	Payload canon.Value
	// Reason is "" for Allow, and null for a tool without a contract.
	Reason *string
	// Redactions lists what was masked in Payload, in the order of the document.
	Redactions []Redaction
	// DetectedTags lists what was found in the payload, sorted, covered or not.
	DetectedTags []string
}

// Blocked is the interception of a call that something else than its contract
// stops: nothing of it may be sent.
func (i Interception) Blocked(reason string) Interception {
	i.Action, i.Payload, i.Reason, i.Redactions = Block, canon.Value{}, &reason, nil
	return i
}

// Redaction says what was masked and where, never what it said.
type Redaction struct {
	Path string `json:"path"`
	Tag  string `json:"tag"`
}

// InterceptRequest judges a call and what it would send. The contract comes
// first: a declared tag that it does not cover blocks, and the payload is not
// looked at; neither is one with a field that it does not list. A secret in the payload blocks, whatever the contract says. What
// else is found and not covered is masked.
func (s *Set) InterceptRequest(tool string, payload canon.Value, dataTags []string, d *redact.Detector) Interception {
	valid := s.ValidateRequest(tool, dataTags)
	out := Interception{Action: Block, Reason: valid.Reason}
	if !valid.Allowed {
		return out
	}
	c := s.find(tool)
	if name, found := c.foreign(payload); found {
		return out.Blocked("Field '" + name + "' not in allowed_request_fields for " + c.tool)
	}
	m := masker{detector: d, covered: c.accepts}
	masked := m.mask(payload, "$")
	out.DetectedTags = m.tags()
	if m.secret != nil {
		reason := "Secret '" + m.secret.Tag + "' detected at " + m.secret.Path
		out.Reason = &reason
		return out
	}
	out.Action, out.Payload, out.Redactions = Allow, masked, m.redactions
	return out
}

// masker looks for data in the string leaves of a value and masks it.
type masker struct {
	detector *redact.Detector
	// covered says which tags stay as they are.
	covered    func(tag string) bool
	found      []string
	redactions []Redaction
	secret     *Redaction // the first one
}

func (m *masker) tags() []string {
	slices.Sort(m.found)
	return slices.Compact(m.found)
}

// mask returns v with everything masked that is not covered. A value in which
// nothing is masked is returned as it is.
func (m *masker) mask(v canon.Value, path string) canon.Value {
	before := len(m.redactions)
	switch v.Kind() {
	case canon.StringKind:
		return m.text(v, path)
	case canon.ArrayKind:
		elems := make([]canon.Value, 0, v.Len())
		for i, e := range v.Elements() {
			elems = append(elems, m.mask(e, path+"["+strconv.Itoa(i)+"]"))
		}
		if len(m.redactions) > before {
			return canon.Array(elems...)
		}
	case canon.ObjectKind:
		masked := v.Map(func(name string, e canon.Value) (canon.Value, bool) { return m.mask(e, step(path, name)), true })
		if len(m.redactions) > before {
			return masked
		}
	case canon.NullKind, canon.BoolKind, canon.NumberKind:
	}
	return v
}

func (m *masker) text(v canon.Value, path string) canon.Value {
	var hide []redact.Span
	for _, s := range m.detector.Find(v.Str()) {
		m.found = append(m.found, s.Tag)
		secret := redact.Secret(s.Tag)
		if secret && m.secret == nil {
			m.secret = &Redaction{path, s.Tag}
		}
		if secret || !m.covered(s.Tag) {
			hide = append(hide, s)
		}
	}
	if len(hide) == 0 {
		return v
	}
	masked := redact.Mask(v.Str(), hide)
	// What overlapped was masked as one, under one tag.
	for _, s := range redact.Merge(v.Str(), hide) {
		m.redactions = append(m.redactions, Redaction{path, s.Tag})
	}
	return canon.String(strings.ToValidUTF8(masked, "�"))
}
