package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Statistics counts approvals of a period by when they ended, and what waits now. What
// nobody was asked about, because it was accepted at once, is left out.
type Statistics struct {
	// Waiting is how many approvals wait now, by how long they have waited: less than each
	// of StatisticsQuery.Ages, in their order, and the others last.
	Waiting []int
	// Days are in order of time; one on which nothing ended is left out.
	Days []DayStatistics
	// Tools and Agents are those with the most decisions, the most first.
	Tools, Agents []RateStatistics
	// Reviewers are all who voted, the most first; Grants those with the most votes.
	Reviewers []VoteStatistics
	Grants    []GrantStatistics
}

// DayStatistics is what ended on a day, or in a week that begins with it.
type DayStatistics struct {
	Day time.Time `json:"day"`
	// Decided is how many were approved or denied, in the seconds P50 and P90 from when
	// they were proposed; Ended how many in all, and Expired how many in time's stead.
	Decided int     `json:"decided"`
	Ended   int     `json:"ended"`
	Expired int     `json:"expired"`
	P50     float64 `json:"p50"`
	P90     float64 `json:"p90"`
}

// RateStatistics is how the approvals of a tool or an agent ended.
type RateStatistics struct {
	Name     string `json:"name"`
	Approved int    `json:"approved"`
	Denied   int    `json:"denied"`
	Expired  int    `json:"expired"`
}

// VoteStatistics is how often somebody voted, themselves and by their standing grants.
type VoteStatistics struct {
	PersonID string
	Votes    int
	ByGrant  int
}

// GrantStatistics is how often a standing grant voted in the period, and how much of it
// is used up.
type GrantStatistics struct {
	ID, Tool, AgentID, PersonID string
	Votes, Uses, MaxUses        int
}

// StatisticsQuery says what is counted.
type StatisticsQuery struct {
	Since, Until time.Time // Until is not in it
	// Weekly counts by weeks, and not by days; both are UTC's.
	Weekly bool
	Ages   []time.Duration
	// Listed is how many tools, agents and grants there are at the most, and Most how many
	// approvals and votes are looked at; with more Statistics answers ErrTooMany.
	Listed, Most int
}

// Statistics counts what happened in a period. All of it is of one moment.
func (s Reports) Statistics(ctx context.Context, q StatisticsQuery) (Statistics, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	var found Statistics
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, reportTimeout.Milliseconds())); err != nil {
			return err
		}
		for _, step := range []func(context.Context, pgx.Tx, StatisticsQuery) error{found.bounded, found.waiting, found.countEnded, found.votes, found.grants} {
			if err := step(ctx, tx, q); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, ErrTooMany) {
		return Statistics{}, ErrTooMany
	}
	return found, translate(err)
}

// bounded is ErrTooMany for a period in which there is more than may be looked at.
func (*Statistics) bounded(ctx context.Context, tx pgx.Tx, q StatisticsQuery) error {
	var most int
	err := tx.QueryRow(ctx, `SELECT greatest(
			(SELECT count(*) FROM (SELECT FROM approvals WHERE status <> 'pending' AND ended_at >= $1 AND ended_at < $2 LIMIT $3) AS ended),
			(SELECT count(*) FROM (SELECT FROM facts WHERE kind IN ('vote', 'question') AND actor_kind = 'human' AND at >= $1 AND at < $2 LIMIT $3) AS said))`,
		q.Since, q.Until, q.Most+1).Scan(&most)
	if err == nil && most > q.Most {
		return ErrTooMany
	}
	return err
}

func (f *Statistics) waiting(ctx context.Context, tx pgx.Tx, q StatisticsQuery) error {
	ages := make([]float64, len(q.Ages))
	for i, age := range q.Ages {
		ages[i] = age.Seconds()
	}
	f.Waiting = make([]int, len(ages)+1)
	rows, err := tx.Query(ctx, `SELECT width_bucket(extract(epoch FROM clock_timestamp() - opened_at)::float8, $1::float8[]), count(*) FROM approvals
		WHERE status = 'pending' GROUP BY 1`, ages)
	if err != nil {
		return err
	}
	var bucket, n int
	_, err = pgx.ForEachRow(rows, []any{&bucket, &n}, func() error {
		f.Waiting[bucket] = n
		return nil
	})
	return err
}

