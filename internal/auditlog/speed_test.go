package auditlog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/auditlog"
)

// fill writes n events as if they had been there before the log.
func fill(t testing.TB, conn *pgx.Conn, n int) {
	t.Helper()
	_, err := conn.Exec(context.Background(), `INSERT INTO events (event_id, type, outcome, agent_id, tool_name, body)
		SELECT i.id, 'decision', 'ALLOW', 'bot', 'search', convert_to('{"event_id":"' || i.id || '","type":"decision","outcome":"ALLOW","agent_id":"bot","request_id":"r",' ||
			'"tool_name":"search","actor":{"kind":"agent","id":"bot","channel":"api"},"reasons":[{"code":"route_accept","message":"The contract accepts it."}],"safe_payload":{"text":"' || repeat('x', 500) || '"}}', 'UTF8')
		FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, $1)) i`, n)
	must(t, err)
}

// cpu is what a process has used of the processors.
func cpu(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	must(t, err)
	system, err := strconv.Atoi(fields[12])
	must(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond // clock ticks
}

// BenchmarkBacklog gives how many events a second get their places when many
// wait, and what part of the time each step takes.
func BenchmarkBacklog(b *testing.B) {
	for range b.N {
		in := install(b)
		conn, reader := connect(b, in.owner), connect(b, in.owner)
		const n = 40_000
		fill(b, conn, n)
		spent, last, at := map[string]time.Duration{}, "", time.Now()
		began, own, theirs := time.Now(), cpu(b, os.Getpid()), time.Duration(0)
		stop := in.run(in.sequencer(func(q *auditlog.Sequencer) {
			q.At = func(step string) {
				if step == "keep" || step == "kept" {
					return
				}
				if step == "told" {
					var pid int
					must(b, conn.QueryRow(context.Background(), `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
						AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&pid))
					theirs = cpu(b, pid)
				}
				spent[last] += time.Since(at)
				last, at = step, time.Now()
			}
		}))
		var size int
		for size < n {
			<-time.After(100 * time.Millisecond)
			must(b, reader.QueryRow(context.Background(), `SELECT size FROM log_head`).Scan(&size))
		}
		took := time.Since(began)
		stop()
		b.ReportMetric(float64((cpu(b, os.Getpid())-own).Microseconds())/n, "own-µs/event")
		b.ReportMetric(float64(theirs.Microseconds())/n, "postgres-µs/event")
		b.ReportMetric(n/took.Seconds(), "events/s")
		for step, took := range spent {
			b.ReportMetric(float64(took.Milliseconds()), step+"-ms")
		}
	}
}

// BenchmarkSteady gives what events cost in processor time that come all the time,
// a thousand a second, each in a commit with nine others.
func BenchmarkSteady(b *testing.B) {
	in := install(b)
	ctx, conn, reader := context.Background(), connect(b, in.owner), connect(b, in.owner)
	c := in.child(order{Floor: filepath.Join(b.TempDir(), "floor"), Every: 200 * time.Millisecond})
	must(b, write(ctx, conn, 1))
	in.placed(conn, goesOn)
	leader := func() time.Duration {
		var pid int
		must(b, reader.QueryRow(ctx, `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&pid))
		return cpu(b, pid)
	}
	for range b.N {
		own, theirs, from := cpu(b, c.cmd.Process.Pid), leader(), size(b, conn)
		for began := time.Now(); time.Since(began) < 8*time.Second; {
			must(b, write(ctx, conn, 10))
			<-time.After(10 * time.Millisecond)
		}
		in.placed(conn, goesOn)
		n := float64(size(b, conn) - from)
		var batches int64
		must(b, conn.QueryRow(ctx, `SELECT count(*) FROM log_checkpoints WHERE size > $1`, from).Scan(&batches))
		b.ReportMetric(float64((cpu(b, c.cmd.Process.Pid)-own).Microseconds())/n, "own-µs/event")
		b.ReportMetric(float64((leader()-theirs).Microseconds())/n, "postgres-µs/event")
		b.ReportMetric(n/float64(batches), "events/batch")
	}
}

// BenchmarkSmallBatches gives what the log's own tables take after so many appends
// of one event each, as many as there are in twenty minutes of steady use.
func BenchmarkSmallBatches(b *testing.B) {
	for range b.N {
		in := install(b)
		ctx, conn := context.Background(), connect(b, in.owner)
		q := in.sequencer(func(q *auditlog.Sequencer) {
			q.At = func(step string) {
				if step == "safe" {
					if _, err := conn.Exec(ctx, `INSERT INTO events (event_id, type, outcome, agent_id, tool_name, body) VALUES (gen_random_uuid(), 'decision', 'ALLOW', 'bot', 'search', '{}')`); err != nil {
						b.Error(err)
					}
				}
			}
			q.Every = time.Millisecond
		})
		reader := connect(b, in.owner)
		stop := in.run(q)
		for size(b, reader) < 6000 {
			<-time.After(100 * time.Millisecond)
		}
		stop()
		for _, table := range []string{"log_tiles", "log_head", "log_checkpoints", "log_entries"} {
			var bytes int64
			must(b, reader.QueryRow(ctx, `SELECT pg_total_relation_size($1::text::regclass)`, table).Scan(&bytes))
			b.ReportMetric(float64(bytes)/1024, table+"-KB")
		}
	}
}
