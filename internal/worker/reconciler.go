package worker

import (
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
}

// lookEvery is how often Temporal is asked whether workflows still run.
const lookEvery = 2 * time.Second

// How many workflows a look asks Temporal for: as few as a sweep an hour over all that
// waits allows. A question takes some milliseconds of a processor, and nothing that is
// decided or due waits for a workflow. A sweep that has found a loss makes large looks.
const (
	sweepMost  = 50
	sweepLeast = 10
	sweepTime  = time.Hour
)

// warnEvery is how often a warning says that looks fail.
const warnEvery = time.Minute

// Run reconciles until ctx ends: at every look it asks for the workflows of a part of
// all pending approvals. Where some of a part are lost others may be, too, and the next
// look follows at once, until all have been looked at. Identifiers are random, so that a
// part has some of whatever has been lost, the newest or the oldest.
func (r *Reconciler) Run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	at, warned := sweep{}, time.Time{}
	for {
		found, err := r.look(ctx, &at)
		if err != nil && ctx.Err() == nil && time.Since(warned) > warnEvery {
			r.Logger.Warn("approvals cannot be reconciled with Temporal; it is tried again", "error", err)
			warned = time.Now()
		}
		if found && at.after != "" && err == nil && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sweep is how far a walk over all that waits has come.
type sweep struct {
	after string // the id after which it goes on, "" where it begins
	size  int    // of its looks
	loss  bool   // some were lost
}

// lookSize is how many of that many pending approvals a look asks for.
func lookSize(pending int, every time.Duration) int {
	looks := max(1, int(sweepTime/every))
	return min(max((pending+looks-1)/looks, sweepLeast), sweepMost)
}

// look makes the sweep's next look, and reports whether some were lost. Approvals that still
// wait for the relay have no workflow yet and are none of its business.
func (r *Reconciler) look(ctx context.Context, at *sweep) (found bool, err error) {
	if at.after == "" {
		n, err := r.Store.Outbox.Pending(ctx)
		if err != nil {
			return false, err
		}
		if at.size = lookSize(n, lookEvery); at.loss {
			at.size = sweepMost // to see whether that was all
		}
		at.loss = false
	}
	pending, err := r.Store.Outbox.HandedOver(ctx, at.after, at.size)
	if err != nil {
		return false, err
	}
	var lost []string
	for _, id := range pending {
		running, err := r.running(ctx, id)
		if err != nil {
			return false, errors.Join(err, r.requeue(ctx, lost))
		}
		if !running {
			lost = append(lost, id)
		}
		at.after = id
	}
	if len(pending) < at.size {
		at.after = ""
	}
	if len(lost) > 0 {
		at.size, at.loss = sweepMost, true
	}
	return len(lost) > 0, r.requeue(ctx, lost)
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
