package store

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// fillLog is a log of any size, made by SQL. It has what makes a search hard: a
// few agents have most events; the busiest but one was never denied anything; the
// third was denied only long ago; the busiest never uses the busiest tool of the
// others; a person voted three times; an outcome came up a thousand times.
// The events' times are in order but for some milliseconds, over 300 days.
const fillLog = `
WITH n AS (SELECT i, random() AS a, random() AS t, random() AS k, random() AS o, random() AS p FROM generate_series(1, $1::bigint) i),
agent AS (SELECT *, CASE WHEN a < .30 THEN 1 WHEN a < .50 THEN 2 WHEN a < .60 THEN 3 WHEN a < .80 THEN 4 + floor((a - .60) * 50)::int
		ELSE 14 + floor((a - .80) * 2430)::int END AS agent FROM n),
kind AS (SELECT *, CASE WHEN k < .80 THEN 'decision' WHEN k < .85 THEN 'contract' WHEN k < .89 THEN 'vote' WHEN k < .92 THEN 'settled' WHEN k < .945 THEN 'redeem'
		WHEN k < .97 THEN 'execution' WHEN k < .99 THEN 'refusal' WHEN k < .995 THEN 'sign_in' WHEN k < .999 THEN 'notification' ELSE 'admin' END AS type FROM agent),
event AS (SELECT *, CASE
		WHEN i % ($1 / 1000 + 1) = 0 THEN 'KILL_SWITCH'
		WHEN type = 'settled' THEN CASE WHEN o < .7 THEN 'APPROVED' WHEN o < .9 THEN 'DENY' ELSE 'TIMEOUT' END
		WHEN type IN ('sign_in', 'admin', 'notification', 'execution') THEN 'ALLOW'
		WHEN type = 'refusal' AND agent <> 2 THEN 'DENY'
		WHEN agent = 2 THEN CASE WHEN o < .9 THEN 'ALLOW' ELSE 'REQUIRE_APPROVAL' END
		WHEN agent = 3 AND i > $1 / 100 THEN CASE WHEN o < .9 THEN 'ALLOW' ELSE 'RATE_LIMITED' END
		WHEN o < .75 THEN 'ALLOW' WHEN o < .92 THEN 'DENY' WHEN o < .99 THEN 'REQUIRE_APPROVAL' ELSE 'STEP_UP' END AS outcome,
	CASE WHEN t < .3 AND agent <> 1 THEN 'payments.transfer' WHEN t < .5 THEN 'mail.send' ELSE 'tool.' || floor(power(t, 4) * 300)::int END AS tool,
	CASE WHEN i IN ($1 / 50, $1 / 40, $1 / 3) THEN 'usr_rare' WHEN type IN ('vote', 'sign_in', 'admin') THEN 'usr_' || floor(p * p * 40)::int
		WHEN type IN ('settled', 'notification') THEN '' ELSE 'agt_' || agent END AS actor,
	CASE WHEN k >= .85 AND k < .99 AND type <> 'settled' AND type <> 'redeem' THEN 'apr_' || lpad((i / 40)::text, 12, '0') END AS approval FROM kind),
written AS (
	INSERT INTO events (event_id, appended_at, type, outcome, agent_id, tool_name, approval_id, body)
	SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, '2026-01-01Z'::timestamptz + i * (interval '300 days' / $1) + p * interval '50 ms',
		type, outcome, 'agt_' || agent, tool, approval, convert_to(format(
			'{"event_id":"00000000-0000-4000-8000-%s","type":"%s","request_id":"req_%s","agent_id":"agt_%s","tool_name":"%s","outcome":"%s","reasons":[{"code":"sample","message":"A reason."}],"safe_payload":{},%s"actor":{"kind":"agent","id":"%s"}}',
			lpad(to_hex(i), 12, '0'), type, i, agent, tool, outcome, CASE WHEN approval IS NULL THEN '' ELSE '"approval_id":"' || approval || '",' END, actor), 'UTF8')
	FROM event ORDER BY i
	RETURNING seq, appended_at, type, outcome, agent_id, tool_name, approval_id, body)
INSERT INTO log_entries (leaf, seq, at, type, outcome, agent_id, tool_name, actor_id, approval_id)
SELECT seq - 1, seq, appended_at, type, outcome, agent_id, tool_name, convert_from(body, 'UTF8')::json -> 'actor' ->> 'id', approval_id FROM written`

