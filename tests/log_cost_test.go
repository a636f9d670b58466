package tests

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// BenchmarkLog gives what giving events their places costs the gate: its durable
// decisions a second for 64 callers with the worker at work, and with the worker
// standing still, in turns; the ratio is of the medians. Before each turn the log
// has caught up. Where other work keeps the machine busy the rates say little;
// the share is of processor time, of the worker and its part of Postgres to that
// of the gate and the rest of Postgres. It gives how long events of the busy
// turns waited, too.
//
//	go test ./tests -run '^$' -bench Log -benchtime 1x
func BenchmarkLog(b *testing.B) {
	c := startCluster(b, 1, 1)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.OwnerURL)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	get := func(into any, sql string, args ...any) {
		if err := conn.QueryRow(ctx, sql, args...).Scan(into); err != nil {
			b.Fatal(err)
		}
	}
	caughtUp := func() (size int64) {
		eventually(b, time.Minute, "the log has caught up", func() bool {
			var behind bool
			get(&behind, `SELECT (SELECT coalesce(max(seq), 0) FROM events) > (SELECT seq FROM log_head)`)
			return !behind
		})
		get(&size, `SELECT size FROM log_head`)
		return size
	}
	// spent is the processor time of the log, and of the rest.
	spent := func() (log, rest float64) {
		var leader int
		get(&leader, `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		log = processorTime(b, c.workers[0].cmd.Process.Pid) + processorTime(b, leader)
		rest = processorTime(b, c.serves[0].cmd.Process.Pid) - processorTime(b, leader)
		for _, pid := range append(descendants(c.postgres.PID()), c.postgres.PID()) {
			rest += processorTime(b, pid)
		}
		return log, rest
	}
	worker := c.workers[0].cmd.Process
	for range b.N {
		var with, without, shares, p50, p99 []float64
		rate(b, c, 64, 2*time.Second) // warm
		for range 5 {
			from := caughtUp()
			logBefore, restBefore := spent()
			with = append(with, rate(b, c, 64, 4*time.Second))
			caughtUp()
			log, rest := spent()
			shares = append(shares, 100*(log-logBefore)/(rest-restBefore))
			var waited []float64
			get(&waited, `SELECT percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY took)
				FROM (SELECT extract(epoch FROM (SELECT c.at FROM log_checkpoints c WHERE c.size > l.leaf ORDER BY c.size LIMIT 1) - l.at)::float8 * 1000 AS took
					FROM log_entries l WHERE l.leaf >= $1) x`, from)
			p50, p99 = append(p50, waited[0]), append(p99, waited[1])
			if err := worker.Signal(syscall.SIGSTOP); err != nil {
				b.Fatal(err)
			}
			without = append(without, rate(b, c, 64, 4*time.Second))
			if err := worker.Signal(syscall.SIGCONT); err != nil {
				b.Fatal(err)
			}
		}
		for _, list := range [][]float64{with, without, shares, p50, p99} {
			slices.Sort(list)
		}
		b.ReportMetric(with[2], "with/s")
		b.ReportMetric(without[2], "without/s")
		b.ReportMetric(with[2]/without[2], "ratio")
		b.ReportMetric(shares[2], "share-%")
		b.ReportMetric(p50[2], "place-p50-ms")
		b.ReportMetric(p99[2], "place-p99-ms")
		b.Logf("with %.0f, without %.0f, shares %.1f", with, without, shares)
	}
}

// processorTime is what a process has used, in clock ticks.
func processorTime(b *testing.B, pid int) float64 {
	b.Helper()
	stat := fileText(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0 // it has ended
	}
	var user, system float64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return user + system
}

// rate is how many calls a second the gates let pass for so many callers.
func rate(b *testing.B, c *cluster, callers int, lasting time.Duration) float64 {
	b.Helper()
	body := []byte(`{"tool_name":"search_docs","tool_category":"public_read","authorization_state":"none","evidence_refs":["doc:1"],"risk_domain":"research",` +
		`"proposed_arguments":{"query":"` + strings.Repeat("hold point ", 60) + `"},"recommended_route":"accept"}`)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers, MaxConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), lasting)
	defer cancel()
	ask := func(caller int) error {
		r, err := http.NewRequest(http.MethodPost, c.where(caller)+"/v1/pre-tool-check", bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+c.AgentKey)
		r.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err == nil && !bytes.Contains(text, []byte(`"gate_decision":"pass"`)) {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return err
	}
	var done atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for caller := range callers {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := ask(caller); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return float64(done.Load()) / time.Since(began).Seconds()
}
