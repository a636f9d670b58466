package spm

import (
	"cmp"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
)

// Request is Agent-SPM's AgentActionRequest, read strictly. Optional texts
// are nil when they are not there.
type Request struct {
	RequestID string
	Timestamp string // as it was sent; "" in a request made from CheckToolCallParams
	Agent     AgentIdentity
	Action    Action
	Context   Context
}

// AgentIdentity is what a request says of its agent. Nothing of it is
// verified here.
type AgentIdentity struct {
	AgentID            string
	Name               string
	Owner              string
	Environment        string
	AgentType          *string
	TrustLevel         *string
	Roles              []string
	Capabilities       []string
	MaxDelegationDepth *int
	Attestation        *Attestation
}

// Attestation is the agent's proof of identity, unverified.
type Attestation struct {
	Issuer    string
	IssuedAt  string
	ExpiresAt *string
	Signature *string
}

// Action is what the agent wants to do.
type Action struct {
	Type         string
	ToolName     string
	ToolArgs     canon.Value // an object
	ToolIdentity *ToolIdentity
}

// ToolIdentity is what a request says of its tool, unverified.
type ToolIdentity struct {
	ToolName            string
	Version             *string
	Provider            *string
	ManifestHash        *string
	PermissionsRequired []string
	DataAccess          []string
	Verified            *bool
}

// Context is what surrounds a call. Extra holds the members of Agent-SPM's open
// context that have no field here, in their order.
type Context struct {
	UserInput       *string
	DataLabels      []string
	RiskHints       []string
	TraceID         *string
	SessionID       *string
	ParentAgentID   *string
	DelegationChain []string
	Extra           []canon.Member
}

// Policy is what the policy's rules look at of the request.
func (a *Request) Policy() *policy.Request {
	r := &policy.Request{
		Tool:        a.Action.ToolName,
		Args:        a.Action.ToolArgs,
		Environment: a.Agent.Environment,
		AgentType:   a.Agent.AgentType,
		TrustLevel:  a.Agent.TrustLevel,
		Roles:       a.Agent.Roles,
		DataLabels:  a.Context.DataLabels,
	}
	if a.Action.ToolIdentity != nil {
		r.Provider = a.Action.ToolIdentity.Provider
	}
	if a.Context.UserInput != nil {
		r.UserInput = *a.Context.UserInput
	}
	return r
}

// FieldError is one way in which a request is not what Agent-SPM describes.
// Path is the JSON pointer to the value, and Message one sentence that never
// quotes it.
type FieldError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Parse reads a request of either form: an AgentActionRequest, which has an
// action, or CheckToolCallParams.
func Parse(v canon.Value) (Request, []FieldError) {
	if _, full := v.Get("action"); full {
		return ParseActionRequest(v)
	}
	return ParseParams(v)
}

// ParseActionRequest reads Agent-SPM's AgentActionRequest and returns everything
// that is wrong with it, in document order, but that missing fields come last
// of their object. Unknown fields are errors, except in context, which
// Agent-SPM leaves open. With errors the request is the zero Request.
func ParseActionRequest(v canon.Value) (Request, []FieldError) {
	var a Request
	var f fields
	f.object("", v, true, []field{
		{"request_id", required, f.filled(&a.RequestID)},
		{"timestamp", required, f.moment(&a.Timestamp)},
		{"agent", required, f.agent(&a.Agent)},
		{"action", required, f.action(&a.Action)},
		{"context", required, f.context(&a.Context)},
	})
	if len(f.errors) > 0 {
		return Request{}, f.errors
	}
	return a, nil
}

// ParseParams reads Agent-SPM's CheckToolCallParams (camelCase) into the request
// that it stands for, as strictly as ParseActionRequest. agentName defaults to
// agentId, owner to "unknown", environment to "dev" and actionType to
// "tool_call". RequestID and Timestamp stay empty: the caller gives them.
func ParseParams(v canon.Value) (Request, []FieldError) {
	a := Request{
		Agent:  AgentIdentity{Owner: "unknown", Environment: "dev"},
		Action: Action{Type: "tool_call"},
	}
	var f fields
	f.object("", v, true, []field{
		{"toolName", required, f.filled(&a.Action.ToolName)},
		{"toolArgs", required, f.arguments(&a.Action.ToolArgs)},
		{"agentId", required, f.filled(&a.Agent.AgentID)},
		{"agentName", 0, f.filled(&a.Agent.Name)},
		{"environment", 0, f.filled(&a.Agent.Environment)},
		{"owner", 0, f.filled(&a.Agent.Owner)},
		{"actionType", 0, f.filled(&a.Action.Type)},
		{"userInput", 0, f.text(&a.Context.UserInput)},
		{"dataLabels", 0, f.list(&a.Context.DataLabels)},
		{"riskHints", 0, f.list(&a.Context.RiskHints)},
		{"sessionId", 0, f.text(&a.Context.SessionID)},
		{"parentAgentId", 0, f.text(&a.Context.ParentAgentID)},
		{"agentType", 0, f.text(&a.Agent.AgentType)},
		{"trustLevel", 0, f.trust(&a.Agent.TrustLevel)},
		{"roles", 0, f.list(&a.Agent.Roles)},
		{"capabilities", 0, f.list(&a.Agent.Capabilities)},
		{"maxDelegationDepth", 0, f.depth(&a.Agent.MaxDelegationDepth)},
		{"attestation", 0, f.attestation(&a.Agent.Attestation)},
		{"toolIdentity", 0, f.identity(&a.Action.ToolIdentity)},
		{"delegationChain", 0, f.list(&a.Context.DelegationChain)},
	})
	if len(f.errors) > 0 {
		return Request{}, f.errors
	}
	a.Agent.Name = cmp.Or(a.Agent.Name, a.Agent.AgentID)
	return a, nil
}
