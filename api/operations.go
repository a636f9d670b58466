package api

import (
	"net/http"
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

// operation is a route and everything that its documentation says: both come
// from this one table, so that neither can be out of step with the other.
type operation struct {
	method, path string
	summary      string
	detail       string
	scope        string
	// in and out are values of the types of body and answer; nil for none.
	in, out any
	// statuses are the good answers, and problems the codes of the others.
	statuses []int
	problems []int
	query    []parameter
	// headers are those of the request beside Idempotency-Key and X-Request-Id.
	headers []parameter
	// example is a body, as its document.
	example any
	handle  func(*call) error
	// mediaType of the answer; "" means JSON.
	mediaType string
	repeats   bool // takes Idempotency-Key
	// takes is the media type of the body; "" means JSON.
	takes string
	// held is set for a POST whose answer may be held on purpose.
	held bool
	// long is set for a GET that reads much of the log: mostLong of a credential at once.
	long bool
}

type parameter struct{ name, doc string }

// Events is a page of the audit log.
type Events struct {
	Events     []engine.Event `json:"events"`
	NextCursor string         `json:"next_cursor" doc:"Where the next page begins; \"\" at the end."`
}

// OwnApprovals is a page of an agent's own approvals.
type OwnApprovals struct {
	Approvals  []Approval `json:"approvals" doc:"The newest first, without tokens and without edited arguments: read one by its id for them."`
	NextCursor string     `json:"next_cursor" doc:"Where the next page begins; \"\" at the end."`
}

// table lists every operation.
func (a *API) table() []operation {
	d, approvals, audit, admin, people, system := dialectDoor{a}, approvalDoor{a}, auditDoor{a}, adminDoor{a}, peopleDoor{a}, systemDoor{a}
	operations := slices.Concat(d.aana(), d.spm(), d.threegate(), d.authzen(), d.safeai(), []operation{
		{
			method: "GET", path: "/v1/approvals", summary: "List the agent's own approvals", scope: identity.ScopeApprovals, out: OwnApprovals{}, statuses: []int{200}, problems: []int{400, 401, 403, 503},
			detail: "For an agent that has lost track, after a crash for example: all that it has asked for, the newest first.",
			query:  []parameter{{"status", "pending, approved, denied, expired or cancelled."}, {"tool_name", ""}, {"session", "The session that the calls named."}, {"cursor", "next_cursor of the page before."}, {"limit", "1 to 100; 50 when left out."}}, handle: approvals.ownApprovals,
		},
		{
			method: "GET", path: "/v1/approvals/{id}", summary: "Read an approval", scope: keyOrHuman, out: Approval{}, statuses: []int{200, 304}, problems: []int{400, 401, 403, 404, 503},
			detail:  "With wait=25, or Prefer: wait=25, the answer is held until the approval changes (less than 60 seconds). If-None-Match with a former ETag answers at once when it has changed already, and 304 while it has not (leave it out for a fresh token). When approved, the agent's own key gets resumption_token.",
			query:   []parameter{{"wait", "Seconds to hold the answer for, 0 to 59."}},
			headers: []parameter{{"Prefer", "wait=25: seconds to hold the answer for."}, {"If-None-Match", "A former ETag."}}, handle: approvals.getApproval,
		},
		{
			method: "GET", path: "/v1/approvals/{id}/events", summary: "Follow an approval", scope: keyOrHuman, out: Approval{}, statuses: []int{200}, problems: []int{401, 403, 404, 503}, mediaType: "text/event-stream",
			detail: "Server-sent events: one named approval now and after every change; the stream ends when nothing more can happen.", handle: approvals.followApproval,
		},
		{
			method: "POST", path: "/v1/approvals/{id}/answers", example: map[string]any{"confirmed": true}, summary: "Answer on the user's behalf", scope: identity.ScopeApprovals, in: AnswerBody{}, out: Approval{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 503}, repeats: true,
			detail: "For approvals whose next_action is answer. Confirming takes a key of kind runtime; an agent's own key can never confirm. What a reviewer wants to know (question) any key of the agent answers, with information.", handle: approvals.answerApproval,
		},
		{
			method: "POST", path: "/v1/approvals/{id}/ticket", example: map[string]any{"ticket": "PAY-12"}, summary: "Attach a ticket", scope: identity.ScopeApprovals, in: TicketBody{}, out: Approval{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 503}, repeats: true,
			detail: "For approvals whose next_action is attach_ticket. The tracker is asked afterwards: ticket.checked says that it has answered, and ticket.code why the ticket does not cover the call. Another one may then be attached. When the token is redeemed the tracker is asked once more: 409 ticket_rejected, or 503 ticket_unavailable while it gives no answer, and nothing is spent.", handle: approvals.attachTicket,
		},
		{
			method: "POST", path: "/v1/approvals/{id}/cancel", summary: "Take a waiting call back", scope: identity.ScopeApprovals, in: CancelBody{}, out: Approval{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 503}, repeats: true,
			detail: "The body may be left out.", handle: approvals.cancelApproval,
		},
		{
			method: "POST", path: "/v1/approvals/{id}/votes", example: map[string]any{"decision": "deny", "kind": "wrong_args", "comment": "That is the former account.", "digest": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "version": 1}, summary: "Vote", scope: signedIn, in: VoteBody{}, out: Approval{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 503}, repeats: true,
			detail: "For a signed-in person (the session of the console). A vote for what is no longer what would be approved is refused with 409. Where requirements say signed, it takes challenge and assertion (403 signature_required).", handle: approvals.vote,
		},
		{
			method: "POST", path: "/v1/approvals/{id}/votes/challenge", summary: "Have a vote signed", scope: signedIn, in: VoteBody{}, out: VoteChallenge{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 503},
			detail: "For a signed-in person: what their passkey has to sign so that exactly this vote can be cast. Send the same vote afterwards, with challenge and assertion. docs/audit-verify.md says what is signed.", handle: approvals.signVote,
		},
		{
			method: "POST", path: "/v1/tokens/redeem", example: map[string]any{"token": "eyJhbGciOiJFZERTQSJ9.e30.c2ln", "tool_name": "create_transfer", "arguments": map[string]any{"amount": 120}}, summary: "Spend a resumption token", scope: identity.ScopeRedeem, in: RedeemBody{}, out: RedeemAnswer{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 413, 415, 422, 503}, repeats: true,
			detail: "Succeeds once. Run the call only after the 200. Repeated with its Idempotency-Key, the answer is the first one with replayed and redeemed_at: run the call only if you know that it has not run. Once an outcome is on record: 409 already_reported.", handle: approvals.redeem,
		},
		{method: "POST", path: "/v1/executions", example: map[string]any{"approval_id": "apr_jxitrr2ecdfgdvk6wwjoctbdxt", "outcome": "succeeded", "duration_ms": 12}, summary: "Report what became of a redeemed call", scope: identity.ScopeRedeem, in: ExecutionBody{}, out: ExecutedAnswer{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 413, 415, 422, 503}, repeats: true, handle: approvals.execution},
		{
			method: "POST", path: "/v1/executions/ungated", summary: "Report a call that ran without a decision", scope: identity.ScopeRedeem, in: UngatedBody{}, out: UngatedAnswer{}, statuses: []int{200}, problems: []int{400, 401, 403, 409, 413, 415, 422, 503}, repeats: true,
			detail: "For programs that stand beside an agent and see what it has run, such as the hook of a coding agent. Nothing is permitted by it. The log has an event of type ungated with the reason UNGATED_EXECUTION.", handle: approvals.ungated,
		},
		{
			method: "GET", path: "/v1/audit/events", summary: "Read the audit log", scope: auditOrHuman, out: Events{}, statuses: []int{200}, problems: []int{400, 401, 403, 503},
			query: []parameter{{"since", "RFC 3339 time; events from then on."}, {"until", "RFC 3339 time; events before then."}, {"agent_id", ""}, {"tool_name", ""}, {"outcome", ""}, {"type", "decision, vote, settled, redeem …"}, {"actor_id", "Who did it: a person's, an agent's or a key's id."}, {"approval_id", ""}, {"order", "asc, the default, or desc: from the newest on."}, {"cursor", "next_cursor of the page before, or the seq of the last event seen: reading on from there misses none."}, {"limit", "1 to 1000; 100 when left out."}}, handle: audit.auditEvents,
		},
		{
			method: "GET", path: "/v1/audit/export", summary: "Export the audit log", scope: auditOrHuman, long: true, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 429, 503}, mediaType: "application/jsonl",
			detail: "JSON Lines that prove themselves (holdpoint audit verify), CSV, or OCSF. The answer has no end when something went wrong on the way; go on after the last event that came, with its seq as cursor and the checkpoint's size. 409 not_witnessed_yet: too few witnesses have signed the log as it is now.",
			query:  []parameter{{"format", "jsonl, the default, csv or ocsf."}, {"since", "RFC 3339 time; events from then on."}, {"until", "RFC 3339 time; events before then."}, {"agent_id", ""}, {"tool_name", ""}, {"outcome", ""}, {"type", ""}, {"actor_id", ""}, {"approval_id", ""}, {"cursor", "To go on: the seq of the last event that came."}, {"size", "To go on: the size of the checkpoint in the header."}, {"before", "To go on: how many events came before."}}, handle: audit.auditExport,
		},
		{
			method: "GET", path: "/v1/audit/evidence", summary: "Make an evidence pack", scope: auditOrHuman, long: true, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 429, 503}, mediaType: "text/html",
			detail: "One HTML file that tells the story of an approval, or of all that were opened in a period, with the arguments in full and the proof in it (holdpoint audit verify). The answer has no end when something went wrong on the way. 409 not_witnessed_yet: too few witnesses have signed the log as it is now.",
			query:  []parameter{{"approval_id", "The approval that it is about."}, {"since", "Or a period: approvals that were opened from this RFC 3339 time on,"}, {"until", "and before this one."}}, handle: audit.auditEvidence,
		},
		{method: "GET", path: "/.well-known/jwks.json", summary: "Keys that verify tokens", scope: public, statuses: []int{200}, problems: []int{503}, mediaType: "application/jwk-set+json", handle: system.jwks},
		{method: "GET", path: "/openapi.json", summary: "This document", scope: public, statuses: []int{200}, handle: a.openapi},
		{method: "GET", path: "/docs", summary: "This document, to read", scope: public, statuses: []int{200}, mediaType: "text/html", handle: a.docsHTML},
		{method: "GET", path: "/health", summary: "Is the process alive (AANA's address)", scope: public, out: Health{}, statuses: []int{200}, handle: system.healthz},
		{method: "GET", path: "/ready", summary: "Can it serve (AANA's address)", scope: public, out: Health{}, statuses: []int{200}, problems: []int{503}, handle: system.readyz},
		{method: "GET", path: "/healthz", summary: "Is the process alive", scope: public, out: Health{}, statuses: []int{200}, handle: system.healthz},
		{method: "GET", path: "/readyz", summary: "Can it serve, and what is missing", scope: public, out: Health{}, statuses: []int{200}, problems: []int{503}, handle: system.readyz},
		{method: "GET", path: "/metrics", summary: "Prometheus metrics", scope: identity.ScopeAdmin, statuses: []int{200}, problems: []int{401, 403, 503}, mediaType: "text/plain", handle: system.metrics},
	}, audit.auditReports(), approvals.conversation(), grantDoor{a}.standingGrants(), admin.administration(), retentionDoor{a}.retention(), people.onCall(), people.people(), endpointDoor{a}.endpoints(), people.accessReviews(), changeDoor{a}.changes(), audit.log(), slackDoor{a}.slack(), a.modelContext())
	for i, op := range operations {
		if !slices.Contains(op.problems, http.StatusBadRequest) { // takesQuery may refuse each of them
			operations[i].problems = append([]int{http.StatusBadRequest}, op.problems...)
		}
	}
	return operations
}

