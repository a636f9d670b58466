package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
type Sequencer struct {
	Store  *store.Store
	Keys   []audit.Key // the first one's name is the log's origin
	Floors []Floor
	Logger *slog.Logger
	// Every is the pause between two looks: 200 ms when 0.
	Every time.Duration
	// At, when set, is called before each step; for tests.
	At func(step string)

	// known is the last checkpoint that this process has signed, found or been
	// given by a floor: the log never goes behind it.
	known audit.Checkpoint
}

const (
	sequenceEvery = 200 * time.Millisecond
	sequenceBatch = 4096
)

// ErrBehind is returned when the database's log does not continue a checkpoint
// that is known: its tail was cut, it was rewritten, or it was restored from an
// old copy.
var ErrBehind = errors.New("the audit log in the database is not the one that was signed")

// Run sequences until ctx ends. A log that is behind what is known of it is left
// alone: that is for people to look at.
func (q *Sequencer) Run(ctx context.Context) {
	every := q.Every
	if every == 0 {
		every = sequenceEvery
	}
	wanted := q.Store.LogWanted(ctx)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	said := ""
	for ctx.Err() == nil {
		_, err := q.Store.LeadLog(ctx, func(ctx context.Context, l *store.LogLeader) error { return q.lead(ctx, l, ticker.C, wanted) })
		if ctx.Err() != nil {
			return
		}
		// Said once for an outage, and not with every look.
		if err != nil && !errors.Is(err, store.ErrMoved) && err.Error() != said {
			q.Logger.Error("the audit log does not go on; trying again until it does", "error", err)
		}
		if said = ""; err != nil {
			said = err.Error()
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
	for {
		more, err := q.once(ctx, l, &head, tree)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
		case <-wanted:
		}
	}
}

// once appends a batch, and reports whether there may be more. On an error the
// tree may be ahead of the log: it has to be read again.
func (q *Sequencer) once(ctx context.Context, l *store.LogLeader, head *store.LogHead, tree *audit.Tree) (more bool, err error) {
	q.at("safe")
	safe, err := l.Safe(ctx)
	if err != nil || safe <= head.Seq {
		return false, err
	}
	q.at("read")
	events, err := l.Next(ctx, head.Seq, safe, sequenceBatch)
	if err != nil || len(events) == 0 {
		return false, err
	}
	a := store.Advance{From: *head}
	full := map[int]bool{}
	for _, e := range events {
		e.Leaf = tree.Size()
		a.Seqs, a.Actors = append(a.Seqs, e.Seq), append(a.Actors, e.Actor())
		tree.Append(audit.LeafHash(e.Entry()), func(t audit.Tile) {
			t.Hashes = append([]tlog.Hash(nil), t.Hashes...)
			a.Tiles = append(a.Tiles, t)
			full[t.Level] = true
		})
	}
	for _, t := range tree.Partial() {
		// A level that neither filled a tile nor is the lowest has not changed.
		if t.Level == 0 || full[t.Level-1] {
			a.Tiles = append(a.Tiles, t)
		}
	}
	a.Root = tree.Root()
	now := audit.Checkpoint{Origin: q.Keys[0].Name(), Size: tree.Size(), Root: a.Root}
	q.at("sign")
	if a.Checkpoint, err = audit.Sign(now, audit.Signers(q.Keys)...); err != nil {
		return false, err
	}
	q.at("append")
	if err := l.Append(ctx, a); err != nil {
		return false, err
	}
	q.at("appended")
	q.known = now
	head.Size, head.Root, head.Seq = tree.Size(), a.Root, a.Seqs[len(a.Seqs)-1]
	for _, floor := range q.Floors {
		if err := floor.Keep(ctx, a.Checkpoint); err != nil {
			q.Logger.Warn("a checkpoint could not be kept outside the database; the next one is tried again", "size", now.Size, "error", err)
		}
	}
	q.at("kept")
	return len(events) == sequenceBatch, nil
}

// Check compares the database's log with every checkpoint that is known. It
// returns ErrBehind when the log does not continue one of them.
func (q *Sequencer) Check(ctx context.Context) error {
	known := []audit.Checkpoint{q.known}
	for _, floor := range q.Floors {
		c, err := load(ctx, floor, q.open)
		if err != nil {
			return err
		}
		known = append(known, c)
	}
	return check(ctx, q.Store, known...)
}

// CheckFloor compares the database's log with the checkpoint that a floor keeps,
// for a process that cannot tell who signed it.
func CheckFloor(ctx context.Context, s *store.Store, floor Floor) error {
	c, err := load(ctx, floor, func(signed []byte) (audit.Checkpoint, error) {
		text, _, _ := strings.Cut(string(signed), "\n\n")
		return audit.ParseCheckpoint(text + "\n")
	})
	if err != nil {
		return err
	}
	return check(ctx, s, c)
}

// load reads a floor's checkpoint; the zero one where it has none.
func load(ctx context.Context, floor Floor, open func([]byte) (audit.Checkpoint, error)) (audit.Checkpoint, error) {
	signed, err := floor.Load(ctx)
	if err != nil || signed == nil {
		return audit.Checkpoint{}, err
	}
	c, err := open(signed)
	if err != nil {
		return c, fmt.Errorf("read the checkpoint that is kept outside the database: %w", err)
	}
	return c, nil
}

func check(ctx context.Context, s *store.Store, known ...audit.Checkpoint) error {
	head, err := s.LogHead(ctx)
	if err != nil {
		return err
	}
	for _, c := range known {
		if err := continues(ctx, s, head, c); err != nil {
			return err
		}
	}
	return nil
}

// continues reports whether the database's log begins with what a checkpoint
// says: nil, or ErrBehind with what is wrong.
func continues(ctx context.Context, s *store.Store, head store.LogHead, known audit.Checkpoint) error {
	if known.Size > head.Size {
		return fmt.Errorf("%w: a checkpoint of %d events is kept outside the database, and the database has %d. "+
			"It was restored from an older copy, or its last events were removed", ErrBehind, known.Size, head.Size)
	}
	if known.Size == 0 {
		return nil
	}
	tree, err := audit.OpenTree(known.Size, s.LogTiles(ctx))
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	if err != nil || tree.Root() != known.Root {
		return fmt.Errorf("%w: its first %d events are not those of the checkpoint that is kept outside the database. It was rewritten", ErrBehind, known.Size)
	}
	return nil
}

// open reads a note that one of this log's keys has signed.
func (q *Sequencer) open(signed []byte) (audit.Checkpoint, error) {
	public := make([]string, len(q.Keys))
	for i, k := range q.Keys {
		public[i] = k.Public
	}
	verifiers, err := audit.ParseVerifiers(strings.Join(public, "\n"))
	if err != nil {
		return audit.Checkpoint{}, err
	}
	return audit.OpenCheckpoint(signed, verifiers...)
}

func (q *Sequencer) at(step string) {
	if q.At != nil {
		q.At(step)
	}
}
