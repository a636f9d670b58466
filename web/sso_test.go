package web

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
	"holdpoint/internal/sso"
	"holdpoint/internal/ssotest"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

// ssoServer is a console whose people sign in at a provider, too.
type ssoServer struct {
	*client
	db       *storetest.Database
	store    *store.Store
	provider *ssotest.Provider
	settings sso.Config
	later    atomic.Int64 // by how much the clock is ahead
}

// startSSO starts a console at the address of its own listener: providers send people
// back there. edit may change the settings of the provider "corp", and more the console.
func startSSO(t *testing.T, edit func(*sso.Config), more func(*Config, *identity.SignIn)) *ssoServer {
	t.Helper()
	return startSSOOn(t, storetest.New(t), edit, more)
}

// startSSOOn is startSSO on a database that may have people already.
func startSSOOn(t *testing.T, db *storetest.Database, edit func(*sso.Config), more func(*Config, *identity.SignIn)) *ssoServer {
	t.Helper()
	s := db.Administering()
	f, err := identity.NewFactors(s, "https://console.example.com")
	if err != nil {
		t.Fatal(err)
	}
	p := ssotest.New(t)
	h := &ssoServer{db: db, store: s, provider: p, settings: sso.Config{
		Name: "corp", Label: "Corp ID", Issuer: p.URL, ClientID: p.ClientID, ClientSecret: p.ClientSecret, EmailDomains: []string{"example.com"}, Create: true,
		Roles: map[string][]string{"deciders": {"reviewer"}, "bosses": {"admin", "lead"}},
	}}
	if edit != nil {
		edit(&h.settings)
	}
	in := identity.NewSignIn(f)
	t.Cleanup(in.Flush)
	people := admin.New(admin.Config{Store: s, PublicURL: "https://console.example.com"}).People
	h.client = start(t, func(c *Config) {
		c.SignIn, c.SecondStep, c.Factors, c.Sessions = in, in, f, kept{s}
		c.SSO = h.door(t, in, people)
		if more != nil {
			more(c, in)
		}
	})
	return h
}

