package tests

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cursorHost does what Cursor's documentation says that Cursor does: it runs the commands of
// hooks.json with a call on standard input, lets the call run if they end with 0 and say
// so, and blocks it when they end with 2, or in any other way where failClosed is set.
type cursorHost struct {
	t     *testing.T
	talk  string
	hooks map[string][]struct {
		Command    string
		Timeout    int
		FailClosed bool
		Matcher    string
	}
	calls, runs int
}

// newCursorHost connects a Cursor with settings of its own.
func newCursorHost(t *testing.T, url, key string) *cursorHost {
	t.Helper()
	dir := t.TempDir()
	keyFile, settings := filepath.Join(dir, "key"), filepath.Join(dir, "hooks.json")
	if err := os.WriteFile(keyFile, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, nil, "", "connect", "cursor", "--url", url, "--key-file", keyFile, "--settings", settings, "--state", t.TempDir(), "--deadline", "3s")
	h := &cursorHost{t: t, talk: newID("talk-")}
	var file struct {
		Version int
		Hooks   json.RawMessage
	}
	if err := json.Unmarshal([]byte(fileText(settings)), &file); err != nil || file.Version != 1 {
		t.Fatalf("version %d, %v", file.Version, err)
	}
	if err := json.Unmarshal(file.Hooks, &h.hooks); err != nil {
		t.Fatal(err)
	}
	return h
}

// tell runs the hooks for an event, and reports whether the call may go on, and what they said.
func (h *cursorHost) tell(event string, call map[string]any) (goesOn bool, said string) {
	h.t.Helper()
	all := map[string]any{"conversation_id": h.talk, "generation_id": "g", "model": "m", "hook_event_name": event, "cursor_version": "1", "workspace_roots": []string{"/"}}
	maps.Copy(all, call)
	goesOn = true
	for _, hook := range h.hooks[event] {
		if hook.Matcher != "" {
			h.t.Fatalf("the hook is for %q only", hook.Matcher)
		}
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Duration(hook.Timeout)*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", hook.Command)
		cmd.Env, cmd.Stdin, cmd.WaitDelay = environment(), strings.NewReader(canonical(h.t, all)), time.Second
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		var answer struct{ Permission string }
		var exit *exec.ExitError
		bad := json.Unmarshal([]byte(out.String()), &answer)
		switch {
		case err == nil && (bad == nil && answer.Permission != "deny" || !hook.FailClosed):
		case errors.As(err, &exit) && exit.ExitCode() == 2, hook.FailClosed:
			goesOn = false
		}
		said += out.String() + errs.String()
	}
	return goesOn, said
}

// call makes a call of a tool, which runs if the hook lets it, and tells what came of it.
func (h *cursorHost) call(tool string, input map[string]any, failure ...string) (ran bool, said string) {
	h.t.Helper()
	h.calls++
	call := map[string]any{"tool_name": tool, "tool_input": input, "tool_use_id": newID("tool_"), "cwd": "/"}
	ran, said = h.tell("preToolUse", call)
	event := "postToolUse"
	switch {
	case !ran:
		call["failure_type"] = "permission_denied"
	case len(failure) > 0:
		call["failure_type"] = failure[0]
	}
	if call["failure_type"] != nil {
		event, call["error_message"], call["is_interrupt"] = "postToolUseFailure", "x", false
	}
	if ran && call["failure_type"] != "permission_denied" {
		h.runs++
	}
	call["duration"] = 5.5
	if ok, told := h.tell(event, call); !ok || told != "" {
		h.t.Errorf("told of %s: %s", event, told)
	}
	return ran, said
}

func (h *cursorHost) runsNot(words, tool string, input map[string]any) (said string) {
	h.t.Helper()
	ran, said := h.call(tool, input)
	if ran || !strings.Contains(said, words) {
		h.t.Errorf("%s ran: %t, want %q, and it said %s", tool, ran, words, said)
	}
	return said
}

// waits makes a call that waits, and returns its approval.
func (h *cursorHost) waits(a *clientAgent, tool string, input map[string]any) approval {
	h.t.Helper()
	said := h.runsNot("waits for people", tool, input)
	_, id, _ := strings.Cut(said, "/approvals/")
	id, _, _ = strings.Cut(id, ". ")
	return a.client.get(id)
}

