package tests

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var mostPending = flag.Int("pending", 10_000, "BenchmarkPending: how many approvals wait in the end, up to 100,000")

// BenchmarkPending gives what approvals that wait cost everybody else: the gate, the inbox,
// a card and a vote beside 10, 1,000, 10,000 and 100,000 of them, memory and processor
// time of a program that has nothing to do, bytes, and a restart.
//
//	go test ./tests -run '^$' -bench Pending -benchtime 1x -timeout 2h -pending 100000
func BenchmarkPending(b *testing.B) {
	p := pendingBench{startDev(b, func(o *devOptions) { o.policy = "max_pending: 200000\n" + sharedPolicy })}
	there, whole := 0, b
	for _, size := range []int{10, 1_000, 10_000, 100_000} {
		if size > *mostPending {
			break
		}
		b.Run(fmt.Sprintf("waiting=%d", size), func(b *testing.B) {
			for range b.N {
				p.open(b, there, size)
				there = size
				p.beside(b)
				p.idle(b)
				if err := p.program.stop(); err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				p.dev = p.again(whole, nil)
				b.ReportMetric(time.Since(began).Seconds(), "restart-s")
				b.ReportMetric(p.vote(b), "vote-to-token-after-restart-ms")
			}
		})
	}
}

type pendingBench struct{ *dev }

// ask asks the database for one figure.
func (p pendingBench) ask(b *testing.B, sql string) (figure float64) {
	b.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, p.OwnerURL)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, sql).Scan(&figure); err != nil {
		b.Fatal(err)
	}
	return figure
}

// open opens approvals until so many wait. It reports how many a second were opened, and
// how many a second Temporal had taken by then.
func (p pendingBench) open(b *testing.B, from, to int) {
	b.Helper()
	agent := p.agent(b)
	began := time.Now()
	var group sync.WaitGroup
	for caller := range 16 {
		group.Go(func() {
			for i := from + caller; i < to; i += 16 {
				agent.hold("pending_call", map[string]any{"n": i})
			}
		})
	}
	group.Wait()
	n := float64(to - from)
	b.ReportMetric(n/time.Since(began).Seconds(), "opened/s")
	for p.ask(b, `SELECT count(*)::float8 FROM outbox`) > 0 {
		time.Sleep(20 * time.Millisecond) // the phase is the measure
	}
	b.ReportMetric(n/time.Since(began).Seconds(), "in-temporal/s")
}

// beside reports what others notice of what waits.
func (p pendingBench) beside(b *testing.B) {
	b.Helper()
	agent, reviewer := p.agent(b), p.reviewer(b, 0)
	some := agent.hold("pending_card", map[string]any{"n": newID("")})
	half := func(name string, do func()) {
		var took []float64
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			at := time.Now()
			do()
			took = append(took, time.Since(at).Seconds()*1000)
		}
		slices.Sort(took)
		b.ReportMetric(took[len(took)/2], name+"-p50-ms")
		b.ReportMetric(took[len(took)*99/100], name+"-p99-ms")
	}
	half("gate", func() { agent.propose(event("search_docs", "accept", nil)).want(b, http.StatusOK) })
	half("inbox", func() { reviewer.do("GET", "/", nil).want(b, http.StatusOK) })
	half("card", func() { reviewer.do("GET", "/approvals/"+some.ID, nil).want(b, http.StatusOK) })
	b.ReportMetric(p.vote(b), "vote-to-token-ms")
}

// vote gives the median of how long a token takes after its vote, in milliseconds.
func (p pendingBench) vote(b *testing.B) float64 {
	b.Helper()
	agent, reviewer := p.agent(b), p.reviewer(b, 0)
	var took []float64
	for range 10 {
		a := agent.hold("pending_vote", map[string]any{"n": newID("")})
		at := time.Now()
		reviewer.approve(a)
		if got := agent.wait(a.ID); got.Token == "" {
			b.Fatalf("%s is %s", a.ID, got.Status)
		}
		took = append(took, time.Since(at).Seconds()*1000)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// idle reports what the program and its Postgres use while nobody asks for anything.
func (p pendingBench) idle(b *testing.B) {
	b.Helper()
	const quiet = 10 * time.Second
	time.Sleep(2 * time.Second) // what was under way ends
	before := p.spent(b)
	time.Sleep(quiet)
	b.ReportMetric(100*(p.spent(b)-before)/quiet.Seconds(), "idle-cpu-%")
	b.ReportMetric(resident(b, p.PID), "MiB")
	b.ReportMetric(p.ask(b, `SELECT sum(pg_database_size(oid))::float8 / (1 << 20) FROM pg_database`), "database-MiB")
}

// spent is the processor time of the program and of what it started, in seconds.
func (p pendingBench) spent(b *testing.B) (seconds float64) {
	b.Helper()
	out, err := exec.Command("ps", "-e", "-o", "pid=,ppid=").Output()
	if err != nil {
		b.Fatal(err)
	}
	parents := map[int]int{}
	for line := range strings.Lines(string(out)) {
		var pid, parent int
		if _, err := fmt.Sscan(line, &pid, &parent); err == nil {
			parents[pid] = parent
		}
	}
	for pid := range parents {
		for up := pid; up > 1; up = parents[up] {
			if up != p.PID {
				continue
			}
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				break // it has ended
			}
			_, rest, _ := strings.Cut(string(text), ") ")
			fields := strings.Fields(rest)
			for _, ticks := range fields[11:13] { // utime and stime, in hundredths
				n, err := strconv.ParseFloat(ticks, 64)
				if err != nil {
					b.Fatal(err)
				}
				seconds += n / 100
			}
			break
		}
	}
	return seconds
}
