package views

import "time"

// Kill is a kill switch.
type Kill struct {
	On bool
	// AgentID is "" for the switch of all agents. Agent and URL name its page.
	AgentID, Agent, URL string
	Reason, By          string
	At                  time.Time
}

// Switch is the form that turns a kill switch.
type Switch struct {
	// Word is what has to be typed; "" for a box to be ticked.
	Word string
	// Failure says why nothing was switched; Reason is what had been entered.
	Failure, Reason string
}

// Outcome is what a rule decides.
type Outcome struct {
	Code  string // "REQUIRE_APPROVAL"
	Words string // "waits for people to approve it"
	Kind  string // allow, ask, wait, deny
}

// Piece is a part of a phrase: words, or something of the rule itself.
type Piece struct {
	Text string
	Code bool
}

// Phrase is a condition or a term of a rule, in words.
type Phrase []Piece

// Policies is the page of what is in force.
type Policies struct {
	Frame
	// Digest is what events name.
	Digest string
	// Problems are why the last new file did not come into force.
	Problems []string
	// Policy is nil when there is none.
	Policy          *Policy
	HasContracts    bool
	Contracts       []Contract
	ContractsDigest string
	ContractsFile   Code
	Try             Try
}

// Policy is the policy bundle in force.
type Policy struct {
	Version, Digest    string
	Generated, Expires time.Time
	Signed             bool
	Expired            bool
	// Warning says that it has expired or soon will, or "".
	Warning  string
	Default  Outcome
	Rules    []Rule
	Warnings []Lint
	File     Code
}

// Rule is a rule of the policy.
type Rule struct {
	Number          int
	ID, Description string
	Line            int // of the file; 0 is unknown
	// Match and When are the conditions, all of which have to hold.
	Match, When []Phrase
	// Terms are who has to agree, by when, and constraints.
	Terms   []Phrase
	Outcome Outcome
	// Unread says that only the file tells the conditions and terms.
	Unread bool
}

// Lint is a warning about the policy.
type Lint struct {
	Line                int
	Rule, Message, Hint string
}

// Contract is a tool contract.
type Contract struct {
	Tool         string
	Tags, Fields []string
	Masks        bool
	// Unread says that only the file tells its terms.
	Unread bool
}

// Try is the form that tries a call, and what came of it.
type Try struct {
	Tool, Arguments, Environment, Request string
	Failures                              []string
	Result                                *Explained
}

// Explained is why the policy decides what it decides.
type Explained struct {
	Tool, Environment string
	Outcome           Outcome
	Rule              string // "" when none matched
	Role              string
	Expired           bool
	Reasons           []string
	Rules             []ExplainedRule
}

// ExplainedRule is how a rule met a call.
type ExplainedRule struct {
	Number           int
	ID               string
	Outcome          Outcome
	Matched, Decided bool
	// After says that an earlier rule had decided already.
	After bool
	// Because is the first condition that did not hold.
	Because    string
	Conditions []Condition
}

// Condition is one condition of a rule; Held is yes, no or unknown.
type Condition struct{ Name, Held, Why string }

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
	MayChange        bool
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

// Admin is the page for administrators.
type Admin struct {
	Frame
	Kill     Kill // of all agents
	Kills    []Kill
	Switch   Switch
	Agents   int
	Settings SettingsForm
	Issuers  []Claim
	Tools    []ToolRow
}

// SettingsForm is the form of the settings for all agents.
type SettingsForm struct {
	Limits                             LimitsForm
	MaxDelegation, MinTrust            string
	OnlyRegistered, AllowUnverifiedMCP bool
	Trusts                             []Option
	Seen, Failure                      string
}

// ToolRow is a tool in one row.
type ToolRow struct {
	Name, URL, Version, Provider, MinTrust, Manifest string
	Verified, NeedsManifest                          bool
	State                                            Status
	RevokedAt                                        *time.Time
}

// Tool is the page of one tool; Known is false for one to be registered.
type Tool struct {
	Frame
	ToolRow
	Known bool
	Form  ToolForm
}

// ToolForm is the form of what is registered of a tool.
type ToolForm struct {
	// Schema is the JSON Schema of the arguments, as text.
	Schema                                      string
	Name, Version, Provider, Manifest, MinTrust string
	NeedsManifest, Verified                     bool
	Trusts                                      []Option
	Seen, Failure                               string
}

// ToolRequest is a tool execution request, as it was written.
type ToolRequest struct {
	// Invalid says that the document cannot be read field by field any more.
	Invalid                bool
	RequestID              string
	CreatedAt              time.Time
	Drafted                string // by whom, in words
	Purpose                string
	Command, Program       string
	Language               string
	Network                bool
	Hosts                  []string
	NetworkRationale       string
	CPU, Memory, Time      string
	Inputs                 []ToolFile
	Outputs                []ToolFile
	Constraints            []string
	Risk, Sensitivity, Why string
	// Document is the whole of it, line by line.
	Document Code
}

// ToolFile is a file that the run reads, with its hash, or writes, with what it is.
type ToolFile struct{ Name, Note string }
