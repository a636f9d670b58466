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

// recordedWithin is how long an export waits until the worker has appended what a reader records.
const recordedWithin = 1500 * time.Millisecond

// RecordExport has the event of an export appended. The reader's role may record no other, and
// appends nothing: the worker does, and a moment is waited for that. Without a worker the event
// comes when there is one.
func (s Events) RecordExport(ctx context.Context, e engine.Event) error {
	e.Seq, e.Timestamp = 0, time.Time{}
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	if err := s.exec(ctx, `SELECT record_export($1::text::uuid, $2)`, e.ID, body); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, recordedWithin)
	defer cancel()
	grown := s.changes.subscribe(wait, logChannel)
	for asked := false; ; asked = true {
		there, err := value[bool](ctx, s.db, `SELECT EXISTS (SELECT FROM events WHERE event_id = $1::text::uuid)`, e.ID)
		if err != nil || there {
			return err
		}
		if !asked {
			if err := s.exec(ctx, `SELECT pg_notify('`+logWantedChannel+`', '')`); err != nil {
				return err
			}
		}
		select {
		case <-grown:
		case <-wait.Done():
			return ctx.Err()
		}
	}
}
