package auditlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/audit"
	"holdpoint/internal/store"
)

// Floor keeps the last checkpoint where whoever restores or rewrites the
// database does not reach.
type Floor interface {
	// Load returns the note that was kept last; nil when there is none.
	Load(ctx context.Context) ([]byte, error)
	// Keep keeps a note, durably, before it returns.
	Keep(ctx context.Context, note []byte) error
}

// Sequencer gives events their places in the log and signs what the log has come
// to. One process at a time does so; any number may try. What it appends is one
// transaction, and that transaction names the log's former state: whoever has
// lost the lead, or has died in the middle, has changed nothing.
//
//	events ─► safe? ─► leaves, tiles, root ─► sign ─► advance_log ─► floor
//	           │                                        │
//	           no lower number can come                 compare-and-swap, one commit
//
// A signature leaves the process only after the commit. So there are never two
// checkpoints of one size, whatever is killed when.
//
// Whether it has the lead or not, it looks every few seconds whether the log
// continues what is known of it, and keeps the floors up to date (watch.go).
type Sequencer struct {
	Store  *store.Store
	Keys   []audit.Key // the first one's name is the log's origin
	Floors []Floor
	Logger *slog.Logger
	// Every is the pause between two looks: 200 ms when 0.
	Every time.Duration
	// At, when set, is called before each step; for tests.
	At func(step string)

	known knownCheckpoint
	// batch is how many events are appended at once: fewer than usual after the
	// database was too slow for so many.
	batch int
	// last is when the last batch was appended, thinned when old checkpoints were
	// last looked through, and reportedAt when somebody was last told of a backlog.
	last, thinned, reportedAt time.Time
	trouble                   outage
}

const (
	sequenceEvery = 200 * time.Millisecond
	sequenceBatch = 4096
	// sequencePause is the least time between two batches that do not belong to a
	// backlog: whoever waits for the log must not make it a busy one.
	sequencePause = 40 * time.Millisecond
	thinEvery     = 10 * time.Minute
	reportEvery   = 5 * time.Second
)

// ErrBehind is returned when the database's log does not continue a checkpoint
// that is known: its tail was cut, it was rewritten, or it was restored from an
// old copy.
var ErrBehind = errors.New("the audit log in the database is not the one that was signed")

