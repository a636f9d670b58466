package store

import (
	"errors"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/registry"
)

// Whoever keeps a transaction open that has appended keeps kill switches from being thrown: nothing is
// thrown then, and who it is can be found.
func TestWhoIsInTheWayOfAKillSwitch(t *testing.T) {
	s, owner := open(t)
	if list, err := s.Registry.KillLockHolders(t.Context()); err != nil || len(list) > 0 {
		t.Fatalf("held by %v, %v", list, err)
	}
	conn := connect(t, owner)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock_shared($1)`, int64(killLock)); err != nil { // as append_events does
		t.Fatal(err)
	}
	throw := func() error {
		e := event("")
		e.Outcome = engine.KillSwitch
		return s.Registry.ThrowKillSwitch(t.Context(), registry.Kill{Reason: "x", By: "olga"}, nil, e)
	}
	s.timeout = 200 * time.Millisecond
	if err := throw(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("thrown all the same: %v", err)
	}
	s.timeout = time.Minute
	list, err := s.Registry.KillLockHolders(t.Context())
	if err != nil || len(list) != 1 || list[0].PID != int32(conn.PgConn().PID()) || list[0].Login != conn.Config().User {
		t.Errorf("held by %v, %v", list, err)
	}
	if killed, err := s.Registry.Killed(t.Context(), ""); err != nil || killed {
		t.Errorf("stopped %t, %v", killed, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := throw(); err != nil {
		t.Error(err)
	}
}
