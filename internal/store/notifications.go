package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/seal"
)

// Endpoint is where notifications go. What is secret about it is
// sealed; Secret opens it.
type Endpoint struct {
	ID   string // "end_…"
	Kind string // webhook, email, slack or push
	Name string
	// Settings are those of package notify: what is told, about what, to whom, how bundled.
	Settings   json.RawMessage
	CreatedAt  time.Time
	CreatedBy  string
	DisabledAt *time.Time
}

// Counts counts an endpoint's notifications.
type Counts struct {
	Waiting, Sent, Dead int
	// LastAt is when the last one was sent; nil for never.
	LastAt *time.Time
}

// Notification is one thing to tell at one endpoint.
type Notification struct {
	ID         string // "ntf_…"
	EndpointID string
	Recipient  string          // a mail address, or a push subscription's id; "" where the endpoint has only one
	ApprovalID string          // "" for none
	Kind       string          // engine.NotificationKind
	Body       json.RawMessage // a channel.Notification; no argument, no token, no secret
	// Bundles says that it waits, for as long as Window, to be told together with
	// others of the same endpoint and recipient.
	Bundles bool
	Window  time.Duration

	CreatedAt, DueAt time.Time
	Status           string // waiting, bundled, sent, dead or dropped
	Attempts         int
	LastError        string
	EndedAt          *time.Time
}

var endpointRows = newRows(func(e *Endpoint) columns {
	return columns{
		{"id", &e.ID},
		{"kind", &e.Kind},
		{"name", &e.Name},
		{"settings", &e.Settings},
		{"created_at", &e.CreatedAt},
		{"created_by", &e.CreatedBy},
		{"disabled_at", &e.DisabledAt},
	}
})

// errNoSealer: secrets cannot be kept by a store that was opened without a data key.
var errNoSealer = errors.New("the store has no data key to seal an endpoint's secrets with")

// sealSecret encrypts an endpoint's secret; nil, which means "none", stays nil.
func (s Endpoints) sealSecret(id string, secret []byte) (seal.Box, error) {
	if secret == nil {
		return seal.Box{}, nil
	}
	if s.sealer == nil {
		return seal.Box{}, errNoSealer
	}
	box, err := s.sealer.Seal(id, secret)
	if err != nil {
		return box, fmt.Errorf("seal the secret of endpoint %s: %w", id, err)
	}
	return box, nil
}

// Create stores an endpoint, with its secret sealed; off, if it is to be. ErrConflict: the
// name is taken.
func (s Endpoints) Create(ctx context.Context, e Endpoint, secret []byte, off bool, once *Idempotency[Done], ev engine.Event) error {
	return s.administerIn(ctx, once, ev, func(ctx context.Context, tx pgx.Tx) error { return s.create(ctx, tx, e, secret, off) })
}

func (s Endpoints) create(ctx context.Context, tx pgx.Tx, e Endpoint, secret []byte, off bool) error {
	box, err := s.sealSecret(e.ID, secret)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO endpoints (id, kind, name, settings, sealed, sealed_key, created_by, disabled_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $8 THEN clock_timestamp() END)`,
		e.ID, e.Kind, e.Name, e.Settings, box.Data, box.Key, e.CreatedBy, off)
	return translate(err)
}

// Change replaces an endpoint's settings and, unless it is nil, its secret, and switches
// it on where it is to be on. ErrNotFound: there is none.
func (s Endpoints) Change(ctx context.Context, id string, settings json.RawMessage, secret []byte, on bool, once *Idempotency[Done], ev engine.Event) error {
	box, err := s.sealSecret(id, secret)
	if err != nil {
		return err
	}
	return s.administer(ctx, once, ev, `UPDATE endpoints SET settings = $2, sealed = coalesce($3, sealed), sealed_key = coalesce($4, sealed_key),
		disabled_at = CASE WHEN $5 THEN NULL ELSE disabled_at END WHERE id = $1`, id, settings, box.Data, box.Key, on)
}

// Rotate replaces an endpoint's settings and secret by what change makes of them. Of two
// at once, the second is given what the first has made. ErrNotFound: there is none.
func (s Endpoints) Rotate(ctx context.Context, id string, once *Idempotency[Done], change func(settings json.RawMessage, secret []byte) (json.RawMessage, []byte, error), ev engine.Event) error {
	return s.administerIn(ctx, once, ev, func(ctx context.Context, tx pgx.Tx) error {
		var settings json.RawMessage
		var box seal.Box
		if err := tx.QueryRow(ctx, `SELECT settings, sealed, sealed_key FROM endpoints WHERE id = $1 FOR UPDATE`, id).Scan(&settings, &box.Data, &box.Key); err != nil {
			return translate(err)
		}
		secret, err := s.openSecret(id, box)
		if err != nil {
			return err
		}
		if settings, secret, err = change(settings, secret); err != nil {
			return err
		}
		if box, err = s.sealSecret(id, secret); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE endpoints SET settings = $2, sealed = $3, sealed_key = $4 WHERE id = $1`, id, settings, box.Data, box.Key)
		return translate(err)
	})
}

