package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// maxBundle is how many notifications one delivery takes.
const maxBundle = 500

// Delivery is a notification that is to be sent, and what is sent with it.
type Delivery struct {
	Notification
	Endpoint Endpoint
	// Bundle are the others that it takes along, the oldest first.
	Bundle []Notification
}

// ErrNothingToSend says that the notification has been sent, given up or taken along by
// another one.
var ErrNothingToSend = errors.New("nothing is left to send")

var notificationRows = newRows(func(n *Notification) columns {
	return columns{
		{"id", &n.ID},
		{"endpoint_id", &n.EndpointID},
		{"recipient", &n.Recipient},
		{"coalesce(approval_id, '')", &n.ApprovalID},
		{"tell", &n.Kind},
		{"body", &n.Body},
		{"bundles", &n.Bundles},
		{"created_at", &n.CreatedAt},
		{"due_at", &n.DueAt},
		{"status", &n.Status},
		{"attempts", &n.Attempts},
		{"last_error", &n.LastError},
		{"ended_at", &n.EndedAt},
	}
})

// DueNotification is one whose time has come.
type DueNotification struct {
	ID string
	// Precedes says that it is sent before others that have waited longer.
	Precedes bool
}

// precedingKinds are the kinds of notifications that are sent before others.
var precedingKinds = func() (kinds []string) {
	for _, k := range engine.NotificationKinds() {
		if k.Traits().Precedes() {
			kinds = append(kinds, string(k))
		}
	}
	return kinds
}()

// Due lists up to limit notifications that Temporal does not have
// yet and whose time has come, those first that precede others. Of those that are to be told
// together, it lists one.
func (s Notifications) Due(ctx context.Context, limit int) ([]DueNotification, error) {
	// Each half is read in the order of its index, so that a long queue is not sorted.
	due := func(precedes string) string {
		return `(SELECT n.id, ` + precedes + ` AS precedes, n.due_at FROM notifications n WHERE n.status = 'waiting' AND n.due_at <= (SELECT clock_timestamp()) AND n.started_at IS NULL
			AND (n.tell = ANY ($2)) = ` + precedes + `
			AND NOT (n.bundles AND n.claimed_at IS NULL AND EXISTS (
				SELECT FROM notifications o WHERE o.endpoint_id = n.endpoint_id AND o.recipient = n.recipient AND o.status = 'waiting' AND o.bundles
					AND o.claimed_at IS NULL AND (o.due_at, o.id) < (n.due_at, n.id)))
			ORDER BY n.due_at, n.id LIMIT $1)`
	}
	return collect(ctx, s.db, pgx.RowToStructByPos[DueNotification],
		`SELECT id, precedes FROM (`+due("true")+` UNION ALL `+due("false")+`) n ORDER BY precedes DESC, due_at, id LIMIT $1`, limit, precedingKinds)
}

// MarkStarted notes that Temporal has these.
func (s Notifications) MarkStarted(ctx context.Context, ids []string) error {
	return s.exec(ctx, `UPDATE notifications SET started_at = clock_timestamp() WHERE id = ANY ($1) AND status = 'waiting'`, ids)
}

// Overdue lists, after the given id and in order of id, up to limit
// notifications that Temporal has been given and that should have been sent, or
// tried, more than grace ago.
func (s Notifications) Overdue(ctx context.Context, after string, grace time.Duration, limit int) ([]string, error) {
	return s.ids(ctx, `SELECT id FROM notifications WHERE status = 'waiting' AND id > $1
		AND due_at < (SELECT clock_timestamp()) - make_interval(secs => $2) AND started_at < clock_timestamp() - make_interval(secs => $2)
		ORDER BY id LIMIT $3`, after, grace.Seconds(), limit)
}

// Restart has these given to Temporal again.
func (s Notifications) Restart(ctx context.Context, ids []string) error {
	return s.exec(ctx, `UPDATE notifications SET started_at = NULL WHERE id = ANY ($1) AND status = 'waiting'`, ids)
}

