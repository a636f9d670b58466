package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/seal"
)

// Answered returns *Replay when a request was answered before, ErrOtherRequest
// when its key was used for something else, and nil when it is new.
func (s *Store) Answered(ctx context.Context, o *Request) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.replayIn(ctx, s.pool, o)
	var kept *Replay
	if errors.As(err, &kept) {
		return cmp.Or(replicated(ctx, s.pool), err)
	}
	return err
}

// name is what a kept answer is sealed under.
func (o *Request) name() string {
	return fmt.Sprintf("reply %d:%s %s", len(o.Credential), o.Credential, o.Key)
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (s *db) replayIn(ctx context.Context, db querier, o *Request) error {
	var hash, header []byte
	var box seal.Box
	var r Reply
	err := db.QueryRow(ctx, `SELECT request_hmac, status, header, body, body_key FROM idempotency WHERE credential = $1 AND key = $2`,
		o.Credential, o.Key).Scan(&hash, &r.Status, &header, &box.Data, &box.Key)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return translate(err)
	}
	if !bytes.Equal(hash, o.Hash) {
		return ErrOtherRequest
	}
	if err := json.Unmarshal(header, &r.Header); err != nil {
		return fmt.Errorf("decode the kept answer's header: %w", err)
	}
	r.Body = box.Data
	if box.Key != nil {
		if r.Body, err = s.sealer.Open(o.name(), box); err != nil {
			return fmt.Errorf("open a kept answer: %w", err)
		}
	}
	return &Replay{Reply: r}
}

// lock is the number of the advisory lock that everybody holds who answers a
// request under this key.
func (o *Request) lock() int64 {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%d:%s%s", len(o.Credential), o.Credential, o.Key)))
	return int64(binary.BigEndian.Uint64(sum[:])) // #nosec G115 -- any number will do
}

// lockKeys takes advisory locks, in the order given, until the transaction ends.
func lockKeys(ctx context.Context, tx pgx.Tx, locks []int64) error {
	rows := &pgx.Batch{}
	for _, lock := range locks {
		rows.Queue(`SELECT pg_advisory_xact_lock($1)`, lock)
	}
	return translate(tx.SendBatch(ctx, rows).Close())
}

// queueReply adds the answer, sealed, to a batch. approvalID or personID, when it is not
// "", is what the answer tells of: it is erased with that. The caller holds the key's
// lock and has found no answer, so that there is none.
func (s *db) queueReply(rows *pgx.Batch, o *Request, approvalID, personID string, r Reply) error {
	header, err := json.Marshal(r.Header)
	if err != nil {
		return fmt.Errorf("encode the answer's header: %w", err)
	}
	box, err := s.sealer.Seal(o.name(), r.Body)
	if err != nil {
		return fmt.Errorf("seal an answer: %w", err)
	}
	rows.Queue(`INSERT INTO idempotency (credential, key, request_hmac, approval_id, person_id, status, header, body, body_key)
		VALUES ($1, $2, $3, nullif($4, ''), nullif($5, ''), $6, $7, $8, $9)`, o.Credential, o.Key, o.Hash, approvalID, personID, r.Status, header, box.Data, box.Key)
	return nil
}

// ForgetReplies drops kept answers that are over: those older than age whose
// approval, if any, ended longer than age ago. It returns how many.
func (s *Store) ForgetReplies(ctx context.Context, age time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, `DELETE FROM idempotency i
		WHERE created_at < (SELECT clock_timestamp()) - make_interval(secs => $1)
		  AND NOT EXISTS (SELECT FROM approvals a WHERE a.id = i.approval_id
		                  AND (a.status = 'pending' OR a.ended_at > (SELECT clock_timestamp()) - make_interval(secs => $1)))`, age.Seconds())
	return tag.RowsAffected(), translate(err)
}
