package tests

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// stored counts what is in the tables that a request could add to, and the
// events by type and outcome.
func stored(t testing.TB, d *dev) (rows, events map[string]int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, events = map[string]int{}, map[string]int{}
	for _, table := range []string{"approvals", "facts", "tokens", "outbox", "idempotency", "card_views", "sessions"} {
		var n int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		rows[table] = n
	}
	result, err := conn.Query(t.Context(), `SELECT type || ' ' || outcome, count(*) FROM events GROUP BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var n int
	if _, err := pgx.ForEachRow(result, []any{&name, &n}, func() error { events[name] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	return rows, events
}

// onlyRefusals runs fn and fails unless all that it left behind are events of
// refusals.
func onlyRefusals(t *testing.T, d *dev, fn func()) {
	t.Helper()
	eventually(t, settleWithin, "what came before is told to Temporal", func() bool { rows, _ := stored(t, d); return rows["outbox"] == 0 })
	rows, events := stored(t, d)
	fn()
	rowsAfter, eventsAfter := stored(t, d)
	if !maps.Equal(rows, rowsAfter) {
		t.Errorf("rows before %v, after %v", rows, rowsAfter)
	}
	refused := 0
	for name, n := range eventsAfter {
		refused += n - events[name]
		if n != events[name] && !strings.HasSuffix(name, " DENY") {
			t.Errorf("%d events %q were added", n-events[name], name)
		}
	}
	if refused == 0 {
		t.Error("no refusal was put on record")
	}
}

// doors are the addresses that take a body, with one that they would take.
func doors(d *dev, a approval) []struct{ path, body string } {
	return []struct{ path, body string }{
		{checkPath, `{"tool_name":"x","tool_category":"public_read","authorization_state":"none","evidence_refs":[],"risk_domain":"research","proposed_arguments":{},"recommended_route":"defer"}`},
		{"/pre-tool-check", `{"tool_name":"x","tool_category":"public_read","authorization_state":"none","evidence_refs":[],"risk_domain":"research","proposed_arguments":{},"recommended_route":"defer"}`},
		{approvalPath(a.ID) + "/answers", `{"confirmed":true}`},
		{approvalPath(a.ID) + "/cancel", `{}`},
		{approvalPath(a.ID) + "/votes", fmt.Sprintf(`{"decision":"approve","digest":%q,"version":1}`, a.Digest)},
		{"/v1/tokens/redeem", `{"token":"a.b.c","tool_name":"x","arguments":{}}`},
		{"/v1/executions", fmt.Sprintf(`{"approval_id":%q,"outcome":"succeeded"}`, a.ID)},
	}
}

// TestBadBodies: what has not exactly one reading is refused at every door with
// the right 4xx and a clear problem, and leaves nothing but the refusal.
func TestBadBodies(t *testing.T) {
	d := onShared(t)
	a := d.agent(t).hold("pair_bad", nil)
	reviewer := d.reviewer(t, 1)
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	// with puts a member in front of a body's own.
	with := func(member string) func(string) []byte {
		return func(body string) []byte {
			return []byte("{" + member + map[bool]string{true: "", false: ","}[body == "{}"] + body[1:])
		}
	}
	as := func(text string) func(string) []byte { return func(string) []byte { return []byte(text) } }
	type bad struct {
		name    string
		body    func(good string) []byte
		headers []header
		status  int
		code    string
	}
	var cases []bad
	malformed := map[string]func(string) []byte{
		"nothing": as(""), "white space": as("  \n"), "cut off": as(`{"a":`), "two values": func(b string) []byte { return []byte(b + b) }, "a comment": as(`{"a":1}//`),
		"single quotes": as(`{'a':1}`), "trailing comma": as(`{"a":1,}`), "a byte order mark": func(b string) []byte { return []byte("\ufeff" + b) },
		"UTF-16": as("{\x00}\x00"), "invalid UTF-8": with(`"x":"` + "\xff\xfe" + `"`), "overlong UTF-8": with(`"x":"` + "\xc0\xaf" + `"`),
		"a key twice": with(`"x":1,"x":1`), "an escaped key twice": with(`"x":1,"\u0078":2`), "a nested key twice": with(`"x":{"y":[{"z":1,"z":2}]}`),
		"NUL": with(`"x":"a\u0000b"`), "NUL in a key": with(`"a\u0000b":1`), "a raw control character": with("\"x\":\"a\nb\""),
		"a lone surrogate": with(`"x":"\ud800"`), "a lone low surrogate": with(`"x":"\udc00x"`), "surrogates the wrong way round": with(`"x":"\udc00\ud800"`),
		"2^53+1": with(`"x":9007199254740993`), "1e400": with(`"x":1e400`), "1e-400": with(`"x":1e-400`), "NaN": with(`"x":NaN`), "Infinity": with(`"x":-Infinity`),
		"a leading zero": with(`"x":01`), "a plus": with(`"x":+1`), "a bare point": with(`"x":1.`), "hex": with(`"x":0x10`),
		"more digits than a number keeps": with(`"x":0.1000000000000000055511151231257827021181583404541015625`),
		"depth 65":                        with(`"x":` + deep(65)), "depth 100,000": as(strings.Repeat("[", 100_000)),
	}
	for name, body := range malformed {
		cases = append(cases, bad{name, body, nil, 400, "malformed_json"})
	}
	good := func(b string) []byte { return []byte(b) }
	cases = append(cases,
		bad{"more than 1 MiB", with(`"x":"` + strings.Repeat("x", 1<<20) + `"`), nil, 413, "too_large"},
		bad{"gzip", good, []header{{"Content-Encoding", "gzip"}}, 415, "content_encoding"},
		bad{"two encodings", good, []header{{"Content-Encoding", "identity, gzip"}}, 415, "content_encoding"},
		bad{"text", good, []header{{"Content-Type", "text/plain"}}, 415, "content_type"},
		bad{"a form", good, []header{{"Content-Type", "application/x-www-form-urlencoded"}}, 415, "content_type"},
		bad{"no type", good, []header{{"Content-Type", ""}}, 415, "content_type"},
		bad{"Latin-1", good, []header{{"Content-Type", "application/json; charset=iso-8859-1"}}, 415, "content_type"},
		bad{"a list", as(`[]`), nil, 422, "invalid_body"}, bad{"a string", as(`"x"`), nil, 422, "invalid_body"}, bad{"null", as(`null`), nil, 422, "invalid_body"},
		bad{"an unknown field", with(`"unknown":1`), nil, 422, "invalid_body"},
		bad{"a field in capitals", func(b string) []byte {
			i := strings.Index(b, `"`)
			if i < 0 {
				return []byte(`{"Confirmed":true}`)
			}
			return []byte(b[:i+1] + strings.ToUpper(b[i+1:i+2]) + b[i+2:])
		}, nil, 422, "invalid_body"},
		bad{"two Idempotency-Keys in one", good, []header{{"Idempotency-Key", "a b"}}, 400, "idempotency_key"},
		bad{"a long Idempotency-Key", good, []header{{"Idempotency-Key", strings.Repeat("k", 256)}}, 400, "idempotency_key"},
	)
	onlyRefusals(t, d, func() {
		for _, door := range doors(d, a) {
			c := d.agent(t)
			switch {
			case strings.HasSuffix(door.path, "/votes"):
				c = reviewer
			case strings.HasSuffix(door.path, "/answers"):
				c = d.runtime(t)
			}
			for _, b := range cases {
				if strings.HasSuffix(door.path, "/cancel") && (b.name == "nothing" || b.name == "no type") {
					continue // its body may be left out
				}
				got := c.do("POST", door.path, b.body(door.body), b.headers...)
				if strings.HasSuffix(door.path, "pre-tool-check") && b.code == "invalid_body" {
					// The contract's own answer to what has not its structure: a refusal, not an error.
					if got.Status != 200 || !bytes.Contains(got.Body, []byte(`"gate_decision":"fail"`)) || !bytes.Contains(got.Body, []byte("schema_validation_failed")) {
						t.Errorf("%s: %s: %s", door.path, b.name, got)
					}
					continue
				}
				if got.Status != b.status || got.code() != b.code {
					t.Errorf("%s: %s: got %s, want %d %s", door.path, b.name, got, b.status, b.code)
				}
			}
		}
	})
	if got := d.agent(t).get(a.ID); got.Status != "pending" || got.Requirements[0].Given != 0 {
		t.Errorf("after all that: %+v", got)
	}
}

// TestStrangers: who is nobody, or not the one who may, is turned away before
// anything is read.
func TestStrangers(t *testing.T) {
	d := onShared(t)
	a := d.agent(t).hold("pair_stranger", nil)
	revoked := d.newKey(t, "--agent", "demo-agent", "--label", "to be revoked")
	d.client(t).with(revoked).propose(event("search_docs", "accept", nil)).want(t, 200)
	must(t, nil, "", "key", "revoke", "--data", d.dir, "key_"+strings.Split(revoked, "_")[1])
	expired := d.newKey(t, "--agent", "demo-agent", "--expires-in", "1ms")
	flip := func(key string) string {
		return key[:len(key)-1] + map[bool]string{true: "b", false: "a"}[key[len(key)-1] == 'a']
	}
	keys := map[string]string{
		"no key": "", "garbage": "x", "nearly the prefix": "hp_", "a wrong secret": flip(d.AgentKey), "an unknown id": "hp_" + strings.Repeat("a", 26) + "_" + strings.Repeat("b", 26),
		"revoked": revoked, "expired": expired, "in capitals": strings.ToUpper(d.AgentKey), "with a tail": d.AgentKey + "x",
	}
	onlyRefusals(t, d, func() {
		for _, door := range doors(d, a) {
			for name, key := range keys {
				got := d.client(t).with(key).do("POST", door.path, []byte(door.body))
				if got.Status != 401 || got.code() != "unauthenticated" || got.Header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s with %s: %s", door.path, name, got)
				}
			}
			for name, value := range map[string]string{"basic": "Basic " + d.AgentKey, "no scheme": d.AgentKey} {
				got := d.client(t).do("POST", door.path, []byte(door.body), header{"Authorization", value})
				if got.Status != 401 {
					t.Errorf("%s with %s: %s", door.path, name, got)
				}
			}
			// An administrator's key reads; it proposes and spends nothing.
			got := d.admin(t).do("POST", door.path, []byte(door.body))
			want := map[bool][]any{true: {403, "scope_missing"}, false: {404, "not_found"}}[strings.HasPrefix(door.path, "/v1/tokens") || strings.HasPrefix(door.path, "/v1/exec") || strings.Contains(door.path, "check")]
			if strings.HasSuffix(door.path, "/votes") {
				want = []any{403, "machine_principal"}
			}
			if got.Status != want[0] || got.code() != want[1] {
				t.Errorf("%s with an admin key: %s, want %v", door.path, got, want)
			}
		}
		for _, c := range []*client{d.agent(t), d.runtime(t)} {
			c.vote(a, "approve").want(t, 403, "machine_principal")
			c.do("GET", "/v1/audit/events", nil).want(t, 403, "scope_missing")
		}
		d.client(t).do("GET", "/v1/audit/events", nil).want(t, 401, "unauthenticated")
		d.client(t).do("POST", "/v1/nothing", []byte(`{}`)).want(t, 404, "no_such_route")
		d.agent(t).do("DELETE", approvalPath(a.ID), nil).want(t, 405, "method_not_allowed")
		d.agent(t).do("GET", approvalPath(a.ID)+"?wait=60", nil).want(t, 400, "bad_wait")
		d.admin(t).do("GET", "/v1/audit/events?approval=x", nil).want(t, 400, "unknown_parameter")
	})
}

