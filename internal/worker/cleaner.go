package worker

import (
	"context"
	"log/slog"
	"time"

	"holdpoint/internal/store"
)

// Cleaner drops rows that nobody reads any more: answers that were kept for
// repeated requests, and counted calls that are out of every window.
type Cleaner struct {
	Store  *store.Store
	Logger *slog.Logger
}

const (
	// keepReplies is how long an answer is kept for a repetition after its end.
	keepReplies = 24 * time.Hour
	cleanEvery  = 10 * time.Minute
)

// Run drops until ctx ends.
func (c *Cleaner) Run(ctx context.Context) {
	for {
		if _, err := c.Store.ForgetReplies(ctx, keepReplies); err != nil && ctx.Err() == nil {
			c.Logger.Warn("kept answers cannot be dropped", "error", err)
		}
		if err := c.Store.Registry.ForgetCalls(ctx); err != nil && ctx.Err() == nil {
			c.Logger.Warn("counted calls cannot be dropped", "error", err)
		}
		if !pause(ctx, cleanEvery) {
			return
		}
	}
}