// TestCursorEndings: each call of a host that does as Cursor's documentation says runs once
// at most, however it ends, and in none of them without a permission.
func TestCursorEndings(t *testing.T) {
	d := onHosted(t)
	a := newClientAgent(t, d, clientLanguage{})
	id := a.apart()
	h := newCursorHost(t, a.proxy.url, a.client.key)
	ada := d.reviewer(t, 0)
	executed := func(opened approval, want string) {
		t.Helper()
		a.executed(opened.ID, want)
	}
	shell := func(word string) map[string]any {
		return map[string]any{"command": "echo " + word, "working_directory": "/shop"}
	}
	ran := func(times int) {
		t.Helper()
		if h.runs != times {
			t.Fatalf("%d runs, want %d", h.runs, times)
		}
	}

	if ok, said := h.call("kubectl_get_pods", map[string]any{}); !ok {
		t.Errorf("accepted: %s", said)
	}
	h.runsNot("is refused", "run_query", map[string]any{"sql": "drop table payments"})
	ran(1)

	opened := h.waits(a, "Shell", shell("approve"))
	ada.approve(opened)
	a.client.wait(opened.ID)
	if ok, said := h.call("Shell", shell("approve")); !ok {
		t.Errorf("approved: %s", said)
	}
	executed(opened, "succeeded")
	if again := h.waits(a, "Shell", shell("approve")); again.ID == opened.ID {
		t.Error("one approval permits two runs")
	}
	ran(2)

	opened = h.waits(a, "MCP:pay", map[string]any{"n": 1})
	edited := d.reviewer(t, 1).edit(opened, map[string]any{"n": 2}).want(t, http.StatusOK).approval(t)
	ada.approve(edited)
	a.client.wait(opened.ID)
	h.runsNot(`{"n":2}`, "MCP:pay", map[string]any{"n": 1})
	if ok, said := h.call("MCP:pay", map[string]any{"n": 2}, "error"); !ok {
		t.Errorf("as it was edited: %s", said)
	}
	executed(opened, "failed")
	ran(3)

	// Its user turns it down after all; or it takes too long, and may have had its effect.
	for failure, want := range map[string]string{"permission_denied": "failed", "timeout": "unknown"} {
		opened = h.waits(a, "Shell", shell(failure))
		ada.approve(opened)
		a.client.wait(opened.ID)
		h.call("Shell", shell(failure), failure)
		executed(opened, want)
	}
	ran(4)

	opened = h.waits(a, "Shell", shell("deny"))
	ada.vote(opened, "deny").want(t, http.StatusOK)
	a.client.wait(opened.ID)
	h.runsNot("was not approved: denied", "Shell", shell("deny"))
	brief := newID("brief_")
	a.client.wait(h.waits(a, brief, map[string]any{}).ID)
	h.runsNot("was not approved: expired", brief, map[string]any{})

	// Stopped after it was approved.
	opened = h.waits(a, "Shell", shell("stop"))
	ada.approve(opened)
	a.client.wait(opened.ID)
	turn := func(on bool) {
		d.admin(t).do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": id, "on": on, "reason": "a test"}).want(t, http.StatusOK)
	}
	turn(true)
	h.runsNot("kill", "Shell", shell("stop"))
	turn(false)
	ran(4)

	// No answer, at the check and at the redemption, and killed there.
	opened = h.waits(a, "Shell", shell("down"))
	ada.approve(opened)
	a.client.wait(opened.ID)
	for _, path := range []string{approvalPath(opened.ID), redeemPath} {
		a.proxy.on(func(r *http.Request, _ func()) bool { return r.URL.Path == path })
		h.runsNot("Holdpoint: ", "Shell", shell("down"))
	}
	a.proxy.on(func(*http.Request, func()) bool { return true })
	h.runsNot("Holdpoint: ", "kubectl_get_pods", map[string]any{})
	for _, delivered := range []bool{false, true} {
		opened = h.waitsThrough(a, delivered, shell)
		executed(opened, map[bool]string{false: "none", true: "failed"}[delivered]) // for it has not run
	}
	a.proxy.on(nil)
	ran(4)

	// What was spent when its hook was killed is not run for the asking.
	h.waits(a, "Shell", shell("killed true"))
	// What was not spent goes on.
	if ok, said := h.call("Shell", shell("killed false")); !ok {
		t.Errorf("killed before it had redeemed: %s", said)
	}
	ran(5)
	if events := d.admin(t).events(map[string][]string{"type": {"ungated"}, "agent_id": {id}}); len(events) != 0 {
		t.Errorf("ungated: %+v", events)
	}
}

// waitsThrough has a call approved, and its hook killed while it redeems, before or after
// the server has got that.
func (h *cursorHost) waitsThrough(a *clientAgent, delivered bool, shell func(string) map[string]any) approval {
	h.t.Helper()
	word := map[bool]string{false: "killed false", true: "killed true"}[delivered]
	a.proxy.on(nil)
	opened := h.waits(a, "Shell", shell(word))
	a.d.reviewer(h.t, 0).approve(opened)
	a.client.wait(opened.ID)
	pidFile := filepath.Join(h.t.TempDir(), "pid")
	before := h.hooks["preToolUse"]
	killable := append(before[:0:0], before...)
	// The program says who it is before it takes the place of the shell.
	killable[0].Command = strings.Replace(killable[0].Command, `"$@" ||`, `sh -c '"'"'echo $$ >`+pidFile+`; exec "$@"'"'"' sh "$@" ||`, 1)
	h.hooks["preToolUse"] = killable
	defer func() { h.hooks["preToolUse"] = before }()
	var once sync.Once
	a.proxy.on(func(r *http.Request, deliver func()) bool {
		if r.URL.Path != redeemPath {
			return false
		}
		once.Do(func() {
			if delivered {
				deliver()
			}
			var pid int
			if err := json.Unmarshal([]byte(strings.TrimSpace(fileText(pidFile))), &pid); err != nil {
				h.t.Error(err)
				return
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		})
		return true
	})
	h.runsNot("the call does not run", "Shell", shell(word))
	return opened
}
