package holdpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// wire is a stand-in for a server: each request is answered by the next step
// of the script, and the last step answers for good.
type wire struct {
	t     *testing.T
	mu    sync.Mutex
	steps []func(w http.ResponseWriter, r *http.Request, body string)
	seen  []request
}

type request struct {
	line, idempotency, key, tag string
	body                        string
}

func newWire(t *testing.T, steps ...func(http.ResponseWriter, *http.Request, string)) (*wire, *Client) {
	t.Helper()
	s := &wire{t: t, steps: steps}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, &Client{URL: server.URL + "/", Key: "hp_test"}
}

func (s *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("read the request: %v", err)
	}
	s.mu.Lock()
	s.seen = append(s.seen, request{
		r.Method + " " + r.URL.RequestURI(), r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization"),
		r.Header.Get("If-None-Match"), string(body),
	})
	step := s.steps[min(len(s.seen), len(s.steps))-1]
	s.mu.Unlock()
	step(w, r, string(body))
}

func (s *wire) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := make([]string, len(s.seen))
	for i, r := range s.seen {
		lines[i] = r.line
	}
	return lines
}

func answer(status int, body string, header ...string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "application/json")
		if status >= 400 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter, _ *http.Request, _ string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

const (
	accepted = `{"contract_version":"aana.agent_tool_precheck.v1","tool_name":"t","gate_decision":"pass","recommended_action":"accept","hard_blockers":[],
		"aix":{"score":0.95,"hard_blockers":[]},"architecture_decision":{"route":"accept"},"execution_policy":{"execution_allowed":true}}`
	refused = `{"tool_name":"t","gate_decision":"fail","recommended_action":"refuse","hard_blockers":["runtime_refusal"],
		"aix":{"hard_blockers":["runtime_refusal"]},"architecture_decision":{"route":"refuse"},"execution_policy":{"execution_allowed":false}}`
	waiting = `{"tool_name":"t","gate_decision":"fail","recommended_action":"defer","hard_blockers":["x"],"aix":{"hard_blockers":["x"]},
		"architecture_decision":{"route":"defer"},"execution_policy":{"execution_allowed":false},"approval":{"id":"apr_1","status":"pending","tool_name":"t"}}`
	pending  = `{"id":"apr_1","status":"pending","tool_name":"t"}`
	approved = `{"id":"apr_1","status":"approved","tool_name":"t","resumption_token":"TOKEN"}`
)

var ctx = context.Background()

func TestShouldExecute(t *testing.T) {
	var good Decision
	if err := json.Unmarshal([]byte(accepted), &good); err != nil {
		t.Fatal(err)
	}
	if !ShouldExecute(good) {
		t.Error("a decision that meets every condition does not execute")
	}
	if ShouldExecute(Decision{}) {
		t.Error("the zero decision executes")
	}
	for name, change := range map[string]func(*Decision){
		"gate fails":              func(d *Decision) { d.GateDecision = "fail" },
		"gate unknown":            func(d *Decision) { d.GateDecision = "PASS" },
		"action asks":             func(d *Decision) { d.RecommendedAction = Ask },
		"route unknown":           func(d *Decision) { d.ArchitectureDecision.Route = "shadow" },
		"blocked":                 func(d *Decision) { d.HardBlockers = []string{"x"} },
		"blockers absent":         func(d *Decision) { d.HardBlockers = nil },
		"scored as blocked":       func(d *Decision) { d.AIx.HardBlockers = []string{"x"} },
		"score's blockers absent": func(d *Decision) { d.AIx.HardBlockers = nil },
		"invalid":                 func(d *Decision) { d.ValidationErrors = []FieldError{{Path: "$"}} },
		"server says no":          func(d *Decision) { d.ExecutionPolicy.ExecutionAllowed = false },
		"waits":                   func(d *Decision) { d.Approval = &Approval{} },
	} {
		d := good
		change(&d)
		if ShouldExecute(d) {
			t.Errorf("%s: it executes", name)
		}
	}
}

