package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"holdpoint/engine"
)

// DatabaseUser is the database's name for who is logged in as a reader and no more, and
// empty for who is a runtime login: a reader can record exports in its own name only.
func (s Events) DatabaseUser(ctx context.Context) (login string, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, `SELECT CASE WHEN pg_has_role(session_user, 'holdpoint_runtime', 'MEMBER') THEN '' ELSE session_user::text END`).Scan(&login)
	})
	return login, translate(err)
}

// RecordExport appends the event of an export. The reader's role may append no
// other.
func (s Events) RecordExport(ctx context.Context, e engine.Event) error {
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
