package tests

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// TestWholeLoop is the promise of the README: a call is judged, a person
// approves it, the agent gets a signed token and redeems it once, and every
// step is in the audit log.
func TestWholeLoop(t *testing.T) {
	d := onShared(t)
	agent := d.agent(t)
	payment := map[string]any{
		"tool_name": "send_payment", "tool_category": "write", "authorization_state": "authenticated", "evidence_refs": []any{"invoice:42"},
		"risk_domain": "finance", "proposed_arguments": map[string]any{"amount": 120, "to": "DE02 1203"}, "recommended_route": "accept",
	}
	waiting := agent.submit(payment)
	if waiting.NextAction != "wait" || len(waiting.Requirements) != 1 || waiting.Requirements[0].Role != "finance-approver" || waiting.Requirements[0].Given != 0 ||
		len(waiting.Reasons) == 0 || waiting.Token != "" || waiting.Version != 1 || !waiting.ExpiresAt.After(waiting.OpenedAt) {
		t.Fatalf("the waiting approval: %+v", waiting)
	}
	if !strings.HasPrefix(waiting.Links.Review, d.URL+"/approvals/") || waiting.Links.Self != d.URL+approvalPath(waiting.ID) {
		t.Errorf("links: %+v", waiting.Links)
	}

	// The agent waits while the person decides.
	woken := make(chan answer, 1)
	go func() {
		woken <- agent.do("GET", approvalPath(waiting.ID)+"?wait=30", nil, header{"If-None-Match", `"r1"`})
	}()
	reviewer := d.reviewer(t, 0)
	seen := reviewer.get(waiting.ID)
	if seen.Digest != waiting.Digest || seen.Token != "" {
		t.Fatalf("the reviewer sees %+v", seen)
	}
	if voted := reviewer.vote(seen, "approve").want(t, 200).approval(t); voted.Requirements[0].Given != 1 {
		t.Errorf("after the vote: %+v", voted.Requirements)
	}
	first := <-woken
	first.want(t, 200)
	approved := agent.wait(waiting.ID)
	if approved.Status != "approved" || approved.Token == "" || approved.NextAction != "none" || approved.Execution != "none" || approved.EndedAt.IsZero() {
		t.Fatalf("after the vote: %+v", approved)
	}
	if reviewer.get(waiting.ID).Token != "" || d.admin(t).get(waiting.ID).Token != "" {
		t.Error("somebody else than its agent sees the token")
	}
	claims := verifyToken(t, d.URL, approved.Token)
	for name, want := range map[string]any{
		"iss": "urn:holdpoint:dev", "aud": "dev", "sub": "demo-agent", "approval_id": waiting.ID, "outcome": "APPROVED",
		"digest": waiting.Digest, "policy_digest": waiting.PolicyDigest,
	} {
		if claims[name] != want {
			t.Errorf("claim %s is %v, want %v", name, claims[name], want)
		}
	}
	if life := claims["exp"].(float64) - claims["iat"].(float64); life != 600 {
		t.Errorf("the token lives %v s, want 600", life)
	}
	if again := verifyToken(t, d.URL, agent.get(waiting.ID).Token); again["jti"] != claims["jti"] {
		t.Errorf("a fresh token has jti %v, want the same %v", again["jti"], claims["jti"])
	}

	agent.redeem(approved.Token, "send_payment", map[string]any{"amount": 121, "to": "DE02 1203"}).want(t, 403, "arguments_mismatch")
	agent.redeem(approved.Token, "send_payments", map[string]any{"amount": 120, "to": "DE02 1203"}).want(t, 403, "arguments_mismatch")
	agent.do("POST", "/v1/executions", map[string]any{"approval_id": waiting.ID, "outcome": "succeeded"}).want(t, 409, "not_redeemed")
	// The same arguments, written otherwise.
	other := []byte(`{"arguments": {"to":"DE02\u00201203", "amount":1.2e2}, "tool_name":"send_payment","token":"` + approved.Token + `"}`)
	var spent struct {
		Redeemed    bool            `json:"redeemed"`
		ApprovalID  string          `json:"approval_id"`
		Constraints json.RawMessage `json:"constraints"`
	}
	agent.do("POST", "/v1/tokens/redeem", other).want(t, 200).into(t, &spent)
	if !spent.Redeemed || spent.ApprovalID != waiting.ID || string(spent.Constraints) != "{}" {
		t.Errorf("redeemed: %+v", spent)
	}
	agent.do("POST", "/v1/tokens/redeem", other).want(t, 409, "token_used")
	if got := agent.get(waiting.ID); got.Token != "" || got.Execution != "redeemed" {
		t.Errorf("after redeeming: %+v", got)
	}
	report := map[string]any{"approval_id": waiting.ID, "outcome": "succeeded", "duration_ms": 12}
	if got := agent.do("POST", "/v1/executions", report).want(t, 200).approval(t); got.Execution != "succeeded" {
		t.Errorf("execution is %q", got.Execution)
	}
	agent.do("POST", "/v1/executions", report).want(t, 409, "already_reported")
	reviewer.vote(seen, "approve").want(t, 409, "already_approved")
	agent.cancel(waiting.ID).want(t, 409, "already_approved")

	want := []string{
		"decision STEP_UP high_risk_write_missing_explicit_confirmation", "vote STEP_UP VOTE_APPROVE", "settled APPROVED STEP_UP_PASSED",
		"redeem DENY arguments_mismatch", "redeem DENY arguments_mismatch", "execution DENY not_redeemed", "redeem ALLOW REDEEMED", "redeem DENY token_used",
		"execution ALLOW EXECUTION_SUCCEEDED", "execution DENY already_reported", "vote DENY already_approved", "cancel DENY already_approved",
	}
	if got := d.admin(t).story(waiting.ID); !slices.Equal(got, want) {
		t.Errorf("the audit log tells\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	d.logged(t)
	events := d.admin(t).events(url.Values{"approval_id": {waiting.ID}})
	for i, e := range events {
		if e.Timestamp.IsZero() || e.AgentID != "demo-agent" || e.ToolName != "send_payment" || e.DigestHMAC == "" || e.DigestHMAC != events[0].DigestHMAC ||
			i > 0 && e.Seq <= events[i-1].Seq {
			t.Errorf("event %d: %+v", i, e)
		}
	}
}

// TestDecidedAtOnce: what does not wait is answered 200 and is on record.
func TestDecidedAtOnce(t *testing.T) {
	d := onShared(t)
	for _, c := range []struct {
		path, route, outcome string
		passes               bool
	}{
		{checkPath, "accept", "ALLOW", true}, {"/pre-tool-check", "accept", "ALLOW", true}, {checkPath, "refuse", "DENY", false},
	} {
		id := newID("once-")
		e := event("search_docs", c.route, map[string]any{"query": "x"})
		e["request_id"] = id
		a := d.agent(t).do("POST", c.path, e).want(t, 200)
		var got struct {
			Gate   string `json:"gate_decision"`
			Action string `json:"recommended_action"`
			Rest   any    `json:"approval"`
		}
		a.into(t, &got)
		if (got.Gate == "pass") != c.passes || (got.Action == "accept") != c.passes || got.Rest != nil {
			t.Errorf("%s %s: %s", c.path, c.route, a)
		}
		events := slices.DeleteFunc(d.admin(t).events(url.Values{"tool_name": {"search_docs"}, "outcome": {c.outcome}}), func(e auditEvent) bool { return e.RequestID != id })
		if len(events) != 1 || events[0].Type != "decision" || events[0].ApprovalID != "" {
			t.Errorf("%s %s: events %+v", c.path, c.route, events)
		}
	}
}

// TestRuntimeAnswers: what asks is answered by a runtime on its user's behalf,
// never by the agent itself.
func TestRuntimeAnswers(t *testing.T) {
	d := onShared(t)
	agent, runtime := d.agent(t), d.runtime(t)
	for _, c := range []struct {
		confirmed bool
		status    string
	}{{true, "approved"}, {false, "denied"}} {
		a := agent.submit(event("search_docs", "ask", map[string]any{"q": 1}))
		body := map[string]any{"confirmed": c.confirmed}
		agent.do("POST", approvalPath(a.ID)+"/answers", body).want(t, 403, "agent_cannot_confirm")
		if next := runtime.get(a.ID).NextAction; next != "answer" {
			t.Errorf("next_action for the runtime is %q", next)
		}
		runtime.do("POST", approvalPath(a.ID)+"/answers", body).want(t, 200)
		if got := agent.wait(a.ID); got.Status != c.status {
			t.Errorf("confirmed %v: %+v", c.confirmed, got)
		}
	}
	held := agent.hold("hold_me", nil)
	runtime.do("POST", approvalPath(held.ID)+"/answers", map[string]any{"confirmed": true}).want(t, 409, "nothing_to_answer")
	agent.cancel(held.ID).want(t, 200)
	if got := agent.wait(held.ID); got.Status != "cancelled" {
		t.Errorf("cancelled: %+v", got)
	}
}

// TestDenialTellsTheAgent: a denial says its kind, whether to try again, and
// what the reviewer wrote.
func TestDenialTellsTheAgent(t *testing.T) {
	d := onShared(t)
	for kind, retryable := range map[string]bool{"wrong_args": true, "not_now": true, "needs_info": true, "never": false} {
		a := d.agent(t).hold("deny_me", map[string]any{"kind": kind})
		b := ballot(a, "deny")
		b["kind"], b["comment"] = kind, "because of "+kind
		d.reviewer(t, 1).do("POST", approvalPath(a.ID)+"/votes", b).want(t, 200)
		got := d.agent(t).wait(a.ID)
		if got.Status != "denied" || got.Denial == nil || got.Denial.Kind != kind || got.Denial.Retryable != retryable ||
			got.Denial.Comment != "because of "+kind || (got.Denial.RetryAfter > 0) != (kind == "not_now") || got.Token != "" {
			t.Errorf("%s: %+v, %+v", kind, got, got.Denial)
		}
	}
}

// TestDeadlinePasses: nobody decides, and the call times out: not early, and
// soon afterwards.
func TestDeadlinePasses(t *testing.T) {
	d := onShared(t)
	a := d.agent(t).hold("brief_call", nil)
	got := d.agent(t).wait(a.ID)
	if got.Status != "expired" || got.EndedAt.Before(a.ExpiresAt) || got.EndedAt.Sub(a.ExpiresAt) > healWithin {
		t.Fatalf("deadline %s: %+v", a.ExpiresAt, got)
	}
	d.reviewer(t, 0).vote(a, "approve").want(t, 410, "expired")
	d.agent(t).cancel(a.ID).want(t, 410, "expired")
	if story := d.admin(t).story(a.ID); !slices.Contains(story, "settled TIMEOUT TIMEOUT") {
		t.Errorf("story: %q", story)
	}
}

// TestSomebodyElsesApprovalIsMissing: an approval of another agent is answered
// exactly as one that does not exist, at every door.
func TestSomebodyElsesApprovalIsMissing(t *testing.T) {
	d := onShared(t)
	stranger := d.client(t).with(d.newKey(t, "--agent", newID("stranger-")))
	mine := d.agent(t).hold("hidden_call", nil)
	missing := "apr_" + strings.Repeat("a", 26)
	strip := func(a answer) string { return a.String() }
	for _, door := range []struct {
		method, path string
		body         any
	}{
		{"GET", "", nil}, {"GET", "?wait=20", nil}, {"GET", "/events", nil}, {"POST", "/cancel", nil}, {"POST", "/answers", map[string]any{"confirmed": true}},
	} {
		other := stranger.do(door.method, approvalPath(mine.ID)+door.path, door.body).want(t, 404, "not_found")
		none := stranger.do(door.method, approvalPath(missing)+door.path, door.body).want(t, 404, "not_found")
		if strip(other) != strip(none) {
			t.Errorf("%s %s: another's %s, a missing one's %s", door.method, door.path, other, none)
		}
	}
	report := func(id string) answer {
		return stranger.do("POST", "/v1/executions", map[string]any{"approval_id": id, "outcome": "succeeded"}).want(t, 404, "not_found")
	}
	if other, none := report(mine.ID), report(missing); other.String() != none.String() {
		t.Errorf("executions: another's %s, a missing one's %s", other, none)
	}
	d.reviewer(t, 0).approve(mine)
	approved := d.agent(t).wait(mine.ID)
	stranger.redeem(approved.Token, "hidden_call", map[string]any{}).want(t, 404)
	if got := d.agent(t).get(mine.ID); got.Execution != "none" || got.Token == "" {
		t.Errorf("after a stranger's attempts: %+v", got)
	}
	d.agent(t).redeem(approved.Token, "hidden_call", nil).want(t, 403, "arguments_mismatch")
	d.agent(t).redeem(approved.Token, "hidden_call", map[string]any{}).want(t, 200)
}

// TestEventStream: server-sent events tell every change and end with the last.
func TestEventStream(t *testing.T) {
	d := onShared(t)
	agent := d.agent(t)
	a := agent.hold("pair_stream", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", a.Links.Events, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.AgentKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("%d %s", res.StatusCode, kind)
	}
	var given []int
	last := approval{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(data), &last); err != nil {
			t.Fatal(err)
		}
		given = append(given, last.Requirements[0].Given)
		switch {
		case last.Status == "pending" && len(given) == 1:
			d.reviewer(t, 0).approve(a)
		case last.Status == "pending" && last.Requirements[0].Given == 1:
			if got := d.reviewer(t, 1).vote(a, "deny"); got.Status != 200 && got.Status != 409 {
				t.Error(got)
			}
		}
	}
	if lines.Err() != nil || last.Status != "denied" || !slices.IsSorted(given) || !slices.Contains(given, 1) {
		t.Errorf("%v: the stream ended with %+v after given %v", lines.Err(), last, given)
	}
}

// newKey makes an API key by the real command.
func (in *installation) newKey(t testing.TB, args ...string) string {
	t.Helper()
	out := must(t, []string{"HOLDPOINT_DATABASE_ADMIN_URL=" + in.OwnerURL}, "", append([]string{"key", "create"}, args...)...)
	_, key, ok := strings.Cut(out, "key (shown only now): ")
	if !ok {
		t.Fatalf("key create says %q", out)
	}
	return strings.TrimSpace(key)
}

// verifyToken checks a token as anybody can who has only the published keys,
// and returns its claims.
func verifyToken(t testing.TB, issuer, token string) map[string]any {
	t.Helper()
	res, err := http.Get(issuer + "/.well-known/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(res.Body).Decode(&set); err != nil {
		t.Fatal(err)
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		t.Fatal(err)
	}
	head := signed.Signatures[0].Protected
	if typ := head.ExtraHeaders[jose.HeaderType]; typ != "holdpoint-resumption+jwt" {
		t.Errorf("typ is %v", typ)
	}
	keys := set.Key(head.KeyID)
	if len(keys) != 1 || !keys[0].IsPublic() || keys[0].Algorithm != "EdDSA" {
		t.Fatalf("keys of kid %q: %+v", head.KeyID, keys)
	}
	payload, err := signed.Verify(keys[0])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}
