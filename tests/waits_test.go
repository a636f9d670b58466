package tests

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pquerna/otp/totp"
)

// waiting is the program of the tests of all that an approval may wait for.
var waiting sharedDev

// waitsSettings has a rule for each of them. Its calendar is made when it starts.
const waitsSettings = `execution_lease: 2s
routing:
  calendars:
    rare: {time_zone: UTC, hours: {DAY: ["10:00-11:30"]}}
  rules:
    - {tool: "denies_*", role: reviewer, needed: 2, deny: 2, expires_in: 1h}
    - {tool: "ask_*", role: reviewer, needed: 1, expires_in: 10s, pause_for: 1h}
    - {tool: "askshort_*", role: reviewer, needed: 1, expires_in: 8s, pause_for: 1s}
    - {tool: "asknopause_*", role: reviewer, needed: 1, expires_in: 8s}
    - {tool: "extend_*", role: reviewer, needed: 1, expires_in: 10s, extenders: [security-approver]}
    - {tool: "late_*", role: security-approver, needed: 1, expires_in: 1h, reminders: [500ms, 30m], escalation: [{after: 8s, role: finance-approver}, {after: 30m, role: gardener}]}
    - {tool: "nobody_*", role: surgeon, needed: 1, expires_in: 1h, escalation: [{after: 30m, role: finance-approver}]}
    - {tool: "lost_*", role: surgeon, needed: 1, expires_in: 2s}
    - {tool: "hours_*", role: reviewer, needed: 1, within: 30m, expires_in: 2h, calendar: rare}
    - {tool: "glass_*", role: security-approver, needed: 2, expires_in: 1h}
    - {tool: "soon_*", role: reviewer, needed: 1, expires_in: 30m}
    - {tool: "orders_*", role: reviewer, needed: 2, expires_in: 1h}
  default: {role: reviewer, needed: 1, expires_in: 1h}
`

// waitsPolicy judges calls by Agent-SPM.
const waitsPolicy = `version: "VERSION"
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2099-01-01T00:00:00Z"
rules:
  - id: two-groups
    description: Finance and security both.
    match: {tool_name: payee, environment: "*"}
    outcome: REQUIRE_APPROVAL
    approval: {groups: [{role: finance-approver, needed: 1}, {role: security-approver, needed: 1}]}
  - id: either
    description: Two of security, or three of finance.
    match: {tool_name: operate, environment: "*"}
    outcome: REQUIRE_APPROVAL
    approval: {any_of: [{role: security-approver, needed: 2}, {role: finance-approver, needed: 3}]}
  - id: human
    description: A person, and no program.
    match: {tool_name: wire, environment: "*"}
    outcome: REQUIRE_HUMAN
    approver_role: reviewer
  - id: ask
    description: It needs a cost center.
    match: {tool_name: order, environment: "*"}
    outcome: REQUIRE_APPROVAL
    approver_role: reviewer
    approval: {ask: {type: object, properties: {cost_center: {type: string, minLength: 4}}, required: [cost_center]}}
  - {id: step-up, description: Its owner proves who they are., match: {tool_name: unlock, environment: "*"}, outcome: STEP_UP}
  - id: forbidden
    description: Never that much.
    match: {tool_name: pay, environment: "*"}
    when: {tool_args_match: {amount: {gt: 10000}}}
    outcome: DENY
  - id: large
    description: Two of finance.
    match: {tool_name: pay, environment: "*"}
    when: {tool_args_match: {amount: {gt: 100}}}
    outcome: REQUIRE_APPROVAL
    approver_role: finance-approver
    constraints: {max_amount: 1000, allow_currencies: [EUR, USD]}
    approval: {quorum: 2}
  - id: small
    description: One of finance.
    match: {tool_name: pay, environment: "*"}
    outcome: REQUIRE_APPROVAL
    approver_role: finance-approver
    constraints: {max_amount: 1000, allow_currencies: [EUR, USD]}
  - {id: others, description: The contract judges the rest., match: {tool_name: "*", environment: "*"}, outcome: ALLOW}
defaults: {outcome: DENY}
`

