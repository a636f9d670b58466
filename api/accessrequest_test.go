package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdpoint/api"
	"holdpoint/engine"
	"holdpoint/internal/access"
)

const requests = "/access/v1/requests"

// refund is an evaluation of a payment for alice, and pay one that presents an approval.
func refund(amount int) string {
	return accessOf(alice, fmt.Sprintf(`{"name":"pay","properties":{"amount":%d}}`, amount), `{"type":"order","id":"4711"}`)
}

func presenting(body, approval string) string {
	return `{"context":{"approval":` + approval + `},` + body[1:]
}

// denied asks, and returns what the denial binds an access request to.
func (h *harness) denied(body string) (api.AccessDecision, string) {
	h.t.Helper()
	d := h.evaluate(body)
	if d.Decision || d.Context.Requestable == nil || d.Context.Requestable.Endpoint != "https://holdpoint.example.com"+requests {
		h.t.Fatalf("got %+v", d)
	}
	return d, fmt.Sprintf(`{"denial":{"evaluation_id":%q,"expires_at":%q},`, d.Context.EvaluationID, d.Context.Requestable.ExpiresAt.Format(time.RFC3339Nano)) + body[1:]
}

func (h *harness) task(id string) (t api.AccessTask) {
	h.t.Helper()
	h.as("checking", http.MethodGet, requests+"/"+id, "").want(h.t, 200, "").into(h.t, &t)
	return t
}

// redemption reports whether a decision names the event of a redemption.
func (h *harness) redemption(d api.AccessDecision, outcome string) bool {
	return d.Context.EvaluatedAt != nil && !d.Context.EvaluatedAt.IsZero() &&
		h.count(`SELECT count(*) FROM events WHERE type = 'redeem' AND outcome = '`+outcome+`' AND event_id::text = '`+d.Context.EvaluationID+`'`) == 1
}

