package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// Observer is told what this process has written, once its commit is durable. It must
// be quick and safe for concurrent use.
type Observer interface {
	// Recorded is told of the event of a submission.
	Recorded(e engine.Event)
	// Contributed is told of a fact.
	Contributed(f approval.Fact)
	// Announced is told of what people are to be notified of, once for an approval.
	Announced(kind engine.NotificationKind)
	// Ended is told how an approval that waited has ended, and how long after its opening.
	Ended(status approval.Status, after time.Duration)
}

// changed is what a change has written that its observer is told of.
type changed struct {
	facts     []approval.Fact
	announced []approval.Notification
	settled   bool
}

// observed tells the observer what the change has written.
func (s Approvals) observed(c *Change) {
	if s.observer == nil {
		return
	}
	for _, f := range c.facts {
		s.observer.Contributed(f)
	}
	for _, n := range c.announced {
		s.observer.Announced(n.Kind)
	}
	// Of what was accepted at once, nobody was asked.
	if a := c.Approval; c.settled && a.Plan.AcceptedAs == "" {
		s.observer.Ended(a.Status, a.EndedAt.Sub(a.Plan.OpenedAt))
	}
}

// WaitingApprovals is how many approvals wait, and how long ago the oldest of them was opened.
type WaitingApprovals struct {
	// For is the kind of what they wait for, or a role that is asked.
	For    string
	N      int
	Oldest time.Duration
}

// Metrics is what there is at a moment, as those who run the programs watch it.
type Metrics struct {
	// ByKind counts each pending approval once; ByRole counts it for every role that may
	// decide on it now, the role with the most first.
	ByKind, ByRole []WaitingApprovals
	// Late is how many approvals a worker should have looked at more than lateAfter ago.
	Late int
	// Outbox is how many messages wait for Temporal.
	Outbox       int
	OutboxOldest time.Duration
	// Notifications wait to be sent, or were given up; NotificationsLate is for how long
	// the first of them should have been sent.
	Notifications, NotificationsDead int
	NotificationsLate                time.Duration
	// AllKilled says that a kill switch stops every agent; AgentsKilled is how many are
	// stopped by a switch of their own.
	AllKilled    bool
	AgentsKilled int
	// ReviewsOwed are emergencies that nobody has looked at afterwards.
	ReviewsOwed int
	// LogSize is how many events have their place in the audit log, LogDelay for how long
	// one has waited for its place, Signed the size of the last checkpoint, of SignedAt.
	LogSize  int64
	LogDelay time.Duration
	Signed   int64
	SignedAt time.Time
	Streams  []StreamPosition
	// NotInLog counts facts of which no event tells (CountAlarms).
	NotInLog int64
}

// The times of Metrics, as Postgres takes them.
const (
	lateAfter = time.Minute
	alarmsFor = time.Hour
)

// Metrics reads all of them at one moment, on a connection that is kept for
// administration: they are wanted most when the others are taken.
func (s *Store) Metrics(ctx context.Context) (Metrics, error) {
	var f Metrics
	rows := &pgx.Batch{}
	waiting := func(into *[]WaitingApprovals, sql string) {
		rows.Queue(sql).Query(func(r pgx.Rows) (err error) {
			*into, err = pgx.CollectRows(r, func(row pgx.CollectableRow) (w WaitingApprovals, err error) {
				err = row.Scan(&w.For, &w.N, &w.Oldest)
				return w, err
			})
			return err
		})
	}
	one := func(sql string, args, into []any) {
		rows.Queue(sql, args...).QueryRow(func(row pgx.Row) error {
			err := row.Scan(into...)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
	}
	// In narrow rows, but for those that wait for nobody: decided, and not settled yet.
	waiting(&f.ByKind, `SELECT waits_for, sum(n)::bigint, coalesce(clock_timestamp() - min(oldest), interval '0') FROM (
			SELECT waits_for, count(*) AS n, min(opened_at) AS oldest FROM waiting_calls GROUP BY waits_for
			UNION ALL SELECT waits_for, count(*), min(opened_at) FROM approvals WHERE status = 'pending' AND due_at IS NULL GROUP BY waits_for) x
		GROUP BY waits_for ORDER BY waits_for`)
	// Calls that ask the same people first, for they are many.
	waiting(&f.ByRole, `SELECT role, sum(n)::bigint, coalesce(clock_timestamp() - min(oldest), interval '0')
		FROM (SELECT open_to, count(*) AS n, min(opened_at) AS oldest FROM waiting_calls GROUP BY open_to) x CROSS JOIN LATERAL unnest(open_to) role
		GROUP BY role ORDER BY sum(n) DESC, role`)
	one(`SELECT count(*) FROM approvals WHERE (status = 'pending' OR execution = 'redeemed') AND wake_at < (SELECT clock_timestamp()) - make_interval(secs => $1)`,
		[]any{lateAfter.Seconds()}, []any{&f.Late})
	one(`SELECT count(*), coalesce(clock_timestamp() - min(created_at), interval '0') FROM outbox`, nil, []any{&f.Outbox, &f.OutboxOldest})
	one(`SELECT count(*), greatest(clock_timestamp() - min(due_at), interval '0') FROM notifications WHERE status = 'waiting'`,
		nil, []any{&f.Notifications, &f.NotificationsLate})
	one(`SELECT count(*) FROM notifications WHERE status = 'dead'`, nil, []any{&f.NotificationsDead})
	one(`SELECT coalesce(bool_or(agent_id = ''), false), count(*) FILTER (WHERE agent_id <> '') FROM kill_switches`, nil, []any{&f.AllKilled, &f.AgentsKilled})
	one(`SELECT count(*) FROM afterwards WHERE done_at IS NULL`, nil, []any{&f.ReviewsOwed})
	one(`SELECT size, `+logDelay+` FROM log_head h`, nil, []any{&f.LogSize, &f.LogDelay})
	one(`SELECT size, at FROM log_checkpoints ORDER BY size DESC LIMIT 1`, nil, []any{&f.Signed, &f.SignedAt})
	one(countAlarms, []any{alarmsFor.Seconds(), approval.NotInLog.Code}, []any{&f.NotInLog})
	rows.Queue(positions).Query(func(r pgx.Rows) (err error) {
		f.Streams, err = positionRows.all(r, nil)
		return err
	})
	err := s.within(ctx, func(ctx context.Context) error { return s.reserve.SendBatch(ctx, rows).Close() })
	return f, translate(err)
}

// Connections is how this process stands with Postgres.
type Connections struct {
	// Busy and Idle are connections that there are, of at most Max.
	Busy, Idle, Max int
	// Waits counts the statements that have waited for a connection, Waited is for how long.
	Waits  int64
	Waited time.Duration
}

// Connections counts them.
func (s *Store) Connections() Connections {
	p := s.pool.Stat()
	return Connections{
		Busy: int(p.AcquiredConns()), Idle: int(p.IdleConns()), Max: int(p.MaxConns()),
		Waits: p.EmptyAcquireCount(), Waited: p.EmptyAcquireWaitTime(),
	}
}
