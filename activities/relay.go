package activities

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// Relay tells Temporal what the outbox holds. Starting an approval's workflow
// and telling it of a change is one operation, signal-with-start under the
// approval's id, so that the normal path and every recovery are the same code.
// Any number of relays may run.
type Relay struct {
	Store    *store.Store
	Temporal client.Client
	Logger   *slog.Logger
	// Observe, when set, is told of every attempt: how many messages were
	// claimed, and whether Temporal took them all.
	Observe func(claimed int, all bool)
}

// Bounds of the relay's work.
const (
	relayBatch    = 64
	relayParallel = 16
	tellTimeout   = time.Second
	relayPoll     = time.Second // in case a notification was lost
	relayBackoff  = time.Second // at most, while Temporal does not answer
)

// Run relays until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	news := r.Store.Outbox.Changes(ctx)
	backoff := 100 * time.Millisecond
	for {
		claimed, all := r.once(ctx)
		wait := relayPoll
		switch {
		case ctx.Err() != nil:
			return
		case !all:
			wait, backoff = backoff, min(2*backoff, relayBackoff)
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			continue
		case claimed == relayBatch:
			backoff = 100 * time.Millisecond
			continue
		}
		backoff = 100 * time.Millisecond
		select {
		case <-ctx.Done():
			return
		case <-news:
		case <-time.After(wait):
		}
	}
}

// once relays one batch and reports how many messages it held, and whether all
// of them were told.
func (r *Relay) once(ctx context.Context) (claimed int, all bool) {
	all = true
	claimed, err := r.Store.Outbox.Relay(ctx, relayBatch, func(ctx context.Context, ids []string) map[string]bool {
		told := r.tellAll(ctx, ids)
		all = len(told) == len(ids)
		return told
	})
	if err != nil {
		if ctx.Err() == nil {
			r.Logger.Warn("the outbox cannot be relayed", "error", err)
		}
		return claimed, false
	}
	if r.Observe != nil {
		r.Observe(claimed, all)
	}
	return claimed, all
}

// tellAll tells Temporal of several approvals at once and returns those that it
// took. After the first that it did not take, no further one is tried.
func (r *Relay) tellAll(ctx context.Context, ids []string) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	var mu sync.Mutex
	told := make(map[string]bool, len(ids))
	var group sync.WaitGroup
	slots := make(chan struct{}, relayParallel)
	for _, id := range ids {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			if err := r.tell(ctx, id); err != nil {
				r.Logger.Warn("Temporal did not take an approval; it stays in the outbox", "approval", id, "error", err)
				cancel()
				return
			}
			mu.Lock()
			defer mu.Unlock()
			told[id] = true
		})
	}
	group.Wait()
	return told
}

// tell signals the approval's workflow, and starts it when it is not running:
// because it has not been yet, or was lost, or was stopped by somebody.
func (r *Relay) tell(ctx context.Context, id string) error {
	_, err := r.Temporal.SignalWithStartWorkflow(ctx, id, workflows.ChangedSignal, nil, client.StartWorkflowOptions{
		ID: id, TaskQueue: workflows.TaskQueue,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		// A worker that died with a task in hand is missed that soon.
		WorkflowTaskTimeout: 2 * time.Second,
	}, workflows.ApprovalWorkflow, workflows.ApprovalInput{ApprovalID: id})
	return err
}

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

const (
	overdueGrace = 2 * time.Second
	overdueBatch = 200
	sweepBatch   = 50
)

// Run reconciles until ctx ends: at every look the approvals whose deadline has
// passed without anybody settling them, and a part of all pending ones, whose
// workflows are asked for.
func (r *Reconciler) Run(ctx context.Context) {
	every := r.Every
	if every == 0 {
		every = 2 * time.Second
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	after := ""
	for {
		var err error
		if after, err = r.look(ctx, after); err != nil && ctx.Err() == nil {
			r.Logger.Warn("approvals cannot be reconciled with Temporal", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look makes one look, going on with the sweep after the given id, and returns
// where the next one goes on.
func (r *Reconciler) look(ctx context.Context, after string) (string, error) {
	lost, err := r.Store.Outbox.Overdue(ctx, overdueGrace, overdueBatch)
	if err != nil {
		return after, err
	}
	pending, err := r.Store.Outbox.PendingAfter(ctx, after, sweepBatch)
	if err != nil {
		return after, err
	}
	for _, id := range pending {
		running, err := r.running(ctx, id)
		if err != nil {
			// What is overdue is worth a message even when Temporal cannot be asked.
			return after, errors.Join(err, r.poke(ctx, lost))
		}
		if !running {
			lost = append(lost, id)
		}
		after = id
	}
	if len(pending) < sweepBatch {
		after = ""
	}
	return after, r.poke(ctx, lost)
}

func (r *Reconciler) poke(ctx context.Context, lost []string) error {
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
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
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
