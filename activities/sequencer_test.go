package activities_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"holdpoint/activities"
)

// Two transactions have numbers and have not committed, and nothing with a later
// id has ended. The higher number must not get a place before the lower one.
func TestLowerNumberThatCommitsLater(t *testing.T) {
	in := install(t)
	ctx := context.Background()
	first, second, reader := connect(t, in.app), connect(t, in.app), connect(t, in.owner)
	must(t, write(ctx, reader, 1))
	low, err := first.Begin(ctx)
	must(t, err)
	must(t, write(ctx, low, 1))
	high, err := second.Begin(ctx)
	must(t, err)
	must(t, write(ctx, high, 1))
	// It looks while both run, and once more after the higher one is there.
	looks, looked := looking()
	in.run(in.sequencer(func(q *activities.Sequencer) { q.At = looks }))
	looked(t, 3)
	must(t, high.Commit(ctx))
	looked(t, 3)
	must(t, low.Commit(ctx))
	in.placed(reader, 3*time.Second)
	if got := in.check(); got != 3 {
		t.Errorf("%d leaves, want 3", got)
	}
}

// looking returns what a sequencer is to call at its steps, and what waits until
// it has looked so many times from then on.
func looking() (at func(step string), looked func(t testing.TB, times int64)) {
	var count atomic.Int64
	return func(step string) {
			if step == "safe" {
				count.Add(1)
			}
		}, func(t testing.TB, times int64) {
			t.Helper()
			until := count.Load() + times
			eventually(t, 10*time.Second, "the sequencer looks", func() bool { return count.Load() >= until })
		}
}
