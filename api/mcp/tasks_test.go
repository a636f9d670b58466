package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The result of a task comes when people have decided, without the token; over HTTP the wait
// for it has an end, and a client asks again.
func TestTaskResult(t *testing.T) {
	for name, c := range map[string]struct {
		once    bool
		decides time.Duration
		want    string
	}{
		"over standard input": {false, 3 * time.Minute, "Approved: call holdpoint_redeem"},
		"over HTTP":           {true, 20 * time.Second, "Approved: call holdpoint_redeem"},
		"over HTTP, later":    {true, 3 * time.Minute, "ask for the result again"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				tools := toolsOver(t, func(w http.ResponseWriter, r *http.Request) {
					left := c.decides - time.Since(began)
					if r.URL.Query().Has("wait") && left > 0 {
						time.Sleep(min(left, 50*time.Second))
						left = c.decides - time.Since(began)
						if left > 0 {
							w.WriteHeader(http.StatusNotModified)
							return
						}
					}
					if left > 0 {
						io.WriteString(w, pendingApproval)
						return
					}
					io.WriteString(w, approvedApproval)
				})
				ctx := context.WithValue(t.Context(), callerKey{}, caller{connected: t.Context(), waiting: t.Context(), once: c.once})
				answer, err := tools.taskResult(ctx, nil, "apr_a")
				var got string
				if err != nil {
					got = err.Error()
				} else {
					data, _ := json.Marshal(answer)
					if got = string(data); strings.Contains(got, "resumption_token") || !strings.Contains(got, `"taskId":"apr_a"`) {
						t.Errorf("the result is %s", got)
					}
				}
				if !strings.Contains(got, c.want) || c.once && time.Since(began) > longestWait*time.Second {
					t.Errorf("after %s: %s", time.Since(began), got)
				}
			})
		})
	}
}

// What a client asks about tasks is answered by the API's own word, or by an error.
func TestTaskErrors(t *testing.T) {
	tools := toolsOver(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/approvals/apr_a":
			io.WriteString(w, approvedApproval)
		case "/v1/approvals":
			io.WriteString(w, `{"approvals":[`+pendingApproval+`,`+approvedApproval+`],"next_cursor":"n"}`)
		case "/v1/approvals/apr_other":
			io.WriteString(w, approvedApproval)
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"code":"not_found","detail":"There is no such approval."}`)
		}
	})
	server := httptest.NewServer(tools.Handler())
	defer server.Close()
	ask := func(version, message string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,`+message+`}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {version}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	hello := func(version string) string {
		return `"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`
	}
	for _, c := range []struct{ message, want string }{
		{hello(tasksVersion), `"tasks":{"list":{},"requests":{"tools":{"call":{}}}}`},
		{`"method":"tools/list"`, `"execution":{"taskSupport":"optional"}`},
		{`"method":"tools/call","params":{"name":"holdpoint_await","arguments":{"approval_id":"apr_a"},"task":{"ttl":1}}`, `"task":{"taskId":"apr_a","status":"completed"`},
		{`"method":"tools/call","params":{"name":"holdpoint_await","arguments":{"approval_id":"apr_a"},"task":7}`, `"isError"`},
		{`"method":"tools/call","params":{"name":"holdpoint_await","arguments":{"approval_id":7},"task":{}}`, `-32602`},
		{`"method":"tools/call","params":{"name":"holdpoint_await","task":{}}`, `-32602`},
		{`"method":"tools/call","params":{"name":"holdpoint_cancel","arguments":{"approval_id":"apr_a"},"task":{}}`, `-32601`},
		{`"method":"tasks/get","params":{"taskId":"apr_a"}`, `"ttl":null`},
		{`"method":"tasks/get","params":{"taskId":"apr_b"}`, `-32602`},
		{`"method":"tasks/get","params":{"taskId":"apr_other"}`, `-32603`},
		{`"method":"tasks/get","params":{"taskId":"../keys"}`, `-32602`},
		{`"method":"tasks/get"`, `-32602`},
		{`"method":"tasks/result","params":{"taskId":"apr_b"}`, `-32602`},
		{`"method":"tasks/list"`, `"nextCursor":"n"`},
		{`"method":"tasks/cancel","params":{"taskId":"apr_a"}`, `unsupported`},
	} {
		got := ask(tasksVersion, c.message)
		if c.want == `"isError"` { // what is no task is an ordinary call
			if strings.Contains(got, `"task":{`) || !strings.Contains(got, "Approved") {
				t.Errorf("%s: %s", c.message, got)
			}
			continue
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.message, got, c.want)
		}
	}
	if got := ask("2025-06-18", hello("2025-06-18")); strings.Contains(got, `"tasks"`) || !strings.Contains(got, `"tools"`) {
		t.Errorf("an older client is offered %s", got)
	}
	var nobody *jsonrpc.Error
	if _, err := tools.listTasks(t.Context(), ""); !errors.As(err, &nobody) {
		t.Errorf("nobody is shown tasks: %v", err)
	}
	if _, err := tools.taskResult(t.Context(), nil, "apr_a"); !errors.As(err, &nobody) {
		t.Errorf("nobody is shown a result: %v", err)
	}
	var none sdk.Result = taskAnswer{&sdk.ListToolsResult{}, introduced}
	if _, err := json.Marshal(none); err == nil {
		t.Error("an answer without capabilities gets some")
	}
}
