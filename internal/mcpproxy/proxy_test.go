package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	holdpoint "holdpoint.example/client"
)

// What is accepted runs, what is refused does not, and all else passes.
func TestAcceptedCallsRunRefusedDoNot(t *testing.T) {
	w := newHarness(t).start(nil)
	if tools := w.tools(); len(tools) != 1 || tools[0].Name != "pay" || tools[0].Description != "Pays." {
		t.Errorf("the tools are %+v", tools)
	}
	w.runs1("pay", args{"n": 1}, "done")
	if got := w.fake.checks[0]; !strings.Contains(got, `"toolName":"s__pay"`) || !strings.Contains(got, `"toolArgs":{"n":1}`) || !strings.Contains(got, `"provider":"mcp"`) {
		t.Errorf("it was proposed as %s", got)
	}
	w.fake.set(func() { w.fake.outcome = "DENY" })
	w.refused("pay", args{"n": 1}, "By a rule (RULE)")
	w.refused("other", nil, "does not list such a tool")
	r, err := w.host.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "test://x"})
	if err != nil || r.Contents[0].Text != "as it is" {
		t.Errorf("%v %+v", err, r)
	}
	if !strings.Contains(w.fake.checks[1], `"agentId":"bot"`) {
		t.Errorf("the agent's name is not learned: %s", w.fake.checks[1])
	}
}

// A call that waits is held, or comes again; it runs once, as approved, and that is
// reported.
func TestWaitApproveRun(t *testing.T) {
	w := newHarness(t)
	w.fake.outcome = "REQUIRE_APPROVAL"
	w.start(func(c *Config) { c.Wait = 0 })
	w.refused("pay", args{"n": 1}, "http://review/apr_0")
	w.refused("pay", args{"n": 1}, "http://review/apr_0")
	if len(w.fake.approvals) != 1 {
		t.Fatalf("%d approvals for one call", len(w.fake.approvals))
	}
	w.fake.set(func() { w.fake.approvals[0].Status = "approved" })
	w.runs1("pay", args{"n": 1}, "done")
	if got := fmt.Sprint(w.fake.reports); got != "[apr_0 succeeded]" {
		t.Errorf("reported: %s", got)
	}
	w.refused("pay", args{"n": 1}, "http://review/apr_1")
	w.fake.set(func() {
		a := w.fake.approvals[1]
		a.Status, a.Denial = "denied", &holdpoint.Denial{Kind: "wrong_args", Retryable: true, Comment: "too much"}
	})
	w.refused("pay", args{"n": 1}, `"too much"`)
	w.refused("pay", args{"n": 2}, "http://review/apr_2")
	w.fake.set(func() { w.fake.approvals[2].Status = "expired" })
	w.refused("pay", args{"n": 2}, "expired")

	// Held, with edited arguments, and told by progress.
	w.start(nil)
	answers := w.follow("pay", args{"n": 3})
	w.fake.until(t, "a fourth approval", func() bool { return len(w.fake.approvals) == 4 })
	if says := <-w.told; !strings.Contains(says, "http://review/apr_3") {
		t.Errorf("progress says %q", says)
	}
	w.fake.set(func() {
		a := w.fake.approvals[3]
		a.Status, a.arguments = "approved", `{"n":2.5}`
		a.Edited = &holdpoint.Edited{Arguments: json.RawMessage(`{ "n": 2.50 }`), Changed: []string{"n"}}
	})
	r := <-answers
	if r == nil || r.IsError || len(r.Content) != 2 || !strings.Contains(r.Content[0].(*sdk.TextContent).Text, `A reviewer changed n: the tool ran with the arguments {"n":2.5}`) {
		t.Fatalf("%+v", r)
	}
	w.ranWith()
	if ran := w.ranWith(); !strings.HasPrefix(ran, `{"n":2.5}`) {
		t.Errorf("it ran with %s", ran)
	}
	if strings.Contains(fmt.Sprint(r.Content, r.Meta), "h.e") {
		t.Error("the host sees a token")
	}
}

