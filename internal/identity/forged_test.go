package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

// Who holds the runtime role, and not the data key, makes nobody's session and answers
// nobody's challenge: not with a secret of their own, nor by changing what a true row says.
func TestForgedSessionsAndChallenges(t *testing.T) {
	db := storetest.New(t)
	s, ctx := db.Runtime(), t.Context()
	ada, ben := db.Person(engine.Person{Name: "ada", Roles: []string{}}), db.Person(engine.Person{Name: "ben", Roles: []string{}})
	ben.VerifiedBy, ben.PasswordChecked = Password, store.PasswordDigest("x")
	intruder := db.Connect(db.RuntimeURL)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := intruder.Exec(context.Background(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	is := func(secret [32]byte, want string) {
		t.Helper()
		p, err := s.Sessions.Person(ctx, secret[:])
		if p.ID != want || (want == "") != errors.Is(err, store.ErrNotFound) {
			t.Errorf("the session is %q's, %v", p.ID, err)
		}
	}
	own, genuine := sha256.Sum256([]byte("chosen")), sha256.Sum256([]byte("ben's"))
	exec(`INSERT INTO sessions (id_hash, person_id, expires_at, verified_at, verified_by) VALUES ($1, $2, now() + interval '1 h', now(), 'passkey')`, own[:], ada.ID)
	is(own, "")
	if err := s.Sessions.Create(ctx, genuine[:], ben, time.Hour); err != nil {
		t.Fatal(err)
	}
	is(genuine, ben.ID)
	var key []byte
	if err := intruder.QueryRow(ctx, `SELECT id_hash FROM sessions WHERE person_id = $1`, ben.ID).Scan(&key); err != nil {
		t.Fatal(err)
	}
	exec(`DELETE FROM sessions WHERE person_id = $1`, ben.ID)
	exec(`INSERT INTO sessions (id_hash, person_id, expires_at) VALUES ($2, $1, now() + interval '1 h')`, ada.ID, key)
	is(genuine, "")
	if err := s.Sessions.Verify(ctx, genuine[:], ada.ID, Passkey); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a session that was turned into another's is verified: %v", err)
	}
	// One beside it, which is found by the same secret, keeps the true one from nothing.
	exec(`DELETE FROM sessions WHERE person_id = $1`, ada.ID)
	for _, filler := range []byte{0, 0xff} {
		beside := append(slices.Clone(key[:16]), bytes.Repeat([]byte{filler}, 16)...)
		exec(`INSERT INTO sessions (id_hash, person_id, expires_at) VALUES ($2, $1, now() + interval '1 h')`, ada.ID, beside)
	}
	if err := s.Sessions.Create(ctx, genuine[:], ben, time.Hour); err != nil {
		t.Fatal(err)
	}
	is(genuine, ben.ID)
	if err := s.Sessions.Delete(ctx, genuine[:]); err != nil {
		t.Fatal(err)
	}
	is(genuine, "")

	secret := sha256.Sum256([]byte("pending"))
	c := store.Challenge{IDHash: secret[:], PersonID: ben.ID, Purpose: forPending, BoundTo: "x", Data: []byte(`{"b": 1, "a": "2026-01-01T00:00:00Z"}`)}
	exec(`INSERT INTO challenges (id_hash, person_id, purpose, bound_to, data, expires_at) VALUES ($1, $2, $3, 'x', '{}', now() + interval '1 min')`, own[:], ada.ID, forPending)
	if _, err := s.Factors.Challenge(ctx, own[:], forPending); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a challenge that somebody wrote: %v", err)
	}
	for name, change := range map[string]string{
		"person":  `person_id = '` + ada.ID + `'`,
		"purpose": `purpose = 'approval'`,
		"binding": `bound_to = 'y'`,
		"data":    `data = '{}'`,
		"nothing": `data = data`,
	} {
		if err := s.Factors.CreateChallenge(ctx, c, time.Minute); err != nil {
			t.Fatal(err)
		}
		// The runtime role cannot update one; it can delete it and write another.
		db.Exec(`UPDATE challenges SET ` + change + ` WHERE person_id = '` + ben.ID + `'`)
		_, err := s.Factors.Challenge(ctx, secret[:], forPending)
		who := ben.ID
		if name == "person" {
			who = ada.ID
		}
		got, taken := s.Factors.TakeChallenge(ctx, secret[:], who)
		if name == "nothing" {
			if err != nil || taken != nil || got.PersonID != ben.ID || got.Purpose != forPending || got.BoundTo != "x" {
				t.Errorf("a true challenge: %v, %v, %+v", err, taken, got)
			}
			continue
		}
		if !errors.Is(err, store.ErrNotFound) || !errors.Is(taken, store.ErrNotFound) {
			t.Errorf("a challenge with another %s: %v, %v", name, err, taken)
		}
		db.Exec(`DELETE FROM challenges`)
	}
}
