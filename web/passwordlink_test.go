package web

import (
	"net/http"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
)

// A link's page looks nothing up and leaves no address behind; its form sets the
// password, once, and signs in, by a second factor where there is one.
func TestWelcome(t *testing.T) {
	h := startTestServer(t, func(c *Config) { c.PasswordLinks = c.SignIn.(*identity.SignIn) })
	people := admin.New(admin.Config{Store: h.store, Owner: true, PublicURL: h.url}).People
	ops := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "ops", Channel: "cli"}}
	path := func(l admin.PasswordLink, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(l.URL, h.url)
	}
	fay, _ := h.person("fay", true)
	link := path(people.Invite(t.Context(), ops, admin.NewPerson{Email: "ada@example.com"}, true, nil))
	token := strings.TrimPrefix(link, admin.WelcomePath)
	for _, at := range []string{link, link, admin.WelcomePath + "nothing"} {
		a := h.get(at)
		a.want(t, http.StatusOK, "Set your password", `autocomplete="new-password"`)
		if got := a.Header.Get("Referrer-Policy"); got != "origin" {
			t.Errorf("Referrer-Policy: %q", got)
		}
	}
	h.post("/welcome", "token", token, "password", horse, "again", horse+"s").want(t, http.StatusUnprocessableEntity, "not the same")
	h.post("/welcome", "token", token, "password", "short", "again", "short").want(t, http.StatusUnprocessableEntity, "10 to 1024")
	wrong := h.post("/welcome", "token", strings.Repeat("a", 26), "password", horse, "again", horse)
	wrong.want(t, http.StatusNotFound, "not good any more")
	if h.cookie() != "" {
		t.Error("a session without a password")
	}
	h.post("/welcome", "token", token, "password", horse, "again", horse).to(t, "/")
	h.get("/account").want(t, http.StatusOK, "ada@example.com")
	used := h.post("/welcome", "token", token, "password", horse, "again", horse)
	if used.StatusCode != wrong.StatusCode || used.body != strings.ReplaceAll(wrong.body, strings.Repeat("a", 26), token) {
		t.Error("a used link and a wrong one look different")
	}

	// Fay's second factor stays: her link alone gets nobody in.
	token = strings.TrimPrefix(path(people.ResetPassword(t.Context(), ops, fay, nil)), admin.WelcomePath)
	h.post("/logout").to(t, "/login")
	h.post("/welcome", "token", token, "password", horse, "again", horse).to(t, "/login/verify")
	h.get("/account").to(t, "/login?next=%2Faccount")
}