// approvalReply renders an approval for whoever asked.
func (a *API) approvalReply(c *call) func(approval.Approval) (access.Reply, error) {
	return func(result approval.Approval) (access.Reply, error) {
		return jsonReply(http.StatusOK, a.wire(c.principal, gate.View{Approval: result}), nil)
	}
}

// The doors of the API, each with its operations. They share one way to authorize,
// read, answer and record.
type (
	// dialectDoor takes calls in the documents of the four systems.
	dialectDoor struct{ *API }
	// approvalDoor reads approvals, contributes to them, and redeems tokens.
	approvalDoor struct{ *API }
	// grantDoor lists and revokes standing grants.
	grantDoor struct{ *API }
	// auditDoor reads, proves, reports and exports the audit log.
	auditDoor struct{ *API }
	// adminDoor administers agents, tools, their limits and kill switches.
	adminDoor struct{ *API }
	// peopleDoor administers accounts, who is on call, and reviews of access.
	peopleDoor struct{ *API }
	// endpointDoor administers where notifications go.
	endpointDoor struct{ *API }
	// changeDoor proposes and withdraws changes of the rules.
	changeDoor struct{ *API }
	// retentionDoor erases, and places legal holds.
	retentionDoor struct{ *API }
	// systemDoor says how the process is, and what verifies its tokens.
	systemDoor struct{ *API }
)
