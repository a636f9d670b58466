// Package aana is the Agent Action Contract v1 (AANA): it reads the event that an
// agent's runtime sends before a tool call, judges it, and words the answer.
//
//	canon.Value ─ Parse ─→ Event ─ Judge ─→ Result ─ CheckResult ─→ engine.Evaluate
//	                 │                        │                        │
//	                 └─ errors ─ Invalid ─────┤      engine.Decision ──┘
//	                                          └─ Envelope ─→ what the agent gets
//
// Everything fails closed: an event that cannot be read is refused, an accept
// that meets any hard blocker becomes a defer, and text in evidence never
// raises what the sender is taken to be allowed. No answer holds the value of
// an argument. The package has no clock, no I/O and no state.
//
// The rules are docs/spec/agent-action-contract.md, whose sections the comments
// name. Where it leaves a choice, this package chooses so:
//
//   - A public read that turns out to be private defers where it would else be
//     accepted, before the recommendation is looked at, so that a stricter
//     recommendation never loosens the outcome. Where the sender is asked anyway
//     (user_claimed) it stays an ask.
//   - A recommendation to ask or defer is always a finding, even where our own
//     route hides it: what reviewers were not shown would stop the re-check.
//   - Argument keys are compared exactly and only at the top. Tool names are
//     compared without regard to case. Their words are what separators leave:
//     user_search and user.search hold "search", userSearch is one word and does
//     not. A whole word of a text is bounded by anything but letters, digits and
//     the underscore, so that find_user holds no whole word "find".
//   - Both retrieved_at and freshness.checked_at count when both are there. A
//     time without an offset is UTC, and an empty one cannot be read.
//   - A tool name or string reference without a visible character is blank;
//     source_id and provenance of an object only must not be empty.
//   - An event has at most MaxEvidence references, and lists in answers are cut
//     at a hundred names, followed by the number of the others.
package aana
