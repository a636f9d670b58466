package auditlog

import (
	"context"
	"errors"
	"time"

	"holdpoint/engine/audit"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// Bounds of waiting for the log: an event has its place within a second.
const (
	placedWithin = 1500 * time.Millisecond
	stalledFor   = 10 * time.Second
)

// Records lists up to limit events of the audit log, in its order. Reading on
// from the last one's seq misses none. What has only just been appended is waited
// for; where the log stands still, it comes at the end, without a seq.
func (l *Log) Records(ctx context.Context, f EventFilter, limit int) ([]audit.Record, error) {
	f.Limit = limit
	placed, err := l.placed(ctx)
	if err != nil {
		return nil, err
	}
	records, err := l.records(ctx, f, placed)
	if errors.Is(err, store.ErrUnstorable) {
		return nil, &access.Refusal{Kind: access.Malformed, Code: "bad_query", Detail: "A filter holds a text that no event can hold."}
	}
	return records, err
}

func (l *Log) records(ctx context.Context, f EventFilter, placed bool) ([]audit.Record, error) {
	if placed || f.Newest {
		return l.Store.Events.Records(ctx, f)
	}
	// What has no place is read first: what gets one in between is in both then, and
	// not in neither.
	unplaced, err := l.Store.Events.Unplaced(ctx, f)
	if err != nil {
		return nil, err
	}
	records, err := l.Store.Events.Records(ctx, f)
	if err != nil {
		return nil, err
	}
	here := make(map[string]bool, len(records))
	for _, r := range records {
		here[r.ID] = true
	}
	for _, r := range unplaced {
		if len(records) < f.Limit && !here[r.ID] {
			records = append(records, r)
		}
	}
	return records, nil
}

// placed waits until what is committed has its place in the log, and reports
// whether it has. A log that stands still is waited for now and then only.
func (l *Log) placed(ctx context.Context) (bool, error) {
	within := l.Wait
	if time.Since(time.Unix(0, l.stalled.Load())) < stalledFor {
		within = 0
	}
	placed, err := l.Store.Log.CatchUp(ctx, within)
	if err == nil && !placed && within > 0 {
		l.stalled.Store(time.Now().UnixNano())
	}
	if placed {
		l.stalled.Store(0)
	}
	return placed, err
}