// door is the sign-in by the provider and by a second one with the same client.
func (h *ssoServer) door(t *testing.T, in *identity.SignIn, people admin.People) SSO {
	t.Helper()
	for _, err := range h.settings.Check() {
		t.Fatal(err)
	}
	other := h.settings
	other.Name, other.Label = "other", ""
	// People come back to the address of the test's listener, whatever that is.
	providers, err := sso.New([]sso.Config{h.settings, other}, "http://console.test", h.db.Sealer, func() time.Time { return h.store.Clock().Add(time.Duration(h.later.Load())) }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return identity.NewSSO(in, providers, people)
}

// to follows a redirect to the provider, and returns where that sends the browser back to.
func (h *ssoServer) to(a answer) string {
	h.t.Helper()
	if a.StatusCode != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), h.provider.URL) {
		h.t.Fatalf("%s to %q\n%s", a.Status, a.Header.Get("Location"), a.body)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Get(a.Header.Get("Location"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	back, ok := strings.CutPrefix(res.Header.Get("Location"), "http://console.test")
	if !ok {
		h.t.Fatalf("the provider answers %s\n%s", res.Status, body)
	}
	return back
}

// enter signs in at the provider, and returns what the console makes of it.
func (h *ssoServer) enter() answer {
	h.t.Helper()
	return h.get(h.to(h.get("/login/sso/corp?next=/account")))
}

// session is the person of the browser's session.
func (h *ssoServer) session() engine.Person {
	h.t.Helper()
	r, err := http.NewRequest(http.MethodGet, h.url, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	u, _ := url.Parse(h.url)
	if h.Jar == nil {
		return engine.Person{}
	}
	for _, k := range h.Jar.Cookies(u) {
		r.AddCookie(k)
	}
	p, _, err := h.c.site.person(r)
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// told are the codes of the newest events about a person, or of nobody, the last first.
func (h *ssoServer) told(t *testing.T) (codes []string, last engine.Event) {
	t.Helper()
	events, err := h.db.Owner().Events.List(t.Context(), store.EventFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if len(e.Reasons) > 0 && (e.Type == engine.SignIn || e.Type == engine.Admin) {
			codes, last = append(codes, e.Reasons[0].Code), e
		}
	}
	return codes, last
}

func (a answer) alert() string {
	_, rest, _ := strings.Cut(a.body, `id="failure">`)
	text, _, _ := strings.Cut(rest, "<")
	return text
}

// TestSSO: somebody comes in by a provider for the first time, and gets an account and
// the roles of their groups; these come and go with the groups, and nobody comes in whose
// account is disabled.
func TestSSO(t *testing.T) {
	h := startSSO(t, nil, nil)
	page := h.get("/login?next=/account")
	if !strings.Contains(page.body, `href="/login/sso/corp?next=%2Faccount"`) || !strings.Contains(page.body, "Sign in with Corp ID") || !strings.Contains(page.body, "Sign in with other") {
		t.Errorf("the page has no buttons:\n%s", page.body)
	}
	h.provider.Person("u-1", "Ada@example.com", map[string]any{"groups": []string{"deciders", "cooks"}})
	if a := h.enter(); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/account" {
		t.Fatalf("%s to %q: %s", a.Status, a.Header.Get("Location"), a.alert())
	}
	if h.cookieNamed(knownName) == "" {
		t.Error("the browser does not keep that somebody has signed in there")
	}
	ada := h.session()
	if ada.Email != "ada@example.com" || ada.Name != "Name of u-1" || !slices.Equal(ada.Roles, []string{"reviewer"}) || ada.Provider != "corp" || ada.VerifiedBy != "sso" {
		t.Errorf("who came in is %+v", ada)
	}
	if ago := time.Since(ada.VerifiedAt); ago < 30*time.Minute {
		t.Errorf("who was let in by an old session at the provider counts as having proved who they are %s ago", ago)
	}
	codes, last := h.told(t)
	if !slices.Equal(codes, []string{"USER_ADDED", "SIGNED_IN"}) || last.Reasons[0].Message != "Signed in with single sign-on at corp." || !strings.Contains(string(last.SafePayload), `"provider":"corp"`) {
		t.Errorf("the log has %v, %+v", codes, last)
	}
	if account := h.get("/account").body; strings.Contains(account, "own-password") {
		t.Error("somebody without a password is offered to change it")
	}

	// Another role by hand, other groups at the provider: the first stays.
	if _, err := h.db.Owner().People.Change(t.Context(), ada.ID, "", "admin", nil, func(store.LockedAccount) (store.AccountEdit, engine.Event, error) {
		return store.AccountEdit{SetRoles: true, Roles: []string{"gardener", "reviewer"}}, storetest.Event(), nil
	}); err != nil {
		t.Fatal(err)
	}
	h.provider.Person("u-1", "other@elsewhere.example", map[string]any{"groups": []string{"bosses"}, "email_verified": false})
	h.signOut()
	h.enter()
	if again := h.session(); again.ID != ada.ID || again.Email != ada.Email || !slices.Equal(again.Roles, []string{"admin", "gardener", "lead"}) {
		t.Errorf("with other groups: %+v", again)
	}
	codes, _ = h.told(t)
	i := slices.Index(codes, "USER_ROLES_CHANGED")
	if i < 0 {
		t.Fatalf("the log has %v", codes)
	}
	events, _ := h.db.Owner().Events.List(t.Context(), store.EventFilter{Limit: 1000})
	for _, e := range events {
		var roles struct {
			Before []string `json:"roles_before"`
			After  []string `json:"roles_after"`
		}
		if len(e.Reasons) > 0 && e.Reasons[0].Code == "USER_ROLES_CHANGED" && (json.Unmarshal(e.SafePayload, &roles) != nil || e.Actor.ID != "sso:corp" || !slices.Equal(roles.Before, []string{"gardener", "reviewer"}) || !slices.Equal(roles.After, []string{"admin", "gardener", "lead"})) {
			t.Errorf("the event is %+v", e)
		}
	}

	// The last administrator keeps the role, and with another one does not.
	h.provider.Person("u-1", "", nil)
	h.signOut()
	h.enter()
	if p := h.session(); !slices.Equal(p.Roles, []string{"admin", "gardener"}) {
		t.Errorf("the last administrator has %v", p.Roles)
	}
	if _, last := h.told(t); !strings.Contains(last.Reasons[0].Message, "Kept the role admin") {
		t.Errorf("the log says %q", last.Reasons[0].Message)
	}
	h.db.Person(engine.Person{Name: "olga", Roles: []string{"admin"}})
	h.signOut()
	h.enter()
	if p := h.session(); !slices.Equal(p.Roles, []string{"gardener"}) {
		t.Errorf("no more the last administrator, and has %v", p.Roles)
	}

	h.signOut()
	h.db.Disable(ada.ID, storetest.Event())
	if a := h.enter(); a.StatusCode != http.StatusForbidden || !strings.Contains(a.alert(), "is disabled") || h.session().ID != "" {
		t.Errorf("disabled: %s %s", a.Status, a.alert())
	}
}

func (h *ssoServer) signOut() {
	h.t.Helper()
	if a := h.do(http.MethodPost, "/logout", url.Values{}); a.StatusCode != http.StatusSeeOther {
		h.t.Fatalf("sign out: %s", a.Status)
	}
}

// TestSSOAccounts: whose account somebody gets who comes for the first time.
func TestSSOAccounts(t *testing.T) {
	db := storetest.New(t)
	for name, c := range map[string]struct {
		settings func(*sso.Config)
		email    string
		more     map[string]any
		local    string // an account that is there already
		refused  string
	}{
		"a new one":                         {nil, "new@example.com", nil, "", ""},
		"none, where none may be made":      {func(c *sso.Config) { c.Create = false }, "new@example.com", nil, "", "You have no account here"},
		"none, with only linking":           {func(c *sso.Config) { c.Create, c.LinkByEmail = false, true }, "new@example.com", nil, "", "may not make one"},
		"another domain":                    {nil, "new@example.org", nil, "", "of a domain"},
		"a domain below":                    {nil, "new@sub.example.com", nil, "", "of a domain"},
		"a domain that ends like it":        {nil, "new@evilexample.com", nil, "", "of a domain"},
		"no address":                        {nil, "", nil, "", "gives no address"},
		"an address that is none":           {nil, "new", nil, "", "not in plain letters"},
		"two addresses":                     {nil, "a@example.com,b@example.com", nil, "", "not in plain letters"},
		"a name and an address":             {nil, "A <a@example.com>", nil, "", "not in plain letters"},
		"not verified":                      {nil, "new@example.com", map[string]any{"email_verified": false}, "", "not verified"},
		"said nothing of":                   {nil, "new@example.com", map[string]any{"email_verified": nil}, "", "not verified"},
		"said nothing of, and trusted":      {func(c *sso.Config) { c.AssumeEmailVerified = true }, "new@example.com", map[string]any{"email_verified": nil}, "", ""},
		"not verified, where it is trusted": {func(c *sso.Config) { c.AssumeEmailVerified = true }, "new@example.com", map[string]any{"email_verified": "false"}, "", "not verified"},
		"verified, as a text":               {nil, "new@example.com", map[string]any{"email_verified": "true"}, "", ""},
		"verified, in other words":          {nil, "new@example.com", map[string]any{"email_verified": 1}, "", "could not be verified"},
		"taken by a local account":          {nil, "ADA@example.com", nil, "ada", "may not open it"},
		"linked to a local account":         {func(c *sso.Config) { c.LinkByEmail = true }, "ADA@example.com", nil, "ada", ""},
		"linked, unverified":                {func(c *sso.Config) { c.LinkByEmail = true }, "ada@example.com", map[string]any{"email_verified": false}, "ada", "not verified"},
		"a look-alike of it":                {func(c *sso.Config) { c.LinkByEmail = true }, "аda@example.com", nil, "ada", "not in plain letters"},
		"one that lower case makes it":      {func(c *sso.Config) { c.LinkByEmail = true }, "\u212Aim@example.com", nil, "kim", "not in plain letters"},
		"with a space that does not show":   {func(c *sso.Config) { c.LinkByEmail = true }, "ada\u200b@example.com", nil, "ada", "not in plain letters"},
	} {
		t.Run(name, func(t *testing.T) {
			db.Exec(`UPDATE people SET email = id || '@gone.example'`)
			h := startSSOOn(t, db, c.settings, nil)
			local := engine.Person{}
			if c.local != "" {
				local = h.db.Person(engine.Person{Name: c.local, Roles: []string{"lead"}})
			}
			h.provider.Person("u-9", c.email, c.more)
			a := h.enter()
			p := h.session()
			if c.refused != "" {
				if a.StatusCode != http.StatusForbidden || !strings.Contains(a.alert(), c.refused) || p.ID != "" {
					t.Errorf("%s: %q, in as %q", a.Status, a.alert(), p.Email)
				}
				return
			}
			if a.StatusCode != http.StatusSeeOther || p.ID == "" || c.local != "" && p.ID != local.ID {
				t.Errorf("%s: %q, in as %+v", a.Status, a.alert(), p)
			}
		})
	}
}

// TestSSOLinkIsOnePersons: whoever gets a colleague's address at the provider does not
// get the account that is linked already.
func TestSSOLinkIsOnePersons(t *testing.T) {
	h := startSSO(t, func(c *sso.Config) { c.LinkByEmail = true }, nil)
	ada := h.db.Person(engine.Person{Name: "ada", Roles: []string{}})
	h.provider.Person("u-1", ada.Email, nil)
	h.enter()
	if p := h.session(); p.ID != ada.ID {
		t.Fatalf("linked to %+v", p)
	}
	h.signOut()
	h.provider.Person("u-2", ada.Email, nil)
	if a := h.enter(); a.StatusCode != http.StatusForbidden || !strings.Contains(a.alert(), "belongs to somebody else at corp") {
		t.Errorf("%s: %s", a.Status, a.alert())
	}
}

// TestSSOAttacks: what a provider must not answer, and what must not come back.
func TestSSOAttacks(t *testing.T) {
	h := startSSO(t, nil, nil)
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	lie := func(name string, value any) func(*ssotest.Provider) {
		return func(p *ssotest.Provider) { p.Lie = func(c map[string]any) { c[name] = value } }
	}
	answers := func(name, value string) func(*ssotest.Provider) {
		return func(p *ssotest.Provider) { p.Answer = func(v url.Values) { v.Set(name, value) } }
	}
	now, secret := time.Now(), h.provider.ClientSecret
	for name, c := range map[string]struct {
		wrong  func(*ssotest.Provider)
		status int
		says   string
	}{
		"nothing":                       {func(*ssotest.Provider) {}, 303, ""},
		"the person says no":            {func(p *ssotest.Provider) { p.Error = "access_denied" }, 403, "did not let you in"},
		"an error with a script":        {func(p *ssotest.Provider) { p.Error = "<script>alert(1)</script>" }, 403, "did not let you in"},
		"another state":                 {answers("state", "abc"), 401, "Start again"},
		"no state":                      {answers("state", ""), 401, "Start again"},
		"no code":                       {answers("code", ""), 403, "could not be verified"},
		"a made-up code":                {answers("code", "abc"), 403, "did not let you in"},
		"another client secret":         {func(p *ssotest.Provider) { p.ClientSecret = "another" }, 503, "does not know this server"},
		"no groups":                     {lie("groups", nil), 303, ""},
		"of another issuer":             {answers("iss", "https://evil.example"), 403, "could not be verified"},
		"of no issuer, where it has to": {func(p *ssotest.Provider) { p.Answer = func(v url.Values) { v.Del("iss") } }, 403, "could not be verified"},
		"another nonce":                 {lie("nonce", "abc"), 403, "could not be verified"},
		"no nonce":                      {lie("nonce", nil), 403, "could not be verified"},
		"for another client":            {lie("aud", "payroll"), 403, "could not be verified"},
		"for several":                   {lie("aud", []string{"payroll", "holdpoint"}), 403, "could not be verified"},
		"to another party":              {lie("azp", "payroll"), 403, "could not be verified"},
		"issued by another":             {lie("iss", "https://evil.example"), 403, "could not be verified"},
		"over":                          {lie("exp", now.Add(-2*time.Minute).Unix()), 403, "could not be verified"},
		"over by the other's clock":     {lie("exp", now.Add(-20*time.Second).Unix()), 303, ""},
		"issued tomorrow":               {lie("iat", now.Add(24*time.Hour).Unix()), 403, "could not be verified"},
		"authenticated tomorrow":        {lie("auth_time", now.Add(24*time.Hour).Unix()), 403, "could not be verified"},
		"valid in two minutes":          {lie("nbf", now.Add(2*time.Minute).Unix()), 403, "could not be verified"},
		"valid from when somebody says": {lie("nbf", "soon"), 403, "could not be verified"},
		"not yet":                       {lie("nbf", now.Add(time.Hour).Unix()), 403, "could not be verified"},
		"no subject":                    {lie("sub", ""), 403, "could not be verified"},
		"a long subject":                {lie("sub", strings.Repeat("x", 256)), 403, "could not be verified"},
		"a subject with a NUL":          {lie("sub", "a\x00b"), 422, ""},
		"alg none":                      {func(p *ssotest.Provider) { p.Sign = ssotest.Unsigned }, 403, "could not be verified"},
		"HS256 with the public key":     {func(p *ssotest.Provider) { p.Sign = ssotest.SignedByPublicKey }, 403, "could not be verified"},
		"a stranger's key":              {func(p *ssotest.Provider) { p.Sign = ssotest.SignedBy(stranger) }, 403, "could not be verified"},
		"no token at all":               {func(p *ssotest.Provider) { p.Sign = func(*ssotest.Provider, []byte) string { return "" } }, 403, "could not be verified"},
		"groups that are a text":        {lie("groups", "bosses"), 403, "could not be verified"},
		"groups that are numbers":       {lie("groups", []int{1}), 403, "could not be verified"},
		"groups left out as too many":   {lie("_claim_names", map[string]string{"groups": "src1"}), 403, "could not be verified"},
		"10,000 groups":                 {lie("groups", tenThousand()), 303, ""},
		"a megabyte of them":            {lie("groups", []string{strings.Repeat("x", 1<<20)}), 503, "cannot be reached"},
		"the provider goes away":        {func(p *ssotest.Provider) { p.Answer = func(url.Values) { p.Away = true } }, 503, "cannot be reached"},
		"user information of another":   {func(p *ssotest.Provider) { delete(p.Claims, "email"); p.UserInfo = map[string]any{"sub": "u-2"} }, 403, "could not be verified"},
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			h.provider.Person("u-1", "ada@example.com", nil)
			h.provider.Set(c.wrong)
			back := h.to(h.get("/login/sso/corp?next=/account"))
			a := h.get(back)
			if a.StatusCode != c.status || !strings.Contains(a.alert(), c.says) {
				t.Errorf("%s, %q; want %d and %q", a.Status, a.alert(), c.status, c.says)
			}
			if strings.Contains(a.body, "<script>alert") || strings.Contains(a.body, "&lt;script") {
				t.Error("the page has what the provider wrote")
			}
			if in := h.session().ID != ""; in != (c.status == 303) {
				t.Errorf("signed in: %t", in)
			}
			h.provider.Set(func(p *ssotest.Provider) { p.Away, p.ClientSecret = false, secret })
			h.signOut()
		})
	}
}

func tenThousand() []string {
	groups := make([]string, 10_000)
	for i := range groups {
		groups[i] = fmt.Sprint("group ", i)
	}
	return groups
}

// TestSSOFlowIsOneBrowsers: an answer counts once, in the browser that has begun, at the
// provider that it began with, and within ten minutes.
func TestSSOFlowIsOneBrowsers(t *testing.T) {
	h := startSSO(t, nil, nil)
	h.provider.Person("u-1", "ada@example.com", nil)
	over := func(what string, a answer) {
		t.Helper()
		if a.StatusCode != http.StatusUnauthorized || !strings.Contains(a.alert(), "Start again") || h.session().ID != "" {
			t.Errorf("%s: %s, %q", what, a.Status, a.alert())
		}
	}
	over("nothing was begun", h.get("/login/sso/corp/callback?code=x&state=y"))
	begun := h.get("/login/sso/corp")
	cookie := begun.Header.Get("Set-Cookie")
	for _, want := range []string{"holdpoint_sso=", "HttpOnly", "SameSite=Lax", "Max-Age=600"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie has no %s: %s", want, cookie)
		}
	}
	back := h.to(begun)
	over("at another provider’s address", h.get(strings.Replace(back, "/corp/", "/other/", 1)))
	flow, _, _ := strings.Cut(cookie, ";")
	jar := h.Jar
	h.Jar = nil
	over("in another browser", h.get(back))
	over("with a cookie that was changed", h.get(back, "Cookie", flow[:len(flow)-2]+"AA"))
	h.Jar = jar
	if a := h.get(back); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%s: %s", a.Status, a.alert())
	}
	h.signOut()
	before := h.provider.Exchanges
	over("again, with the cookie of then", h.get(back, "Cookie", flow))
	if h.provider.Exchanges != before {
		t.Error("the code of an answer that came twice was shown to the provider again")
	}
	back = h.to(h.get("/login/sso/corp"))
	h.later.Store(int64(sso.Lasts + time.Second))
	over("after ten minutes", h.get(back))
}

