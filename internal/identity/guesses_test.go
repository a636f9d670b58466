package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// Strangers who try to sign in, from wherever, grow the log by some events and a
// number, which says how many there were.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	sc := newScene(t)
	ctx := context.Background()
	in := NewSignIn(sc.f)
	const attempts = 720
	for i := range attempts {
		_, err := in.SignIn(ctx, strings.Repeat("x", maxEmail+1+i%7), "a password", "", fmt.Sprintf("192.0.%d.%d", i/200, i%200), "")
		if got := refusal(t, err); got != "wrong_credentials" {
			t.Fatalf("attempt %d: %q", i, got)
		}
	}
	in.Flush()
	events, err := sc.owner.Events.List(ctx, store.EventFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	alone, counted := 0, 0
	for _, e := range events {
		if e.Type != engine.SignIn {
			continue
		}
		var payload struct{ Count int }
		if err := json.Unmarshal(e.SafePayload, &payload); err != nil {
			t.Fatal(err)
		}
		if payload.Count == 0 {
			alone++
		}
		counted += payload.Count
	}
	if alone != refusalsFirst || alone+counted != attempts {
		t.Errorf("%d events for themselves and %d counted, of %d attempts", alone, counted, attempts)
	}
}

// However many addresses are remembered, somebody else gets in; and who was wrong too
// often is remembered all the same.
func TestFullGuessTable(t *testing.T) {
	sc := newScene(t)
	ctx := context.Background()
	p := sc.person("Ada")
	in := NewSignIn(sc.f)
	signIn := func(password, remote string) string {
		t.Helper()
		_, err := in.SignIn(ctx, p.Email, password, "", remote, "")
		var r *access.Refusal
		if err != nil && !errors.As(err, &r) {
			t.Fatal(err)
		}
		if r == nil {
			return ""
		}
		return r.Code
	}
	const brute = "203.0.113.7"
	for range accountBurst {
		signIn("wrong horse", brute)
	}
	for i := range 2 * mostRemembered {
		for _, of := range []map[string]*failures{in.addresses, in.accounts} {
			in.failures(of, fmt.Sprint("a stranger's ", i), accountEvery, accountBurst).wrong.Allow()
		}
		if len(in.addresses) > mostRemembered || len(in.accounts) > mostRemembered {
			t.Fatalf("%d addresses and %d accounts are remembered", len(in.addresses), len(in.accounts))
		}
	}
	if got := signIn("correct horse", "198.51.100.1"); got != "" {
		t.Errorf("Ada, from an address that is not remembered: %q", got)
	}
	if got := signIn("correct horse", brute); got != "too_many_attempts" {
		t.Errorf("from where the password was guessed: %q", got)
	}
	// All of them as wrong as can be.
	for _, of := range []map[string]*failures{in.addresses, in.accounts} {
		for _, f := range of {
			f.wrong = rate.NewLimiter(0, 1)
			f.wrong.Allow()
		}
	}
	if got := signIn("correct horse", "198.51.100.2"); got != "" {
		t.Errorf("Ada, while everybody else is wrong: %q", got)
	}
	// One household has many addresses of IPv6, and one table's row.
	for i := range accountBurst {
		if got := signIn("wrong horse", fmt.Sprintf("2001:db8:1:2::%x", i+1)); got != "wrong_credentials" {
			t.Errorf("attempt %d: %q", i, got)
		}
	}
	if got := signIn("correct horse", "2001:db8:1:2:ffff::1"); got != "too_many_attempts" {
		t.Errorf("from the same network: %q", got)
	}
	if got := signIn("correct horse", "2001:db8:1:3::1"); got != "" {
		t.Errorf("from the next one: %q", got)
	}
}

// A password is guessed at from many addresses no more often than from some, wherever its owner is.
func TestGuessesFromEverywhereAreBounded(t *testing.T) {
	sc := newScene(t)
	ctx := context.Background()
	p := sc.person("Ada")
	in := NewSignIn(sc.f)
	try := func(password, remote string) string {
		t.Helper()
		_, err := in.SignIn(ctx, p.Email, password, "", remote, "")
		return refusal(t, err)
	}
	if got := try("correct horse", "203.0.113.7"); got != "" {
		t.Fatal(got)
	}
	in.failures(in.anywhere, p.Email, anywhereEvery, anywhereBurst).wrong.AllowN(time.Now(), anywhereBurst-2)
	for i, want := range []string{"wrong_credentials", "wrong_credentials", "too_many_attempts"} {
		if got := try("not hers", fmt.Sprintf("198.51.100.%d", i)); got != want {
			t.Errorf("guess %d: %q, want %q", i, got, want)
		}
	}
	if got := try("correct horse", "203.0.113.7"); got != "too_many_attempts" {
		t.Errorf("right, from a browser that shows nothing: %q", got)
	}
}

// Strangers who wait for their turn keep nobody from theirs who is known, and there are
// only so many.
func TestStrangersShareOneQueue(t *testing.T) {
	sc := newScene(t)
	ctx := context.Background()
	in := NewSignIn(sc.f)
	var busy []func()
	for range parallelHashes {
		give, err := in.turn(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		busy = append(busy, give)
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var strangers sync.WaitGroup
	for range mostStrangers {
		strangers.Go(func() {
			if give, err := in.turn(waiting, ""); err == nil {
				give()
			}
		})
	}
	waits := func() int { _, n := sc.f.slots.Usage(); return n }
	for waits() < mostStrangers {
		runtime.Gosched()
	}
	if _, err := in.turn(ctx, ""); err == nil || refusal(t, err) != "too_many_attempts" {
		t.Errorf("one more stranger: %v", err)
	}
	known := make(chan struct{})
	go func() {
		defer close(known)
		give, err := in.turn(ctx, "usr_ada")
		if err != nil {
			t.Error(err)
			return
		}
		give()
	}()
	for waits() < mostStrangers+1 {
		runtime.Gosched()
	}
	held := busy[1] // no slot is left but one that goes from one to the next
	busy[0]()
	<-known
	cancel()
	held()
	strangers.Wait()
}
