package store

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// ErrNoWrites is ErrUnavailable where Postgres answers, and takes nothing: its disk is full or fails, it is a
// standby, or rights are missing.
var ErrNoWrites = errors.New("the database takes no writes")

// noWrites is ErrNoWrites, and ErrUnavailable, with Postgres' code.
type noWrites struct{ code string }

func (e *noWrites) Error() string { return ErrUnavailable.Error() + ": " + e.code }

func (e *noWrites) Is(target error) bool { return target == ErrUnavailable || target == ErrNoWrites }

// writes is whether the last commit of the writers came about.
type writes struct {
	failing atomic.Pointer[noWrites] // nil when it did, or failed for another reason

	mu    sync.Mutex // of whoever tries
	tried time.Time
}

// ended notes how a commit has ended.
func (w *writes) ended(err error) {
	var none *noWrites
	if errors.As(err, &none) || err == nil && w.failing.Load() != nil {
		w.failing.Store(none)
	}
}

const (
	// tryEvery is the least time between two tries.
	tryEvery = time.Second
	// triedBytes is how long an event is tried: as long as many are, and not to be made shorter.
	triedBytes = 1500
)

// Writable returns the error by which the last commit of events failed, if that was ErrNoWrites and writing, tried
// again now, still fails. What is tried is taken back.
func (s *Store) Writable(ctx context.Context) error {
	if s.writes.failing.Load() == nil {
		return nil
	}
	s.writes.mu.Lock()
	defer s.writes.mu.Unlock()
	if time.Since(s.writes.tried) >= tryEvery {
		s.writes.tried = time.Now()
		err := s.tryWrite(ctx)
		s.writes.ended(err)
		if err != nil {
			return err
		}
	}
	if failing := s.writes.failing.Load(); failing != nil {
		return failing
	}
	return nil
}

// tryWrite appends an event in a transaction that is rolled back.
func (s *db) tryWrite(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	tx, err := s.reserve.Begin(ctx)
	if err != nil {
		return translate(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // its connection is closed where that fails
	body := make([]byte, triedBytes)
	rand.Read(body)
	_, err = tx.Exec(ctx, `SELECT append_events(ARRAY[$1::text::uuid], ARRAY[$2], ARRAY[$3], ARRAY[''], ARRAY[''], ARRAY[''], ARRAY[$4::bytea])`,
		pgx.QueryExecModeExec, uuid.NewString(), string(engine.Refusal), string(engine.Deny), body)
	return translate(err)
}
