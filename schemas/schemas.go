// Package schemas carries Holdpoint's JSON Schemas (draft 2020-12) inside the
// binary, for documentation, for editors, and for clients that want to check
// what they send. No decision rests on them: the packages under engine check
// documents by their own code, and tests keep the two from drifting apart. The
// package imports nothing of the project.
package schemas

import "embed"

// FS holds every schema under its file name, as *.schema.json.
//
//go:embed *.schema.json
var FS embed.FS

// AgentActionContractV1 is the file of the event that asks for a decision on a
// tool call (specs/agent-action-contract.md, section 1).
const AgentActionContractV1 = "agent_action_contract_v1.schema.json"
