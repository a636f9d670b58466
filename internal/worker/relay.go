// Package worker has the loops that run beside the workflows: the relay and the
// dispatcher hand Temporal what Postgres holds, the reconciler finds what Temporal
// has lost, retention erases by age, and the cleaner drops what is over. Any number
// of workers may run one each. They decide nothing about a call.
package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// Relay tells Temporal what the outbox holds. Starting an approval's workflow
// and telling it of a change is one operation, signal-with-start under the
// approval's id, so that the normal path and every recovery are the same code.
// Any number of relays may run.
//
// What was opened is settled here for the first time, many at once, and its workflow is
// started with a delay until its next moment: it has no task before that, or before the
// next message.
type Relay struct {
	Store    *store.Store
	Temporal client.Client
	Settler  dueSettler
	// Ready is nil while Temporal answers. Nothing is settled without it.
	Ready  func(context.Context) error
	Logger *slog.Logger

	refusing bool // Temporal took not all of the last batch
}

// Bounds of the relay's work.
const (
	relayBatch      = 64
	relayParallel   = 16
	relayTimeout    = 4 * time.Second        // of a batch: a busy Temporal takes long, and each repetition makes it busier
	relaySettles    = 2 * time.Second        // of that, settling what was opened
	temporalTimeout = time.Second            // of one other call
	relayRetry      = 100 * time.Millisecond // first pause while Temporal does not answer
	relayPoll       = time.Second            // in case a notification was lost
	relayBackoff    = time.Second            // its longest pause
)

// Run relays until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	news := r.Store.Outbox.Changes(ctx)
	backoff := relayRetry
	for ctx.Err() == nil {
		claimed, all := r.once(ctx)
		if !all {
			pause(ctx, backoff)
			backoff = min(2*backoff, relayBackoff)
			continue
		}
		backoff = relayRetry
		if claimed == relayBatch {
			continue
		}
		select {
		case <-ctx.Done():
		case <-news:
		case <-time.After(relayPoll):
		}
	}
}

// once relays one batch and reports how many messages it held, and whether
// Temporal took all of them.
func (r *Relay) once(ctx context.Context) (claimed int, all bool) {
	all = true
	claimed, err := r.Store.Outbox.Relay(ctx, relayBatch, func(ctx context.Context, messages []store.Message) map[string]bool {
		taken := r.signalAll(ctx, messages)
		all = len(taken) == len(messages)
		return taken
	})
	if err != nil {
		if ctx.Err() == nil {
			r.Logger.Warn("the outbox cannot be relayed", "error", err)
		}
		return claimed, false
	}
	return claimed, all
}

// signalAll tells Temporal of several approvals at once and returns those that it
// took. After the first that it did not take, no further one is tried.
func (r *Relay) signalAll(ctx context.Context, messages []store.Message) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	delays := r.delays(ctx, messages)
	var mu sync.Mutex
	var refused error
	taken := make(map[string]bool, len(messages))
	var group sync.WaitGroup
	slots := make(chan struct{}, relayParallel)
	for _, m := range messages {
		slots <- struct{}{}
		mu.Lock()
		stop := refused != nil || ctx.Err() != nil
		mu.Unlock()
		if stop {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			err := r.signal(m.Within(ctx), m.ApprovalID, delays[m.ApprovalID])
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = err
				return
			}
			taken[m.ApprovalID] = true
		})
	}
	group.Wait()
	// Said once for an outage, and not of every approval.
	if refused != nil && !r.refusing {
		r.Logger.Warn("Temporal does not take approvals at the moment; they stay in the outbox until it does", "error", refused)
	}
	r.refusing = refused != nil
	return taken
}

// delays settles for the first time what was opened, and returns how long the workflows of
// these messages need not begin. Where it is not said a workflow begins at once, and settles.
func (r *Relay) delays(ctx context.Context, messages []store.Message) map[string]time.Duration {
	delays := map[string]time.Duration{}
	var due []string
	for _, m := range messages {
		switch {
		case !m.MayWait:
		case m.Wait > 0:
			delays[m.ApprovalID] = m.Wait + workflows.TimerDelay(m.ApprovalID)
		default:
			due = append(due, m.ApprovalID)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, relaySettles)
	defer cancel()
	if len(due) == 0 || r.Ready(ctx) != nil {
		return delays
	}
	for some := range slices.Chunk(due, dueTogether) {
		found, err := r.Settler.SettleDue(ctx, some)
		if err != nil { // so its workflow tries, and says so
			r.Logger.Debug("approvals cannot be settled before their workflows begin", "error", err)
		}
		for id, one := range found {
			if !one.Over && !one.CheckTicket && one.WakeIn > 0 {
				delays[id] = one.WakeIn + workflows.TimerDelay(id)
			}
		}
	}
	return delays
}

// signal tells the approval's workflow, and starts it when it is not running:
// because it has not been yet, or was lost, or was stopped by somebody. One that is
// started begins after the delay; one that is there, and has not begun, begins now.
func (r *Relay) signal(ctx context.Context, id string, delay time.Duration) error {
	_, err := r.Temporal.SignalWithStartWorkflow(ctx, id, workflows.ChangedSignal, nil, client.StartWorkflowOptions{
		ID: id, TaskQueue: workflows.TaskQueue,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		// A worker that died with a task in hand is missed that soon.
		WorkflowTaskTimeout: 2 * time.Second,
		StartDelay:          delay,
	}, workflows.ApprovalWorkflow, workflows.ApprovalInput{ApprovalID: id})
	return err
}
