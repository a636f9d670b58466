package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/internal/seal"
)

// Push keeps the browsers that people have notified.
type Push struct{ *db }

// PushSubscription is a browser that a person has notified.
type PushSubscription struct {
	ID         string // "psh_…"
	PersonID   string
	Name       string
	CreatedAt  time.Time
	LastUsedAt *time.Time
	// PushSecret is sealed, and bound to id and person.
	PushSecret
}

// PushSecret is what is secret about a subscription, and what nobody changes who can
// only write to the database.
type PushSecret struct {
	Endpoint string `json:"endpoint"`
	P256DH   string `json:"p256dh"`
	Auth     string `json:"auth"`
	// Details says that a notification there tells what the call will do.
	Details bool `json:"details,omitempty"`
}

// MaxPushSubscriptions is how many browsers of a person are notified: each of them is sent
// every notification.
const MaxPushSubscriptions = 5

func pushName(id, personID string) string { return "push " + id + " " + personID }

func (s Push) sealPush(p PushSubscription) (seal.Box, error) {
	secret, err := json.Marshal(p.PushSecret)
	if err != nil {
		return seal.Box{}, fmt.Errorf("encode a subscription: %w", err)
	}
	box, err := s.sealer.Seal(pushName(p.ID, p.PersonID), secret)
	if err != nil {
		return box, fmt.Errorf("seal a subscription: %w", err)
	}
	return box, nil
}

// Create keeps a subscription, in place of the one that the same browser had, whoever's
// that was; and where the person has too many with it, in place of their oldest ones. created
// makes the event, given the ids of those.
func (s Push) Create(ctx context.Context, p PushSubscription, created func(oldest []string) engine.Event) error {
	box, err := s.sealPush(p)
	if err != nil {
		return err
	}
	address := s.sealer.Row("push address", p.Endpoint)
	_, err = administerWith(ctx, s.db, nil, func(ctx context.Context, tx pgx.Tx) (none Done, e engine.Event, err error) {
		// Of two at once the second is to count the first.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('push ' || $1, 0))`, p.PersonID); err != nil {
			return none, e, translate(err)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM push_subscriptions WHERE address = $1`, address); err != nil {
			return none, e, translate(err)
		}
		rows, err := tx.Query(ctx, `DELETE FROM push_subscriptions WHERE id IN (
			SELECT id FROM push_subscriptions WHERE person_id = $1 ORDER BY created_at DESC, id OFFSET $2) RETURNING id`, p.PersonID, MaxPushSubscriptions-1)
		if err != nil {
			return none, e, translate(err)
		}
		oldest, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return none, e, translate(err)
		}
		_, err = tx.Exec(ctx, `INSERT INTO push_subscriptions (id, person_id, name, address, sealed, sealed_key) VALUES ($1, $2, $3, $4, $5, $6)`,
			p.ID, p.PersonID, p.Name, address, box.Data, box.Key)
		return none, created(oldest), translate(err)
	})
	return err
}

// pushRows are of push_subscriptions s.
var pushRows = newRows(func(p *PushSubscription) columns {
	return columns{
		{"s.id", &p.ID},
		{"s.person_id", &p.PersonID},
		{"s.name", &p.Name},
		{"s.created_at", &p.CreatedAt},
		{"s.last_used_at", &p.LastUsedAt},
	}
})

func (s Push) openPush(p *PushSubscription, box seal.Box) error {
	secret, err := s.sealer.Open(pushName(p.ID, p.PersonID), box)
	if err == nil {
		err = json.Unmarshal(secret, &p.PushSecret)
	}
	if err != nil {
		return fmt.Errorf("open subscription %s: %w", p.ID, err)
	}
	return nil
}

// Get reads a subscription of somebody who is not disabled. ErrNotFound: there is none,
// or it was not the programs that wrote it.
func (s Push) Get(ctx context.Context, id string) (PushSubscription, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var box seal.Box
	p, err := pushRows.one(s.pool.QueryRow(ctx, `SELECT `+pushRows.names+`, s.sealed, s.sealed_key FROM push_subscriptions s JOIN people p ON p.id = s.person_id
		WHERE s.id = $1 AND p.disabled_at IS NULL`, id), &box.Data, &box.Key)
	if err != nil {
		return p, translate(err)
	}
	if s.openPush(&p, box) != nil {
		return p, ErrNotFound
	}
	return p, nil
}

// Of lists a person's subscriptions, the oldest first. What the programs have not
// written is left out.
func (s Push) Of(ctx context.Context, personID string) ([]PushSubscription, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT `+pushRows.names+`, s.sealed, s.sealed_key FROM push_subscriptions s WHERE s.person_id = $1 ORDER BY s.created_at, s.id`, personID)
	if err != nil {
		return nil, translate(err)
	}
	var list []PushSubscription
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var box seal.Box
		p, err := pushRows.one(row, &box.Data, &box.Key)
		if err == nil && s.openPush(&p, box) == nil {
			list = append(list, p)
		}
		return struct{}{}, err
	})
	return list, translate(err)
}