// Access is asked for by the profile, decided by people, read by both protocols, and
// permits the call once.
func TestAccessRequest(t *testing.T) {
	h := withAccess(t)
	d, body := h.denied(refund(120))
	var asked api.AccessTask
	r := h.as("checking", http.MethodPost, requests, body, "Idempotency-Key", "k").want(t, 202, "")
	r.into(t, &asked)
	if asked.Task.Status != "pending" || asked.Task.ID != d.Context.Approval.ID || r.Header.Get("Location") != asked.Task.StatusEndpoint || asked.Result != nil || asked.Task.Links.Cancel == "" {
		t.Fatalf("got %+v", asked)
	}
	var again api.AccessTask
	h.as("checking", http.MethodPost, requests, body, "Idempotency-Key", "k").want(t, 202, "").into(t, &again)
	if again.Task.ID != asked.Task.ID || h.count(`SELECT count(*) FROM events WHERE convert_from(body, 'utf8') LIKE '%ACCESS_REQUESTED%'`) != 1 {
		t.Errorf("repeated: %+v", again)
	}
	_, other := h.denied(refund(121))
	h.as("checking", http.MethodPost, requests, other, "Idempotency-Key", "k").want(t, 409, "duplicate_request")

	presented := presenting(refund(120), fmt.Sprintf(`{"id":%q}`, asked.Task.ID))
	if d := h.evaluate(presented); d.Decision || d.Context.NextAction != "retry" || d.Context.RetryAfter == 0 || d.Context.Approval != nil || d.Context.Requestable != nil {
		t.Errorf("before it is decided: %+v", d)
	}
	h.vote(d.Context.Approval.Approval, "approve")
	h.settle(asked.Task.ID)
	done := h.task(asked.Task.ID)
	if done.Task.Status != "approved" || done.Result == nil || done.Result.Mode != "reevaluate" || done.Result.Approval.ID != asked.Task.ID || time.Until(done.Result.Approval.ApprovedUntil) < time.Minute {
		t.Fatalf("decided: %+v", done)
	}
	var own api.Approval
	h.as("checking", http.MethodGet, "/v1/approvals/"+asked.Task.ID, "").want(t, 200, "").into(t, &own)
	if own.Status != "approved" {
		t.Errorf("by the other protocol it is %s", own.Status)
	}

	// Whatever is not what was approved is not permitted by it, and spends nothing.
	approval, err := json.Marshal(done.Result.Approval)
	if err != nil {
		t.Fatal(err)
	}
	presented = presenting(refund(120), string(approval))
	for name, tc := range map[string]struct{ body, reason string }{
		"another amount":     {presenting(refund(121), string(approval)), "approval_unverifiable"},
		"another subject":    {strings.Replace(presented, "alice", "bob", 1), "approval_unverifiable"},
		"another resource":   {strings.Replace(presented, "4711", "4712", 1), "approval_unverifiable"},
		"another tool":       {strings.Replace(presented, `"pay"`, `"read"`, 1), "approval_unverifiable"},
		"no such approval":   {presenting(refund(120), `{"id":"apr_none"}`), "approval_unverifiable"},
		"a text":             {presenting(refund(120), `"`+asked.Task.ID+`"`), "approval_unverifiable"},
		"no id":              {presenting(refund(120), `{}`), "approval_unverifiable"},
		"null":               {presenting(refund(120), `null`), "approval_unverifiable"},
		"of what is allowed": {presenting(accessOf(alice, `{"name":"read"}`, record1), string(approval)), "approval_unverifiable"},
	} {
		if d := h.evaluate(tc.body); d.Decision || d.Context.Reason != tc.reason || d.Context.NextAction != "none" {
			t.Errorf("%s: %+v", name, d)
		}
	}
	var stolen api.AccessDecision
	h.as("other", http.MethodPost, evaluation, presented).want(t, 200, "").into(t, &stolen)
	if stolen.Decision || stolen.Context.Reason != "approval_unverifiable" {
		t.Errorf("another agent: %+v", stolen)
	}
	h.as("other", http.MethodGet, requests+"/"+asked.Task.ID, "").want(t, 404, "unknown_task")
	h.as("quiet", http.MethodPost, evaluation, presented).want(t, 403, "scope_missing")
	if many := h.evaluateAll(`{"evaluations":[` + presented + `]}`); many[0].Decision || many[0].Context.Error.Code != "approval_alone" {
		t.Errorf("among several: %+v", many[0])
	}

	by := access.Initiator{Actor: engine.Actor{Kind: engine.SystemActor, ID: "test", Channel: "cli"}}
	if err := h.Registry.ThrowKillSwitch(t.Context(), by, "bot", "it went mad", nil); err != nil {
		t.Fatal(err)
	}
	if d := h.evaluate(presented); d.Decision || d.Context.Reason != "policy_denied" || !h.redemption(d, "DENY") {
		t.Errorf("with a kill switch: %+v", d)
	}
	if err := h.Registry.ReleaseKillSwitch(t.Context(), by, "bot", nil); err != nil {
		t.Fatal(err)
	}

	permitted := h.evaluate(presented, "Idempotency-Key", "run")
	if !permitted.Decision || permitted.Context.LeaseUntil == nil || permitted.Context.Approval.ApprovedUntil == nil || permitted.Context.Replayed || !h.redemption(permitted, "ALLOW") {
		t.Fatalf("got %+v", permitted)
	}
	if d := h.evaluate(presented); d.Decision || d.Context.Reason != "approval_expired" || d.Context.NextAction != "none" {
		t.Errorf("once more: %+v", d)
	}
	if d := h.evaluate(presented, "Idempotency-Key", "run"); !d.Decision || !d.Context.Replayed || d.Context.RedeemedAt == nil {
		t.Errorf("repeated: %+v", d)
	}
	if n := h.count(`SELECT count(*) FROM tokens WHERE redeemed_at IS NOT NULL`); n != 1 {
		t.Errorf("%d tokens are spent", n)
	}
	h.as("checking", http.MethodPost, "/v1/executions", `{"approval_id":"`+asked.Task.ID+`","outcome":"succeeded"}`).want(t, 200, "")
	h.as("checking", http.MethodPost, evaluation, presented, "Idempotency-Key", "run").want(t, 409, "already_reported")
}

// What people approve for one subject permits nothing for another, although the call is
// the same, and is not used up by it.
func TestApprovalIsForItsSubject(t *testing.T) {
	h := withAccess(t)
	d, _ := h.denied(refund(120))
	carols := strings.Replace(refund(120), "alice", "carol", 1)
	h.denied(carols)
	h.vote(d.Context.Approval.Approval, "approve")
	h.settle(d.Context.Approval.ID)
	approved := fmt.Sprintf(`{"id":%q}`, d.Context.Approval.ID)
	if got := h.evaluate(presenting(carols, approved)); got.Decision || got.Context.Reason != "approval_unverifiable" {
		t.Errorf("for carol: %+v", got)
	}
	if got := h.evaluate(presenting(refund(120), approved)); !got.Decision {
		t.Errorf("for alice: %+v", got)
	}
}

