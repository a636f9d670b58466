package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logged "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslog "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// startEnforce runs a command that stands before a tool, and returns the address that it
// says, which the expression finds.
func startEnforce(t *testing.T, d *dev, address, command string, flags ...string) string {
	t.Helper()
	at, p := startEnforceFor(t, d, d.AgentKey, address, command, flags...)
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	})
	return at
}

// startEnforceFor runs it under an agent's key; whoever starts it ends it.
func startEnforceFor(t *testing.T, d *dev, key, address, command string, flags ...string) (string, *program) {
	t.Helper()
	says := regexp.MustCompile(address)
	dir := t.TempDir()
	routes := filepath.Join(dir, "routes.yaml")
	if err := os.WriteFile(routes, []byte("routes:\n  - {tool: enforced_transfer, method: POST, path: /transfers}\n  - {tool: enforced_close, method: DELETE, path: \"/accounts/{id}\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := run(binary(t), dir, "enforce", environment("HOLDPOINT_API_KEY="+key), func(*exec.Cmd) {}, append([]string{command, "--url", d.URL, "--routes", routes, "--listen", "127.0.0.1:0"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(readyWithin); ; time.Sleep(20 * time.Millisecond) {
		if m := says.FindStringSubmatch(p.text()); m != nil {
			return m[1], p
		}
		if p.exited() || time.Now().After(deadline) {
			t.Fatal(p.tail())
		}
	}
}

// A tool behind the proxy runs what people have approved, exactly that and once,
// however often and by whomever it is sent.
func TestEnforce(t *testing.T) {
	d := onCalled(t)
	var ran atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ran.Add(1)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, body)
	}))
	defer upstream.Close()
	front := startEnforce(t, d, `forwarding (http://\S+) to`, "enforce", "--upstream", upstream.URL)
	agent, reviewer := d.agent(t), d.reviewer(t, 0)
	approved := func(tool string, arguments map[string]any) approval {
		return approvedTool(t, agent, reviewer, tool, arguments)
	}
	send := func(method, path, token, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, front+path, bytes.NewBufferString(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Holdpoint-Token", token)
		res, err := transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer res.Body.Close()
		data, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(data)
	}
	a := approved("enforced_transfer", map[string]any{"amount": 120, "to": "DE02"})
	closing := approved("enforced_close", map[string]any{"id": "7"})
	for _, tc := range []struct {
		method, path, token, body string
		status                    int
	}{
		{"POST", "/transfers", a.Token, `{"amount":121,"to":"DE02"}`, 403},
		{"POST", "/transfers", closing.Token, `{"amount":120,"to":"DE02"}`, 403},
		{"POST", "/transfers", a.Token[:len(a.Token)-4] + "AAAA", `{"amount":120,"to":"DE02"}`, 401},
		{"DELETE", "/accounts/8", closing.Token, ``, 403},
	} {
		if status, body := send(tc.method, tc.path, tc.token, tc.body); status != tc.status || ran.Load() != 0 {
			t.Errorf("%s %s %s: %d %s, want %d; the tool ran %d times", tc.method, tc.path, tc.body, status, body, tc.status, ran.Load())
		}
	}
	const sent = `{"to":"DE02", "amount":1.2e2}`
	var all sync.WaitGroup
	var forwarded, used atomic.Int64
	for range 50 {
		all.Go(func() {
			switch status, body := send("POST", "/transfers", a.Token, sent); {
			case status == 200 && body == "POST /transfers "+sent:
				forwarded.Add(1)
			case status == 409:
				used.Add(1)
			default:
				t.Errorf("one of many: %d %s", status, body)
			}
		})
	}
	all.Wait()
	if forwarded.Load() != 1 || used.Load() != 49 || ran.Load() != 1 {
		t.Errorf("%d were forwarded, %d refused, and the tool ran %d times", forwarded.Load(), used.Load(), ran.Load())
	}
	// The answer is there before the report.
	eventually(t, settleWithin, "the report", func() bool { return agent.get(a.ID).Execution == "succeeded" })
	if status, body := send("DELETE", "/accounts/7", closing.Token, ""); status != 200 || body != "DELETE /accounts/7 " {
		t.Errorf("the other call: %d %s", status, body)
	}
}

