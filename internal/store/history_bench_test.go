package store

import (
	"context"
	"slices"
	"testing"
	"time"

	"holdpoint/engine/approval"
)

// hundredThousand puts approvals into the database that have ended in the last ninety
// days, with a vote each, of 200 tools and 20 agents: one in fifty asks for the role
// "few", the others for "many".
const hundredThousand = `
	ALTER TABLE approvals DISABLE TRIGGER USER; ALTER TABLE facts DISABLE TRIGGER USER;
	INSERT INTO agents (id, name) SELECT 'agent_' || i, 'Agent ' || i FROM generate_series(0, 19) i;
	INSERT INTO people (id, email, name, password_hash, identity) SELECT 'usr_' || i, 'p' || i || '@example.org', 'Person ' || i, '', 'p' || i FROM generate_series(0, 29) i;
	INSERT INTO approvals (id, agent_id, request_id, dialect, tool, category, risk_domain, environment, digest, requested_by, max_state, decision, requirements,
			excluded, opened_at, expires_in, expires_at, sealed, sealed_key, sealed_size, status, version, revision, wake_at, ended_at, reasons, execution)
		SELECT 'apr_' || lpad(i::text, 26, '0'), 'agent_' || i % 20, 'req-' || i, 'aana', 'tool_' || i % 200, 'write', 'finance', (ARRAY['prod', 'test'])[i % 2 + 1],
			'sha256:' || repeat('0', 64), '{"kind": "agent", "id": "a"}', 'none', '{}', jsonb_build_array(jsonb_build_object('kind', 'review',
			'role', CASE WHEN i % 50 = 0 THEN 'few' ELSE 'many' END, 'needed', 1)), '{}', clock_timestamp() - i * interval '77 s' - i % 600 * interval '1 s',
			'1 day', clock_timestamp(), 'x', 'y', 2, (ARRAY['approved', 'denied', 'approved', 'expired', 'approved'])[i % 5 + 1], 1, 1, clock_timestamp(),
			clock_timestamp() - i * interval '77 s', '[]', 'none'
		FROM generate_series(1, 100000) i;
	INSERT INTO facts (approval_id, at, kind, actor_kind, actor_id, channel, yes, denial, comment)
		SELECT 'apr_' || lpad(i::text, 26, '0'), clock_timestamp() - i * interval '77 s', 'vote', 'human', 'usr_' || i % 30, 'console', i % 5 <> 1, '', ''
		FROM generate_series(1, 100000) i WHERE i % 5 <> 3;
	UPDATE approvals SET asked = asked_roles(requirements, '{}');
	ALTER TABLE approvals ENABLE TRIGGER USER; ALTER TABLE facts ENABLE TRIGGER USER;
	ANALYZE approvals; ANALYZE facts;`

// BenchmarkHistory gives what a page of the history takes when 100,000 approvals have
// ended: half of the looks, and 95 of 100.
//
//	go test ./internal/store -run '^$' -bench History -benchtime 50x
func BenchmarkHistory(b *testing.B) {
	s, owner := open(b)
	ctx := context.Background()
	if _, err := connect(b, owner).Exec(ctx, hundredThousand); err != nil {
		b.Fatal(err)
	}
	many, few, all := Reader{Roles: []string{"many"}, Identity: "x"}, Reader{Roles: []string{"few"}, Identity: "x"}, Reader{All: true}
	day := time.Now().AddDate(0, 0, -1)
	for _, look := range []struct {
		name   string
		by     Reader
		search HistorySearch
		found  int
	}{
		{"all", all, HistorySearch{}, 100_000},
		{"many", many, HistorySearch{}, 98_000},
		{"few", few, HistorySearch{}, 2_000},
		{"nobody", Reader{Identity: "x"}, HistorySearch{}, 0},
		{"word", all, HistorySearch{Words: []string{"ool_17"}}, 5_500},
		{"word of many", many, HistorySearch{Words: []string{"ool_17"}}, 5_000},
		{"id", all, HistorySearch{Words: []string{"apr_00000000000000000000000777"}}, 1},
		{"tool", all, HistorySearch{Tool: "tool_7"}, 500},
		{"decided by", many, HistorySearch{DecidedBy: "usr_7"}, 3_334},
		{"denied", all, HistorySearch{Status: approval.Denied}, 20_000},
		{"second page", many, HistorySearch{After: place(day, "apr_00000000000000000000000000")}, 98_000},
		{"a day", many, HistorySearch{Since: day}, 1_100},
	} {
		b.Run(look.name, func(b *testing.B) {
			look.search.Limit, look.search.Counts = 30, true
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				page, err := s.Approvals.History(ctx, look.by, look.search)
				if err != nil || page.Found < min(look.found, HistoryCounted)*9/10 || page.Found > min(look.found*11/10, HistoryCounted+1) || len(page.Rows) != min(30, page.Found) {
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
