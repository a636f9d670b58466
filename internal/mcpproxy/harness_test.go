package mcpproxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	holdpoint "holdpoint.example/client"
)

// within bounds every wait of these tests.
const within = 30 * time.Second

// fakeHoldpoint is a Holdpoint of one agent that does what the test says.
type fakeHoldpoint struct {
	mu        sync.Mutex
	outcome   string // of a check: ALLOW, DENY or REQUIRE_APPROVAL
	reason    holdpoint.Reason
	limits    string // constraints of what is allowed
	approvals []*held
	reports   []string
	checks    []string // the bodies
	broken    func(w http.ResponseWriter, r *http.Request) bool
	changed   *sync.Cond
}

// held is an approval of the fake's.
type held struct {
	holdpoint.Approval
	arguments string // that the token is good for
	limits    string
	spent     bool
	key       string // under which it was redeemed
}

func newFakeHoldpoint(t *testing.T) (*fakeHoldpoint, *Gate) {
	o := &fakeHoldpoint{outcome: "ALLOW"}
	o.changed = sync.NewCond(&o.mu)
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	return o, &Gate{Client: &holdpoint.Client{URL: server.URL, Key: "hp_test"}}
}

func (o *fakeHoldpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	o.mu.Lock()
	broken := o.broken
	o.mu.Unlock()
	if broken != nil && broken(w, r) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		if status >= 400 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
	problem := func(status int, code string) {
		answer(status, map[string]any{"code": code, "detail": "It is so."})
	}
	switch path := r.URL.Path; {
	case r.Header.Get("Authorization") != "Bearer hp_test":
		problem(401, "unauthenticated")
	case path == "/v1/tool-calls/check":
		o.checks = append(o.checks, string(body))
		var in struct {
			ToolName string
			ToolArgs json.RawMessage
			Separate bool
		}
		json.Unmarshal(body, &in)
		decision := map[string]any{"outcome": o.outcome, "reasons": []holdpoint.Reason{cmp.Or(o.reason, holdpoint.Reason{Code: "RULE", Message: "By a rule"})}}
		if o.limits != "" {
			decision["constraints"] = json.RawMessage(o.limits)
		}
		out := map[string]any{"allowed": o.outcome == "ALLOW", "decision": decision, "event": map[string]string{"agent_id": "bot"}}
		if o.outcome != "REQUIRE_APPROVAL" {
			answer(200, out)
			return
		}
		for _, a := range o.approvals {
			if a.Status == "pending" && a.ToolName == in.ToolName && a.arguments == string(in.ToolArgs) && !in.Separate {
				out["approval"] = a.Approval
				answer(202, out)
				return
			}
		}
		a := &held{arguments: string(in.ToolArgs), limits: o.limits}
		a.ID, a.Status, a.Execution, a.RequestID, a.ToolName = fmt.Sprintf("apr_%d", len(o.approvals)), "pending", "none", r.Header.Get("X-Request-Id"), in.ToolName
		a.Links.Review, a.NextAction = "http://review/"+a.ID, "wait"
		o.approvals = append(o.approvals, a)
		o.changed.Broadcast()
		out["approval"] = a.Approval
		answer(202, out)
	case path == "/v1/approvals":
		list := []holdpoint.Approval{}
		for i := len(o.approvals) - 1; i >= 0; i-- {
			if a := o.approvals[i].Approval; a.ToolName == r.URL.Query().Get("tool_name") {
				list = append(list, a)
			}
		}
		answer(200, map[string]any{"approvals": list})
	case strings.HasPrefix(path, "/v1/approvals/"):
		a := o.find(strings.TrimPrefix(path, "/v1/approvals/"))
		if a == nil {
			problem(404, "not_found")
			return
		}
		tag := func() string { return fmt.Sprintf(`"%s-%s-%t"`, a.Status, a.Execution, a.Question != nil) }
		seen := cmp.Or(r.Header.Get("If-None-Match"), tag())
		stop := context.AfterFunc(r.Context(), o.changed.Broadcast)
		for r.URL.Query().Get("wait") != "" && (a.Status == "pending" || a.Execution == "redeemed") && tag() == seen && r.Context().Err() == nil {
			o.changed.Wait()
		}
		stop()
		out := a.Approval
		if a.Status == "approved" && !a.spent {
			claims, _ := json.Marshal(map[string]any{"constraints": json.RawMessage(orEmpty(a.limits))})
			out.Token = "h." + base64.RawURLEncoding.EncodeToString(claims) + "." + a.ID
		}
		w.Header().Set("ETag", tag())
		answer(200, out)
	case path == "/v1/tokens/redeem":
		var in struct {
			Token     string
			Arguments json.RawMessage
		}
		json.Unmarshal(body, &in)
		a := o.find(in.Token[strings.LastIndex(in.Token, ".")+1:])
		switch {
		case a == nil || a.Status != "approved" || string(in.Arguments) != a.arguments:
			problem(401, "token_invalid")
		case a.spent && a.key != r.Header.Get("Idempotency-Key"):
			problem(409, "token_used")
		case a.spent && a.Execution != "redeemed":
			problem(409, "already_reported")
		default:
			replayed := a.spent
			a.spent, a.Execution, a.key = true, "redeemed", r.Header.Get("Idempotency-Key")
			o.changed.Broadcast()
			answer(200, map[string]any{"redeemed": true, "replayed": replayed, "approval_id": a.ID, "constraints": json.RawMessage(orEmpty(a.limits))})
		}
	case path == "/v1/executions":
		var in struct {
			ID      string `json:"approval_id"`
			Outcome string
		}
		json.Unmarshal(body, &in)
		a := o.find(in.ID)
		if a == nil || a.Execution != "redeemed" {
			problem(409, "not_redeemed")
			return
		}
		a.Execution = in.Outcome
		o.reports = append(o.reports, in.ID+" "+in.Outcome)
		o.changed.Broadcast()
		answer(200, map[string]any{})
	default:
		problem(404, "not_found")
	}
}

