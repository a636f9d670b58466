package identity

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine"
)

// A browser in which somebody has signed in is known to a process that has just started, too;
// what nobody has made, or was made for somebody else, is nothing.
func TestKnownBrowser(t *testing.T) {
	sc := newScene(t)
	ctx := t.Context()
	ada, bob := sc.person("Ada"), sc.person("Bob")
	in := NewSignIn(sc.f)
	enter := func(p engine.Person, known string) (engine.Person, string) {
		t.Helper()
		who, err := in.SignIn(ctx, p.Email, "correct horse", "", "203.0.113.7", known)
		return who, refusal(t, err)
	}
	checked := func(p engine.Person) engine.Person {
		t.Helper()
		who, got := enter(p, "")
		if got != "" {
			t.Fatal(got)
		}
		return who
	}
	ada, bob = checked(ada), checked(bob)
	own, bobs := in.Known("", ada), in.Known("", bob)
	both := in.Known(bobs, ada)

	in = NewSignIn(factors(t, sc.db.Runtime()))
	for _, p := range []engine.Person{ada, bob} {
		for in.failures(in.anywhere, p.Email, anywhereEvery, anywhereBurst).wrong.Allow() {
		}
	}
	for what, known := range map[string]string{"her browser": own, "one of two people": both} {
		if _, got := enter(ada, known); got != "" {
			t.Errorf("Ada by %s: %q", what, got)
		}
	}
	for what, known := range map[string]string{"his browser": bobs, "one of two people": both, "one in which she signed in again": in.Known(both, ada)} {
		if _, got := enter(bob, known); got != "" {
			t.Errorf("Bob by %s: %q", what, got)
		}
	}
	decode, encode := base64.RawURLEncoding.DecodeString, base64.RawURLEncoding.EncodeToString
	raw, err := decode(own)
	if err != nil || len(raw) != browserEntry {
		t.Fatalf("%q: %v", own, err)
	}
	theirs, err := decode(bobs)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(raw)
	flipped[len(flipped)-1] ^= 1
	forgotten := ada
	forgotten.PasswordChecked = []byte("another one")
	for what, known := range map[string]string{
		"nothing": "", "Bob's": bobs, "one of another password": in.Known("", forgotten), "one of nobody": in.Known("", engine.Person{}),
		"cut": own[:len(own)-1], "cut to the id": encode(raw[:browserID]), "longer": own + "A", "twice, not as a whole": own + "=" + own,
		"a bit off": encode(flipped), "his id with her hash": encode(slices.Concat(theirs[:browserID], raw[browserID:])),
		"her id with his hash": encode(slices.Concat(raw[:browserID], theirs[browserID:])), "shifted": encode(slices.Concat(raw[1:], raw[:1])),
		"of zeros": encode(make([]byte, browserEntry)), "of other letters": strings.Repeat("é", 43), "standard base64": "+/" + own[2:],
		"too many": encode(slices.Concat(raw, make([]byte, mostAccounts*browserEntry))), "huge": strings.Repeat("A", 1<<20),
	} {
		if _, got := enter(ada, known); got != "too_many_attempts" {
			t.Errorf("a cookie that is %s: %q", what, got)
		}
		if renewed, err := decode(in.Known(known, ada)); err != nil || len(renewed)%browserEntry != 0 || len(renewed) > mostAccounts*browserEntry {
			t.Errorf("a cookie that was %s becomes %d bytes, %v", what, len(renewed), err)
		}
	}

	// The last accounts are kept, each once.
	many := in.Known(own, ada)
	for i := range mostAccounts - 1 {
		many = in.Known(many, engine.Person{ID: fmt.Sprint("usr_", i)})
	}
	if _, got := enter(ada, many); got != "" {
		t.Errorf("Ada, the last of %d: %q", mostAccounts, got)
	}
	if _, got := enter(ada, in.Known(many, bob)); got != "too_many_attempts" {
		t.Errorf("Ada, one more than are kept: %q", got)
	}
}

// Wrong passwords from a known browser are counted by themselves, and when there were too many
// the browser is as good as any other.
func TestKnownBrowserHasItsOwnBound(t *testing.T) {
	sc := newScene(t)
	ctx := t.Context()
	in := NewSignIn(sc.f)
	ada, err := in.SignIn(ctx, sc.person("Ada").Email, "correct horse", "", "203.0.113.7", "")
	if err != nil {
		t.Fatal(err)
	}
	stolen, other := in.Known("", ada), in.Known("", ada)
	try := func(password, known string) string {
		t.Helper()
		_, err := in.SignIn(ctx, ada.Email, password, "", "203.0.113.7", known)
		return refusal(t, err)
	}
	for i := range accountBurst {
		if got := try("not hers", stolen); got != "wrong_credentials" {
			t.Fatalf("guess %d: %q", i, got)
		}
	}
	anywhere := in.failures(in.anywhere, ada.Email, anywhereEvery, anywhereBurst)
	if got := anywhere.wrong.Tokens(); got < anywhereBurst {
		t.Errorf("%v guesses from everywhere are left", got)
	}
	if got := try("not hers", stolen); got != "wrong_credentials" || anywhere.wrong.Tokens() >= anywhereBurst {
		t.Errorf("one more guess: %q, with %v left from everywhere", got, anywhere.wrong.Tokens())
	}
	if got := try("correct horse", stolen); got != "" {
		t.Errorf("right, as everybody: %q", got)
	}
	for anywhere.wrong.Allow() {
	}
	for known, want := range map[string]string{stolen: "too_many_attempts", other: ""} {
		if got := try("correct horse", known); got != want {
			t.Errorf("right, while everybody waits: %q, want %q", got, want)
		}
	}
}
