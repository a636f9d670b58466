package tests

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hookRun runs Claude Code's hook as Claude Code does.
type hookRun struct {
	t             testing.TB
	d             *dev
	state, prefix string
}

func (d *dev) hook(t testing.TB) *hookRun {
	return &hookRun{t, d, t.TempDir(), newID("s-")}
}

// tell runs the hook for an event of a call.
func (h *hookRun) tell(event, call, tool string, arguments any, flags ...string) command {
	h.t.Helper()
	in, err := json.Marshal(map[string]any{
		"hook_event_name": event, "session_id": h.prefix, "tool_use_id": call, "tool_name": tool, "tool_input": arguments, "cwd": "/", "duration_ms": 7,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	flags = append([]string{"hook", "claude-code", "--data", h.d.dir, "--state", h.state}, flags...)
	return cli(h.t, nil, string(in), flags...)
}

func (h *hookRun) before(call, tool string, arguments any, flags ...string) command {
	h.t.Helper()
	return h.tell("PreToolUse", call, tool, arguments, flags...)
}

// waits is before for a call that has to wait; it returns its approval's id.
func (h *hookRun) waits(call, tool string, arguments any) string {
	h.t.Helper()
	c := h.before(call, tool, arguments)
	_, id, found := strings.Cut(c.err, "/approvals/")
	if c.code != 2 || !found || c.out != "" || !strings.Contains(c.err, "waits for people") {
		h.t.Fatalf("exit %d\n%s%s", c.code, c.out, c.err)
	}
	id, _, _ = strings.Cut(id, ". ")
	return strings.TrimSpace(id)
}

// runs is before for a call that may run.
func (h *hookRun) runs(call, tool string, arguments any, flags ...string) map[string]any {
	h.t.Helper()
	c := h.before(call, tool, arguments, flags...)
	if c.code != 0 || c.err != "" {
		h.t.Fatalf("exit %d\n%s%s", c.code, c.out, c.err)
	}
	if c.out == "" {
		return nil
	}
	var answer struct {
		Output map[string]any `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(c.out), &answer); err != nil || answer.Output["permissionDecision"] != "allow" {
		h.t.Fatalf("answer %s: %v", c.out, err)
	}
	return answer.Output
}

// blocked is before for a call that must not run, for a reason.
func (h *hookRun) blocked(why, call, tool string, arguments any, flags ...string) {
	h.t.Helper()
	if c := h.before(call, tool, arguments, flags...); c.code != 2 || c.out != "" || !strings.Contains(c.err, why) {
		h.t.Errorf("want %q\nexit %d\n%s%s", why, c.code, c.out, c.err)
	}
}

// TestHook: a coding agent's calls run when the rules or people permit them, each
// approved one once, and never otherwise.
func TestHook(t *testing.T) {
	d := onShared(t)
	h, ada := d.hook(t), d.reviewer(t, 0)
	args := func(name string) map[string]any { return map[string]any{"command": name + " " + h.prefix[2:7]} } // a longer word could be a secret

	// Accepted by the rules: the host's own permissions still count, unless they need not.
	must(t, nil, "", "tool", "set", "Lookup-"+h.prefix, "--data", d.dir, "--category", "public_read")
	eventually(t, seeWithin, "the tool's registration", func() bool { return h.before("a0", "Lookup-"+h.prefix, args("x")).code == 0 })
	if got := h.runs("a1", "Lookup-"+h.prefix, args("x")); got != nil {
		t.Errorf("answered %v", got)
	}
	if got := h.runs("a2", "Lookup-"+h.prefix, args("x"), "--allow-accepted"); got == nil {
		t.Error("it is not allowed")
	}

	// Waits; the same call again waits for the same people; approved, it runs once.
	id := h.waits("b1", "Bash", args("approve"))
	if again := h.waits("b2", "Bash", args("approve")); again != id {
		t.Errorf("asked anew: %s and %s", id, again)
	}
	ada.approve(d.agent(t).get(id))
	if got := h.runs("b3", "Bash", args("approve")); got == nil || got["updatedInput"] != nil {
		t.Errorf("answered %v", got)
	}
	if c := h.tell("PostToolUse", "b3", "Bash", args("approve")); c.code != 0 || c.err != "" {
		t.Errorf("after it: exit %d\n%s", c.code, c.err)
	}
	if got := d.agent(t).get(id); got.Execution != "succeeded" {
		t.Errorf("execution %s", got.Execution)
	}
	if next := h.waits("b4", "Bash", args("approve")); next == id {
		t.Error("the same approval permits a second run")
	}

	// Several tries at one moment: one of them runs.
	id = h.waits("c0", "Bash", args("race"))
	ada.approve(d.agent(t).get(id))
	codes := make([]command, 6)
	together(len(codes), func(i int) { codes[i] = h.before(newID("c-"), "Bash", args("race")) })
	ran := 0
	for _, c := range codes {
		if c.code == 0 {
			ran++
		} else if c.code != 2 {
			t.Errorf("exit %d\n%s", c.code, c.err)
		}
	}
	if ran != 1 {
		t.Errorf("%d of %d ran: %+v", ran, len(codes), codes)
	}

	// A reviewer's changes are what runs.
	id = h.waits("d1", "Bash", args("edit"))
	edited := d.agent(t).get(id)
	ada.do("POST", approvalPath(id)+"/edits", map[string]any{"digest": edited.Digest, "version": edited.Version, "arguments": args("safer"), "comment": "so"}).want(t, 200)
	d.reviewer(t, 1).approve(d.agent(t).get(id))
	got := h.runs("d2", "Bash", args("edit"))
	if changed, _ := got["updatedInput"].(map[string]any); changed["command"] != args("safer")["command"] {
		t.Errorf("runs with %v", got)
	}
	if c := h.tell("PostToolUseFailure", "d2", "Bash", args("safer")); c.code != 0 || d.agent(t).get(id).Execution != "failed" {
		t.Errorf("after it: exit %d\n%s", c.code, c.err)
	}

	// A no is a no, and the next try asks anew.
	id = h.waits("e1", "Bash", args("deny"))
	ada.vote(d.agent(t).get(id), "deny").want(t, 200)
	h.blocked("was not approved: denied", "e2", "Bash", args("deny"))

	// A call that ran without a decision is on record, by name and not by argument.
	for _, event := range []string{"PostToolUse", "PostToolUseFailure"} {
		if c := h.tell(event, "f-"+event, "Ungated-"+h.prefix, args("secret")); c.code != 0 {
			t.Fatalf("exit %d\n%s", c.code, c.err)
		}
	}
	events := d.admin(t).events(url.Values{"type": {"ungated"}, "tool_name": {"Ungated-" + h.prefix}})
	if len(events) != 2 || events[0].Reasons[0].Code != "UNGATED_EXECUTION" || strings.Contains(string(events[0].Safe), "secret") || events[0].DigestHMAC == "" {
		t.Errorf("on record: %+v", events)
	}
}

// TestHookFails: whatever fails, the call is blocked, by the only code that blocks.
func TestHookFails(t *testing.T) {
	d := onShared(t)
	h := d.hook(t)
	args := map[string]any{"command": "x"}
	for _, in := range []string{"", "{", "null", `{"hook_event_name":"PreToolUse"}`, `{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"t","tool_name":"Bash","tool_input":[1]}`, `{"hook_event_name":"Stop","session_id":"s","tool_use_id":"t","tool_name":"Bash"}`} {
		if c := cli(t, nil, in, "hook", "claude-code", "--data", d.dir, "--state", h.state); c.code != 2 || c.err == "" {
			t.Errorf("%q: exit %d\n%s", in, c.code, c.err)
		}
	}
	if c := h.before("x", "Bash", args, "--no-such-flag"); c.code != 2 {
		t.Errorf("a flag that there is not: exit %d", c.code)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("hp_none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"hook", "claude-code", "--url", d.URL, "--key-file", file, "--state", h.state}
	call := `{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"t","tool_name":"Bash","tool_input":{}}`
	if c := cli(t, nil, call, flags...); c.code != 2 || !strings.Contains(c.err, "unauthenticated") {
		t.Errorf("a wrong key: exit %d\n%s", c.code, c.err)
	}
	h.state = file // no place for what it has to remember
	h.blocked("keep what is known", "y", "Bash", args)
}

// TestConnectClaudeCode: the settings get the hook beside what was there, once, and
// doctor proves that it blocks; a hook that does not is found.
func TestConnectClaudeCode(t *testing.T) {
	d := onShared(t)
	file := filepath.Join(t.TempDir(), "settings.json")
	was := `{"model":"m","hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"a && b"}]}],"Stop":[{"hooks":[]}]}}`
	if err := os.WriteFile(file, []byte(was), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		must(t, nil, "", "connect", "claude-code", "--data", d.dir, "--settings", file, "--deadline", "5s")
	}
	text := fileText(file)
	if strings.Count(text, " hook claude-code ") != 3 || !strings.Contains(text, `"a && b"`) || !strings.Contains(text, `"model": "m"`) || !strings.Contains(text, `"Stop"`) {
		t.Errorf("settings\n%s", text)
	}
	if out := must(t, nil, "", "doctor", "claude-code", "--settings", file); strings.Count("\n"+out, "\nok ") != 13 {
		t.Errorf("doctor says\n%s", out)
	}
	loose := strings.ReplaceAll(text, " || exit 2", " || exit 1")
	if err := os.WriteFile(file, []byte(loose), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := cli(t, nil, "", "doctor", "claude-code", "--settings", file); c.code != 1 || !strings.Contains(c.out, "it was not run") {
		t.Errorf("exit %d\n%s", c.code, c.out)
	}
	if c := cli(t, nil, "", "connect", "claude-code", "--url", d.URL, "--settings", file); c.code == 0 || !strings.Contains(c.err, "--key-file") {
		t.Errorf("without a key: exit %d\n%s", c.code, c.err)
	}
}

// TestUngatedBody: a report that cannot be read is refused, and says where.
func TestUngatedBody(t *testing.T) {
	c := onShared(t).agent(t)
	for body, path := range map[string]string{
		`{"outcome":"succeeded"}`:                                              "/tool_name",
		`{"tool_name":"x","outcome":"maybe"}`:                                  "/outcome",
		`{"tool_name":"x","outcome":"failed","arguments":[]}`:                  "/arguments",
		`{"tool_name":"x","outcome":"failed","else":1}`:                        "/else",
		`{"tool_name":"","outcome":"failed"}`:                                  "/tool_name",
		`{"tool_name":"` + strings.Repeat("x", 3000) + `","outcome":"failed"}`: "",
	} {
		a := c.do("POST", "/v1/executions/ungated", json.RawMessage(body)).want(t, http.StatusUnprocessableEntity)
		if !strings.Contains(string(a.Body), path) {
			t.Errorf("%s: %s", body, a)
		}
	}
}
