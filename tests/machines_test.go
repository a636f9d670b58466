package tests

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// BenchmarkMachines gives what one, two and three serves and as many workers cost on one
// Postgres and one Temporal: processor time for a decision and a cycle by part, what they
// cost while nobody asks for anything, connections, what Postgres waits for, and how late
// a thousand approvals time out that are due within a few seconds. docs/capacity.md has
// the model that these figures are for.
//
//	go test ./tests -run '^$' -bench Machines -benchtime 1x
func BenchmarkMachines(b *testing.B) {
	for _, n := range []int{1, 2, 3} {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) {
			m := machines{startCluster(b, n, n), b}
			for range b.N {
				m.idle()
				m.decide()
				m.cycles()
				m.deadlines()
			}
		})
	}
}

type machines struct {
	*cluster
	b *testing.B
}

// parts is processor time, in seconds: of all serves, of all workers, of Postgres without
// the backend that places events, of that backend, and of this process, in which Temporal
// runs and whoever asks.
type parts struct{ serve, worker, postgres, leader, here float64 }

func (m machines) parts() (p parts) {
	for _, serve := range m.serves {
		p.serve += processorTime(m.b, serve.cmd.Process.Pid) / 100
	}
	for _, worker := range m.workers {
		p.worker += processorTime(m.b, worker.cmd.Process.Pid) / 100
	}
	p.leader = processorTime(m.b, int(m.ask(`SELECT coalesce(max(pid), 0)::float8 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`))) / 100
	for _, pid := range append(descendants(m.postgres.PID()), m.postgres.PID()) {
		p.postgres += processorTime(m.b, pid) / 100
	}
	p.postgres -= p.leader
	p.here = processorTime(m.b, os.Getpid()) / 100
	return p
}

// ask asks the database for one figure.
func (m machines) ask(sql string) (figure float64) {
	m.b.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, m.OwnerURL)
	if err != nil {
		m.b.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, sql).Scan(&figure); err != nil {
		m.b.Fatal(err)
	}
	return figure
}

// report reports the time between two looks for each of n, in units of so many in a second.
func (m machines) report(what, unit string, units, n float64, from, to parts) {
	for name, took := range map[string]float64{
		"serve": to.serve - from.serve, "worker": to.worker - from.worker, "postgres": to.postgres - from.postgres, "leader": to.leader - from.leader, "here": to.here - from.here,
	} {
		m.b.ReportMetric(took*units/n, what+"-"+name+"-"+unit)
	}
}

// idle reports what they cost while nobody asks for anything.
func (m machines) idle() {
	time.Sleep(2 * time.Second) // what was under way ends
	const span = 8 * time.Second
	const commits = `SELECT sum(xact_commit)::float8 FROM pg_stat_database WHERE datname = 'holdpoint'`
	before, from := m.ask(commits), m.parts()
	time.Sleep(span)
	to := m.parts()
	time.Sleep(time.Second) // statistics come a little later
	m.report("idle", "%", 100, span.Seconds(), from, to)
	m.b.ReportMetric((m.ask(commits)-before)/(span+time.Second).Seconds(), "idle-commits/s")
}

