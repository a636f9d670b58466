package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdpoint/engine/audit"
)

// LogSearchResult is what a search of the log has come to.
type LogSearchResult struct {
	// Records are in the search's direction. One whose event is gone has an empty ID.
	Records []audit.Record
	// More says that the search did not come to the log's end. It goes on with
	// After = Reached: all up to there has been looked at.
	More    bool
	Reached int64
	// Stopped says that it was the budget that ended the search, and not the limit.
	Stopped bool
}

// The steps of a search whose rows have to be looked at one by one.
const (
	spanLeaves   = 4096 // of log_spans
	probedLeaves = 16384
	firstLook    = 50_000 // rows to look at, by estimate
	quickLook    = 40 * time.Millisecond
	slowLook     = 150 * time.Millisecond
)

// Search lists up to f.Limit records of the log, in its order or, with Newest,
// against it. A filter by time and by one of these is answered by an index alone:
// an agent or a tool, with or without a type and an outcome; an agent with a tool;
// a type, an outcome or both; a person; an approval. For others, rows of the least
// busy of these are looked at one by one: such a search ends with the budget, and
// Reached says how far it has come. A budget of 0 has no end but the log's.
func (s Events) Search(ctx context.Context, f EventFilter, budget time.Duration) (LogSearchResult, error) {
	filed, found, err := s.search(ctx, f, budget)
	for _, r := range filed {
		found.Records = append(found.Records, r.Record)
	}
	return found, err
}

// search is Search, which returns the records with what they are filed under, beside a
// result without records.
func (s Events) search(ctx context.Context, f EventFilter, budget time.Duration) (filed []IndexedRecord, _ LogSearchResult, err error) {
	began := time.Now()
	q := search{store: s.db, f: f}
	if err := q.bounds(ctx); err != nil || q.lo >= q.hi {
		return nil, LogSearchResult{Reached: q.reached()}, translate(err)
	}
	if err := q.choose(ctx); err != nil {
		return nil, LogSearchResult{}, translate(err)
	}
	for moved := false; q.lo < q.hi && len(filed) <= f.Limit; {
		within := s.timeout
		if q.slow() {
			// Half, so that it is the statement that ends: then fewer rows are looked at.
			within = s.timeout / 2
		}
		if q.slow() && budget > 0 {
			left := budget - time.Since(began)
			switch {
			case left <= 0 && moved:
				filed, found := q.stopped(filed)
				return filed, found, nil
			case left <= 0: // the least step is taken whatever it costs
				q.window, within = spanLeaves, s.timeout
			default:
				within = max(left/2, quickLook)
			}
		}
		from, to := q.next()
		looked := time.Now()
		more, err := q.look(ctx, from, to, f.Limit+1-len(filed), within)
		if timedOut(err) && q.slow() && q.window > spanLeaves {
			q.window = max(q.window/8, spanLeaves)
			continue
		}
		if err != nil {
			return nil, LogSearchResult{}, translate(err)
		}
		filed, moved = append(filed, more...), true
		q.done(from, to)
		switch took := time.Since(looked); {
		case took < quickLook:
			q.window *= 4
		case took > slowLook:
			q.window = max(q.window/2, spanLeaves)
		}
	}
	if len(filed) > f.Limit {
		return filed[:f.Limit], LogSearchResult{More: true, Reached: filed[f.Limit-1].Seq()}, nil
	}
	return filed, LogSearchResult{Reached: q.reached()}, nil
}

// search is a search under way: what is left of the log, and how to go through it.
type search struct {
	store  *db
	f      EventFilter
	lo, hi int64 // leaves that are left
	// by is the index that leads, or "" for none: then all leaves are looked at.
	// kinds are the pairs of type and outcome to merge.
	by    lead
	kinds [][2]string
	// rest are the columns that no index answers.
	rest   []string
	window int64 // how many leaves to look at in one go
}

// lead is an index that leads a search: the columns that it answers. Those with
// type and outcome have their rows by them, and answer any of them.
type lead string

const (
	byApproval  lead = "approval_id"
	byActor     lead = "actor_id"
	byAgentTool lead = "agent_id tool_name"
	byAgent     lead = "agent_id type outcome"
	byTool      lead = "tool_name type outcome"
	byKind      lead = "type outcome"
)

var allLeads = []lead{byApproval, byActor, byAgentTool, byAgent, byTool, byKind}

func (l lead) columns() []string { return strings.Fields(string(l)) }

// merges reports whether the index has its rows by type and outcome.
func (l lead) merges() bool { return strings.HasSuffix(string(l), string(byKind)) }

// keys are the columns that have to have a value for the index to be of use.
func (l lead) keys() []string {
	if l == byKind {
		return nil
	}
	return strings.Fields(strings.TrimSuffix(string(l), string(byKind)))
}

// slow reports whether rows have to be looked at that may not be wanted.
func (q *search) slow() bool { return len(q.rest) > 0 }

func (q *search) value(column string) string {
	return map[string]string{
		"approval_id": q.f.ApprovalID, "actor_id": q.f.ActorID, "agent_id": q.f.AgentID, "tool_name": q.f.Tool, "type": q.f.Type, "outcome": q.f.Outcome,
	}[column]
}

