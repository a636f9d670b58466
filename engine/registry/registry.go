// Package registry judges who calls and with which tool, by what an
// administrator has registered: agents with their trust and roles, tools with
// their provenance, and the switches that stop them. What a request says of
// itself never wins over what is registered. It is a pure function of a
// Snapshot, a Claim and a time; it never reads a database or a clock, and it
// never decides how a call's requirements are discharged.
package registry

import (
	"crypto/ed25519"
	"encoding/json"
	"time"

	"holdpoint/engine"
)

// Source is the source of this package's findings.
const Source = "registry"

// The codes of this package's findings (Agent-SPM v0.3, where it has one).
const (
	GlobalKill      = "GLOBAL_KILL_SWITCH"
	AgentKill       = "AGENT_KILL_SWITCH"
	AgentRevoked    = "AGENT_REVOKED"
	Unregistered    = "AGENT_UNREGISTERED"
	TrustTooLow     = "INSUFFICIENT_TRUST"
	ChainTooDeep    = "DELEGATION_DEPTH_EXCEEDED"
	ChainBroken     = "DELEGATION_CHAIN_INVALID"
	BadAttestation  = "ATTESTATION_INVALID"
	ToolRevoked     = "TOOL_REVOKED"
	ToolUnknown     = "TOOL_UNREGISTERED"
	BadProvenance   = "PROVENANCE_FAILED"
	UnverifiedMCP   = "UNVERIFIED_MCP_TOOL"
	ToolLookalike   = "TOOL_NAME_LOOKALIKE"
	ClaimOverridden = "claim_overridden"
)

