package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/internal/seal"
)

// ShownCard is a card that a person is shown.
type ShownCard struct {
	ApprovalID string
	// CallDigest is that of the call which the card shows, Digest the card's own.
	CallDigest, Digest string
	// Box holds the card.
	Box seal.Box
	// Event records that it is shown for the first time, or, with Always, that it is.
	Event  engine.Event
	Always bool
}

// Last returns the digests of the cards that the person was shown last of
// each of the approvals; an approval of which they were shown none is left out.
func (s Cards) Last(ctx context.Context, personID string, approvalIDs []string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT ON (approval_id) approval_id, card_digest FROM cards_shown
		WHERE approval_id = ANY ($1) AND person_id = $2 ORDER BY approval_id, at DESC`, approvalIDs, personID)
	if err != nil {
		return nil, translate(err)
	}
	last := map[string]string{}
	var id, digest string
	_, err = pgx.ForEachRow(rows, []any{&id, &digest}, func() error {
		last[id] = digest
		return nil
	})
	return last, translate(err)
}

// Show keeps a card and records that the person is shown it: with its event,
// the first time; else only that it is the one that they were shown last.
func (s Cards) Show(ctx context.Context, personID string, c ShownCard) error {
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows := &pgx.Batch{}
		rows.Queue(`INSERT INTO cards (approval_id, digest, sealed, sealed_key) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
			c.ApprovalID, c.Digest, c.Box.Data, c.Box.Key)
		first := false
		rows.Queue(`INSERT INTO cards_shown AS s (approval_id, person_id, card_digest, digest) VALUES ($1, $2, $3, $4)
			ON CONFLICT (approval_id, person_id, card_digest) DO UPDATE SET at = s.at RETURNING xmax = 0`, c.ApprovalID, personID, c.Digest, c.CallDigest).
			QueryRow(func(row pgx.Row) error { return row.Scan(&first) })
		if err := tx.SendBatch(ctx, rows).Close(); err != nil {
			return translate(err)
		}
		if !first && !c.Always {
			return nil
		}
		event := &pgx.Batch{}
		queueEvents(event, []engine.Event{c.Event}, nil)
		return translate(tx.SendBatch(ctx, event).Close())
	})
}

// SeenCard is the digest of the card that the person was shown last of the call as
// it is; "" for none.
func (c *Change) SeenCard(personID string) (string, error) {
	var digest string
	err := c.tx.QueryRow(c.ctx, `SELECT card_digest FROM cards_shown WHERE approval_id = $1 AND person_id = $2 AND digest = $3 ORDER BY at DESC LIMIT 1`,
		c.Approval.ID, personID, c.Approval.Call.Digest).Scan(&digest)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return digest, translate(err)
}

// Get returns the box of a card. ErrNotFound: nobody was shown such a card.
func (s Cards) Get(ctx context.Context, approvalID, digest string) (box seal.Box, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, `SELECT sealed, sealed_key FROM cards WHERE approval_id = $1 AND digest = $2`, approvalID, digest).Scan(&box.Data, &box.Key)
	if err != nil {
		return box, fmt.Errorf("%w: a card of %s", translate(err), approvalID)
	}
	return box, nil
}

// Opened lists up to limit approvals that were opened from since on and before
// until, in the order of their opening, after the one with this id that was opened
// at that time; "" for the first ones.
func (s Evidence) Opened(ctx context.Context, since, until, afterAt time.Time, afterID string, limit int) ([]string, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT id, opened_at FROM approvals WHERE opened_at >= $1 AND opened_at < $2 AND (opened_at, id) > ($3, $4)
		ORDER BY opened_at, id LIMIT $5`, since, until, afterAt, afterID, limit)
	if err != nil {
		return nil, afterAt, translate(err)
	}
	var ids []string
	var id string
	_, err = pgx.ForEachRow(rows, []any{&id, &afterAt}, func() error {
		ids = append(ids, id)
		return nil
	})
	return ids, afterAt, translate(err)
}

// Period counts what a period has.
type Period struct {
	Approvals int
	// By is how many of them stand where, and Ran what became of those calls that
	// were started.
	By, Ran map[string]int
	// Events is how many events of the log are of the period; no more than most+1.
	Events int
}

// Period counts the approvals that were opened in a period, and its events up to
// one more than most.
func (s Evidence) Period(ctx context.Context, since, until time.Time, most int) (Period, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	p := Period{By: map[string]int{}, Ran: map[string]int{}}
	batch := &pgx.Batch{}
	batch.Queue(`SELECT status, execution, count(*) FROM approvals WHERE opened_at >= $1 AND opened_at < $2 GROUP BY 1, 2`, since, until).Query(func(rows pgx.Rows) error {
		var status, ran string
		var n int
		for rows.Next() {
			if err := rows.Scan(&status, &ran, &n); err != nil {
				return err
			}
			p.Approvals += n
			p.By[status] += n
			p.Ran[ran] += n
		}
		return rows.Err()
	})
	batch.Queue(`SELECT count(*) FROM (SELECT FROM log_entries WHERE at >= $1 AND at < $2 AND leaf >= (SELECT min(n) FROM log_spans WHERE latest >= $1) * $4
			AND leaf < (SELECT max(n) + 1 FROM log_spans WHERE earliest < $2) * $4 LIMIT $3) e`, since, until, most+1, int64(spanLeaves)).
		QueryRow(func(row pgx.Row) error { return row.Scan(&p.Events) })
	return p, translate(s.pool.SendBatch(ctx, batch).Close())
}

// NotificationRecord is what an evidence pack says of a notification.
type NotificationRecord struct {
	At time.Time
	// Endpoint is what the mailbox, channel or webhook is called, and Channel which of
	// them it is; Recipient is a mail address, or "".
	Endpoint, Channel, Recipient string
	// Kind is what it was about, and Status whether it came there: waiting, bundled,
	// sent or dead.
	Kind, Status string
}

// Notifications lists up to limit notifications of an approval, in order.
func (s Evidence) Notifications(ctx context.Context, approvalID string, limit int) ([]NotificationRecord, error) {
	return collect(ctx, s.db, func(row pgx.CollectableRow) (NotificationRecord, error) {
		var a NotificationRecord
		err := row.Scan(&a.At, &a.Endpoint, &a.Channel, &a.Recipient, &a.Kind, &a.Status)
		return a, err
	}, `SELECT coalesce(n.ended_at, n.created_at), e.name, e.kind, n.recipient, n.tell, n.status
		FROM notifications n JOIN endpoints e ON e.id = n.endpoint_id WHERE n.approval_id = $1 ORDER BY n.created_at, n.id LIMIT $2`, approvalID, limit)
}