// An access request is bound to its denial.
func TestAccessRequestIsBound(t *testing.T) {
	h := withAccess(t)
	d, body := h.denied(refund(120))
	accepted := h.evaluate(accessOf(alice, `{"name":"read"}`, record1))
	for name, tc := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"another subject":    {strings.Replace(body, "alice", "bob", 1), 400, "invalid_denial_binding"},
		"another resource":   {strings.Replace(body, "4711", "4712", 1), 400, "invalid_denial_binding"},
		"another amount":     {strings.Replace(body, "120", "1", 1), 400, "invalid_denial_binding"},
		"an event of none":   {strings.Replace(body, d.Context.EvaluationID, accepted.Context.EvaluationID+"."+d.Context.Approval.ID, 1), 400, "invalid_denial_binding"},
		"no approval":        {strings.Replace(body, d.Context.EvaluationID, "x.apr_none", 1), 400, "invalid_denial_binding"},
		"of what is allowed": {strings.Replace(body, d.Context.EvaluationID, accepted.Context.EvaluationID, 1), 400, "not_requestable"},
		"no denial":          {refund(120), 400, "invalid_body"},
		"several":            {`{"items":[],` + body[1:], 400, "invalid_body"},
		"a callback":         {`{"callback":{"endpoint":"https://10.0.0.1/"},` + body[1:], 400, "invalid_body"},
		"an id of none":      {strings.Replace(body, `"evaluation_id":"`, `"evaluation_id":7,"x":"`, 1), 400, "invalid_body"},
		"no JSON":            {`{`, 400, "malformed_json"},
	} {
		var p api.Problem
		h.as("checking", http.MethodPost, requests, tc.body).want(t, tc.status, tc.code).into(t, &p)
		if kind := "urn:openid:authzen:access-request:error:" + tc.code; tc.code == "invalid_denial_binding" && p.Type != kind {
			t.Errorf("%s: the problem is a %s", name, p.Type)
		}
	}
	h.as("other", http.MethodPost, requests, body).want(t, 400, "invalid_denial_binding")

	// The same call for somebody else waits for itself; for alice it joins.
	carols := strings.Replace(refund(120), "alice", "carol", 1)
	own, theirs := h.denied(carols)
	if own.Context.Joined || own.Context.Approval.ID == d.Context.Approval.ID {
		t.Fatalf("got %+v", own)
	}
	if again, _ := h.denied(carols); !again.Context.Joined || again.Context.Approval.ID != own.Context.Approval.ID {
		t.Errorf("carol's again: %+v", again)
	}
	again, bodyAgain := h.denied(refund(120))
	if !again.Context.Joined || again.Context.Approval.ID != d.Context.Approval.ID {
		t.Errorf("alice's again: %+v", again)
	}
	for _, body := range []string{theirs, body, bodyAgain} {
		h.as("checking", http.MethodPost, requests, body).want(t, 202, "")
	}

	// However often it was evaluated before.
	h.exec(`INSERT INTO events (event_id, type, outcome, agent_id, tool_name, approval_id, body)
		SELECT gen_random_uuid(), type, outcome, agent_id, tool_name, approval_id, body FROM events, generate_series(1, 1000) WHERE event_id = '` + again.Context.EvaluationID[:36] + `'`)
	_, newest := h.denied(refund(120))
	h.as("checking", http.MethodPost, requests, newest).want(t, 202, "")

	path := requests + "/" + d.Context.Approval.ID
	var t1 api.AccessTask
	h.as("other", http.MethodPost, path+"/cancel", "").want(t, 404, "unknown_task")
	h.as("checking", http.MethodPost, path+"/cancel", `{"reason":"enough"}`).want(t, 200, "").into(t, &t1)
	h.settle(d.Context.Approval.ID)
	if got := h.task(d.Context.Approval.ID); got.Task.Status != "cancelled" || got.Result != nil || got.Task.Links.Cancel != "" {
		t.Errorf("cancelled: %+v", got)
	}
	h.as("checking", http.MethodPost, path+"/cancel", "").want(t, 409, "invalid_task_state")
	h.as("checking", http.MethodPost, requests, body).want(t, 201, "")
	if d := h.evaluate(presenting(refund(120), fmt.Sprintf(`{"id":%q}`, d.Context.Approval.ID))); d.Decision || d.Context.NextAction != "none" {
		t.Errorf("by a request that was taken back: %+v", d)
	}

	// After its time nothing is asked for.
	late, body := h.denied(refund(130))
	h.exec(`UPDATE approvals SET opened_at = opened_at - interval '2 hours', expires_at = expires_at - interval '2 hours' WHERE id = '` + late.Context.Approval.ID + `'`)
	h.as("checking", http.MethodPost, requests, body).want(t, 410, "expired_denial")
}
