package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
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
}

type parameter struct{ name, doc string }

// proposing are the headers of whatever proposes a call.
var proposing = []parameter{
	{sessionHeader, "The session that the call belongs to, where its document has no place for it."},
	{preconditionsHeader, "A JSON object of texts: what must be unchanged when the call runs."},
	{"Prefer", "token: a token for an accepted call, too. separate: an approval of its own where the very call waits already."},
}

// AnswerBody is what the requesting side answers: whether the user confirms the
// call, with the values that it asks for, or what a reviewer wanted to know.
type AnswerBody struct {
	Confirmed   *bool           `json:"confirmed,omitempty" doc:"true: the user confirmed this very action; false: the user does not want it."`
	Values      json.RawMessage `json:"values,omitempty" doc:"The values that requirements[].form asks for."`
	Digest      string          `json:"digest,omitempty" doc:"The approval's digest, as the user was shown it. Required once somebody has changed the arguments."`
	Information string          `json:"information,omitempty" maxLength:"4000" doc:"The answer to the reviewer's question, instead of confirmed."`
	Comment     string          `json:"comment,omitempty" maxLength:"4000"`
}

// TicketBody names a ticket.
type TicketBody struct {
	Ticket string `json:"ticket" minLength:"1" maxLength:"200" doc:"Its reference, such as PAY-12, or its full address in the tracker."`
	System string `json:"system,omitempty" maxLength:"64" doc:"Of which configured tracker it is. May be left out where the reference fits only one."`
}

// CancelBody is empty: there is nothing to say.
type CancelBody struct{}

// VoteBody is a reviewer's vote.
type VoteBody struct {
	Decision string `json:"decision" enum:"approve,deny"`
	Kind     string `json:"kind,omitempty" enum:"wrong_args,not_now,never,needs_info" doc:"What kind of no; required to deny."`
	Comment  string `json:"comment,omitempty" maxLength:"4000"`
	Digest   string `json:"digest" doc:"The approval's digest, as it was shown."`
	Version  int    `json:"version" doc:"The approval's version, as it was shown."`
	// Constraints and ValidFor tighten what the approval permits.
	Constraints json.RawMessage `json:"constraints,omitempty" doc:"With approve: a JSON object of constraints that are narrower than those that there are."`
	ValidFor    engine.Duration `json:"valid_for,omitempty" doc:"With approve: for how long the permission is good at most, as in 10m."`
	// Challenge and Assertion sign the vote.
	Challenge string          `json:"challenge,omitempty" doc:"The challenge_id of POST …/votes/challenge."`
	Assertion json.RawMessage `json:"assertion,omitempty" doc:"What the voter's passkey has answered: a PublicKeyCredential as JSON (WebAuthn), binary values in base64url."`
}

// VoteChallenge is what a browser needs to have a passkey sign a vote.
type VoteChallenge struct {
	ChallengeID string          `json:"challenge_id" doc:"Send it back with the vote, as challenge. It is good once, for five minutes."`
	PublicKey   json.RawMessage `json:"publicKey" doc:"The argument of navigator.credentials.get, binary values in base64url."`
}

// RedeemBody spends a token.
type RedeemBody struct {
	Token     string          `json:"token"`
	ToolName  string          `json:"tool_name"`
	Arguments json.RawMessage `json:"arguments" doc:"Exactly the arguments that were approved; white space and key order do not matter."`
	// Preconditions and Lease are for calls that depend on things, and long ones.
	Preconditions map[string]string `json:"preconditions,omitempty" doc:"What the things that the call depends on are now, by the approval's names for them."`
	LeaseSeconds  int64             `json:"lease_seconds,omitempty" minimum:"0" maximum:"86400" doc:"How long the call may take before nobody knows what became of it; 900 when left out."`
}

