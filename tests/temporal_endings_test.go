package tests

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	holdpoint "holdpoint.example/client"
	holdpointtemporal "holdpoint.example/client/temporal"
)

// TestTemporalEndings: what a gated activity of a workflow comes to in every other way:
// accepted or refused at once, too late, stopped, without a server, and lost in the
// middle. It runs once at most.
func TestTemporalEndings(t *testing.T) {
	d := onCalled(t)
	ours := func() *holdpoint.Client { return &holdpoint.Client{URL: d.URL, Key: d.AgentKey} }

	t.Run("accept and refuse", func(t *testing.T) {
		t.Parallel()
		read := holdpointtemporal.Tool{Name: "search_docs", Category: "public_read", RiskDomain: "research"}
		a := d.temporalTool(t, "Search", nil, read, ours())
		if result, _, err := a.ends(a.begins(agentWorkflow, a.tool, payment{"Ann", 1})); err != nil || result != "paid Ann" || a.runs.Load() != 1 {
			t.Errorf("accepted: %q, %v, %d runs", result, err, a.runs.Load())
		}
		read.Evidence = []any{map[string]any{"source_id": "x:1", "kind": "other", "trust_tier": "runtime", "redaction_status": "redacted", "summary": "password=hunter2hunter2 AKIAIOSFODNN7EXAMPLE", "provenance": "runtime"}}
		a = d.temporalTool(t, "Search", nil, read, ours())
		if _, kind, err := a.ends(a.begins(agentWorkflow, a.tool, payment{"Ann", 1})); kind != holdpointtemporal.Refused || a.runs.Load() != 0 {
			t.Errorf("refused: %v, %d runs", err, a.runs.Load())
		}
	})

	t.Run("expire", func(t *testing.T) {
		t.Parallel()
		a := d.temporalTool(t, "brief_Pay", nil, holdpointtemporal.Tool{}, ours())
		if _, kind, err := a.ends(a.begins(agentWorkflow, a.tool, payment{"Ann", 1})); kind != holdpointtemporal.Refused || !strings.Contains(err.Error(), "expired") || a.runs.Load() != 0 {
			t.Errorf("%v, %d runs", err, a.runs.Load())
		}
	})

	t.Run("kill switch", func(t *testing.T) {
		t.Parallel()
		stopped := newClientAgent(t, d, clientLanguage{})
		id := stopped.apart()
		turn := func(on bool) {
			d.admin(t).do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": id, "on": on, "reason": "a test"}).want(t, http.StatusOK)
		}
		var once sync.Once
		stopped.proxy.on(func(r *http.Request, _ func()) bool {
			if r.URL.Path == redeemPath {
				once.Do(func() { turn(true) })
			}
			return false
		})
		a := d.temporalTool(t, "Pay", nil, holdpointtemporal.Tool{}, &holdpoint.Client{URL: stopped.proxy.url, Key: stopped.client.key})
		run := a.begins(agentWorkflow, a.tool, payment{"Ann", 1})
		d.reviewer(t, 0).approve(a.opened(stopped.client))
		if _, kind, err := a.ends(run); kind != holdpointtemporal.Refused || !strings.Contains(err.Error(), "kill") || a.runs.Load() != 0 {
			t.Errorf("%v, %d runs", err, a.runs.Load())
		}
		turn(false)
	})

	t.Run("server down", func(t *testing.T) {
		t.Parallel()
		agent := newClientAgent(t, d, clientLanguage{})
		agent.apart()
		asked := make(chan struct{}, 3)
		agent.proxy.on(func(*http.Request, func()) bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			return true // no answer
		})
		read := holdpointtemporal.Tool{Name: "search_docs", Category: "public_read", RiskDomain: "research"}
		a := d.temporalTool(t, "Search", nil, read, &holdpoint.Client{URL: agent.proxy.url, Key: agent.client.key})
		run := a.begins(agentWorkflow, a.tool, payment{"Ann", 1})
		for range 3 {
			<-asked
		}
		if a.runs.Load() != 0 {
			t.Errorf("%d runs without an answer", a.runs.Load())
		}
		agent.proxy.on(nil)
		if result, _, err := a.ends(run); err != nil || result != "paid Ann" || a.runs.Load() != 1 {
			t.Errorf("it is back: %q, %v, %d runs", result, err, a.runs.Load())
		}
	})

	// Temporal cannot tell a worker that was killed from one that does not come back: in
	// both cases the attempt's time passes, and there is another.
	t.Run("lost in the middle", func(t *testing.T) {
		t.Parallel()
		a := d.temporalAgent(t, nil)
		a.lost = true
		run := a.begins(agentPatience, a.tool, payment{"Ann", 1}, 10*time.Second)
		d.reviewer(t, 0).approve(a.opened(d.agent(t)))
		if _, kind, err := a.ends(run); kind != holdpointtemporal.OutcomeUnknown || a.runs.Load() != 1 {
			t.Errorf("%v, %d runs", err, a.runs.Load())
		}
	})
}
