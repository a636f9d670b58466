package activities

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// Courier gives notifications whose time has come to Temporal, each to a workflow
// of its own under the notification's id, and finds again what Temporal has lost.
// Any number of couriers may run.
type Courier struct {
	Store    *store.Store
	Temporal client.Client
	Logger   *slog.Logger
	// Every is the pause between two looks: 1 s when 0.
	Every time.Duration
}

const (
	courierBatch = 100
	// lostAfter is how long after its time a notification is missed. An attempt
	// takes less.
	lostAfter = time.Minute
	// sweepEvery is how many looks there are to one at what may be lost.
	sweepEvery = 10
)

// Run gives and finds until ctx ends.
func (r *Courier) Run(ctx context.Context) {
	every := r.Every
	if every == 0 {
		every = time.Second
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	after, said := "", false
	for n := 0; ; n++ {
		more, err := r.give(ctx)
		if err == nil && n%sweepEvery == 0 {
			after, err = r.sweep(ctx, after)
		}
		// Said once for an outage, and not with every look.
		if err != nil && ctx.Err() == nil && !said {
			r.Logger.Warn("notifications cannot be given to Temporal; trying again until they can", "error", err)
		}
		if said = err != nil; more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// give starts what is due, and reports whether there may be more.
func (r *Courier) give(ctx context.Context) (more bool, err error) {
	due, err := r.Store.Notifications.Due(ctx, courierBatch)
	if err != nil {
		return false, err
	}
	var started []string
	for _, id := range due {
		if err = r.start(ctx, id); err != nil {
			break
		}
		started = append(started, id)
	}
	if len(started) > 0 {
		// If this is not written, they are started again, which changes nothing.
		err = errors.Join(err, r.Store.Notifications.MarkStarted(ctx, started))
	}
	return len(due) == courierBatch, err
}

// start starts the notification's workflow, unless it is running.
func (r *Courier) start(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	_, err := r.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: workflows.TaskQueue,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowTaskTimeout:      2 * time.Second,
	}, workflows.NotificationWorkflow, workflows.NotificationInput{NotificationID: id})
	return err
}

// sweep looks at notifications that should have been sent or tried by now, after
// the given id, and has those started again that have no running workflow. It
// returns where the next sweep goes on.
func (r *Courier) sweep(ctx context.Context, after string) (string, error) {
	overdue, err := r.Store.Notifications.Overdue(ctx, after, lostAfter, sweepBatch)
	if err != nil {
		return after, err
	}
	var lost []string
	for _, id := range overdue {
		running, err := runs(ctx, r.Temporal, id)
		if err != nil {
			return after, err
		}
		if !running {
			lost = append(lost, id)
		}
		after = id
	}
	if len(overdue) < sweepBatch {
		after = ""
	}
	if len(lost) == 0 {
		return after, nil
	}
	r.Logger.Info("notifications without a workflow are handed to Temporal again", "count", len(lost))
	return after, r.Store.Notifications.Restart(ctx, lost)
}