// TestSSOBegins: by a click here, and not by another site's; a provider that is away does
// not keep anybody from the password.
func TestSSOBegins(t *testing.T) {
	h := startSSO(t, nil, nil)
	if a := h.get("/login/sso/corp?next=/history", "Sec-Fetch-Site", "cross-site"); a.Header.Get("Location") != "/login?next=%2Fhistory" {
		t.Errorf("from another site: %s to %s", a.Status, a.Header.Get("Location"))
	}
	if a := h.get("/login/sso/nobody"); a.StatusCode != http.StatusNotFound {
		t.Errorf("a provider that is not there: %s", a.Status)
	}
	for next, want := range map[string]string{"https://evil.example/": "/", "//evil.example": "/", "/history": "/history", "/login": "/"} {
		h.provider.Person("u-1", "ada@example.com", nil)
		if a := h.get(h.to(h.get("/login/sso/corp?next=" + url.QueryEscape(next)))); a.Header.Get("Location") != want {
			t.Errorf("%s leads to %s", next, a.Header.Get("Location"))
		}
		h.signOut()
	}
	away := startSSO(t, nil, nil)
	away.provider.Set(func(p *ssotest.Provider) { p.Away = true })
	if a := away.get("/login/sso/corp"); a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.alert(), "cannot be reached") || a.Header.Get("Retry-After") == "" || !strings.Contains(a.body, `name="password"`) {
		t.Errorf("away: %s, %q", a.Status, a.alert())
	}
	wrong := startSSO(t, nil, nil)
	wrong.provider.Set(func(p *ssotest.Provider) { p.Discovery = map[string]any{"issuer": "https://evil.example"} })
	if a := wrong.get("/login/sso/corp"); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("another issuer: %s", a.Status)
	}
}

