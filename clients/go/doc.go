// Package holdpoint is the Go client of Holdpoint, the approval engine for AI
// agents' tool calls. It proposes calls, waits for people, spends the token
// that their approval yields, and reports what became of the call. It uses
// the standard library only, runs nothing that is not permitted, keeps no state but
// a Journal, if it is given one, and never puts a key, a token or an argument into
// an error.
//
// A Tool does all of it, and survives crashes: README.md has an example. Guard is
// shorter, for a call that nobody edits:
//
//	c := &holdpoint.Client{URL: "http://127.0.0.1:8080", Key: os.Getenv("HOLDPOINT_API_KEY")}
//	err := c.Guard(ctx, holdpoint.Event{
//		ToolName:           "send_payment",
//		ToolCategory:       holdpoint.Write,
//		AuthorizationState: holdpoint.Authenticated,
//		RiskDomain:         "finance",
//		EvidenceRefs:       []any{"invoice:42"},
//		Arguments:          payment,
//		RecommendedRoute:   holdpoint.Accept,
//	}, func(ctx context.Context) error { return pay(ctx, payment) })
//
// The long way is Check, and then, if the call waits for people, Await, Redeem
// and Report:
//
//	Check ─┬─ ShouldExecute ───────────────────────────────► run
//	       ├─ Approval == nil ──► refused: do not run
//	       └─ Approval ── Await ─┬─ approved ── Redeem ──► run ── Report
//	                             └─ denied, expired, cancelled: do not run
//
// In doubt, do not run. An error from any of these methods means that the call
// has not been permitted, whatever the error is.
package holdpoint
