package tests

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// keysOfTwoGates: a gate whose file has no key in common with the others' takes their
// tokens, and they take its own, also when its key is changed while it runs.
func keysOfTwoGates(t *testing.T, c *cluster) {
	t.Helper()
	own, former := filepath.Join(c.dir, "other-keys.json"), c.env
	must(t, nil, "", "key", "rotate", own)
	c.env = append(c.env[:len(c.env):len(c.env)], "HOLDPOINT_SIGNING_KEYS_FILE="+own, "HOLDPOINT_SIGNING_KEY_DELAY=0s")
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
	must(t, nil, "", "key", "rotate", own)
	if err := gate.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, settleWithin, "the new key signs", func() bool { return kid(token(there)) != kid(mine) })
	taken(here, token(there))
	taken(here, mine)
}
