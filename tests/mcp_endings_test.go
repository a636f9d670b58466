package tests

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCPEndings: a host that asks by "holdpoint mcp" is permitted a call once, as it was
// approved, and not at all where it was not, whatever becomes of people, server and program.
func TestMCPEndings(t *testing.T) {
	d := onHosted(t)
	id := newID("host-")
	key := d.newKey(t, "--agent", id)
	env := []string{"HOLDPOINT_URL=" + d.URL, "HOLDPOINT_API_KEY=" + key}
	cmd := exec.Command(binary(t), "mcp")
	cmd.Env = environment(env...)
	started, err := connect(t, &mcp.CommandTransport{Command: cmd}, "")
	if err != nil {
		t.Fatal(err)
	}
	var m model = started
	proposed := func(tool string, arguments map[string]any) approval {
		t.Helper()
		return held(t, m.call(t, "aana_pre_tool_check", event(tool, "defer", arguments), nil).good(t))
	}
	await := func(a approval) modelAnswer {
		t.Helper()
		return m.call(t, "holdpoint_await", map[string]any{"approval_id": a.ID, "timeout_seconds": 50}, nil)
	}
	redeem := func(a approval, tool string, arguments map[string]any) modelAnswer {
		t.Helper()
		return m.call(t, "holdpoint_redeem", map[string]any{"approval_id": a.ID, "tool_name": tool, "arguments": arguments}, nil)
	}
	eventually(t, settleWithin, "a new agent is known", func() bool {
		return strings.Contains(string(m.call(t, "aana_pre_tool_check", event("search_docs", "accept", nil), nil).Structured), `"gate_decision":"pass"`)
	})
	one := map[string]any{"n": 1}

	// Edited: what was approved may run, and not what was proposed.
	edited, other := newID("note_"), map[string]any{"n": 2}
	a := proposed(edited, one)
	d.reviewer(t, 1).approve(d.reviewer(t, 0).edit(a, other).want(t, http.StatusOK).approval(t))
	await(a).approval(t)
	redeem(a, edited, one).problem(t, "arguments_mismatch")
	if got := redeem(a, edited, other).good(t); len(got.Structured) == 0 {
		t.Errorf("%+v", got)
	}

	// Killed after that: the next one is not permitted it again.
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	m = overStdio(t, "", env)
	redeem(a, edited, other).problem(t, "nothing_to_redeem")
	if got := d.client(t).with(key).get(a.ID).Execution; got != "redeemed" {
		t.Errorf("it is on record as %s", got)
	}

	brief := newID("brief_")
	a = proposed(brief, one)
	if got := await(a).approval(t); got.Status != "expired" {
		t.Errorf("it is %s", got.Status)
	}
	redeem(a, brief, one).problem(t, "not_approved")

	// Stopped after it was approved.
	stopped := newID("note_")
	a = proposed(stopped, one)
	d.reviewer(t, 0).approve(a)
	await(a).approval(t)
	d.admin(t).do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": id, "on": true, "reason": "a test"}).want(t, http.StatusOK)
	redeem(a, stopped, one).problem(t, "kill_switch")

	// No server, and one that does not know the key.
	for code, env := range map[string]string{"unreachable": "HOLDPOINT_URL=http://127.0.0.1:1", "unauthenticated": "HOLDPOINT_API_KEY=hp_wrong"} {
		m = overStdio(t, "", []string{"HOLDPOINT_URL=" + d.URL, "HOLDPOINT_API_KEY=" + key, env})
		m.call(t, "aana_pre_tool_check", event("search_docs", "accept", one), nil).problem(t, code)
		redeem(a, stopped, one).problem(t, code)
	}
}
