// Package schemas carries Holdpoint's JSON Schemas (draft 2020-12) inside the
// binary, for documentation, for editors, and for clients that want to check
// what they send. No decision rests on them: the packages under engine check
// documents by their own code, and tests keep the two from drifting apart. The
// package imports nothing of the project.
package schemas

import "embed"

// FS holds every schema under its file name, as *.schema.json.
//
//go:embed *.schema.json ocsf/*.schema.json
var FS embed.FS

// AgentActionContractV1 is the file of the event that asks for a decision on a
// tool call (docs/spec/agent-action-contract.md, section 1).
const AgentActionContractV1 = "agent_action_contract_v1.schema.json"

// PolicyBundle is the file of the policy bundle, Agent-SPM v0.3 with
// Holdpoint's extensions (docs/spec/agent-spm.md).
const PolicyBundle = "policy_bundle.schema.json"

// ToolContracts is the file of SafeAI's tool contracts
// (docs/spec/safeai-tool-contracts.md).
const ToolContracts = "tool_contracts.schema.json"

// OCSFEvent is the file of an audit event in the Open Cybersecurity Schema
// Framework: exactly what package engine/ocsf writes.
const OCSFEvent = "ocsf/audit_event.schema.json"

// Setup is the file of what operators set up, as “holdpoint apply” reads it
// (docs/apply.md): exactly the fields of package internal/setup.
const Setup = "setup.schema.json"
