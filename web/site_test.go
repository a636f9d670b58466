package web

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/gate"
	"holdpoint/internal/report"
)

// slowHistory says who looks, and answers once it may.
type slowHistory struct {
	*fakeGate
	looks chan string
	may   chan struct{}

	mu     sync.Mutex
	inside map[string]int
	most   map[string]int
}

func (h *slowHistory) History(ctx context.Context, p engine.Person, search gate.HistorySearch) (gate.HistoryPage, error) {
	h.mu.Lock()
	h.inside[p.ID]++
	h.most[p.ID] = max(h.most[p.ID], h.inside[p.ID])
	h.mu.Unlock()
	h.looks <- p.ID
	<-h.may
	h.mu.Lock()
	h.inside[p.ID]--
	h.mu.Unlock()
	return h.fakeGate.History(ctx, p, search)
}

// slowReports does the same.
type slowReports struct {
	*reports
	looks chan string
	may   chan struct{}
}

func (r *slowReports) Statistics(_ context.Context, since, until time.Time) (report.StatisticsReport, error) {
	r.looks <- "statistics"
	<-r.may
	return report.StatisticsReport{Since: epoch.AddDate(0, 0, -30), Until: epoch}, nil
}

// Reports are made in turns as well, and keep nobody from their other pages.
func TestReportsOfOneAreMadeInTurns(t *testing.T) {
	slow := &slowReports{reports: &reports{}, looks: make(chan string, 100), may: make(chan struct{})}
	c := start(t, func(cfg *Config) { cfg.Reports = slow }).signIn("aude@example.com")
	const asked = 2 * mostPages
	var pages sync.WaitGroup
	for range asked {
		pages.Go(func() {
			if got := c.get("/audit/statistics"); got.StatusCode != http.StatusOK {
				t.Errorf("a report is %d", got.StatusCode)
			}
		})
	}
	for range mostReports {
		<-slow.looks
	}
	for range asked { // whenever the others have come, this page waits for none of them
		c.get("/history").want(t, http.StatusOK)
	}
	if len(slow.looks) > 0 {
		t.Errorf("%d reports more are being made", len(slow.looks))
	}
	close(slow.may)
	pages.Wait()
	if len(slow.looks) != asked-mostReports {
		t.Errorf("%d more were made, want %d", len(slow.looks), asked-mostReports)
	}
}

// However many pages somebody asks for at once, a few are made at a time, all are at last,
// and nobody else waits for them.
func TestPagesOfOneAreMadeInTurns(t *testing.T) {
	slow := &slowHistory{looks: make(chan string, 100), may: make(chan struct{}), inside: map[string]int{}, most: map[string]int{}}
	c := start(t, func(cfg *Config) {
		slow.fakeGate = cfg.History.(*fakeGate)
		cfg.History = slow
	}).signIn("ada@example.com")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, browser := *c, *c.Client
	browser.Jar = jar
	other.Client = &browser
	grace := other.signIn("grace@example.com")
	const asked = 5 * mostPages
	var pages sync.WaitGroup
	for range asked {
		pages.Go(func() {
			if got := c.get("/history"); got.StatusCode != http.StatusOK {
				t.Errorf("a page is %d", got.StatusCode)
			}
		})
	}
	for range mostPages {
		<-slow.looks
	}
	pages.Go(func() { grace.get("/history").want(t, http.StatusOK) })
	if who := <-slow.looks; who != "usr_grace" {
		t.Errorf("%s looks, want grace: ada has as many as she may have at once", who)
	}
	close(slow.may)
	pages.Wait()
	if len(slow.looks) != asked-mostPages || slow.most["usr_ada"] != mostPages {
		t.Errorf("%d more looked, at most %d at once; want %d and %d", len(slow.looks), slow.most["usr_ada"], asked-mostPages, mostPages)
	}
}