// What is under constraints runs only where somebody keeps to them.
func TestConstraints(t *testing.T) {
	w := newHarness(t)
	w.fake.limits = `{"max":5}`
	w.start(func(c *Config) { c.Wait = 0 })
	w.refused("pay", nil, "constraints")
	w.fake.set(func() { w.fake.outcome = "REQUIRE_APPROVAL" })
	w.refused("pay", nil, "http://review/apr_0")
	w.fake.set(func() { w.fake.approvals[0].Status = "approved" })
	w.refused("pay", nil, "constraints")
	if w.fake.approvals[0].spent {
		t.Error("its token is spent")
	}
	w.start(func(c *Config) { c.KeepsConstraints = true })
	w.runs1("pay", nil, "done")
	if ran := w.ranWith(); !strings.Contains(ran, `"holdpoint/constraints":{"max":5}`) {
		t.Errorf("the server gets %s", ran)
	}
	// Only Holdpoint says so, whatever the host writes.
	for limits, want := range map[string]string{"": `{}{"progressToken":"x"}`, `{"max":5}`: `{}{"holdpoint/constraints":{"max":5},"progressToken":"x"}`} {
		w.fake.set(func() { w.fake.outcome, w.fake.limits = "ALLOW", limits })
		meta := sdk.Meta{ConstraintsKey: args{"max": 9}, "progressToken": "x"}
		if r, err := w.host.CallTool(t.Context(), &sdk.CallToolParams{Name: "pay", Arguments: args{}, Meta: meta}); err != nil || r.IsError {
			t.Fatal(r, err)
		}
		if ran := w.ranWith(); ran != want {
			t.Errorf("of constraints %q the server gets %s, want %s", limits, ran, want)
		}
	}
}

// Constraints that the server cannot be told of, because they have no reading or two, keep the call from running.
func TestConstraintsWithoutReading(t *testing.T) {
	w := newHarness(t).start(func(c *Config) { c.Wait, c.KeepsConstraints = 0, true })
	for i, limits := range []string{`{"max":1,"max":5}`, `{"max":1e400}`} {
		w.fake.set(func() { w.fake.outcome, w.fake.limits = "ALLOW", limits })
		w.refused("pay", args{"n": i}, "constraints")
		w.fake.set(func() { w.fake.outcome = "REQUIRE_APPROVAL" })
		w.refused("pay", args{"n": i}, "http://review/")
		w.fake.set(func() { w.fake.approvals[i].Status = "approved" })
		w.refused("pay", args{"n": i}, "constraints")
	}
}

