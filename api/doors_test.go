package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"holdpoint/api"
)

// The metrics are for a key that administers, or for an address of their own.
func TestMetricsAreNotPublic(t *testing.T) {
	h := newHarness(t)
	h.get("/metrics").want(t, 401, "unauthenticated")
	h.do("GET", "/metrics", "Authorization", "Bearer checking").want(t, 403, "scope_missing")
	if got := h.do("GET", "/metrics", "Authorization", "Bearer ruling"); got.StatusCode != 200 || !strings.Contains(string(got.body), "holdpoint_in_flight_calls 0") {
		t.Errorf("with an administrator's key: %d %.80s", got.StatusCode, got.body)
	}
	own := httptest.NewServer(api.NewMetrics(prometheus.NewRegistry()).Handler())
	defer own.Close()
	for path, want := range map[string]int{"/metrics": 200, "/": 404, "/v1/approvals": 404, "/readyz": 404} {
		res, err := http.Get(own.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("at its own address, %s: %d, want %d", path, res.StatusCode, want)
		}
	}
}

// A worker says whether it is alive and ready, and its figures, at an address of their
// own; while something is missing that it needs, it is not ready.
func TestMonitoring(t *testing.T) {
	missing := errors.New("missing")
	own := httptest.NewServer(api.Monitoring(prometheus.NewRegistry(), []api.Probe{
		{Name: "postgres", Required: true, Ask: func(context.Context) error { return nil }},
		{Name: "temporal", Required: true, Ask: func(context.Context) error { return missing }},
	}))
	defer own.Close()
	get := func(path string, status int, says string) {
		t.Helper()
		res, err := http.Get(own.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != status || !strings.Contains(string(body), says) {
			t.Errorf("%s: %d %s, want %d %s", path, res.StatusCode, body, status, says)
		}
	}
	get("/healthz", 200, `"ok"`)
	get("/readyz", 503, `{"status":"unavailable","missing":["temporal"]}`)
	get("/metrics", 200, "")
	get("/", 404, "")
	get("/v1/approvals", 404, "")
	missing = nil
	get("/readyz", 200, `{"status":"ok","missing":[]}`)
}

// A request whose length can be read in two ways is the last of its connection:
// nothing that was sent behind it is taken for a request.
func TestTwoLengthsEndTheConnection(t *testing.T) {
	asked := make(chan string, 10)
	handler := api.Observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- r.URL.Path
	}), slog.New(slog.DiscardHandler), api.NewMetrics(prometheus.NewRegistry()), noop.Tracer{})
	server := httptest.NewServer(handler)
	defer server.Close()
	for name, tc := range map[string]struct {
		headers string
		closes  bool
	}{
		"both":         {"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", true},
		"both, turned": {"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", true},
		"a length":     {"Content-Length: 5\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := fmt.Fprintf(conn, "POST /first HTTP/1.1\r\nHost: h\r\n%s\r\n0\r\n\r\nGET /second HTTP/1.1\r\nHost: h\r\n\r\n", tc.headers); err != nil {
				t.Fatal(err)
			}
			from := bufio.NewReader(conn)
			first, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, first.Body)
			if first.Close != tc.closes {
				t.Errorf("the connection closes: %t, want %t", first.Close, tc.closes)
			}
			second, err := http.ReadResponse(from, nil)
			if (err != nil) != tc.closes {
				t.Errorf("after it: %v, %v", second, err)
			}
			if got := <-asked; got != "/first" {
				t.Errorf("asked for %s", got)
			}
			select {
			case got := <-asked:
				if tc.closes {
					t.Errorf("%s was taken for a request", got)
				}
			default:
			}
		})
	}
}

// A server that was made without exports says so.
func TestWithoutExports(t *testing.T) {
	newHarness(t).ask("/v1/audit/export").want(t, http.StatusNotFound, "no_exports")
}