func orEmpty(limits string) string {
	if limits == "" {
		return "{}"
	}
	return limits
}

func (o *fakeHoldpoint) find(id string) *held {
	for _, a := range o.approvals {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// until waits for what is true of the fake.
func (o *fakeHoldpoint) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.AfterFunc(within, func() { o.mu.Lock(); defer o.mu.Unlock(); o.changed.Broadcast() })
	defer late.Stop()
	deadline := time.Now().Add(within)
	o.mu.Lock()
	defer o.mu.Unlock()
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("%s never happens", what)
		}
		o.changed.Wait()
	}
}

func (o *fakeHoldpoint) set(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	o.changed.Broadcast()
}

// harness is a server with one tool that counts, and a host before a proxy.
type harness struct {
	t       *testing.T
	fake    *fakeHoldpoint
	gate    *Gate
	pins    *Pins
	server  *sdk.Server
	runs    atomic.Int64
	ran     chan string // the arguments of each run
	hold    chan struct{}
	proxy   *Proxy
	host    *sdk.ClientSession
	serve   sdk.Connection
	done    chan error
	told    chan string     // progress
	changed <-chan struct{} // that the tools are others
	end     func()          // ends the server
}

func newHarness(t *testing.T) *harness {
	o, gate := newFakeHoldpoint(t)
	w := &harness{t: t, fake: o, gate: gate, pins: &Pins{Path: filepath.Join(t.TempDir(), "pins", "s.json")}, ran: make(chan string, 100), told: make(chan string, 1000)}
	w.server = sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, &sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{Resources: &sdk.ResourceCapabilities{}, Tools: &sdk.ToolCapabilities{ListChanged: true}}})
	w.tool("pay", "Pays.")
	w.server.AddResource(&sdk.Resource{URI: "test://x", Name: "x"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://x", Text: "as it is"}}}, nil
	})
	return w
}