// TestForgedRequestsFromOtherSites: a session cookie that comes along with a
// request of another site, or of no known one, does nothing.
func TestForgedRequestsFromOtherSites(t *testing.T) {
	d := onShared(t)
	a := d.agent(t).hold("pair_forged", nil)
	reviewer := d.reviewer(t, 2)
	form := url.Values{"decision": {"approve"}, "digest": {a.Digest}, "version": {"1"}}
	for name, headers := range map[string][]header{
		"no origin":          {{"Origin", ""}},
		"another site":       {{"Origin", "https://evil.example"}},
		"null":               {{"Origin", "null"}},
		"another port":       {{"Origin", "http://127.0.0.1:1"}},
		"said cross-site":    {{"Origin", ""}, {"Sec-Fetch-Site", "cross-site"}},
		"said same-site":     {{"Origin", ""}, {"Sec-Fetch-Site", "same-site"}},
		"cross-site, origin": {{"Sec-Fetch-Site", "cross-site"}},
	} {
		if got := reviewer.vote(a, "approve", headers...); got.Status != 403 {
			t.Errorf("vote from %s: %s", name, got)
		}
		for path, body := range map[string]url.Values{"/approvals/" + a.ID + "/votes": form, "/logout": {}} {
			if got := reviewer.do("POST", path, body, headers...); got.Status != 403 {
				t.Errorf("POST %s from %s: %d", path, name, got.Status)
			}
		}
	}
	for _, method := range []string{"GET", "HEAD"} {
		reviewer.do(method, "/approvals/"+a.ID+"/votes?"+form.Encode(), nil)
	}
	// What the address says is not the form.
	if got := reviewer.do("POST", "/approvals/"+a.ID+"/votes?"+form.Encode(), url.Values{}); got.Status != 422 {
		t.Errorf("a vote in the address: %d", got.Status)
	}
	if got := d.client(t).do("GET", "/", nil); got.Status != 303 || got.Header.Get("Location") != "/login?next=%2F" && got.Header.Get("Location") != "/login" {
		t.Errorf("without a session: %d %s", got.Status, got.Header.Get("Location"))
	}
	if got := reviewer.get(a.ID); got.Requirements[0].Given != 0 {
		t.Error("a forged vote counts")
	}
	reviewer.approve(a)
}

