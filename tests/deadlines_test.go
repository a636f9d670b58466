package tests

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// stormSeconds is how long BenchmarkDeadlines may take to open its approvals.
const stormSeconds = 120

var deadlines = flag.Int("deadlines", 3000, "how many approvals are due in BenchmarkDeadlines")

// BenchmarkDeadlines gives how late approvals time out of which thousands are due
// within two seconds, and how the gate answers meanwhile. Whoever opens a call
// k seconds after the first one names a tool that has k seconds less.
//
//	go test ./tests -run '^$' -bench Deadlines -benchtime 1x -deadlines 10000
func BenchmarkDeadlines(b *testing.B) {
	approvals := *deadlines
	d := startDev(b, func(o *devOptions) {
		var rules strings.Builder
		for k := range stormSeconds {
			fmt.Fprintf(&rules, "    - {tool: storm_%d, role: reviewer, needed: 1, expires_in: %ds}\n", k, stormSeconds+30-k)
		}
		o.policy = "max_pending: 100000\nrouting:\n  rules:\n" + rules.String() + "  default: {role: reviewer, needed: 1, expires_in: 1h}\n"
	})
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, d.OwnerURL)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	agent := d.agent(b)
	gate := func(until func() bool) (took []float64) {
		for !until() {
			at := time.Now()
			agent.propose(event("search_docs", "accept", nil)).want(b, http.StatusOK)
			took = append(took, time.Since(at).Seconds()*1000)
		}
		slices.Sort(took)
		return took
	}
	for range b.N {
		end := time.Now().Add(3 * time.Second)
		alone := gate(func() bool { return time.Now().After(end) })
		began := time.Now()
		var group sync.WaitGroup
		for worker := range 16 {
			group.Go(func() {
				for i := worker; i < approvals; i += 16 {
					agent.hold(fmt.Sprintf("storm_%d", min(int(time.Since(began).Seconds()), stormSeconds-1)), map[string]any{"n": i})
				}
			})
		}
		group.Wait()
		opened := time.Since(began)
		var due time.Time
		var spread float64
		if err := conn.QueryRow(ctx, `SELECT min(expires_at), extract(epoch FROM max(expires_at) - min(expires_at))::float8 FROM approvals WHERE tool LIKE 'storm_%'`).Scan(&due, &spread); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Until(due)) // the phase is the measure
		looked, left := time.Now(), approvals
		beside := gate(func() bool {
			if time.Since(looked) > 500*time.Millisecond {
				looked = time.Now()
				if err := conn.QueryRow(ctx, `SELECT count(*) FROM approvals WHERE tool LIKE 'storm_%' AND status = 'pending'`).Scan(&left); err != nil {
					b.Fatal(err)
				}
			}
			return left == 0
		})
		var half, last float64
		if err := conn.QueryRow(ctx, `SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY late), max(late) FROM
			(SELECT extract(epoch FROM ended_at - expires_at)::float8 AS late FROM approvals WHERE tool LIKE 'storm_%') x`).Scan(&half, &last); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(approvals)/opened.Seconds(), "opened/s")
		b.ReportMetric(spread, "due-within-s")
		b.ReportMetric(half, "late-p50-s")
		b.ReportMetric(last, "late-last-s")
		b.ReportMetric(beside[len(beside)/2]/alone[len(alone)/2], "gate-p50-ratio")
		b.ReportMetric(beside[len(beside)*99/100]/alone[len(alone)*99/100], "gate-p99-ratio")
	}
}