// Switch switches an endpoint off, or on again. ErrNotFound: there is
// none of which that would change anything.
func (s Endpoints) Switch(ctx context.Context, id string, off bool, once *Idempotency[Done], ev engine.Event) error {
	return s.administer(ctx, once, ev, `UPDATE endpoints SET disabled_at = CASE WHEN $2 THEN clock_timestamp() END WHERE id = $1 AND (disabled_at IS NULL) = $2`, id, off)
}

// Get reads an endpoint. ErrNotFound: there is none.
func (s Endpoints) Get(ctx context.Context, id string) (Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	e, err := endpointRows.one(s.pool.QueryRow(ctx, `SELECT `+endpointRows.names+` FROM endpoints WHERE id = $1`, id))
	return e, translate(err)
}

// Secrets opens what is secret about every endpoint, by id; one about which nothing is
// secret is left out.
func (s Endpoints) Secrets(ctx context.Context) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT id, sealed, sealed_key FROM endpoints WHERE sealed IS NOT NULL`)
	if err != nil {
		return nil, translate(err)
	}
	secrets := map[string][]byte{}
	var id string
	var box seal.Box
	_, err = pgx.ForEachRow(rows, []any{&id, &box.Data, &box.Key}, func() error {
		if s.sealer == nil {
			return errNoSealer
		}
		secret, err := s.sealer.Open(id, box)
		if err != nil {
			return fmt.Errorf("open the secret of endpoint %s: %w", id, err)
		}
		secrets[id] = secret
		return nil
	})
	return secrets, translate(err)
}

// Secret opens what is secret about an endpoint: nil where nothing is.
// ErrNotFound: there is no such endpoint.
func (s Endpoints) Secret(ctx context.Context, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var box seal.Box
	if err := s.pool.QueryRow(ctx, `SELECT sealed, sealed_key FROM endpoints WHERE id = $1`, id).Scan(&box.Data, &box.Key); err != nil {
		return nil, translate(err)
	}
	return s.openSecret(id, box)
}

// openSecret opens a box as sealSecret makes it: nil for nothing.
func (s Endpoints) openSecret(id string, box seal.Box) ([]byte, error) {
	if box.Data == nil {
		return nil, nil
	}
	if s.sealer == nil {
		return nil, errNoSealer
	}
	secret, err := s.sealer.Open(id, box)
	if err != nil {
		return nil, fmt.Errorf("open the secret of endpoint %s: %w", id, err)
	}
	return secret, nil
}

// NotificationOverview is, as of one moment, every endpoint by name, how many
// notifications each has by its id, and what was given up, the last one first.
type NotificationOverview struct {
	Endpoints []Endpoint
	Counts    map[string]Counts
	Dead      []Notification
}

// Overview reads all endpoints, with up to limit notifications that were given up.
func (s Notifications) Overview(ctx context.Context, limit int) (NotificationOverview, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	overview := NotificationOverview{Counts: map[string]Counts{}}
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		rows := &pgx.Batch{}
		rows.Queue(`SELECT ` + endpointRows.names + `, coalesce(waiting, 0), coalesce(sent, 0), coalesce(dead, 0), last_at
			FROM endpoints LEFT JOIN (
				SELECT endpoint_id, count(*) FILTER (WHERE status = 'waiting') AS waiting, count(*) FILTER (WHERE status IN ('sent', 'bundled')) AS sent,
					count(*) FILTER (WHERE status = 'dead') AS dead, max(ended_at) FILTER (WHERE status = 'sent') AS last_at
				FROM notifications GROUP BY endpoint_id) n ON n.endpoint_id = id ORDER BY name`).Query(each(func(row pgx.Rows) error {
			var n Counts
			e, err := endpointRows.one(row, &n.Waiting, &n.Sent, &n.Dead, &n.LastAt)
			overview.Endpoints = append(overview.Endpoints, e)
			overview.Counts[e.ID] = n
			return err
		}))
		rows.Queue(`SELECT `+notificationRows.names+` FROM notifications n WHERE n.status = 'dead' ORDER BY n.ended_at DESC, n.id LIMIT $1`, limit).
			Query(notificationRows.into(&overview.Dead))
		return tx.SendBatch(ctx, rows).Close()
	})
	return overview, translate(err)
}

// RecordDue records what has come up about the approval, and returns what
// nobody had recorded before.
func (c *Change) RecordDue(due []approval.Notification) ([]approval.Notification, error) {
	keys, tells := make([]string, len(due)), make([]string, len(due))
	for i, a := range due {
		keys[i], tells[i] = a.Key, string(a.Kind)
	}
	rows, err := c.tx.Query(c.ctx, `INSERT INTO announcements (approval_id, key, tell)
		SELECT $1, d.key, d.tell FROM unnest($2::text[], $3::text[]) AS d (key, tell) ON CONFLICT DO NOTHING RETURNING key`, c.Approval.ID, keys, tells)
	if err != nil {
		return nil, translate(err)
	}
	inserted, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, translate(err)
	}
	isNew := make(map[string]bool, len(inserted))
	for _, key := range inserted {
		isNew[key] = true
	}
	var fresh []approval.Notification
	for _, a := range due {
		if isNew[a.Key] {
			fresh = append(fresh, a)
			delete(isNew, a.Key) // a key that is there twice is told once
		}
	}
	c.announced = append(c.announced, fresh...)
	return fresh, nil
}

// Endpoints lists the endpoints that are switched on.
func (c *Change) Endpoints() ([]Endpoint, error) { return c.endpoints() }

func readEndpoints(ctx context.Context, tx pgx.Tx) ([]Endpoint, error) {
	return endpointRows.all(tx.Query(ctx, `SELECT `+endpointRows.names+` FROM endpoints WHERE disabled_at IS NULL ORDER BY id`))
}

// Everybody lists the people who are not disabled, by e-mail address.
func (c *Change) Everybody() ([]engine.Person, error) {
	return personRows.all(c.tx.Query(c.ctx, `SELECT `+personRows.names+` FROM people p WHERE p.disabled_at IS NULL ORDER BY p.email`))
}

// Deputies lists the ids of the people who stand in for somebody at the moment.
func (c *Change) Deputies() (map[string]bool, error) {
	rows, err := c.tx.Query(c.ctx, `SELECT DISTINCT deputy_id FROM delegations WHERE revoked_at IS NULL AND from_at <= clock_timestamp() AND until_at > clock_timestamp()`)
	if err != nil {
		return nil, translate(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	deputies := make(map[string]bool, len(ids))
	for _, id := range ids {
		deputies[id] = true
	}
	return deputies, translate(err)
}

// QueueNotifications queues notifications, which become due with the commit; what
// bundles, at the end of the window that the first that waits has begun.
func (c *Change) QueueNotifications(list []Notification) error {
	rows := &pgx.Batch{}
	for _, n := range list {
		queueNotification(rows, n)
	}
	return translate(c.tx.SendBatch(c.ctx, rows).Close())
}

func queueNotification(rows *pgx.Batch, n Notification) {
	rows.Queue(`INSERT INTO notifications (id, endpoint_id, recipient, approval_id, tell, body, bundles, due_at)
		VALUES ($1, $2, $3, nullif($4, ''), $5, $6, $7, CASE WHEN NOT $7 THEN clock_timestamp() ELSE coalesce(
			(SELECT min(o.due_at) FROM notifications o WHERE o.endpoint_id = $2 AND o.recipient = $3 AND o.status = 'waiting' AND o.bundles AND o.claimed_at IS NULL),
			clock_timestamp() + make_interval(secs => $8)) END)`,
		n.ID, n.EndpointID, n.Recipient, n.ApprovalID, n.Kind, n.Body, n.Bundles, n.Window.Seconds())
}
