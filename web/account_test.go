package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"

	"holdpoint/engine"
	"holdpoint/internal/identity"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// kept is a store as the console's sessions.
type kept struct{ s *store.Store }

func (k kept) Load(ctx context.Context, idHash []byte) (engine.Person, error) {
	p, err := k.s.Sessions.Person(ctx, idHash)
	if errors.Is(err, store.ErrNotFound) {
		return p, ErrNoSession
	}
	return p, err
}

func (k kept) Save(ctx context.Context, idHash []byte, p engine.Person, lasting time.Duration) error {
	err := k.s.Sessions.Create(ctx, idHash, p, lasting)
	if errors.Is(err, store.ErrNotFound) {
		return ErrNoSession
	}
	return err
}

func (k kept) Verified(ctx context.Context, idHash []byte, personID, verifiedBy string) error {
	err := k.s.Sessions.Verify(ctx, idHash, personID, verifiedBy)
	if errors.Is(err, store.ErrNotFound) {
		return ErrNoSession
	}
	return err
}

func (k kept) Delete(ctx context.Context, idHash []byte) error {
	return k.s.Sessions.Delete(ctx, idHash)
}

// testServer is a console whose people and sessions are in a real database.
type testServer struct {
	*client
	store   *store.Store
	factors *identity.Factors
}

const horse = "correct horse"

func startTestServer(t *testing.T, edits ...func(*Config)) *testServer {
	t.Helper()
	s := storetest.New(t).Owner()
	f, err := identity.NewFactors(s, "https://console.example.com")
	if err != nil {
		t.Fatal(err)
	}
	in := identity.NewSignIn(f)
	return &testServer{store: s, factors: f, client: start(t, func(c *Config) {
		c.SignIn, c.SecondStep, c.Factors, c.Sessions = in, in, f, kept{s}
		for _, edit := range edits {
			edit(c)
		}
	})}
}

// person adds somebody, with an authenticator app if app is.
func (h *testServer) person(name string, app bool) (email, secret string) {
	h.t.Helper()
	hash, err := identity.HashPassword(horse)
	if err != nil {
		h.t.Fatal(err)
	}
	p := engine.Person{ID: store.NewID("usr"), Email: name + "@example.com", Name: name, Roles: []string{"reviewer"}}
	p.Identity = p.ID
	if err := h.store.People.Create(h.t.Context(), p, hash, storetest.Event()); err != nil {
		h.t.Fatal(err)
	}
	if app {
		secret = identity.NewTOTPSecret()
		if err := identity.RestoreTOTP(h.t.Context(), h.store, p.ID, secret, storetest.Event()); err != nil {
			h.t.Fatal(err)
		}
	}
	return p.Email, secret
}

