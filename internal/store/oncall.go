package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// Shift says that a person is on call on a schedule from From to Until.
type Shift struct {
	Schedule    string
	PersonID    string
	From, Until time.Time
}

// Set replaces what is known of the schedule from a moment on: the people
// are on call from then until until, and nobody is afterwards. Nobody at all is
// no error. What waits for the schedule's role is looked at again.
func (s OnCall) Set(ctx context.Context, schedule string, people []string, from, until time.Time, by string, once *Idempotency[Done], e engine.Event) error {
	return s.administerIn(ctx, once, e, func(ctx context.Context, tx pgx.Tx) error {
		rows := &pgx.Batch{}
		rows.Queue(`SELECT pg_advisory_xact_lock(hashtextextended('on-call ' || $1, 0))`, schedule)
		rows.Queue(`DELETE FROM on_call WHERE schedule = $1 AND from_at >= $2`, schedule, from)
		rows.Queue(`UPDATE on_call SET until_at = $2 WHERE schedule = $1 AND until_at > $2`, schedule, from)
		rows.Queue(`INSERT INTO on_call (schedule, person_id, from_at, until_at, told_by) SELECT $1, id, $3, $4, $5 FROM unnest($2::text[]) AS people (id)`,
			schedule, people, from, until, by)
		rows.Queue(`DELETE FROM on_call WHERE schedule = $1 AND until_at < clock_timestamp() - interval '90 days'`, schedule)
		rows.Queue(`SELECT look_again(ARRAY['on-call/' || $1], '', '')`, schedule)
		return translate(tx.SendBatch(ctx, rows).Close())
	})
}

var shiftRows = newRows(func(s *Shift) columns {
	return columns{{"schedule", &s.Schedule}, {"person_id", &s.PersonID}, {"from_at", &s.From}, {"until_at", &s.Until}}
})

// Shifts lists the shifts that go on or are still to come, by schedule and time,
// and says what time it is.
func (s OnCall) Shifts(ctx context.Context) ([]Shift, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var now time.Time
	if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return nil, now, translate(err)
	}
	list, err := shiftRows.all(s.pool.Query(ctx, `SELECT `+shiftRows.names+` FROM on_call WHERE until_at > $1 ORDER BY schedule, from_at, person_id`, now))
	return list, now, err
}

// NextShift is when somebody's being on call next begins or ends on a schedule
// whose people the approval asks for; the zero time when nothing is known.
func (c *Change) NextShift() (time.Time, error) {
	schedules := schedulesOf(c.Approval)
	if len(schedules) == 0 {
		return time.Time{}, nil
	}
	var next time.Time
	err := c.tx.QueryRow(c.ctx, `SELECT min(at) FROM on_call, unnest(ARRAY[from_at, until_at]) AS at WHERE schedule = ANY ($1) AND at > $2`, schedules, c.Now).Scan(zeroTime{&next})
	return next, translate(err)
}

// schedulesOf lists the schedules whose roles the approval names.
func schedulesOf(a approval.Approval) []string {
	var schedules []string
	add := func(role string) {
		if schedule, ok := strings.CutPrefix(role, engine.OnCallPrefix); ok {
			schedules = append(schedules, schedule)
		}
	}
	for _, r := range a.Plan.Requirements {
		add(r.Role)
		for _, g := range r.AnyOf {
			add(g.Role)
		}
		for _, e := range r.Escalation {
			add(e.Role)
		}
	}
	slices.Sort(schedules)
	return slices.Compact(schedules)
}