// RedeemAnswer permits the call to run, once.
type RedeemAnswer struct {
	Redeemed    bool            `json:"redeemed"`
	ApprovalID  string          `json:"approval_id"`
	Constraints json.RawMessage `json:"constraints" doc:"What the call must keep to; {} when nothing."`
	LeaseUntil  time.Time       `json:"lease_until" doc:"By when to say what became of the call."`
	Replayed    bool            `json:"replayed,omitempty" doc:"True when this request was answered before, under its Idempotency-Key: the call may be running, or have run."`
	RedeemedAt  *time.Time      `json:"redeemed_at,omitempty" doc:"With replayed: when the token was spent."`
}

// ExecutionBody says what became of a redeemed call.
type ExecutionBody struct {
	ApprovalID string `json:"approval_id"`
	Outcome    string `json:"outcome" enum:"succeeded,failed,unknown"`
	DurationMS int64  `json:"duration_ms,omitempty" minimum:"0"`
	// Findings and Output are looked at after the execution.
	Findings []string        `json:"findings,omitempty" doc:"Codes of what the host found wrong with the output."`
	Output   json.RawMessage `json:"output,omitempty" doc:"What the tool answered. It is looked at and not kept; the answer says what of it the agent may see."`
}

// UngatedBody is a call that ran without a decision.
type UngatedBody struct {
	ToolName  string          `json:"tool_name"`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"What it ran with. It is not kept; the event has the names of the arguments, and the keyed digest by which decisions on the same call are found."`
	Outcome   string          `json:"outcome" enum:"succeeded,failed,unknown"`
	SessionID string          `json:"session_id,omitempty" doc:"The host's conversation."`
	CallID    string          `json:"call_id,omitempty" doc:"The host's id of the call."`
	Host      string          `json:"host,omitempty" doc:"What the agent runs in, such as claude-code."`
}

// UngatedAnswer says where that is on record.
type UngatedAnswer struct {
	EventID    string    `json:"event_id"`
	RecordedAt time.Time `json:"recorded_at"`
}

// ExecutedAnswer is the approval, and what of the tool's answer the agent may see.
type ExecutedAnswer struct {
	Approval
	Output *safeai.Filtered `json:"output,omitempty"`
}

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
	d, approvals, audit, admin, system := dialectDoor{a}, approvalDoor{a}, auditDoor{a}, adminDoor{a}, systemDoor{a}
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
			method: "POST", path: "/v1/approvals/{id}/answers", summary: "Answer on the user's behalf", scope: identity.ScopeApprovals, in: AnswerBody{}, out: Approval{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 503}, repeats: true,
			detail: "For approvals whose next_action is answer. Confirming takes a key of kind runtime; an agent's own key can never confirm. What a reviewer wants to know (question) any key of the agent answers, with information.", handle: approvals.answerApproval,
		},
		{
			method: "POST", path: "/v1/approvals/{id}/ticket", summary: "Attach a ticket", scope: identity.ScopeApprovals, in: TicketBody{}, out: Approval{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 503}, repeats: true,
			detail: "For approvals whose next_action is attach_ticket. The tracker is asked afterwards: ticket.checked says that it has answered, and ticket.code why the ticket does not cover the call. Another one may then be attached. When the token is redeemed the tracker is asked once more: 409 ticket_rejected, or 503 ticket_unavailable while it gives no answer, and nothing is spent.", handle: approvals.attachTicket,
		},
		{
			method: "POST", path: "/v1/approvals/{id}/cancel", summary: "Take a waiting call back", scope: identity.ScopeApprovals, in: CancelBody{}, out: Approval{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 503}, repeats: true,
			detail: "The body may be left out.", handle: approvals.cancelApproval,
		},
		{
			method: "POST", path: "/v1/approvals/{id}/votes", summary: "Vote", scope: signedIn, in: VoteBody{}, out: Approval{}, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 503}, repeats: true,
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
			method: "GET", path: "/v1/audit/export", summary: "Export the audit log", scope: auditOrHuman, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 503}, mediaType: "application/jsonl",
			detail: "JSON Lines that prove themselves (holdpoint audit verify), CSV, or OCSF. The answer has no end when something went wrong on the way; go on after the last event that came, with its seq as cursor and the checkpoint's size. 409 not_witnessed_yet: too few witnesses have signed the log as it is now.",
			query:  []parameter{{"format", "jsonl, the default, csv or ocsf."}, {"since", "RFC 3339 time; events from then on."}, {"until", "RFC 3339 time; events before then."}, {"agent_id", ""}, {"tool_name", ""}, {"outcome", ""}, {"type", ""}, {"actor_id", ""}, {"approval_id", ""}, {"cursor", "To go on: the seq of the last event that came."}, {"size", "To go on: the size of the checkpoint in the header."}, {"before", "To go on: how many events came before."}}, handle: audit.auditExport,
		},
		{
			method: "GET", path: "/v1/audit/evidence", summary: "Make an evidence pack", scope: auditOrHuman, statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 503}, mediaType: "text/html",
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
	}, audit.auditReports(), approvals.conversation(), grantDoor{a}.standing(), admin.administration(), admin.retention(), admin.duty(), audit.log(), a.modelContext())
	for i, op := range operations {
		if !slices.Contains(op.problems, http.StatusBadRequest) { // takesQuery may refuse each of them
			operations[i].problems = append([]int{http.StatusBadRequest}, op.problems...)
		}
	}
	return operations
}

// retrySoon is the Retry-After of a call that waits, in seconds.
const retrySoon = "2"

// preconditionsHeader holds what has to be unchanged when the call runs: a JSON
// object of texts, such as {"etag": "\"33a64df5\""}.
const preconditionsHeader = "Holdpoint-Preconditions"

// sessionHeader names the session that a call belongs to, for documents that
// have no place for it.
const sessionHeader = "Holdpoint-Session"

// keyed is what a repetition of the request is compared by: its body, and what it
// says beside it.
func keyed(body canon.Value, r gate.Request) canon.Value {
	if r.Session == "" && len(r.Preconditions) == 0 && !r.WantToken && !r.Separate && !r.DryRun {
		return body
	}
	members := []canon.Member{{Name: "body", Value: body}, {Name: "session", Value: canon.String(r.Session)}}
	if r.WantToken {
		members = append(members, canon.Member{Name: "token", Value: canon.Bool(true)})
	}
	if r.Separate {
		members = append(members, canon.Member{Name: "separate", Value: canon.Bool(true)})
	}
	if r.DryRun {
		members = append(members, canon.Member{Name: "dry run", Value: canon.Bool(true)})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Preconditions)) {
		members = append(members, canon.Member{Name: "precondition " + name, Value: canon.String(r.Preconditions[name])})
	}
	return canon.Object(members...)
}

// asked is what a request says beside its body.
func asked(c *call) (gate.Request, error) {
	r := gate.Request{ID: RequestID(c.r.Context())}
	r.WantToken, r.Separate = prefers(c.r, "token"), prefers(c.r, "separate")
	r.Session = c.r.Header.Get(sessionHeader)
	if !utf8.ValidString(r.Session) {
		return r, &failure{Status: http.StatusBadRequest, Code: "session", Detail: "The header " + sessionHeader + " is not UTF-8."}
	}
	text := c.r.Header.Get(preconditionsHeader)
	if text == "" {
		return r, nil
	}
	v, err := canon.Parse([]byte(text))
	bad := &failure{Status: http.StatusBadRequest, Code: "preconditions", Detail: "The header " + preconditionsHeader + " has to be a JSON object of texts."}
	if err != nil || v.Kind() != canon.ObjectKind {
		return r, bad
	}
	r.Preconditions = map[string]string{}
	for name, value := range v.All() {
		if value.Kind() != canon.StringKind {
			return r, bad
		}
		r.Preconditions[name] = value.Str()
	}
	return r, nil
}

// prefers reports whether the request has a preference (RFC 7240) without a value.
func prefers(r *http.Request, name string) bool {
	for _, line := range r.Header.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(preference), name) {
				return true
			}
		}
	}
	return false
}

// proposed reads a proposal: its body, the document that a dialect's reader sees, and what
// the request says besides.
func proposed(c *call) (body, document canon.Value, request gate.Request, err error) {
	if body, err = readJSON(c); err != nil {
		return body, document, request, err
	}
	if request, err = asked(c); err != nil {
		return body, document, request, err
	}
	document, err = ownMembers(body, &request)
	return body, document, request, err
}

// ownMembers takes Holdpoint's own members out of a proposal: no dialect's reader
// sees them.
func ownMembers(body canon.Value, r *gate.Request) (canon.Value, error) {
	own := map[string]*bool{"want_token": &r.WantToken, "separate": &r.Separate}
	var rest []canon.Member
	for _, m := range body.Members() {
		into, ours := own[m.Name]
		switch {
		case !ours:
			rest = append(rest, m)
		case m.Value.Kind() != canon.BoolKind:
			return body, &failure{
				Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: m.Name + " has to be true or false.",
				Fields: []FieldError{{Path: "/" + m.Name, Message: "has to be true or false"}},
			}
		default:
			*into = *into || m.Value.Bool()
		}
	}
	if body.Kind() != canon.ObjectKind || len(rest) == body.Len() {
		return body, nil
	}
	return canon.Object(rest...), nil
}

// withToken gives the answer to an accepted call its token. The answer that is
// kept for a repetition has none: a token is signed whenever its agent asks.
func (a *API) withToken(c *call, reply access.Reply) (access.Reply, error) {
	var answer map[string]json.RawMessage
	var opened struct {
		Approval struct {
			ID string `json:"id"`
		} `json:"approval"`
	}
	if reply.Status != http.StatusOK || json.Unmarshal(reply.Body, &answer) != nil || json.Unmarshal(reply.Body, &opened) != nil || opened.Approval.ID == "" {
		return reply, nil
	}
	v, err := a.Gate.Accepted(c.r.Context(), c.principal, opened.Approval.ID)
	if err != nil {
		return reply, err
	}
	if answer["approval"], err = json.Marshal(a.wire(c.principal, v)); err != nil {
		return reply, err
	}
	reply.Body, err = json.Marshal(answer)
	return reply, err
}

// lease is so many seconds; too many of them are more than the gate takes, and
// none that overflow.
func lease(seconds int64) time.Duration {
	most := int64(gate.MaxLease/time.Second) + 1
	return time.Duration(max(min(seconds, most), -1)) * time.Second
}

// waiting is the approval of a call that waits, on the wire; nil for nil.
func (a *API) waiting(c *call, opened *approval.Approval) *Approval {
	if opened == nil {
		return nil
	}
	wire := a.wire(c.principal, gate.View{Approval: *opened})
	return &wire
}

// decidedReply answers a proposed call: 200 when it was decided at once, 202
// when it waits.
func decidedReply(answer any, waiting *Approval) (access.Reply, error) {
	if waiting == nil || waiting.Status.Terminal() || len(waiting.Requirements) == 0 {
		return jsonReply(http.StatusOK, answer, nil)
	}
	return jsonReply(http.StatusAccepted, answer, map[string]string{"Location": waiting.Links.Self, "Retry-After": retrySoon})
}

func (a *API) decided(dialect string, route engine.Route, started time.Time) {
	a.Metrics.decisions.WithLabelValues(dialect, route.String()).Inc()
	a.Metrics.decisionSeconds.Observe(time.Since(started).Seconds())
}

// approvalReply renders an approval for whoever asked.
func (a *API) approvalReply(c *call) func(approval.Approval) (access.Reply, error) {
	return func(result approval.Approval) (access.Reply, error) {
		return jsonReply(http.StatusOK, a.wire(c.principal, gate.View{Approval: result}), nil)
	}
}

func (a approvalDoor) answerApproval(c *call) error {
	var in AnswerBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	id, values := c.r.PathValue("id"), canon.Value{}
	switch {
	case in.Information != "" && in.Confirmed == nil && len(in.Values) == 0:
		return answer(a.API, c, body, func(once *access.Once[approval.Approval]) (approval.Approval, error) {
			return a.Gate.Contributions.Inform(c.r.Context(), c.principal, id, in.Information, RequestID(c.r.Context()), once)
		}, a.approvalReply(c))
	case in.Confirmed == nil || in.Information != "":
		return &failure{
			Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "Say either confirmed, or information.",
			Fields: []FieldError{{Path: "/confirmed", Message: "is required, unless information answers a question"}},
		}
	case len(in.Values) > 0:
		values, _ = body.Get("values")
	}
	return answer(a.API, c, body, func(once *access.Once[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.Answer(c.r.Context(), c.principal, gate.AnswerRequest{
			ApprovalID: id, Confirmed: *in.Confirmed, Comment: in.Comment, Values: values, Digest: in.Digest, RequestID: RequestID(c.r.Context()),
		}, once)
	}, a.approvalReply(c))
}

func (a approvalDoor) attachTicket(c *call) error {
	var in TicketBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Once[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.AttachTicket(c.r.Context(), c.principal, c.r.PathValue("id"), in.System, in.Ticket, RequestID(c.r.Context()), once)
	}, a.approvalReply(c))
}

func (a approvalDoor) cancelApproval(c *call) error {
	body, err := readOptional(c, &CancelBody{})
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Once[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.Cancel(c.r.Context(), c.principal, c.r.PathValue("id"), RequestID(c.r.Context()), once)
	}, a.approvalReply(c))
}

func (a approvalDoor) vote(c *call) error {
	v, body, err := a.readVote(c)
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Once[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.Vote(c.r.Context(), v, once)
	}, a.approvalReply(c))
}

// signVote gives what a passkey has to sign of the vote.
func (a approvalDoor) signVote(c *call) error {
	v, _, err := a.readVote(c)
	if err != nil {
		return err
	}
	ceremony, err := a.Gate.Contributions.SignVote(c.r.Context(), v)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, VoteChallenge{ceremony.ChallengeID, ceremony.PublicKey})
}

func (a approvalDoor) readVote(c *call) (v gate.VoteRequest, body canon.Value, err error) {
	var in VoteBody
	if body, err = readInto(c, &in); err != nil {
		return v, body, err
	}
	if in.Decision != "approve" && in.Decision != "deny" {
		return v, body, &failure{
			Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "decision must be approve or deny.",
			Fields: []FieldError{{Path: "/decision", Message: "must be approve or deny"}},
		}
	}
	return gate.VoteRequest{
		Person: c.person, ApprovalID: c.r.PathValue("id"), Approve: in.Decision == "approve",
		Denial: approval.Denial(in.Kind), Comment: in.Comment, Digest: in.Digest, Version: in.Version,
		RequestID: RequestID(c.r.Context()), Channel: "api", Constraints: in.Constraints, ValidFor: time.Duration(in.ValidFor),
		Signed: identity.Proof{ChallengeID: in.Challenge, Assertion: in.Assertion},
	}, body, nil
}

func (a approvalDoor) redeem(c *call) error {
	var in RedeemBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	arguments, _ := body.Get("arguments")
	return answer(a.API, c, body, func(once *access.Once[gate.Redemption]) (gate.Redemption, error) {
		redeemed, err := a.Gate.Redeem(c.r.Context(), c.principal, gate.RedeemRequest{
			Token: in.Token, Tool: in.ToolName, Arguments: arguments, Preconditions: in.Preconditions, Lease: lease(in.LeaseSeconds),
			RequestID: RequestID(c.r.Context()),
		}, once)
		if err == nil {
			a.Metrics.redeemed.Inc()
		}
		if kept := (*access.Replay)(nil); errors.As(err, &kept) && kept.Reply.Status == http.StatusOK {
			err = a.redeemedBefore(c, kept.Reply)
		}
		return redeemed, err
	}, func(r gate.Redemption) (access.Reply, error) {
		answer := RedeemAnswer{Redeemed: true, ApprovalID: r.ApprovalID, Constraints: r.Constraints, LeaseUntil: r.LeaseUntil}
		if answer.Constraints == nil {
			answer.Constraints = json.RawMessage(`{}`)
		}
		return jsonReply(http.StatusOK, answer, nil)
	})
}

// redeemedBefore is what a repetition gets of a redemption that was answered with
// success: the first answer and when that was, as a *Replay.
func (a approvalDoor) redeemedBefore(c *call, first access.Reply) error {
	var answer RedeemAnswer
	if err := json.Unmarshal(first.Body, &answer); err != nil {
		return fmt.Errorf("read the kept answer: %w", err)
	}
	at, err := a.Gate.RedeemedAt(c.r.Context(), c.principal, answer.ApprovalID, RequestID(c.r.Context()))
	if err != nil {
		return err
	}
	answer.Replayed, answer.RedeemedAt = true, &at
	reply, err := jsonReply(http.StatusOK, answer, nil)
	if err != nil {
		return err
	}
	return &access.Replay{Reply: reply}
}

func (a approvalDoor) execution(c *call) error {
	var in ExecutionBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	outcome := approval.Execution(in.Outcome)
	if outcome != approval.Succeeded && outcome != approval.Failed && outcome != approval.Unknown || in.DurationMS < 0 {
		return &failure{
			Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "outcome must be succeeded, failed or unknown, and duration_ms not negative.",
			Fields: []FieldError{{Path: "/outcome", Message: "must be succeeded, failed or unknown"}},
		}
	}
	request := gate.ExecutionRequest{
		ApprovalID: in.ApprovalID, Outcome: outcome, DurationMS: in.DurationMS, Findings: in.Findings, RequestID: RequestID(c.r.Context()),
	}
	if output, sent := body.Get("output"); sent {
		request.Output = &output
	}
	return answer(a.API, c, body, func(once *access.Once[gate.ExecutedCall]) (gate.ExecutedCall, error) {
		return a.Gate.Executed(c.r.Context(), c.principal, request, once)
	}, func(done gate.ExecutedCall) (access.Reply, error) {
		return jsonReply(http.StatusOK, ExecutedAnswer{a.wire(c.principal, gate.View{Approval: done.Approval}), done.Output}, nil)
	})
}

func (a approvalDoor) ungated(c *call) error {
	var in UngatedBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	u := gate.UngatedExecution{
		Tool: in.ToolName, Outcome: approval.Execution(in.Outcome), Session: in.SessionID, CallID: in.CallID, Host: in.Host, RequestID: RequestID(c.r.Context()),
	}
	if arguments, sent := body.Get("arguments"); sent {
		u.Arguments = &arguments
	}
	var wrong []FieldError
	if u.Outcome != approval.Succeeded && u.Outcome != approval.Failed && u.Outcome != approval.Unknown {
		wrong = append(wrong, FieldError{Path: "/outcome", Message: "must be succeeded, failed or unknown"})
	}
	if u.Tool == "" {
		wrong = append(wrong, FieldError{Path: "/tool_name", Message: "must not be empty"})
	}
	if u.Arguments != nil && u.Arguments.Kind() != canon.ObjectKind {
		wrong = append(wrong, FieldError{Path: "/arguments", Message: "must be an object"})
	}
	if len(wrong) > 0 {
		return &failure{Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "The body is not what it has to be.", Fields: wrong}
	}
	return answer(a.API, c, body, func(once *access.Once[engine.Event]) (engine.Event, error) {
		return a.Gate.Ungated(c.r.Context(), c.principal, u, once)
	}, func(e engine.Event) (access.Reply, error) {
		return jsonReply(http.StatusOK, UngatedAnswer{e.ID, e.Timestamp}, nil)
	})
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
	// adminDoor administers.
	adminDoor struct{ *API }
	// systemDoor says how the process is, and what verifies its tokens.
	systemDoor struct{ *API }
)
