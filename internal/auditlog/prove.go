package auditlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// MayReadLog reports whether the person may read the audit log.
func MayReadLog(p engine.Person) bool { return access.ReadsEverything(p) && !p.Disabled }

// What the log does not have, and what is wrong with it.
var (
	notInLog     = &access.Refusal{Kind: access.NotFound, Code: "not_in_log", Detail: "The log has nothing of this name, or not yet."}
	noCheckpoint = &access.Refusal{Kind: access.NotFound, Code: "no_checkpoint", Detail: "No checkpoint of this size is kept. /v1/audit/checkpoints lists those that are."}
	notPlaced    = &access.Refusal{
		Kind: access.Conflict, Code: "not_placed_yet", RetryAfter: time.Second,
		Detail: "The event is on record and has no place in the log yet: it gets one within a second, while a worker runs.",
	}
	notWitnessed = &access.Refusal{
		Kind: access.Conflict, Code: "not_witnessed_yet", RetryAfter: time.Second,
		Detail: "The event has its place in the log, and no checkpoint that has it was signed by enough witnesses yet.",
	}
	eventChanged = &access.Refusal{
		Kind: access.Conflict, Code: "event_changed",
		Detail: "The event is not the one that was logged: it does not fit the leaf hash at its place. It was changed in the database, and cannot be proved.",
	}
	logBroken = &access.Refusal{
		Kind: access.Broken, Code: "log_broken",
		Detail: "The log in the database does not fit the checkpoint that was signed: something of it was changed or removed. Nothing can be proved by it.",
	}
	logBusy = &access.Refusal{Kind: access.Unavailable, Code: "log_busy", RetryAfter: time.Second, Detail: "Too many read the log at this moment; try again."}
)

// The public log is read by anybody: so many connections at once are for them, and
// no more than one core computes entries, so that no call waits behind them. Who
// has waited this long is sent away.
const (
	logReaders    = 4
	logBundlers   = 1
	logReadWithin = 5 * time.Second
)

