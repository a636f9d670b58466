package worker

import (
	"context"
	"log/slog"
	"time"

	"holdpoint/internal/notify"
	"holdpoint/internal/store"
)

// AccessReviews tells reviewers what they have left to review, when it is time.
// Any number of them may run.
type AccessReviews struct {
	Store    *store.Store
	Notifier *notify.Notifier
	Logger   *slog.Logger
}

// remindEvery is the pause between two looks.
const remindEvery = 15 * time.Second

// Run tells until ctx ends.
func (a *AccessReviews) Run(ctx context.Context) {
	for {
		found, err := a.Store.AccessReviews.Remind(ctx, a.Notifier.AccessReview)
		if err != nil && ctx.Err() == nil {
			a.Logger.Warn("reviewers of accesses cannot be told", "error", err)
		}
		if (err != nil || !found) && !pause(ctx, remindEvery) {
			return
		}
	}
}