// Agent is what is registered of an agent. The registry's values are the ones
// that policy sees.
type Agent struct {
	ID    string       `json:"agent_id"`
	Name  string       `json:"name,omitempty"`
	Owner string       `json:"owner,omitempty" doc:"The e-mail address of the person who answers for the agent."`
	Type  string       `json:"agent_type,omitempty"`
	Trust engine.Trust `json:"trust_level" enum:"untrusted,basic,verified,privileged,system"`
	Roles []string     `json:"roles"`
	// Capabilities are recorded and shown; nothing is decided by them.
	Capabilities []string `json:"capabilities"`
	// MaxDelegation is the longest delegation chain that may end with this
	// agent; nil leaves it to the settings.
	MaxDelegation *int `json:"max_delegation_depth,omitempty" minimum:"0" maximum:"100"`
	// NeedsAttestation refuses calls that carry no valid attestation.
	NeedsAttestation bool `json:"needs_attestation"`
	// Limits are the agent's own; nil means the settings'.
	Limits    *Limits    `json:"limits,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

// Tool is what is registered of a tool.
type Tool struct {
	Name     string `json:"tool_name"`
	Version  string `json:"version,omitempty"`
	Provider string `json:"provider,omitempty" doc:"built-in, mcp, langchain, custom, …"`
	// ManifestHash is the SHA-256 of the tool's manifest, in lower-case hex.
	ManifestHash string `json:"manifest_hash,omitempty" pattern:"^[0-9a-f]{64}$"`
	// NeedsManifest refuses calls that do not say which manifest they use.
	NeedsManifest bool         `json:"needs_manifest" doc:"Refuse calls that present no manifest hash."`
	Verified      bool         `json:"verified" doc:"Somebody has looked at where the tool comes from."`
	MinTrust      engine.Trust `json:"min_trust_level" enum:"untrusted,basic,verified,privileged,system"`
	// Category and RiskDomain are the tool's by the Agent Action Contract; "" when
	// nobody has said. A call cannot claim a less strict one.
	Category   string `json:"tool_category,omitempty" enum:"public_read,private_read,write,unknown" doc:"What the tool does, by the Agent Action Contract. It holds for calls by every door."`
	RiskDomain string `json:"risk_domain,omitempty" doc:"The tool's risk domain by the Agent Action Contract; routing and policy look at it."`
	// DataLabels are those of every call of the tool, beside what a call says.
	DataLabels []string `json:"data_labels,omitempty" doc:"Labels of the data that every call of the tool handles."`
	// IdentityBound tools read something of one person or account: never publicly.
	IdentityBound bool `json:"identity_bound,omitempty" doc:"What it reads belongs to one person or account: it is no public read, whatever a call says."`
	// SideEffects are had by tools that change something: their calls are writes.
	SideEffects bool `json:"side_effects,omitempty" doc:"It changes something: its calls are writes, whatever they say."`
	// InputSchema is the JSON Schema of the tool's arguments, by which people are
	// given a form to change them; nil where none is known. No call is judged by it.
	InputSchema json.RawMessage `json:"input_schema,omitempty" doc:"JSON Schema of the tool's arguments, for the form in which reviewers change them."`
	// Stakes is the template of the sentence that says what a call of the tool will do
	// (package stakes); "" for none. No call is judged by it.
	Stakes    string     `json:"stakes,omitempty" doc:"Template of the sentence that says what a call will do: Pay {amount|money:currency} to {*payee}."`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

// Rate bounds how many calls may be made within a time. Calls 0 means any
// number.
type Rate struct {
	Calls int             `json:"calls" minimum:"0" maximum:"100000"`
	Per   engine.Duration `json:"per,omitempty" doc:"As in 1m or 24h."`
}

// Limits bound an agent's calls: all together, those of any one tool, and
// those of one session (where Per, if set, is how long a session may last).
type Limits struct {
	Agent   Rate `json:"agent"`
	Tool    Rate `json:"tool"`
	Session Rate `json:"session"`
}

// Settings apply to every agent.
type Settings struct {
	Limits Limits `json:"limits"`
	// MaxDelegation is the longest delegation chain.
	MaxDelegation int          `json:"max_delegation_depth" minimum:"0" maximum:"100"`
	MinTrust      engine.Trust `json:"min_trust_level" enum:"untrusted,basic,verified,privileged,system"`
	// OnlyRegisteredTools refuses tools that are not registered.
	OnlyRegisteredTools bool `json:"only_registered_tools"`
	// AllowUnverifiedMCP lets calls of MCP tools through that nobody has verified.
	AllowUnverifiedMCP bool `json:"allow_unverified_mcp"`
	// Issuers are the public keys by whose signature an attestation is believed.
	Issuers map[string]Key `json:"issuers,omitempty" doc:"Ed25519 public keys in base64, by issuer."`
}

// DefaultSettings are those of a new installation: no limits, chains of up to
// five, MCP tools only when verified.
func DefaultSettings() Settings { return Settings{MaxDelegation: 5} }

// Key is an Ed25519 public key; its text form is standard base64.
type Key []byte

// Kill is a switch that somebody has thrown: for one agent, or for all.
type Kill struct {
	AgentID string    `json:"agent_id,omitempty" doc:"Left out for the switch that stops everything."`
	Reason  string    `json:"reason"`
	By      string    `json:"by" doc:"The person or key that threw it."`
	At      time.Time `json:"at"`
}

// Snapshot is everything that is registered, as it was at one moment.
type Snapshot struct {
	Settings Settings
	Agents   map[string]Agent
	// Tools holds the tools by name; AddTool adds one.
	Tools map[string]Tool
	// Kills holds the thrown switches by agent; "" is the global one.
	Kills map[string]Kill

	names Names // the tools'
}

// Killed returns the finding of the switch that stops the agent, the global
// one first, and false when none does.
func (s *Snapshot) Killed(agentID string) (engine.Finding, bool) {
	if _, ok := s.Kills[""]; ok {
		return finding(GlobalKill, "The kill switch for all agents is on: nothing runs."), true
	}
	if _, ok := s.Kills[agentID]; ok {
		return finding(AgentKill, "The kill switch for this agent is on."), true
	}
	return engine.Finding{}, false
}

// LimitsOf are the limits that hold for an agent.
func (s *Snapshot) LimitsOf(agentID string) Limits {
	if a, ok := s.Agents[agentID]; ok && a.Limits != nil {
		return *a.Limits
	}
	return s.Settings.Limits
}

// Registered returns what is registered of a tool; ok is false when nothing is,
// or when the registration has been revoked.
func (s *Snapshot) Registered(tool string) (t Tool, ok bool) {
	t, ok = s.Tools[tool]
	if !ok || t.RevokedAt != nil {
		return Tool{}, false
	}
	return t, true
}

// Provider is where a tool comes from: as registered, else as claimed.
func (s *Snapshot) Provider(tool, claimed string) string {
	if t, ok := s.Tools[tool]; ok && t.Provider != "" {
		return t.Provider
	}
	return claimed
}

func finding(code, message string) engine.Finding {
	return engine.Finding{Source: Source, Code: code, Message: message, Route: engine.Refuse}
}

func note(message string) engine.Finding {
	return engine.Finding{Source: Source, Code: ClaimOverridden, Message: message, Route: engine.Accept}
}

// key returns the issuer's key; ok is false for an issuer that nobody has registered.
func (s Settings) key(issuer string) (ed25519.PublicKey, bool) {
	k, ok := s.Issuers[issuer]
	return ed25519.PublicKey(k), ok && len(k) == ed25519.PublicKeySize
}
