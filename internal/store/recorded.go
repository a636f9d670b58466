package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"holdpoint/engine"
)

// RecordExport appends the event of an export. The reader's role may append no
// other.
func (s *Store) RecordExport(ctx context.Context, e engine.Event) error {
	e.Seq, e.Timestamp = 0, time.Time{}
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	return translate(s.within(ctx, func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, `SELECT record_export($1::text::uuid, $2)`, e.ID, body)
		return err
	}))
}
