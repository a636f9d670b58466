package auditlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"holdpoint/internal/store"
	"holdpoint/internal/witness"
)

// Witnessing has witnesses sign the log's checkpoints (C2SP tlog-witness) and
// keeps what they have signed. Witnesses remember: one that has seen more than the
// database has, or something else, says that the log was cut or rewritten.
// Any number may run. It is used by its address only.
type Witnessing struct {
	Store     *store.Store
	Witnesses []*witness.Client
	Logger    *slog.Logger
	// Every is the pause between two checkpoints for a witness: 1 s when 0.
	Every time.Duration
	// Round is how long a checkpoint waits for the slowest witness before the next
	// one is put to those that have signed it: 5 s when 0.
	Round time.Duration

	mu    sync.Mutex
	point store.Checkpoint // what is put to all witnesses
	begun time.Time
	heard map[string]bool // the witnesses that have answered
	away  map[string]bool // those that have failed to, last time: nobody waits for them
}

// Run asks each witness, by itself, until ctx ends.
func (w *Witnessing) Run(ctx context.Context) {
	w.away = map[string]bool{}
	var group sync.WaitGroup
	for _, c := range w.Witnesses {
		group.Go(func() { w.follow(ctx, c) })
	}
	group.Wait()
}

// next is the checkpoint that all witnesses are asked to sign, and whether there
// is a newer one already. Asked for what is newest at the moment, each would sign
// another, and of a log that never rests none would have the signatures of two.
func (w *Witnessing) next(ctx context.Context) (point store.Checkpoint, newer bool, err error) {
	// Read under the lock: one that was read before another witness's would take all of
	// them back to a checkpoint that is older than the one they sign.
	w.mu.Lock()
	defer w.mu.Unlock()
	latest, err := w.Store.Log.LatestCheckpoint(ctx, 0)
	if errors.Is(err, store.ErrNotFound) {
		return store.Checkpoint{}, false, nil
	}
	if err != nil {
		return store.Checkpoint{}, false, err
	}
	waiting := 0
	for _, c := range w.Witnesses {
		if name := c.Verifier.Name(); !w.heard[name] && !w.away[name] {
			waiting++
		}
	}
	over := waiting == 0 || time.Since(w.begun) > cmp.Or(w.Round, 5*time.Second)
	if over && latest.Size != w.point.Size || latest.Size < w.point.Size {
		w.point, w.begun, w.heard = latest, time.Now(), map[string]bool{}
	}
	return w.point, latest.Size > w.point.Size, nil
}

// note notes that a witness has signed a checkpoint, or why it has not.
func (w *Witnessing) note(c *witness.Client, point store.Checkpoint, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away[c.Verifier.Name()] = err != nil
	if w.point.Size == point.Size {
		w.heard[c.Verifier.Name()] = true
	}
}

// follow has one witness sign each checkpoint that is put to all, over and over.
func (w *Witnessing) follow(ctx context.Context, c *witness.Client) {
	every := cmp.Or(w.Every, time.Second)
	grown := w.Store.Log.Changes(ctx)
	var signed int64 // what the witness has signed last, as far as is known
	pause, logged := every, ""
	for {
		size, newer, err := w.once(ctx, c, signed)
		if err == nil {
			signed, logged, pause = size, "", every
		} else if ctx.Err() == nil {
			pause = min(30*time.Second, 2*pause)
			// Said once, and not with every attempt.
			if err.Error() != logged {
				logged = err.Error()
				w.Logger.Warn("a witness has not signed the audit log's checkpoint", "witness", c.Verifier.Name(), "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err == nil && !newer {
			// Nothing to sign before there is more; now and then a look all the same.
			select {
			case <-ctx.Done():
				return
			case <-grown:
			case <-time.After(time.Minute):
			}
		}
	}
}

// once has a witness sign the checkpoint of this round, unless it has. It returns
// the size that the witness has signed, and whether there is more to sign.
func (w *Witnessing) once(ctx context.Context, c *witness.Client, signed int64) (size int64, newer bool, err error) {
	point, newer, err := w.next(ctx)
	if err != nil || point.Size == 0 {
		return signed, newer, err
	}
	defer func() { w.note(c, point, err) }()
	if point.Size == signed || point.Size < signed && newer {
		return signed, newer, nil
	}
	line, err := w.add(ctx, c, min(signed, point.Size), point)
	var other *witness.ConflictError
	if errors.As(err, &other) {
		// Another process has asked it, or this one before it was started again.
		if other.Size > point.Size {
			latest, err := w.Store.Log.LatestCheckpoint(ctx, 0)
			if err != nil {
				return signed, newer, err
			}
			if latest.Size < other.Size {
				return signed, newer, fmt.Errorf("%w: the witness has signed a log of %d events, and the database has %d", ErrBehind, other.Size, latest.Size)
			}
			return other.Size, true, nil // another process was quicker
		}
		line, err = w.add(ctx, c, other.Size, point)
	}
	if err != nil {
		return signed, newer, err
	}
	return point.Size, newer, w.Store.Log.Cosign(ctx, point.Size, c.Verifier.Name(), line)
}

func (w *Witnessing) add(ctx context.Context, c *witness.Client, former int64, latest store.Checkpoint) (string, error) {
	proof, err := w.Store.Log.Tiles(ctx).ProveTree(latest.Size, latest.Root, former)
	if err != nil {
		return "", err
	}
	return c.Add(ctx, former, proof, latest.Note)
}
