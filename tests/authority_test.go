package tests

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"
)

// newPerson adds somebody by the real command.
func (d *dev) newPerson(t testing.TB, args ...string) person {
	t.Helper()
	p := person{Email: newID("p-") + "@example.com", Password: strings.ToLower(rand.Text())}
	must(t, nil, p.Password+"\n", append([]string{"user", "add", p.Email, "--password-stdin", "--data", d.dir}, args...)...)
	return p
}

// TestSeparationOfDuties: nobody of the requesting side decides, under
// whichever account.
func TestSeparationOfDuties(t *testing.T) {
	d := onShared(t)
	a := d.agent(t).hold("own", nil)
	alias := d.newPerson(t, "--role", "reviewer", "--same-as", d.Owner.Email)
	for _, p := range []person{d.Owner, alias} {
		c := d.as(t, p)
		c.vote(a, "approve").want(t, 403, "self_review")
		c.vote(a, "deny").want(t, 403, "self_review")
	}
	// The person on whose behalf the call is made is of that side, too.
	e := event("own", "defer", nil)
	e["authorization_subject"] = map[string]any{"subject_type": "user", "subject_ref": strings.ToUpper(d.Reviewers[0].Email)}
	onBehalf := d.agent(t).submit(e)
	d.reviewer(t, 0).vote(onBehalf, "approve").want(t, 403, "self_review")
	d.reviewer(t, 1).approve(onBehalf)
	// An auditor reads all and decides nothing; who has another role does not even see it.
	d.as(t, d.Auditor).vote(a, "approve").want(t, 403, "not_eligible")
	d.as(t, d.newPerson(t, "--role", "gardener")).vote(a, "approve").want(t, 404, "not_found")
	if got := d.agent(t).get(a.ID); got.Status != "pending" || got.Requirements[0].Given != 0 {
		t.Errorf("after all that: %+v", got)
	}
	if got := d.agent(t).wait(onBehalf.ID); got.Status != "approved" {
		t.Errorf("approved by somebody else: %+v", got)
	}
}

// TestOneHumanOneVoice: two accounts of one human being are one voice.
func TestOneHumanOneVoice(t *testing.T) {
	d := onShared(t)
	first := d.newPerson(t, "--role", "reviewer")
	second := d.newPerson(t, "--role", "reviewer", "--same-as", first.Email)
	a := d.agent(t).hold("pair_voice", nil)
	d.as(t, first).approve(a)
	d.as(t, second).vote(a, "approve").want(t, 409, "already_voted")
	if got := d.agent(t).get(a.ID); got.Status != "pending" || got.Requirements[0].Given != 1 {
		t.Errorf("one human being voted twice: %+v", got)
	}
	d.as(t, second).vote(a, "deny").want(t, 200) // may change their mind to no
	if got := d.agent(t).wait(a.ID); got.Status != "denied" {
		t.Errorf("after the no: %+v", got)
	}
}

// TestDisabledReviewer: who is disabled is signed out at once, and an earlier
// vote does not count towards the quorum any more.
func TestDisabledReviewer(t *testing.T) {
	d := onShared(t)
	leaving := d.newPerson(t, "--role", "security-approver")
	c := d.as(t, leaving)
	a := d.agent(t).hold("root_x", nil)
	if n := a.Requirements[0].Needed; n != 2 || a.Requirements[0].Role != "security-approver" {
		t.Fatalf("root_x needs %+v", a.Requirements[0])
	}
	c.approve(a)
	if got := d.agent(t).get(a.ID); got.Requirements[0].Given != 1 {
		t.Fatalf("after one vote: %+v", got)
	}
	must(t, nil, "", "user", "disable", "--data", d.dir, leaving.Email)
	eventually(t, settleWithin, "the session is over", func() bool { return c.do("GET", approvalPath(a.ID), nil).Status == 401 })
	if got := c.do("GET", "/", nil); got.Status != 303 {
		t.Errorf("the console still answers %d", got.Status)
	}
	c.vote(a, "approve").want(t, 401)
	d.client(t).refusedSignIn(leaving)
	d.reviewer(t, 0).approve(a)
	if got, err := d.agent(t).await(a.ID, 2*time.Second); err == nil || got.Status != "pending" || got.Requirements[0].Given != 1 {
		t.Errorf("a disabled person's vote counts: %+v", got)
	}
	d.reviewer(t, 1).approve(a)
	if got := d.agent(t).wait(a.ID); got.Status != "approved" {
		t.Errorf("two active people approved: %+v", got)
	}
}

