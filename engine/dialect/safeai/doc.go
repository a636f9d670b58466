// Package safeai is SafeAI's tool contracts: which data tags a tool may
// be given, and which fields of its answers an agent may see.
//
//	file ── Load ──┬─→ Set ─┬─ ValidateRequest, InterceptRequest, InterceptResponse ─→ what SafeAI answers
//	value ─ Parse ─┘        └─ Check ─→ engine.Evaluate
//
// Everything is denied that is not declared: a tool without a contract may be
// given nothing and answer nothing. A Set never changes after Load. The package
// has no clock and no I/O, and none of its messages and reasons holds a value
// of a call: what was found is named by its tag and its place.
//
// The rules are docs/spec/safeai-tool-contracts.md. Where it leaves a choice, this
// package chooses so:
//
//   - A reason names the tag in its normal form: trimmed, in lower case, without
//     empty parts. A tool without a contract is refused without a reason, as
//     SafeAI has no words for it.
//   - A tag in a contract file must be one that a call can have: no blank, no
//     wildcard. Contracts that come with a call (Eval) are taken as they are:
//     there a * is a tag like any other, and a blank tag allows nothing.
//   - Case matters in the names of tools, but one file may not have two that
//     differ by nothing else: the reader of JSON takes such names for mistakes,
//     and that of YAML is as strict.
//   - A list that is left out or null is empty.
//   - Places are written $.to, $.lines[2].note, $["two words"].
package safeai
