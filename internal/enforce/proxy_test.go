package enforce

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/engine/canon"
)

const routesFile = `routes:
  - tool: create_transfer
    method: POST
    path: /transfers
  - tool: close_account
    method: DELETE
    path: /accounts/{account_id}
    query: [reason]
    headers: [If-Match]
  - tool: limited
    method: POST
    path: /limited
    constraints: true
`

// stand is a proxy between a caller, a stand-in for the gate and an upstream.
type stand struct {
	t        *testing.T
	proxy    *Proxy
	front    *httptest.Server
	gate     *httptest.Server
	upstream *httptest.Server

	mu       sync.Mutex
	approved map[string]string // token → canonical {tool, arguments}
	answers  map[string]reply  // Idempotency-Key → first answer
	lose     int               // so many answers of the gate are lost
	reports  chan string
	seen     []*http.Request
	bodies   []string
	answer   http.HandlerFunc
}

type reply struct {
	status int
	body   string
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{t: t, approved: map[string]string{}, answers: map[string]reply{}, reports: make(chan string, 100)}
	s.gate = httptest.NewServer(http.HandlerFunc(s.serveGate))
	t.Cleanup(s.gate.Close)
	s.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.seen, s.bodies = append(s.seen, r), append(s.bodies, string(body))
		answer := s.answer
		s.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		w.Header().Set("X-Upstream", "yes")
		fmt.Fprint(w, "done")
	}))
	t.Cleanup(s.upstream.Close)
	s.start(s.gate.URL, s.upstream.URL+"/base")
	return s
}