// refusedSignIn tries to sign in and must not succeed.
func (c *client) refusedSignIn(p person) {
	c.t.Helper()
	a := c.do("POST", "/login", map[string]any{})
	if a.Status/100 == 2 || a.Status == 303 {
		c.t.Errorf("signed in with a JSON body: %d", a.Status)
	}
	wrong := c.do("POST", "/login", formOf(p.Email, p.Password))
	nobody := c.do("POST", "/login", formOf("nobody-"+p.Email, p.Password))
	if wrong.Status != 401 || wrong.Header.Get("Set-Cookie") != "" {
		c.t.Errorf("sign in as a disabled person: %d %s", wrong.Status, wrong.Header.Get("Set-Cookie"))
	}
	if nobody.Status != wrong.Status {
		c.t.Errorf("an unknown person gets %d, a disabled one %d", nobody.Status, wrong.Status)
	}
}

// TestStaleVote: a vote on what is no longer what would be approved.
func TestStaleVote(t *testing.T) {
	d := onShared(t)
	a := d.agent(t).hold("pair_stale", nil)
	old, other := a, a
	old.Version = a.Version + 1
	other.Digest = "sha256:" + strings.Repeat("0", 64)
	for _, stale := range []approval{old, other} {
		d.reviewer(t, 0).vote(stale, "approve").want(t, 409, "stale")
		d.reviewer(t, 0).vote(stale, "deny").want(t, 409, "stale")
	}
	if got := d.agent(t).get(a.ID); got.Status != "pending" || got.Requirements[0].Given != 0 {
		t.Errorf("after stale votes: %+v", got)
	}
}

// TestClaimsAreCapped: an agent is who its key says, and has no more authority
// than its key allows, whatever its event claims.
func TestClaimsAreCapped(t *testing.T) {
	d := onShared(t)
	e := event("update_note", "accept", nil)
	e["tool_category"], e["authorization_state"], e["agent_id"] = "write", "confirmed", "somebody-else"
	e["evidence_refs"] = []any{"approval:user-confirmed"}
	a := d.agent(t).submit(e)
	events := d.admin(t).events(query("approval_id", a.ID))
	if len(events) != 1 || events[0].AgentID != "demo-agent" || !slices.ContainsFunc(events[0].Reasons, func(r reason) bool { return r.Code == "authorization_state_capped" }) {
		t.Errorf("on record: %+v", events)
	}
	d.runtime(t).propose(e).want(t, 200) // a runtime may say that its user confirmed
	d.agent(t).cancel(a.ID).want(t, 200)
}

// TestSignOutEndsTheSession: the cookie is worth nothing afterwards.
func TestSignOutEndsTheSession(t *testing.T) {
	d := onShared(t)
	c := d.client(t)
	c.signIn(d.Reviewers[4].Email, d.Reviewers[4].Password)
	a := d.agent(t).hold("pair_out", nil)
	c.do("GET", approvalPath(a.ID), nil).want(t, 200)
	if got := c.do("POST", "/logout", formOf("", "")); got.Status != 303 {
		t.Fatalf("sign out: %d", got.Status)
	}
	c.do("GET", approvalPath(a.ID), nil).want(t, 401)
	c.vote(a, "approve").want(t, 401)
	for _, cookie := range []string{"holdpoint=", "holdpoint=x", "holdpoint=" + strings.Repeat("A", 43)} {
		c.cookie = cookie
		c.vote(a, "approve").want(t, 401)
	}
}

// TestGuessingIsSlowed: one address gets only so many wrong guesses, and the
// right password does not help while it lasts.
func TestGuessingIsSlowed(t *testing.T) {
	d := onShared(t)
	victim := d.newPerson(t, "--role", "reviewer")
	c, slowed := d.client(t), false
	for range 12 {
		if got := c.do("POST", "/login", formOf(victim.Email, "wrong-password")); got.Status == 429 {
			slowed = got.Header.Get("Retry-After") != ""
			break
		}
	}
	if !slowed {
		t.Error("twelve guesses were not slowed")
	}
	if got := c.do("POST", "/login", formOf(victim.Email, victim.Password)); got.Status != 429 {
		t.Errorf("the right one meanwhile: %d", got.Status)
	}
}
