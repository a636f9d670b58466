package activities

import (
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
// Any number may run.
type Witnessing struct {
	Store     *store.Store
	Witnesses []*witness.Client
	Logger    *slog.Logger
	// Every is the pause between two checkpoints for a witness: 1 s when 0.
	Every time.Duration
}

// Run asks each witness, by itself, until ctx ends.
func (w *Witnessing) Run(ctx context.Context) {
	var group sync.WaitGroup
	for _, c := range w.Witnesses {
		group.Go(func() { w.follow(ctx, c) })
	}
	group.Wait()
}

// follow has one witness sign the latest checkpoint, over and over.
func (w *Witnessing) follow(ctx context.Context, c *witness.Client) {
	every := w.Every
	if every == 0 {
		every = time.Second
	}
	grown := w.Store.LogChanges(ctx)
	var signed int64 // what the witness has signed last, as far as is known
	pause, said := every, ""
	for {
		size, err := w.once(ctx, c, signed)
		if err == nil {
			signed, said, pause = size, "", every
		} else if ctx.Err() == nil {
			pause = min(30*time.Second, 2*pause)
			// Said once, and not with every attempt.
			if err.Error() != said {
				said = err.Error()
				w.Logger.Warn("a witness has not signed the audit log's checkpoint", "witness", c.Verifier.Name(), "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err == nil {
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

// once has a witness sign the latest checkpoint, unless it has, and returns the
// checkpoint's size.
func (w *Witnessing) once(ctx context.Context, c *witness.Client, signed int64) (int64, error) {
	latest, err := w.Store.LatestCheckpoint(ctx, 0)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return signed, err
	}
	if latest.Size == signed {
		return signed, nil
	}
	line, err := w.add(ctx, c, signed, latest)
	var other *witness.ConflictError
	if errors.As(err, &other) {
		// Another process has asked it, or this one before it was started again.
		if other.Size > latest.Size {
			if newer, err := w.Store.LatestCheckpoint(ctx, 0); err != nil {
				return signed, err
			} else if newer.Size >= other.Size {
				return w.once(ctx, c, other.Size) // another process was quicker
			}
			return signed, fmt.Errorf("%w: the witness has signed a log of %d events, and the database has %d", ErrBehind, other.Size, latest.Size)
		}
		line, err = w.add(ctx, c, other.Size, latest)
	}
	if err != nil {
		return signed, err
	}
	return latest.Size, w.Store.Cosign(ctx, latest.Size, c.Verifier.Name(), line)
}

func (w *Witnessing) add(ctx context.Context, c *witness.Client, former int64, latest store.Checkpoint) (string, error) {
	proof, err := w.Store.LogTiles(ctx).ProveTree(latest.Size, latest.Root, former)
	if err != nil {
		return "", err
	}
	return c.Add(ctx, former, proof, latest.Note)
}
