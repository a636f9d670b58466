package web

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdpoint/engine/registry"
)

// TestKillSwitchShowsAtOnce: an open inbox and an open card are told that a kill switch was turned,
// though nothing of the calls has changed: the row says it with the reason, in words that are
// said, too; the card, and a list when all are stopped, load themselves again. A page that
// shows it already is told nothing.
func TestKillSwitchShowsAtOnce(t *testing.T) {
	var now atomic.Pointer[registry.Snapshot]
	now.Store(&registry.Snapshot{})
	stops := make(chan (chan struct{}), 10)
	c := start(t, func(cfg *Config) {
		cfg.InForce = func() InForce { return InForce{Registered: now.Load()} }
		cfg.Stops = func(context.Context) <-chan struct{} {
			stop := make(chan struct{}, 1)
			stops <- stop
			return stop
		}
	})
	c.m.fill(3)
	agent := c.m.cards["apr_001"].Approval.Call.AgentID
	turn := func(of ...string) {
		kills := map[string]registry.Kill{}
		for i, id := range of {
			kills[id] = registry.Kill{AgentID: id, Reason: "pays <twice>", At: epoch.Add(time.Duration(i) * time.Second)}
		}
		now.Store(&registry.Snapshot{Kills: kills})
	}
	c.signIn("ada@example.com")
	live := func(page string) (next func() (rowsChange, string)) {
		t.Helper()
		_, address, _ := strings.Cut(c.get(page).body, `data-live="`)
		address, _, _ = strings.Cut(address, `"`)
		next = c.events(t, strings.ReplaceAll(address, "&amp;", "&"))
		if _, kind := next(); kind != "here" {
			t.Fatalf("%s: a page that is true is told %q", page, kind)
		}
		return next
	}
	told := func(next func() (rowsChange, string), stop chan struct{}) (rowsChange, string) {
		stop <- struct{}{}
		for {
			if change, kind := next(); kind != "here" {
				return change, kind
			}
		}
	}
	inbox := live("/")
	listing := <-stops
	turn(agent)
	change, kind := told(inbox, listing)
	if kind != "rows" || len(change.Put) != 3 || !strings.Contains(change.Put[0].HTML, `data-testid="row-stopped"`) || !strings.Contains(change.Put[0].HTML, "pays &lt;twice&gt;") ||
		change.Say != "3 calls wait for you. Stopped by the kill switch: billing-agent" {
		t.Errorf("a stopped agent: %q %+v", kind, change)
	}
	c.get("/").want(t, http.StatusOK, `data-say="`+change.Say+`"`, "pays &lt;twice&gt;")
	turn()
	if change, kind = told(inbox, listing); kind != "rows" || len(change.Put) != 3 || strings.Contains(change.Put[0].HTML, "row-stopped") {
		t.Errorf("released: %q %+v", kind, change)
	}
	turn("")
	if _, kind = told(inbox, listing); kind != "changed" {
		t.Errorf("all are stopped: %q", kind)
	}
	turn()
	card := live("/approvals/apr_001")
	carding := <-stops
	turn("agt_other", agent)
	if _, kind = told(card, carding); kind != "changed" {
		t.Errorf("the card: %q", kind)
	}
	c.get("/approvals/apr_001").want(t, http.StatusOK, `data-testid="agent-stopped"`)
	live("/approvals/apr_001") // which says it, and so is true
	live("/")
}