// people of "holdpoint dev", by their places among the reviewers. Ada and Ben
// have security-approver beside what all of them have: reviewer and
// finance-approver. Dina and Emil may break the glass, Fay has a second factor.
const (
	ada = iota
	ben
	cleo
	dina
	emil
	fay
)

// onWaiting gives a test the program, started when the first one asks.
func onWaiting(t *testing.T) *dev {
	t.Helper()
	return waiting.use(t, func(bin string) (*dev, error) {
		dir := filepath.Join(built.data, "waiting")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		policy := strings.Replace(waitsPolicy, "VERSION", "1", 1)
		if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o644); err != nil {
			return nil, err
		}
		// Not today: whatever the hour is, it lies ahead.
		day := strings.ToLower(time.Now().UTC().AddDate(0, 0, 2).Format("Mon"))
		return launchDev(bin, devOptions{dir: dir, policy: strings.Replace(waitsSettings, "DAY", day, 1)})
	})
}

// checked proposes an Agent-SPM call that has to wait.
func (c *client) checked(tool string, args map[string]any, headers ...header) approval {
	c.t.Helper()
	var v struct{ Approval approval }
	c.do("POST", "/v1/tool-calls/check", params(tool, args), headers...).want(c.t, http.StatusAccepted).into(c.t, &v)
	if v.Approval.Status != "pending" || v.Approval.Edition != 1 {
		c.t.Fatalf("%s does not wait: %+v", tool, v.Approval)
	}
	return v.Approval
}

// act does something with an approval.
func (c *client) act(id, what string, body any) answer {
	return c.do("POST", approvalPath(id)+"/"+what, body)
}

// seen is a body with what a page showed of an approval.
func seen(a approval, more map[string]any) map[string]any {
	body := map[string]any{"digest": a.Digest, "version": a.Version}
	maps.Copy(body, more)
	return body
}

// with is a ballot with more to it.
func with(a approval, more map[string]any) map[string]any {
	body := ballot(a, "approve")
	maps.Copy(body, more)
	return body
}

// owner runs a statement as the owner of the database.
func (in *installation) owner(t testing.TB, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), in.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if tag, err := conn.Exec(t.Context(), sql, args...); err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v, %s", sql, err, tag)
	}
}

// count asks the database for one number.
func (in *installation) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), in.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// forget makes the person's last proof of who they are an old one.
func (in *installation) forget(t testing.TB, p person) {
	t.Helper()
	in.owner(t, `UPDATE sessions SET verified_at = verified_at - interval '6 minutes' WHERE person_id = (SELECT id FROM people WHERE email = $1)`, p.Email)
}

// anew signs a person in once more: they have just proved who they are.
func (in *installation) anew(t testing.TB, p person) *client {
	t.Helper()
	c := in.client(t)
	c.signIn(p.Email, p.Password)
	return c
}