// Take takes a notification up for an attempt. The first time it takes along
// everything that waits to be told together with it; from then on that stays as
// it is, so that every attempt sends the same. ErrNothingToSend: it does not
// wait any more. ErrNotFound: there is none.
func (s Notifications) Take(ctx context.Context, id string) (Delivery, error) {
	var d Delivery
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var bundles, claimed bool
		// Everything that could be taken along is locked in order of id, together with
		// the one that takes it: two that want each other wait, and one of them goes.
		rows, err := tx.Query(ctx, `SELECT o.id FROM notifications n JOIN notifications o ON o.id = n.id
				OR n.bundles AND n.claimed_at IS NULL AND o.bundles AND o.claimed_at IS NULL AND o.status = 'waiting'
					AND o.endpoint_id = n.endpoint_id AND o.recipient = n.recipient
			WHERE n.id = $1 ORDER BY o.id FOR UPDATE OF o`, id)
		if err != nil {
			return translate(err)
		}
		others, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return translate(err)
		}
		d.Notification, err = notificationRows.one(tx.QueryRow(ctx, `SELECT `+notificationRows.names+`, n.bundles, n.claimed_at IS NOT NULL FROM notifications n WHERE n.id = $1`, id),
			&bundles, &claimed)
		if err != nil {
			return translate(err)
		}
		if d.Status != "waiting" {
			return ErrNothingToSend
		}
		if bundles && !claimed {
			if _, err := tx.Exec(ctx, `UPDATE notifications SET status = 'bundled', bundle_id = $1, ended_at = clock_timestamp()
				WHERE id IN (SELECT o.id FROM notifications o WHERE o.id = ANY ($2) AND o.id <> $1 AND o.bundles AND o.claimed_at IS NULL AND o.status = 'waiting'
					ORDER BY o.created_at, o.id LIMIT $3)`, id, others, maxBundle); err != nil {
				return translate(err)
			}
		}
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE notifications SET claimed_at = coalesce(claimed_at, clock_timestamp()) WHERE id = $1`, id)
		batch.Queue(`SELECT `+notificationRows.names+` FROM notifications WHERE bundle_id = $1 AND body <> '{}' ORDER BY created_at, id`, id).
			Query(notificationRows.into(&d.Bundle))
		batch.Queue(`SELECT `+endpointRows.names+` FROM endpoints WHERE id = $1`, d.EndpointID).QueryRow(func(row pgx.Row) error {
			var err error
			d.Endpoint, err = endpointRows.one(row)
			return err
		})
		return translate(tx.SendBatch(ctx, batch).Close())
	})
	return d, err
}

// Drop ends a notification for which there is nobody any more, or nothing to tell.
func (s Notifications) Drop(ctx context.Context, id, reason string) error {
	return s.exec(ctx, `UPDATE notifications SET status = 'dropped', last_error = $2, ended_at = clock_timestamp() WHERE id = $1 AND status = 'waiting'`, id, reason)
}

// MarkSent records that the other side has it.
func (s Notifications) MarkSent(ctx context.Context, id string) error {
	return s.exec(ctx, `UPDATE notifications SET status = 'sent', attempts = attempts + 1, last_error = '', ended_at = clock_timestamp()
		WHERE id = $1 AND status = 'waiting'`, id)
}

// MarkFailed records an attempt that failed, and when there is another.
func (s Notifications) MarkFailed(ctx context.Context, id, reason string, again time.Duration) error {
	return s.exec(ctx, `UPDATE notifications SET attempts = attempts + 1, last_error = $2, due_at = clock_timestamp() + make_interval(secs => $3)
		WHERE id = $1 AND status = 'waiting'`, id, reason, again.Seconds())
}

// MarkDead gives a notification up, with the event that says so. With
// closing, the endpoint is switched off as well, which is on record where
// that changed anything.
func (s Notifications) MarkDead(ctx context.Context, id, reason string, tried bool, e engine.Event, closing *engine.Event) error {
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var endpoint string
		err := tx.QueryRow(ctx, `UPDATE notifications SET status = 'dead', attempts = attempts + CASE WHEN $3 THEN 1 ELSE 0 END, last_error = $2, ended_at = clock_timestamp()
			WHERE id = $1 AND status = 'waiting' RETURNING endpoint_id`, id, reason, tried).Scan(&endpoint)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // another attempt has recorded its end
		}
		if err != nil {
			return translate(err)
		}
		events := []engine.Event{e}
		if closing != nil {
			tag, err := tx.Exec(ctx, `UPDATE endpoints SET disabled_at = clock_timestamp() WHERE id = $1 AND disabled_at IS NULL`, endpoint)
			if err != nil {
				return translate(err)
			}
			if tag.RowsAffected() == 1 {
				events = append(events, *closing)
			}
		}
		rows := &pgx.Batch{}
		queueEvents(rows, events, nil)
		return translate(tx.SendBatch(ctx, rows).Close())
	})
}

// Resend has a dead letter sent again, from the first attempt on and under its
// own id. ErrNotFound: there is no such dead letter, or it has been erased.
func (s Notifications) Resend(ctx context.Context, id string, e engine.Event) error {
	return s.admin(ctx, e, `UPDATE notifications SET status = 'waiting', attempts = 0, ended_at = NULL, started_at = NULL, due_at = clock_timestamp()
		WHERE id = $1 AND status = 'dead' AND body <> '{}'`, id)
}

// Queue queues a notification that is about no approval.
func (s Notifications) Queue(ctx context.Context, n Notification, e engine.Event) error {
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows := &pgx.Batch{}
		queueNotification(rows, n)
		queueEvents(rows, []engine.Event{e}, nil)
		return translate(tx.SendBatch(ctx, rows).Close())
	})
}

// Get reads a notification. ErrNotFound: there is none.
func (s Notifications) Get(ctx context.Context, id string) (Notification, error) {
	return notificationRows.queryOne(ctx, s.db, `SELECT `+notificationRows.names+` FROM notifications WHERE id = $1`, id)
}

// Counts is how many notifications wait, and how many were given up.
func (s Notifications) Counts(ctx context.Context) (waiting, dead int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status = 'waiting'), count(*) FILTER (WHERE status = 'dead') FROM notifications
		WHERE status IN ('waiting', 'dead')`).Scan(&waiting, &dead)
	return waiting, dead, translate(err)
}