// Whatever is wrong with Holdpoint, the server is not called.
func TestNoAnswerIsNoPermission(t *testing.T) {
	w := newHarness(t).start(nil)
	w.runs1("pay", args{"n": 0}, "done")
	for name, answer := range map[string]struct {
		at     string
		status int
		body   string
	}{
		"an outage":        {"/v1/", 503, `{"code":"unavailable"}`},
		"a proxy's page":   {"/v1/", 200, `<h1>Welcome</h1>`},
		"an empty answer":  {"/v1/", 200, ``},
		"nothing in it":    {"/v1/", 200, `{}`},
		"null":             {"/v1/", 200, `null`},
		"a redirect":       {"/v1/", 302, ``},
		"half a decision":  {"/v1/tool-calls/check", 200, `{"allowed":true}`},
		"two decisions":    {"/v1/tool-calls/check", 200, `{"allowed":true,"decision":{"outcome":"DENY"}}`},
		"allowed, waiting": {"/v1/tool-calls/check", 202, `{"allowed":true,"decision":{"outcome":"ALLOW"}}`},
		"both":             {"/v1/tool-calls/check", 200, `{"allowed":true,"decision":{"outcome":"ALLOW"},"approval":{"id":"apr_x","status":"denied"}}`},
		"a kill switch":    {"/v1/tool-calls/check", 423, `{"code":"kill_switch","detail":"Stopped."}`},
		"a strange status": {"/v1/tool-calls/check", 202, `{"allowed":false,"decision":{"outcome":"REQUIRE_APPROVAL"},"approval":{"id":"apr_x","status":"granted"}}`},
		"no token":         {"/v1/tool-calls/check", 202, `{"allowed":false,"decision":{"outcome":"REQUIRE_APPROVAL"},"approval":{"id":"apr_x","status":"approved"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.fake.set(func() {
				w.fake.broken = func(rw http.ResponseWriter, r *http.Request) bool {
					if !strings.HasPrefix(r.URL.Path, answer.at) {
						return false
					}
					rw.WriteHeader(answer.status)
					io.WriteString(rw, answer.body)
					return true
				}
			})
			w.refused("pay", args{"n": name}, "")
		})
	}
	w.t = t
	w.gate.Client.URL = "http://127.0.0.1:1"
	w.refused("pay", args{"n": 9}, "Not run")
	for _, err := range []error{&holdpoint.Unreachable{Err: errors.New("dial tcp 127.0.0.1:1: refused")}, &url.Error{Op: "parse", URL: "http://127.0.0.1:1", Err: io.EOF}} {
		answer := w.proxy.refused(t.Context(), &call{tool: "pay"}, err)
		if text := string(answer.Result); strings.Contains(text, "127.0.0.1") || !strings.Contains(text, "cannot be reached") {
			t.Errorf("the model is told %s", text)
		}
	}
}

// Answers to a redemption are lost: what this proxy has redeemed runs, once; what it does not
// know to be its own does not, and is not reported: another proxy may run it.
func TestRedeemingInDoubt(t *testing.T) {
	w := newHarness(t)
	w.fake.outcome = "REQUIRE_APPROVAL"
	w.start(func(c *Config) { c.Wait = 0 })
	w.refused("pay", nil, "review")
	lost := 5 // more than the client itself tries
	w.fake.set(func() {
		w.fake.approvals[0].Status = "approved"
		w.fake.broken = func(rw http.ResponseWriter, r *http.Request) bool {
			w.fake.mu.Lock()
			defer w.fake.mu.Unlock()
			if r.URL.Path != "/v1/tokens/redeem" || lost == 0 {
				return false
			}
			lost--
			a := w.fake.approvals[0]
			a.spent, a.Execution, a.key = true, "redeemed", r.Header.Get("Idempotency-Key")
			rw.WriteHeader(http.StatusBadGateway)
			return true
		}
	})
	w.runs1("pay", nil, "done")
	if got := fmt.Sprint(w.fake.reports); got != "[apr_0 succeeded]" {
		t.Errorf("reported: %s", got)
	}

	w.refused("pay", nil, "review") // one more
	w.fake.set(func() {
		w.fake.approvals[1].Status = "approved"
		w.fake.broken = func(rw http.ResponseWriter, r *http.Request) bool {
			lost := r.URL.Path == "/v1/tokens/redeem"
			if lost {
				rw.WriteHeader(http.StatusInternalServerError)
			}
			return lost
		}
	})
	w.refused("pay", nil, "may have been run elsewhere")
	w.fake.set(func() {
		w.fake.broken, w.fake.outcome = nil, "ALLOW"
		a := w.fake.approvals[1]
		a.spent, a.Execution, a.key = true, "redeemed", "another's"
	})
	w.refused("pay", nil, "nobody knows what became of it")
	w.fake.set(func() { w.fake.approvals[1].Execution = "succeeded" })
	w.refused("pay", nil, "has run, and succeeded (apr_1)")
	if got := fmt.Sprint(w.fake.reports); got != "[apr_0 succeeded]" || len(w.fake.checks) != 2 {
		t.Errorf("reported: %s; %d proposals", got, len(w.fake.checks))
	}
	w.runs1("pay", nil, "done") // as one that is wanted once more
}

// A call that was begun and never accounted for is not run again, by whoever asks.
func TestStartedCallIsNotRunAgain(t *testing.T) {
	for _, execution := range []string{"redeemed", "unknown", "something new"} {
		w := newHarness(t)
		w.fake.outcome = "REQUIRE_APPROVAL"
		w.start(func(c *Config) { c.Wait = 0 })
		w.refused("pay", nil, "review")
		w.fake.set(func() { a := w.fake.approvals[0]; a.Status, a.Execution, a.spent = "approved", execution, true })
		w.refused("pay", nil, "nobody knows what became of it")
		w.start(nil) // as after a crash
		w.refused("pay", nil, "nobody knows what became of it")
		if len(w.fake.approvals) != 1 {
			t.Errorf("%s: people are asked again", execution)
		}
	}
}

// The same call from many sides at once runs once for each approval.
func TestOneRunForAnApproval(t *testing.T) {
	w := newHarness(t)
	w.fake.outcome = "REQUIRE_APPROVAL"
	w.start(func(c *Config) { c.Wait = 0 })
	w.refused("pay", args{"n": 1}, "apr_0")
	w.start(nil)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { w.call("pay", args{"n": 1}) })
	}
	w.fake.set(func() { w.fake.outcome = "DENY"; w.fake.approvals[0].Status = "approved" })
	all.Wait()
	if n := w.runs.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// A cancelled call leaves its approval waiting; one that runs is cancelled at the
// server, and what became of it is told honestly.
func TestCancelledByTheHost(t *testing.T) {
	w := newHarness(t)
	w.fake.outcome = "REQUIRE_APPROVAL"
	w.hold = make(chan struct{})
	w.start(nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.host.CallTool(ctx, &sdk.CallToolParams{Name: "pay"}) }()
	w.fake.until(t, "an approval", func() bool { return len(w.fake.approvals) == 1 })
	cancel()
	<-ended
	w.proxy.work.Wait() // the proxy has heard of it too, or it would spend the approval
	if a := w.fake.approvals[0]; a.Status != "pending" || w.runs.Load() != 0 {
		t.Fatalf("it is %s, %d runs", a.Status, w.runs.Load())
	}
	w.fake.set(func() { w.fake.approvals[0].Status = "approved" })
	ctx, cancel = context.WithCancel(t.Context())
	ended = make(chan struct{})
	go func() { defer close(ended); w.host.CallTool(ctx, &sdk.CallToolParams{Name: "pay"}) }()
	w.ranWith()
	cancel() // the server's tool ends with it, or the test does not end
	<-ended
	w.fake.until(t, "a report", func() bool { return len(w.fake.reports) == 1 })
}

// A server that ends while a call runs: its outcome is unknown, and the proxy ends.
func TestServerEnds(t *testing.T) {
	w := newHarness(t)
	w.fake.outcome = "REQUIRE_APPROVAL"
	w.hold = make(chan struct{})
	w.start(func(c *Config) { c.Wait = 0 })
	w.refused("pay", nil, "apr_0")
	w.fake.set(func() { w.fake.approvals[0].Status = "approved" })
	answer := make(chan string, 1)
	go func() { text, _ := w.call("pay", nil); answer <- text }()
	w.ranWith()
	w.serve.(*lines).Close()
	if text := <-answer; !strings.Contains(text, "not known whether") {
		t.Errorf("the host is told %q", text)
	}
	if err := <-w.done; err != ErrServerEnded {
		t.Errorf("the proxy ends with %v", err)
	}
	w.done <- nil
	close(w.hold)
	if got := fmt.Sprint(w.fake.reports); got != "[apr_0 unknown]" {
		t.Errorf("reported: %s", got)
	}
}

// What a server answers decides what is reported.
func TestOutcomes(t *testing.T) {
	for body, want := range map[string]holdpoint.Outcome{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`:                   holdpoint.Succeeded,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}`:    holdpoint.Failed,
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                               holdpoint.Uncertain,
		`{"jsonrpc":"2.0","id":1,"result":{"task":{}}}`:                      holdpoint.Uncertain,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"x"}}`:     holdpoint.Failed,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}`:     holdpoint.Uncertain,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":"maybe"}}`: holdpoint.Uncertain,
	} {
		m, err := jsonrpc.DecodeMessage([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got := outcomeOf(m.(*jsonrpc.Response), nil); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