// tool adds a tool, or describes it anew.
func (w *harness) tool(name, says string) {
	w.server.AddTool(&sdk.Tool{Name: name, Description: says, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		w.runs.Add(1)
		meta, _ := json.Marshal(r.Params.Meta)
		w.ran <- string(r.Params.Arguments) + string(meta)
		if w.hold != nil {
			select {
			case <-w.hold:
			case <-ctx.Done():
			}
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
	})
}

// open puts a proxy before the server, for a host that reads and writes there.
func (w *harness) open(edit func(*Config)) (in io.ReadCloser, out io.WriteCloser) {
	w.t.Helper()
	cfg := Config{Name: "s", Gate: w.gate, Pins: w.pins, Wait: within, Logger: slog.New(slog.DiscardHandler)}
	if edit != nil {
		edit(&cfg)
	}
	toServer, fromProxy := io.Pipe()
	toProxy, fromServer := io.Pipe()
	session, err := w.server.Connect(w.t.Context(), &sdk.IOTransport{Reader: toServer, Writer: fromServer}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.end = func() { fromServer.Close(); toServer.Close(); session.Close() }
	fromHost, hostOut := io.Pipe()
	hostIn, toHost := io.Pipe()
	w.serve = newLines(toProxy, fromProxy, fromProxy.Close)
	if w.proxy, err = New(cfg, Lines(fromHost, toHost), w.serve); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	w.done = done
	go func(p *Proxy) { done <- p.Run(context.WithoutCancel(w.t.Context())); toHost.Close(); toProxy.Close() }(w.proxy)
	w.t.Cleanup(func() { hostOut.Close(); w.end(); <-done })
	return hostIn, hostOut
}

// start begins a conversation. It may be called again.
func (w *harness) start(edit func(*Config)) *harness {
	w.t.Helper()
	in, out := w.open(edit)
	client := sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { w.told <- r.Params.Message },
	})
	var err error
	if w.host, err = client.Connect(w.t.Context(), &sdk.IOTransport{Reader: in, Writer: out}, nil); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.host.Close() })
	return w
}

// ranWith waits until the tool is called, and returns with what.
func (w *harness) ranWith() string {
	w.t.Helper()
	select {
	case with := <-w.ran:
		return with
	case <-time.After(2 * within):
		w.t.Fatal("the tool is not called")
		return ""
	}
}

// call calls a tool and says what it answered.
func (w *harness) call(tool string, arguments any) (text string, isError bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	r, err := w.host.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range r.Content {
		text += c.(*sdk.TextContent).Text + "\n"
	}
	return strings.TrimSpace(text), r.IsError
}

// follow calls a tool and is told of its progress, and then its answer; nil when there is none.
func (w *harness) follow(tool string, arguments any) (answers chan *sdk.CallToolResult) {
	answers = make(chan *sdk.CallToolResult, 1)
	params := &sdk.CallToolParams{Name: tool, Arguments: arguments}
	params.SetProgressToken("p1")
	go func() {
		r, _ := w.host.CallTool(w.t.Context(), params) // nil says it
		answers <- r
	}()
	return answers
}

// refused fails the test when the call ran, or is not answered with an error that says
// this.
func (w *harness) refused(tool string, arguments any, says string) (text string) {
	w.t.Helper()
	before := w.runs.Load()
	text, isError := w.call(tool, arguments)
	if !isError || !strings.Contains(text, says) {
		w.t.Errorf("%s is answered with %t, %q; want it refused with %q", tool, isError, text, says)
	}
	if now := w.runs.Load(); now != before {
		w.t.Errorf("%s ran", tool)
	}
	return text
}

// runs1 fails the test unless the call ran once, and its answer says this.
func (w *harness) runs1(tool string, arguments any, says string) {
	w.t.Helper()
	before := w.runs.Load()
	if text, isError := w.call(tool, arguments); isError || !strings.Contains(text, says) {
		w.t.Errorf("%s is answered with %t, %q; want %q", tool, isError, text, says)
	}
	if now := w.runs.Load(); now != before+1 {
		w.t.Errorf("%s ran %d times", tool, now-before)
	}
}

func (w *harness) tools() (all []*sdk.Tool) {
	w.t.Helper()
	list, err := w.host.ListTools(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return list.Tools
}

type args = map[string]any