// decide reports what a decision costs, and what Postgres waits for meanwhile.
func (m machines) decide() {
	rate(m.b, m.cluster, 64, 2*time.Second) // warm
	m.placed()
	ctx, cancel := context.WithCancel(context.Background())
	var sampling sync.WaitGroup
	waits, samples := map[string]float64{}, 0.0
	var connections []float64
	sampling.Go(func() {
		// Nobody else is told what other logins do.
		conn, err := pgx.Connect(context.Background(), m.postgres.SuperuserURL("holdpoint"))
		if err != nil {
			m.b.Error(err)
			return
		}
		defer func() { _ = conn.Close(context.Background()) }()
		for ctx.Err() == nil {
			var active, all float64
			var kinds []string
			err := conn.QueryRow(context.Background(), `SELECT count(*) FILTER (WHERE state = 'active')::float8, count(*)::float8,
				coalesce(array_agg(wait_event_type || ' ' || wait_event) FILTER (WHERE state = 'active' AND wait_event_type IN ('Lock', 'LWLock', 'IO', 'IPC')), '{}')
				FROM pg_stat_activity WHERE datname = 'holdpoint' AND pid <> pg_backend_pid()`).Scan(&active, &all, &kinds)
			if err != nil {
				m.b.Error(err)
				return
			}
			samples += active
			connections = append(connections, all)
			for _, kind := range kinds {
				waits[kind]++
			}
			time.Sleep(20 * time.Millisecond) // a sample
		}
	})
	before, from := m.ask(`SELECT count(*)::float8 FROM events`), m.parts()
	perSecond := rate(m.b, m.cluster, 64, 6*time.Second)
	behind, began := m.ask(`SELECT count(*)::float8 FROM events WHERE seq > (SELECT seq FROM log_head)`), time.Now()
	cancel()
	sampling.Wait()
	m.placed()
	took := time.Since(began)
	m.report("decision", "us", 1e6, m.ask(`SELECT count(*)::float8 FROM events`)-before, from, m.parts())
	m.b.ReportMetric(perSecond, "decisions/s")
	m.b.ReportMetric(behind, "log-behind")
	m.b.ReportMetric(took.Seconds(), "log-behind-s")
	m.b.ReportMetric(slices.Max(connections), "connections")
	m.b.ReportMetric(m.ask(`SELECT count(*)::float8 FROM pg_stat_activity WHERE datname LIKE 'temporal%'`), "temporal-connections")
	for _, kind := range []string{"Lock", "LWLock", "IO"} {
		var sum float64
		for name, n := range waits {
			if strings.HasPrefix(name, kind+" ") {
				sum += n
			}
		}
		m.b.ReportMetric(100*sum/max(samples, 1), "waits-"+kind+"-%")
	}
	m.b.Logf("of %.0f samples of statements these waited: %v", samples, waits)
}

// placed waits until all events have their places.
func (m machines) placed() {
	m.b.Helper()
	eventually(m.b, time.Minute, "the log has caught up", func() bool {
		return m.ask(`SELECT count(*)::float8 FROM events WHERE seq > (SELECT seq FROM log_head)`) == 0
	})
}

// cycles reports what calls cost that one person approves.
func (m machines) cycles() {
	const callers, span = 16, 6 * time.Second
	var mu sync.Mutex
	var took []float64
	cycle := func(caller, i int) {
		at := m.where(caller)
		agent, reviewer := m.agent(m.b).at(at), m.reviewer(m.b, caller%3).at(at)
		args := map[string]any{"caller": caller, "n": i, "run": newID("")}
		a := agent.hold("cycle_call", args)
		reviewer.approve(a)
		voted := time.Now()
		got, err := agent.await(a.ID, time.Minute)
		if err != nil || got.Token == "" {
			m.b.Errorf("%s: %q, %v", a.ID, got.Status, err)
			return
		}
		waited := time.Since(voted).Seconds() * 1000
		if got := agent.redeem(got.Token, "cycle_call", args); got.Status != http.StatusOK {
			m.b.Errorf("redeem: %s", got)
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, waited)
	}
	began, from := time.Now(), m.parts()
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := 0; time.Since(began) < span && !m.b.Failed(); i++ {
				cycle(caller, i)
			}
		})
	}
	group.Wait()
	if m.b.Failed() {
		m.b.FailNow()
	}
	slices.Sort(took)
	m.report("cycle", "ms", 1e3, float64(len(took)), from, m.parts())
	m.b.ReportMetric(float64(len(took))/time.Since(began).Seconds(), "cycles/s")
	m.b.ReportMetric(took[len(took)/2], "vote-to-token-ms")
}

// deadlines reports how late a thousand approvals time out, and what that costs.
func (m machines) deadlines() {
	const n = 1000
	var group sync.WaitGroup
	for caller := range 16 {
		agent := m.agent(m.b).at(m.where(caller))
		group.Go(func() {
			for i := caller; i < n; i += 16 {
				agent.hold("soon_call", map[string]any{"n": i, "run": newID("")})
			}
		})
	}
	group.Wait()
	from := m.parts()
	eventually(m.b, 2*time.Minute, "all have timed out", func() bool {
		return m.ask(`SELECT count(*)::float8 FROM approvals WHERE tool = 'soon_call' AND status = 'pending'`) == 0
	})
	m.report("deadline", "ms", 1e3, n, from, m.parts())
	m.b.ReportMetric(m.ask(`SELECT max(extract(epoch FROM ended_at - expires_at))::float8 FROM approvals WHERE tool = 'soon_call'`), "late-last-s")
}
