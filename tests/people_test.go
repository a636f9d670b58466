package tests

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const peoplePolicy = `routing:
  rules:
    - {tool: "pair_*", role: reviewer, needed: 2, expires_in: 1h}
    - {tool: "page_*", role: on-call/payments, needed: 1, expires_in: 1h}
    - {tool: "vault_*", role: keeper, needed: 1, expires_in: 1h, if_too_few: chief}
    - {tool: "night_*", role: on-call/night, needed: 1, expires_in: 1h, escalation: [{after: 30m, role: reviewer}]}
  default: {role: reviewer, needed: 1, expires_in: 1h}
`

var choiceOf = regexp.MustCompile(`<option value="(usr_[a-z0-9]+)"[^>]*>([^<]*)</option>`)

// idOf finds somebody among the choices of the page for who is away.
func (c *client) idOf(email string) string {
	c.t.Helper()
	for _, m := range choiceOf.FindAllStringSubmatch(string(c.do("GET", "/away", nil).want(c.t, 200).Body), -1) {
		if strings.Contains(m[2], email) {
			return m[1]
		}
	}
	c.t.Fatalf("%s is no choice", email)
	return ""
}

// TestPeopleWhoAreAway: a deputy sees and decides what waits for somebody who is
// away, in their place, until it is revoked; and the two are one voice.
func TestPeopleWhoAreAway(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, func(o *devOptions) { o.policy = peoplePolicy })
	away, deputy := d.reviewer(t, 0), d.newPerson(t, "--role", "gardener")
	standIn := d.as(t, deputy)
	a, b := d.agent(t).hold("own", nil), d.agent(t).hold("pair_up", nil)
	standIn.vote(a, "approve").want(t, 404, "not_found")
	if page := string(away.do("GET", "/away", nil).want(t, 200).Body); strings.Contains(page, deputy.Email) || !strings.Contains(page, d.Reviewers[1].Email) {
		t.Error("offered are those who share a role that decides, and nobody else")
	}
	// A say is given away for longer than a session: whoever finds an open page names nobody.
	at := func(hours time.Duration) []string {
		return []string{time.Now().UTC().Add(hours * time.Hour).Format("2006-01-02T15:04")}
	}
	later, late := url.Values{"deputy_email": {deputy.Email}, "from": at(10), "until": at(11), "reason": {"later"}}, d.reviewer(t, 1)
	d.forget(t, d.Reviewers[1])
	if page := string(late.do("POST", "/away", later).want(t, 403).Body); !strings.Contains(page, "Prove who you are") || !strings.Contains(page, `name="password"`) {
		t.Error("nobody is asked who they are")
	}
	later.Set("password", "wrong")
	late.do("POST", "/away", later).want(t, 403)
	later.Set("password", d.Reviewers[1].Password)
	late.do("POST", "/away", later).want(t, 303)
	form := url.Values{"deputy_email": {deputy.Email}, "until": {time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04")}, "reason": {"on the train"}}
	away.do("POST", "/away", form).want(t, 303)
	if page := standIn.do("GET", "/", nil).want(t, 200); !strings.Contains(string(page.Body), a.ID) {
		t.Error("what waits is not in the deputy's inbox")
	}
	standIn.approve(a)
	if got := d.agent(t).wait(a.ID); got.Status != "approved" {
		t.Errorf("approved by the deputy: %+v", got)
	}
	events := d.admin(t).events(query("approval_id", a.ID))
	if !slices.ContainsFunc(events, func(e auditEvent) bool {
		var payload struct {
			InPlaceOf []string `json:"in_place_of"`
		}
		return json.Unmarshal(e.Safe, &payload) == nil && len(payload.InPlaceOf) == 1
	}) {
		t.Errorf("the log does not say in whose place: %+v", events)
	}
	away.approve(b)
	standIn.vote(b, "approve").want(t, 409, "already_voted")
	if got := d.agent(t).get(b.ID); got.Status != "pending" || got.Requirements[0].Given != 1 {
		t.Errorf("the two count as %+v", got.Requirements)
	}
	path := regexp.MustCompile(`/away/dlg_[a-z0-9]+/revoke`).FindString(string(standIn.do("GET", "/away", nil).want(t, 200).Body))
	d.reviewer(t, 1).do("POST", path, url.Values{}).want(t, 404)
	away.do("POST", path, url.Values{}).want(t, 303)
	standIn.vote(b, "approve").want(t, 404, "not_found")
	d.reviewer(t, 1).approve(b)
	if got := d.agent(t).wait(b.ID); got.Status != "approved" {
		t.Errorf("approved by two: %+v", got)
	}
}

// TestPeopleOnCall: whoever is on call has the schedule's role; with nobody on
// call, what waits escalates at once.
func TestPeopleOnCall(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, func(o *devOptions) { o.policy = peoplePolicy })
	on := d.newPerson(t)
	admin, until := d.admin(t), time.Now().Add(time.Hour).Format(time.RFC3339)
	d.agent(t).do("POST", "/v1/on-call/payments", map[string]any{"people": []string{on.Email}, "until": until}).want(t, 403, "scope_missing")
	unknown := admin.do("POST", "/v1/on-call/payments", map[string]any{"people": []string{on.Email, "nobody@example.com"}, "until": until}).want(t, 422, "unknown_people")
	if !strings.Contains(string(unknown.Body), "nobody@example.com") {
		t.Errorf("it does not say who is unknown: %s", unknown)
	}
	page := d.agent(t).hold("page_out", nil)
	d.as(t, on).vote(page, "approve").want(t, 404, "not_found")
	for _, schedule := range []string{"payments", "night"} {
		admin.do("POST", "/v1/on-call/"+schedule, map[string]any{"people": []string{on.Email}, "until": until}).want(t, 200)
	}
	if out := must(t, nil, "", "on-call", "list", "--data", d.dir); strings.Count(out, on.Email) != 2 || !strings.Contains(out, "payments") {
		t.Errorf("the command lists\n%s", out)
	}
	d.as(t, on).approve(page)
	if got := d.agent(t).wait(page.ID); got.Status != "approved" {
		t.Errorf("approved by who is on call: %+v", got)
	}
	night := d.agent(t).hold("night_shift", nil)
	d.as(t, on).do("GET", approvalPath(night.ID), nil).want(t, 200)
	must(t, nil, "", "on-call", "set", "night", "--nobody", "--data", d.dir)
	d.as(t, on).vote(night, "approve").want(t, 404, "not_found")
	eventually(t, settleWithin, "it escalates", func() bool {
		return slices.ContainsFunc(admin.story(night.ID), func(line string) bool { return strings.HasSuffix(line, "NOBODY_ELIGIBLE") })
	})
	d.reviewer(t, 0).vote(night, "deny").want(t, 200)
	if got := d.agent(t).wait(night.ID); got.Status != "denied" {
		t.Errorf("denied by whom it escalated to: %+v", got)
	}
}

