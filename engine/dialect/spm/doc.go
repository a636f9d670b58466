// Package spm is Agent-SPM v0.3's requests: it reads the document that proposes
// a tool call, as strictly as Agent-SPM describes it, and turns it into what the
// policy's rules look at. The rules themselves are package policy.
//
//	AgentActionRequest ──┐
//	CheckToolCallParams ─┴─ Parse ─→ Request ─ Policy ─→ policy.Request ─→ Bundle.Decide
//	                          └─ errors                                         │
//	                               what the agent gets ←─ Answer ─ engine.Decision
//
// Nothing that a request says of its agent is verified here. The package has no
// clock, no I/O and no state.
package spm