// Run sequences until ctx ends. A log that is behind what is known of it is left
// alone: that is for people to look at.
func (q *Sequencer) Run(ctx context.Context) {
	every := cmp.Or(q.Every, sequenceEvery)
	var watching sync.WaitGroup
	kept := make([]int64, len(q.Floors))
	watching.Go(func() { q.watch(ctx, kept) })
	defer func() {
		watching.Wait()
		q.leave(ctx, kept)
	}()
	wanted := q.Store.Log.Wanted(ctx)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	q.trouble = outage{report: func(err error) {
		q.Logger.Error("the audit log does not go on; trying again until it does", "error", err)
	}}
	for ctx.Err() == nil {
		_, err := q.Store.Log.Lead(ctx, func(ctx context.Context, l *store.LogLeader) error { return q.lead(ctx, l, ticker.C, wanted) })
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, store.ErrMoved) {
			q.trouble.is(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// lead sequences for as long as this process has the lead.
func (q *Sequencer) lead(ctx context.Context, l *store.LogLeader, tick <-chan time.Time, wanted <-chan struct{}) error {
	head, tree, err := l.Head(ctx)
	if err != nil {
		return err
	}
	if tree.Root() != head.Root {
		return fmt.Errorf("%w: its tiles do not give its root", ErrBehind)
	}
	if err := q.Check(ctx); err != nil {
		return err
	}
	q.batch = cmp.Or(q.batch, sequenceBatch)
	lead := leading{LogLeader: l, head: head, tree: tree}
	for {
		left, err := q.once(ctx, &lead)
		if errors.Is(err, context.DeadlineExceeded) {
			q.batch = max(1, q.batch/4)
		}
		if err != nil {
			return err
		}
		q.trouble.is(nil)
		q.progress(lead.head.Size, left)
		if left > 0 {
			continue
		}
		if time.Since(q.thinned) > thinEvery {
			q.thinned = time.Now()
			if err := l.PruneCheckpoints(ctx); err != nil {
				return fmt.Errorf("drop old checkpoints: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
		case <-wanted:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(sequencePause - time.Since(q.last)):
			}
		}
	}
}

// progress tells whoever reads the program's log how a backlog becomes less.
func (q *Sequencer) progress(size, left int64) {
	switch {
	case left == 0 && !q.reportedAt.IsZero():
		q.Logger.Info("the audit log has caught up", "events", size)
		q.reportedAt = time.Time{}
	case left >= sequenceBatch && time.Since(q.reportedAt) > reportEvery:
		q.Logger.Info("events get their places in the audit log", "placed", size, "left", left)
		q.reportedAt = time.Now()
	}
}

// leading is what one process knows of the log while it has the lead.
type leading struct {
	*store.LogLeader
	head store.LogHead
	tree *audit.Tree
	// ahead is what was read while the batch before it was appended, and safe up to
	// which number events can be read; nil for nothing.
	ahead *leaves
	safe  int64
}

// leaves are events without a place, and what the log has of each.
type leaves struct {
	seqs   []int64
	actors []string
	hashes []tlog.Hash
}

// leavesOf makes leaves of the events that read reads, from the given place on; nil of none.
func leavesOf(from int64, read func(each func(store.NumberedRecord)) error) (*leaves, error) {
	var b leaves
	var hasher audit.LeafHasher
	err := read(func(e store.NumberedRecord) {
		e.Leaf = from + int64(len(b.seqs))
		hash, actor := hasher.Hash(e.Record)
		b.seqs, b.actors, b.hashes = append(b.seqs, e.Seq), append(b.actors, actor), append(b.hashes, hash)
	})
	if err != nil || len(b.seqs) == 0 {
		return nil, err
	}
	return &b, nil
}

// next are the leaves to append; nil for none.
func (q *Sequencer) next(ctx context.Context, l *leading) (next *leaves, err error) {
	if next, l.ahead = l.ahead, nil; next != nil {
		return next, nil
	}
	q.at("safe")
	if l.safe, err = l.HighWaterMark(ctx); err != nil || l.safe <= l.head.Seq {
		return nil, err
	}
	q.at("read")
	return leavesOf(l.head.Size, func(each func(store.NumberedRecord)) error { return l.Next(ctx, l.head.Seq, l.safe, q.batch, each) })
}

// readAhead reads what comes after seq while that is appended, and returns what waits
// for it. What goes wrong is for the next reading to tell.
func (q *Sequencer) readAhead(ctx context.Context, l *leading, seq int64) (wait func()) {
	if seq >= l.safe {
		return func() {}
	}
	size, limit, done := l.tree.Size(), q.batch, make(chan *leaves, 1)
	go func() {
		ahead, _ := leavesOf(size, func(each func(store.NumberedRecord)) error { return l.ReadAhead(ctx, seq, l.safe, limit, each) })
		done <- ahead
	}()
	return func() { l.ahead = <-done }
}

// once appends a batch, and says how many numbers there are left at most. On an
// error the tree may be ahead of the log: it has to be read again.
func (q *Sequencer) once(ctx context.Context, l *leading) (left int64, err error) {
	next, err := q.next(ctx, l)
	if err != nil || next == nil {
		return 0, err
	}
	a := store.Advance{From: l.head, Seqs: next.seqs, Actors: next.actors}
	full := map[int]bool{}
	for _, hash := range next.hashes {
		l.tree.Append(hash, func(t audit.Tile) {
			t.Hashes = append([]tlog.Hash(nil), t.Hashes...)
			a.Tiles = append(a.Tiles, t)
			full[t.Level] = true
		})
	}
	for _, t := range l.tree.Partial() {
		// A level that neither filled a tile nor is the lowest has not changed.
		if t.Level == 0 || full[t.Level-1] {
			a.Tiles = append(a.Tiles, t)
		}
	}
	a.Root = l.tree.Root()
	now := audit.Checkpoint{Origin: q.Keys[0].Name(), Size: l.tree.Size(), Root: a.Root}
	q.at("sign")
	if a.Checkpoint, err = audit.Sign(now, audit.Signers(q.Keys)...); err != nil {
		return 0, err
	}
	q.at("append")
	last := a.Seqs[len(a.Seqs)-1]
	read := q.readAhead(ctx, l, last)
	err = l.Append(ctx, a)
	read()
	if err != nil {
		return 0, err
	}
	q.at("appended")
	l.head.Size, l.head.Root, l.head.Seq = l.tree.Size(), a.Root, last
	q.known.learn(now, a.Checkpoint)
	q.batch, q.last = min(2*q.batch, sequenceBatch), time.Now()
	q.at("told")
	return l.safe - last, nil
}

func (q *Sequencer) at(step string) {
	if q.At != nil {
		q.At(step)
	}
}
