package auditlog

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// searchBudget is how long a search in the console may look at rows that may not
// be wanted, before it says how far it has come.
const searchBudget = 300 * time.Millisecond

// SearchResult is what a search of the log has come to.
type SearchResult = store.LogSearchResult

// Checkpoint is a checkpoint as it was signed, with what witnesses have added.
type Checkpoint = store.Checkpoint

// Search lists up to limit events of the audit log within searchBudget. What
// has only just been appended is waited for.
func (l *Log) Search(ctx context.Context, f EventFilter, limit int) (SearchResult, error) {
	if f.After == 0 {
		if _, err := l.placed(ctx); err != nil {
			return SearchResult{}, err
		}
	}
	f.Limit = limit
	found, err := l.Store.Events.Search(ctx, f, searchBudget)
	if errors.Is(err, store.ErrUnstorable) {
		return SearchResult{}, &access.Refusal{Kind: access.Malformed, Code: "bad_query", Detail: "A filter holds a text that no event can hold."}
	}
	return found, err
}

var noSuchEvent = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such event."}

// Event reads the event of this id, whether it has a place in the log or not.
func (l *Log) Event(ctx context.Context, id string) (audit.Record, error) {
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return audit.Record{}, noSuchEvent
	}
	r, err := l.Store.Log.LeafOf(ctx, id)
	if err == nil && r.Leaf < 0 {
		if _, err = l.placed(ctx); err == nil {
			r, err = l.Store.Log.LeafOf(ctx, id)
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		err = noSuchEvent
	}
	return r, err
}

// EventAt reads the event at a place of the log. One that is gone has an empty
// ID.
func (l *Log) EventAt(ctx context.Context, seq int64) (audit.Record, error) {
	head, err := l.Store.Log.Head(ctx)
	if err != nil {
		return audit.Record{}, err
	}
	if seq < 1 || seq > head.Size {
		return audit.Record{}, noSuchEvent
	}
	records, err := l.Store.Log.Leaves(ctx, seq-1, 1)
	if err != nil {
		return audit.Record{}, err
	}
	return records[0], nil
}

// Status is how the log stands.
type Status struct {
	Size int64
	// Latest is the newest checkpoint; nil before the first.
	Latest *Checkpoint
	// Waiting counts the events without a place, up to MaxWaiting; the oldest is
	// from Oldest.
	Waiting     int
	Oldest, Now time.Time
}

// MaxWaiting is how far Standing counts.
const MaxWaiting = store.MaxUnsequenced

// Standing reads how the log stands.
func (l *Log) Standing(ctx context.Context) (Status, error) {
	u, err := l.Store.Events.Unsequenced(ctx)
	if err != nil {
		return Status{}, err
	}
	head, err := l.Store.Log.Head(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{Size: head.Size, Waiting: u.Events, Oldest: u.Oldest, Now: u.Now}
	c, err := l.Store.Log.LatestCheckpoint(ctx, 0)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return s, nil
	case err != nil:
		return Status{}, err
	}
	s.Latest = &c
	return s, nil
}

// Checkpoints lists up to limit checkpoints from the newest on, below a size;
// 0 for all.
func (l *Log) Checkpoints(ctx context.Context, below int64, limit int) ([]Checkpoint, error) {
	return l.Store.Log.Checkpoints(ctx, below, limit)
}

// Everybody lists all people there are, for whoever reads the log to choose from.
func (l *Log) Everybody(ctx context.Context) ([]engine.Person, error) {
	return l.Store.People.List(ctx)
}
