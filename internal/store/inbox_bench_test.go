package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
)

// BenchmarkInbox gives what the inboxes take of two people, when 10,000 approvals wait
// for one of them and two for the other: half of the looks, and 95 of 100.
//
//	go test ./internal/store -run '^$' -bench Inbox -benchtime 200x
func BenchmarkInbox(b *testing.B) {
	s, owner := open(b)
	ctx := context.Background()
	const waiting = 10_000
	var group sync.WaitGroup
	for worker := range 64 {
		group.Go(func() {
			for i := worker; i < waiting+2; i += 64 {
				id, role := NewID("apr"), "many"
				if i >= waiting {
					role = "few"
				}
				o := opening(id, time.Hour+time.Duration(i)*time.Millisecond)
				o.Call.Tool, o.Call.Environment, o.Call.RiskDomain = fmt.Sprintf("tool_%d", i%200), []string{"prod", "test"}[i%2], "finance"
				o.Requirements = []engine.Requirement{{Kind: engine.Review, Role: role, Needed: 1}}
				if _, err := s.Submit(ctx, Submission{Event: event(id), Opening: o}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	if _, err := connect(b, owner).Exec(ctx, `ANALYZE approvals, waiting_calls`); err != nil {
		b.Fatal(err)
	}
	many := []Eligibility{{Roles: []string{"many"}, Voices: []string{"p"}}}
	first, err := s.Inbox.Page(ctx, many, InboxSearch{Limit: 5_000})
	if err != nil {
		b.Fatal(err)
	}
	for _, look := range []struct {
		name, role string
		search     InboxSearch
		found      int
	}{
		{"few", "few", InboxSearch{Limit: 50, Counts: true}, 2},
		{"page", "many", InboxSearch{Limit: 50, Counts: true}, waiting},
		{"live", "many", InboxSearch{Limit: 50}, waiting},
		{"middle", "many", InboxSearch{Limit: 50, Counts: true, After: first.Next}, waiting},
		{"search", "many", InboxSearch{Limit: 50, Counts: true, Words: []string{"ool_17"}}, 550},
		{"filter", "many", InboxSearch{Limit: 50, Counts: true, Tool: "tool_7", DueWithin: 2 * time.Hour, Environment: "test"}, 50},
		{"newest", "many", InboxSearch{Limit: 50, Counts: true, Order: Newest}, waiting},
		{"group", "many", InboxSearch{Limit: 50, Counts: true, Alike: true}, waiting},
	} {
		b.Run(look.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				page, err := s.Inbox.Page(ctx, []Eligibility{{Roles: []string{look.role}, Voices: []string{"p"}}}, look.search)
				if err != nil || page.Found != look.found || len(page.Rows) != min(50, look.found) {
					b.Fatalf("%d rows of %d, %v", len(page.Rows), page.Found, err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "ms/half")
			b.ReportMetric(took[len(took)*95/100].Seconds()*1e3, "ms/95")
		})
	}
}