// A permission whose agent is stopped lets nothing through, and one that was used is used, also
// by a proxy that has been killed meanwhile.
func TestEnforceEndings(t *testing.T) {
	d := onCalled(t)
	apart := newClientAgent(t, d, clientLanguage{})
	id := apart.apart()
	agent, reviewer := apart.client, d.reviewer(t, 0)
	began, hold := make(chan struct{}, 9), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}))
	defer upstream.Close()
	defer close(hold)
	front, p := startEnforceFor(t, d, agent.key, `forwarding (http://\S+) to`, "enforce", "--upstream", upstream.URL)
	body := fmt.Sprintf(`{"round":%q}`, newID("r-"))
	send := func(front, token string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front+"/transfers", bytes.NewBufferString(body))
		if err != nil {
			return 0
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Holdpoint-Token": {token}}
		res, err := transport.RoundTrip(r)
		if err != nil {
			return 0 // it was killed
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	arguments := map[string]any{}
	if err := json.Unmarshal([]byte(body), &arguments); err != nil {
		t.Fatal(err)
	}
	a := agent.hold("enforced_transfer", arguments)
	reviewer.approve(a)
	a = agent.wait(a.ID)
	kill := func(on bool) {
		d.admin(t).do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": id, "on": on, "reason": "a test"}).want(t, http.StatusOK)
	}
	kill(true)
	if status := send(front, a.Token); status != http.StatusLocked || len(began) != 0 {
		t.Errorf("stopped: %d, %d runs", status, len(began))
	}
	kill(false)
	answered := make(chan int, 1)
	go func() { answered <- send(front, a.Token) }()
	<-began
	p.kill()
	if status := <-answered; status != 0 {
		t.Errorf("killed: %d", status)
	}
	front, p = startEnforceFor(t, d, agent.key, `forwarding (http://\S+) to`, "enforce", "--upstream", upstream.URL)
	if status := send(front, a.Token); status != http.StatusConflict || len(began) != 0 {
		t.Errorf("sent again: %d, %d further runs", status, len(began))
	}
	if got := agent.get(a.ID).Execution; got != "redeemed" {
		t.Errorf("it is on record as %s", got)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// approvedTool is an approved call of a tool, with its token.
func approvedTool(t *testing.T, agent, reviewer *client, tool string, arguments map[string]any) approval {
	t.Helper()
	var waiting struct{ Approval struct{ ID string } }
	agent.do("POST", "/v1/tool-calls/check", map[string]any{"toolName": tool, "toolArgs": arguments, "agentId": "demo-agent", "environment": "dev"}).want(t, 202).into(t, &waiting)
	a := reviewer.get(waiting.Approval.ID)
	reviewer.vote(a, "approve").want(t, 200)
	return agent.wait(a.ID)
}

// An Envoy is told by its own protocol to let through what people have approved, once,
// and says in its log what became of it.
func TestExtAuthz(t *testing.T) {
	d := onCalled(t)
	address := startEnforce(t, d, `answering Envoy on (\S+)`, "ext-authz")
	agent := d.agent(t)
	a := approvedTool(t, agent, d.reviewer(t, 0), "enforced_transfer", map[string]any{"amount": 7, "to": "DE07"})
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	check := func(body string) *auth.CheckResponse {
		t.Helper()
		in := &auth.AttributeContext_HttpRequest{Method: "POST", Path: "/transfers", RawBody: []byte(body), Headers: map[string]string{
			"content-type": "application/json", "holdpoint-token": a.Token, "x-envoy-auth-partial-body": "false",
		}}
		out, err := auth.NewAuthorizationClient(conn).Check(t.Context(), &auth.CheckRequest{Attributes: &auth.AttributeContext{Request: &auth.AttributeContext_Request{Http: in}}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if no := check(`{"amount":8,"to":"DE07"}`).GetDeniedResponse(); no.GetStatus().GetCode() != 403 {
		t.Errorf("another call: %v", no)
	}
	yes := check(`{"amount":7,"to":"DE07"}`)
	if yes.GetOkResponse() == nil {
		t.Fatalf("the approved call: %v", yes)
	}
	if no := check(`{"amount":7,"to":"DE07"}`).GetDeniedResponse(); no.GetStatus().GetCode() != 409 {
		t.Errorf("again: %v", no)
	}
	log, err := accesslog.NewAccessLogServiceClient(conn).StreamAccessLogs(t.Context())
	if err == nil {
		err = log.Send(&accesslog.StreamAccessLogsMessage{LogEntries: &accesslog.StreamAccessLogsMessage_HttpLogs{
			HttpLogs: &accesslog.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: []*logged.HTTPAccessLogEntry{{
				CommonProperties: &logged.AccessLogCommon{Metadata: &core.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.filters.http.ext_authz": yes.GetDynamicMetadata()}}},
				Response:         &logged.HTTPResponseProperties{ResponseCode: wrapperspb.UInt32(200)},
			}}},
		}})
	}
	if err == nil {
		_, err = log.CloseAndRecv()
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, settleWithin, "the report", func() bool { return agent.get(a.ID).Execution == "succeeded" })
}
