package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
	"holdpoint/internal/store/storetest"
)

// staff is a console with accounts of its own, in which olga administers.
type staff struct {
	*client
	db   *storetest.Database
	byID map[string]engine.Person // by name
}

func startStaff(t *testing.T, changes bool) *staff {
	t.Helper()
	return startStaffWith(t, changes, nil)
}

// startStaffWith is startStaff with what sends links by mail; nil for no mail server.
func startStaffWith(t *testing.T, changes bool, mail func(to, link string) error) *staff {
	t.Helper()
	db := storetest.New(t)
	s := db.Runtime()
	if changes {
		s = db.Administering()
	}
	f, err := identity.NewFactors(s, "https://console.example.com")
	if err != nil {
		t.Fatal(err)
	}
	in := identity.NewSignIn(f)
	t.Cleanup(in.Flush)
	known := func(context.Context) ([]string, error) {
		return admin.KnownRoles(nil, approval.Routing{Default: approval.Rule{Role: "reviewer"}}), nil
	}
	h := &staff{db: db, byID: map[string]engine.Person{}}
	config := admin.Config{Store: s, PublicURL: "https://console.example.com", Roles: known}
	if mail != nil {
		config.MailLink = func(_ context.Context, to, link string, _ time.Time) error { return mail(to, link) }
	}
	a := admin.New(config)
	h.client = start(t, func(c *Config) {
		c.SignIn, c.SecondStep, c.PasswordLinks, c.Factors, c.Sessions, c.People, c.OnCall, c.APIKeys, c.AccessReviews = in, in, in, f, kept{s}, a.People, a.OnCall, a.Keys, a.AccessReviews
	})
	owner := admin.New(admin.Config{Store: db.Owner(), Owner: true}).People
	ops := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "ops", Channel: "cli"}}
	for name, roles := range map[string][]string{"olga": {"admin"}, "ada": {"reviewer"}} {
		p, _, err := owner.Add(t.Context(), ops, admin.NewPerson{Email: name + "@example.com", Name: strings.ToUpper(name[:1]) + name[1:], Roles: roles, Password: horse})
		if err != nil {
			t.Fatal(err)
		}
		h.byID[name] = p
	}
	return h
}

func (h *staff) post(path string, pairs ...string) answer {
	h.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return h.do(http.MethodPost, path, form)
}

func (h *staff) enter(name, password string) answer {
	h.t.Helper()
	h.post("/logout")
	return h.post("/login", "email", name+"@example.com", "password", password)
}

// roles are somebody's by the database.
func (h *staff) roles(name string) string {
	h.t.Helper()
	p, err := h.db.Owner().People.Get(h.t.Context(), h.byID[name].ID)
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.Join(p.Roles, " ")
}

func (h *staff) at(name string) string { return "/people/" + h.byID[name].ID }

func TestPeoplePages(t *testing.T) {
	h := startStaff(t, true)
	h.enter("ada", horse).to(t, "/")
	for _, path := range []string{"/people", "/people/new", h.at("ada")} {
		h.get(path).want(t, http.StatusForbidden, "administrators")
	}
	h.post(h.at("ada"), "name", "Ada", "with_roles", "yes", "roles", "admin").want(t, http.StatusForbidden)

	h.enter("olga", horse).to(t, "/")
	h.get("/admin").want(t, http.StatusOK, `aria-label="Administration"`, `href="/people"`)
	h.get("/people/new").want(t, http.StatusOK, "Reads everything, and decides nothing by it.")
	h.get("/people").want(t, http.StatusOK, "2 people", "ada@example.com", "olga@example.com", "Invite somebody")
	if a := h.get("/people?q=REVIEWER+ada"); !strings.Contains(a.body, "1 person of 2") || strings.Contains(a.body, `"name" href="`+h.at("olga")) {
		t.Errorf("the search found %s", a.body)
	}
	h.get("/people?q=nobody").want(t, http.StatusOK, "0 people of 2")
	h.get(h.at("ada")).want(t, http.StatusOK, `value="reviewer" checked`, `value="auditor"`)
	h.get("/people/usr_nobody").want(t, http.StatusNotFound)

	save := func(who string, pairs ...string) answer {
		return h.post(h.at(who), append([]string{"with_roles", "yes"}, pairs...)...)
	}
	save("ada", "name", "Ada King", "roles", "reviewer", "roles", "auditor").to(t, h.at("ada"))
	h.get(h.at("ada")).want(t, http.StatusOK, "Ada King", "The account was changed")
	save("ada", "name", "Ada King", "roles", "reviewer", "roles", "auditor").want(t, http.StatusConflict, "Nothing was changed")
	save("ada", "name", "Ada", "roles", "no-such-role").want(t, http.StatusUnprocessableEntity, "No rule asks for", `name="name" value="Ada"`)
	save("ada", "name", "Ada", "role_to_come", "to-come").to(t, h.at("ada"))
	if got := h.roles("ada"); got != "to-come" {
		t.Errorf("the roles are %q", got)
	}
	h.get(h.at("ada")).want(t, http.StatusOK, "No rule asks for it.")
	h.post(h.at("ada"), "name", "Ada Lovelace").to(t, h.at("ada")) // without the roles of the form, they stay
	if got := h.roles("ada"); got != "to-come" {
		t.Errorf("the roles are %q", got)
	}

	// Their own.
	if own := h.get(h.at("olga")); strings.Contains(own.body, `name="roles"`) || strings.Contains(own.body, "/disable") {
		t.Error("olga is offered to change her own roles")
	}
	save("olga", "name", "Olga", "roles", "admin", "roles", "reviewer").want(t, http.StatusForbidden, "Nobody changes their own roles")
	h.post(h.at("olga")+"/disable").want(t, http.StatusForbidden)
	h.post(h.at("olga")+"/password").want(t, http.StatusForbidden)
	if got := h.roles("olga"); got != "admin" {
		t.Errorf("olga has %q", got)
	}

	// A form of a page that was somebody else's, and one of another site.
	save("ada", "name", "Ada", "roles", "admin", "writer", h.byID["ada"].ID).want(t, http.StatusConflict, "Somebody else was signed in")
	h.do(http.MethodPost, h.at("ada"), url.Values{"name": {"x"}}, "Sec-Fetch-Site", "cross-site").want(t, http.StatusForbidden)
	if got := h.roles("ada"); got != "to-come" {
		t.Errorf("the roles are %q", got)
	}
}

