package mcpproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// over puts the harness's server behind HTTP, and a host and a proxy before it.
func (w *harness) over(handler http.Handler) {
	w.t.Helper()
	server := httptest.NewServer(handler)
	conn, err := Remote(w.t.Context(), server.URL, http.Header{"X-Secret": {"word"}})
	if err != nil {
		w.t.Fatal(err)
	}
	fromHost, hostOut := io.Pipe()
	hostIn, toHost := io.Pipe()
	p, err := New(Config{Name: "s", Gate: w.gate, Pins: w.pins, Wait: 0, Logger: slog.New(slog.DiscardHandler)}, Lines(fromHost, toHost), conn)
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(context.WithoutCancel(w.t.Context())); toHost.Close() }()
	changed := make(chan struct{}, 10)
	client := sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
	})
	w.changed = changed
	if w.host, err = client.Connect(w.t.Context(), &sdk.IOTransport{Reader: hostIn, Writer: hostOut}, nil); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		w.host.Close()
		hostOut.Close()
		<-done
		conn.Close()
		server.CloseClientConnections()
		server.Close()
	})
}

// A server at an address: calls are gated, its own notifications come, each request
// has the headers, and what does not reach it is no success.
func TestServerAtAnAddress(t *testing.T) {
	for name, options := range map[string]*sdk.StreamableHTTPOptions{"streams": nil, "plain answers": {JSONResponse: true}} {
		t.Run(name, func(t *testing.T) {
			w := newHarness(t)
			inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return w.server }, options)
			refuse := make(chan struct{})
			w.over(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				select {
				case <-refuse:
					if bytes.Contains(body, []byte(`"tools/call"`)) {
						rw.WriteHeader(http.StatusBadGateway)
						return
					}
				default:
				}
				if r.Header.Get("X-Secret") != "word" {
					t.Errorf("%s without the header", r.Method)
				}
				inner.ServeHTTP(rw, r)
			}))
			w.runs1("pay", args{"n": 1}, "done")
			w.fake.set(func() { w.fake.outcome = "DENY" })
			w.refused("pay", args{"n": 1}, "RULE")
			// What the server says besides comes by its stream, once that is open.
			deadline := time.Now().Add(within)
			for told := false; !told; {
				if time.Now().After(deadline) {
					t.Fatal("the host is never told of a change")
				}
				w.tool("gift", time.Now().String())
				select {
				case <-w.changed:
					told = true
				case <-time.After(100 * time.Millisecond):
				}
			}
			w.refused("gift", nil, "no operator has accepted")
			w.fake.set(func() { w.fake.outcome = "REQUIRE_APPROVAL" })
			w.refused("pay", args{"n": 2}, "apr_0")
			w.fake.set(func() { w.fake.approvals[0].Status = "approved" })
			close(refuse)
			if text, isError := w.call("pay", args{"n": 2}); !isError {
				t.Errorf("%q", text)
			}
			w.fake.until(t, "a report", func() bool { return len(w.fake.reports) == 1 })
			if got := w.fake.reports[0]; got != "apr_0 unknown" {
				t.Errorf("reported: %s", got)
			}
		})
	}
}

// Nobody is at the address: the call never left.
func TestServerNotThere(t *testing.T) {
	conn, err := Remote(t.Context(), "http://127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send(t, conn, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
	m, err := conn.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := jsonrpc.EncodeMessage(m); err != nil || strings.Contains(string(text), "127.0.0.1") || !strings.Contains(string(text), "cannot be reached") {
		t.Errorf("the model is told %s, %v", text, err)
	}
	if got := outcomeOf(m.(*jsonrpc.Response), nil); got != "failed" {
		t.Errorf("%s", got)
	}
}

// An address is left out also where an error has it as a text only; what the server
// says of itself stays.
func TestWithoutAddress(t *testing.T) {
	r := &remote{address: "https://user:word@inside.example:8443/mcp?key=k"}
	if err := r.withoutAddress(errors.New(`failed: Get "https://user:***@inside.example:8443/mcp?key=k": EOF`)); err.Error() != "the server cannot be reached" {
		t.Error(err)
	}
	said := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no such account"}
	if err := r.withoutAddress(said); err != said {
		t.Error(err)
	}
}

// A redirect is not followed: the headers are for one address.
func TestNoRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect is followed") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	conn, err := Remote(t.Context(), server.URL, http.Header{"Authorization": {"Bearer x"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send(t, conn, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
	if _, err := conn.Read(t.Context()); err != nil && !strings.Contains(err.Error(), "ended") {
		t.Error(err)
	}
}