// countEnded counts what ended, with one look at each row.
func (f *Statistics) countEnded(ctx context.Context, tx pgx.Tx, q StatisticsQuery) error {
	var days, rates []byte
	unit := "day"
	if q.Weekly {
		unit = "week"
	}
	err := tx.QueryRow(ctx, `WITH over AS MATERIALIZED (
			SELECT date_trunc($3, ended_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS day, tool, agent_id, status, extract(epoch FROM ended_at - opened_at)::float8 AS took
			FROM approvals WHERE status <> 'pending' AND ended_at >= $1 AND ended_at < $2 AND NOT terms ? 'accepted_as'
		), days AS (
			SELECT day, count(*) FILTER (WHERE decided) AS decided, count(*) AS ended, count(*) FILTER (WHERE status = 'expired') AS expired,
				coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY took) FILTER (WHERE decided), 0) AS p50,
				coalesce(percentile_cont(0.9) WITHIN GROUP (ORDER BY took) FILTER (WHERE decided), 0) AS p90
			FROM (SELECT *, status IN ('approved', 'denied') AS decided FROM over) AS each GROUP BY day
		), rates AS (
			SELECT *, row_number() OVER (PARTITION BY by_tool ORDER BY approved + denied DESC, name) AS place FROM (
				SELECT GROUPING(tool) = 0 AS by_tool, coalesce(tool, agent_id) AS name, count(*) FILTER (WHERE status = 'approved') AS approved,
					count(*) FILTER (WHERE status = 'denied') AS denied, count(*) FILTER (WHERE status = 'expired') AS expired
				FROM over GROUP BY GROUPING SETS ((tool), (agent_id))) AS each
		)
		SELECT (SELECT coalesce(jsonb_agg(days ORDER BY day), '[]') FROM days),
			(SELECT jsonb_build_object('tools', coalesce(jsonb_agg(rates ORDER BY place) FILTER (WHERE by_tool), '[]'),
				'agents', coalesce(jsonb_agg(rates ORDER BY place) FILTER (WHERE NOT by_tool), '[]')) FROM rates WHERE place <= $4)`,
		q.Since, q.Until, unit, q.Listed).Scan(&days, &rates)
	if err != nil {
		return err
	}
	var by struct{ Tools, Agents []RateStatistics }
	if err := errors.Join(json.Unmarshal(days, &f.Days), json.Unmarshal(rates, &by)); err != nil {
		return fmt.Errorf("read statistics: %w", err)
	}
	f.Tools, f.Agents = by.Tools, by.Agents
	return nil
}

// votes counts those that stood last in each edition, as reports on reviewers do.
func (f *Statistics) votes(ctx context.Context, tx pgx.Tx, q StatisticsQuery) error {
	rows, err := tx.Query(ctx, `SELECT actor_id, count(*) FILTER (WHERE NOT granted), count(*) FILTER (WHERE granted) FROM (
			SELECT DISTINCT ON (approval_id, edition, actor_id) actor_id, details ? 'grant' AS granted FROM facts
			WHERE kind = 'vote' AND actor_kind = 'human' AND at >= $1 AND at < $2 ORDER BY approval_id, edition, actor_id, seq DESC) AS last
		GROUP BY actor_id ORDER BY 2 DESC, 3 DESC, 1`, q.Since, q.Until)
	if err != nil {
		return err
	}
	f.Reviewers, err = pgx.CollectRows(rows, pgx.RowToStructByPos[VoteStatistics])
	return err
}

func (f *Statistics) grants(ctx context.Context, tx pgx.Tx, q StatisticsQuery) error {
	rows, err := tx.Query(ctx, `SELECT g.id, g.tool, g.agent_id, g.person_id, v.n, g.uses, g.max_uses FROM (
			SELECT details->>'grant' AS id, count(*) AS n FROM facts WHERE kind = 'vote' AND actor_kind = 'human' AND at >= $1 AND at < $2 AND details ? 'grant'
			GROUP BY 1) AS v JOIN standing_grants g ON g.id = v.id ORDER BY v.n DESC, g.id LIMIT $3`, q.Since, q.Until, q.Listed)
	if err != nil {
		return err
	}
	f.Grants, err = pgx.CollectRows(rows, pgx.RowToStructByPos[GrantStatistics])
	return err
}
