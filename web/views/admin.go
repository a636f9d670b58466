package views

import "time"

// Admin is the page for administrators.
type Admin struct {
	Frame
	Kill     Kill // of all agents
	Kills    []Kill
	Switch   Switch
	Agents   int
	Settings SettingsForm
	Issuers  []Field
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
	// Kind is what the tool is registered as, in a few words; "" for nothing.
	Kind      string
	State     Status
	RevokedAt *time.Time
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
	// What the tool does, whatever its calls say. Labels are separated by blanks.
	Category, RiskDomain, Labels string
	Categories, RiskDomains      []Option
	IdentityBound, SideEffects   bool
	// Stakes is the template of the sentence that says what a call will do.
	Stakes string
}

// Kill is a kill switch.
type Kill struct {
	On bool
	// AgentID is "" for the switch of all agents. Agent and URL name its page.
	AgentID, Agent, URL string
	Reason, By          string
	At                  time.Time
}

// agentStoppedWords say that a call's agent is stopped; "" where it is not.
func agentStoppedWords(k Kill) string {
	if !k.On {
		return ""
	}
	return "This agent is stopped."
}

// Switch is the form that turns a kill switch.
type Switch struct {
	// Word is what has to be typed; "" for a box to be ticked.
	Word string
	// Failure says why nothing was switched; Reason is what had been entered.
	Failure, Reason string
}
