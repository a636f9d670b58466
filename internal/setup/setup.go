// Package setup has what operators set up as one document: the settings for all agents,
// people, tools, agents, endpoints of notifications and on-call schedules. It exports a
// running system, reads documents that people write, says what a document would change,
// and makes each change by the act of package admin that a single command makes it by.
// No secret is in a document: passwords, API keys, and the addresses and secrets of
// endpoints. It deletes nothing, and it never changes what no document names unless it
// is told to.
//
//	files ─ Read ─→ Wanted ─┐
//	                        ├─ Compare ─→ Plan ─ Apply ─→ acts of package admin
//	store ─ Now ──→ Current ┘     └─→ Problems: file:line:column
package setup

import (
	"encoding/json"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/registry"
)

// Document is what is set up, as files have it. A section that is nil is not spoken of;
// an entry says everything of what it names: what it leaves out has its default, except
// where a field says otherwise.
type Document struct {
	Schema    string     `json:"$schema,omitempty" doc:"For editors of JSON: where the schema is."`
	Settings  *Settings  `json:"settings,omitempty" doc:"Limits, delegation and trust for all agents."`
	People    []Person   `json:"people,omitempty" doc:"Who signs in to the console. Whoever is new is invited: a link to set a password is shown once."`
	Tools     []Tool     `json:"tools,omitempty" doc:"Tools, with where they come from."`
	Agents    []Agent    `json:"agents,omitempty" doc:"Agents, with their trust, roles and limits. Their API keys are made by “holdpoint key create --agent ID”."`
	Endpoints []Endpoint `json:"endpoints,omitempty" doc:"Who is told of approvals. Addresses of webhooks and Slack are secret: they are in the file that --addresses names."`
	OnCall    []Schedule `json:"on_call,omitempty" doc:"Who is on call, and who will be."`
}

// Settings are registry's.
type Settings struct {
	Limits              *Limits                 `json:"limits,omitempty" doc:"Limits of agents that have none of their own; none when left out."`
	MaxDelegation       *int                    `json:"max_delegation_depth,omitempty" minimum:"0" maximum:"100" doc:"The longest delegation chain; 5 when left out."`
	MinTrust            *engine.Trust           `json:"min_trust_level,omitempty" enum:"untrusted,basic,verified,privileged,system" doc:"The lowest trust level of agents whose calls are judged at all; untrusted when left out."`
	OnlyRegisteredTools bool                    `json:"only_registered_tools,omitempty" doc:"Refuse tools that are not registered."`
	AllowUnverifiedMCP  bool                    `json:"allow_unverified_mcp,omitempty" doc:"Let calls of MCP tools through that nobody has verified."`
	Issuers             map[string]registry.Key `json:"issuers,omitempty" doc:"Whose attestations are believed: Ed25519 public keys in base64, by issuer."`
}

// Limits are registry's.
type Limits struct {
	Agent   *registry.Rate `json:"agent,omitempty" doc:"Of all calls together."`
	Tool    *registry.Rate `json:"tool,omitempty" doc:"Of the calls of any one tool."`
	Session *registry.Rate `json:"session,omitempty" doc:"Of the calls of one session; per is how long a session may last."`
}

// Person is somebody who signs in.
type Person struct {
	Email  string   `json:"email" doc:"Address to sign in with."`
	Name   string   `json:"name,omitempty" doc:"Name to show; the address when left out."`
	Roles  []string `json:"roles" doc:"What the person may decide. The roles on-call/… come with on_call."`
	SameAs string   `json:"same_as,omitempty" doc:"Address of another account of the same human being: both have one voice. It is said when the account is added."`
	// Disabled nil leaves it as it is.
	Disabled *bool `json:"disabled,omitempty" doc:"true keeps the person out, false lets them in again with a new password; left out, it stays as it is."`
}

// Tool is registry's.
type Tool struct {
	Name          string          `json:"tool_name" doc:"The tool's exact name."`
	Version       string          `json:"version,omitempty"`
	Provider      string          `json:"provider,omitempty" doc:"Where it comes from: built-in, mcp, langchain, custom, …"`
	ManifestHash  string          `json:"manifest_hash,omitempty" pattern:"^[0-9a-f]{64}$" doc:"SHA-256 of its manifest; a call that names another one is refused."`
	NeedsManifest bool            `json:"needs_manifest,omitempty" doc:"Refuse calls that name no manifest."`
	Verified      bool            `json:"verified,omitempty" doc:"Somebody has looked at where it comes from."`
	MinTrust      *engine.Trust   `json:"min_trust_level,omitempty" enum:"untrusted,basic,verified,privileged,system" doc:"The lowest trust level of agents that may call it; untrusted when left out."`
	Category      string          `json:"tool_category,omitempty" enum:"public_read,private_read,write,unknown" doc:"What it does, by the Agent Action Contract."`
	RiskDomain    string          `json:"risk_domain,omitempty" doc:"Its risk domain, such as finance; routing and policy look at it."`
	DataLabels    []string        `json:"data_labels,omitempty" doc:"Labels of the data that its calls handle."`
	IdentityBound bool            `json:"identity_bound,omitempty" doc:"What it reads belongs to one person or account."`
	SideEffects   bool            `json:"side_effects,omitempty" doc:"It changes something: its calls are writes."`
	InputSchema   json.RawMessage `json:"input_schema,omitempty" doc:"JSON Schema of its arguments, for the form in which reviewers change them."`
	Stakes        string          `json:"stakes,omitempty" doc:"Template of the sentence that says what a call will do: Pay {amount|money:currency} to {*payee}."`
	// Revoked nil leaves it as it is.
	Revoked *bool `json:"revoked,omitempty" doc:"true refuses its calls, false restores it; left out, it stays as it is."`
}

