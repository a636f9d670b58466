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

// absences is an Absences in memory. The rules of who may stand in for whom are
// the gate's, and tested there.
type absences struct {
	m        *fakeGate
	list     []admin.Delegation
	requests []admin.DelegateRequest
	refusal  *access.Refusal
}

func (a *absences) person(id string) engine.Person {
	for _, p := range a.m.people {
		if p.ID == id {
			return p
		}
	}
	return engine.Person{}
}

func (a *absences) Absences(_ context.Context, p engine.Person) (admin.Absences, error) {
	known := admin.Absences{}
	for _, one := range a.m.people {
		known.People = append(known.People, one)
	}
	slices.SortFunc(known.People, func(x, y engine.Person) int { return strings.Compare(x.ID, y.ID) })
	for _, d := range a.list {
		away := admin.Absence{Delegation: d, Person: a.person(d.PersonID), Deputy: a.person(d.DeputyID), Active: !a.m.now().Before(d.From)}
		switch p.ID {
		case d.PersonID:
			known.Mine = append(known.Mine, away)
		case d.DeputyID:
			known.For = append(known.For, away)
		}
		if access.MayAdminister(p) {
			known.All = append(known.All, away)
		}
	}
	return known, nil
}

func (a *absences) Create(_ context.Context, r admin.DelegateRequest) (admin.Delegation, error) {
	a.requests = append(a.requests, r)
	if a.refusal != nil {
		return admin.Delegation{}, a.refusal
	}
	d := admin.Delegation{ID: "dlg_1", PersonID: r.By.ID, DeputyID: r.DeputyID, From: a.m.now(), Until: r.Until, Reason: r.Reason}
	a.list = append(a.list, d)
	return d, nil
}

func (a *absences) Revoke(_ context.Context, _ engine.Person, id, _, _ string) error {
	before := len(a.list)
	a.list = slices.DeleteFunc(a.list, func(d admin.Delegation) bool { return d.ID == id })
	if len(a.list) == before {
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such delegation that is not revoked already."}
	}
	return nil
}

func startAway(t *testing.T) (*client, *absences) {
	t.Helper()
	a := &absences{}
	c := start(t, func(cfg *Config) { cfg.Delegations = a })
	a.m = c.m
	return c, a
}

func TestAwayPage(t *testing.T) {
	c, a := startAway(t)
	if to := c.get("/away").Header.Get("Location"); to != "/login?next=%2Faway" {
		t.Errorf("without a session it leads to %q", to)
	}
	c.signIn("ada@example.com")
	page := c.get("/away")
	page.want(t, http.StatusOK, "Nobody decides for you", "You stand in for nobody", "nobody counts twice", `<option value="" selected>choose</option>`, `<option value="usr_grace">Grace Hopper (grace@example.com)`,
		`type="datetime-local"`, "UTC+05:30", "UTC+05:45", "UTC−12:00", "UTC+14:00", `aria-current`)
	for _, hidden := range []string{`name="person"`, `<option value="usr_ada"`, `data-testid="away-all"`} {
		if strings.Contains(page.body, hidden) {
			t.Errorf("the page of somebody who is no administrator has %s", hidden)
		}
	}
	form := url.Values{"deputy": {"usr_grace"}, "from": {"2026-12-01T09:00"}, "until": {"2026-12-02T18:30"}, "zone": {"+05:30"}, "reason": {" skiing <b> "}}
	named := url.Values{"deputy": {"usr_grace"}, "from": {"2027-03-27T09:00"}, "until": {"2027-03-29T09:00"}, "zone": {"Europe/Berlin"}, "reason": {"r"}}
	c.do("POST", "/away", named).want(t, http.StatusSeeOther) // the clock is put forward in between
	if got := a.requests[0]; !got.From.Equal(time.Date(2027, 3, 27, 8, 0, 0, 0, time.UTC)) || !got.Until.Equal(time.Date(2027, 3, 29, 7, 0, 0, 0, time.UTC)) {
		t.Errorf("in a zone by its name: %v to %v", got.From, got.Until)
	}
	a.requests, a.list = nil, nil
	made := c.do("POST", "/away", form)
	made.want(t, http.StatusSeeOther)
	if to := made.Header.Get("Location"); to != "/away" {
		t.Errorf("it leads on to %q", to)
	}
	got := a.requests[0]
	if got.By.ID != "usr_ada" || got.PersonID != "" || got.DeputyID != "usr_grace" || got.Reason != "skiing <b>" || got.Channel != "console" || got.RequestID == "" ||
		!got.From.Equal(time.Date(2026, 12, 1, 3, 30, 0, 0, time.UTC)) || !got.Until.Equal(time.Date(2026, 12, 2, 13, 0, 0, 0, time.UTC)) {
		t.Errorf("asked for %+v", got)
	}
	c.get("/away").want(t, http.StatusOK, "The deputy decides for that time", `data-testid="away-mine"`, "skiing &lt;b&gt;", "In force", `aria-label="Revoke: Grace Hopper for Ada Lovelace"`)
	grace := *c
	grace.do("POST", "/logout", url.Values{})
	grace.signIn("grace@example.com")
	grace.get("/away").want(t, http.StatusOK, "Nobody decides for you", `data-testid="away-for"`, "Ada Lovelace")
	p := c.m.people["grace@example.com"]
	grace.do("POST", "/away/dlg_1/revoke", url.Values{}).want(t, http.StatusSeeOther)
	grace.get("/away").want(t, http.StatusOK, "It is over now", "You stand in for nobody")
	grace.do("POST", "/away/dlg_1/revoke", url.Values{}).want(t, http.StatusNotFound, "no such delegation")
	if p.Disabled || len(a.list) > 0 {
		t.Errorf("left: %v", a.list)
	}
}

