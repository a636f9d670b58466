package policy

import (
	"slices"

	"holdpoint/engine/canon"
)

// Request is what rules look at of a call.
type Request struct {
	// Tool is the exact tool name.
	Tool string
	// ToolRegistered says that the tool is in the registry; ToolCategory and
	// ToolRiskDomain are what it is registered as, "" for nothing. A call has no
	// say in them.
	ToolRegistered               bool
	ToolCategory, ToolRiskDomain string
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

	// Claims is what the caller says besides, and nobody has confirmed; Consider
	// looks at it, Decide does not.
	Claims Claims

	// NUL is what stands for U+0000 in Args and UserInput, which canon refuses; ""
	// is nothing.
	NUL string
}

// Claims are inputs of a decision that are only the caller's word. "", nil and
// an empty list are no claim.
type Claims struct {
	// UserInput is what the caller says that its user has said.
	UserInput string
	// DataLabels are claimed beside those of the Request.
	DataLabels []string
	// Environment and Provider are claimed instead of the Request's.
	Environment, Provider string
}

// with is the request as it is if all claims are true.
func (r *Request) with() *Request {
	c, all := &r.Claims, *r
	if c.UserInput != "" {
		all.UserInput = c.UserInput
	}
	if len(c.DataLabels) > 0 {
		all.DataLabels = slices.Concat(r.DataLabels, c.DataLabels)
	}
	if c.Environment != "" {
		all.Environment = c.Environment
	}
	if c.Provider != "" {
		all.Provider = &c.Provider
	}
	return &all
}

// none reports that nothing is claimed.
func (c *Claims) none() bool {
	return c.UserInput == "" && len(c.DataLabels) == 0 && c.Environment == "" && c.Provider == ""
}
