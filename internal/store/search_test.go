package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"holdpoint/engine/audit"
)

// entry is a row of the log's index, for telling what a search has to find.
type entry struct {
	leaf                                        int64
	at                                          time.Time
	kind, outcome, agent, tool, actor, approval string
}

func (e entry) fits(f EventFilter) bool {
	for _, c := range [][2]string{{f.AgentID, e.agent}, {f.Tool, e.tool}, {f.Outcome, e.outcome}, {f.Type, e.kind}, {f.ActorID, e.actor}, {f.ApprovalID, e.approval}} {
		if c[0] != "" && c[0] != c[1] {
			return false
		}
	}
	return (f.Since.IsZero() || !e.at.Before(f.Since)) && (f.Until.IsZero() || e.at.Before(f.Until)) &&
		(f.After == 0 || f.Newest && e.leaf+1 < f.After || !f.Newest && e.leaf+1 > f.After)
}

// searchable is a store with a log of so many events, and the log's index.
func searchable(t *testing.T, events int) (*Store, []entry) {
	t.Helper()
	s, owner := open(t)
	ctx := context.Background()
	conn := connect(t, owner)
	for _, sql := range []string{
		`SET session_replication_role = replica`, `SELECT setseed(.5)`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(ctx, fillLog, int64(events)); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		// Times that are out of order by far more than they should be.
		`UPDATE log_entries SET at = at - interval '40 days' WHERE leaf % 997 = 3`,
		`INSERT INTO log_spans (n, earliest, latest) SELECT leaf / 4096, min(at), max(at) FROM log_entries GROUP BY 1`,
		fmt.Sprintf(`UPDATE log_head SET size = %d, seq = %d`, events, events), `ANALYZE log_entries`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := conn.Query(ctx, `SELECT leaf, at, type, outcome, agent_id, tool_name, actor_id, coalesce(approval_id, '') FROM log_entries ORDER BY leaf`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e entry, err error) {
		return e, row.Scan(&e.leaf, &e.at, &e.kind, &e.outcome, &e.agent, &e.tool, &e.actor, &e.approval)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, list
}

// TestSearchAgreesWithAFullScan: whatever the filter, the direction, the place to
// begin and the budget, the pages of a search together are what a look at every
// row finds, in order, each once.
func TestSearchAgreesWithAFullScan(t *testing.T) {
	s, log := searchable(t, 30_000)
	ctx := context.Background()
	pick := func(of func(entry) string) *rapid.Generator[string] {
		seen := map[string]bool{}
		values := []string{"", "", "unheard of"}
		for _, e := range log {
			if v := of(e); v != "" && !seen[v] && len(values) < 60 {
				seen[v] = true
				values = append(values, v)
			}
		}
		return rapid.SampledFrom(values)
	}
	agents, tools, actors := pick(func(e entry) string { return e.agent }), pick(func(e entry) string { return e.tool }), pick(func(e entry) string { return e.actor })
	types, outcomes, approvals := pick(func(e entry) string { return e.kind }), pick(func(e entry) string { return e.outcome }), pick(func(e entry) string { return e.approval })
	maybe := func(t *rapid.T, name string, g *rapid.Generator[string]) string {
		if rapid.Bool().Draw(t, "by "+name) {
			return g.Draw(t, name)
		}
		return ""
	}
	when := func(t *rapid.T, name string) time.Time {
		if !rapid.Bool().Draw(t, "with "+name) {
			return time.Time{}
		}
		return rapid.SampledFrom(log).Draw(t, name).at
	}
	rapid.Check(t, func(t *rapid.T) {
		f := EventFilter{
			AgentID: maybe(t, "agent", agents), Tool: maybe(t, "tool", tools), ActorID: maybe(t, "actor", actors), Outcome: maybe(t, "outcome", outcomes), Type: maybe(t, "type", types),
			Since: when(t, "since"), Until: when(t, "until"), Newest: rapid.Bool().Draw(t, "newest"), Limit: rapid.IntRange(1, 400).Draw(t, "limit"),
		}
		if rapid.IntRange(0, 9).Draw(t, "by approval") == 0 {
			f.ApprovalID = approvals.Draw(t, "approval")
		}
		if rapid.Bool().Draw(t, "with cursor") {
			f.After = int64(rapid.IntRange(1, len(log)+2).Draw(t, "after"))
		}
		budget := rapid.SampledFrom([]time.Duration{0, time.Nanosecond, 300 * time.Millisecond}).Draw(t, "budget")
		var want, got []int64
		for _, e := range log {
			if e.fits(f) {
				want = append(want, e.leaf)
			}
		}
		if f.Newest {
			slices.Reverse(want)
		}
		for pages := 0; ; pages++ {
			found, err := s.Events.Search(ctx, f, budget)
			if err != nil {
				t.Fatal(err)
			}
			if len(found.Records) > f.Limit || found.Stopped && !found.More || found.More && !found.Stopped && len(found.Records) != f.Limit {
				t.Fatalf("%d records of %d, more %v, stopped %v", len(found.Records), f.Limit, found.More, found.Stopped)
			}
			for _, r := range found.Records {
				if got = append(got, r.Leaf); r.ID == "" || r.AgentID != log[r.Leaf].agent {
					t.Fatalf("leaf %d is %+v", r.Leaf, r)
				}
			}
			if !found.More {
				break
			}
			if f.After == found.Reached || pages > len(log) {
				t.Fatalf("it does not go on from %d", f.After)
			}
			if f.After = found.Reached; len(got) > 3*f.Limit && len(got) < len(want) {
				want = want[:len(got)] // the rest goes on like this
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	})
}

// TestExportAgreesWithAFullScan: page by page, exports get what a look at every row
// finds, with what it is filed under.
func TestExportAgreesWithAFullScan(t *testing.T) {
	s, log := searchable(t, 30_000)
	ctx := context.Background()
	late, often := log[29_000].at, log[100]
	for _, f := range []EventFilter{
		{},
		{Since: late},
		{Since: late, Until: late.Add(time.Minute)},
		{Until: log[50].at},
		{AgentID: often.agent},
		{Tool: often.tool, Since: late},
		{Outcome: often.outcome, Type: often.kind},
		{ActorID: log[200].actor, AgentID: often.agent},
		{AgentID: "unheard of"},
	} {
		f.Limit = 700
		var want, got []entry
		for _, e := range log {
			if e.fits(f) {
				want = append(want, e)
			}
		}
		for page := f; ; {
			filed, err := s.Events.Placed(ctx, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range filed {
				u := r.under
				got = append(got, entry{leaf: r.Leaf, at: log[r.Leaf].at, kind: u[1], outcome: u[2], agent: u[3], tool: u[4], approval: u[5], actor: u[6]})
				if u[0] != audit.Time(log[r.Leaf].at) {
					t.Fatalf("leaf %d is filed under %s, and the index has %s", r.Leaf, u[0], log[r.Leaf].at)
				}
			}
			if len(filed) < page.Limit {
				break
			}
			page.After = filed[len(filed)-1].Seq()
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: got %d, want %d", f, len(got), len(want))
		}
	}
}

// TestSpansOfTheLog: the sequencer's function keeps them, and nobody else changes
// them.
func TestSpansOfTheLog(t *testing.T) {
	s, owner := open(t)
	ctx := context.Background()
	conn := connect(t, owner)
	for i := range 3 {
		if _, err := s.Submit(ctx, Submission{Event: event("")}); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, `SELECT advance_log($1, (SELECT root FROM log_head), sha256($2), ARRAY[(SELECT max(seq) FROM events)], ARRAY['x'], '{}', '{}', '{}', '')`, i, fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var good bool
	if err := conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM log_spans) = 1 AND (SELECT (earliest, latest) FROM log_spans WHERE n = 0) = (SELECT (min(appended_at), max(appended_at)) FROM events)`).Scan(&good); err != nil || !good {
		t.Errorf("the span is not that of the events (%v)", err)
	}
	for _, sql := range []string{
		`DELETE FROM log_spans`, `TRUNCATE log_spans`, `UPDATE log_spans SET n = 1`, `UPDATE log_spans SET latest = earliest`, `UPDATE log_spans SET earliest = latest`,
	} {
		if _, err := conn.Exec(ctx, sql); err == nil {
			t.Errorf("the owner may %s", sql)
		}
	}
	if _, err := s.pool.Exec(ctx, `INSERT INTO log_spans VALUES (9, now(), now())`); err == nil {
		t.Error("the runtime may write spans")
	}
}

// TestLongNamesDoNotStopTheLog: whoever may append events cannot stop the
// log by names that no index holds.
func TestLongNamesDoNotStopTheLog(t *testing.T) {
	_, owner := open(t)
	ctx := context.Background()
	conn := connect(t, owner)
	long := func() string {
		var b strings.Builder
		for b.Len() < 20_000 {
			b.WriteString(rand.Text())
		}
		return b.String()
	}
	own := strings.Repeat("a", 200) // as long as the programs let them be
	for i, e := range []struct{ kind, agent, tool, approval, actor string }{
		{"export", "", "", "", long()},
		{long(), long(), long(), "", long()},
		{"decision", own, strings.Repeat("t", 512), "apr_1", own},
	} {
		if _, err := conn.Exec(ctx, `SELECT append_events(ARRAY[gen_random_uuid()], ARRAY[$1], ARRAY['ALLOW'], ARRAY[$2], ARRAY[$3], ARRAY[$4], ARRAY['{}'::bytea])`,
			e.kind, e.agent, e.tool, e.approval); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, `SELECT advance_log($1, (SELECT root FROM log_head), sha256($2), ARRAY[(SELECT max(seq) FROM events)], ARRAY[$3], '{}', '{}', '{}', '')`,
			i, fmt.Appendf(nil, "%d", i), e.actor); err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
	var whole bool
	if err := conn.QueryRow(ctx, `SELECT agent_id = $1 AND actor_id = $1 AND length(tool_name) = 512 FROM log_entries ORDER BY leaf DESC LIMIT 1`, own).Scan(&whole); err != nil || !whole {
		t.Errorf("what the programs let be is not searched for as a whole: %v", err)
	}
}