// stopped is what was found when the budget was used up.
func (q *search) stopped(filed []IndexedRecord) ([]IndexedRecord, LogSearchResult) {
	if len(filed) > q.f.Limit {
		return filed[:q.f.Limit], LogSearchResult{More: true, Reached: filed[q.f.Limit-1].Seq()}
	}
	return filed, LogSearchResult{More: true, Stopped: true, Reached: q.reached()}
}

// next are the leaves of the next look.
func (q *search) next() (from, to int64) {
	if q.window <= 0 || q.window > q.hi-q.lo {
		q.window = q.hi - q.lo
	}
	if q.f.Newest {
		return q.hi - q.window, q.hi
	}
	return q.lo, q.lo + q.window
}

func (q *search) done(from, to int64) {
	if q.f.Newest {
		q.hi = from
	} else {
		q.lo = to
	}
}

// reached is the seq up to which everything has been looked at.
func (q *search) reached() int64 {
	if q.f.Newest {
		return q.hi + 1
	}
	return q.lo
}

// bounds finds the leaves that can matter: beyond the cursor, and of the time. The
// log ends where its entries do, whatever its head says.
func (q *search) bounds(ctx context.Context) error {
	f := q.f
	var since, until *time.Time
	if !f.Since.IsZero() {
		since = &f.Since
	}
	if !f.Until.IsZero() {
		until = &f.Until
	}
	err := q.store.within(ctx, func(ctx context.Context) error {
		return q.store.pool.QueryRow(ctx, `SELECT CASE WHEN $1::timestamptz IS NULL THEN 0 ELSE coalesce((SELECT min(n) FROM log_spans WHERE latest >= $1) * $3, h.size) END,
				least(h.size, CASE WHEN $2::timestamptz IS NULL THEN h.size ELSE coalesce(((SELECT max(n) FROM log_spans WHERE earliest < $2) + 1) * $3, 0) END)
			FROM (SELECT coalesce(max(leaf) + 1, 0) AS size FROM log_entries) h`, since, until, int64(spanLeaves)).Scan(&q.lo, &q.hi)
	})
	switch {
	case f.Newest && f.After > 0:
		q.hi = min(q.hi, f.After-1)
	case !f.Newest && f.After > 0:
		q.lo = max(q.lo, f.After)
	}
	return err
}

// choose finds the index that leads: one that answers the whole search, or else
// the one with the least to look at.
func (q *search) choose(ctx context.Context) error {
	q.window = q.hi - q.lo
	var wanted []string
	for _, column := range []string{"approval_id", "actor_id", "agent_id", "tool_name", "type", "outcome"} {
		if q.value(column) != "" {
			wanted = append(wanted, column)
		}
	}
	var leads []lead
	for _, l := range allLeads {
		missing := slices.ContainsFunc(l.keys(), func(column string) bool { return q.value(column) == "" })
		if missing || !slices.ContainsFunc(l.columns(), func(column string) bool { return q.value(column) != "" }) {
			continue
		}
		leads = append(leads, l)
		answered := !slices.ContainsFunc(wanted, func(column string) bool { return !slices.Contains(l.columns(), column) })
		if answered || l == byApproval { // an approval has few events
			q.by = l
			break
		}
	}
	if q.by == "" && len(leads) > 0 {
		if err := q.rarest(ctx, leads); err != nil {
			return err
		}
	}
	for _, column := range wanted {
		if !slices.Contains(q.by.columns(), column) {
			q.rest = append(q.rest, column)
		}
	}
	if q.by.merges() {
		return q.findKinds(ctx)
	}
	return nil
}

// rarest leads by what came up least in the leaves to look at first; where all
// came up often, all leaves are looked at.
func (q *search) rarest(ctx context.Context, leads []lead) error {
	from, to := q.lo, min(q.hi, q.lo+probedLeaves)
	if q.f.Newest {
		from, to = max(q.lo, q.hi-probedLeaves), q.hi
	}
	counts, args := make([]string, len(leads)), []any{from, to}
	for i, l := range leads {
		var same []string
		for _, column := range l.columns() {
			if q.value(column) != "" {
				args = append(args, q.value(column))
				same = append(same, fmt.Sprintf("l.%s = $%d", column, len(args)))
			}
		}
		counts[i] = "count(*) FILTER (WHERE " + strings.Join(same, " AND ") + ")"
	}
	var seen []int64
	err := q.store.within(ctx, func(ctx context.Context) error {
		return q.store.pool.QueryRow(ctx, `SELECT ARRAY[`+strings.Join(counts, ", ")+`] FROM log_entries l WHERE l.leaf >= $1 AND l.leaf < $2`, args...).Scan(&seen)
	})
	if err != nil {
		return err
	}
	least := 0
	for i := range seen {
		if seen[i] < seen[least] {
			least = i
		}
	}
	// One row by its index costs about as much as four in a row.
	q.window = firstLook * 4
	if seen[least]*4 < to-from {
		q.by, q.window = leads[least], firstLook*(to-from)/max(seen[least], 1)
	}
	return nil
}

