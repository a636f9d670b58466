package policy

import "holdpoint/engine/canon"

// Request is what rules look at of a call.
type Request struct {
	// Dialect is the system whose document proposed the call: "aana", "spm"
	// or "threegate". Only rules with match.dialect look at it.
	Dialect string
	// Tool is the exact tool name.
	Tool string
	// Args is the tool's arguments. Anything but an object has no argument that
	// a rule could name; its leaves are searched all the same.
	Args canon.Value
	// Environment is the agent's.
	Environment string
	// AgentType, TrustLevel and Provider are nil when the call does not say: a
	// rule that wants any of them does not match then. Provider is the tool
	// identity's.
	AgentType, TrustLevel, Provider *string
	// Roles are the agent's.
	Roles []string
	// UserInput is searched before the arguments, unless it is empty.
	UserInput string
	// DataLabels are the context's.
	DataLabels []string

	nul string // what stands for NUL in Args and UserInput, which canon refuses; "" is nothing
}

// RequestOf takes what rules look at from an AgentActionRequest, whatever its
// shape: a field that is missing or of the wrong type is as if it were not
// there, and of an array only the strings count. It is for comparing decisions
// with other implementations (holdpoint eval, conformance cases), which
// are asked about sparse requests too. A door uses ParseActionRequest instead:
// what is dropped here could be the very thing that a DENY rule looks for.
func RequestOf(v canon.Value) *Request {
	agent, action, context := member(v, "agent"), member(v, "action"), member(v, "context")
	return &Request{
		Dialect:     "spm",
		Tool:        member(action, "tool_name").Str(),
		Args:        member(action, "tool_args"),
		Environment: member(agent, "environment").Str(),
		AgentType:   optional(member(agent, "agent_type")),
		TrustLevel:  optional(member(agent, "trust_level")),
		Provider:    optional(member(member(action, "tool_identity"), "provider")),
		Roles:       stringsOf(member(agent, "roles")),
		UserInput:   member(context, "user_input").Str(),
		DataLabels:  stringsOf(member(context, "data_labels")),
	}
}

// member is an object's member, and null where there is none.
func member(v canon.Value, name string) canon.Value {
	m, _ := v.Get(name)
	return m
}

func optional(v canon.Value) *string {
	if v.Kind() != canon.StringKind {
		return nil
	}
	s := v.Str()
	return &s
}

func stringsOf(v canon.Value) []string {
	var list []string
	for _, e := range v.Elements() {
		if e.Kind() == canon.StringKind {
			list = append(list, e.Str())
		}
	}
	return list
}
