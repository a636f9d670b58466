package views

import "time"

// Agents is the list of agents.
type Agents struct {
	Frame
	Rows      []AgentRow
	MayChange bool
}

// AgentRow is an agent in one row.
type AgentRow struct {
	ID, URL, Name, Owner, Type, Trust string
	Roles, Limits                     []string
	OwnLimits                         bool
	State                             Status // active, stopped, revoked
}

// Agent is the page of one agent.
type Agent struct {
	Frame
	AgentRow
	MayChange bool
	// UngatedURL leads to the events of calls that ran without a decision.
	UngatedURL       string
	Capabilities     []string
	NeedsAttestation bool
	Delegation       string
	RevokedAt        *time.Time
	Kill             Kill
	Switch           Switch
	Form             AgentForm
}

// AgentForm is the form of what is registered of an agent. Roles and
// Capabilities have one entry a line.
type AgentForm struct {
	Type, Trust, Roles, Capabilities, MaxDelegation string
	NeedsAttestation, OwnLimits                     bool
	Limits                                          LimitsForm
	Trusts                                          []Option
	// Seen names the values that the form was made of.
	Seen string
	// Failure is what is wrong with what was entered, one mistake a line.
	Failure string
}

// LimitsForm is the fields for limits.
type LimitsForm []RateForm

// RateForm is the two fields of one rate.
type RateForm struct{ Name, Label, Hint, Calls, Per string }
