package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
)

// fakePush is a Push over a map of people's browsers.
type fakePush struct {
	key   string
	list  map[string][]admin.Browser
	given admin.NewBrowser
	tests []string
}

func (f *fakePush) PublicKey(context.Context) (string, error) { return f.key, nil }

func (f *fakePush) Of(_ context.Context, p engine.Person) ([]admin.Browser, error) {
	return f.list[p.ID], nil
}

func (f *fakePush) Add(_ context.Context, by access.Initiator, b admin.NewBrowser) (string, error) {
	if b.Endpoint == "" {
		return "", &access.Refusal{Kind: access.Invalid, Code: "invalid", Detail: "the browser's push service: the address is missing"}
	}
	f.given = b
	f.list[by.Actor.ID] = append(f.list[by.Actor.ID], admin.Browser{ID: "psh_1", Name: b.Name, Details: b.Details, CreatedAt: epoch})
	return "psh_1", nil
}

func (f *fakePush) find(by access.Initiator, id string) (int, error) {
	i := slices.IndexFunc(f.list[by.Actor.ID], func(b admin.Browser) bool { return b.ID == id })
	if i < 0 {
		return i, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "You have no such browser."}
	}
	return i, nil
}

func (f *fakePush) SetDetails(_ context.Context, by access.Initiator, id string, details bool) error {
	i, err := f.find(by, id)
	if err == nil {
		f.list[by.Actor.ID][i].Details = details
	}
	return err
}

func (f *fakePush) Remove(_ context.Context, by access.Initiator, id string) error {
	i, err := f.find(by, id)
	if err == nil {
		f.list[by.Actor.ID] = slices.Delete(f.list[by.Actor.ID], i, i+1)
	}
	return err
}

func (f *fakePush) Test(_ context.Context, by access.Initiator, id string) error {
	_, err := f.find(by, id)
	f.tests = append(f.tests, id)
	return err
}

func TestBrowsersOfTheAccount(t *testing.T) {
	f := &fakePush{list: map[string][]admin.Browser{}}
	c := start(t, func(cfg *Config) { cfg.Push = f })
	const phone = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36"
	c.signIn("ada@example.com")
	if page := c.get("/account"); !strings.Contains(page.body, `data-testid="push-off"`) || strings.Contains(page.body, "data-push=") {
		t.Error("a browser can be added without a key")
	}
	f.key = "key"
	page := c.get("/account", "User-Agent", phone)
	page.want(t, http.StatusOK, `data-push="key"`, `value="Chrome on Android"`, "Show details on the lock screen")
	if strings.Contains(page.body, "checked") {
		t.Error("details are on unless somebody switches them off")
	}
	if inline.MatchString(page.body) {
		t.Error("something inline")
	}
	post := func(path string, pairs ...string) answer {
		form := url.Values{}
		for i := 0; i+1 < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return c.do(http.MethodPost, "/account/push"+path, form)
	}
	post("", "name", "Phone").want(t, http.StatusUnprocessableEntity, "the address is missing")
	added := post("", "name", "Phone", "endpoint", "https://push.example.net/x", "p256dh", "P", "auth", "A")
	added.to(t, "/account#push-h")
	if want := (admin.NewBrowser{Name: "Phone", Endpoint: "https://push.example.net/x", P256DH: "P", Auth: "A"}); f.given != want {
		t.Errorf("added %+v, want %+v", f.given, want)
	}
	i := slices.IndexFunc(added.Cookies(), func(k *http.Cookie) bool { return k.Name == pushCookie })
	if i < 0 {
		t.Fatal("no cookie names the subscription")
	}
	if k := added.Cookies()[i]; !k.HttpOnly || k.SameSite != http.SameSiteLaxMode || k.Value != "psh_1" {
		t.Errorf("cookie %v", k)
	}
	page = c.get("/account")
	page.want(t, http.StatusOK, "this browser", "data-push-end")
	if strings.Contains(page.body, "data-push=") {
		t.Error("this browser can be added twice")
	}
	post("/details", "id", "psh_1", "details", "yes").to(t, "/account#push-h")
	post("/test", "id", "psh_1").to(t, "/account#push-h")
	if !f.list["usr_ada"][0].Details || !slices.Equal(f.tests, []string{"psh_1"}) {
		t.Errorf("%+v, tests %q", f.list, f.tests)
	}
	post("/details", "id", "psh_1").to(t, "/account#push-h")
	if f.list["usr_ada"][0].Details {
		t.Error("details are on still")
	}
	// Somebody else's is none.
	f.list["usr_grace"] = []admin.Browser{{ID: "psh_2", CreatedAt: epoch}}
	for _, path := range []string{"/details", "/test", "/remove"} {
		post(path, "id", "psh_2").want(t, http.StatusNotFound)
	}
	// Whoever signs out in a browser is not notified there any more.
	c.do(http.MethodPost, "/logout", url.Values{}).to(t, "/login")
	if len(f.list["usr_ada"]) != 0 || len(f.list["usr_grace"]) != 1 {
		t.Errorf("after signing out %+v", f.list)
	}
	post("", "name", "Phone").want(t, http.StatusSeeOther)
	if len(f.list["usr_ada"]) != 0 {
		t.Error("somebody who has not signed in has added a browser")
	}
}

// aged has the proofs of sessions given some time ago.
type aged struct {
	Sessions
	ago *time.Duration
}

func (s aged) Load(ctx context.Context, idHash []byte) (engine.Person, error) {
	p, err := s.Sessions.Load(ctx, idHash)
	p.VerifiedAt = p.VerifiedAt.Add(-*s.ago)
	return p, err
}

// TestBrowserTakesAFreshProof: a session that somebody has found is not made to tell of
// calls for good.
func TestBrowserTakesAFreshProof(t *testing.T) {
	f := &fakePush{key: "key", list: map[string][]admin.Browser{}}
	var ago time.Duration
	h := startTestServer(t, func(c *Config) { c.Push, c.Sessions = f, aged{c.Sessions, &ago} })
	ada, _ := h.person("ada", false)
	h.post("/login", "email", ada, "password", horse).to(t, "/")
	browser := []string{"name", "Phone", "endpoint", "https://push.example.net/x", "p256dh", "P", "auth", "A"}
	h.post("/account/push", browser...).to(t, "/account#push-h")
	ago = time.Hour
	h.post("/account/push", browser...).to(t, "/verify?next=/account")
	h.post("/account/push/details", "id", "psh_1", "details", "yes").to(t, "/verify?next=/account")
	h.post("/account/push/details", "id", "psh_1").to(t, "/account#push-h")
	h.post("/account/push/remove", "id", "psh_1").to(t, "/account#push-h")
}

func TestBrowserName(t *testing.T) {
	for agent, want := range map[string]string{
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1": "Safari on iPhone",
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                                  "Firefox on Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0":           "Edge on Windows",
		"curl/8": "Browser", "": "Browser",
	} {
		if got := browserName(agent); got != want {
			t.Errorf("%q is %q, want %q", agent, got, want)
		}
	}
}
