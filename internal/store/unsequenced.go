package store

import (
	"context"
	"time"
)

// Unsequenced is how much of what is committed has no place in the log yet.
type Unsequenced struct {
	// Events counts them, up to MaxUnsequenced.
	Events int
	Oldest time.Time // the zero time where there are none
	Now    time.Time // the database's
}

// MaxUnsequenced is up to where events without a place are counted.
const MaxUnsequenced = 10_000

// Unsequenced counts the events that have no place in the log yet.
func (s Events) Unsequenced(ctx context.Context) (Unsequenced, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var u Unsequenced
	err := s.pool.QueryRow(ctx, `SELECT count(*), min(u.appended_at), clock_timestamp()
		FROM (SELECT e.appended_at FROM events e WHERE e.seq > (SELECT h.seq FROM log_head h) ORDER BY e.seq LIMIT $1) u`, MaxUnsequenced).Scan(&u.Events, zeroTime{&u.Oldest}, &u.Now)
	return u, translate(err)
}
