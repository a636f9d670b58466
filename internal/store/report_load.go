package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Load is what one reviewer did in a period, or all of them for PersonID "".
// A vote that somebody changed counts once, as it stood last. What counts votes
// leaves out those cast by standing grants, but for ByGrant.
type Load struct {
	PersonID         string
	Decided          int
	Approved, Denied int
	ByGrant          int
	AsDeputy         int // in somebody else's place
	Median, P95      time.Duration
	Timed            int // votes of which it is known when the card was shown
	Quick            int // of those, cast within the time that counts as quick
	Nights, Weekends int // Weekends counts nights at weekends as well
	OffHours         int // nights or weekends
	Alone            int // while nobody else was on the schedule
	OnCall           int // while on call
	Questions        int
	Busiest          int // votes on their busiest day
	BusiestDay       time.Time
	LastVote         time.Time
}

// LoadQuery says which votes Loads looks at.
type LoadQuery struct {
	Since, Until time.Time // Until is not in it
	// Zone is the time zone by which it is night, or a weekend.
	Zone string
	// Quick is how soon after the card was shown a vote is quick.
	Quick time.Duration
	// NightFrom and NightTo are the hours between which it is night.
	NightFrom, NightTo int
	// Most is how many facts are looked at; with more Loads answers ErrTooMany.
	Most int
}

// reportTimeout bounds a report: nobody's call waits for it, so that it may take
// longer than other statements.
const reportTimeout = 30 * time.Second

