package tests

import (
	"flag"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var soakFor = flag.Duration("soak", time.Minute, "BenchmarkSoak: for how long")

// BenchmarkSoak is a day's work, made short: fifty calls a second that are decided at once,
// and one that a person approves and whose token is redeemed. It gives the memory of the
// program, Temporal included, over time, and what each event takes in the databases; the
// -v flag shows both for every tenth of the time.
//
//	go test ./tests -run '^$' -bench Soak -benchtime 1x -timeout 2h -v -soak 1h
func BenchmarkSoak(b *testing.B) {
	d := startDev(b, nil)
	agent, reviewer := d.agent(b), d.reviewer(b, 0)
	ask := func(sql string) (figure float64) {
		conn, err := pgx.Connect(b.Context(), d.OwnerURL)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = conn.Close(b.Context()) }()
		if err := conn.QueryRow(b.Context(), sql).Scan(&figure); err != nil {
			b.Fatal(err)
		}
		return figure
	}
	const events, bytes = `SELECT count(*)::float8 FROM events`, `SELECT sum(pg_database_size(oid))::float8 FROM pg_database`
	n, second := 0, time.NewTicker(time.Second)
	defer second.Stop()
	work := func() { // of one second
		for range 50 {
			agent.propose(event("search_docs", "accept", nil)).want(b, http.StatusOK)
		}
		n++
		args := map[string]any{"n": n}
		a := agent.hold("soak_call", args)
		reviewer.approve(a)
		got, err := agent.await(a.ID, time.Minute)
		if err != nil || got.Token == "" {
			b.Fatalf("%s: %q, %v", a.ID, got.Status, err)
		}
		agent.redeem(got.Token, "soak_call", args).want(b, http.StatusOK)
		<-second.C
	}
	for range b.N {
		var memory []float64
		began, firstEvents, firstBytes := time.Now(), ask(events), ask(bytes)
		for tenth := 1; tenth <= 10; tenth++ {
			for time.Since(began) < *soakFor*time.Duration(tenth)/10 {
				work()
			}
			memory = append(memory, resident(b, d.PID))
			written := ask(events) - firstEvents
			b.Logf("%v: %.0f MiB, %.0f events of %.0f bytes, %d approvals", time.Since(began).Round(time.Second),
				memory[tenth-1], written, (ask(bytes)-firstBytes)/written, n)
		}
		written := ask(events) - firstEvents
		b.ReportMetric(memory[0], "MiB-first")
		b.ReportMetric(memory[9], "MiB-last")
		b.ReportMetric(written, "events")
		b.ReportMetric((ask(bytes)-firstBytes)/written, "bytes/event")
	}
}