func TestAwayFormSaysWhatIsWrong(t *testing.T) {
	c, a := startAway(t)
	c.signIn("ada@example.com")
	wrong := c.do("POST", "/away", url.Values{"deputy": {"usr_grace"}, "from": {"tomorrow"}, "until": {"2026-13-01T00:00"}, "zone": {"Mars"}, "reason": {"r"}})
	wrong.want(t, http.StatusUnprocessableEntity, "From: write a day", "Until: write a day", "Time zone: choose", `value="tomorrow"`)
	if len(a.requests) > 0 {
		t.Error("it was tried all the same")
	}
	a.refusal = &access.Refusal{Kind: access.Invalid, Code: "too_long", Detail: "Somebody can stand in for at most 90 days."}
	again := c.do("POST", "/away", url.Values{"deputy": {"usr_grace"}, "until": {"2027-11-01T00:00"}, "zone": {"-03:30"}, "reason": {"a year off"}})
	again.want(t, http.StatusUnprocessableEntity, "at most 90 days", `role="alert"`, `value="2027-11-01T00:00"`, `value="a year off"`, `<option value="usr_grace" selected>`, `<option value="-03:30" selected>`)
	for _, zone := range []string{"Mars/Olympus", "Local", "../../etc/passwd", "/etc/localtime"} {
		c.do("POST", "/away", url.Values{"deputy": {"usr_grace"}, "until": {"2027-11-01T00:00"}, "zone": {zone}, "reason": {"r"}}).want(t, http.StatusUnprocessableEntity, "Time zone: choose")
	}
	c.do("POST", "/away", url.Values{"deputy": {"usr_grace"}, "until": {"2027-11-01T00:00"}, "zone": {"Asia/Tokyo"}, "reason": {"r"}}).want(t, http.StatusUnprocessableEntity, `<option value="Asia/Tokyo" selected>Asia/Tokyo</option>`)
	byAddress := c.do("POST", "/away", url.Values{"deputy": {"usr_grace"}, "deputy_email": {"gus@example.com"}, "until": {"2027-11-01T00:00"}, "reason": {"a year off"}})
	byAddress.want(t, http.StatusUnprocessableEntity, `name="deputy_email" value="gus@example.com"`)
	if got := a.requests[len(a.requests)-1].DeputyID; got != "gus@example.com" {
		t.Errorf("asked for %s", got)
	}
	a.refusal = &access.Refusal{Kind: access.Forbidden, Code: "not_yours", Detail: "Only an administrator can do that."}
	c.do("POST", "/away", url.Values{"person": {"usr_linus"}, "deputy": {"usr_grace"}, "until": {"2026-12-01T00:00"}, "reason": {"r"}}).want(t, http.StatusForbidden, "Only an administrator")
	if last := a.requests[len(a.requests)-1]; last.PersonID != "usr_linus" {
		t.Errorf("asked for %+v", last)
	}
	c.do("POST", "/away", url.Values{"deputy": {"usr_grace"}}, "Sec-Fetch-Site", "cross-site").want(t, http.StatusForbidden)
	c.do("GET", "/away/dlg_1/revoke", nil).want(t, http.StatusNotFound)
}

func TestAdministratorsSeeWhoIsAway(t *testing.T) {
	c, a := startAway(t)
	c.signIn("olga@example.com")
	p := c.m.people["linus@example.com"]
	p.Disabled = true
	c.m.people[p.Email] = p
	a.list = []admin.Delegation{
		{ID: "dlg_1", PersonID: "usr_ada", DeputyID: "usr_grace", From: epoch.Add(time.Hour), Until: epoch.Add(2 * time.Hour), Reason: "later"},
		{ID: "dlg_2", PersonID: "usr_ada", DeputyID: "usr_linus", From: epoch, Until: epoch.Add(2 * time.Hour), Reason: "now"},
	}
	c.get("/away").want(t, http.StatusOK, `data-testid="away-all"`, `name="person"`, `<option value="usr_olga" selected>`, "To come", "Without effect", "account is disabled",
		`action="/away/dlg_1/revoke"`, `action="/away/dlg_2/revoke"`)
	c.get("/").want(t, http.StatusOK, `href="/away"`)
}