func (h *testServer) code(secret string, steps int64) string {
	h.t.Helper()
	now, err := h.store.Now(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	code, err := hotp.GenerateCodeCustom(secret, uint64(now.Unix()/30+steps), hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
	if err != nil {
		h.t.Fatal(err)
	}
	return code
}

func (h *testServer) post(path string, pairs ...string) answer {
	h.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return h.do(http.MethodPost, path, form)
}

// to fails the test unless the answer leads there.
func (a answer) to(t *testing.T, where string) {
	t.Helper()
	a.want(t, http.StatusSeeOther)
	if got := a.Header.Get("Location"); got != where {
		t.Fatalf("led to %q, want %q", got, where)
	}
}

// inline finds what the content policy would keep from working.
var inline = regexp.MustCompile(`(?i)<script>|\sstyle=|\son[a-z]+=|javascript:|<img[^>]+data:`)

// late is kept, of which a session starts after something else has happened.
type late struct {
	kept
	before func()
}

func (l late) Save(ctx context.Context, idHash []byte, p engine.Person, lasting time.Duration) error {
	l.before()
	return l.kept.Save(ctx, idHash, p, lasting)
}

// A password that is another one by the time that the session starts is a wrong one.
func TestSignInWithFormerPassword(t *testing.T) {
	reset := func() {}
	h := startTestServer(t, func(c *Config) { c.Sessions = late{c.Sessions.(kept), func() { reset() }} })
	email, _ := h.person("ada", false)
	reset = func() {
		p, _, err := h.store.People.ByEmail(h.t.Context(), email)
		if err == nil {
			_, err = h.store.People.Change(h.t.Context(), p.ID, "", "admin", nil, func(store.LockedAccount) (store.AccountEdit, engine.Event, error) {
				return store.AccountEdit{PasswordHash: store.NoPassword, SignOut: true}, storetest.Event(), nil
			})
		}
		if err != nil {
			h.t.Error(err)
		}
	}
	h.post("/login", "email", email, "password", horse).want(t, http.StatusUnauthorized, notTogether)
	h.get("/").to(t, "/login")
}

func TestSecondStep(t *testing.T) {
	h := startTestServer(t)
	fay, secret := h.person("fay", true)
	ada, _ := h.person("ada", false)
	h.post("/login", "email", ada, "password", horse).to(t, "/")
	h.do("POST", "/logout", url.Values{}).to(t, "/login")

	wrong := h.post("/login", "email", fay, "password", "wrong horse", "code", "000000")
	code := h.post("/login", "email", fay, "password", horse, "code", "00000x")
	wrong.want(t, http.StatusUnauthorized)
	if code.StatusCode != wrong.StatusCode || code.body != wrong.body {
		t.Error("a wrong password and a wrong code look different")
	}
	h.post("/login", "email", fay, "password", horse, "code", h.code(secret, 0), "next", "/history").to(t, "/history")
	h.get("/account").want(t, http.StatusOK, "a code,", "asks an administrator to remove them")
	h.do("POST", "/logout", url.Values{}).to(t, "/login")

	h.get("/login/verify").to(t, "/login")
	h.post("/login/verify", "code", "123456").to(t, "/login")
	step := h.post("/login", "email", fay, "password", horse, "next", "/history?x=1")
	step.to(t, "/login/verify?next=%2Fhistory%3Fx%3D1")
	for _, k := range step.Cookies() {
		if k.Name == cookieName || k.Name == pendingName && (!k.HttpOnly || k.MaxAge != 300 || k.SameSite != http.SameSiteLaxMode) {
			t.Errorf("after the password alone: %s", k.Raw)
		}
	}
	h.get("/").to(t, "/login") // not signed in yet
	page := h.get("/login/verify?next=/history")
	page.want(t, http.StatusOK, `name="code"`, `autocomplete="one-time-code"`, `name="next" value="/history"`)
	if strings.Contains(page.body, "data-passkey=") || strings.Contains(page.body, `name="password"`) || strings.Contains(page.body, "fay") || inline.MatchString(page.body) {
		t.Errorf("the second step offers or tells too much:\n%s", page.body)
	}
	h.post("/login/verify", "code", "00000x").want(t, http.StatusForbidden, "did not prove", "One more step")
	h.post("/login/verify", "password", horse).want(t, http.StatusForbidden)
	h.post("/login/assertion").want(t, http.StatusUnprocessableEntity, "no_passkey")
	if next := h.get("/login/verify?next=//evil.example").body; strings.Contains(next, "evil") {
		t.Error("the page leads to another host")
	}
	planted := strings.Repeat("A", 43)
	u, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	h.Jar.SetCookies(u, []*http.Cookie{{Name: cookieName, Value: planted, Path: "/"}})
	h.post("/login/verify", "code", h.code(secret, 1), "next", "//evil.example").to(t, "/")
	for _, k := range h.Jar.Cookies(u) {
		if k.Name == pendingName || k.Name == cookieName && (k.Value == planted || len(k.Value) != 43) {
			t.Errorf("after signing in: %s", k)
		}
	}
	h.get("/account").want(t, http.StatusOK, "a code,")
}

func TestVerify(t *testing.T) {
	h := startTestServer(t)
	h.get("/verify?next=/approvals/apr_1").to(t, "/login?next=%2Fapprovals%2Fapr_1")
	ada, _ := h.person("ada", false)
	h.post("/login", "email", ada, "password", horse).to(t, "/")
	page := h.get("/verify?next=/approvals/apr_1")
	page.want(t, http.StatusOK, `name="password"`, `value="/approvals/apr_1"`)
	if inline.MatchString(page.body) {
		t.Errorf("the content policy is in the way of:\n%s", page.body)
	}
	for _, evil := range []string{"//evil.example", "https://evil.example", `/\evil.example`, "/logout", "/verify?next=/"} {
		if got := h.get("/verify?next=" + url.QueryEscape(evil)); !strings.Contains(got.body, `name="next" value="/"`) {
			t.Errorf("next=%s is taken", evil)
		}
		h.post("/verify", "password", horse, "next", evil).to(t, "/")
	}
	h.post("/verify", "password", "wrong horse").want(t, http.StatusForbidden, "did not prove", `name="password"`)
	before, _, err := h.c.Signed(h.signedRequest(t))
	if err != nil {
		t.Fatal(err)
	}
	h.post("/verify", "password", horse, "next", "/approvals/apr_1").to(t, "/approvals/apr_1")
	after, _, err := h.c.Signed(h.signedRequest(t))
	if err != nil || !after.VerifiedAt.After(before.VerifiedAt) || after.VerifiedBy != identity.Password || len(after.Factors) != 0 {
		t.Errorf("verified %s by %q, then %s by %q (%v)", before.VerifiedAt, before.VerifiedBy, after.VerifiedAt, after.VerifiedBy, err)
	}
	for range 4 {
		h.post("/verify", "password", "wrong horse").want(t, http.StatusForbidden)
	}
	many := h.post("/verify", "password", horse)
	many.want(t, http.StatusTooManyRequests)
	if many.Header.Get("Retry-After") == "" {
		t.Error("nothing says how long to wait")
	}
}

// signedRequest is a request with the client's session.
func (h *testServer) signedRequest(t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: cookieName, Value: h.cookie()})
	return r
}

