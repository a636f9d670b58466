package store

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// fillWaiting puts so many approvals into the database that wait, each for one of 100 roles, of 200 tools and one
// agent for each thousand, with as much about each as there is of a call of 1 KB, due within a day.
const fillWaiting = `
	ALTER TABLE approvals DISABLE TRIGGER USER;
	INSERT INTO agents (id, name) SELECT 'agent_' || i, 'Agent ' || i FROM generate_series(0, %[1]d / 1000) i;
	INSERT INTO approvals (id, agent_id, request_id, dialect, tool, category, risk_domain, environment, digest, requested_by, max_state, decision, requirements,
			excluded, opened_at, expires_in, expires_at, sealed, sealed_key, sealed_size, status, version, revision, wake_at, reasons, execution, due_at, open_to, waits_for)
		SELECT 'apr_' || left(translate(md5(i::text), '0189', 'ghij'), 26), 'agent_' || i / 1000, 'req-' || i, 'aana', 'tool_' || i %% 200, 'write', 'finance', (ARRAY['prod', 'test'])[i %% 2 + 1],
			'sha256:' || repeat('0', 64), '{"kind": "agent", "id": "a"}', 'none',
			jsonb_build_object('route', 'defer', 'findings', jsonb_build_array(jsonb_build_object('source', 'policy', 'code', 'rule', 'message', repeat(md5(i::text), 12)))),
			jsonb_build_array(jsonb_build_object('kind', 'review', 'role', 'team_' || i %% 100, 'needed', 1)), '{}', t.at, '1 day', t.at + interval '1 day',
			decode(repeat(md5(i::text) || md5((-i)::text), 25), 'hex'), decode(repeat(md5(i::text), 4), 'hex'), 1000, 'pending', 1, 1, t.at + interval '1 day', '[]', 'none',
			t.at + interval '1 day', ARRAY['team_' || i %% 100], 'review'
		FROM generate_series(1, %[1]d) i, LATERAL (SELECT clock_timestamp() - i * interval '23 hours' / %[1]d AS at) t;
	INSERT INTO waiting_calls SELECT id, due_at, opened_at, open_to, excluded, spoken, noes, tool, agent_id, environment, risk_domain, waits_for, claimed_by, request_id,
			lower(concat_ws(E'\n', tool, agent_id, environment, risk_domain)) FROM approvals;
	ALTER TABLE approvals ENABLE TRIGGER USER;`

// BenchmarkWaiting gives what the database takes for what everybody does while many
// approvals wait: half of the looks, and 95 of 100.
//
//	HOLDPOINT_BENCH_WAITING=1_000_000 go test ./internal/store -run '^$' -bench Waiting -benchtime 50x -timeout 1h
func BenchmarkWaiting(b *testing.B) {
	waiting := 20_000
	if given := os.Getenv("HOLDPOINT_BENCH_WAITING"); given != "" {
		var err error
		if waiting, err = strconv.Atoi(strings.ReplaceAll(given, "_", "")); err != nil {
			b.Fatal(err)
		}
	}
	s, owner := open(b)
	ctx := context.Background()
	conn := connect(b, owner)
	began := time.Now()
	for _, sql := range []string{fmt.Sprintf(fillWaiting, waiting), `VACUUM ANALYZE approvals`, `VACUUM ANALYZE waiting_calls`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			b.Fatal(err)
		}
	}
	var sizes [2]float64
	if err := conn.QueryRow(ctx, `SELECT pg_total_relation_size('approvals')::float8, pg_total_relation_size('waiting_calls')::float8`).Scan(&sizes[0], &sizes[1]); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d were filled in within %s; approvals take %.0f bytes each, waiting_calls %.0f", waiting, time.Since(began), sizes[0]/float64(waiting), sizes[1]/float64(waiting))
	team := []Eligibility{{Roles: []string{"team_7"}, Voices: []string{"p"}}}
	var every []string
	for i := range 100 {
		every = append(every, fmt.Sprintf("team_%d", i))
	}
	inbox := func(standings []Eligibility, search InboxSearch) func() error {
		return func() error {
			page, err := s.Inbox.Page(ctx, standings, search)
			if err == nil && len(page.Rows) == 0 {
				err = fmt.Errorf("nothing waits")
			}
			return err
		}
	}
	one := func() (id string, err error) {
		return id, conn.QueryRow(ctx, `SELECT id FROM waiting_calls WHERE id > 'apr_' || translate(md5(random()::text), '0189', 'ghij') ORDER BY id LIMIT 1`).Scan(&id)
	}
	after := ""
	for _, look := range []struct {
		name string
		do   func() error
	}{
		{"open", func() error {
			agent := fmt.Sprintf("agent_%d", time.Now().Nanosecond()%(waiting/1000))
			if _, err := s.Approvals.PendingCount(ctx, agent); err != nil {
				return err
			}
			id := NewID("apr")
			o, e := opening(id, 24*time.Hour), event(id)
			o.Call.AgentID, e.AgentID = agent, agent
			_, err := s.Submit(ctx, Submission{Event: e, Opening: o})
			return err
		}},
		{"card", func() error {
			id, err := one()
			if err == nil {
				_, err = s.Approvals.Get(ctx, id)
			}
			return err
		}},
		{"cancel", func() error {
			id, err := one()
			if err != nil {
				return err
			}
			return s.Approvals.Change(ctx, id, nil, func(c *Change) error {
				return c.AddFact(approval.Fact{Kind: approval.Cancel, Actor: engine.Actor{Kind: engine.AgentActor, ID: c.Approval.Call.AgentID}})
			})
		}},
		{"due", func() error { _, err := s.Outbox.Due(ctx, 500*time.Millisecond, 256, nil); return err }},
		{"sweep", func() error {
			ids, err := s.Outbox.PendingAfter(ctx, after, 50)
			if len(ids) > 0 {
				after = ids[len(ids)-1]
			}
			return err
		}},
		{"metrics", func() error { _, err := s.Metrics(ctx); return err }},
		{"inbox of a team", inbox(team, InboxSearch{Limit: 50, Counts: true})},
		{"search of a team", inbox(team, InboxSearch{Limit: 50, Counts: true, Words: []string{"ool_10"}})},
		{"groups of a team", inbox(team, InboxSearch{Limit: 50, Counts: true, Alike: true})},
		{"live of a team", inbox(team, InboxSearch{Limit: 50})},
		{"inbox of all", inbox([]Eligibility{{Roles: every, Voices: []string{"p"}}}, InboxSearch{Limit: 50, Counts: true})},
	} {
		b.Run(look.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := look.do(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "ms/half")
			b.ReportMetric(took[len(took)*95/100].Seconds()*1e3, "ms/95")
		})
	}
}