// TestWrongHost: a page that resolves its own name to 127.0.0.1 gets nothing.
func TestWrongHost(t *testing.T) {
	d := onShared(t)
	for _, path := range []string{"/", "/login", "/v1/approvals/x", "/openapi.json"} {
		req := d.agent(t)
		got := req.doHost("evil.example", path)
		if got.Status != 421 {
			t.Errorf("%s asked of evil.example: %d", path, got.Status)
		}
	}
}

// TestIdempotency: the same request with the same key is one request.
func TestIdempotency(t *testing.T) {
	d := onShared(t)
	agent := d.agent(t)
	key := func() header { return header{"Idempotency-Key", newID("k-")} }
	for _, route := range []string{"accept", "refuse", "defer"} {
		k, e := key(), event("search_docs", route, map[string]any{"q": 1})
		first, second := agent.propose(e, k), agent.propose(e, k)
		if first.Status/100 != 2 || first.Status != second.Status || string(first.Body) != string(second.Body) || second.Header.Get("Idempotent-Replayed") != "true" ||
			first.Header.Get("Location") != second.Header.Get("Location") {
			t.Errorf("%s: first %s, then %s", route, first, second)
		}
		// Written otherwise, it is the same; said otherwise, it is not.
		e["request_id"] = "another"
		agent.propose(e, k).want(t, 422, "idempotency_key_reused")
	}
	k := key()
	answers := make([]answer, 20)
	together(len(answers), func(i int) { answers[i] = agent.propose(event("same", "defer", nil), k) })
	for _, a := range answers {
		if a.Status != 202 || string(a.Body) != string(answers[0].Body) {
			t.Fatalf("the same at once: %s and %s", a, answers[0])
		}
	}
	var v struct{ Approval approval }
	answers[0].into(t, &v)
	reviewer := d.reviewer(t, 3)
	kv := key()
	voted := reviewer.vote(v.Approval, "approve", kv).want(t, 200)
	if again := reviewer.vote(v.Approval, "approve", kv).want(t, 200); string(again.Body) != string(voted.Body) {
		t.Errorf("the vote repeated: %s, first %s", again, voted)
	}
	reviewer.vote(v.Approval, "deny", kv).want(t, 422, "idempotency_key_reused")
	token := agent.wait(v.Approval.ID).Token
	kr := key()
	agent.redeem(token, "same", map[string]any{"no": 1}, kr).want(t, 403, "arguments_mismatch")
	agent.redeem(token, "same", map[string]any{}, kr).want(t, 422, "idempotency_key_reused")
	kr = key()
	spent := agent.redeem(token, "same", map[string]any{}, kr).want(t, 200)
	firstly, _, _ := strings.Cut(string(spent.Body), "}\n")
	if again := agent.redeem(token, "same", map[string]any{}, kr).want(t, 200); !strings.HasPrefix(string(again.Body), firstly+`,"replayed":true,"redeemed_at":"`) {
		t.Errorf("redeem repeated: %s, first %s", again, spent)
	}
	agent.redeem(token, "same", map[string]any{}, key()).want(t, 409, "token_used")
	// A key belongs to who sent it.
	other := d.client(t).with(d.newKey(t, "--agent", newID("other-")))
	other.redeem(token, "same", map[string]any{}, kr).want(t, 404)
	ke := key()
	report := map[string]any{"approval_id": v.Approval.ID, "outcome": "unknown"}
	for range 2 {
		agent.do("POST", "/v1/executions", report, ke).want(t, 200)
	}
	agent.redeem(token, "same", map[string]any{}, kr).want(t, 409, "already_reported")
	cancelled := agent.hold("pair_cancel", nil)
	kc := key()
	for range 2 {
		agent.do("POST", approvalPath(cancelled.ID)+"/cancel", nil, kc).want(t, 200)
	}
	story := d.admin(t).story(v.Approval.ID)
	if n := len(slices.DeleteFunc(story, func(line string) bool { return !strings.Contains(line, "ALLOW") })); n != 2 {
		t.Errorf("%d grants on record, want one redeem and one execution: %q", n, story)
	}
}

// TestSlowCallerIsDisconnected: who sends a head and no body is let go.
func TestSlowCallerIsDisconnected(t *testing.T) {
	if !*long {
		t.Skip("takes 20 s: run with -long")
	}
	d := onShared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	got := d.slowly(ctx, t)
	if got > time.Minute {
		t.Errorf("a body that never comes held the connection for %s", got)
	}
	t.Logf("let go after %s", got.Round(time.Second))
}
