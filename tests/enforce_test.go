package tests

import (
	"bytes"
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
)

var forwarding = regexp.MustCompile(`forwarding (http://\S+) to`)

// startEnforce runs "holdpoint enforce" before an upstream, and returns its address.
func startEnforce(t *testing.T, d *dev, upstream string) string {
	t.Helper()
	dir := t.TempDir()
	routes := filepath.Join(dir, "routes.yaml")
	if err := os.WriteFile(routes, []byte("routes:\n  - {tool: enforced_transfer, method: POST, path: /transfers}\n  - {tool: enforced_close, method: DELETE, path: \"/accounts/{id}\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := run(binary(t), dir, "enforce", environment("HOLDPOINT_API_KEY="+d.AgentKey), func(*exec.Cmd) {}, "enforce", "--url", d.URL, "--upstream", upstream, "--routes", routes, "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(readyWithin); ; time.Sleep(20 * time.Millisecond) {
		if m := forwarding.FindStringSubmatch(p.text()); m != nil {
			return m[1]
		}
		if p.exited() || time.Now().After(deadline) {
			t.Fatal(p.tail())
		}
	}
}

// A tool behind the proxy runs what people have approved, exactly that and once,
// however often and by whomever it is sent.
func TestEnforce(t *testing.T) {
	d := onShared(t)
	var ran atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ran.Add(1)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, body)
	}))
	defer upstream.Close()
	front := startEnforce(t, d, upstream.URL)
	agent, reviewer := d.agent(t), d.reviewer(t, 0)
	approved := func(tool string, arguments map[string]any) approval {
		t.Helper()
		var waiting struct{ Approval struct{ ID string } }
		agent.do("POST", "/v1/tool-calls/check", map[string]any{"toolName": tool, "toolArgs": arguments, "agentId": "demo-agent", "environment": "dev"}).want(t, 202).into(t, &waiting)
		a := reviewer.get(waiting.Approval.ID)
		reviewer.vote(a, "approve").want(t, 200)
		return agent.wait(a.ID)
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