// Loads says what reviewers did in a period, in order of how much they decided,
// and of all of them together. The time of a vote runs from when the call was
// put to people: when the approval or its edition began, or when the requesting
// side's answer, proof or ticket, which came first, was good. ErrTooMany: there
// was more in the period than may be looked at. ErrUnfit: Postgres does not know
// the time zone.
func (s Reports) Loads(ctx context.Context, q LoadQuery) (people []Load, total Load, err error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, reportTimeout.Milliseconds())); err != nil {
			return err
		}
		var n int
		err := tx.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM facts WHERE kind IN ('vote', 'question') AND actor_kind = 'human'
			AND at >= $1 AND at < $2 LIMIT $3) AS facts_of_it`, q.Since, q.Until, q.Most+1).Scan(&n)
		if err != nil {
			return err
		}
		if n > q.Most {
			return ErrTooMany
		}
		rows, err := tx.Query(ctx, loads, q.Since, q.Until, q.Zone, q.Quick.Seconds(), q.NightFrom, q.NightTo)
		if err != nil {
			return err
		}
		list, err := pgx.CollectRows(rows, scanLoad)
		for _, one := range list {
			if one.PersonID == "" {
				total = one
			} else {
				people = append(people, one)
			}
		}
		return err
	})
	if errors.Is(err, ErrTooMany) {
		return nil, total, ErrTooMany
	}
	err = translate(err)
	var refused *refusedByPostgres
	if errors.As(err, &refused) && refused.code == "22023" {
		return nil, total, ErrUnstorable
	}
	return people, total, err
}

func scanLoad(row pgx.CollectableRow) (Load, error) {
	var l Load
	var waited []float64
	err := row.Scan(&l.PersonID, &l.Decided, &l.Approved, &l.Denied, &l.ByGrant, &l.AsDeputy, &waited, &l.Timed, &l.Quick, &l.Nights, &l.Weekends,
		&l.OffHours, &l.OnCall, &l.Alone, &l.Questions, &l.Busiest, zeroTime{&l.BusiestDay}, zeroTime{&l.LastVote})
	if len(waited) == 2 {
		l.Median, l.P95 = seconds(waited[0]), seconds(waited[1])
	}
	return l, err
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// loads reads the votes and questions of the period through facts_said, and for
// each vote looks into facts_approval, card_views and on_call_person.
const loads = `WITH said AS (
		SELECT f.seq, f.approval_id, f.edition, f.kind, f.actor_id, f.at, f.yes, f.details ? 'grant' AS granted, cardinality(f.via) > 0 AS deputy
		FROM facts f WHERE f.kind IN ('vote', 'question') AND f.actor_kind = 'human' AND f.at >= $1 AND f.at < $2
	), last AS (
		SELECT DISTINCT ON (approval_id, edition, actor_id) * FROM said WHERE kind = 'vote' ORDER BY approval_id, edition, actor_id, seq DESC
	), votes AS (
		SELECT v.*, extract(epoch FROM v.at - coalesce(turn.at, a.opened_at))::float8 AS waited, extract(epoch FROM v.at - shown.at)::float8 AS looked,
			extract(isodow FROM v.at AT TIME ZONE $3) >= 6 AS weekend,
			extract(hour FROM v.at AT TIME ZONE $3) >= $5::integer OR extract(hour FROM v.at AT TIME ZONE $3) < $6::integer AS night,
			(v.at AT TIME ZONE $3)::date AS day, duty.there AS on_call, duty.alone
		FROM last v JOIN approvals a ON a.id = v.approval_id
		LEFT JOIN LATERAL (SELECT max(p.at) AS at FROM facts p WHERE p.approval_id = v.approval_id AND p.seq < v.seq
			AND (p.kind IN ('edit', 'reopen') OR p.yes AND p.kind IN ('answer', 'verification', 'ticket_check'))) turn ON true
		LEFT JOIN LATERAL (SELECT max(c.first_at) AS at FROM card_views c WHERE c.approval_id = v.approval_id AND c.person_id = v.actor_id AND c.first_at <= v.at) shown ON true
		LEFT JOIN LATERAL (SELECT count(*) > 0 AS there, coalesce(bool_or(NOT EXISTS (SELECT FROM on_call x WHERE x.schedule = o.schedule
				AND x.person_id <> o.person_id AND x.from_at <= v.at AND x.until_at > v.at)), false) AS alone
			FROM on_call o WHERE o.person_id = v.actor_id AND o.from_at <= v.at AND o.until_at > v.at) duty ON true
	), days AS (
		SELECT DISTINCT ON (actor_id) actor_id, day, n FROM (SELECT actor_id, day, count(*) AS n FROM votes WHERE NOT granted GROUP BY actor_id, day) AS per_day
		ORDER BY actor_id, n DESC, day
	), asked AS (
		SELECT actor_id, count(*) AS n FROM said WHERE kind = 'question' GROUP BY actor_id
	), counted AS (
		SELECT coalesce(actor_id, '') AS who, count(*) FILTER (WHERE NOT granted) AS decided,
			count(*) FILTER (WHERE yes AND NOT granted) AS approved, count(*) FILTER (WHERE NOT yes AND NOT granted) AS denied,
			count(*) FILTER (WHERE granted) AS granted, count(*) FILTER (WHERE deputy AND NOT granted) AS deputy,
			percentile_cont(ARRAY[0.5, 0.95]::float8[]) WITHIN GROUP (ORDER BY waited) FILTER (WHERE NOT granted) AS waited,
			count(*) FILTER (WHERE looked IS NOT NULL AND NOT granted) AS timed, count(*) FILTER (WHERE looked <= $4 AND NOT granted) AS quick,
			count(*) FILTER (WHERE night AND NOT granted) AS nights, count(*) FILTER (WHERE weekend AND NOT granted) AS weekends,
			count(*) FILTER (WHERE (night OR weekend) AND NOT granted) AS off_hours,
			count(*) FILTER (WHERE on_call AND NOT granted) AS on_call, count(*) FILTER (WHERE alone AND NOT granted) AS alone,
			max(at) AS last
		FROM votes GROUP BY GROUPING SETS ((actor_id), ())
	), everybody AS (
		SELECT who FROM counted UNION SELECT actor_id FROM asked
	)
	SELECT e.who, coalesce(c.decided, 0), coalesce(c.approved, 0), coalesce(c.denied, 0), coalesce(c.granted, 0), coalesce(c.deputy, 0), c.waited,
		coalesce(c.timed, 0), coalesce(c.quick, 0), coalesce(c.nights, 0), coalesce(c.weekends, 0), coalesce(c.off_hours, 0),
		coalesce(c.on_call, 0), coalesce(c.alone, 0),
		CASE WHEN e.who = '' THEN (SELECT coalesce(sum(n), 0)::bigint FROM asked) ELSE coalesce(q.n, 0) END,
		coalesce(d.n, 0), d.day::timestamp AT TIME ZONE 'UTC', c.last
	FROM everybody e LEFT JOIN counted c ON c.who = e.who LEFT JOIN asked q ON q.actor_id = e.who LEFT JOIN days d ON d.actor_id = e.who
	ORDER BY coalesce(c.decided, 0) DESC, e.who`