func TestAccount(t *testing.T) {
	h := startTestServer(t)
	ada, _ := h.person("ada", false)
	h.get("/account").to(t, "/login?next=%2Faccount")
	h.post("/login", "email", ada, "password", horse).to(t, "/")
	h.get("/").want(t, http.StatusOK, `href="/account"`)
	h.get("/account").want(t, http.StatusOK, "ada@example.com", "<code", "reviewer", "password, ", "data-passkey=\"create\"", "Set up an authenticator app")

	enrol := h.post("/account/totp")
	enrol.want(t, http.StatusOK, "<svg", "viewBox")
	if inline.MatchString(enrol.body) {
		t.Errorf("the content policy is in the way of:\n%s", enrol.body)
	}
	shown := regexp.MustCompile(`data-testid="totp-secret">([A-Z2-7 ]+)<`).FindStringSubmatch(enrol.body)
	if shown == nil {
		t.Fatalf("no secret:\n%s", enrol.body)
	}
	secret := strings.ReplaceAll(shown[1], " ", "")
	again := h.post("/account/totp/confirm", "code", "00000x")
	again.want(t, http.StatusForbidden, "not the code")
	if strings.Contains(again.body, secret) || strings.Contains(again.body, "<svg") {
		t.Error("the secret is shown twice")
	}
	h.post("/account/totp/confirm", "code", h.code(secret, 0)).to(t, "/account")
	h.get("/account").want(t, http.StatusOK, "authenticator app was added", "Remove the authenticator app")

	// The password counts no longer.
	h.post("/account/totp/remove").want(t, http.StatusUnprocessableEntity, "confirmation is missing")
	h.post("/account/totp/remove", "confirm", "yes").to(t, "/verify?next=/account")
	h.post("/account/passkeys/options").want(t, http.StatusForbidden, "verification_needed")
	page := h.get("/verify?next=/account")
	page.want(t, http.StatusOK, `name="code"`)
	if strings.Contains(page.body, `name="password"`) {
		t.Error("a password is asked for where there is a second factor")
	}
	h.post("/verify", "password", horse, "next", "/account").want(t, http.StatusForbidden)
	h.post("/verify", "code", h.code(secret, 1), "next", "/account").to(t, "/account")

	var ceremony struct {
		ChallengeID string `json:"challenge_id"`
		PublicKey   struct {
			RP                     struct{ ID string }
			AuthenticatorSelection struct{ UserVerification, ResidentKey string }
			Attestation            string
			User                   struct{ ID string }
		} `json:"publicKey"`
	}
	options := h.post("/account/passkeys/options")
	options.want(t, http.StatusOK)
	if err := json.Unmarshal([]byte(options.body), &ceremony); err != nil {
		t.Fatal(err)
	}
	if o := ceremony.PublicKey; len(ceremony.ChallengeID) != 43 || o.RP.ID != "console.example.com" || o.AuthenticatorSelection.UserVerification != "required" ||
		o.AuthenticatorSelection.ResidentKey != "preferred" || o.User.ID == "" {
		t.Errorf("options %s", options.body)
	}
	h.post("/account/passkeys", "name", "laptop", "challenge", ceremony.ChallengeID, "assertion", "{}").want(t, http.StatusForbidden, "could not be checked")
	h.post("/account/passkeys/remove", "id", "AAAA", "confirm", "yes").want(t, http.StatusNotFound)
	h.post("/account/passkeys/rename", "id", "!", "name", "x").want(t, http.StatusNotFound)

	h.post("/account/assertion", "purpose", "approval", "bound_to", "x").want(t, http.StatusUnprocessableEntity, "no_passkey")
	for _, purpose := range []string{"", "sign_in", "new_passkey", "pending_sign_in", "anything"} {
		h.post("/account/assertion", "purpose", purpose).want(t, http.StatusUnprocessableEntity, "invalid_purpose")
	}
	h.post("/account/totp/remove", "confirm", "yes").to(t, "/account")
	h.get("/account").want(t, http.StatusOK, "authenticator app was removed", "Set up an authenticator app")
}

func TestPasskeysElsewhere(t *testing.T) {
	f, err := identity.NewFactors(nil, "http://127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"127.0.0.1:8080": "http://localhost:8080/verify?next=/x", "[::1]:8080": "http://localhost:8080/verify?next=/x", "localhost:8080": "", "holdpoint.example.com": "",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/verify?next=/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		if got := passkeysElsewhere(f, r); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}