// SetDetails says whether a person's browser is told what calls will do. ErrNotFound:
// the person has no such subscription.
func (s Push) SetDetails(ctx context.Context, personID, id string, details bool, e engine.Event) error {
	p, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	if p.PersonID != personID {
		return ErrNotFound
	}
	p.Details = details
	box, err := s.sealPush(p)
	if err != nil {
		return err
	}
	return s.admin(ctx, e, `UPDATE push_subscriptions SET sealed = $3, sealed_key = $4 WHERE id = $1 AND person_id = $2`, id, personID, box.Data, box.Key)
}

// Remove ends a person's subscription. ErrNotFound: they have none such.
func (s Push) Remove(ctx context.Context, personID, id string, e engine.Event) error {
	return s.admin(ctx, e, `DELETE FROM push_subscriptions WHERE id = $1 AND person_id = $2`, id, personID)
}

// Gone takes away a subscription that its browser has ended.
func (s Push) Gone(ctx context.Context, id string) error {
	return s.exec(ctx, `DELETE FROM push_subscriptions WHERE id = $1`, id)
}

// MarkUsed notes that a push has just been taken.
func (s Push) MarkUsed(ctx context.Context, id string) error {
	err := s.change(ctx, `UPDATE push_subscriptions SET last_used_at = clock_timestamp() WHERE id = $1`, id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Test queues a test for one of a person's browsers. ErrTooMany: so many were sent to theirs within
// the last minute, also to those that they have taken away since.
func (s Push) Test(ctx context.Context, personID string, n Notification, most int, e engine.Event) error {
	_, err := administerWith(ctx, s.db, nil, func(ctx context.Context, tx pgx.Tx) (none Done, _ engine.Event, err error) {
		// Of two at once the second is to count the first.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('push ' || $1, 0))`, personID); err != nil {
			return none, e, translate(err)
		}
		sent, err := countBy(ctx, tx, personID, e.Reasons[0].Code, time.Minute)
		if err != nil {
			return none, e, err
		}
		if sent >= most {
			return none, e, ErrTooMany
		}
		rows := &pgx.Batch{}
		queueNotification(rows, n)
		return none, e, translate(tx.SendBatch(ctx, rows).Close())
	})
	return err
}

// There reports whether an endpoint for web push is switched on, and its id.
func (s Push) There(ctx context.Context) (endpoint string, there bool, err error) {
	ids, err := s.ids(ctx, `SELECT id FROM endpoints WHERE kind = 'push' AND disabled_at IS NULL ORDER BY id LIMIT 1`)
	if err != nil || len(ids) == 0 {
		return "", false, err
	}
	return ids[0], true, nil
}

// PushSubscriptions lists the ids of the subscriptions of these people.
func (c *Change) PushSubscriptions(people []string) ([]string, error) {
	rows, err := c.tx.Query(c.ctx, `SELECT id FROM push_subscriptions WHERE person_id = ANY ($1) ORDER BY person_id, id`, people)
	if err != nil {
		return nil, translate(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return ids, translate(err)
}
