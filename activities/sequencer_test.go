package activities_test

import (
	"context"
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
	looked := make(chan struct{}, 1000)
	in.run(in.sequencer(func(q *activities.Sequencer) {
		q.At = func(step string) {
			if step == "safe" {
				select {
				case looked <- struct{}{}:
				default:
				}
			}
		}
	}))
	for range 3 {
		<-looked
	}
	must(t, high.Commit(ctx))
	for len(looked) > 0 {
		<-looked
	}
	for range 3 {
		<-looked
	}
	must(t, low.Commit(ctx))
	in.placed(reader, 3*time.Second)
	if got := in.check(); got != 3 {
		t.Errorf("%d leaves, want 3", got)
	}
}
