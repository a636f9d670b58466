package tests

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestKillSwitchOnTwoGates: thrown at one gate, a switch is in force on the
// other within a second; what waits cannot be approved, what is approved cannot
// be redeemed; and while nobody can tell whether it is on, everything is refused.
func TestKillSwitchOnTwoGates(t *testing.T) {
	ownPrograms(t)
	c := startCluster(t, 2, 1)
	policy := filepath.Join(c.dir, "rules.yaml")
	if err := os.WriteFile(policy, []byte(strings.NewReplacer("finance-approver", "reviewer", "search_docs", "[kill_waiting, kill_approved]").Replace(testPolicy("1", "ALLOW"))), 0o600); err != nil {
		t.Fatal(err)
	}
	// A third gate brings the policy; the others take it from the database.
	c.env = append(c.env, "HOLDPOINT_POLICY_FILE="+policy)
	c.startServe(binary(t))
	here, there := c.agent(t).at(c.where(0)), c.agent(t).at(c.where(1))
	admin := c.admin(t).at(c.where(0))
	allowed := func(agent *client) (r securityResult) {
		t.Helper()
		agent.do("POST", "/v1/tool-calls/check", params("read_x", none())).want(t, http.StatusOK).into(t, &r)
		return r
	}
	for _, agent := range []*client{here, there} {
		eventually(t, settleWithin, "the policy is in force everywhere", func() bool { return allowed(agent).Allowed })
	}
	waiting, approved := here.hold("kill_waiting", nil), here.hold("kill_approved", nil)
	reviewer := c.reviewer(t, 0).at(c.where(1))
	reviewer.approve(approved)
	token := here.wait(approved.ID).Token

	thrown := admin.do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": "bot", "on": true, "reason": "a test"}).want(t, http.StatusOK)
	began := time.Now()
	// Not within a second: at once.
	r := allowed(there)
	if r.Allowed || r.Event.Outcome != "KILL_SWITCH" || r.Event.Reasons[0].Code != "AGENT_KILL_SWITCH" {
		t.Fatalf("%s after the switch (%s) the other gate says %+v", time.Since(began), thrown, r)
	}
	for _, agent := range []*client{here, there} {
		agent.redeem(token, "kill_approved", none()).want(t, http.StatusLocked, "kill_switch")
	}
	reviewer.vote(waiting, "approve").want(t, http.StatusLocked, "kill_switch")
	admin.do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": "bot", "on": true}).want(t, http.StatusConflict, "already_on")

	owner := []string{"HOLDPOINT_DATABASE_ADMIN_URL=" + c.OwnerURL}
	must(t, owner, "", "release", "bot")
	eventually(t, settleWithin, "the other gate has heard of the release", func() bool { return allowed(there).Allowed })
	there.redeem(token, "kill_approved", none()).want(t, http.StatusOK)
	reviewer.approve(waiting)
	here.wait(waiting.ID) // settled before the next switch, which would deny it

	// For everybody, by command.
	must(t, owner, "", "kill", "--all", "--reason", "a test")
	for _, agent := range []*client{here, there} {
		if r := allowed(agent); r.Allowed || r.Event.Reasons[0].Code != "GLOBAL_KILL_SWITCH" {
			t.Errorf("all are stopped: %+v", r)
		}
	}
	must(t, owner, "", "release", "--all")
	eventually(t, settleWithin, "released", func() bool { return allowed(there).Allowed && allowed(here).Allowed })

	conn, err := pgx.Connect(context.Background(), c.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	sql := func(text string) {
		t.Helper()
		if _, err := conn.Exec(context.Background(), text); err != nil {
			t.Fatal(err)
		}
	}
	sql(`ALTER TABLE kill_switches RENAME TO hidden`)
	for _, agent := range []*client{here, there} {
		agent.do("POST", "/v1/tool-calls/check", params("read_x", none())).want(t, http.StatusServiceUnavailable, "store_unavailable")
		agent.propose(event("search_docs", "accept", nil)).want(t, http.StatusServiceUnavailable, "store_unavailable")
	}
	sql(`ALTER TABLE hidden RENAME TO kill_switches`)
	eventually(t, settleWithin, "readable again", func() bool { return allowed(there).Allowed })

	var outcomes []string
	for _, e := range admin.events(url.Values{}) {
		if !slices.Contains(outcomes, e.Outcome) {
			outcomes = append(outcomes, e.Outcome)
		}
	}
	for _, want := range []string{"ALLOW", "REQUIRE_APPROVAL", "APPROVED", "KILL_SWITCH"} {
		if !slices.Contains(outcomes, want) {
			t.Errorf("no event of outcome %s among %v", want, outcomes)
		}
	}
}
