package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/activities"
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

// BenchmarkBacklog gives how many events a second get their places when many
// wait, and what part of the time each step takes.
func BenchmarkBacklog(b *testing.B) {
	for range b.N {
		in := install(b)
		conn := connect(b, in.owner)
		const n = 40_000
		fill(b, conn, n)
		spent, last, at := map[string]time.Duration{}, "", time.Now()
		began := time.Now()
		stop := in.run(in.sequencer(func(q *activities.Sequencer) {
			q.At = func(step string) {
				if step == "keep" || step == "kept" {
					return
				}
				spent[last] += time.Since(at)
				last, at = step, time.Now()
			}
		}))
		in.placed(conn, 5*time.Minute)
		took := time.Since(began)
		stop()
		b.ReportMetric(n/took.Seconds(), "events/s")
		for step, took := range spent {
			b.ReportMetric(float64(took.Milliseconds()), step+"-ms")
		}
	}
}
