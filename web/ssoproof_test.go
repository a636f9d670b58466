package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"

	"holdpoint/engine"
	"holdpoint/internal/identity"
	"holdpoint/internal/sso"
	"holdpoint/internal/ssotest"
	"holdpoint/internal/store/storetest"
)

// TestSSOProof: somebody without a second factor proves at the provider, anew, who they
// are; nobody else does it for them, and no proof of an hour ago.
func TestSSOProof(t *testing.T) {
	h := startSSO(t, nil, nil)
	h.provider.Person("u-1", "ada@example.com", nil)
	h.enter()
	page := h.get("/verify?next=/history")
	if !strings.Contains(page.body, `href="/verify/sso?next=%2Fhistory"`) || strings.Contains(page.body, `name="password"`) {
		t.Errorf("the page does not lead to the provider:\n%s", page.body)
	}
	fresh := func() bool { return time.Since(h.session().VerifiedAt) < identity.FreshFor }
	if fresh() {
		t.Fatal("fresh by the sign-in")
	}
	if a := h.do(http.MethodPost, "/verify", url.Values{"password": {""}, "next": {"/history"}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("an empty form: %s", a.Status)
	}
	begun := h.get("/verify/sso?next=/history")
	if to := begun.Header.Get("Location"); !strings.Contains(to, "max_age=0") || !strings.Contains(to, "prompt=login") {
		t.Errorf("it leads to %s", to)
	}
	if a := h.get(h.to(begun)); a.Header.Get("Location") != "/history" || !fresh() {
		t.Errorf("proved: %s to %s, fresh %t", a.Status, a.Header.Get("Location"), fresh())
	}
	if codes, _ := h.told(t); codes[len(codes)-1] != "VERIFIED" {
		t.Errorf("the log has %v", codes)
	}

	h.db.Exec(`UPDATE sessions SET verified_at = verified_at - interval '1 hour'`)
	for what, c := range map[string]struct {
		wrong func(*ssotest.Provider)
		says  string
	}{
		"somebody else": {func(p *ssotest.Provider) { p.Claims["sub"], p.Claims["email"] = "u-2", "ben@example.com" }, "somebody else at the provider"},
		"a proof of an hour ago": {func(p *ssotest.Provider) {
			p.Lie = func(c map[string]any) { c["auth_time"] = time.Now().Add(-time.Hour).Unix() }
		}, "could not be verified"},
		"no word on when":          {func(p *ssotest.Provider) { p.Lie = func(c map[string]any) { delete(c, "auth_time") } }, "could not be verified"},
		"a time that is no number": {func(p *ssotest.Provider) { p.Lie = func(c map[string]any) { c["auth_time"] = "now" } }, "could not be verified"},
	} {
		h.provider.Person("u-1", "ada@example.com", nil)
		h.provider.Set(c.wrong)
		a := h.get(h.to(h.get("/verify/sso?next=/history")))
		if a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, c.says) || fresh() || h.session().Email != "ada@example.com" {
			t.Errorf("%s: %s, fresh %t as %s\n%s", what, a.Status, fresh(), h.session().Email, a.body)
		}
	}
	// Begun by one, and finished in the session of another.
	h.provider.Person("u-1", "ada@example.com", nil)
	back := h.to(h.get("/verify/sso"))
	h.signOut()
	if a := h.get(back); a.StatusCode != http.StatusForbidden || h.session().ID != "" {
		t.Errorf("without the session: %s", a.Status)
	}
}

func (c *client) cookieNamed(name string) string {
	u, _ := url.Parse(c.url)
	for _, k := range c.Jar.Cookies(u) {
		if k.Name == name {
			return k.Value
		}
	}
	return ""
}

