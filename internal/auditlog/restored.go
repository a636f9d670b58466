package auditlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine/audit"
	"holdpoint/internal/store"
)

// VerifyRestored verifies a whole log in a database that nothing runs on, as "audit
// verify" does with an export of it: by the log's public keys, up to the last checkpoint,
// and against former ones. It leaves no event. ErrNoCheckpoint: nothing was signed.
func VerifyRestored(ctx context.Context, s *store.Store, keys []note.Verifier, former []audit.Checkpoint, progress func(seq, size int64)) (audit.Report, error) {
	point, err := s.Log.LatestCheckpoint(ctx, 0)
	if errors.Is(err, store.ErrNotFound) {
		err = ErrNoCheckpoint
	}
	if err != nil {
		return audit.Report{}, err
	}
	verifier := &audit.Verifier{Verifiers: keys, Former: former}
	out := &exporting{Exporter: &Exporter{Store: s}, ExportRequest: ExportRequest{Format: JSONL, Progress: progress}, point: point, whole: true, w: &lineWriter{line: verifier.Line}}
	if err := out.lines(ctx); err != nil {
		return audit.Report{}, fmt.Errorf("read the log: %w", err)
	}
	return verifier.Done(), nil
}

// lineWriter gives what is written on by lines.
type lineWriter struct {
	line func([]byte)
	rest []byte
}

var _ io.Writer = (*lineWriter)(nil)

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		one, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.line(one)
		w.rest = rest
	}
}

// OpenFloor reads the checkpoint that a floor keeps, signed by one of the log's keys; the
// zero one, and no note, where it has none.
func OpenFloor(ctx context.Context, floor Floor, keys []note.Verifier) (audit.Checkpoint, []byte, error) {
	signed, err := floor.Load(ctx)
	if err != nil || signed == nil {
		return audit.Checkpoint{}, nil, err
	}
	c, err := load(ctx, floor, func(signed []byte) (audit.Checkpoint, error) { return audit.OpenCheckpoint(signed, keys...) })
	return c, signed, err
}
