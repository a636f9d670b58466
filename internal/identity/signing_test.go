package identity

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/passkey"
	"holdpoint/internal/store/storetest"
)

// keys are the person's passkeys as the log has them.
func (sc *scene) keys(p engine.Person) []passkey.Key {
	sc.t.Helper()
	keys, err := sc.f.store.Factors.Keys(sc.t.Context(), p.ID)
	if err != nil {
		sc.t.Fatal(err)
	}
	return keys.Of(p.ID)
}

func TestPasskeysAreAddedAndRemovedSigned(t *testing.T) {
	sc := newScene(t)
	f, ctx := sc.f, t.Context()
	ada, ben := sc.person("Ada"), sc.person("Ben")
	first, foreign := enrolled(t, f, ada), enrolled(t, f, ben)
	ada = sc.by(ada, Passkey)
	if keys := sc.keys(ada); len(keys) != 1 || !bytes.Equal(keys[0].Credential, first.id) || keys[0].RPID != "console.example.com" || keys[0].Algorithm != "ES256" {
		t.Fatalf("the log has %+v", keys)
	}
	if _, err := adds(t, f, ada, foreign); refusal(t, err) != "verification_failed" {
		t.Errorf("added by another person's passkey: %v", err)
	}
	// The credential that was made does not do for the signature.
	a := newAuthenticator(t)
	c, err := f.BeginPasskey(ctx, ada)
	if err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, f.FinishPasskey(ctx, ada, "x", c.ChallengeID, a.create(c.PublicKey))); got != "verification_failed" {
		t.Errorf("added without a signature: %q", got)
	}
	second, err := adds(t, f, ada, first)
	if err != nil {
		t.Fatal(err)
	}
	if keys := sc.keys(ada); len(keys) != 2 || !bytes.Equal(keys[1].Credential, second.id) {
		t.Fatalf("the log has %+v", keys)
	}
	if got := refusal(t, removes(t, f, ada, second.id, foreign)); got != "verification_failed" {
		t.Errorf("removed by another person's passkey: %q", got)
	}
	// A signature over one removal is none over another.
	c, err = f.BeginRemoval(ctx, ada, first.id)
	if err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, f.RemovePasskey(ctx, ada, second.id, Proof{ChallengeID: c.ChallengeID, Assertion: first.get(c.PublicKey)})); got != "verification_failed" {
		t.Errorf("removed by the signature of another removal: %q", got)
	}
	if err := removes(t, f, ada, first.id, second); err != nil {
		t.Fatal(err)
	}
	if keys := sc.keys(ada); len(keys) != 1 || !bytes.Equal(keys[0].Credential, second.id) {
		t.Fatalf("the log has %+v", keys)
	}
	if err := removes(t, f, ada, second.id, second); err != nil {
		t.Fatal(err)
	}
	enrolled(t, f, sc.by(ada, Password)) // a first one again
}