func (s *stand) start(gate, upstream string) {
	s.t.Helper()
	routes, err := Load([]byte(routesFile), "routes.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	parse := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			s.t.Fatal(err)
		}
		return u
	}
	s.proxy, err = New(Config{
		Upstream: parse(upstream), Gate: parse(gate), Key: "hp_proxy", Authorization: "Bearer upstream", Routes: routes, Timeout: 20 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.front = httptest.NewServer(s.proxy)
	s.t.Cleanup(s.front.Close)
}

func (s *stand) serveGate(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.Header.Get("Idempotency-Key")
	first, again := s.answers[id]
	if !again {
		first = s.decide(r, data)
		s.answers[id] = first
	}
	if s.lose > 0 {
		s.lose--
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(first.status)
	fmt.Fprint(w, first.body)
}

func (s *stand) decide(r *http.Request, data []byte) reply {
	refuse := func(status int, code string) reply {
		return reply{status, fmt.Sprintf(`{"code":%q,"detail":"no"}`, code)}
	}
	if r.Header.Get("Authorization") != "Bearer hp_proxy" {
		return refuse(401, "unauthenticated")
	}
	v, err := canon.Parse(data)
	if err != nil {
		s.t.Errorf("the gate was sent %s", data)
	}
	get := func(name string) canon.Value { m, _ := v.Get(name); return m }
	if r.URL.Path == "/v1/executions" {
		s.reports <- get("approval_id").Str() + " " + get("outcome").Str()
		return reply{200, "{}"}
	}
	token := get("token").Str()
	want, known := s.approved[token]
	switch got := callText(get("tool_name").Str(), get("arguments")); {
	case strings.HasPrefix(want, "expired"):
		return refuse(401, "token_expired")
	case !known:
		return refuse(401, "token_invalid")
	case want == "used":
		return refuse(409, "token_used")
	case got != want:
		return refuse(403, "arguments_mismatch")
	}
	s.approved[token] = "used"
	constraints := "{}"
	if strings.Contains(token, constrainedClaims) {
		constraints = `{"max":1}`
	}
	return reply{200, `{"redeemed":true,"approval_id":"apr_1","constraints":` + constraints + `}`}
}

func callText(tool string, arguments canon.Value) string {
	return tool + " " + string(arguments.Canonical())
}

var (
	freeClaims        = base64.RawURLEncoding.EncodeToString([]byte(`{"constraints":{}}`))
	constrainedClaims = base64.RawURLEncoding.EncodeToString([]byte(`{"constraints":{"max":1}}`))
)

// approve makes a token for a call.
func (s *stand) approve(tool, arguments string, claims ...string) string {
	s.t.Helper()
	v, err := canon.Parse([]byte(arguments))
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	token := fmt.Sprintf("h%d.%s.s", len(s.approved), append(claims, freeClaims)[0])
	s.approved[token] = callText(tool, v)
	return token
}

type got struct {
	*http.Response
	body string
	err  error
}

func (g got) code() string {
	var p problem
	_ = json.Unmarshal([]byte(g.body), &p)
	return p.Code
}

// direct follows no redirect.
var direct = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (s *stand) send(method, path, token, body string, headers ...string) got {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.front.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" && !slices.Contains(headers, "Content-Type") {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set(TokenHeader, token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	res, err := direct.Do(r)
	if err != nil {
		return got{err: err, Response: &http.Response{}}
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	return got{res, string(data), err}
}

// reported is the next report at the gate.
func (s *stand) reported(want string) {
	s.t.Helper()
	select {
	case got := <-s.reports:
		if got != want {
			s.t.Errorf("reported %q, want %q", got, want)
		}
	case <-time.After(20 * time.Second):
		s.t.Errorf("nothing was reported, want %q", want)
	}
}

func (s *stand) forwards() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

const transfer = `{"amount": 1.20e2, "to": "DE02"}`

func TestForwards(t *testing.T) {
	s := newStand(t)
	token := s.approve("create_transfer", `{"to":"DE02","amount":120}`)
	g := s.send("POST", "/transfers", token, transfer, "Cookie", "a=b", "Authorization", "Bearer mine", "X-Http-Method-Override", "DELETE", "X-Forwarded-For", "1.2.3.4", "Accept", "text/plain")
	if g.StatusCode != 200 || g.body != "done" || g.Header.Get("X-Upstream") != "yes" || g.Header.Get(ApprovalHeader) != "apr_1" {
		t.Fatalf("got %d %s %v", g.StatusCode, g.body, g.Header)
	}
	s.reported("apr_1 succeeded")
	r := s.seen[0]
	if r.URL.Path != "/base/transfers" || s.bodies[0] != transfer {
		t.Errorf("forwarded %s %q", r.URL, s.bodies[0])
	}
	for name, want := range map[string]string{"Authorization": "Bearer upstream", "Accept": "text/plain", "Content-Type": "application/json", ApprovalHeader: "apr_1", "Cookie": "", "X-Http-Method-Override": "", "X-Forwarded-For": "", TokenHeader: ""} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("forwarded %s: %q, want %q", name, got, want)
		}
	}
	if again := s.send("POST", "/transfers", token, transfer); again.StatusCode != 409 || again.code() != "token_used" {
		t.Errorf("sent again: %d %s", again.StatusCode, again.body)
	}
	token = s.approve("close_account", `{"account_id":"a-1","reason":"x y&z"}`)
	if g := s.send("DELETE", "/accounts/a-1?reason=x+y%26z", token, "", "If-Match", `"1"`); g.StatusCode != 200 {
		t.Fatalf("got %d %s", g.StatusCode, g.body)
	}
	if r := s.seen[1]; r.URL.RequestURI() != "/base/accounts/a-1?reason=x+y%26z" || r.Header.Get("If-Match") != `"1"` || s.forwards() != 2 {
		t.Errorf("forwarded %s", r.URL.RequestURI())
	}
	s.reported("apr_1 succeeded")
}

// Whatever is not the approved call, or can be read in two ways, goes nowhere, and the
// token is still good for the approved one.
func TestRefuses(t *testing.T) {
	s := newStand(t)
	s.refuses()
	limited := s.approve("limited", `{}`, constrainedClaims)
	if g := s.send("POST", "/limited", limited, ""); g.StatusCode != 200 || s.seen[1].Header.Get(ConstraintsHeader) != `{"max":1}` {
		t.Errorf("with constraints: %d %s", g.StatusCode, g.body)
	}
}

// refuses tries what goes nowhere.
func (s *stand) refuses() {
	t := s.t
	t.Helper()
	token := s.approve("create_transfer", transfer)
	account := s.approve("close_account", `{"account_id":"1"}`)
	expired := s.approve("create_transfer", transfer)
	s.approved[expired] = "expired"
	bound := s.approve("create_transfer", transfer, constrainedClaims)
	for name, tc := range map[string]struct {
		method, path, token, body string
		headers                   []string
		status                    int
		code                      string
	}{
		"no token":            {"POST", "/transfers", "", transfer, nil, 401, "token_missing"},
		"two tokens":          {"POST", "/transfers", token, transfer, []string{TokenHeader, account}, 401, "token_missing"},
		"no JWS":              {"POST", "/transfers", "x", transfer, nil, 401, "token_invalid"},
		"an unknown one":      {"POST", "/transfers", "a." + freeClaims + ".b", transfer, nil, 401, "token_invalid"},
		"an expired one":      {"POST", "/transfers", expired, transfer, nil, 401, "token_expired"},
		"another body":        {"POST", "/transfers", token, `{"amount":121,"to":"DE02"}`, nil, 403, "arguments_mismatch"},
		"one more argument":   {"POST", "/transfers", token, `{"amount":120,"to":"DE02","x":1}`, nil, 403, "arguments_mismatch"},
		"another tool":        {"POST", "/transfers", account, transfer, nil, 403, "arguments_mismatch"},
		"another account":     {"DELETE", "/accounts/2", account, "", nil, 403, "arguments_mismatch"},
		"no route":            {"POST", "/nothing", token, transfer, nil, 404, "no_such_route"},
		"another method":      {"PUT", "/transfers", token, transfer, nil, 404, "no_such_route"},
		"a slash more":        {"POST", "/transfers/", token, transfer, nil, 400, "path_unclear"},
		"two slashes":         {"POST", "//transfers", token, transfer, nil, 400, "path_unclear"},
		"dots":                {"POST", "/x/../transfers", token, transfer, nil, 400, "path_unclear"},
		"encoded":             {"DELETE", "/accounts/%31", account, "", nil, 400, "path_unclear"},
		"an encoded slash":    {"DELETE", "/accounts/1%2f2", account, "", nil, 400, "path_unclear"},
		"a semicolon":         {"DELETE", "/accounts/1;a=b", account, "", nil, 400, "path_unclear"},
		"a query":             {"POST", "/transfers?a=b", token, transfer, nil, 400, "unknown_parameter"},
		"a parameter twice":   {"DELETE", "/accounts/1?reason=a&reason=b", account, "", nil, 400, "bad_query"},
		"an unreadable query": {"DELETE", "/accounts/1?reason=a;b", account, "", nil, 400, "bad_query"},
		"an argument twice":   {"DELETE", "/accounts/1", account, `{"account_id":"1"}`, nil, 422, "argument_twice"},
		"in the wrong place":  {"DELETE", "/accounts/1", account, `{"reason":"x"}`, nil, 422, "argument_twice"},
		"the same, capitals":  {"DELETE", "/accounts/1", account, `{"Reason":"x"}`, nil, 422, "argument_twice"},
		"a member twice":      {"POST", "/transfers", token, `{"amount":1,"amount":120,"to":"DE02"}`, nil, 400, "malformed_json"},
		"no JSON":             {"POST", "/transfers", token, `amount=120`, nil, 400, "malformed_json"},
		"no object":           {"POST", "/transfers", token, `[]`, nil, 422, "invalid_body"},
		"another type":        {"POST", "/transfers", token, transfer, []string{"Content-Type", "text/plain"}, 415, "content_type"},
		"compressed":          {"POST", "/transfers", token, transfer, []string{"Content-Encoding", "gzip"}, 415, "content_encoding"},
		"too much":            {"POST", "/transfers", token, `{"a":"` + strings.Repeat("a", canon.MaxBytes) + `"}`, nil, 413, "too_large"},
		"constraints":         {"POST", "/transfers", bound, transfer, nil, 403, "constraints_not_kept"},
	} {
		t.Run(name, func(t *testing.T) {
			if g := s.send(tc.method, tc.path, tc.token, tc.body, tc.headers...); g.StatusCode != tc.status || g.code() != tc.code || g.Header.Get(ApprovalHeader) != "" {
				t.Errorf("got %d %s, want %d %s", g.StatusCode, g.body, tc.status, tc.code)
			}
		})
	}
	if n := s.forwards(); n != 0 {
		t.Errorf("%d requests were forwarded", n)
	}
	if g := s.send("POST", "/transfers", token, transfer); g.StatusCode != 200 {
		t.Errorf("the approved call: %d %s", g.StatusCode, g.body)
	}
}

// One token is one request, however many try it at once.
func TestOneForwardForEachToken(t *testing.T) {
	s := newStand(t)
	token := s.approve("create_transfer", transfer)
	var all sync.WaitGroup
	codes := make(chan int, 50)
	for range cap(codes) {
		all.Go(func() { codes <- s.send("POST", "/transfers", token, transfer).StatusCode })
	}
	all.Wait()
	close(codes)
	count := map[int]int{}
	for c := range codes {
		count[c]++
	}
	if s.forwards() != 1 || count[200] != 1 || count[409] != 49 {
		t.Errorf("%d were forwarded, the answers are %v", s.forwards(), count)
	}
}

func TestGateDown(t *testing.T) {
	s := newStand(t)
	token := s.approve("create_transfer", transfer)
	s.lose = 2 // the redemption is answered the third time it is asked for
	if g := s.send("POST", "/transfers", token, transfer); g.StatusCode != 200 || s.forwards() != 1 {
		t.Fatalf("with lost answers: %d %s, %d forwarded", g.StatusCode, g.body, s.forwards())
	}
	s.reported("apr_1 succeeded")
	other := s.approve("create_transfer", transfer)
	s.proxy.gate.key = "hp_revoked"
	if g := s.send("POST", "/transfers", other, transfer); g.StatusCode != 503 || g.code() != "gate_unavailable" {
		t.Errorf("with a key that is not good: %d %s", g.StatusCode, g.body)
	}
	s.gate.Close()
	if g := s.send("POST", "/transfers", other, transfer); g.StatusCode != 503 || g.code() != "gate_unavailable" || s.forwards() != 1 {
		t.Errorf("without a gate: %d %s, %d forwarded", g.StatusCode, g.body, s.forwards())
	}
}

func TestOutcomes(t *testing.T) {
	hangUp := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	for name, tc := range map[string]struct {
		answer  http.HandlerFunc
		status  int
		outcome string
		broken  bool
	}{
		"a refusal":             {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(422) }, 422, "failed", false},
		"an error":              {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 500, "unknown", false},
		"too late at a gateway": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(504) }, 504, "unknown", false},
		"a request timeout":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(408) }, 408, "unknown", false},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/transfers", http.StatusTemporaryRedirect)
		}, 307, "failed", false},
		"no content": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, "succeeded", false},
		"no answer":  {hangUp, 502, "unknown", false},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("a"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 200, "unknown", true},
		"less than it said": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("a"))
		}, 200, "unknown", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			s.answer = tc.answer
			g := s.send("POST", "/transfers", s.approve("create_transfer", transfer), transfer)
			if g.StatusCode != tc.status || (g.err != nil) != tc.broken {
				t.Errorf("got %d %s %v", g.StatusCode, g.body, g.err)
			}
			s.reported("apr_1 " + tc.outcome)
			if s.forwards() != 1 {
				t.Errorf("%d were forwarded", s.forwards())
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		s := newStand(t)
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = free.Close()
		s.start(s.gate.URL, "http://"+free.Addr().String())
		if g := s.send("POST", "/transfers", s.approve("create_transfer", transfer), transfer); g.StatusCode != 502 || g.code() != "upstream_unavailable" {
			t.Errorf("got %d %s", g.StatusCode, g.body)
		}
		s.reported("apr_1 failed")
	})
}

// An answer is passed on as it comes, and is reported although nobody reads it to its
// end.
func TestStreams(t *testing.T) {
	s := newStand(t)
	next := make(chan struct{})
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		for i := range 2 {
			fmt.Fprintf(w, "part %d\n", i)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.front.URL+"/transfers", strings.NewReader(transfer))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(TokenHeader, s.approve("create_transfer", transfer))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 7)
	if _, err := io.ReadFull(res.Body, part); err != nil || string(part) != "part 0\n" {
		t.Errorf("read %q, %v", part, err)
	}
	_ = res.Body.Close()
	close(next)
	s.reported("apr_1 succeeded")
	s.proxy.Wait()
}
