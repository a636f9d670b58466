package identity

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestPasswords(t *testing.T) {
	hash, err := HashPassword("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("hash %q", hash)
	}
	for password, want := range map[string]bool{"correct horse": true, "correct horsf": false, "": false, strings.Repeat("x", 5000): false} {
		if got, err := CheckPassword(hash, password); got != want || err != nil {
			t.Errorf("%.20q: %t, %v", password, got, err)
		}
	}
	if got, err := CheckPassword(store.NoPassword, ""); got || err != nil {
		t.Errorf("nobody's hash: %t, %v", got, err)
	}
	for _, bad := range []string{"", "plain", "$argon2i$v=19$m=1,t=1,p=1$AA$AA", strings.Replace(hash, "m=19456", "m=99999999", 1), strings.Replace(hash, "v=19", "v=18", 1), hash[:len(hash)-4]} {
		if ok, err := CheckPassword(bad, "correct horse"); ok || err == nil {
			t.Errorf("a damaged hash %.40q: %t, %v", bad, ok, err)
		}
	}
	for _, short := range []string{"", "ninechars", strings.Repeat("x", maxPassword+1)} {
		if _, err := HashPassword(short); err == nil {
			t.Errorf("a password of %d bytes was taken", len(short))
		}
	}
}

func TestKeys(t *testing.T) {
	s := storetest.New(t).Owner()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := s.Registry.RegisterAgent(ctx, registry.Agent{ID: "bot", Name: "Bot"}, nil, storetest.Event()); err != nil {
		t.Fatal(err)
	}
	key, text, err := NewKey("bot", access.RuntimeKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Keys.Create(ctx, key, storetest.Event()); err != nil {
		t.Fatal(err)
	}
	keys := NewKeys(ctx, s)
	p, err := keys.Authenticate(ctx, text)
	if err != nil || p.AgentID != "bot" || p.Kind != access.RuntimeKey || p.MaxState != "confirmed" {
		t.Fatalf("%+v, %v", p, err)
	}
	// Its use is noted, and the next one within the minute is not.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		list, err := s.Keys.List(ctx, 10)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no use of the key is noted: %+v, %v", list, err)
		}
		if used := list[0].LastUsedAt; used != nil {
			if used.Before(list[0].CreatedAt) {
				t.Errorf("used at %s, before it was made", used)
			}
			break
		}
	}
	if _, err := keys.Authenticate(ctx, text); err != nil {
		t.Fatal(err)
	}
	keys.mu.Lock()
	if len(keys.used) != 0 {
		t.Errorf("each use is noted: %v", keys.used)
	}
	keys.use(key.ID, time.Now().Add(noteEvery))
	if len(keys.used) != 1 {
		t.Error("a use after a minute is not noted")
	}
	keys.mu.Unlock()
	restored, err := RestoreKey(text, "bot", access.RuntimeKey)
	if err != nil || restored.ID != key.ID || string(restored.SecretHash) != string(key.SecretHash) {
		t.Errorf("restored %+v, %v", restored, err)
	}
	last := "a"
	if strings.HasSuffix(text, last) {
		last = "b"
	}
	_, other, err := NewKey("bot", access.AgentKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "hp_", text[:len(text)-1] + last, other, strings.ToUpper(text), " " + text, text + " ", text[3:]} {
		if _, err := keys.Authenticate(ctx, bad); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := s.Keys.Revoke(ctx, key.ID, storetest.Event()); err != nil {
		t.Fatal(err)
	}
	// At once by the database's word, and after a moment without it.
	for deadline := time.Now().Add(2 * remembered); ; time.Sleep(5 * time.Millisecond) {
		if _, err = keys.Authenticate(ctx, text); errors.Is(err, ErrUnknown) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a revoked key is still believed: %v", err)
		}
	}
	for agent, kind := range map[string]string{"": access.AgentKey, "bot": access.AdminKey, "x": "root"} {
		if _, _, err := NewKey(agent, kind); err == nil {
			t.Errorf("a key of kind %q for agent %q was made", kind, agent)
		}
	}
}

func TestSignIn(t *testing.T) {
	db := storetest.New(t)
	s := db.Owner()
	ctx := context.Background()
	hash, err := HashPassword("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	p := engine.Person{ID: store.NewID("usr"), Email: "ada@example.com", Name: "Ada", Roles: []string{"reviewer"}}
	p.Identity = p.ID
	if err := s.People.Create(ctx, p, hash, storetest.Event()); err != nil {
		t.Fatal(err)
	}
	in := NewSignIn(factors(t, s))
	code := func(email, password, remote string) string {
		_, err := in.SignIn(ctx, email, password, "", remote, "")
		var r *access.Refusal
		if errors.As(err, &r) {
			return r.Code
		}
		if err != nil {
			t.Fatal(err)
		}
		return ""
	}
	// Right ones cost nothing, however many there are.
	for range accountBurst + 2 {
		if got := code(" Ada@Example.com ", "correct horse", "192.0.2.1"); got != "" {
			t.Fatal(got)
		}
	}
	if got := code("nobody@example.com", "correct horse", "192.0.2.1"); got != "wrong_credentials" {
		t.Errorf("an unknown account: %q", got)
	}
	for i := range accountBurst {
		if got := code("ada@example.com", "wrong horse", "192.0.2.1"); got != "wrong_credentials" {
			t.Fatalf("attempt %d: %q", i, got)
		}
	}
	if got := code("ada@example.com", "correct horse", "192.0.2.1"); got != "too_many_attempts" {
		t.Errorf("after %d failures: %q", accountBurst, got)
	}
	if got := code("ada@example.com", "correct horse", "192.0.2.2"); got != "" {
		t.Errorf("from elsewhere: %q; a stranger must not lock Ada out", got)
	}
	db.Disable(p.ID, storetest.Event())
	if got := code("ada@example.com", "correct horse", "192.0.2.3"); got != "wrong_credentials" {
		t.Errorf("disabled: %q", got)
	}
	events, err := s.Events.List(ctx, store.EventFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if e.Type == engine.SignIn {
			n++
		}
	}
	if want := accountBurst + 2 + 1 + accountBurst + 3; n != want {
		t.Errorf("%d sign-in events, want %d", n, want)
	}
}
