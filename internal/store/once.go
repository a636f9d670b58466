package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// replay returns *Replay when the request was answered before, ErrOtherRequest
// when its key was used for something else, and nil when it is new.
func (s *Store) replay(ctx context.Context, o *Once) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return replay(ctx, s.pool, o)
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func replay(ctx context.Context, db querier, o *Once) error {
	var hash, header []byte
	var r Reply
	err := db.QueryRow(ctx, `SELECT request_hmac, status, header, body FROM idempotency WHERE credential = $1 AND key = $2`,
		o.Credential, o.Key).Scan(&hash, &r.Status, &header, &r.Body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return translate(err)
	}
	if !bytes.Equal(hash, o.Request) {
		return ErrOtherRequest
	}
	if err := json.Unmarshal(header, &r.Header); err != nil {
		return fmt.Errorf("decode the kept answer's header: %w", err)
	}
	return &Replay{Reply: r}
}

// queueReply adds the answer to a batch; kept is called when it was new.
func queueReply(rows *pgx.Batch, o *Once, approvalID string, r Reply, kept func()) error {
	header, err := json.Marshal(r.Header)
	if err != nil {
		return fmt.Errorf("encode the answer's header: %w", err)
	}
	rows.Queue(`INSERT INTO idempotency (credential, key, request_hmac, approval_id, status, header, body)
		VALUES ($1, $2, $3, nullif($4, ''), $5, $6, $7) ON CONFLICT (credential, key) DO NOTHING RETURNING true`,
		o.Credential, o.Key, o.Request, approvalID, r.Status, header, r.Body).QueryRow(func(row pgx.Row) error {
		var isNew bool
		err := row.Scan(&isNew)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			kept()
		}
		return err
	})
	return nil
}

// ForgetReplies drops kept answers that are over: those older than age whose
// approval, if any, ended longer than age ago. It returns how many.
func (s *Store) ForgetReplies(ctx context.Context, age time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, `DELETE FROM idempotency i
		WHERE created_at < clock_timestamp() - make_interval(secs => $1)
		  AND NOT EXISTS (SELECT FROM approvals a WHERE a.id = i.approval_id
		                  AND (a.status = 'pending' OR a.ended_at > clock_timestamp() - make_interval(secs => $1)))`, age.Seconds())
	return tag.RowsAffected(), translate(err)
}
