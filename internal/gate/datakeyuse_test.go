package gate_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// retiredHarness has a former data key that nothing is sealed with and that is found to be
// empty, and the keys without it.
func retiredHarness(t *testing.T) (h *harness, former string, rest *seal.Keys) {
	t.Helper()
	ctx := context.Background()
	h = newHarness(t, routing(time.Hour, 1))
	former = h.db.Sealer.Keys().IDs()[0]
	err := h.Store.DataKeys.Keep(ctx, former, h.adminEvent("DATA_KEY_ADDED", nil))
	if err != nil {
		t.Fatal(err)
	}
	h.changeDataKey()
	h.idle()
	empty, _, err := h.db.Owner().DataKeys.Emptied(ctx)
	if err != nil || !slices.Equal(empty, []string{former}) {
		t.Fatalf("%v is empty, want %s: %v", empty, former, err)
	}
	if rest, _, err = h.db.Sealer.Keys().Without(former); err != nil {
		t.Fatal(err)
	}
	return h, former, rest
}

// isEmpty says whether a data key is known to be empty.
func (h *harness) isEmpty(id string) bool {
	h.t.Helper()
	known, err := h.Store.DataKeys.List(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	return slices.ContainsFunc(known, func(k store.DataKey) bool { return k.ID == id && k.Empty() })
}

// TestCommandsSealWithNoRetiredKey: a command notes the data key that it seals with, and
// refuses one that was found to be empty until a program has it seal again.
func TestCommandsSealWithNoRetiredKey(t *testing.T) {
	ctx := context.Background()
	h, former, rest := retiredHarness(t)
	owner, e := h.db.Owner(), h.adminEvent("DATA_KEY_ADDED", nil)
	if err := owner.DataKeys.Use(ctx, former, e); !errors.Is(err, store.ErrRetired) || !h.isEmpty(former) {
		t.Errorf("a retired key is used: %v", err)
	}
	if err := owner.DataKeys.Use(ctx, rest.IDs()[0], e); err != nil {
		t.Errorf("the key that seals: %v", err)
	}
	if err := h.Store.DataKeys.Keep(ctx, former, e); err != nil {
		t.Fatal(err)
	}
	if err := owner.DataKeys.Use(ctx, former, e); err != nil {
		t.Errorf("a key that seals again: %v", err)
	}
	for range 2 { // the first time it becomes known
		if err := owner.DataKeys.Use(ctx, "0123456789abcdef", h.adminEvent("DATA_KEY_ADDED", nil)); err != nil {
			t.Errorf("a new key: %v", err)
		}
	}
	known, err := h.Store.DataKeys.List(ctx)
	if err != nil || !slices.ContainsFunc(known, func(k store.DataKey) bool { return k.ID == "0123456789abcdef" }) {
		t.Errorf("the use of a new key is not noted: %v, %v", known, err)
	}
}

// TestKeyUsedWhileCounted: a data key that somebody seals with while records are counted
// is not taken for empty, however long that takes.
func TestKeyUsedWhileCounted(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	h, former, _ := retiredHarness(t)
	h.db.Exec(`UPDATE data_keys SET emptied_at = NULL`)
	owner, other := h.db.Owner(), h.db.Connect(h.db.URL)
	tx, err := other.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, `LOCK TABLE drafts`)
	}
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		empty []string
		err   error
	}
	done := make(chan result, 1)
	go func() {
		empty, _, err := owner.DataKeys.Emptied(ctx)
		done <- result{empty, err}
	}()
	for waits := false; !waits; {
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'drafts'::regclass AND NOT granted)`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	h.db.Exec(`UPDATE data_keys SET sealed_at = clock_timestamp() - interval '10 minutes' WHERE id = $1`, former)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err != nil || len(got.empty) != 0 || h.isEmpty(former) {
		t.Errorf("%v is empty: %v", got.empty, got.err)
	}
}

// TestCountMayExceedTheTimeout: a start that has to count what is sealed takes as long as
// that takes, and a key that nothing needs and that is in no file is counted once.
func TestCountMayExceedTheTimeout(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	h, former, rest := retiredHarness(t)
	h.open(another(asked))
	// Some process had the former file once more.
	if err := h.Store.DataKeys.Keep(ctx, former, h.adminEvent("DATA_KEY_ADDED", nil)); err != nil {
		t.Fatal(err)
	}
	h.db.Exec(`CREATE OR REPLACE FUNCTION wrapped_by(wrapped bytea) RETURNS text LANGUAGE plpgsql STRICT AS $$
		BEGIN PERFORM pg_sleep(3); RETURN encode(substr(wrapped, 2, 8), 'hex'); END $$`)
	s, err := store.Open(ctx, store.Config{URL: h.db.RuntimeURL, Sealer: rest.Sealer(), MaxConns: 2, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	h.db.Exec(`CREATE OR REPLACE FUNCTION wrapped_by(wrapped bytea) RETURNS text LANGUAGE sql STRICT AS $$ SELECT encode(substr(wrapped, 2, 8), 'hex') $$`)
	h.idle()
	owner, err := store.Open(ctx, store.Config{URL: h.db.URL, Sealer: rest.Sealer(), MaxConns: 2, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	if empty, _, err := owner.DataKeys.Emptied(ctx); err != nil || len(empty) != 0 || !h.isEmpty(former) {
		t.Errorf("%v of the file is empty, and the former key is not: %v", empty, err)
	}
}

// TestTimesOfKeysCanBeRead: the runtime role writes no time of a key that programs could
// not read, which would keep all of them from starting.
func TestTimesOfKeysCanBeRead(t *testing.T) {
	ctx := context.Background()
	h, _, _ := retiredHarness(t)
	h.db.Exec(`INSERT INTO signing_keys (kid, public, mac) VALUES (repeat('x', 43), decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'))`)
	conn := h.db.Connect(h.db.RuntimeURL)
	for _, set := range []string{"data_keys SET sealed_at", "signing_keys SET published_at", "signing_keys SET seen_at"} {
		for _, when := range []string{"infinity", "-infinity", "10000-01-01", "0044-03-15 BC"} {
			if _, err := conn.Exec(ctx, `UPDATE `+set+` = '`+when+`'`); err == nil {
				t.Errorf("%s = %s was let through", set, when)
			}
		}
		if _, err := conn.Exec(ctx, `UPDATE `+set+` = clock_timestamp()`); err != nil {
			t.Errorf("%s: %v", set, err)
		}
	}
}
