package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	pendingApproval  = `{"id":"apr_a","status":"pending","links":{"review":"https://holdpoint.example.com/approvals/apr_a"}}`
	approvedApproval = `{"id":"apr_a","status":"approved","resumption_token":"t"}`
)

// toolsOver are the tools over an API.
func toolsOver(t *testing.T, api http.HandlerFunc) *Tools {
	t.Helper()
	tools, err := New(Config{URL: "http://in-process", Door: InProcess(api), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// A client that asks for progress is told at once and every few seconds, and never after the answer.
func TestProgressIsToldWhileACallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := toolsOver(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("wait") {
				time.Sleep(12 * time.Second)
				w.WriteHeader(http.StatusNotModified)
				return
			}
			io.WriteString(w, pendingApproval)
		})
		var told []float64
		req := request{caller: caller{connected: t.Context(), waiting: t.Context()}, tell: func(_ context.Context, p *sdk.ProgressNotificationParams) {
			told = append(told, p.Progress)
			if p.Total != 12 || !strings.HasSuffix(p.Message, "/approvals/apr_a") {
				t.Errorf("%+v", p)
			}
		}}
		for seconds, want := range map[string][]float64{"12": {0, 5, 10}, "0": nil} {
			told = nil
			req.arguments = json.RawMessage(`{"approval_id":"apr_a","timeout_seconds":` + seconds + `}`)
			if _, err := tools.await(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if !slices.Equal(told, want) {
				t.Errorf("waiting for %s s: told at %v, want %v", seconds, told, want)
			}
		}
	})
}

// A question that is asked meanwhile is told at once, and in the answer.
func TestProgressTellsWhatIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := strings.Replace(pendingApproval, "{", `{"question":{"text":"Which invoice?"},`, 1)
		tools := toolsOver(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !r.URL.Query().Has("wait"):
				io.WriteString(w, pendingApproval)
			case r.Header.Get("If-None-Match") == "2":
				time.Sleep(9 * time.Second)
				w.WriteHeader(http.StatusNotModified)
			default:
				time.Sleep(3 * time.Second)
				w.Header().Set("ETag", "2")
				io.WriteString(w, asked)
			}
		})
		const says = `A reviewer asks: "Which invoice?" The agent's owner answers at https://holdpoint.example.com/approvals/apr_a.`
		var told []string
		req := request{caller: caller{connected: t.Context(), waiting: t.Context()}, arguments: json.RawMessage(`{"approval_id":"apr_a","timeout_seconds":12}`), tell: func(_ context.Context, p *sdk.ProgressNotificationParams) {
			told = append(told, fmt.Sprint(p.Progress, strings.HasSuffix(p.Message, says)))
		}}
		got, err := tools.await(t.Context(), req)
		if err != nil || !strings.HasSuffix(got.say, says) {
			t.Errorf("%+v, %v", got, err)
		}
		if want := []string{"0 false", "3 true", "5 true", "10 true"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// Over HTTP progress comes before the answer, and only who asks for it gets events.
func TestProgressComesBeforeTheAnswer(t *testing.T) {
	for _, version := range []string{"", "2025-11-25", "2025-03-26"} {
		t.Run("version "+version, func(t *testing.T) {
			told := make(chan *sdk.ProgressNotificationParams, 8)
			tools := toolsOver(t, func(w http.ResponseWriter, r *http.Request) {
				if !r.URL.Query().Has("wait") {
					io.WriteString(w, pendingApproval)
					return
				}
				select { // the answer is not there before the client has been told
				case p := <-told:
					if p.ProgressToken != "p-1" || !strings.Contains(p.Message, "apr_a") {
						t.Errorf("%+v", p)
					}
				case <-r.Context().Done():
				}
				io.WriteString(w, approvedApproval)
			})
			server := httptest.NewServer(tools.Handler())
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			client := sdk.NewClient(&sdk.Implementation{Name: "tests", Version: "1"}, &sdk.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { told <- r.Params },
			})
			s, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: server.URL, MaxRetries: -1}, &sdk.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			params := &sdk.CallToolParams{Name: awaitTool, Arguments: map[string]any{"approval_id": "apr_a"}, Meta: sdk.Meta{"progressToken": "p-1"}}
			answer, err := s.CallTool(ctx, params)
			if err != nil || answer.IsError || !strings.HasPrefix(answer.Content[0].(*sdk.TextContent).Text, "Approved") {
				t.Errorf("%v, %+v", err, answer)
			}
		})
	}
}

func TestOnlyProgressIsStreamed(t *testing.T) {
	tools := toolsOver(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, approvedApproval) })
	server := httptest.NewServer(tools.Handler())
	defer server.Close()
	for name, c := range map[string]struct{ message, kind string }{
		"asked for":      {`{"name":"holdpoint_await","arguments":{"approval_id":"apr_a"},"_meta":{"progressToken":7}}`, "text/event-stream"},
		"not asked for":  {`{"name":"holdpoint_await","arguments":{"approval_id":"apr_a"}}`, "application/json"},
		"no token":       {`{"name":"holdpoint_await","arguments":{"approval_id":"apr_a"},"_meta":{"progressToken":{}}}`, "application/json"},
		"half a number":  {`{"name":"holdpoint_await","arguments":{"approval_id":"apr_a"},"_meta":{"progressToken":7.5}}`, "application/json"},
		"of another":     {`{"name":"holdpoint_cancel","arguments":{"approval_id":"apr_a"},"_meta":{"progressToken":7}}`, "application/json"},
		"no parameters":  {`[]`, "application/json"},
		"another method": {`{"name":"holdpoint_await","_meta":{"progressToken":7}},"method":"tools/list"`, "application/json"},
	} {
		message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + c.message + `}`
		if name == "another method" {
			message = `{"jsonrpc":"2.0","id":1,"params":` + c.message + `}`
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if kind := res.Header.Get("Content-Type"); err != nil || kind != c.kind || res.Header.Get("Cache-Control") != "no-store" || !strings.Contains(string(body), `"jsonrpc":"2.0"`) {
			t.Errorf("%s: %v %s, %s", name, err, res.Header, body)
		}
		if events := c.kind == "text/event-stream"; (res.Header.Get("X-Accel-Buffering") == "no") != events || events && !strings.Contains(string(body), "data: ") {
			t.Errorf("%s: %s", name, body)
		}
	}
}
