package store

import (
	"context"
	"sync/atomic"
	"time"
)

// clock is the database's clock as a process knows it between two readings. It goes by
// the process's monotonic clock: what the process's own wall clock shows, and whether
// somebody sets it, changes nothing.
type clock struct {
	began time.Time
	ahead atomic.Int64 // the database's time less the monotonic one since began, in nanoseconds
}

// readClockEvery is how often the database's clock is read again: by then the two have
// drifted apart by less than a reading takes, unless the machine slept or either was set.
const readClockEvery = 10 * time.Second

// Clock is what the database's clock shows, without asking it: right to within the time
// that one statement takes.
func (s *db) Clock() time.Time {
	return time.Unix(0, s.clock.ahead.Load()).Add(time.Since(s.clock.began)).UTC()
}

// correct takes into account that the database's clock showed now at some time between
// asked and answered: what was known is corrected only as far as it is outside of that.
func (c *clock) correct(now time.Time, asked, answered time.Duration) {
	c.ahead.Store(min(max(c.ahead.Load(), now.UnixNano()-int64(answered)), now.UnixNano()-int64(asked)))
}

// readClock reads the database's clock.
func (s *Store) readClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var now time.Time
	asked := time.Since(s.clock.began)
	if err := s.reserve.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return translate(err)
	}
	s.clock.correct(now, asked, time.Since(s.clock.began))
	return nil
}

// followClock keeps the clock right until ctx ends. While the database cannot be asked,
// the clock goes on.
func (s *Store) followClock(ctx context.Context) {
	every := time.NewTicker(readClockEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if err := s.readClock(ctx); err != nil && ctx.Err() == nil {
				s.log.DebugContext(ctx, "the database's clock cannot be read", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}
