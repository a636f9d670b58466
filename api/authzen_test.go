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
	"holdpoint/engine/approval"
	"holdpoint/engine/policy"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

const (
	evaluation  = "/access/v1/evaluation"
	evaluations = "/access/v1/evaluations"
)

// accessPolicy has the fixture of AuthZEN's certification, as far as it is not about
// who asks, and a call that waits for people.
const accessPolicy = `
version: "1"
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2036-01-01T00:00:00Z"
rules:
  - {id: read, description: Reading., match: {tool_name: read, environment: "*"}, outcome: ALLOW, constraints: {max_rows: 10}}
  - {id: archive, description: What is archived stays as it is., match: {tool_name: write, environment: "*"}, when: {tool_args_match: {status: archived}}, outcome: DENY}
  - {id: write, description: Writing., match: {tool_name: write, environment: "*"}, outcome: ALLOW}
  - {id: soft, description: What can be undone., match: {tool_name: delete, environment: "*"}, when: {tool_args_match: {soft: true, resource_type: record}}, outcome: ALLOW}
  - {id: pay, description: Payments., match: {tool_name: pay, environment: "*"}, outcome: REQUIRE_APPROVAL}
defaults: {outcome: DENY}
`

// withAccess is a harness with agents that judges by accessPolicy.
func withAccess(t testing.TB) *harness {
	t.Helper()
	h := withAgents(t)
	b, problems := policy.Load([]byte(accessPolicy), policy.Options{})
	if b == nil {
		t.Fatal(problems)
	}
	known, err := h.Store.Registry.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	judge, err := gate.NewJudge(gate.Rules{
		Environment: "test", Policy: b, Registry: known, Routing: approval.Routing{Default: approval.Rule{Role: "reviewer", Needed: 1, ExpiresIn: engine.Duration(time.Hour)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.judge.Store(judge)
	h.settler.Rules = fixedRules{judge}
	return h
}

// access is the body of an evaluation request.
func accessOf(subject, action, resource string) string {
	return fmt.Sprintf(`{"subject":%s,"action":%s,"resource":%s}`, subject, action, resource)
}

const (
	alice   = `{"type":"user","id":"alice"}`
	record1 = `{"type":"record","id":"record-1"}`
)

// evaluate asks for one decision.
func (h *harness) evaluate(body string, headers ...string) api.AccessDecision {
	h.t.Helper()
	var d api.AccessDecision
	h.as("checking", http.MethodPost, evaluation, body, headers...).want(h.t, 200, "").into(h.t, &d)
	return d
}

func (h *harness) evaluateAll(body string, headers ...string) []api.AccessDecision {
	h.t.Helper()
	var d api.AccessDecisions
	h.as("checking", http.MethodPost, evaluations, body, headers...).want(h.t, 200, "").into(h.t, &d)
	return d.Evaluations
}

// A decision is true for what the rules accept, and false for everything else; each has
// its event.
func TestEvaluationDecides(t *testing.T) {
	h := withAccess(t)
	for name, tc := range map[string]struct {
		body   string
		want   bool
		reason string
	}{
		"permitted":                  {accessOf(alice, `{"name":"read"}`, record1), true, "read"},
		"with a context":             {`{"context":{"time":"2025-06-27T18:03-07:00"},` + accessOf(alice, `{"name":"read"}`, record1)[1:], true, "read"},
		"with fields of the future":  {`{"foo":"bar","futureField":{"nested":true},` + accessOf(alice, `{"name":"read"}`, record1)[1:], true, "read"},
		"with further properties":    {accessOf(`{"type":"user","id":"alice","properties":{"role":"manager"}}`, `{"name":"read","properties":{"method":"GET"}}`, `{"type":"record","id":"record-1","properties":{"status":"active"}}`), true, "read"},
		"by the resource's property": {accessOf(alice, `{"name":"write"}`, `{"type":"record","id":"record-2","properties":{"status":"archived"}}`), false, "archive"},
		"another resource":           {accessOf(alice, `{"name":"write"}`, `{"type":"record","id":"record-2","properties":{"status":"active"}}`), true, "write"},
		"by the action's property":   {accessOf(alice, `{"name":"delete","properties":{"soft":true}}`, record1), true, "soft"},
		"the other way round":        {accessOf(alice, `{"name":"delete","properties":{"soft":false}}`, record1), false, "DEFAULT_DENY"},
		"nobody knows it":            {accessOf(alice, `{"name":"can_read_todos"}`, `{"type":"todo","id":"1"}`), false, "DEFAULT_DENY"},
		"the agent itself":           {accessOf(`{"type":"agent","id":"bot"}`, `{"name":"read"}`, record1), true, "read"},
		"another agent":              {accessOf(`{"type":"agent","id":"other-bot"}`, `{"name":"read"}`, record1), false, "SUBJECT_IS_ANOTHER_AGENT"},
		"another agent, in capitals": {accessOf(`{"type":"Agent","id":"other-bot"}`, `{"name":"read"}`, record1), false, "SUBJECT_IS_ANOTHER_AGENT"},
	} {
		t.Run(name, func(t *testing.T) {
			d := h.evaluate(tc.body)
			if d.Decision != tc.want || d.Context.Reason != tc.reason || d.Context.Approval != nil {
				t.Fatalf("got %+v", d)
			}
			if (len(d.Context.Constraints) > 0) != (tc.reason == "read") {
				t.Errorf("constraints %s", d.Context.Constraints)
			}
			if n := h.count(`SELECT count(*) FROM events WHERE event_id = '` + d.Context.EvaluationID + `'`); n != 1 {
				t.Errorf("%d events of %s", n, d.Context.EvaluationID)
			}
		})
	}
}

// What waits is not permitted: the decision is false, and says what it waits for.
func TestEvaluationWaits(t *testing.T) {
	h := withAccess(t)
	body := accessOf(`{"type":"user","id":"ada@example.com"}`, `{"name":"pay","properties":{"amount":120}}`, `{"type":"order","id":"4711"}`)
	d := h.evaluate(body)
	if d.Decision || d.Context.Outcome != engine.RequireApproval || d.Context.Approval == nil || d.Context.Approval.Status != approval.Pending || d.Context.Approval.Links.Review == "" {
		t.Fatalf("got %+v", d)
	}
	again := h.evaluate(body)
	if again.Decision || !again.Context.Joined || again.Context.Approval.ID != d.Context.Approval.ID || again.Context.EvaluationID == d.Context.EvaluationID {
		t.Errorf("again: %+v", again)
	}
	other := h.evaluate(strings.Replace(body, "ada@", "eve@", 1))
	if other.Context.Approval.ID == d.Context.Approval.ID && h.count(`SELECT count(*) FROM people WHERE email = 'ada@example.com'`) > 0 {
		t.Errorf("for another person: %+v", other)
	}

	// It is approved by the console, and redeemed as any other approval.
	a := d.Context.Approval.Approval
	h.vote(a, "approve")
	h.settle(a.ID)
	var own api.Approval
	h.as("checking", http.MethodGet, "/v1/approvals/"+a.ID, "").want(t, 200, "").into(t, &own)
	spend := `{"token":"` + own.Token + `","tool_name":"pay","arguments":{"amount":120,"resource_type":"order","resource_id":"%s"}}`
	h.as("checking", http.MethodPost, "/v1/tokens/redeem", fmt.Sprintf(spend, "4712")).want(t, 403, "arguments_mismatch")
	h.as("checking", http.MethodPost, "/v1/tokens/redeem", fmt.Sprintf(spend, "4711")).want(t, 200, "")
}

// What cannot be read is a bad request that names the place, and never a 500.
func TestEvaluationOfBadBodies(t *testing.T) {
	h := withAccess(t)
	read, deep := `{"name":"read"}`, strings.Repeat(`{"a":`, 200)+`1`+strings.Repeat(`}`, 200)
	long := `"` + strings.Repeat("x", 2000) + `"`
	for name, tc := range map[string]struct{ body, code, path string }{
		"no subject":         {`{"action":` + read + `,"resource":` + record1 + `}`, "invalid_body", "/subject"},
		"no action":          {`{"subject":` + alice + `,"resource":` + record1 + `}`, "invalid_body", "/action"},
		"no resource":        {`{"subject":` + alice + `,"action":` + read + `}`, "invalid_body", "/resource"},
		"no subject type":    {accessOf(`{"id":"alice"}`, read, record1), "invalid_body", "/subject/type"},
		"no subject id":      {accessOf(`{"type":"user"}`, read, record1), "invalid_body", "/subject/id"},
		"no name":            {accessOf(alice, `{}`, record1), "invalid_body", "/action/name"},
		"no resource id":     {accessOf(alice, read, `{"type":"record"}`), "invalid_body", "/resource/id"},
		"no resource type":   {accessOf(alice, read, `{"id":"1"}`), "invalid_body", "/resource/type"},
		"an empty id":        {accessOf(alice, read, `{"type":"record","id":""}`), "invalid_body", "/resource/id"},
		"a text":             {accessOf(`"alice"`, read, record1), "invalid_body", "/subject"},
		"null":               {accessOf(`null`, read, record1), "invalid_body", "/subject"},
		"a number":           {accessOf(alice, `{"name":123}`, record1), "invalid_body", "/action/name"},
		"properties":         {accessOf(alice, `{"name":"read","properties":[]}`, record1), "invalid_body", "/action/properties"},
		"no properties":      {accessOf(alice, `{"name":"read","properties":null}`, record1), "invalid_body", "/action/properties"},
		"a context":          {`{"context":"x",` + accessOf(alice, read, record1)[1:], "invalid_body", "/context"},
		"in both":            {accessOf(alice, `{"name":"read","properties":{"a":1}}`, `{"type":"record","id":"1","properties":{"a":2}}`), "invalid_body", "/resource/properties"},
		"in both but case":   {accessOf(alice, `{"name":"read","properties":{"a":1}}`, `{"type":"record","id":"1","properties":{"A":2}}`), "invalid_body", "/resource/properties"},
		"another id":         {accessOf(alice, `{"name":"read","properties":{"resource_id":"2"}}`, record1), "invalid_body", "/resource/properties"},
		"a long subject":     {accessOf(`{"type":"user","id":`+long+`}`, read, record1), "invalid_body", "/subject/id"},
		"a long tool":        {accessOf(alice, `{"name":`+long+`}`, record1), "field_too_long", ""},
		"an array":           {`[]`, "invalid_body", ""},
		"nothing":            {``, "malformed_json", ""},
		"no JSON":            {`{"subject":`, "malformed_json", ""},
		"a name twice":       {accessOf(`{"type":"user","id":"alice","id":"bob"}`, read, record1), "malformed_json", "/subject/id"},
		"too deep":           {accessOf(alice, `{"name":"read","properties":`+deep+`}`, record1), "malformed_json", ""},
		"an id of two":       {accessOf(alice, read, `{"type":"record","id":["1","2"]}`), "invalid_body", "/resource/id"},
		"evaluations inside": {`{"evaluations":{}}`, "invalid_body", "/subject"},
	} {
		t.Run(name, func(t *testing.T) {
			var p api.Problem
			h.as("checking", http.MethodPost, evaluation, tc.body).want(t, 400, tc.code).into(t, &p)
			if tc.path != "" && (len(p.Errors) == 0 || p.Errors[0].Path != tc.path) {
				t.Errorf("it is at %+v, want %s", p.Errors, tc.path)
			}
		})
	}
	h.send(http.MethodPost, evaluation, accessOf(alice, read, record1), "Authorization", "Bearer checking", "Content-Type", "text/plain").want(t, 400, "content_type")
	h.send(http.MethodPost, evaluation, accessOf(alice, read, record1), "Content-Type", "application/json").want(t, 401, "unauthenticated")
	huge := accessOf(alice, `{"name":"read","properties":{"a":"`+strings.Repeat("x", 3<<20)+`"}}`, record1)
	h.as("checking", http.MethodPost, evaluation, huge).want(t, 413, "too_large")
}

// Several evaluations take what they leave out from the top, as a whole, and are
// answered in their order; what is wrong with one of them is its own.
func TestEvaluations(t *testing.T) {
	h := withAccess(t)
	archived := `{"type":"record","id":"record-2","properties":{"status":"archived"}}`
	top := `{"subject":` + alice + `,"action":{"name":"write"},"resource":{"type":"record","id":"record-1","properties":{"status":"active"}},%s"evaluations":[%s]}`
	for name, tc := range map[string]struct {
		options, items string
		want           string
	}{
		"defaults":               {"", `{},{"resource":` + archived + `}`, "true false"},
		"each its own":           {"", `{"action":{"name":"read"},"subject":{"type":"user","id":"bob"},"resource":` + record1 + `}`, "true"},
		"an entity as a whole":   {"", `{"resource":{"id":"record-2"}}`, "invalid_body"},
		"one is wrong":           {"", `{},7,{"subject":[]},{}`, "true invalid_body invalid_body true"},
		"a strange letter":       {"", `{"Subject":{"type":"agent","id":"x"}}`, "true"},
		"execute_all":            {`"options":{"evaluations_semantic":"execute_all","another":1},`, `{"resource":` + archived + `},{}`, "false true"},
		"deny_on_first_deny":     {`"options":{"evaluations_semantic":"deny_on_first_deny"},`, `{},{"resource":` + archived + `},{}`, "true false"},
		"an error denies":        {`"options":{"evaluations_semantic":"deny_on_first_deny"},`, `{"action":{}},{}`, "invalid_body"},
		"permit_on_first_permit": {`"options":{"evaluations_semantic":"permit_on_first_permit"},`, `{"resource":` + archived + `},{},{}`, "false true"},
		"waiting denies":         {`"options":{"evaluations_semantic":"deny_on_first_deny"},`, `{"action":{"name":"pay"}},{}`, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			before := h.count(`SELECT count(*) FROM events`)
			got := h.evaluateAll(fmt.Sprintf(top, tc.options, tc.items))
			var words []string
			for _, d := range got {
				word := fmt.Sprint(d.Decision)
				if d.Context.Error != nil {
					word = d.Context.Error.Code
				}
				words = append(words, word)
			}
			if strings.Join(words, " ") != tc.want {
				t.Errorf("got %v, want %s", words, tc.want)
			}
			if n := h.count(`SELECT count(*) FROM events`) - before; n != int64(len(got)) {
				t.Errorf("%d events of %d evaluations", n, len(got))
			}
		})
	}

	// Without any it is one evaluation, in the form of one.
	for _, body := range []string{fmt.Sprintf(top, "", ""), accessOf(alice, `{"name":"read"}`, record1)} {
		var one map[string]any
		h.as("checking", http.MethodPost, evaluations, body).want(t, 200, "").into(t, &one)
		if one["decision"] != true || one["evaluations"] != nil {
			t.Errorf("got %v", one)
		}
	}
	for body, path := range map[string]string{
		fmt.Sprintf(top, `"options":{"evaluations_semantic":"any"},`, `{}`): "/options/evaluations_semantic",
		fmt.Sprintf(top, `"options":{"evaluations_semantic":null},`, `{}`):  "/options/evaluations_semantic",
		fmt.Sprintf(top, `"options":[],`, `{}`):                             "/options",
		fmt.Sprintf(top, "", strings.Repeat(`{},`, 50)+`{}`):                "/evaluations",
		`{"evaluations":{}}`:                     "/evaluations",
		`{"subject":"alice","evaluations":[{}]}`: "/subject",
		`{"evaluations":[]}`:                     "/subject",
		`{"context":[],"evaluations":[` + accessOf(alice, `{"name":"read"}`, record1) + `]}`: "/context",
	} {
		var p api.Problem
		h.as("checking", http.MethodPost, evaluations, body).want(t, 400, "invalid_body").into(t, &p)
		if p.Errors[0].Path != path {
			t.Errorf("%.80s: it is at %+v, want %s", body, p.Errors, path)
		}
	}
	if got := h.evaluateAll(fmt.Sprintf(top, "", strings.Repeat(`{},`, 49)+`{}`)); len(got) != 50 {
		t.Errorf("%d decisions", len(got))
	}
}

// A repetition is answered alike, and goes on where the first one was cut off.
func TestEvaluationsAreRepeated(t *testing.T) {
	h := withAccess(t)
	two := `{"subject":` + alice + `,"resource":` + record1 + `,"evaluations":[{"action":{"name":"pay","properties":{"amount":1}}},{"action":{"name":"read"}}]}`
	first := h.evaluateAll(two, "Idempotency-Key", "k1")
	// As if the answer to the second one had never been kept.
	h.exec(`DELETE FROM idempotency WHERE key = 'k1 1'`)
	again := h.evaluateAll(two, "Idempotency-Key", "k1")
	if len(again) != 2 || again[0].Context.EvaluationID != first[0].Context.EvaluationID || again[0].Context.Joined || again[1].Context.EvaluationID == first[1].Context.EvaluationID || !again[1].Decision {
		t.Errorf("first %+v\nagain %+v", first, again)
	}
	h.as("checking", http.MethodPost, evaluations, strings.Replace(two, `"amount":1`, `"amount":2`, 1), "Idempotency-Key", "k1").want(t, 422, "idempotency_key_reused")
	one := accessOf(alice, `{"name":"read"}`, record1)
	if a, b := h.evaluate(one, "Idempotency-Key", "k2"), h.evaluate(one, "Idempotency-Key", "k2"); a.Context.EvaluationID != b.Context.EvaluationID {
		t.Errorf("%+v, then %+v", a, b)
	}
}

// A kill switch stops every evaluation of its agent, and former answers too.
func TestEvaluationsStopAtAKillSwitch(t *testing.T) {
	h := withAccess(t)
	body := accessOf(alice, `{"name":"read"}`, record1)
	if d := h.evaluate(body, "Idempotency-Key", "k"); !d.Decision {
		t.Fatalf("got %+v", d)
	}
	by := access.Initiator{Actor: engine.Actor{Kind: engine.SystemActor, ID: "test", Channel: "cli"}}
	if err := h.Registry.ThrowKillSwitch(t.Context(), by, "bot", "it went mad", nil); err != nil {
		t.Fatal(err)
	}
	if d := h.evaluate(body); d.Decision || d.Context.Outcome != engine.KillSwitch {
		t.Errorf("got %+v", d)
	}
	h.as("checking", http.MethodPost, evaluation, body, "Idempotency-Key", "k").want(t, 423, "kill_switch")
	for i, d := range h.evaluateAll(`{"evaluations":[` + body + `,` + body + `]}`) {
		if d.Decision {
			t.Errorf("%d: %+v", i, d)
		}
	}
}

// The caller's own id of a request comes back, whatever it looks like, with a refusal too.
func TestEvaluationEchoesTheRequestID(t *testing.T) {
	h := withAccess(t)
	body := accessOf(alice, `{"name":"read"}`, record1)
	for _, id := range []string{"bfe9eb29-ab87-4ca3-be83-a1d5d8305716", "a b/c;d"} {
		for _, key := range []string{"checking", "nobody's"} {
			if got := h.as(key, http.MethodPost, evaluation, body, "X-Request-ID", id).Header.Values("X-Request-Id"); len(got) != 1 || got[0] != id {
				t.Errorf("%s: got %q, want %q", key, got, id)
			}
		}
	}
}

func TestAccessConfiguration(t *testing.T) {
	h := newHarness(t)
	var got map[string]any
	h.get("/.well-known/authzen-configuration").want(t, 200, "").into(t, &got)
	if text, _ := json.Marshal(got); string(text) != `{"access_evaluation_endpoint":"https://holdpoint.example.com/access/v1/evaluation","access_evaluations_endpoint":"https://holdpoint.example.com/access/v1/evaluations","access_request_endpoint":"https://holdpoint.example.com/access/v1/requests","capabilities":["urn:openid:authzen:capability:access-request"],"policy_decision_point":"https://holdpoint.example.com"}` {
		t.Errorf("got %s", text)
	}
}
