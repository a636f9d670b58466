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

	// NUL is what stands for U+0000 in Args and UserInput, which canon refuses; ""
	// is nothing.
	NUL string
}