// Of two changes that are signed at once, one is a change of what there was.
func TestChangesOfPasskeysFollowEachOther(t *testing.T) {
	sc := newScene(t)
	f, ctx := sc.f, t.Context()
	p := sc.person("Ada")
	first := enrolled(t, f, p)
	p = sc.by(p, Passkey)
	finish := make(chan func() error, 2)
	for range 2 {
		a := newAuthenticator(t)
		c, err := f.BeginPasskey(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if c, err = f.SignPasskey(ctx, p, c.ChallengeID, a.create(c.PublicKey)); err != nil {
			t.Fatal(err)
		}
		answer := first.get(c.PublicKey)
		finish <- func() error { return f.FinishPasskey(ctx, p, "x", c.ChallengeID, answer) }
	}
	close(finish)
	results := make(chan error, 2)
	var both sync.WaitGroup
	for one := range finish {
		both.Go(func() { results <- one() })
	}
	both.Wait()
	close(results)
	codes := map[string]int{}
	for err := range results {
		codes[refusal(t, err)]++
	}
	if codes[""] != 1 || codes["passkeys_changed"] != 1 {
		t.Errorf("they came to %v", codes)
	}
	if keys := sc.keys(p); len(keys) != 2 {
		t.Errorf("the log has %d passkeys", len(keys))
	}
}

// What a passkey signs is what was asked, once, for the purpose and the person.
func TestSignatureAnswersItsChallengeOnce(t *testing.T) {
	sc := newScene(t)
	f, ctx := sc.f, t.Context()
	ada, ben, none := sc.person("Ada"), sc.person("Ben"), sc.person("Cleo")
	mine, foreign := enrolled(t, f, ada), enrolled(t, f, ben)
	challenge := sha256.Sum256([]byte("a statement"))
	begin := func(p engine.Person, purpose, boundTo string) Ceremony {
		t.Helper()
		c, err := f.BeginSigning(ctx, p, purpose, boundTo, challenge, "kept")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var kept string
	c := begin(ada, ForVote, "apr_1")
	proof := Proof{ChallengeID: c.ChallengeID, Assertion: mine.get(c.PublicKey)}
	made, err := f.Signed(ctx, ada, ForVote, "apr_1", proof, &kept)
	if err != nil || kept != "kept" {
		t.Fatalf("%q, %v", kept, err)
	}
	if err := sc.keys(ada)[0].Verify(challenge, made); err != nil {
		t.Error(err)
	}
	for name, try := range map[string]func() (Ceremony, []byte){
		"again":             func() (Ceremony, []byte) { return c, proof.Assertion },
		"another purpose":   func() (Ceremony, []byte) { c := begin(ada, ForApproval, "apr_1"); return c, mine.get(c.PublicKey) },
		"another approval":  func() (Ceremony, []byte) { c := begin(ada, ForVote, "apr_2"); return c, mine.get(c.PublicKey) },
		"another person":    func() (Ceremony, []byte) { c := begin(ben, ForVote, "apr_1"); return c, foreign.get(c.PublicKey) },
		"another's passkey": func() (Ceremony, []byte) { c := begin(ada, ForVote, "apr_1"); return c, foreign.get(c.PublicKey) },
		"no assertion":      func() (Ceremony, []byte) { return begin(ada, ForVote, "apr_1"), []byte(`{}`) },
	} {
		c, assertion := try()
		if _, err := f.Signed(ctx, ada, ForVote, "apr_1", Proof{ChallengeID: c.ChallengeID, Assertion: assertion}, &kept); refusal(t, err) != "verification_failed" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.BeginSigning(ctx, none, ForVote, "apr_1", challenge, nil); !errors.Is(err, NoSigningKey) {
		t.Errorf("without a passkey: %v", err)
	}
	if is, err := f.Signs(ctx, none); is || err != nil {
		t.Errorf("without a passkey: %t, %v", is, err)
	}
	if is, err := f.Signs(ctx, ada); !is || err != nil {
		t.Errorf("with one: %t, %v", is, err)
	}
}

// A passkey from before the log had keys signs nothing, and goes as it could.
func TestPasskeyThatTheLogDoesNotKnow(t *testing.T) {
	sc := newScene(t)
	f, ctx := sc.f, t.Context()
	ada, ben := sc.person("Ada"), sc.person("Ben")
	a := enrolled(t, f, ben)
	// What is Ben's by the log becomes Ada's row, which the log knows nothing of.
	sc.db.Exec(fmt.Sprintf(`UPDATE passkeys SET person_id = '%s'`, ada.ID))
	if _, err := f.BeginSigning(ctx, ada, ForVote, "apr_1", sha256.Sum256(nil), nil); !errors.Is(err, NoSigningKey) {
		t.Errorf("a passkey of the database's alone signs: %v", err)
	}
	ada = sc.by(ada, Passkey)
	if c, err := f.BeginRemoval(ctx, ada, a.id); err != nil || c.PublicKey != nil {
		t.Errorf("%s, %v", c.PublicKey, err)
	}
	if err := f.RemovePasskey(ctx, ada, a.id, Proof{}); err != nil {
		t.Error(err)
	}
}

// Only a reset takes the passkeys of who has lost them all, and it is in the log.
func TestResetTakesAllPasskeys(t *testing.T) {
	sc := newScene(t)
	p := sc.person("Ada")
	enrolled(t, sc.f, p)
	e := storetest.Event()
	e.Type, e.Outcome, e.Reasons = engine.Admin, engine.Allow, []engine.Reason{{Code: passkey.Reset, Message: "reset"}}
	e.SafePayload = []byte(fmt.Sprintf(`{"person":%q,"subject":%q}`, p.ID, p.ID))
	if n, err := sc.owner.Factors.Reset(t.Context(), p.Email, e); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if keys := sc.keys(p); len(keys) != 0 {
		t.Fatalf("the log has %+v", keys)
	}
	enrolled(t, sc.f, sc.by(p, Password))
	if keys := sc.keys(p); len(keys) != 1 {
		t.Fatalf("the log has %+v", keys)
	}
}