func TestCheckSendsWhatTheContractAsksFor(t *testing.T) {
	s, c := newWire(t, answer(200, accepted))
	if _, err := c.Check(ctx, Event{ToolName: "t", ToolCategory: PublicRead, AuthorizationState: None, RiskDomain: "research", RecommendedRoute: Accept}); err != nil {
		t.Fatal(err)
	}
	want := `{"tool_name":"t","tool_category":"public_read","authorization_state":"none","evidence_refs":[],"risk_domain":"research","proposed_arguments":{},"recommended_route":"accept"}`
	got := s.seen[0]
	if got.body != want || got.line != "POST /v1/pre-tool-check" || got.key != "Bearer hp_test" || len(got.idempotency) < 26 {
		t.Errorf("got %+v, want body %s", got, want)
	}
}

func TestCheckSaysWhetherItJoined(t *testing.T) {
	s, c := newWire(t, answer(202, `{"joined":true,"approval":`+pending+`}`))
	d, err := c.Check(ctx, Event{ToolName: "t", Separate: true})
	if err != nil || !d.Joined || d.Approval == nil {
		t.Fatalf("got %+v, %v", d, err)
	}
	if !strings.Contains(s.seen[0].body, `"separate":true`) {
		t.Errorf("it sent %s", s.seen[0].body)
	}
}

