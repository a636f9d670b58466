// Package authzen reads the requests of OpenID AuthZEN's Authorization API 1.0 and
// says which call each of them is. docs/spec/authzen.md has the mapping:
//
//	{subject, action, resource, context} ─ Parse ─→ Request: tool, arguments, for whom
//	{evaluations: […], defaults, options} ─ Split ─→ one such document for each entry
//
// The specification says nothing of what a decision is made by, so this package has
// no rules of its own: it decides nothing. It has no clock, no I/O and no state.
package authzen

// Dialect is the name of the protocol whose documents this package reads.
const Dialect = "authzen"
