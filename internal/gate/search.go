package gate

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/store"
)

// SearchBudget is how long a search in the console may look at rows that may not
// be wanted, before it says how far it has come.
const SearchBudget = 300 * time.Millisecond

// Found is what a search of the log has come to.
type Found = store.Found

// Checkpoint is a checkpoint as it was signed, with what witnesses have added.
type Checkpoint = store.Checkpoint

// SearchLog lists up to limit events of the audit log within SearchBudget. What
// has only just been appended is waited for.
func (g *Gate) SearchLog(ctx context.Context, f EventFilter, limit int) (Found, error) {
	if f.After == 0 {
		if _, err := g.placed(ctx); err != nil {
			return Found{}, err
		}
	}
	f.Limit = limit
	found, err := g.Store.Events.Search(ctx, f, SearchBudget)
	if errors.Is(err, store.ErrUnfit) {
		return Found{}, &Refusal{Status: 400, Code: "bad_query", Detail: "A filter holds a text that no event can hold."}
	}
	return found, err
}

var noSuchEvent = &Refusal{Status: 404, Code: "not_found", Detail: "There is no such event."}

// LogEvent reads the event of this id, whether it has a place in the log or not.
func (g *Gate) LogEvent(ctx context.Context, id string) (audit.Record, error) {
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return audit.Record{}, noSuchEvent
	}
	r, err := g.Store.Log.LeafOf(ctx, id)
	if err == nil && r.Leaf < 0 {
		if _, err = g.placed(ctx); err == nil {
			r, err = g.Store.Log.LeafOf(ctx, id)
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		err = noSuchEvent
	}
	return r, err
}

// LogEventAt reads the event at a place of the log. One that is gone has an empty
// ID.
func (g *Gate) LogEventAt(ctx context.Context, seq int64) (audit.Record, error) {
	head, err := g.Store.Log.Head(ctx)
	if err != nil {
		return audit.Record{}, err
	}
	if seq < 1 || seq > head.Size {
		return audit.Record{}, noSuchEvent
	}
	records, err := g.Store.Log.Leaves(ctx, seq-1, 1)
	if err != nil {
		return audit.Record{}, err
	}
	return records[0], nil
}

// LogStanding is how the log stands.
type LogStanding struct {
	Size int64
	// MovedAt is when events were last given places.
	MovedAt time.Time
	// Latest is the newest checkpoint; nil before the first.
	Latest *Checkpoint
	// Waiting counts the events without a place, up to MaxWaiting; the oldest is
	// from Oldest.
	Waiting     int
	Oldest, Now time.Time
}

// MaxWaiting is up to where LogStanding counts.
const MaxWaiting = store.MaxUnsequenced

// LogStanding reads how the log stands.
func (g *Gate) LogStanding(ctx context.Context) (LogStanding, error) {
	u, err := g.Store.Events.Unsequenced(ctx)
	if err != nil {
		return LogStanding{}, err
	}
	head, err := g.Store.Log.Head(ctx)
	if err != nil {
		return LogStanding{}, err
	}
	s := LogStanding{Size: head.Size, MovedAt: head.At, Waiting: u.Events, Oldest: u.Oldest, Now: u.Now}
	c, err := g.Store.Log.LatestCheckpoint(ctx, 0)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return s, nil
	case err != nil:
		return LogStanding{}, err
	}
	s.Latest = &c
	return s, nil
}

// LogCheckpoints lists up to limit checkpoints from the newest on, below a size;
// 0 for all.
func (g *Gate) LogCheckpoints(ctx context.Context, below int64, limit int) ([]Checkpoint, error) {
	return g.Store.Log.Checkpoints(ctx, below, limit)
}

// Everybody lists all people there are, for whoever reads the log to choose from.
func (g *Gate) Everybody(ctx context.Context) ([]engine.Person, error) {
	return g.Store.People.List(ctx)
}
