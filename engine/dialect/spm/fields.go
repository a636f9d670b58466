package spm

import (
	"strconv"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/source"
)

// required marks a field that has to be there.
const required = 1

// field is one member that an object may have, and how to read it.
type field struct {
	name string
	mode int
	read func(path string, v canon.Value)
}

// fields reads a request by tables of its members and collects what is wrong.
type fields struct {
	errors []FieldError
}

// maxFieldErrors bounds the list of errors.
const maxFieldErrors = 100

func (f *fields) fail(path, message string) {
	switch {
	case len(f.errors) < maxFieldErrors:
		f.errors = append(f.errors, FieldError{Path: path, Message: message})
	case len(f.errors) == maxFieldErrors:
		f.errors = append(f.errors, FieldError{Message: "There are more errors than these."})
	}
}

// object reads an object by its table. In a closed one, fields that are not in
// the table are errors; it returns them else.
func (f *fields) object(path string, v canon.Value, closed bool, table []field) []canon.Member {
	if v.Kind() != canon.ObjectKind {
		f.fail(path, "It has to be an object.")
		return nil
	}
	var others []canon.Member
	seen := make([]bool, len(table))
members:
	for name, m := range v.All() {
		for i := range table {
			if table[i].name == name {
				seen[i] = true
				table[i].read(source.Pointer(path, name), m)
				continue members
			}
		}
		if closed {
			f.fail(source.Pointer(path, name), "Agent-SPM does not know this field.")
		}
		others = append(others, canon.Member{Name: name, Value: m})
	}
	for i := range table {
		if table[i].mode == required && !seen[i] {
			f.fail(source.Pointer(path, table[i].name), "The field is required.")
		}
	}
	return others
}

// reader is how a field of a table is read.
type reader = func(path string, v canon.Value)

func (f *fields) isText(path string, v canon.Value) bool {
	if v.Kind() != canon.StringKind {
		f.fail(path, "It has to be a string.")
		return false
	}
	return true
}

// filled is for texts that must not be empty.
func (f *fields) filled(to *string) reader {
	return func(path string, v canon.Value) {
		if !f.isText(path, v) {
			return
		}
		if *to = v.Str(); *to == "" {
			f.fail(path, "It must not be empty.")
		}
	}
}

func (f *fields) text(to **string) reader {
	return func(path string, v canon.Value) {
		if f.isText(path, v) {
			*to = optional(v)
		}
	}
}

func (f *fields) moment(to *string) reader {
	return func(path string, v canon.Value) {
		if !f.isText(path, v) {
			return
		}
		if *to = v.Str(); !policy.IsTime(*to) {
			f.fail(path, "It has to be a time as ISO 8601 writes it.")
		}
	}
}

func (f *fields) optionalMoment(to **string) reader {
	return func(path string, v canon.Value) {
		var text string
		f.moment(&text)(path, v)
		*to = &text
	}
}

func (f *fields) trust(to **string) reader {
	return func(path string, v canon.Value) {
		if _, err := engine.ParseTrust(v.Str()); err != nil {
			f.fail(path, "It has to be one of "+strings.Join(engine.TrustLevels(), ", ")+".")
			return
		}
		*to = optional(v)
	}
}

func (f *fields) list(to *[]string) reader {
	return func(path string, v canon.Value) {
		if v.Kind() != canon.ArrayKind {
			f.fail(path, "It has to be an array of strings.")
			return
		}
		*to = make([]string, 0, v.Len())
		for i, e := range v.Elements() {
			if f.isText(path+"/"+strconv.Itoa(i), e) {
				*to = append(*to, e.Str())
			}
		}
	}
}

// maxDelegationDepth bounds what an agent may claim; it is far beyond any use.
const maxDelegationDepth = 1000

func (f *fields) depth(to **int) reader {
	return func(path string, v canon.Value) {
		n := v.Float()
		if v.Kind() != canon.NumberKind || n < 0 || n > maxDelegationDepth || n != float64(int(n)) {
			f.fail(path, "It has to be a whole number from 0 to "+strconv.Itoa(maxDelegationDepth)+".")
			return
		}
		depth := int(n)
		*to = &depth
	}
}

func (f *fields) boolean(to **bool) reader {
	return func(path string, v canon.Value) {
		if v.Kind() != canon.BoolKind {
			f.fail(path, "It has to be true or false.")
			return
		}
		b := v.Bool()
		*to = &b
	}
}

func (f *fields) arguments(to *canon.Value) reader {
	return func(path string, v canon.Value) {
		if v.Kind() != canon.ObjectKind {
			f.fail(path, "It has to be an object.")
			return
		}
		*to = v
	}
}

func (f *fields) agent(a *AgentIdentity) reader {
	return func(path string, v canon.Value) {
		f.object(path, v, true, []field{
			{"agent_id", required, f.filled(&a.AgentID)},
			{"name", required, f.filled(&a.Name)},
			{"owner", required, f.filled(&a.Owner)},
			{"environment", required, f.filled(&a.Environment)},
			{"agent_type", 0, f.text(&a.AgentType)},
			{"trust_level", 0, f.trust(&a.TrustLevel)},
			{"roles", 0, f.list(&a.Roles)},
			{"capabilities", 0, f.list(&a.Capabilities)},
			{"max_delegation_depth", 0, f.depth(&a.MaxDelegationDepth)},
			{"attestation", 0, f.attestation(&a.Attestation)},
		})
	}
}

func (f *fields) attestation(to **Attestation) reader {
	return func(path string, v canon.Value) {
		var a Attestation
		f.object(path, v, true, []field{
			{"issuer", required, f.filled(&a.Issuer)},
			{"issued_at", required, f.moment(&a.IssuedAt)},
			{"expires_at", 0, f.optionalMoment(&a.ExpiresAt)},
			{"signature", 0, f.text(&a.Signature)},
		})
		*to = &a
	}
}

func (f *fields) action(a *Action) reader {
	return func(path string, v canon.Value) {
		f.object(path, v, true, []field{
			{"type", required, f.filled(&a.Type)},
			{"tool_name", required, f.filled(&a.ToolName)},
			{"tool_args", required, f.arguments(&a.ToolArgs)},
			{"tool_identity", 0, f.identity(&a.ToolIdentity)},
		})
	}
}

func (f *fields) identity(to **ToolIdentity) reader {
	return func(path string, v canon.Value) {
		var t ToolIdentity
		f.object(path, v, true, []field{
			{"tool_name", required, f.filled(&t.ToolName)},
			{"version", 0, f.text(&t.Version)},
			{"provider", 0, f.text(&t.Provider)},
			{"manifest_hash", 0, f.text(&t.ManifestHash)},
			{"permissions_required", 0, f.list(&t.PermissionsRequired)},
			{"data_access", 0, f.list(&t.DataAccess)},
			{"verified", 0, f.boolean(&t.Verified)},
		})
		*to = &t
	}
}

func (f *fields) context(c *Context) reader {
	return func(path string, v canon.Value) {
		c.Extra = f.object(path, v, false, []field{
			{"user_input", 0, f.text(&c.UserInput)},
			{"data_labels", 0, f.list(&c.DataLabels)},
			{"risk_hints", 0, f.list(&c.RiskHints)},
			{"trace_id", 0, f.text(&c.TraceID)},
			{"session_id", 0, f.text(&c.SessionID)},
			{"parent_agent_id", 0, f.text(&c.ParentAgentID)},
			{"delegation_chain", 0, f.list(&c.DelegationChain)},
		})
	}
}