// codeAt is what an authenticator app shows so many steps from now.
func codeAt(t testing.TB, p person, steps int) string {
	t.Helper()
	text, err := totp.GenerateCode(p.TOTPSecret, time.Now().Add(time.Duration(steps)*30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signInWithCode signs in somebody with an authenticator app.
func (in *installation) signInWithCode(t testing.TB, p person) *client {
	t.Helper()
	if cookie, ok := in.sessions.Load(p.Email); ok {
		c := in.client(t)
		c.cookie = cookie.(string)
		return c
	}
	c := in.client(t)
	c.signIn(p.Email, p.Password) // the cookie of a sign-in that lacks its second step
	// The code is of the last step, and must be that when it is looked at as well.
	const step = 30 * time.Second
	if left := step - time.Since(time.Unix(0, 0))%step; left < 8*time.Second {
		time.Sleep(left)
	}
	a := c.do("POST", "/login/verify", url.Values{"code": {codeAt(t, p, -1)}})
	if a.Status != http.StatusSeeOther {
		t.Fatalf("the second step of %s: %s", p.Email, a)
	}
	for _, cookie := range (&http.Response{Header: a.Header}).Cookies() {
		if cookie.Value != "" {
			c.cookie = cookie.Name + "=" + cookie.Value
		}
	}
	if got := c.do("GET", "/", nil); got.Status != http.StatusOK {
		t.Fatalf("signed in as %s: %d", p.Email, got.Status)
	}
	in.sessions.Store(p.Email, c.cookie)
	return c
}

// past waits until a moment has passed. It is for deadlines, which nothing but
// time brings about.
func past(at time.Time) { <-time.After(time.Until(at.Add(10 * time.Millisecond))) }

// TestTwoGroups: two groups have to agree, in any order, and somebody who is in
// both fills one place of them.
func TestTwoGroups(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	propose := func() approval {
		a := agent.checked("payee", map[string]any{"id": newID("")})
		if len(a.Requirements) != 2 || a.Requirements[0].Status != "waiting" || a.Requirements[1].Status != "waiting" {
			t.Fatalf("two groups that wait at once: %+v", a.Requirements)
		}
		return a
	}
	// Ada is in both: whoever comes after her, she is moved to the other place.
	for _, order := range [][]int{{ada, dina}, {dina, ada}, {ada, ben}} {
		a := propose()
		d.reviewer(t, order[0]).approve(a)
		d.reviewer(t, order[0]).vote(a, "approve").want(t, 409, "already_voted")
		if got := agent.get(a.ID); got.Status != "pending" || got.Requirements[0].Given+got.Requirements[1].Given != 1 {
			t.Errorf("one person fills %+v", got.Requirements)
		}
		d.reviewer(t, order[1]).approve(a)
		if got := agent.wait(a.ID); got.Status != "approved" || got.Requirements[0].Given != 1 || got.Requirements[1].Given != 1 {
			t.Errorf("%v: %+v", order, got)
		}
	}
	// Neither the card nor the policy's page puts one group before the other.
	const both = "1 of finance-approver and 1 of security-approver"
	b, a := openBrowser(t, d.URL), propose()
	b.signIn(d.Owner)
	b.open("/policies")
	b.sees(testid("rules")+" tr", both)
	b.open("/approvals/" + a.ID)
	b.sees(testid("path"), both)
	// Two of one group are one place: the second is not needed, and takes nobody's.
	d.reviewer(t, dina).approve(a)
	d.reviewer(t, emil).vote(a, "approve").want(t, 409, "not_needed")
	d.reviewer(t, cleo).approve(a)
	if got := agent.wait(a.ID); got.Status != "approved" {
		t.Errorf("after both groups: %+v", got)
	}
	// One no of either group ends it.
	a = propose()
	d.reviewer(t, ada).approve(a)
	d.reviewer(t, emil).vote(a, "deny").want(t, 200)
	if got := agent.wait(a.ID); got.Status != "denied" || got.Denial == nil || got.Denial.Kind != "not_now" || got.Denial.RetryAfter == 0 {
		t.Errorf("after a no: %+v", got)
	}
}

// TestEitherGroup: of two groups one is enough, and nobody makes up for one with
// people of the other.
func TestEitherGroup(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	for _, c := range []struct {
		who   []int
		needs int
	}{{[]int{dina, ada, ben}, 2}, {[]int{dina, emil, ada}, 3}, {[]int{ada, ben}, 2}} {
		a := agent.checked("operate", map[string]any{"id": newID("")})
		for k, who := range c.who {
			if got := agent.get(a.ID); got.Status != "pending" {
				t.Errorf("%v: after %d votes: %+v", c.who, k, got)
			}
			d.reviewer(t, who).approve(a)
		}
		if got := agent.wait(a.ID); got.Status != "approved" || got.Requirements[0].Needed != c.needs || got.Requirements[0].Given != c.needs {
			t.Errorf("%v: %+v", c.who, got)
		}
	}
}

// TestTwoGroupsAtOnce: whoever votes at the same moment as whom, the places are
// filled by different people, and it ends once.
func TestTwoGroupsAtOnce(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	inRounds(t, func(i int) error {
		var v struct{ Approval approval }
		agent.do("POST", "/v1/tool-calls/check", params("payee", map[string]any{"id": newID("")})).into(t, &v)
		who := []int{ada, ben, dina, emil}
		answers := make([]answer, len(who))
		together(len(who), func(k int) { answers[k] = d.reviewer(t, who[k]).vote(v.Approval, "approve") })
		end, err := agent.await(v.Approval.ID, settleWithin)
		if err == nil && (end.Status != "approved" || statuses(answers)[200] != 2 || statuses(answers)[409] != 2) {
			t.Errorf("round %d: %v, ended %+v", i, answers, end)
		}
		return err
	})
}

// TestDenyQuorum: where it takes two noes, one is no end, and a yes can be taken
// back.
func TestDenyQuorum(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	a := agent.hold("denies_x", nil)
	d.reviewer(t, ada).approve(a)
	d.reviewer(t, ada).vote(a, "deny").want(t, 200)
	got := agent.get(a.ID)
	if got.Status != "pending" || got.Requirements[0].Given != 0 || got.Requirements[0].Denied != 1 {
		t.Errorf("after one no: %+v", got.Requirements)
	}
	d.reviewer(t, ada).vote(a, "deny").want(t, 409, "already_voted")
	d.reviewer(t, ben).approve(a)
	d.reviewer(t, cleo).approve(a)
	if got := agent.wait(a.ID); got.Status != "approved" {
		t.Errorf("two have agreed, one has not: %+v", got)
	}
	a = agent.hold("denies_x", map[string]any{"n": 2})
	d.reviewer(t, ada).approve(a)
	d.reviewer(t, ben).vote(a, "deny").want(t, 200)
	d.reviewer(t, cleo).vote(a, "deny").want(t, 200)
	if got := agent.wait(a.ID); got.Status != "denied" || got.Token != "" {
		t.Errorf("after two noes: %+v", got)
	}
}

// TestHumanTakesAFreshProof: REQUIRE_HUMAN takes a person who has just proved who
// they are, and no key.
func TestHumanTakesAFreshProof(t *testing.T) {
	d := onWaiting(t)
	agent := d.agent(t)
	p := d.newPerson(t, "--role", "reviewer")
	reviewer := d.anew(t, p)
	a := agent.checked("wire", none())
	if a.Requirements[0].Kind != "human" {
		t.Fatalf("got %+v", a.Requirements)
	}
	for _, c := range []*client{agent, d.runtime(t), d.admin(t)} {
		c.vote(a, "approve").want(t, 403, "machine_principal")
	}
	d.runtime(t).act(a.ID, "answers", map[string]any{"confirmed": true}).want(t, 409, "nothing_to_answer")
	d.forget(t, p)
	reviewer.vote(a, "approve").want(t, 403, "verification_required")
	if got := agent.get(a.ID); got.Status != "pending" || got.Requirements[0].Given != 0 {
		t.Errorf("after that: %+v", got)
	}
	// A no takes no proof, and a yes on what is no human requirement neither.
	other := agent.hold("plain", nil)
	reviewer.approve(other)
	d.anew(t, p).approve(a)
	got := agent.wait(a.ID)
	if got.Status != "approved" || got.Reasons[0].Code != "HUMAN_APPROVED" {
		t.Errorf("got %+v", got)
	}
	agent.redeem(got.Token, "wire", none()).want(t, 200)
	a = agent.checked("wire", map[string]any{"n": 1})
	d.forget(t, p)
	reviewer.vote(a, "deny").want(t, 200)
	if got := agent.wait(a.ID); got.Status != "denied" || got.Reasons[0].Code != "HUMAN_REJECTED" {
		t.Errorf("got %+v", got)
	}
}

// TestStepUp: whoever answers for the agent proves who they are, for this very
// call, by a code that is good once.
func TestStepUp(t *testing.T) {
	d := onWaiting(t)
	who := d.Reviewers[fay]
	must(t, nil, "", "agent", "set", "stepper", "--data", d.dir, "--owner", who.Email)
	agent := d.client(t).with(d.newKey(t, "--agent", "stepper"))
	propose := func(args map[string]any) approval {
		t.Helper()
		var v struct{ Approval approval }
		agent.do("POST", "/v1/tool-calls/check", map[string]any{"toolName": "unlock", "toolArgs": args, "agentId": "stepper"}).want(t, 202).into(t, &v)
		return v.Approval
	}
	owner := d.signInWithCode(t, who)
	a := propose(map[string]any{"door": 1})
	if a.NextAction != "verify" || a.Requirements[0].Kind != "step_up" {
		t.Fatalf("got %+v", a)
	}
	first, second := codeAt(t, who, 0), codeAt(t, who, 1)
	// Who does not answer for the call, and what is not this call.
	d.reviewer(t, ada).act(a.ID, "step-up", seen(a, map[string]any{"code": first})).want(t, 404, "not_found")
	d.reviewer(t, ada).act(a.ID, "step-up", seen(a, map[string]any{"declined": true})).want(t, 404, "not_found")
	owner.act(a.ID, "step-up", seen(a, map[string]any{"code": "000000x"})).want(t, 403, "verification_failed")
	agent.act(a.ID, "step-up", seen(a, map[string]any{"code": first})).want(t, 403, "machine_principal")
	owner.vote(a, "approve").want(t, 403, "self_review")
	wrong := a
	wrong.Digest = "sha256:" + strings.Repeat("0", 64)
	if got := owner.act(a.ID, "step-up", seen(wrong, map[string]any{"code": first})); got.Status != 409 || got.code() != "stale" {
		t.Errorf("a proof for another digest: %s", got)
	}
	if got := agent.get(a.ID); got.Status != "pending" {
		t.Fatalf("after all that: %+v", got)
	}
	owner.act(a.ID, "step-up", seen(a, map[string]any{"code": second})).want(t, 200)
	got := agent.wait(a.ID)
	if got.Status != "approved" || got.Reasons[0].Code != "STEP_UP_PASSED" {
		t.Fatalf("got %+v", got)
	}
	if want := []string{"decision STEP_UP step-up", "verify STEP_UP STEP_UP_PASSED", "settled APPROVED STEP_UP_PASSED"}; !containsInOrder(d.admin(t).story(a.ID), want) {
		t.Errorf("story %q", d.admin(t).story(a.ID))
	}
	b := propose(map[string]any{"door": 2})
	owner.act(b.ID, "step-up", seen(b, map[string]any{"code": second})).want(t, 403, "verification_failed")
	owner.act(b.ID, "step-up", seen(b, map[string]any{"code": first})).want(t, 403, "verification_failed")
	owner.act(b.ID, "step-up", seen(b, map[string]any{"declined": true})).want(t, 200)
	if got := agent.wait(b.ID); got.Status != "denied" || got.Reasons[0].Code != "STEP_UP_FAILED" || got.Denial == nil || got.Denial.Kind != "never" {
		t.Errorf("declined: %+v", got)
	}
	// Who has a second factor, and does not answer for the call.
	foreign := d.agent(t).checked("unlock", map[string]any{"door": 3})
	owner.act(foreign.ID, "step-up", seen(foreign, map[string]any{"declined": true})).want(t, 404, "not_found")
	d.agent(t).cancel(foreign.ID).want(t, 200)
	agent.redeem(got.Token, "unlock", map[string]any{"door": 2}).want(t, 403, "arguments_mismatch")
	agent.redeem(got.Token, "unlock", map[string]any{"door": 1}).want(t, 200)
}

// containsInOrder reports whether all of want are in got, in this order.
func containsInOrder(got, want []string) bool {
	for _, line := range want {
		i := slices.Index(got, line)
		if i < 0 {
			return false
		}
		got = got[i+1:]
	}
	return true
}
