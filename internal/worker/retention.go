package worker

import (
	"context"
	"log/slog"
	"time"

	"holdpoint/internal/admin"
	"holdpoint/internal/store"
)

// Retention erases what has ended longer ago than is to be kept, and that
// nothing keeps. It walks from the oldest on, a few at a time, each time on
// record in the transaction that erases. Any number may run.
type Retention struct {
	Store *store.Store
	// After is how long after its end an approval is kept; 0 keeps all.
	After  time.Duration
	Logger *slog.Logger
}

// Bounds of its work.
const (
	retentionBatch = 20
	retentionPause = 100 * time.Millisecond // between batches: calls come first
	retentionPass  = 10 * time.Millisecond  // where all of a batch is kept, as by a hold
	retentionEvery = 10 * time.Minute       // from one walk to the next
)

// Run erases until ctx ends.
func (r *Retention) Run(ctx context.Context) {
	if r.After <= 0 {
		return
	}
	for {
		erased, err := r.Walk(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.Logger.WarnContext(ctx, "retention was interrupted; trying again", "erased", erased, "in", retentionEvery, "error", err)
		case erased > 0:
			r.Logger.InfoContext(ctx, "retention has erased what is old enough", "approvals", erased, "after", r.After)
		}
		if !pause(ctx, retentionEvery) {
			return
		}
	}
}

// Walk goes once over everything that is old enough and returns how many
// approvals it erased.
func (r *Retention) Walk(ctx context.Context) (int, error) {
	var place store.ErasureCursor
	total, logged := 0, 0
	for {
		erased, next, done, err := r.Store.Retention.EraseDue(ctx, r.After, place, retentionBatch, admin.AgeErasure(r.After), admin.AgeEvent)
		if err != nil {
			return total, err
		}
		total, place = total+len(erased), next
		if done {
			return total, nil
		}
		if total-logged >= 1000 {
			logged = total
			r.Logger.InfoContext(ctx, "retention is erasing", "approvals", total, "up_to", place.EndedAt)
		}
		rest := retentionPause
		if len(erased) == 0 {
			rest = retentionPass
		}
		if !pause(ctx, rest) {
			return total, ctx.Err()
		}
	}
}

// pause waits, and reports whether ctx is still there.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
