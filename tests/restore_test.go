package tests

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/enums/v1"
)

// disaster takes everything away that Postgres and Temporal have, and starts both empty.
func (c *cluster) disaster() {
	c.t.Helper()
	c.stopAll()
	c.stopTemporal()
	if err := c.postgres.Stop(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(c.dir, "postgres")); err != nil {
		c.t.Fatal(err)
	}
	c.startPostgres()
	c.makeRoles()
	c.startTemporal()
	for i, variable := range c.env {
		if strings.HasPrefix(variable, "HOLDPOINT_DATABASE_URL=") {
			c.env[i] = "HOLDPOINT_DATABASE_URL=" + c.RuntimeURL
		}
	}
	c.sessions.Clear()
}

// operator is the environment of an operator's commands.
func (c *cluster) operator() []string {
	return append([]string{"HOLDPOINT_DATABASE_ADMIN_URL=" + c.OwnerURL}, c.env...)
}

// TestDisasterDrill: Postgres and Temporal are lost with all that they had. The backup
// comes back, nothing of it can be spent twice, what was erased since stays erased, the
// log says what it has lost, and what waited waits and can be decided.
func TestDisasterDrill(t *testing.T) {
	ownPrograms(t)
	c := startCluster(t, 1, 1)
	must(t, c.operator(), "", "retention", "set-floor", "0s")
	agent, reviewer := c.agent(t), c.reviewer(t, 0)
	var waits []approval
	for i := range 30 {
		waits = append(waits, agent.hold("deploy", map[string]any{"n": i}))
	}
	approved := func(a approval) string {
		t.Helper()
		reviewer.approve(a)
		return agent.wait(a.ID).Token
	}
	spent := agent.hold("deploy", map[string]any{"word": "spent"})
	spentToken := approved(spent)
	private := agent.hold("deploy", map[string]any{"word": "private"})
	reviewer.vote(private, "deny").want(t, 200)
	agent.wait(private.ID)

	// What any login may have made, and the owner may not read, keeps nobody from a backup.
	super, err := pgx.Connect(t.Context(), c.postgres.SuperuserURL("holdpoint"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = super.Exec(t.Context(), `SELECT lo_create(0)`); err != nil {
		t.Fatal(err)
	}
	_ = super.Close(t.Context())
	copied := filepath.Join(c.dir, "copy")
	if said := must(t, c.operator(), "", "backup", "--to", copied); !strings.Contains(said, "30 approvals waiting, 1 permission not spent") {
		t.Errorf("the backup says %s", said)
	}
	answered := c.journal.all()

	// What comes after it is lost.
	agent.redeem(spentToken, "deploy", map[string]any{"word": "spent"}).want(t, 200)
	lostToken := approved(waits[0])
	must(t, c.operator(), "", "erase", "approval", private.ID, "--reason", "asked for", "--yes")
	c.admin(t).do("GET", "/v1/audit/events?limit=1", nil).want(t, 200) // waits for the log
	floorFile := filepath.Join(c.dir, "log-floor")
	eventually(t, healWithin, "the floor and the list have what has happened", func() bool {
		return c.floor() == c.logSize() && strings.Contains(fileText(floorFile+".erased"), private.ID)
	})
	size := c.floor()
	c.disaster()
	c.journal.answers = answered

	restore := []string{"restore", "--from", copied}
	if got := cli(t, c.operator(), "", restore...); got.code == 0 || !strings.Contains(got.err, strconv.FormatInt(size, 10)) || !strings.Contains(got.err, "lost if you restore it") {
		t.Errorf("without a word on what is lost: %+v", got)
	}
	began := time.Now()
	said := must(t, c.operator(), "", append(restore, "--lose-tail", strconv.FormatInt(size, 10))...)
	t.Logf("restored in %s:\n%s", time.Since(began).Round(time.Millisecond), said)
	for _, want := range []string{"lost, and an event says so", "taken back: 1 permission", "waiting again: 30 approvals", "erased again: 1\n", "log-floor.lost-" + strconv.FormatInt(size, 10)} {
		if !strings.Contains(said, want) {
			t.Errorf("restore does not say %q", want)
		}
	}
	if strings.Contains(said, "nobody has tried whether the data key fits") {
		t.Error("the data key was not tried")
	}
	if got := cli(t, c.operator(), "", append(restore, "--lose-tail", "unknown")...); got.code == 0 || !strings.Contains(got.err, "is not empty") {
		t.Errorf("a second time: %+v", got)
	}

	began = time.Now()
	c.startAll()
	c.rebuilt(t, waits, began)
	agent, reviewer = c.agent(t), c.reviewer(t, 0)
	// Nothing is granted before somebody has looked.
	reviewer.vote(agent.get(waits[1].ID), "approve").want(t, 423, "kill_switch")
	must(t, c.operator(), "", "release", "--all")
	agent.redeem(spentToken, "deploy", map[string]any{"word": "spent"}).want(t, 409, "stale")
	agent.redeem(lostToken, "deploy", map[string]any{"n": 0}).want(t, 401, "token_invalid")
	for _, i := range []int{0, 1} { // one that was approved in what is lost, too: people decide anew
		reviewer.approve(agent.get(waits[i].ID))
		token := agent.wait(waits[i].ID).Token
		agent.redeem(token, "deploy", map[string]any{"n": i}).want(t, 200)
		agent.redeem(token, "deploy", map[string]any{"n": i}).want(t, 409, "token_used")
	}
	agent.redeem(lostToken, "deploy", map[string]any{"n": 0}).want(t, 401, "token_invalid")
	if a := agent.do("GET", approvalPath(private.ID), nil).want(t, 200); !strings.Contains(string(a.Body), `"erased_at"`) {
		t.Errorf("what was erased is back: %s", a)
	}
	if story := c.admin(t).story(""); !containsInOrder(story, []string{"admin ALLOW RESTORED_FROM_BACKUP", "admin KILL_SWITCH GLOBAL_KILL_SWITCH", "admin ALLOW KILL_SWITCH_RELEASED"}) {
		t.Errorf("story %q", story)
	}
	// Whoever has seen what is lost sees the break.
	log := filepath.Join(c.dir, "log.jsonl")
	must(t, c.env, "", "audit", "export", "-q", "-o", log)
	key := filepath.Join(c.dir, "log-key.pub")
	must(t, nil, "", "audit", "verify", log, "--key", key)
	if got := cli(t, nil, "", "audit", "verify", log, "--key", key, "--former", floorFile+".lost-"+strconv.FormatInt(size, 10)); got.code != 1 {
		t.Errorf("it continues what was lost: %+v", got)
	}
}

// rebuilt waits until Temporal has a workflow of each.
func (c *cluster) rebuilt(t *testing.T, waits []approval, began time.Time) {
	t.Helper()
	temporal := c.temporalClient()
	for _, a := range waits {
		eventually(t, settleWithin, a.ID+" has a workflow again", func() bool {
			d, err := temporal.DescribeWorkflowExecution(context.Background(), a.ID, "")
			return err == nil && d.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING
		})
	}
	t.Logf("%d waits were rebuilt after %s", len(waits), time.Since(began).Round(time.Millisecond))
}
