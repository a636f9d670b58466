package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"holdpoint/internal/store"
)

// Reconciler finds approvals that Temporal has lost — its database restored or
// emptied, a workflow terminated, reset or deleted — and puts them back into
// the outbox.
type Reconciler struct {
	Store    *store.Store
	Temporal client.Client
	Logger   *slog.Logger
	// Every is the pause between two looks: 2 s when 0.
	Every time.Duration
}

const sweepBatch = 50

// saidEvery is how often it is said that looks fail.
const saidEvery = time.Minute

// Run reconciles until ctx ends: at every look it asks for the workflows of a part of
// all pending approvals. Where some of a part are lost others may be, too, and the next
// look follows at once, until all have been looked at.
func (r *Reconciler) Run(ctx context.Context) {
	every := cmp.Or(r.Every, 2*time.Second)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	after, said := "", time.Time{}
	for {
		var err error
		var lost int
		if after, lost, err = r.look(ctx, after); err != nil && ctx.Err() == nil && time.Since(said) > saidEvery {
			r.Logger.Warn("approvals cannot be reconciled with Temporal; it is tried again", "error", err)
			said = time.Now()
		}
		if lost > 0 && after != "" && err == nil && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look makes one look, going on with the sweep after the given id. It returns where the
// next one goes on, "" after the last, and how many were lost.
func (r *Reconciler) look(ctx context.Context, after string) (next string, found int, err error) {
	pending, err := r.Store.Outbox.PendingAfter(ctx, after, sweepBatch)
	if err != nil {
		return after, 0, err
	}
	var lost []string
	for _, id := range pending {
		running, err := r.running(ctx, id)
		if err != nil {
			return after, len(lost), errors.Join(err, r.requeue(ctx, lost))
		}
		if !running {
			lost = append(lost, id)
		}
		after = id
	}
	if len(pending) < sweepBatch {
		after = ""
	}
	return after, len(lost), r.requeue(ctx, lost)
}

func (r *Reconciler) requeue(ctx context.Context, lost []string) error {
	if len(lost) == 0 {
		return nil
	}
	r.Logger.Info("approvals without a workflow are handed to Temporal again", "count", len(lost))
	return r.Store.Outbox.Poke(ctx, lost)
}

// running reports whether Temporal has a running workflow for the approval.
func (r *Reconciler) running(ctx context.Context, id string) (bool, error) {
	return runs(ctx, r.Temporal, id)
}

// runs reports whether Temporal has a running workflow of that id.
func runs(ctx context.Context, temporal client.Client, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	d, err := temporal.DescribeWorkflowExecution(ctx, id, "")
	var none *serviceerror.NotFound
	if errors.As(err, &none) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return d.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}
