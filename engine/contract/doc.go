// Package contract is the Agent Action Contract v1: it reads the event that an
// agent's runtime sends before a tool call, judges it, and words the answer.
//
//	canon.Value ─ Parse ─→ Event ─ Judge ─→ Result ─ Opinion ──→ engine.Evaluate
//	                 │                        │                        │
//	                 └─ errors ─ Invalid ─────┤      engine.Decision ──┘
//	                                          └─ Envelope ─→ what the agent gets
//
// Everything fails closed: an event that cannot be read is refused, an accept
// that meets any hard blocker becomes a defer, and text in evidence never
// raises what the sender is taken to be allowed. No answer holds the value of
// an argument. The package has no clock, no I/O and no state.
//
// The rules are the contract's normative text, seeds/agent-action-contract-v1,
// made exact in specs/agent-action-contract.md, whose sections the comments
// name. Where those leave a choice the stricter reading was taken:
//
//   - An accept of ours that meets a hard blocker becomes a defer before it is
//     merged with the recommendation, so that a stricter recommendation never
//     loosens the outcome.
//   - Argument keys are compared exactly. Tool names are compared without
//     regard to case, and their words are what separators leave: user_search and
//     user.search hold "search", userSearch is one word and does not.
//   - Both retrieved_at and freshness.checked_at count when both are there.
//   - A name or reference without any visible character is blank.
//   - An event has at most MaxEvidence references.
package contract
