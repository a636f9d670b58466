package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"pgregory.net/rapid"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

func factors(t *testing.T, s *store.Store) *Factors {
	t.Helper()
	f, err := NewFactors(s, "https://console.example.com")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// scene is a database with people in it, and what the runtime role may do there.
type scene struct {
	t     *testing.T
	db    *storetest.Database
	owner *store.Store
	f     *Factors
}

func newScene(t *testing.T) *scene {
	t.Helper()
	db := storetest.New(t)
	return &scene{t: t, db: db, owner: db.Owner(), f: factors(t, db.Runtime())}
}

// person is somebody new who has just proved who they are by password.
func (sc *scene) person(name string) engine.Person {
	sc.t.Helper()
	hash, err := HashPassword("correct horse")
	if err != nil {
		sc.t.Fatal(err)
	}
	p := engine.Person{ID: store.NewID("usr"), Email: strings.ToLower(name) + "@example.com", Name: name, Roles: []string{"reviewer"}}
	p.Identity = p.ID
	if err := sc.owner.People.Create(sc.t.Context(), p, hash, storetest.Event()); err != nil {
		sc.t.Fatal(err)
	}
	return sc.by(p, Password)
}

// by is the person as one who has just proved it by the method.
func (sc *scene) by(p engine.Person, m Method) engine.Person {
	sc.t.Helper()
	now, err := sc.owner.Now(sc.t.Context())
	if err != nil {
		sc.t.Fatal(err)
	}
	p.VerifiedAt, p.VerifiedBy = now, m
	return p
}

// codeAt is the code of a secret so many steps from now.
func (sc *scene) codeAt(secret string, steps int64) string {
	sc.t.Helper()
	now, err := sc.owner.Now(sc.t.Context())
	if err != nil {
		sc.t.Fatal(err)
	}
	code, err := hotp.GenerateCodeCustom(secret, uint64(now.Unix()/30+steps), hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
	if err != nil {
		sc.t.Fatal(err)
	}
	return code
}

// withTOTP enrols an app whose codes of now and later are still good.
func (sc *scene) withTOTP(p engine.Person) (engine.Person, string) {
	sc.t.Helper()
	secret := NewTOTPSecret()
	if err := RestoreTOTP(sc.t.Context(), sc.owner, p.ID, secret, storetest.Event()); err != nil {
		sc.t.Fatal(err)
	}
	return sc.by(p, TOTP), secret
}

// refusal is the code of a refusal, "" for none; anything else fails the test.
func refusal(t *testing.T, err error) string {
	t.Helper()
	var r *access.Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}

func TestEnrolAndRemove(t *testing.T) {
	sc := newScene(t)
	ctx, f := t.Context(), sc.f
	p := sc.person("Ada")
	if got, err := f.Methods(ctx, p); err != nil || !slices.Equal(got, []Method{Password}) {
		t.Errorf("methods %v, %v", got, err)
	}
	stale := p
	stale.VerifiedAt = p.VerifiedAt.Add(-FreshFor - time.Second)
	for what, who := range map[string]engine.Person{"an old proof": stale, "none": {ID: p.ID, Email: p.Email}} {
		if _, err := f.EnrolTOTP(ctx, who); refusal(t, err) != "verification_needed" {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := f.BeginPasskey(ctx, who); refusal(t, err) != "verification_needed" {
			t.Errorf("%s: %v", what, err)
		}
	}
	first, err := f.EnrolTOTP(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	e, err := f.EnrolTOTP(ctx, p) // instead of the first
	if err != nil {
		t.Fatal(err)
	}
	key, err := otp.NewKeyFromURL(e.URI)
	if err != nil || key.Secret() != e.Secret || key.Issuer() != "Holdpoint" || key.AccountName() != "ada@example.com" || len(e.Secret) != 32 {
		t.Errorf("%s: %v", e.URI, err)
	}
	looksLikeQR(t, e.QR)
	if got, _ := f.Methods(ctx, p); !slices.Equal(got, []Method{Password}) {
		t.Errorf("before a code was shown: %v", got)
	}
	if got := refusal(t, f.ConfirmTOTP(ctx, p, sc.codeAt(first.Secret, 0))); got != "verification_failed" {
		t.Errorf("the secret before: %q", got)
	}
	code := sc.codeAt(e.Secret, 0)
	if err := f.ConfirmTOTP(ctx, p, code[:3]+" "+code[3:]); err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, f.ConfirmTOTP(ctx, p, sc.codeAt(e.Secret, 1))); got != "not_enrolling" {
		t.Errorf("confirmed twice: %q", got)
	}
	if _, err := f.Verify(ctx, p, ForSession, "", Proof{Code: code}); refusal(t, err) != "verification_failed" {
		t.Errorf("the code that confirmed it: %v", err)
	}
	// The password of a moment ago counts no longer.
	if got := refusal(t, f.RemoveTOTP(ctx, p)); got != "verification_needed" {
		t.Errorf("removed with a password: %q", got)
	}
	p = sc.by(p, TOTP)
	if _, err := f.EnrolTOTP(ctx, p); refusal(t, err) != "totp_enrolled" {
		t.Errorf("a second app: %v", err)
	}
	laptop := enrolled(t, f, p)
	keys, err := f.Passkeys(ctx, p)
	if err != nil || len(keys) != 1 || keys[0].Name != "laptop" || keys[0].LastUsedAt != nil {
		t.Fatalf("%+v, %v", keys, err)
	}
	if got, _ := f.Methods(ctx, p); !slices.Equal(got, []Method{Passkey, TOTP}) {
		t.Errorf("methods %v", got)
	}
	other := sc.person("Ben")
	for name, err := range map[string]error{
		"rename another's": f.RenamePasskey(ctx, other, keys[0].ID, "mine"), "remove another's": f.RemovePasskey(ctx, other, keys[0].ID, Proof{}),
	} {
		if got := refusal(t, err); got != "not_found" {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, name := range []string{"", " ", strings.Repeat("x", 101), "a\nb"} {
		if got := refusal(t, f.RenamePasskey(ctx, p, keys[0].ID, name)); got != "invalid_name" {
			t.Errorf("name %q: %q", name, got)
		}
	}
	if got := refusal(t, f.RemovePasskey(ctx, p, keys[0].ID, Proof{})); got != "signature_required" {
		t.Errorf("removed without a signature: %q", got)
	}
	if err := errors.Join(f.RenamePasskey(ctx, p, keys[0].ID, "phone"), removes(t, f, p, keys[0].ID, laptop), f.RemoveTOTP(ctx, p)); err != nil {
		t.Fatal(err)
	}
	if got, _ := f.Methods(ctx, p); !slices.Equal(got, []Method{Password}) {
		t.Errorf("after removing all: %v", got)
	}
	var codes []string
	events, err := sc.owner.Events.List(ctx, store.EventFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Actor.ID == p.ID {
			codes = append(codes, e.Reasons[0].Code)
		}
		if body, _ := json.Marshal(e); strings.Contains(string(body), first.Secret) {
			t.Error("a secret in an event")
		}
	}
	if want := []string{"FACTOR_ADDED", "verification_failed", "FACTOR_ADDED", "FACTOR_REMOVED", "FACTOR_REMOVED"}; !slices.Equal(codes, want) {
		t.Errorf("events %v, want %v", codes, want)
	}
}

// looksLikeQR finds what every QR code has: a square in three corners, and rows
// that alternate between them (ISO/IEC 18004).
func looksLikeQR(t *testing.T, rows [][]bool) {
	t.Helper()
	n := len(rows)
	if n < 21 || (n-17)%4 != 0 {
		t.Fatalf("a QR code does not have %d rows", n)
	}
	for y := range 7 {
		for x := range 7 {
			ring := max(max(x-3, 3-x), max(y-3, 3-y))
			for _, corner := range [][2]int{{0, 0}, {0, n - 7}, {n - 7, 0}} {
				if got := rows[corner[0]+y][corner[1]+x]; got != (ring != 2) {
					t.Fatalf("corner %v is not right at %d, %d", corner, y, x)
				}
			}
		}
	}
	for i := 8; i < n-8; i++ {
		if rows[6][i] != (i%2 == 0) || rows[i][6] != (i%2 == 0) {
			t.Fatalf("the timing pattern is not right at %d of %d", i, n)
		}
	}
}

// The codes of RFC 6238, appendix B, of which the last six digits count.
func TestMatchingVectors(t *testing.T) {
	secret := []byte("12345678901234567890")
	for at, code := range map[int64]string{59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130"} {
		step, ok, err := matching(secret, code, time.Unix(at, 0))
		if err != nil || !ok || step != at/30 {
			t.Errorf("%s at %d: step %d, %t, %v", code, at, step, ok, err)
		}
	}
}

// A code is taken when it is of now or of the step before or after, and only
// then.
func TestMatchingIsOfNow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SliceOfN(rapid.Byte(), totpSecret, totpSecret).Draw(t, "secret")
		now := rapid.Int64Range(1_500_000_000, 5_000_000_000).Draw(t, "now")
		off := rapid.Int64Range(-5, 5).Draw(t, "steps off")
		codeOf := func(step int64) string {
			code, err := hotp.GenerateCodeCustom(base32Secret.EncodeToString(secret), uint64(step), hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
			if err != nil {
				t.Fatal(err)
			}
			return code
		}
		at := now / 30
		code := codeOf(at + off)
		step, ok, err := matching(secret, code, time.Unix(now, 0))
		if err != nil {
			t.Fatal(err)
		}
		if near := off >= -1 && off <= 1; near && !ok {
			t.Fatalf("%d steps off: not taken", off)
		}
		// Two steps may have the same code, one time in a million.
		if ok && (step < at-1 || step > at+1 || codeOf(step) != code) {
			t.Fatalf("%d steps off: taken as step %+d", off, step-at)
		}
	})
}

func TestEnrolmentExpires(t *testing.T) {
	sc := newScene(t)
	p := sc.person("Ada")
	e, err := sc.f.EnrolTOTP(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	sc.db.Exec(`UPDATE totp_factors SET created_at = created_at - interval '16 minutes'`)
	if got := refusal(t, sc.f.ConfirmTOTP(t.Context(), p, sc.codeAt(e.Secret, 0))); got != "not_enrolling" {
		t.Errorf("after 16 minutes: %q", got)
	}
}

// A code is good once, within a step of now, and never after a later one.
func TestTOTPAttacks(t *testing.T) {
	sc := newScene(t)
	ctx, f := t.Context(), sc.f
	for i, c := range []struct {
		name  string
		steps []int64 // shown one after the other
		want  []bool
	}{
		{"now", []int64{0}, []bool{true}},
		{"the next", []int64{1}, []bool{true}},
		{"again", []int64{0, 0}, []bool{true, false}},
		{"an older one after a newer", []int64{1, 0}, []bool{true, false}},
		{"a newer one after an older", []int64{0, 1}, []bool{true, true}},
		{"too old", []int64{-3}, []bool{false}},
		{"too new", []int64{4}, []bool{false}},
	} {
		p, secret := sc.withTOTP(sc.person(fmt.Sprint("p", i)))
		for j, step := range c.steps {
			method, err := f.Verify(ctx, p, ForApproval, "apr_1", Proof{Code: sc.codeAt(secret, step)})
			if got := refusal(t, err); (got == "") != c.want[j] || got != "" && got != "verification_failed" || got == "" && method != TOTP {
				t.Errorf("%s, code %d: %q, %q", c.name, j, method, got)
			}
		}
	}
	p, secret := sc.withTOTP(sc.person("Cleo"))
	other, _ := sc.withTOTP(sc.person("Dina"))
	code := sc.codeAt(secret, 0)
	for name, c := range map[string]struct {
		p     engine.Person
		proof Proof
	}{
		"another person's": {other, Proof{Code: code}}, "nothing": {p, Proof{}}, "two at once": {p, Proof{Code: code, Password: "correct horse"}},
		"the password": {p, Proof{Password: "correct horse"}}, "letters": {p, Proof{Code: "abcdef"}}, "too long": {p, Proof{Code: code + "0"}},
	} {
		if _, err := f.Verify(ctx, c.p, ForSession, "", c.proof); refusal(t, err) != "verification_failed" {
			t.Errorf("%s: %v", name, err)
		}
	}
	sc.db.Disable(p.ID, storetest.Event())
	if _, err := f.Verify(ctx, p, ForSession, "", Proof{Code: code}); refusal(t, err) != "verification_failed" {
		t.Errorf("disabled: %v", err)
	}
}

// However many processes are shown a code at the same moment, one takes it.
func TestTOTPIsTakenOnce(t *testing.T) {
	sc := newScene(t)
	for round := range 10 {
		p, secret := sc.withTOTP(sc.person(fmt.Sprint("p", round)))
		code := sc.codeAt(secret, 0)
		var taken sync.Map
		var all sync.WaitGroup
		for i := range mostWrong {
			all.Go(func() {
				if _, err := sc.f.Verify(context.Background(), p, ForApproval, "x", Proof{Code: code}); err == nil {
					taken.Store(i, true)
				}
			})
		}
		all.Wait()
		n := 0
		taken.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Fatalf("round %d: the code was taken %d times", round, n)
		}
	}
}

func TestBruteForce(t *testing.T) {
	sc := newScene(t)
	ctx, f := t.Context(), sc.f
	p, secret := sc.withTOTP(sc.person("Ada"))
	a := enrolled(t, f, p)
	// Right ones cost nothing.
	if _, err := f.Verify(ctx, p, ForSession, "", Proof{Code: sc.codeAt(secret, 0)}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			_, err := f.Verify(context.Background(), p, ForSession, "", Proof{Code: sc.codeAt(secret, 50)})
			mu.Lock()
			defer mu.Unlock()
			var r *access.Refusal
			if !errors.As(err, &r) {
				t.Errorf("%v", err)
				return
			}
			got[r.Code]++
			if r.Code == "too_many_attempts" && (r.Kind != access.RateLimited || r.RetryAfter < 14*time.Minute || r.RetryAfter > 15*time.Minute) {
				t.Errorf("%+v", r)
			}
		})
	}
	all.Wait()
	if got["verification_failed"] != mostWrong || got["too_many_attempts"] != 40-mostWrong {
		t.Errorf("of 40 guesses at once: %v", got)
	}
	next := sc.codeAt(secret, 1)
	if _, err := f.Verify(ctx, p, ForSession, "", Proof{Code: next}); refusal(t, err) != "too_many_attempts" {
		t.Errorf("a right code after too many wrong ones: %v", err)
	}
	c, err := f.Begin(ctx, p, ForSession, "")
	if err != nil {
		t.Fatal(err)
	}
	a.counter++
	if _, err := f.Verify(ctx, p, ForSession, "", Proof{Assertion: a.get(c.PublicKey), ChallengeID: c.ChallengeID}); err != nil {
		t.Errorf("a passkey meanwhile: %v", err)
	}
	sc.db.Exec(`UPDATE proof_attempts SET at = at - interval '15 minutes'`)
	if _, err := f.Verify(ctx, p, ForSession, "", Proof{Code: next}); err != nil {
		t.Errorf("after the time has passed: %v", err)
	}
	// Passwords are counted with codes.
	b := sc.person("Ben")
	for i := range mostWrong {
		if _, err := f.Verify(ctx, b, ForSession, "", Proof{Password: "wrong horse"}); refusal(t, err) != "verification_failed" {
			t.Errorf("guess %d: %v", i, err)
		}
	}
	if _, err := f.Verify(ctx, b, ForSession, "", Proof{Password: "correct horse"}); refusal(t, err) != "too_many_attempts" {
		t.Errorf("a right password after too many wrong ones: %v", err)
	}
}

func TestPasswordIsForSessionsOnly(t *testing.T) {
	sc := newScene(t)
	p := sc.person("Ada")
	for purpose, want := range map[string]string{ForSession: "", ForApproval: "verification_failed", forSignIn: "verification_failed", "": "verification_failed"} {
		method, err := sc.f.Verify(t.Context(), p, purpose, "", Proof{Password: "correct horse"})
		if got := refusal(t, err); got != want || got == "" && method != Password {
			t.Errorf("%s: %q, %q", purpose, method, got)
		}
	}
}

func TestNewFactors(t *testing.T) {
	for address, want := range map[string]string{
		"https://console.example.com": "https://console.example.com", "http://127.0.0.1:8080": "http://localhost:8080", "http://[::1]:8080": "http://localhost:8080",
		"http://localhost:9": "http://localhost:9", "http://127.0.0.1": "http://localhost", "https://192.0.2.7": "", "https://a..b": "", "https://h.example.com:8443": "https://h.example.com:8443",
	} {
		f, err := NewFactors(nil, address)
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		if got := f.Origin(); got != want {
			t.Errorf("%s: passkeys at %q, want %q", address, got, want)
		}
	}
	for _, bad := range []string{"", "console", "https://"} {
		if _, err := NewFactors(nil, bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	f, err := NewFactors(nil, "https://192.0.2.7")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Begin(t.Context(), engine.Person{}, ForSession, ""); refusal(t, err) != "passkeys_unavailable" {
		t.Errorf("without a name: %v", err)
	}
}

func TestSignInWithASecondFactor(t *testing.T) {
	sc := newScene(t)
	ctx := t.Context()
	in := NewSignIn(sc.f)
	p, secret := sc.withTOTP(sc.person("Ada"))
	key := enrolled(t, sc.f, p)
	signIn := func(password, code string) (engine.Person, string, string) {
		t.Helper()
		who, err := in.SignIn(ctx, p.Email, password, code, "192.0.2.1", "")
		var second *SecondStep
		if errors.As(err, &second) {
			return who, second.Pending, ""
		}
		return who, "", refusal(t, err)
	}
	if who, pending, refused := signIn("correct horse", ""); who.ID != "" || pending == "" || refused != "" {
		t.Fatalf("without a code: %+v, %q, %q", who, pending, refused)
	}
	if _, _, refused := signIn("wrong horse", sc.codeAt(secret, 0)); refused != "wrong_credentials" {
		t.Errorf("a wrong password: %q", refused)
	}
	if _, _, refused := signIn("correct horse", "000000"); refused != "wrong_credentials" {
		t.Errorf("a wrong code: %q", refused)
	}
	used := sc.codeAt(secret, 0)
	if who, _, refused := signIn("correct horse", used); who.ID != p.ID || who.VerifiedBy != TOTP || refused != "" {
		t.Errorf("with a code: %+v, %q", who, refused)
	}
	_, pending, _ := signIn("correct horse", "")
	if who, methods, err := in.Pending(ctx, pending); err != nil || who.ID != p.ID || !slices.Equal(methods, []Method{Passkey, TOTP}) {
		t.Errorf("pending: %+v, %v, %v", who, methods, err)
	}
	finish := func(pending string, proof Proof) (engine.Person, string) {
		t.Helper()
		who, err := in.Finish(ctx, pending, proof, "192.0.2.1")
		return who, refusal(t, err)
	}
	if _, refused := finish(pending, Proof{Code: used}); refused != "verification_failed" {
		t.Errorf("a code that was used: %q", refused)
	}
	if _, refused := finish(pending, Proof{Password: "correct horse"}); refused != "verification_failed" {
		t.Errorf("the password again: %q", refused)
	}
	// An assertion for one sign-in is none for another.
	_, other, _ := signIn("correct horse", "")
	c, err := in.Ask(ctx, other)
	if err != nil {
		t.Fatal(err)
	}
	if _, refused := finish(pending, Proof{Assertion: key.get(c.PublicKey), ChallengeID: c.ChallengeID}); refused != "verification_failed" {
		t.Errorf("another sign-in's assertion: %q", refused)
	}
	if c, err = in.Ask(ctx, pending); err != nil {
		t.Fatal(err)
	}
	if who, refused := finish(pending, Proof{Assertion: key.get(c.PublicKey), ChallengeID: c.ChallengeID}); who.ID != p.ID || who.VerifiedBy != Passkey || refused != "" {
		t.Errorf("by passkey: %+v, %q", who, refused)
	}
	if _, refused := finish(pending, Proof{Code: sc.codeAt(secret, 1)}); refused != "sign_in_over" {
		t.Errorf("a sign-in twice: %q", refused)
	}
	for name, id := range map[string]string{"unknown": "x", "none": ""} {
		if _, refused := finish(id, Proof{Code: sc.codeAt(secret, 1)}); refused != "sign_in_over" {
			t.Errorf("%s: %q", name, refused)
		}
	}
	sc.db.Exec(`UPDATE challenges SET created_at = created_at - interval '5 minutes', expires_at = expires_at - interval '5 minutes'`)
	if _, refused := finish(other, Proof{Code: sc.codeAt(secret, 1)}); refused != "sign_in_over" {
		t.Errorf("after five minutes: %q", refused)
	}
	_, pending, _ = signIn("correct horse", "")
	if _, err := sc.owner.Factors.Reset(ctx, p.Email, storetest.Event()); err != nil {
		t.Fatal(err)
	}
	if _, refused := finish(pending, Proof{Code: sc.codeAt(secret, 1)}); refused != "sign_in_over" {
		t.Errorf("after a reset: %q", refused)
	}
	if who, _, refused := signIn("correct horse", ""); who.VerifiedBy != Password || refused != "" {
		t.Errorf("by password after a reset: %+v, %q", who, refused)
	}
}