func TestPostRepeatsUnderTheSameKey(t *testing.T) {
	s, c := newWire(t, hangUp, answer(503, `{"code":"store_unavailable"}`), answer(200, accepted))
	for range 2 {
		if _, err := c.Check(ctx, Event{ToolName: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	keys := make([]string, len(s.seen))
	for i, r := range s.seen {
		keys[i] = r.idempotency
	}
	if len(keys) != 4 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] || keys[2] == keys[3] {
		t.Errorf("keys of three tries and of a second request: %q", keys)
	}
}

func TestPostGivesUp(t *testing.T) {
	s, c := newWire(t, answer(503, `{"code":"store_unavailable","detail":"Nothing has been granted."}`))
	_, err := c.Check(ctx, Event{ToolName: "t"})
	var p *Problem
	if !errors.As(err, &p) || p.Code != "store_unavailable" || p.Status != 503 {
		t.Errorf("got %v, want the problem store_unavailable", err)
	}
	if len(s.seen) != tries {
		t.Errorf("it was tried %d times, want %d", len(s.seen), tries)
	}
}

func TestRefusalsAreNotRepeated(t *testing.T) {
	for _, status := range []int{307, 400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 500} {
		s, c := newWire(t, answer(status, `{"code":"some_code","detail":"So."}`, "Retry-After", "7", "X-Request-Id", "req_1", "Location", "/elsewhere"))
		_, err := c.Redeem(ctx, "TOKEN", "t", map[string]any{"n": 1})
		var p *Problem
		if !errors.As(err, &p) || p.Status != status || p.RetryAfter != 7*time.Second || p.RequestID != "req_1" {
			t.Errorf("%d: got %#v", status, err)
		}
		if len(s.seen) != 1 {
			t.Errorf("%d: it was sent %d times", status, len(s.seen))
		}
		if strings.Contains(err.Error(), "TOKEN") || strings.Contains(err.Error(), "hp_test") {
			t.Errorf("%d: the error holds a secret: %v", status, err)
		}
	}
}

func TestAProxysPageIsAProblem(t *testing.T) {
	_, c := newWire(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<h1>no</h1>")
	})
	_, err := c.Get(ctx, "apr_1")
	var p *Problem
	if !errors.As(err, &p) || p.Code != "http_403" {
		t.Errorf("got %v, want the problem http_403", err)
	}
}

func TestAwait(t *testing.T) {
	s, c := newWire(t, answer(200, pending, "ETag", `"r1"`), hangUp, answer(503, `{"code":"store_unavailable"}`, "Retry-After", "0"), answer(200, approved))
	a, err := c.Await(ctx, "apr_1")
	if err != nil || a.Status != Approved || a.Token != "TOKEN" {
		t.Fatalf("got %v, %v", a, err)
	}
	if got, want := s.lines(), "GET /v1/approvals/apr_1?wait=25"; len(got) != 4 || slices.ContainsFunc(got, func(l string) bool { return l != want }) {
		t.Errorf("got %q, want four times %q", got, want)
	}
	if s.seen[0].tag != "" || s.seen[1].tag != `"r1"` || s.seen[3].tag != `"r1"` {
		t.Errorf("the tags of what had been seen: %+v", s.seen)
	}
}

func TestAwaitGoesOnWhenNothingHasChanged(t *testing.T) {
	s, c := newWire(t, answer(200, pending, "ETag", `"r1"`), answer(304, "", "ETag", `"r1"`, "Retry-After", "0"), answer(200, approved))
	a, err := c.Await(ctx, "apr_1")
	if err != nil || a.Status != Approved || a.Token != "TOKEN" {
		t.Fatalf("got %v, %v", a, err)
	}
	if len(s.seen) != 3 || s.seen[2].tag != `"r1"` {
		t.Errorf("the tags of what had been seen: %+v", s.seen)
	}
}

func TestAwaitAsksNoSoonerThanItIsTold(t *testing.T) {
	_, c := newWire(t, answer(200, pending, "Retry-After", "1"), answer(200, `{"status":"denied"}`))
	started := time.Now()
	if _, err := c.Await(ctx, "apr_1"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(started); took < time.Second {
		t.Errorf("it asked again after %s", took)
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(ctx)
	_, c := newWire(t, func(_ http.ResponseWriter, r *http.Request, _ string) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := c.Await(ctx, "apr_1"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestAwaitStopsAtWhatWaitingDoesNotMend(t *testing.T) {
	s, c := newWire(t, answer(404, `{"code":"not_found"}`))
	_, err := c.Await(ctx, "apr_1")
	var p *Problem
	if !errors.As(err, &p) || p.Code != "not_found" || len(s.seen) != 1 {
		t.Errorf("got %v after %d requests", err, len(s.seen))
	}
}

func TestRedeemBelievesOnlyAYes(t *testing.T) {
	_, c := newWire(t, answer(200, `{"redeemed":false,"approval_id":"apr_1"}`))
	if _, err := c.Redeem(ctx, "TOKEN", "t", nil); err == nil {
		t.Error("a token that is not redeemed passes for one that is")
	}
}

func TestGuard(t *testing.T) {
	boom := errors.New("boom")
	const redeemed, done = `{"redeemed":true,"approval_id":"apr_1","constraints":{}}`, `{"id":"apr_1"}`
	for _, test := range []struct {
		name   string
		script []string // bodies of the answers after the check
		check  string
		run    func(context.Context) error
		ran    bool
		want   func(error) bool
		report string
	}{
		{name: "accepted", check: accepted, ran: true, want: isNil},
		{name: "accepted and fails", check: accepted, run: func(context.Context) error { return boom }, ran: true, want: is(boom)},
		{name: "refused", check: refused, want: isRefused(`t was refused: runtime_refusal`)},
		{name: "approved", check: waiting, script: []string{approved, redeemed, done}, ran: true, want: isNil, report: "succeeded"},
		{name: "approved and fails", check: waiting, script: []string{approved, redeemed, done}, run: func(context.Context) error { return boom }, ran: true, want: is(boom), report: "failed"},
		{
			name: "approved and uncertain", check: waiting, script: []string{approved, redeemed, done},
			run: func(context.Context) error { return fmt.Errorf("timeout: %w", ErrUncertain) }, ran: true, want: is(ErrUncertain), report: "unknown",
		},
		{name: "denied", check: waiting, script: []string{`{"status":"denied","tool_name":"t","denial":{"kind":"never","comment":"No."}}`}, want: isRefused(`t was not approved: denied (never) "No."`)},
		{
			name: "expired", check: waiting, script: []string{`{"status":"expired","tool_name":"t","reasons":[{"code":"TIMEOUT","message":"The deadline passed."}]}`},
			want: isRefused(`t was not approved: expired: The deadline passed.`),
		},
		{name: "approved without a token", check: waiting, script: []string{`{"id":"apr_1","status":"approved"}`}, want: isOther},
		{name: "constraints", check: waiting, script: []string{approved, `{"redeemed":true,"constraints":{"max":1}}`, done}, want: is(ErrConstraints), report: "failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			steps := []func(http.ResponseWriter, *http.Request, string){answer(200, test.check)}
			for _, body := range test.script {
				steps = append(steps, answer(200, body))
			}
			steps = append(steps, answer(500, `{"code":"unexpected"}`))
			s, c := newWire(t, steps...)
			ran := false
			err := c.Guard(ctx, Event{ToolName: "t", Arguments: map[string]any{"n": 1}}, func(ctx context.Context) error {
				ran = true
				if test.run != nil {
					return test.run(ctx)
				}
				return nil
			})
			if ran != test.ran || !test.want(err) {
				t.Errorf("ran %v, error %v", ran, err)
			}
			if len(s.seen) != len(test.script)+1 {
				t.Errorf("requests: %q", s.lines())
			}
			last := s.seen[len(s.seen)-1]
			if (test.report != "") != (last.line == "POST /v1/executions") || !strings.Contains(last.body, test.report) {
				t.Errorf("last request %+v, want a report of %q", last, test.report)
			}
			if len(test.script) > 1 {
				if got, want := s.seen[2].body, `{"token":"TOKEN","tool_name":"t","arguments":{"n":1}}`; got != want {
					t.Errorf("redeemed with %s, want %s", got, want)
				}
			}
		})
	}
}

func isNil(err error) bool           { return err == nil }
func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
func isOther(err error) bool         { var r *Refused; return err != nil && !errors.As(err, &r) }
func isRefused(w string) func(error) bool {
	return func(err error) bool { var r *Refused; return errors.As(err, &r) && err.Error() == w }
}

func TestGuardReportsAPanic(t *testing.T) {
	s, c := newWire(t, answer(200, waiting), answer(200, approved), answer(200, `{"redeemed":true,"constraints":{}}`), answer(200, `{}`))
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
		if last := s.seen[len(s.seen)-1]; !strings.Contains(last.body, `"outcome":"unknown"`) {
			t.Errorf("last request %+v", last)
		}
	}()
	_ = c.Guard(ctx, Event{ToolName: "t"}, func(context.Context) error { panic("boom") })
}

func TestGuardSaysWhenTheReportIsLost(t *testing.T) {
	_, c := newWire(t, answer(200, waiting), answer(200, approved), answer(200, `{"redeemed":true,"constraints":{}}`), answer(409, `{"code":"already_reported"}`))
	err := c.Guard(ctx, Event{ToolName: "t"}, func(context.Context) error { return nil })
	var lost *Unreported
	if !errors.As(err, &lost) || lost.Run != nil || lost.ApprovalID != "apr_1" {
		t.Errorf("got %v, want *Unreported", err)
	}
}

func TestGuardTakesBackWhatNobodyWaitsFor(t *testing.T) {
	ctx, cancel := context.WithCancel(ctx)
	s, c := newWire(t, answer(202, waiting), func(_ http.ResponseWriter, r *http.Request, _ string) {
		cancel()
		<-r.Context().Done()
	}, answer(409, `{"code":"already_approved"}`))
	err := c.Guard(ctx, Event{ToolName: "t"}, func(context.Context) error { t.Error("it ran"); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if got := s.lines(); got[len(got)-1] != "POST /v1/approvals/apr_1/cancel" {
		t.Errorf("requests: %q", got)
	}
}