// findKinds finds the pairs of type and outcome that there are, one by one, by
// their index.
func (q *search) findKinds(ctx context.Context) error {
	return q.store.within(ctx, func(ctx context.Context) error {
		rows, err := q.store.pool.Query(ctx, `WITH RECURSIVE k AS (
				(SELECT l.type, l.outcome FROM log_entries l ORDER BY l.type || ' ' || l.outcome LIMIT 1)
				UNION ALL
				SELECT n.type, n.outcome FROM k CROSS JOIN LATERAL (SELECT l.type, l.outcome FROM log_entries l
					WHERE l.type || ' ' || l.outcome > k.type || ' ' || k.outcome ORDER BY l.type || ' ' || l.outcome LIMIT 1) n)
			SELECT k.type, k.outcome FROM k WHERE $1 IN ('', k.type) AND $2 IN ('', k.outcome)`, q.f.Type, q.f.Outcome)
		if err != nil {
			return err
		}
		q.kinds, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (pair [2]string, err error) {
			return pair, row.Scan(&pair[0], &pair[1])
		})
		return err
	})
}

// query is the statement that lists the first matching leaves from one up to
// before another.
func (q *search) query(from, to int64, limit int) (sql string, args []any) {
	arg := func(value any) string {
		args = append(args, value)
		return fmt.Sprintf("$%d", len(args))
	}
	direction := map[bool]string{true: " DESC"}
	where, order := []string{}, "leaf"
	if q.by == "" {
		where = append(where, "l.leaf >= "+arg(from), "l.leaf < "+arg(to))
	} else {
		where, order = append(where, "-l.leaf > "+arg(-to), "-l.leaf <= "+arg(-from)), "back"
		for _, column := range q.by.keys() {
			where = append(where, fmt.Sprintf("l.%s = %s", column, arg(q.value(column))))
			if q.by != byApproval {
				where = append(where, "l."+column+" <> ''") // as the index says
			}
		}
	}
	for _, column := range q.rest {
		where = append(where, fmt.Sprintf("l.%s || '' = %s", column, arg(q.value(column)))) // no other index is to lead
	}
	if !q.f.Since.IsZero() {
		where = append(where, "l.at >= "+arg(q.f.Since))
	}
	if !q.f.Until.IsZero() {
		where = append(where, "l.at < "+arg(q.f.Until))
	}
	where = append(where, q.f.Refusals.condition()...)
	// Each branch has the order by itself, so that they are merged.
	forwards := q.f.Newest == (order == "back")
	branch := `SELECT l.*, -l.leaf AS back FROM log_entries l WHERE ` + strings.Join(where, " AND ")
	ordered := map[string]string{"leaf": " ORDER BY l.leaf", "back": " ORDER BY -l.leaf"}[order] + direction[!forwards]
	branches := []string{"(" + branch + ordered + ")"}
	if q.by.merges() {
		branches = nil
		for _, kind := range q.kinds {
			if q.by == byKind {
				branches = append(branches, "("+branch+" AND l.type || ' ' || l.outcome = "+arg(kind[0]+" "+kind[1])+ordered+")")
			} else {
				branches = append(branches, "("+branch+" AND l.type = "+arg(kind[0])+" AND l.outcome = "+arg(kind[1])+ordered+")")
			}
		}
	}
	return `SELECT p.leaf, coalesce(e.event_id::text, ''), coalesce(e.appended_at, p.at), coalesce(e.type, ''), coalesce(e.outcome, ''),
			coalesce(e.agent_id, ''), coalesce(e.tool_name, ''), coalesce(e.approval_id, ''), coalesce(e.body, ''),
			p.at, p.type, p.outcome, p.agent_id, p.tool_name, coalesce(p.approval_id, ''), p.actor_id
		FROM (SELECT u.* FROM (` + strings.Join(branches, " UNION ALL ") + `) u ORDER BY u.` + order + direction[!forwards] + ` LIMIT ` + arg(limit) + `) p
		LEFT JOIN LATERAL (SELECT * FROM events x WHERE x.seq = p.seq OFFSET 0) e ON true ORDER BY p.` + order + direction[!forwards], args
}

// look lists the first matching records of some leaves. It takes the index that
// leads, and no other way: the planner knows less of these columns than we do.
func (q *search) look(ctx context.Context, from, to int64, limit int, within time.Duration) (list []IndexedRecord, err error) {
	if q.by.merges() && len(q.kinds) == 0 {
		return nil, nil // of that type and outcome there is none
	}
	ctx, cancel := context.WithTimeout(ctx, q.store.timeout)
	defer cancel()
	sql, args := q.query(from, to, limit)
	err = pgx.BeginTxFunc(ctx, q.store.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', $1, true), set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),
			set_config('enable_seqscan', 'off', true), set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true)`, fmt.Sprint(within.Milliseconds())); err != nil {
			return err
		}
		// The statement is another one with every filter: nothing of it is kept.
		rows, err := tx.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, scanFiled)
		return err
	})
	return list, err
}

// timedOut reports whether a statement was ended by its own time.
func timedOut(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "57014"
}