// bigLog is a store with a log of so many events, and its owner's connection. With
// HOLDPOINT_BENCH_DATABASE, a superuser's URL, the log is made there if it is
// not there yet, and stays.
func bigLog(b *testing.B, events int) (*Store, *pgx.Conn) {
	ctx := context.Background()
	owner := os.Getenv("HOLDPOINT_BENCH_DATABASE")
	var s *Store
	if owner == "" {
		s, owner = open(b)
	} else if _, err := Migrate(ctx, owner); err != nil {
		b.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, owner)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(ctx) })
	if s == nil {
		if s, err = Open(ctx, Config{URL: owner}); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(s.Close)
	}
	must := func(sql string, args ...any) {
		b.Helper()
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	var there int
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM log_entries`).Scan(&there); err != nil {
		b.Fatal(err)
	}
	if there == events {
		return s, conn
	}
	if there != 0 {
		b.Fatalf("the database has a log of %d events already", there)
	}
	rows, err := conn.Query(ctx, `SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename = 'log_entries' AND indexdef NOT LIKE 'CREATE UNIQUE%'`)
	if err != nil {
		b.Fatal(err)
	}
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Name, Definition string }])
	if err != nil {
		b.Fatal(err)
	}
	for _, x := range indexes {
		must(`DROP INDEX ` + x.Name)
	}
	must(`SET session_replication_role = replica`) // settled events without their approvals
	must(`SELECT setseed(.5)`)
	must(fillLog, int64(events))
	must(`RESET session_replication_role`)
	must(`SET maintenance_work_mem = '512MB'`)
	for _, x := range indexes {
		must(x.Definition)
	}
	must(`INSERT INTO log_spans (n, earliest, latest) SELECT leaf / 4096, min(at), max(at) FROM log_entries GROUP BY 1`)
	must(`UPDATE log_head SET size = $1, seq = $1, moved_at = clock_timestamp()`, events)
	must(`VACUUM (ANALYZE) log_entries`)
	must(`VACUUM (ANALYZE) events`)
	return s, conn
}

// benchEvents is the size of the log: HOLDPOINT_BENCH_EVENTS, or enough to be quick.
func benchEvents(b *testing.B) int {
	n, err := strconv.Atoi(strings.ReplaceAll(os.Getenv("HOLDPOINT_BENCH_EVENTS"), "_", ""))
	if err != nil {
		return 100_000
	}
	return n
}

// BenchmarkSearch measures every filter and the combinations that are hard, on a
// log of HOLDPOINT_BENCH_EVENTS events:
//
//	HOLDPOINT_BENCH_EVENTS=10_000_000 go test ./internal/store -run '^$' -bench Search -benchtime 5x -timeout 0
//
// pages is how often somebody has to go on to the end of a search that finds too
// little to fill a page.
func BenchmarkSearch(b *testing.B) {
	events := benchEvents(b)
	s, _ := bigLog(b, events)
	day := func(n int) time.Time { return time.Date(2026, 1, 1+n, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name   string
		filter EventFilter
	}{
		{"nothing", EventFilter{}},
		{"agent, busiest", EventFilter{AgentID: "agt_1"}},
		{"agent, rare", EventFilter{AgentID: "agt_400"}},
		{"agent, unknown", EventFilter{AgentID: "nobody"}},
		{"tool, busiest", EventFilter{Tool: "payments.transfer"}},
		{"person, busiest", EventFilter{ActorID: "usr_0"}},
		{"person with 3 events", EventFilter{ActorID: "usr_rare"}},
		{"approval", EventFilter{ApprovalID: "apr_000000001234"}},
		{"outcome, busiest", EventFilter{Outcome: "ALLOW"}},
		{"outcome, 1,000 events", EventFilter{Outcome: "KILL_SWITCH"}},
		{"type, busiest", EventFilter{Type: "decision"}},
		{"type, rare", EventFilter{Type: "admin"}},
		{"a day far back", EventFilter{Since: day(3), Until: day(4)}},
		{"a minute far back", EventFilter{Since: day(3), Until: day(3).Add(time.Minute)}},
		{"a time before all", EventFilter{Until: day(-5)}},
		{"busiest agent and an outcome of 90,000, never together", EventFilter{AgentID: "agt_1", Outcome: "RATE_LIMITED"}},
		{"busy agent, busy type and busy outcome, never together", EventFilter{AgentID: "agt_2", Type: "decision", Outcome: "DENY"}},
		{"busy agent and busy outcome, only long ago", EventFilter{AgentID: "agt_3", Outcome: "DENY"}},
		{"busy tool and rare type", EventFilter{Tool: "payments.transfer", Type: "admin"}},
		{"busy agent, outcome, type, an hour far back", EventFilter{AgentID: "agt_1", Outcome: "DENY", Type: "decision", Since: day(3), Until: day(3).Add(time.Hour)}},
		{"rare outcome, a day far back", EventFilter{Outcome: "KILL_SWITCH", Since: day(3), Until: day(4)}},
		{"busy agent and its busiest tool", EventFilter{AgentID: "agt_2", Tool: "payments.transfer"}},
		{"busy agent and busy tool, never together", EventFilter{AgentID: "agt_1", Tool: "payments.transfer"}},
		{"busy agent and busy tool, never, a day far back", EventFilter{AgentID: "agt_1", Tool: "payments.transfer", Since: day(3), Until: day(4)}},
		{"rare agent and busy tool", EventFilter{AgentID: "agt_400", Tool: "payments.transfer"}},
		{"busy agent, busy tool and rare outcome", EventFilter{AgentID: "agt_2", Tool: "payments.transfer", Outcome: "KILL_SWITCH"}},
		{"busy agent, its tool and outcome, never together", EventFilter{AgentID: "agt_2", Tool: "payments.transfer", Type: "decision", Outcome: "DENY"}},
		{"busy agent, its tool and outcome, only long ago", EventFilter{AgentID: "agt_3", Tool: "payments.transfer", Type: "decision", Outcome: "DENY"}},
		{"busy agent, its tool and type, never together", EventFilter{AgentID: "agt_2", Tool: "payments.transfer", Type: "settled", Outcome: "STEP_UP"}},
		{"middling agent and busy tool, refused once too many", EventFilter{AgentID: "agt_5", Tool: "payments.transfer", Outcome: "RATE_LIMITED"}},
		{"person and busy agent", EventFilter{ActorID: "usr_7", AgentID: "agt_1"}},
		{"person with 3 events and busy agent", EventFilter{ActorID: "usr_rare", AgentID: "agt_1"}},
		{"person and what they never do", EventFilter{ActorID: "usr_0", Type: "redeem"}},
		{"busy agent by itself, never together", EventFilter{ActorID: "agt_2", AgentID: "agt_1"}},
		{"busy agent by itself, tool, outcome", EventFilter{ActorID: "agt_2", AgentID: "agt_2", Tool: "mail.send", Outcome: "DENY"}},
	} {
		for _, newest := range []bool{true, false} {
			f := c.filter
			f.Newest, f.Limit = newest, 50
			name := c.name
			if !newest {
				name += ", oldest first"
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				var worst time.Duration
				pages, found := 0, 0
				for b.Loop() {
					pages, found = 0, 0
					for next := f; ; {
						began := time.Now()
						got, err := s.Events.Search(context.Background(), next, 300*time.Millisecond)
						if err != nil {
							b.Fatal(err)
						}
						worst = max(worst, time.Since(began))
						pages++
						if found += len(got.Records); !got.Stopped || found >= next.Limit {
							break
						}
						next.After = got.Reached
					}
				}
				b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms/page")
				b.ReportMetric(float64(pages), "pages")
				b.ReportMetric(float64(found), "found")
			})
		}
	}
}