// TestReviewersBarredByTheAgentsWord: the agent names both keepers as its own side; then
// the chief finds the call in the inbox, sees why, and decides it. An auditor sees it
// counted. Neither keeper can vote.
func TestReviewersBarredByTheAgentsWord(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, func(o *devOptions) { o.policy = peoplePolicy })
	one, two, chief := d.newPerson(t, "--role", "keeper", "--name", "Kim Keeper"), d.newPerson(t, "--role", "keeper"), d.newPerson(t, "--role", "chief")
	b := openBrowser(t, d.URL)
	b.signIn(chief)
	e := event("vault_open", "defer", map[string]any{"door": 7})
	e["authorization_subject"] = map[string]any{"subject_type": "user", "subject_ref": one.Email + ", " + two.Email}
	a := d.agent(t).submit(e)
	b.sees(testid("inbox-row"), "vault_open")
	b.open("/approvals/" + a.ID)
	b.sees(testid("by-claim"), "says the agent: none of them may decide")
	b.sees(testid("by-claim"), "people with the role chief may decide as well")
	b.sees(testid("timeline"), "asked others as well")
	b.fits("/approvals/" + a.ID)
	for _, p := range []person{one, two} {
		d.as(t, p).vote(a, "approve").want(t, 403, "self_review")
	}
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")
	if got := d.agent(t).wait(a.ID); got.Status != "approved" || got.Requirements[0].Needed != 1 {
		t.Errorf("it came to %+v", got)
	}
	if told := d.admin(t).events(query("approval_id", a.ID)); !slices.ContainsFunc(told, func(e auditEvent) bool { return e.Reasons[0].Code == "WIDENED" }) {
		t.Errorf("the log does not say that it was widened: %+v", told)
	}
	b.clean()
	auditor := openBrowser(t, d.URL)
	auditor.signIn(d.Auditor)
	auditor.click(`nav[aria-label=Main] a[href="/audit"]`)
	auditor.visible(testid("audit-rows"))
	auditor.click(`nav[aria-label=Audit] a[href="/audit/claims"]`)
	auditor.sees(testid("claims"), "Kim Keeper: 1, before 0")
	auditor.fits("/audit/claims")
	auditor.clean()
}
