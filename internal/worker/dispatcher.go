package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// Dispatcher gives notifications whose time has come to Temporal, each to a workflow
// of its own under the notification's id, and finds again what Temporal has lost.
// Any number of dispatchers may run.
type Dispatcher struct {
	Store    *store.Store
	Temporal client.Client
	Logger   *slog.Logger
}

const (
	// dispatchEvery is how often the dispatcher looks for what is due, a batch of dispatchBatch at a time.
	dispatchEvery = time.Second
	dispatchBatch = 100
	// dispatchParallel is how many are given to Temporal at a time, and how many of them may fail before the rest of a
	// batch is left: what Temporal does not take keeps nobody else waiting, and an outage is not tried a hundred times.
	dispatchParallel = 8
	// lostAfter is how long after its time a notification is missed. An attempt
	// takes less.
	lostAfter = time.Minute
	// sweepEvery is how many looks pass for each at what may be lost.
	sweepEvery = 10
)

// Run starts and restarts until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) {
	ticker := time.NewTicker(dispatchEvery)
	defer ticker.Stop()
	after, logged := "", false
	for n := 0; ; n++ {
		more, err := d.startDue(ctx)
		if err == nil && n%sweepEvery == 0 {
			after, err = d.restartLost(ctx, after)
		}
		// Said once for an outage, and not with every look.
		if err != nil && ctx.Err() == nil && !logged {
			d.Logger.Warn("notifications cannot be given to Temporal; trying again until they can", "error", err)
		}
		if logged = err != nil; more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// startDue starts what is due, and reports whether there may be more.
func (d *Dispatcher) startDue(ctx context.Context) (more bool, err error) {
	due, err := d.Store.Notifications.Due(ctx, dispatchBatch)
	if err != nil {
		return false, err
	}
	started, err := d.startAll(ctx, due)
	if len(started) > 0 {
		// If this is not written, they are started again, which changes nothing.
		err = errors.Join(err, d.Store.Notifications.MarkStarted(ctx, started))
	}
	return len(due) == dispatchBatch, err
}

// startAll starts notifications, and returns which ones, and why another one was not.
func (d *Dispatcher) startAll(ctx context.Context, due []store.DueNotification) (started []string, failed error) {
	var mu sync.Mutex
	var failures int
	next := make(chan store.DueNotification)
	var starting sync.WaitGroup
	for range min(dispatchParallel, len(due)) {
		starting.Go(func() {
			for n := range next {
				err := d.start(ctx, n)
				mu.Lock()
				if err != nil {
					failures, failed = failures+1, err
				} else {
					started = append(started, n.ID)
				}
				mu.Unlock()
			}
		})
	}
	for _, n := range due {
		mu.Lock()
		enough := failures >= dispatchParallel
		mu.Unlock()
		if enough {
			break
		}
		next <- n
	}
	close(next)
	starting.Wait()
	return started, failed
}

// ahead is the priority of what is sent before others: Temporal hands a worker the tasks of
// smaller numbers first, and those of 3 where nothing is said.
const ahead = 1

// start starts the notification's workflow, unless it is running.
func (d *Dispatcher) start(ctx context.Context, n store.DueNotification) error {
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	options := client.StartWorkflowOptions{
		ID: n.ID, TaskQueue: workflows.TaskQueue,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowTaskTimeout:      2 * time.Second,
	}
	if n.Precedes {
		options.Priority = temporal.Priority{PriorityKey: ahead}
	}
	_, err := d.Temporal.ExecuteWorkflow(ctx, options, workflows.NotificationWorkflow, workflows.NotificationInput{NotificationID: n.ID})
	return err
}

// restartLost looks at notifications that should have been sent or tried by now, after
// the given id, and has those started again that have no running workflow. It
// returns where the next look goes on.
func (d *Dispatcher) restartLost(ctx context.Context, after string) (string, error) {
	overdue, err := d.Store.Notifications.Overdue(ctx, after, lostAfter, sweepMost)
	if err != nil {
		return after, err
	}
	var lost []string
	for _, id := range overdue {
		running, err := runs(ctx, d.Temporal, id)
		if err != nil {
			return after, err
		}
		if !running {
			lost = append(lost, id)
		}
		after = id
	}
	if len(overdue) < sweepMost {
		after = ""
	}
	if len(lost) == 0 {
		return after, nil
	}
	d.Logger.Info("notifications without a workflow are handed to Temporal again", "count", len(lost))
	return after, d.Store.Notifications.Restart(ctx, lost)
}
