// Package policy is Agent-SPM v0.3's policy engine: it loads a bundle of rules,
// or says all that is wrong with it, and decides calls by it. It never loads a
// bundle without one of its rules, never lets a call pass because something
// could not be judged, and has no clock, no I/O and no state.
//
//	JSON, YAML ─ Load ─→ Bundle ─ Decide(Request, now) ──→ Decision
//	                │      ├── Consider: the same where inputs are only claimed
//	                │      │  └── Explain, Lint, Compare
//	                │      └ index by tool name: rules of other tools cost nothing
//	                └─→ Problems: file:line:column, rule, what to do
//
// The rules are docs/spec/agent-spm.md. Where it leaves a choice, this package
// chooses so:
//
//   - null and "" in match.agent_type, match.tool_provider, match.tool_category,
//     match.tool_risk_domain and match.trust_level_min are no condition, as in the reference, and a
//     warning. null for any list of texts is an error.
//   - Fields that a bundle, rule, match or when does not have are ignored, as in
//     the reference, and a warning; in approval, which is ours, an error.
//   - A time is ISO 8601 as ECMAScript reads it, UTC without an offset. At
//     expires_at the bundle has expired.
//   - An object in tool_args_match that holds one operator may hold nothing
//     else. Without any it is compared deeply, in any order of its members. eq
//     and neq are JavaScript's ===, so no array or object is eq to anything.
//   - Lower case is JavaScript's, with its final sigma and dotted capital I.
//     Regular expressions are JavaScript's with the flag i (package pattern):
//     the flag does not make ASCII letters equal to others (K and the Kelvin
//     sign), as RE2's would. Lookahead and lookbehind are searched in linear
//     time, too; back-references, which cannot be, are load errors.
//   - A call with too much text for a rule that has to search it is refused with
//     the reason TEXT_TOO_LONG, whatever the rule's outcome (see Decide).
package policy
