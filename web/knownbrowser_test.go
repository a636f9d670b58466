package web

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/argon2"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
	"holdpoint/internal/store/storetest"
)

// Whoever guesses at a password from everywhere keeps its owner from no browser in which they
// have signed in, also where the program has just started, or another one answers; but a new
// password makes all of them strangers, except the one in which it was set.
func TestGuessesKeepNobodyFromTheirBrowser(t *testing.T) {
	h := startTestServer(t, func(c *Config) { c.PasswordLinks = c.SignIn.(*identity.SignIn) })
	ada := "ada@example.com"
	adas := engine.Person{ID: "usr_ada", Email: ada, Name: "Ada", Identity: "usr_ada", Roles: []string{"reviewer"}}
	// A hash that costs nothing, for a hundred guesses.
	salt, b64 := []byte("sixteen bytes it"), base64.RawStdEncoding.EncodeToString
	cheap := fmt.Sprintf("$argon2id$v=19$m=8,t=1,p=1$%s$%s", b64(salt), b64(argon2.IDKey([]byte(horse), salt, 1, 8, 1, 32)))
	if err := h.store.People.Create(t.Context(), adas, cheap, storetest.Event()); err != nil {
		t.Fatal(err)
	}
	fay, secret := h.person("fay", true)
	h.post("/login", "email", ada, "password", "wrong horse").want(t, http.StatusUnauthorized)
	if h.cookieNamed(knownName) != "" {
		t.Error("known by a wrong password")
	}
	h.post("/login", "email", ada, "password", horse).to(t, "/")
	hers := h.cookieNamed(knownName)
	h.post("/logout").to(t, "/login")
	h.post("/login", "email", fay, "password", horse).to(t, "/login/verify")
	if got := h.cookieNamed(knownName); got != hers {
		t.Errorf("known by the first of two steps: %q", got)
	}
	h.post("/login/verify", "code", h.code(secret, 0)).to(t, "/")
	both := h.cookieNamed(knownName)
	h.post("/logout").to(t, "/login")
	if both == hers || h.cookieNamed(knownName) != both {
		t.Errorf("after the second step and signing out: %q", h.cookieNamed(knownName))
	}

	// Another console of the same people, at which strangers have guessed first.
	f, err := identity.NewFactors(h.store, "https://console.example.com")
	if err != nil {
		t.Fatal(err)
	}
	in := identity.NewSignIn(f)
	t.Cleanup(in.Flush)
	var strangers atomic.Int64
	other := &testServer{store: h.store, factors: f, client: start(t, func(c *Config) {
		c.SignIn, c.PasswordLinks, c.SecondStep, c.Factors, c.Sessions = in, in, in, f, kept{h.store}
		c.Remote = func(*http.Request) string { return fmt.Sprintf("198.51.100.%d", strangers.Add(1)%250) }
	})}
	enter := func(email, password string, cookies ...string) answer {
		t.Helper()
		other.Jar = nil // a browser each
		return other.do(http.MethodPost, "/login", url.Values{"email": {email}, "password": {password}}, "Cookie", strings.Join(cookies, "; "))
	}
	guesses := 0
	for enter(ada, "not hers").StatusCode == http.StatusUnauthorized {
		if guesses++; guesses > 200 {
			t.Fatal("guesses from everywhere have no bound")
		}
	}
	name := knownName + "="
	for what, cookies := range map[string][]string{
		"none": nil, "cut": {name + both[:len(both)-2]}, "forged": {name + strings.Repeat("A", 43)}, "oversized": {name + strings.Repeat("A", 4000)},
		"doubled": {name + both, name + both}, "no base64": {name + `"%00 ,;` + both + `"`}, "of another name": {"holdpoint=" + both},
	} {
		if a := enter(ada, horse, cookies...); a.StatusCode != http.StatusTooManyRequests || !strings.Contains(a.body, "Too many attempts") {
			t.Errorf("a cookie that is %s: %s\n%s", what, a.Status, a.body)
		}
	}
	enter("nobody@example.com", horse, name+both).want(t, http.StatusUnauthorized)
	enter(ada, "not hers", name+both).want(t, http.StatusUnauthorized)
	enter(ada, horse, name+hers).to(t, "/")
	enter(ada, horse, name+both).to(t, "/")

	// Her password is another one: she is let in by the link, and by the browser that followed it.
	people := admin.New(admin.Config{Store: h.store, Owner: true, PublicURL: h.url}).People
	link, err := people.ResetPassword(t.Context(), access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "ops", Channel: "cli"}}, ada, nil)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimPrefix(link.URL, h.url+admin.WelcomePath)
	const fresh = "another horse"
	set := other.do(http.MethodPost, "/welcome", url.Values{"token": {token}, "password": {fresh}, "again": {fresh}})
	set.to(t, "/")
	enter(ada, fresh, name+both).want(t, http.StatusTooManyRequests)
	i := slices.IndexFunc(set.Cookies(), func(k *http.Cookie) bool { return k.Name == knownName })
	enter(ada, fresh, name+set.Cookies()[i].Value).to(t, "/")
}
