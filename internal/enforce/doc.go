// Package enforce stands before a tool that is reached over HTTP: a reverse proxy
// which lets a request through only for a token that permits exactly this call, once.
//
//	request ── Routes: which tool, which arguments ── gate: redeem ── upstream ── gate: report
//
// The call is read from what is forwarded: its tool from the route, its arguments
// from the body, the path and the query. What is no part of the call is not forwarded,
// but for a few headers. Nothing is forwarded without the gate's yes to this very
// request, and nothing twice: a request is sent on a connection of its own, which no
// library sends again.
//
// It holds no state and decides nothing: the gate compares, and spends the token.
package enforce