// publicly runs read as one of the few that are at it at once.
func publicly(ctx context.Context, few chan struct{}, read func() ([]byte, error)) ([]byte, error) {
	late := time.NewTimer(logReadWithin)
	defer late.Stop()
	select {
	case few <- struct{}{}:
		defer func() { <-few }()
		return read()
	case <-late.C:
		return nil, logBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// newest is the newest checkpoint; absent is the error where there is none yet.
func (l *Log) newest(ctx context.Context, absent error) (Checkpoint, error) {
	c, err := l.Store.Log.LatestCheckpoint(ctx, l.Witnessed)
	if errors.Is(err, store.ErrNotFound) {
		return c, absent
	}
	return c, err
}

// PublicCheckpoint is the newest checkpoint as a signed note, with what witnesses
// have added. An empty log has none: that is a refusal.
func (l *Log) PublicCheckpoint(ctx context.Context) ([]byte, error) {
	return publicly(ctx, l.readers, func() ([]byte, error) {
		c, err := l.newest(ctx, notInLog)
		return c.Signed(), err
	})
}

// PublicResource is a tile's hashes, or the bundle of entries as the database's
// events give them at this moment. What the newest checkpoint does not cover is
// refused, and so is a tile that has been removed.
func (l *Log) PublicResource(ctx context.Context, r audit.Resource) ([]byte, error) {
	few := l.readers
	if r.Entries {
		few = l.bundlers
	}
	return publicly(ctx, few, func() ([]byte, error) {
		c, err := l.newest(ctx, notInLog)
		if err != nil {
			return nil, err
		}
		if !r.In(c.Size) {
			return nil, notInLog
		}
		if r.Entries {
			records, err := l.Store.Log.Leaves(ctx, r.N*audit.TileWidth, r.Width)
			return audit.Bundle(records), err
		}
		hashes, err := l.Store.Log.Tiles(ctx)(r.Level, r.N, r.Width)
		if err != nil {
			return nil, l.broken(ctx, err)
		}
		return audit.Tile{Hashes: hashes}.Data(), nil
	})
}

// broken is what reading or proving the log has come to: an outage stays one, and
// anything else is a log that does not fit its checkpoint.
func (l *Log) broken(ctx context.Context, err error) error {
	if access.IsUnavailable(err) || ctx.Err() != nil {
		return err
	}
	l.Logger.ErrorContext(ctx, "the audit log does not fit its checkpoint: look at it with holdpoint audit verify", "error", err)
	return logBroken
}

// prove makes a proof from tiles, those that are remembered first.
func (l *Log) prove(ctx context.Context, by func(audit.Tiles) ([]tlog.Hash, error)) ([]tlog.Hash, error) {
	tiles := l.Store.Log.Tiles(ctx)
	proof, err := by(l.tiles.wrap(tiles))
	if err != nil && !access.IsUnavailable(err) && ctx.Err() == nil {
		// They may be those of another log: the database was restored meanwhile.
		l.tiles.forget()
		proof, err = by(tiles)
	}
	if err != nil {
		return nil, l.broken(ctx, err)
	}
	return proof, nil
}

// ProvenEvent is an event with the proof that a checkpoint's log has it.
type ProvenEvent struct {
	audit.Record
	Checkpoint Checkpoint
	// Proof is the inclusion proof to the checkpoint's root. It has been checked.
	Proof tlog.RecordProof
}

// Prove proves that the log has an event. An event that has only just been
// appended is waited for; one that is unknown, has no place yet, is not what was
// logged, or is yet to be witnessed is a refusal.
func (l *Log) Prove(ctx context.Context, eventID string) (ProvenEvent, error) {
	r, err := l.Event(ctx, eventID)
	if err != nil {
		return ProvenEvent{}, err
	}
	if r.Leaf < 0 {
		return ProvenEvent{}, notPlaced
	}
	c, err := l.covering(ctx, r)
	if err != nil {
		return ProvenEvent{}, err
	}
	proof, err := l.prove(ctx, func(tiles audit.Tiles) ([]tlog.Hash, error) { return tiles.ProveLeaf(c.Size, c.Root, r.Leaf) })
	if err != nil {
		return ProvenEvent{}, err
	}
	if err := tlog.CheckRecord(proof, c.Size, c.Root, r.Leaf, audit.LeafHash(r.Entry())); err != nil {
		l.Logger.ErrorContext(ctx, "an event is not the one that was logged", "event_id", r.ID, "seq", r.Seq())
		return ProvenEvent{}, eventChanged
	}
	return ProvenEvent{Record: r, Checkpoint: c, Proof: proof}, nil
}

// covering is the newest checkpoint, which has the record's place: it is read after
// that was. Witnesses come later, and are no sign of a log that is broken.
func (l *Log) covering(ctx context.Context, r audit.Record) (Checkpoint, error) {
	c, err := l.newest(ctx, nil)
	if err != nil || c.Size > r.Leaf {
		return c, err
	}
	if l.Witnessed > 0 {
		signed, err := l.Store.Log.LatestCheckpoint(ctx, 0)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return c, err
		}
		if signed.Size > r.Leaf {
			return c, notWitnessed
		}
	}
	return c, l.broken(ctx, fmt.Errorf("the newest checkpoint is of %d events, and %s has the place %d", c.Size, r.ID, r.Leaf))
}

// ConsistencyProof is the proof that the log of one size continues that of another.
type ConsistencyProof struct {
	From, To int64
	Proof    tlog.TreeProof
	// Checkpoints are those that were signed of these sizes: that of To is among
	// them, that of From perhaps not.
	Checkpoints []Checkpoint
}

// Consistency proves that the log of to events continues that of from events, for
// whoever has kept a checkpoint of those. A checkpoint of to events has to have
// been signed; 0 stands for the newest.
func (l *Log) Consistency(ctx context.Context, from, to int64) (ConsistencyProof, error) {
	var later Checkpoint
	var err error
	if to == 0 {
		later, err = l.newest(ctx, noCheckpoint)
	} else if later, err = l.Store.Log.CheckpointAt(ctx, to); errors.Is(err, store.ErrNotFound) {
		err = noCheckpoint
	}
	if err != nil {
		return ConsistencyProof{}, err
	}
	if from < 0 || from > later.Size {
		return ConsistencyProof{}, &access.Refusal{Kind: access.Malformed, Code: "bad_query", Detail: fmt.Sprintf("from has to be a size of the log that is not above %d.", later.Size)}
	}
	c := ConsistencyProof{From: from, To: later.Size, Checkpoints: []Checkpoint{later}}
	c.Proof, err = l.prove(ctx, func(tiles audit.Tiles) ([]tlog.Hash, error) { return tiles.ProveTree(later.Size, later.Root, from) })
	if err != nil || from == later.Size {
		return c, err
	}
	former, err := l.Store.Log.CheckpointAt(ctx, from)
	if errors.Is(err, store.ErrNotFound) {
		return c, nil // whoever has one all the same finds out what is wrong
	}
	if err != nil {
		return ConsistencyProof{}, err
	}
	wrong := audit.CheckTree(c.Proof, audit.Checkpoint{Size: later.Size, Root: later.Root}, audit.Checkpoint{Size: former.Size, Root: former.Root})
	if wrong != nil {
		return ConsistencyProof{}, l.broken(ctx, wrong)
	}
	c.Checkpoints = []Checkpoint{former, later}
	return c, nil
}
