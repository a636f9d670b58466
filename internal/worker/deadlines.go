package worker

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// Deadlines settles approvals at the moment for which they wait: a deadline, an
// escalation, the end of a lease, and what was decided a moment ago and is not settled
// yet, because Temporal has much to do. It reads who is due from the database, many at a
// time, so that thousands may be due at the same moment. Each approval's workflow has
// a timer of its own a little later, and finds then that nothing is left to do. Any
// number of workers may run one each.
type Deadlines struct {
	Store   *store.Store
	Settler dueSettler
	// Ready is nil while Temporal answers. Nothing is settled without it: which of
	// its signals is still on the way is not known then.
	Ready  func(context.Context) error
	Logger *slog.Logger

	// later has approvals that are due and have been looked at in vain, and when they
	// are looked at again.
	later map[string]time.Time
}

// dueSettler is gate.Settler.
type dueSettler interface {
	SettleDue(ctx context.Context, approvalIDs []string) (map[string]gate.Settlement, error)
}

const (
	dueBatch = 256
	// dueParallel is how many transactions there are beside each other at most. On two processors
	// it is one: the gate has the other one.
	dueParallel = 4
	// dueTogether is how many share a transaction at most: whoever votes on one of them waits for it.
	dueTogether = 16
	// dueAhead is how far ahead is looked, and the longest pause between two looks.
	dueAhead = 500 * time.Millisecond
	// dueElsewhere is how long an approval is left to whoever has it in hand.
	dueElsewhere = 50 * time.Millisecond
	// dueRetry is the pause before an approval is looked at again that is still due
	// after it was, or could not be.
	dueRetry = 2 * time.Second
	// openedBefore leaves to its workflow what was opened only just now, and openedBatch is
	// how many others are settled for the first time before what is due is looked for again.
	openedBefore = 10 * time.Second
	openedBatch  = 16
)

// Run settles until ctx ends.
func (d *Deadlines) Run(ctx context.Context) {
	d.later = map[string]time.Time{}
	failing := false
	decided := d.Store.Outbox.Decided(ctx)
	for ctx.Err() == nil {
		wait, err := d.once(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			d.Logger.Warn("what is due cannot be settled at the moment; trying again until it can", "error", err)
		}
		if failing = err != nil; failing {
			pause(ctx, dueRetry)
			continue
		}
		select {
		case <-ctx.Done():
		case <-decided:
		case <-time.After(wait):
		}
	}
}

// once settles what is due, and returns how long nothing else is. What has never been
// settled comes last, a few at a time: thousands may have been opened at once, and nothing
// that has a deadline or was decided waits for them.
func (d *Deadlines) once(ctx context.Context) (wait time.Duration, err error) {
	now := time.Now()
	maps.DeleteFunc(d.later, func(_ string, at time.Time) bool { return !at.After(now) })
	except := slices.Collect(maps.Keys(d.later))
	found, err := d.Store.Outbox.Due(ctx, dueAhead, dueBatch, except)
	if err != nil {
		return 0, err
	}
	wait = dueAhead
	var due []string
	for _, each := range found {
		if each.In > 0 {
			wait = each.In
			break
		}
		due = append(due, each.ID)
	}
	if len(due) == 0 {
		if due, err = d.Store.Outbox.Unsettled(ctx, openedBefore, openedBatch, except); err != nil || len(due) == 0 {
			return wait, err
		}
	}
	if err := d.Ready(ctx); err != nil {
		return 0, err
	}
	return 0, d.settle(ctx, due)
}

// settle settles what is due, some of it in one transaction and a few of those beside each
// other. The error is the last one; the others are settled all the same.
func (d *Deadlines) settle(ctx context.Context, due []string) (err error) {
	// Others have the same list: each begins elsewhere.
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, min(max(runtime.GOMAXPROCS(0)/2, 1), dueParallel))
	for some := range slices.Chunk(due, min(max(len(due)/cap(slots), 1), dueTogether)) {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			found, failed := d.Settler.SettleDue(ctx, some)
			mu.Lock()
			defer mu.Unlock()
			if failed != nil {
				err = failed
			}
			for _, id := range some {
				if one, here := found[id]; !here {
					d.later[id] = time.Now().Add(dueElsewhere)
				} else if !one.Over {
					d.later[id] = time.Now().Add(max(min(one.WakeIn, dueRetry), dueAhead))
				}
			}
		})
	}
	group.Wait()
	return err
}
