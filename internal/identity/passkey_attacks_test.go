package identity

import (
	"context"
	"sync"
	"testing"

	"holdpoint/engine"
)

func TestPasskeyAttacks(t *testing.T) {
	sc := newScene(t)
	ctx, f := t.Context(), sc.f
	ada, ben := sc.person("Ada"), sc.person("Ben")
	const bound = "apr_1 sha256:aa"
	key, others := enrolled(t, f, ada), enrolled(t, f, ben)
	ada, ben = sc.by(ada, Passkey), sc.by(ben, Passkey)
	begin := func(p engine.Person, purpose, boundTo string) Ceremony {
		t.Helper()
		c, err := f.Begin(ctx, p, purpose, boundTo)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	verify := func(c Ceremony, assertion []byte) string {
		t.Helper()
		method, err := f.Verify(ctx, ada, ForApproval, bound, Proof{Assertion: assertion, ChallengeID: c.ChallengeID})
		if err == nil && method != Passkey {
			t.Errorf("proved by %q", method)
		}
		return refusal(t, err)
	}
	// attack changes a copy of the authenticator, or begins another ceremony.
	attacks := map[string]func(a *authenticator) (Ceremony, []byte){
		"another origin": func(a *authenticator) (Ceremony, []byte) {
			a.origin = "https://console.example.org"
			return begin(ada, ForApproval, bound), nil
		},
		"a sibling's origin": func(a *authenticator) (Ceremony, []byte) {
			a.origin = "https://evil.console.example.com"
			return begin(ada, ForApproval, bound), nil
		},
		"another port": func(a *authenticator) (Ceremony, []byte) {
			a.origin = "https://console.example.com:8443"
			return begin(ada, ForApproval, bound), nil
		},
		"without TLS": func(a *authenticator) (Ceremony, []byte) {
			a.origin = "http://console.example.com"
			return begin(ada, ForApproval, bound), nil
		},
		"another relying party": func(a *authenticator) (Ceremony, []byte) {
			a.rp = "example.com"
			return begin(ada, ForApproval, bound), nil
		},
		"no user verification": func(a *authenticator) (Ceremony, []byte) {
			a.flags = userPresent
			return begin(ada, ForApproval, bound), nil
		},
		"no user presence": func(a *authenticator) (Ceremony, []byte) {
			a.flags = userVerified
			return begin(ada, ForApproval, bound), nil
		},
		"suddenly copyable": func(a *authenticator) (Ceremony, []byte) {
			a.flags |= backupEligible | backedUp
			return begin(ada, ForApproval, bound), nil
		},
		"a count that stands": func(a *authenticator) (Ceremony, []byte) { a.counter--; return begin(ada, ForApproval, bound), nil },
		"another's user handle": func(a *authenticator) (Ceremony, []byte) {
			a.handle = []byte(ben.ID)
			return begin(ada, ForApproval, bound), nil
		},
		"another's passkey": func(*authenticator) (Ceremony, []byte) {
			c := begin(ada, ForApproval, bound)
			return c, others.get(c.PublicKey)
		},
		"another's challenge": func(*authenticator) (Ceremony, []byte) { return begin(ben, ForApproval, bound), nil },
		"another digest":      func(*authenticator) (Ceremony, []byte) { return begin(ada, ForApproval, "apr_1 sha256:bb"), nil },
		"another purpose":     func(*authenticator) (Ceremony, []byte) { return begin(ada, ForSession, bound), nil },
		"a registration": func(a *authenticator) (Ceremony, []byte) {
			c := begin(ada, ForApproval, bound)
			return c, a.assert("webauthn.create", c.PublicKey)
		},
		"a challenge to register": func(*authenticator) (Ceremony, []byte) {
			c, err := f.BeginPasskey(ctx, ada)
			if err != nil {
				t.Fatal(err)
			}
			return c, nil
		},
		"another challenge's id": func(a *authenticator) (Ceremony, []byte) {
			return begin(ada, ForApproval, bound), a.get(begin(ada, ForApproval, bound).PublicKey)
		},
		"no such challenge": func(a *authenticator) (Ceremony, []byte) {
			c := begin(ada, ForApproval, bound)
			return Ceremony{ChallengeID: "x"}, a.get(c.PublicKey)
		},
		"another key": func(a *authenticator) (Ceremony, []byte) {
			a.key = others.key
			return begin(ada, ForApproval, bound), nil
		},
		"expired": func(*authenticator) (Ceremony, []byte) {
			c := begin(ada, ForApproval, bound)
			sc.db.Exec(`UPDATE challenges SET created_at = created_at - interval '5 minutes', expires_at = expires_at - interval '5 minutes'`)
			return c, nil
		},
		"no JSON": func(*authenticator) (Ceremony, []byte) { return begin(ada, ForApproval, bound), []byte(`{`) },
		"too long": func(*authenticator) (Ceremony, []byte) {
			return begin(ada, ForApproval, bound), make([]byte, maxCredential+1)
		},
	}
	key.counter = 10
	for name, attack := range attacks {
		// Before and after each, the honest one passes: only the difference is refused.
		key.counter++
		c := begin(ada, ForApproval, bound)
		if got := verify(c, key.get(c.PublicKey)); got != "" {
			t.Fatalf("before %s: %q", name, got)
		}
		liar := *key
		liar.counter++
		if name == "a count that stands" {
			liar.counter = key.counter + 1
		}
		c, assertion := attack(&liar)
		if assertion == nil {
			assertion = liar.get(c.PublicKey)
		}
		if got := verify(c, assertion); got != "verification_failed" {
			t.Errorf("%s: %q", name, got)
		}
		// Whatever was wrong, the challenge is used up.
		honest := *key
		honest.counter++
		if c.PublicKey != nil {
			if got := verify(c, honest.get(c.PublicKey)); got != "verification_failed" {
				t.Errorf("%s, then honestly: %q", name, got)
			}
		}
	}
	key.counter++
	c := begin(ada, ForApproval, bound)
	assertion := key.get(c.PublicKey)
	if got := verify(c, assertion); got != "" {
		t.Fatal(got)
	}
	if got := verify(c, assertion); got != "verification_failed" {
		t.Errorf("the same again: %q", got)
	}
}

// One challenge, answered many times at once, is good once.
func TestChallengeIsTakenOnce(t *testing.T) {
	sc := newScene(t)
	p := sc.person("Ada")
	a := enrolled(t, sc.f, p)
	c, err := sc.f.Begin(t.Context(), p, ForApproval, "x")
	if err != nil {
		t.Fatal(err)
	}
	assertion := a.get(c.PublicKey)
	results := make(chan error, 10)
	var all sync.WaitGroup
	for range cap(results) {
		all.Go(func() {
			_, err := sc.f.Verify(context.Background(), p, ForApproval, "x", Proof{Assertion: assertion, ChallengeID: c.ChallengeID})
			results <- err
		})
	}
	all.Wait()
	close(results)
	n := 0
	for err := range results {
		if err == nil {
			n++
		}
	}
	if n != 1 {
		t.Errorf("taken %d times", n)
	}
}

func TestPasskeyRegistrationAttacks(t *testing.T) {
	sc := newScene(t)
	ctx, f := t.Context(), sc.f
	ada, ben := sc.person("Ada"), sc.person("Ben")
	for name, lie := range map[string]func(a *authenticator){
		"another origin": func(a *authenticator) { a.origin = "https://console.example.org" }, "no user verification": func(a *authenticator) { a.flags = userPresent },
		"another relying party": func(a *authenticator) { a.rp = "example.com" }, "copied and not copyable": func(a *authenticator) { a.flags |= backedUp },
	} {
		a := newAuthenticator(t)
		lie(a)
		c, err := f.BeginPasskey(ctx, ada)
		if err != nil {
			t.Fatal(err)
		}
		if got := refusal(t, f.FinishPasskey(ctx, ada, "x", c.ChallengeID, a.create(c.PublicKey))); got != "verification_failed" {
			t.Errorf("%s: %q", name, got)
		}
	}
	c, err := f.BeginPasskey(ctx, ben)
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthenticator(t)
	if got := refusal(t, f.FinishPasskey(ctx, ada, "x", c.ChallengeID, a.create(c.PublicKey))); got != "verification_failed" {
		t.Errorf("another's challenge: %q", got)
	}
	made := a.create(c.PublicKey)
	if err := f.FinishPasskey(ctx, ben, "x", c.ChallengeID, made); err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, f.FinishPasskey(ctx, ben, "x", c.ChallengeID, made)); got != "verification_failed" {
		t.Errorf("again: %q", got)
	}
	if c, err = f.BeginPasskey(ctx, ada); err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, f.FinishPasskey(ctx, ada, "x", c.ChallengeID, a.create(c.PublicKey))); got != "passkey_known" {
		t.Errorf("a passkey that is Ben's: %q", got)
	}
}