// appOf enrols an authenticator app of the person, and returns what it shows next.
func (h *ssoServer) appOf(p engine.Person) func() string {
	h.t.Helper()
	secret := identity.NewTOTPSecret()
	if err := identity.RestoreTOTP(h.t.Context(), h.db.Owner(), p.ID, secret, storetest.Event()); err != nil {
		h.t.Fatal(err)
	}
	return func() string {
		code, err := hotp.GenerateCodeCustom(secret, uint64(h.store.Clock().Unix()/30), hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
		if err != nil {
			h.t.Fatal(err)
		}
		return code
	}
}

// TestSSOSecondFactor: somebody with a second factor here gives it after the provider, but
// for one whose word on it is trusted.
func TestSSOSecondFactor(t *testing.T) {
	db := storetest.New(t)
	for name, c := range map[string]struct {
		settings func(*sso.Config)
		claims   map[string]any
		asked    bool
	}{
		"said nothing of":        {func(c *sso.Config) { c.TrustMFA = true }, nil, true},
		"not trusted":            {nil, map[string]any{"amr": []string{"pwd", "mfa"}}, true},
		"trusted":                {func(c *sso.Config) { c.TrustMFA = true }, map[string]any{"amr": []string{"pwd", "mfa"}}, false},
		"one factor":             {func(c *sso.Config) { c.TrustMFA = true }, map[string]any{"amr": []string{"pwd"}, "acr": "1"}, true},
		"by its class":           {func(c *sso.Config) { c.TrustMFA, c.MFAACR = true, []string{"gold"} }, map[string]any{"acr": "gold"}, false},
		"by a class of no worth": {func(c *sso.Config) { c.TrustMFA, c.MFAACR = true, []string{"gold"} }, map[string]any{"acr": "silver"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			db.Exec(`UPDATE people SET email = id || '@gone.example'`)
			h := startSSOOn(t, db, c.settings, nil)
			h.provider.Person("u-1", "ada@example.com", nil)
			h.enter()
			code := h.appOf(h.session())
			h.signOut()
			h.provider.Person("u-1", "ada@example.com", c.claims)
			a := h.enter()
			if asked := strings.HasPrefix(a.Header.Get("Location"), "/login/verify"); asked != c.asked || asked == (h.session().ID != "") {
				t.Fatalf("asked %t: %s to %s", asked, a.Status, a.Header.Get("Location"))
			}
			if !c.asked {
				if p := h.session(); !p.ProviderMFA {
					t.Errorf("in as %+v", p)
				}
				return
			}
			if page := h.get(a.Header.Get("Location")); !strings.Contains(page.body, "Your single sign-on is right") {
				t.Errorf("the page says\n%s", page.body)
			}
			if a := h.do(http.MethodPost, "/login/verify", url.Values{"code": {code()}, "next": {"/account"}}); a.Header.Get("Location") != "/account" {
				t.Errorf("with the code: %s", a.Status)
			}
			p := h.session()
			if p.VerifiedBy != identity.TOTP || p.Provider != "corp" {
				t.Errorf("in as %+v", p)
			}
			if _, last := h.told(t); last.Reasons[0].Message != "Signed in with single sign-on at corp and a code of an authenticator app." {
				t.Errorf("the log says %q", last.Reasons[0].Message)
			}
		})
	}
}

// TestSSOOnly: passwords sign in administrators alone.
func TestSSOOnly(t *testing.T) {
	h := startSSO(t, nil, func(c *Config, in *identity.SignIn) { in.RequireSSO(); c.SSOOnly = true })
	for name, roles := range map[string][]string{"ada": {"admin"}, "ben": {"reviewer"}} {
		hash, err := identity.HashPassword(horse)
		if err != nil {
			t.Fatal(err)
		}
		p := h.db.Person(engine.Person{Name: name, Roles: roles})
		h.db.Exec(`UPDATE people SET password_hash = $2 WHERE id = $1`, p.ID, hash)
	}
	page := h.get("/login").body
	if !strings.Contains(page, `<details data-testid="by-password">`) {
		t.Errorf("the form for a password is not folded away:\n%s", page)
	}
	wrong := h.do(http.MethodPost, "/login", url.Values{"email": {"nobody@example.com"}, "password": {horse}})
	if a := h.do(http.MethodPost, "/login", url.Values{"email": {"ben@example.com"}, "password": {horse}}); a.StatusCode != http.StatusUnauthorized || a.alert() != wrong.alert() {
		t.Errorf("a reviewer: %s %q, and somebody unknown %q", a.Status, a.alert(), wrong.alert())
	}
	if a := h.do(http.MethodPost, "/login", url.Values{"email": {"ada@example.com"}, "password": {horse}}); a.StatusCode != http.StatusSeeOther || h.session().Email != "ada@example.com" {
		t.Errorf("an administrator: %s", a.Status)
	}
}

// TestSSOSignOut: who signs out here goes on to the provider, where the settings say so.
func TestSSOSignOut(t *testing.T) {
	for on, want := range map[bool]string{true: "/login/sso/corp/sign-out", false: "/login"} {
		h := startSSO(t, func(c *sso.Config) { c.SignOut = on }, nil)
		h.provider.Person("u-1", "ada@example.com", nil)
		h.enter()
		a := h.do(http.MethodPost, "/logout", url.Values{})
		if a.Header.Get("Location") != want || h.session().ID != "" {
			t.Errorf("sign_out %t: %s", on, a.Header.Get("Location"))
		}
		page := h.get("/login/sso/corp/sign-out")
		end := h.provider.URL + "/end?client_id=holdpoint&post_logout_redirect_uri=" + url.QueryEscape("http://console.test/login")
		if got := page.Header.Get("Refresh"); on && got != "0; url="+end || !on && got != "" {
			t.Errorf("sign_out %t: the page goes on to %q", on, got)
		}
		if a := h.get("/login/sso/corp/sign-out", "Sec-Fetch-Site", "cross-site"); a.Header.Get("Refresh") != "" {
			t.Error("another site signs somebody out at the provider")
		}
	}
}

// TestSecondFactorRoles: somebody whose role needs a second factor, and who has none, can
// add one and sign out, and nothing else.
func TestSecondFactorRoles(t *testing.T) {
	h := startSSO(t, func(c *sso.Config) { c.TrustMFA = true }, func(c *Config, _ *identity.SignIn) { c.SecondFactorRoles = []string{"admin", "reviewer"} })
	h.provider.Person("u-1", "ada@example.com", map[string]any{"groups": []string{"deciders"}})
	h.enter()
	for _, path := range []string{"/", "/history", "/policies", "/approvals/apr_1"} {
		if a := h.get(path, "Accept", "text/html"); a.Header.Get("Location") != "/account" {
			t.Errorf("%s: %s to %s", path, a.Status, a.Header.Get("Location"))
		}
	}
	if a := h.get("/live"); a.StatusCode != http.StatusForbidden {
		t.Errorf("/live: %s", a.Status)
	}
	if a := h.do(http.MethodPost, "/approvals/apr_1/votes", url.Values{"decision": {"approve"}}); a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, "needs a second factor") {
		t.Errorf("a vote: %s\n%s", a.Status, a.body)
	}
	r, _ := http.NewRequest(http.MethodGet, h.url, nil)
	r.Header.Set("Cookie", "holdpoint="+h.cookieNamed("holdpoint"))
	if _, ok, err := h.c.Signed(r); err == nil {
		t.Errorf("the API takes the session: %t", ok)
	}
	page := h.get("/account")
	if !strings.Contains(page.body, "factor-needed") || strings.Contains(page.body, `aria-label="Main"`) || !strings.Contains(page.body, `action="/logout"`) {
		t.Errorf("the page of the account:\n%s", page.body)
	}
	// A factor takes a fresh proof, and then everything is open.
	h.get(h.to(h.get("/verify/sso?next=/account")))
	h.appOf(h.session())
	if a := h.get("/", "Accept", "text/html"); a.StatusCode != http.StatusOK {
		t.Errorf("with a factor: %s to %s", a.Status, a.Header.Get("Location"))
	}
	h.signOut()
	h.provider.Person("u-2", "ben@example.com", map[string]any{"groups": []string{"deciders"}, "amr": []string{"mfa"}})
	h.enter()
	if a := h.get("/", "Accept", "text/html"); a.StatusCode != http.StatusOK {
		t.Errorf("with the factors of a provider that is trusted: %s", a.Status)
	}
	h.signOut()
	h.provider.Person("u-3", "cem@example.com", nil)
	h.enter()
	if a := h.get("/", "Accept", "text/html"); a.StatusCode != http.StatusOK {
		t.Errorf("without such a role: %s", a.Status)
	}
}