var shownLink = regexp.MustCompile(`https://console\.example\.com/welcome/([a-z2-7]{26})`)

// token is the one of the link that a page shows.
func (a answer) token(t *testing.T) string {
	t.Helper()
	if a.want(t, http.StatusOK, "shown only now", "@example.com"); strings.Contains(a.body, "@visible") || strings.Contains(a.body, "@moment") {
		t.Errorf("the page has its template's words: %s", a.body)
	}
	m := shownLink.FindStringSubmatch(a.body)
	if m == nil {
		t.Fatalf("no link: %s", a.body)
	}
	return m[1]
}

func TestPeopleLinks(t *testing.T) {
	h := startStaff(t, true)
	h.enter("olga", horse).to(t, "/")
	h.post("/people/new", "email", "ben", "roles", "reviewer").want(t, http.StatusUnprocessableEntity, "no e-mail address", `value="ben"`, `value="reviewer" checked`)
	ben := h.post("/people/new", "email", "ben@example.com", "roles", "reviewer").token(t)
	h.post("/people/new", "email", "ben@example.com").want(t, http.StatusConflict, "already")
	ada := h.post(h.at("ada") + "/password").token(t)
	h.post(h.at("ada")+"/sign-out").to(t, h.at("ada"))
	h.post(h.at("ada")+"/enable").want(t, http.StatusConflict, "not disabled")
	h.post(h.at("ada")+"/disable").to(t, h.at("ada"))
	h.get(h.at("ada")).want(t, http.StatusOK, "Enable again", "Disabled")
	h.post(h.at("ada")+"/password").want(t, http.StatusUnprocessableEntity, "disabled")
	again := h.post(h.at("ada") + "/enable").token(t)

	h.enter("ada", horse).want(t, http.StatusUnauthorized)
	h.post("/welcome", "token", ada, "password", horse, "again", horse).want(t, http.StatusNotFound)
	h.post("/welcome", "token", again, "password", "another horse", "again", "another horse").to(t, "/")
	h.post("/logout")
	h.post("/welcome", "token", ben, "password", horse, "again", horse).to(t, "/")
	h.get("/account").want(t, http.StatusOK, "ben@example.com", "Present password")

	// His own password: other sessions end, and this one has proved no more than it.
	other := &client{t: t, Client: &http.Client{Jar: nil, CheckRedirect: h.CheckRedirect}, url: h.url, m: h.m, c: h.c}
	former := h.cookie()
	h.post("/account/password", "former", "a wrong horse", "password", "third horse", "again", "third horse").want(t, http.StatusForbidden, "not your present password")
	h.post("/account/password", "former", horse, "password", "third horse", "again", "fourth horse").want(t, http.StatusUnprocessableEntity, "not the same")
	h.post("/account/password", "former", horse, "password", "third", "again", "third").want(t, http.StatusUnprocessableEntity, "10 to 1024")
	known := h.cookieNamed(knownName)
	h.post("/account/password", "former", horse, "password", "third horse", "again", "third horse").to(t, "/account")
	if now := h.cookieNamed(knownName); now == "" || now == known {
		t.Errorf("the browser keeps %q, and kept %q", now, known)
	}
	h.get("/account").want(t, http.StatusOK, "Your password was changed")
	other.get("/account", "Cookie", cookieName+"="+former).to(t, "/login?next=%2Faccount")
	h.enter("ben", horse).want(t, http.StatusUnauthorized)
	h.enter("ben", "third horse").to(t, "/")
}