// TestSSOUserInformation: what the ID token does not have is in the user information.
func TestSSOUserInformation(t *testing.T) {
	h := startSSO(t, nil, nil)
	h.provider.Person("u-1", "", nil)
	h.provider.Set(func(p *ssotest.Provider) {
		p.Claims = map[string]any{"sub": "u-1"}
		p.UserInfo = map[string]any{"email": "ada@example.com", "email_verified": true, "name": "Ada", "groups": []string{"deciders"}}
	})
	h.enter()
	if p := h.session(); p.Email != "ada@example.com" || p.Name != "Ada" || !slices.Equal(p.Roles, []string{"reviewer"}) {
		t.Errorf("who came in is %+v", p)
	}
	h.signOut()
	// The address of the token, and the word of the other document: not of one source.
	h.provider.Set(func(p *ssotest.Provider) {
		p.Claims = map[string]any{"sub": "u-2", "email": "boss@example.com"}
		p.UserInfo = map[string]any{"email": "eve@example.com", "email_verified": true, "groups": []string{}}
	})
	if a := h.enter(); a.StatusCode != http.StatusForbidden || !strings.Contains(a.alert(), "not verified") {
		t.Errorf("%s: %s", a.Status, a.alert())
	}
}

// TestSSOStrangers: whoever has not begun to sign in writes nothing of their own into the
// log, and keeps nobody else from signing in.
func TestSSOStrangers(t *testing.T) {
	h := startSSO(t, nil, nil)
	h.provider.Person("u-1", "ada@example.com", map[string]any{"groups": []string{"deciders"}})
	for i := range 60 {
		h.get(fmt.Sprintf("/login/sso/lemon%d/callback?state=x&code=y", i)).want(t, http.StatusNotFound)
		h.get("/login/sso/corp/callback?state=x&code=y").want(t, http.StatusUnauthorized)
	}
	var words int
	if err := h.db.Connect(h.db.URL).QueryRow(t.Context(), `SELECT count(*) FROM events WHERE position('lemon' IN convert_from(body, 'UTF8')) > 0`).Scan(&words); err != nil || words > 0 {
		t.Errorf("%d events have a stranger's words, %v", words, err)
	}
	if a := h.enter(); h.session().ID == "" {
		t.Errorf("nobody can sign in any more: %d %s", a.StatusCode, a.alert())
	}
}
