package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// keysOfTwoGates: a gate whose file has no key in common with the others' takes their
// tokens, and they take its own, also when its key is changed while it runs. It logs in to
// Postgres as somebody else, as it does while the password is changed.
func keysOfTwoGates(t *testing.T, c *cluster) {
	t.Helper()
	own, former := filepath.Join(c.dir, "other-keys.json"), c.env
	must(t, nil, "", "key", "rotate", own)
	c.superuser("postgres", "CREATE ROLE hp_app_2 LOGIN PASSWORD 'the-next-one' IN ROLE holdpoint_runtime")
	c.env = append(c.env[:len(c.env):len(c.env)], "HOLDPOINT_SIGNING_KEYS_FILE="+own, "HOLDPOINT_SIGNING_KEY_DELAY=0s",
		"HOLDPOINT_DATABASE_URL="+c.postgres.URL("hp_app_2", "the-next-one", "holdpoint"))
	c.startServe(binary(t))
	c.env = former
	last := len(c.serves) - 1
	gate := c.serves[last]
	there, here := c.agent(t).at(c.where(last)), c.agent(t).at(c.where(0))
	c.serves, c.urls = c.serves[:last], c.urls[:last]
	defer func() {
		if err := gate.stop(); err != nil {
			t.Error(err)
		}
		c.superuser("postgres", "DROP ROLE hp_app_2")
	}()
	token := func(agent *client) string {
		t.Helper()
		a := agent.hold("change_keys", map[string]any{"id": newID("")})
		c.reviewer(t, 0).approve(a)
		agent.wait(a.ID)
		return agent.get(a.ID).Token
	}
	// What is not ours is token_invalid; with other arguments ours is for another call.
	taken := func(agent *client, token string) {
		t.Helper()
		agent.redeem(token, "change_keys", none()).want(t, 403, "arguments_mismatch")
	}
	kid := func(token string) string { return strings.Split(token, ".")[0] }
	mine, theirs := token(there), token(here)
	if kid(mine) == kid(theirs) {
		t.Error("both sign with one key")
	}
	taken(here, mine)
	taken(there, theirs)
	if n := number(t, c.postgres.SuperuserURL("holdpoint"), `SELECT count(DISTINCT usename) FROM pg_stat_activity WHERE usename IN ('hp_app', 'hp_app_2')`); n != 2 {
		t.Errorf("the gates log in as %d roles, want two", n)
	}
	must(t, nil, "", "key", "rotate", own)
	if err := gate.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, settleWithin, "the new key signs", func() bool { return kid(token(there)) != kid(mine) })
	taken(here, token(there))
	taken(here, mine)
}

// dataKeyUnderLoad changes the data key of everything that runs, while calls are made,
// approved and redeemed, from the new key to the former one's retirement.
func dataKeyUnderLoad(t *testing.T, c *cluster) {
	t.Helper()
	file := filepath.Join(c.dir, "data_key")
	former, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	agent, reviewer := c.agent(t), c.reviewer(t, 0)
	waiting, approved := agent.hold("data_waiting", nil), agent.hold("data_approved", nil)
	reviewer.approve(approved)
	token := agent.wait(approved.ID).Token
	load := c.underLoad(t)
	programs := append(slices.Clone(c.serves), c.workers...)
	read := 0
	everyone := func() {
		t.Helper()
		read++
		for _, p := range programs {
			if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range programs {
			eventually(t, settleWithin, p.name+" has read the data keys", func() bool { return strings.Count(p.text(), "the data keys were read again") >= read })
		}
	}
	admin := append(slices.Clone(c.env), "HOLDPOINT_DATABASE_ADMIN_URL="+c.OwnerURL)
	added := strings.Fields(must(t, nil, "", "keys", "new", "--for", "data", file))
	everyone()
	must(t, nil, "", "keys", "use", file, added[len(added)-1])
	everyone()
	if early := cli(t, admin, "", "keys", "retire", file); early.code == 0 || !strings.Contains(early.err, "records are sealed with") {
		t.Errorf("retired before anything is sealed anew: %s%s", early.out, early.err)
	}
	if out := must(t, admin, "", "keys", "reseal", "--progress"); !strings.Contains(out, "approvals.sealed_key: 100%") || !strings.Contains(out, "nothing is left") {
		t.Errorf("reseal says %s", out)
	}
	if early := cli(t, admin, "", "keys", "retire", file); early.code == 0 || !strings.Contains(early.err, "last two minutes") {
		t.Errorf("retired while somebody may be sealing: %s%s", early.out, early.err)
	}
	c.superuser("holdpoint", `UPDATE data_keys SET sealed_at = sealed_at - interval '1 hour' WHERE sealed_at <> (SELECT max(sealed_at) FROM data_keys)`)
	must(t, admin, "", "keys", "retire", file)
	everyone()
	// The former file is put back, and one that is half written: nobody takes them.
	now, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, wrong := range [][]byte{former, now[:len(now)/2]} {
		if err := os.WriteFile(file, wrong, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := programs[0].cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, settleWithin, "the wrong file is refused", func() bool { return strings.Count(programs[0].text(), "the data keys stay as they are") > i })
	}
	if said := programs[0].text(); !strings.Contains(said, "records are sealed with the data key") {
		t.Errorf("it does not say how many records need the key: %s", programs[0].tail())
	}
	if err := os.WriteFile(file, now, 0o600); err != nil {
		t.Fatal(err)
	}
	load()
	c.startServe(binary(t)) // with the new key alone
	last := len(c.serves) - 1
	fresh := c.agent(t).at(c.where(last))
	fresh.redeem(token, "data_approved", none()).want(t, 200)
	c.reviewer(t, 1).at(c.where(last)).approve(waiting)
	fresh.wait(waiting.ID)
	if err := c.serves[last].stop(); err != nil {
		t.Error(err)
	}
	c.serves, c.urls = c.serves[:last], c.urls[:last]
	record := string(c.admin(t).do("GET", "/v1/audit/events?type=admin&limit=500", nil).Body)
	if added, removed := strings.Count(record, "DATA_KEY_ADDED"), strings.Count(record, "DATA_KEY_REMOVED"); added != 2 || removed != 1 {
		t.Errorf("%d data keys were added by the log, and %d removed, want 2 and 1", added, removed)
	}
	list := must(t, c.env, "", "keys", "list")
	for _, want := range []string{"tokens ", " signs ", "data ", " seals ", " retired ", "log "} {
		if !strings.Contains(list, want) {
			t.Errorf("no %q in\n%s", want, list)
		}
	}
}

// underLoad has calls made, approved and redeemed on all gates until the function that
// it returns is called, which reports what failed.
func (c *cluster) underLoad(t *testing.T) (end func()) {
	t.Helper()
	stop := make(chan struct{})
	var load sync.WaitGroup
	for i := range 2 {
		agent, reviewer := c.agent(t).at(c.where(i)), c.reviewer(t, 2+i).at(c.where(i+1))
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				tool := fmt.Sprintf("load_%d", i)
				a, err := opened(agent, tool)
				if err != nil {
					t.Error(err)
					return
				}
				if got := reviewer.vote(reviewer.get(a.ID), "approve"); got.Status != 200 {
					t.Errorf("vote: %s", got)
					return
				}
			}
		})
	}
	return func() {
		close(stop)
		load.Wait()
	}
}