// Where there is a mail server, links go to whom they are for, unless somebody says no; one
// that could not be sent is shown.
func TestPeopleLinksByMail(t *testing.T) {
	sent, away := map[string]string{}, false
	h := startStaffWith(t, true, func(to, link string) error {
		if away {
			return errors.New("the mail server is away")
		}
		sent[to] = link
		return nil
	})
	h.enter("olga", horse).to(t, "/")
	h.get("/people/new").want(t, http.StatusOK, `name="mail" checked`)
	h.get(h.at("ada")).want(t, http.StatusOK, `name="mail" checked`)
	h.post("/people/new", "email", "ben").want(t, http.StatusUnprocessableEntity, `name="mail"> <span>Send the link by mail`) // it stays as it was
	invited := h.post("/people/new", "email", "ben@example.com", "roles", "reviewer", "mail", "on")
	if invited.want(t, http.StatusOK, "was sent to ben@example.com."); shownLink.MatchString(invited.body) || !shownLink.MatchString(sent["ben@example.com"]) {
		t.Errorf("sent %v, and shown %s", sent, invited.body)
	}
	h.post(h.at("ada") + "/password").token(t)
	if len(sent) != 1 {
		t.Errorf("sent although it was not ticked: %v", sent)
	}
	away = true
	shown := h.post(h.at("ada")+"/password", "mail", "on")
	shown.want(t, http.StatusOK, "could not be sent by mail")
	token := shown.token(t)
	h.post("/logout")
	for name, token := range map[string]string{"ada": token, "ben": shownLink.FindStringSubmatch(sent["ben@example.com"])[1]} {
		h.post("/welcome", "token", token, "password", "new horse of "+name, "again", "new horse of "+name).to(t, "/")
		h.post("/logout")
	}

	without := startStaff(t, true)
	without.enter("olga", horse).to(t, "/")
	if page := without.get("/people/new"); strings.Contains(page.body, `name="mail"`) {
		t.Error("mail is offered without a server")
	}
	without.post(without.at("ada")+"/password", "mail", "on").token(t)
}

// A change takes a fresh proof, which its own form asks for.
func TestPeopleTakeAFreshProof(t *testing.T) {
	h := startStaff(t, true)
	h.enter("olga", horse).to(t, "/")
	if a := h.get(h.at("ada")); strings.Contains(a.body, "more than five minutes ago") {
		t.Error("a proof is asked for at once after signing in")
	}
	h.db.Exec(`UPDATE sessions SET verified_at = clock_timestamp() - interval '6 minutes'`)
	h.get(h.at("ada")).want(t, http.StatusOK, "more than five minutes ago")
	h.get("/people/new").want(t, http.StatusOK, "more than five minutes ago")
	form := []string{"name", "Ada King", "with_roles", "yes", "roles", "auditor"}
	h.post(h.at("ada"), form...).want(t, http.StatusForbidden, "Prove who you are", `value="Ada King"`, `value="auditor" checked`)
	h.post(h.at("ada"), append(form, "password", "a wrong horse")...).want(t, http.StatusForbidden, "did not prove")
	h.post(h.at("ada")+"/password").want(t, http.StatusForbidden, "Prove who you are")
	h.post("/people/new", "email", "ben@example.com").want(t, http.StatusForbidden, "Prove who you are", `value="ben@example.com"`)
	if got := h.roles("ada"); got != "reviewer" {
		t.Errorf("the roles are %q", got)
	}
	h.post(h.at("ada"), append(form, "password", horse)...).to(t, h.at("ada"))
	if got := h.roles("ada"); got != "auditor" {
		t.Errorf("the roles are %q", got)
	}
	h.post("/people/new", "email", "ben@example.com").token(t) // the proof counts for five minutes
}

// Where serve has no login that may change accounts, the pages show and change nothing.
func TestPeopleByCommand(t *testing.T) {
	h := startStaff(t, false)
	h.enter("olga", horse).to(t, "/")
	for _, path := range []string{"/people", "/people/new", h.at("ada")} {
		if a := h.get(path); !strings.Contains(a.body, "changed by command") || strings.Contains(a.body, `action="`+h.at("ada")) || strings.Contains(a.body, `action="/people/new"`) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	h.post(h.at("ada"), "name", "Ada King").want(t, http.StatusUnprocessableEntity, "changed by command")
	h.post("/people/new", "email", "ben@example.com").want(t, http.StatusUnprocessableEntity)
	h.post("/account/password", "former", horse, "password", "another horse", "again", "another horse").want(t, http.StatusUnprocessableEntity)
	if a := h.get("/account"); strings.Contains(a.body, "Present password") {
		t.Error("a form that can only fail is offered")
	}
}
