package tests

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collected is a collector of OpenTelemetry that keeps what it is sent.
type collected struct {
	mu    sync.Mutex
	raw   [][]byte
	spans []*spans.Span
	more  chan struct{} // closed by the next request
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(data, &sent)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, data)
	for _, of := range sent.ResourceSpans {
		for _, by := range of.ScopeSpans {
			c.spans = append(c.spans, by.Spans...)
		}
	}
	close(c.more)
	c.more = make(chan struct{})
}

// await waits until there are spans with all the names in the trace.
func (c *collected) await(t *testing.T, trace string, names ...string) {
	t.Helper()
	deadline := time.After(settleWithin)
	for {
		c.mu.Lock()
		more := c.more
		var there []string
		for _, s := range c.spans {
			if hex.EncodeToString(s.TraceId) == trace {
				there = append(there, s.Name)
			}
		}
		c.mu.Unlock()
		missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(there, name) })
		if len(missing) == 0 {
			return
		}
		select {
		case <-more:
		case <-deadline:
			slices.Sort(there)
			t.Fatalf("the trace %s has no span %q, only %q", trace, missing, slices.Compact(there))
		}
	}
}

// TestTraces: an agent's trace goes on through gate, database, Temporal and settlement;
// a reviewer's has what comes of the vote. No span has a value of an argument.
func TestTraces(t *testing.T) {
	t.Parallel()
	got := &collected{more: make(chan struct{})}
	server := httptest.NewServer(got)
	defer server.Close()
	d := startDev(t, func(o *devOptions) {
		o.env = append(o.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_BSP_SCHEDULE_DELAY=100")
	})
	agent, reviewer := d.agent(t), d.reviewer(t, 0)

	asks, votes := strings.Repeat("a1", 16), strings.Repeat("b2", 16)
	traced := func(trace string) header {
		return header{"Traceparent", "00-" + trace + "-" + strings.Repeat("c3", 8) + "-01"}
	}
	args := map[string]any{"note": "lemon tree", "to": "nobody"}
	a := agent.hold("traced_call", args, traced(asks))
	reviewer.vote(a, "approve", traced(votes)).want(t, http.StatusOK)
	if v := agent.wait(a.ID); v.Status != "approved" || agent.redeem(v.Token, "traced_call", args).Status != http.StatusOK {
		t.Fatalf("the call was not approved and redeemed: %+v", v)
	}
	// The workflow's own span comes when it has ended, and nobody is promised when that is:
	// a worker settles what is decided by itself. Its activity has the trace from it.
	got.await(t, asks, "POST "+checkPath, "commit", "SignalWithStartWorkflow:Approval", "RunActivity:Settle")
	got.await(t, votes, "POST /v1/approvals/{id}/votes", "SignalWithStartWorkflow:Approval")

	unsampled := strings.Repeat("d4", 16)
	agent.propose(event("search_docs", "accept", args), header{"Traceparent", "00-" + unsampled + "-" + strings.Repeat("c3", 8) + "-00"}).want(t, http.StatusOK)
	// What is no trace begins one of its own.
	agent.propose(event("search_docs", "accept", args), header{"Traceparent", "00-zz-lemon-01"}).want(t, http.StatusOK)
	after := strings.Repeat("e5", 16)
	agent.propose(event("search_docs", "accept", args), traced(after)).want(t, http.StatusOK)
	got.await(t, after, "POST "+checkPath, "commit")

	got.mu.Lock()
	defer got.mu.Unlock()
	for _, data := range got.raw {
		if bytes.Contains(data, []byte("lemon")) || bytes.Contains(data, []byte(d.AgentKey)) {
			t.Error("a span has a value of an argument, or a key")
		}
	}
	known := map[string]bool{}
	for _, s := range got.spans {
		known[hex.EncodeToString(s.SpanId)] = true
		if hex.EncodeToString(s.TraceId) == unsampled {
			t.Errorf("%s is of a trace that nobody samples", s.Name)
		}
	}
	for _, s := range got.spans {
		if trace := hex.EncodeToString(s.TraceId); trace == after && s.Name == "commit" && !known[hex.EncodeToString(s.ParentSpanId)] {
			t.Errorf("the commit belongs to %x, which was never sent", s.ParentSpanId)
		}
	}
}