// Agent is registry's, with its webhook.
type Agent struct {
	ID               string        `json:"agent_id" doc:"The agent's id, as its key has it."`
	Name             string        `json:"name,omitempty" doc:"Name to show; the id when left out."`
	Owner            string        `json:"owner,omitempty" doc:"Address of the person who answers for it, and so never decides on its calls."`
	Type             string        `json:"agent_type,omitempty" doc:"ide_agent, pr_agent, chat_agent, workflow_agent, autonomous_agent, or your own."`
	Trust            *engine.Trust `json:"trust_level,omitempty" enum:"untrusted,basic,verified,privileged,system" doc:"basic when left out."`
	Roles            []string      `json:"roles,omitempty" doc:"Roles that policies may ask for."`
	Capabilities     []string      `json:"capabilities,omitempty" doc:"Shown; nothing is decided by them."`
	MaxDelegation    *int          `json:"max_delegation_depth,omitempty" minimum:"0" maximum:"100" doc:"The longest delegation chain that may end with it; that of the settings when left out."`
	NeedsAttestation bool          `json:"needs_attestation,omitempty" doc:"Refuse calls without a valid attestation."`
	Limits           *Limits       `json:"limits,omitempty" doc:"Its own limits; those of the settings when left out."`
	// Webhook nil leaves it as it is.
	Webhook *Webhook `json:"webhook,omitempty" doc:"Where it is told how its approvals end. Left out, it stays as it is; --prune ends it."`
	// Revoked nil leaves it as it is.
	Revoked *bool `json:"revoked,omitempty" doc:"true refuses its calls, false restores it; left out, it stays as it is."`
}

// Webhook is an agent's own, without its address.
type Webhook struct {
	Host   string `json:"host" doc:"Host of its address. The address itself is in the file that --addresses names, under agents."`
	Plain  bool   `json:"plain,omitempty" doc:"Allow http, to networks that outbound_allow_private names."`
	Format string `json:"format,omitempty" enum:"cloudevents" doc:"How its body is written; Holdpoint's own form when left out."`
}

// Endpoint is where people or programs are told, without what is secret about it.
type Endpoint struct {
	Name    string                    `json:"name" doc:"A name for people; no two endpoints have the same."`
	Kind    string                    `json:"kind" enum:"webhook,email,slack,push"`
	Tells   []engine.NotificationKind `json:"tells,omitempty" doc:"Only this; everything when left out."`
	Roles   []string                  `json:"roles,omitempty" doc:"Only approvals that ask one of these roles."`
	Tools   []string                  `json:"tools,omitempty" doc:"Only these tools, or prefixes with *."`
	Agents  []string                  `json:"agents,omitempty" doc:"Only these agents."`
	Digest  engine.Duration           `json:"digest,omitempty" doc:"Gather for so long and tell at once: 15m."`
	To      []string                  `json:"to,omitempty" doc:"Mail addresses, or reviewers for everybody who could act."`
	Own     bool                      `json:"own,omitempty" doc:"Tell each address only of what its owner could act on, took part in or answers for."`
	Format  string                    `json:"format,omitempty" enum:"cloudevents" doc:"How a webhook's body is written; Holdpoint's own form when left out."`
	Decide  string                    `json:"decide,omitempty" enum:"low,medium" doc:"Slack: the highest danger of a call that may be decided there; only links when left out. The app's signing secret is given by holdpoint notify set."`
	Host    string                    `json:"host,omitempty" doc:"Host of the address of a webhook or of Slack. The address itself is in the file that --addresses names, under endpoints."`
	Plain   bool                      `json:"plain,omitempty" doc:"Allow http, to networks that outbound_allow_private names."`
	Ed25519 bool                      `json:"ed25519,omitempty" doc:"Sign webhooks with a key pair instead of a shared secret. It is said when the endpoint is added."`
	// Disabled nil leaves it as it is.
	Disabled *bool `json:"disabled,omitempty" doc:"true switches it off, false on again; left out, it stays as it is."`
}

// Schedule is who is on call by one name.
type Schedule struct {
	Name   string  `json:"schedule" doc:"Its role is on-call/ and this name."`
	Shifts []Shift `json:"shifts" doc:"One after the other. Those that are over are ignored; with none, nobody is on call."`
}

// Shift is people who are on call together.
type Shift struct {
	People []string   `json:"people" doc:"Their addresses."`
	From   *time.Time `json:"from,omitempty" doc:"When it begins; now when it is left out, or has passed."`
	Until  time.Time  `json:"until" doc:"When it ends; at most a year from now."`
}

// The sections of a document.
const (
	settingsSection  = "settings"
	peopleSection    = "people"
	toolsSection     = "tools"
	agentsSection    = "agents"
	endpointsSection = "endpoints"
	onCallSection    = "on_call"
)

// words are what one entry of a section is called.
var words = map[string]string{
	settingsSection: "settings", peopleSection: "person", toolsSection: "tool", agentsSection: "agent", endpointsSection: "endpoint", onCallSection: "schedule",
}
