package tests

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// hookHost is a coding agent, as far as its hooks are told apart.
type hookHost struct {
	name, before, after, failed string
	nameless                    bool // it tells no ids of calls
	answers                     bool // it reads an answer, not only the program's code
	reasons                     bool // it reads from standard output why a call does not run
	plugin                      bool // its hooks are in a file of ours, and not in settings
	flat                        bool // an entry of its settings is a hook, which has to say that a call may run
	file                        string
}

// wrong says what is wrong with what a host is told of a call that does not run; "" for nothing.
func (h hookHost) wrong(c command) string {
	if !h.reasons && c.out == "" {
		return ""
	}
	if h.flat {
		var denial struct {
			Permission string
			User       string `json:"user_message"`
			Model      string `json:"agent_message"`
		}
		reason := strings.TrimSpace(c.err)
		if err := json.Unmarshal([]byte(c.out), &denial); err != nil || denial.Permission != "deny" || denial.User != reason || denial.Model != reason {
			return "the answer is " + c.out
		}
		return ""
	}
	var denial struct {
		Decision string `json:"permissionDecision"`
		Reason   string `json:"permissionDecisionReason"`
	}
	if err := json.Unmarshal([]byte(c.out), &denial); err != nil || !h.reasons || denial.Decision != "deny" || denial.Reason != strings.TrimSpace(c.err) {
		return "the answer is " + c.out
	}
	return ""
}

var hookHosts = []hookHost{
	{name: "claude-code", before: "PreToolUse", after: "PostToolUse", failed: "PostToolUseFailure", answers: true, file: ".claude/settings.json"},
	{name: "codex", before: "PreToolUse", after: "PostToolUse", file: ".codex/hooks.json"},
	{name: "gemini-cli", before: "BeforeTool", after: "AfterTool", nameless: true, file: ".gemini/settings.json"},
	{name: "copilot-cli", before: "PreToolUse", after: "PostToolUse", failed: "PostToolUseFailure", nameless: true, reasons: true, file: ".copilot/hooks/holdpoint.json"},
	{name: "opencode", before: "tool.execute.before", after: "tool.execute.after", failed: "tool.execute.error", plugin: true, file: ".config/opencode/plugins/holdpoint.js"},
	{name: "cursor", before: "preToolUse", after: "postToolUse", failed: "postToolUseFailure", reasons: true, flat: true, file: ".cursor/hooks.json"},
}

// hookRun runs a hook as its host does.
type hookRun struct {
	t             testing.TB
	d             *dev
	host          hookHost
	state, prefix string
}

func (d *dev) hookOf(t testing.TB, host hookHost) *hookRun {
	return &hookRun{t, d, host, t.TempDir(), newID("s-")}
}

// tell runs the hook for an event of a call.
func (h *hookRun) tell(event, call, tool string, arguments any, flags ...string) command {
	h.t.Helper()
	said := map[string]any{
		"hook_event_name": event, "session_id": h.prefix, "tool_use_id": call, "tool_name": tool, "tool_input": arguments, "cwd": "/", "duration_ms": 7,
	}
	if h.host.nameless {
		delete(said, "tool_use_id")
	}
	if h.host.flat {
		said["conversation_id"], said["duration"] = said["session_id"], 7.5
		delete(said, "session_id")
		delete(said, "duration_ms")
	}
	if event == "failed" { // where it is no event of its own
		said["hook_event_name"], said["tool_response"] = h.host.after, map[string]any{"error": map[string]any{"message": "no"}}
	}
	in, err := json.Marshal(said)
	if err != nil {
		h.t.Fatal(err)
	}
	flags = append([]string{"hook", h.host.name, "--data", h.d.dir, "--state", h.state}, flags...)
	return cli(h.t, nil, string(in), flags...)
}

func (h *hookRun) before(call, tool string, arguments any, flags ...string) command {
	h.t.Helper()
	return h.tell(h.host.before, call, tool, arguments, flags...)
}

// waits is before for a call that has to wait; it returns its approval's id.
func (h *hookRun) waits(call, tool string, arguments any) string {
	h.t.Helper()
	c := h.before(call, tool, arguments)
	_, id, found := strings.Cut(c.err, "/approvals/")
	if c.code != 2 || !found || h.host.wrong(c) != "" || !strings.Contains(c.err, "waits for people") {
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
	if c.out == "" && !h.host.flat || h.host.flat && strings.TrimSpace(c.out) == `{"permission":"allow"}` {
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
	if c := h.before(call, tool, arguments, flags...); c.code != 2 || h.host.wrong(c) != "" || !strings.Contains(c.err, why) {
		h.t.Errorf("want %q\nexit %d\n%s%s", why, c.code, c.out, c.err)
	}
}

// TestHook: a coding agent's calls run when the rules or people permit them, each
// approved one once, and never otherwise.
func TestHook(t *testing.T) {
	d := onHosted(t)
	for _, host := range hookHosts {
		if host.flat { // TestCursorEndings
			continue
		}
		t.Run(host.name, func(t *testing.T) {
			t.Parallel()
			testHook(t, d, host)
		})
	}
}

func testHook(t *testing.T, d *dev, host hookHost) {
	h, ada := d.hookOf(t, host), d.reviewer(t, 0)
	args := func(name string) map[string]any { return map[string]any{"command": name + " " + h.prefix[2:7]} } // a longer word could be a secret

	// Accepted by the rules: the host's own permissions still count, unless they need not.
	must(t, nil, "", "tool", "set", "Lookup-"+h.prefix, "--data", d.dir, "--category", "public_read")
	eventually(t, seeWithin, "the tool's registration", func() bool { return h.before("a0", "Lookup-"+h.prefix, args("x")).code == 0 })
	if got := h.runs("a1", "Lookup-"+h.prefix, args("x")); got != nil {
		t.Errorf("answered %v", got)
	}
	if host.answers {
		if got := h.runs("a2", "Lookup-"+h.prefix, args("x"), "--allow-accepted"); got == nil {
			t.Error("it is not allowed")
		}
	}

	// Waits; the same call again waits for the same people; approved, it runs once.
	id := h.waits("b1", "Bash", args("approve"))
	if again := h.waits("b2", "Bash", args("approve")); again != id {
		t.Errorf("asked anew: %s and %s", id, again)
	}
	ada.approve(d.agent(t).get(id))
	if got := h.runs("b3", "Bash", args("approve")); (got != nil) != host.answers || got["updatedInput"] != nil {
		t.Errorf("answered %v", got)
	}
	if !host.nameless { // another of the host's settings names the hook as well
		if got := h.runs("b3", "Bash", args("approve")); (got != nil) != host.answers {
			t.Errorf("the second hook of the try answered %v", got)
		}
	}
	h.after(id, "succeeded", host.after, "b3", args("approve"))
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

	h.edited(args("edit"), args("safer"))

	// A no is a no, and the next try asks anew.
	id = h.waits("e1", "Bash", args("deny"))
	ada.vote(d.agent(t).get(id), "deny").want(t, 200)
	h.blocked("was not approved: denied", "e2", "Bash", args("deny"))

	// A call that ran without a decision is on record, by name and not by argument.
	ungated := []string{host.after}
	if host.failed != "" {
		ungated = append(ungated, host.failed)
	}
	for _, event := range ungated {
		if c := h.tell(event, "f-"+event, "Ungated-"+h.prefix, args("secret")); c.code != 0 {
			t.Fatalf("exit %d\n%s", c.code, c.err)
		}
	}
	events := d.admin(t).events(url.Values{"type": {"ungated"}, "tool_name": {"Ungated-" + h.prefix}})
	if len(events) != len(ungated) || events[0].Reasons[0].Code != "UNGATED_EXECUTION" || strings.Contains(string(events[0].Safe), "secret") || events[0].DigestHMAC == "" {
		t.Errorf("on record: %+v", events)
	}
}

// after tells the hook that a call has run, and looks at what that is on record as.
func (h *hookRun) after(id, outcome, event, call string, arguments any) {
	h.t.Helper()
	c := h.tell(event, call, "Bash", arguments)
	if got := h.d.agent(h.t).get(id); c.code != 0 || c.err != "" || got.Execution != outcome {
		h.t.Errorf("after it: %s, exit %d\n%s", got.Execution, c.code, c.err)
	}
}

// edited: a reviewer's changes are what runs. A host that takes no changes is told them,
// and runs the changed call in place of the other.
func (h *hookRun) edited(was, safer map[string]any) {
	h.t.Helper()
	t, d := h.t, h.d
	id := h.waits("d1", "Bash", was)
	a := d.agent(t).get(id)
	d.reviewer(t, 0).do("POST", approvalPath(id)+"/edits", map[string]any{"digest": a.Digest, "version": a.Version, "arguments": safer, "comment": "so"}).want(t, 200)
	d.reviewer(t, 1).approve(d.agent(t).get(id))
	failed := cmp.Or(h.host.failed, "failed")
	if h.host.answers {
		got := h.runs("d2", "Bash", was)
		if changed, _ := got["updatedInput"].(map[string]any); changed["command"] != safer["command"] {
			t.Errorf("runs with %v", got)
		}
		h.after(id, "failed", failed, "d2", safer)
		return
	}
	for range 2 {
		h.blocked(`{"command":"`+safer["command"].(string)+`"}`, "d2", "Bash", was)
	}
	if got := h.runs("d3", "Bash", safer); got != nil {
		t.Errorf("answered %v", got)
	}
	if h.host.nameless {
		h.after(id, "failed", failed, "d3", safer)
	} else { // it does not say whether a call has failed
		h.after(id, "succeeded", h.host.after, "d3", safer)
	}
	if next := h.waits("d4", "Bash", safer); next == id {
		t.Error("the same approval permits a second run")
	}
}

// TestHookFails: whatever fails, the call is blocked, by the only code that blocks, and
// with a reason, without which Codex runs it.
func TestHookFails(t *testing.T) {
	d := onHosted(t)
	for _, host := range hookHosts {
		h := d.hookOf(t, host)
		args := map[string]any{"command": "x"}
		said := func(more string) string {
			return `{"hook_event_name":"` + host.before + `","session_id":"s","tool_use_id":"t",` + more + `}`
		}
		for _, in := range []string{
			"", "{", "null", `{"hook_event_name":"` + host.before + `"}`, said(`"tool_name":"Bash","tool_input":[1]`),
			`{"hook_event_name":"Stop","session_id":"s","tool_use_id":"t","tool_name":"Bash"}`,
			`{"hook_event_name":"` + host.before + `","tool_use_id":"t","tool_name":"Bash"}`,
			`{"session_id":"s","tool_use_id":"t","tool_name":"Bash"}`,
		} {
			if c := cli(t, nil, in, "hook", host.name, "--data", d.dir, "--state", h.state); c.code != 2 || c.err == "" || host.wrong(c) != "" {
				t.Errorf("%s: %q: exit %d\n%s", host.name, in, c.code, c.err)
			}
		}
		if c := h.before("x", "Bash", args, "--no-such-flag"); c.code != 2 {
			t.Errorf("a flag that there is not: exit %d", c.code)
		}
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte("hp_none\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		flags := []string{"hook", host.name, "--url", d.URL, "--key-file", file, "--state", h.state}
		if c := cli(t, nil, said(`"tool_name":"Bash","tool_input":{}`), flags...); c.code != 2 || !strings.Contains(c.err, "unauthenticated") {
			t.Errorf("a wrong key: exit %d\n%s", c.code, c.err)
		}
		h.state = file // no place for what it has to remember
		h.blocked("keep what is known", "y", "Bash", args)
	}
}

// TestConnectHosts: the settings get the hook beside what was there, once, and doctor
// proves that it blocks; a hook that does not is found.
func TestConnectHosts(t *testing.T) {
	d := onHosted(t)
	for _, host := range hookHosts {
		t.Run(host.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			file := filepath.Join(home, host.file)
			was := `{"model":"m","hooks":{"` + host.before + `":[{"matcher":"Bash","hooks":[{"type":"command","command":"a && b"}]}],"Stop":[{"hooks":[]}]}}`
			if host.plugin {
				was = "// a former one"
			}
			if host.flat {
				was = `{"model":"m","hooks":{"` + host.before + `":[{"command":"a && b","matcher":"Shell"}],"Stop":[{"command":"c"}]}}`
			}
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(was), 0o600); err != nil {
				t.Fatal(err)
			}
			env := []string{"HOME=" + home, "CODEX_HOME=", "CLAUDE_CONFIG_DIR=", "COPILOT_HOME=", "XDG_CONFIG_HOME="}
			for range 2 { // the user's own settings, without being told where they are
				must(t, env, "", "connect", host.name, "--data", d.dir, "--deadline", "5s")
			}
			text, hooks := fileText(file), 2
			if host.failed != "" && !host.plugin {
				hooks = 3
			}
			if strings.Count(text, " hook "+host.name+" ") != hooks {
				t.Errorf("settings\n%s", text)
			}
			if host.plugin {
				if fileText(file+".before-holdpoint") != was {
					t.Error("the former plugin is not kept")
				}
			} else if !strings.Contains(text, `"a && b"`) || !strings.Contains(text, `"model": "m"`) || !strings.Contains(text, `"Stop"`) {
				t.Errorf("settings\n%s", text)
			}
			checks := 15
			if host.flat {
				checks++
			}
			if out := must(t, env, "", "doctor", host.name, "--settings", file); strings.Count("\n"+out, "\nok ") != checks {
				t.Errorf("doctor says\n%s", out)
			}
			narrow := strings.ReplaceAll(strings.ReplaceAll(text, `"matcher": "*"`, `"matcher": "Bash"`), `"timeout": 15`, `"timeout": 5`)
			loose := map[string][]string{
				strings.ReplaceAll(text, " || exit 2", " || exit 1"):       {"it was not run"},
				strings.ReplaceAll(text, `/bin/sh -c '`, `/bin/bash -c '`): {"it was not run"},
			}
			if host.flat {
				loose[strings.ReplaceAll(text, `"failClosed": true`, `"failClosed": false`)] = []string{"failClosed is not set"}
				narrow = strings.ReplaceAll(narrow, `"failClosed": true`, `"failClosed": true, "matcher": "Shell"`)
			}
			if !host.plugin {
				loose[narrow] = []string{"Give it the matcher", "gives up"}
			}
			switch host.name {
			case "cursor":
				if !strings.Contains(text, `"version": 1`) || strings.Count(text, `"failClosed": true`) != 1 {
					t.Errorf("settings without their version, or that let calls run\n%s", text)
				}
			case "copilot-cli":
				if !strings.Contains(text, `"version": 1`) {
					t.Errorf("settings without their version\n%s", text)
				}
				fallthrough
			case "claude-code":
				loose[strings.Replace(text, `"hooks": {`, `"disableAllHooks": true, "hooks": {`, 1)] = []string{"disableAllHooks"}
			case "opencode":
				loose[strings.ReplaceAll(text, `"timeout":15000`, `"timeout":5000`)] = []string{"gives up"}
				loose[strings.ReplaceAll(text, "code === 0", "code !== 1")] = []string{"not as"}
				if c := cli(t, append(env, "OPENCODE_PURE=1"), "", "doctor", host.name, "--settings", file); c.code != 1 || !strings.Contains(c.out, "OPENCODE_PURE") {
					t.Errorf("without plugins: exit %d\n%s", c.code, c.out)
				}
			case "gemini-cli":
				loose[strings.Replace(text, `"hooks": {`, `"hooksConfig": {"enabled": false}, "hooks": {`, 1)] = []string{"hooksConfig"}
				loose[strings.Replace(text, `"hooks": {`, `"hooksConfig": {"disabled": ["x hook gemini-cli y"]}, "hooks": {`, 1)] = []string{"hooksConfig"}
			}
			for text, finds := range loose {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				c := cli(t, env, "", "doctor", host.name, "--settings", file)
				for _, words := range finds {
					if c.code != 1 || !strings.Contains(c.out, words) {
						t.Errorf("want %q, exit %d\n%s", words, c.code, c.out)
					}
				}
			}
			if c := cli(t, env, "", "connect", host.name, "--url", d.URL, "--settings", file); c.code == 0 || !strings.Contains(c.err, "--key-file") {
				t.Errorf("without a key: exit %d\n%s", c.code, c.err)
			}
		})
	}
}

// TestOpenCodePlugin: a program that does not end in time does not go on behind the plugin's
// back, and neither does one of a host that ends. Whatever the line does, the call runs only
// when it ends with 0.
func TestOpenCodePlugin(t *testing.T) {
	needs(t, "node")
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("hp_none"), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin := must(t, nil, "", "connect", "opencode", "--url", "http://127.0.0.1:1", "--key-file", key, "--program", "/bin/holdpoint", "--dry-run")
	told := regexp.MustCompile(`const holdpoint = \{.*\}`)
	tries := func(line, then string) string {
		t.Helper()
		lines, err := json.Marshal(map[string]any{"before": line, "after": line, "timeout": 500})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "plugin.mjs"), []byte(told.ReplaceAllLiteralString(plugin, "const holdpoint = "+string(lines))), 0o600); err != nil {
			t.Fatal(err)
		}
		script := `import plugin from "./plugin.mjs"
const { "tool.execute.before": before } = await plugin({})
const asked = before({ tool: "bash", sessionID: "s", callID: "c" }, { args: { command: "x" } })
` + then
		if err := os.WriteFile(filepath.Join(dir, "host.mjs"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("node", "host.mjs")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	const says = `console.log(await asked.then(() => "runs", (error) => error.message))`
	if got := tries("cat >/dev/null; exit 0", says); got != "runs" {
		t.Errorf("permitted: %s", got)
	}
	for line, want := range map[string]string{
		"echo no >&2; exit 2": "no", "exit 1": "does not run", "kill -9 $$": "does not run", "exec 0<&-; exit 3": "does not run",
	} {
		if got := tries(line, says); !strings.Contains(got, want) {
			t.Errorf("%s: %s", line, got)
		}
	}
	// Where the machine's settings leave no model without the plugin, it gives them back, and takes nobody's own.
	models := `const { config } = await plugin({})
asked.catch(() => {})
const given = { enabled_providers: %s }
await config(given)
console.log(JSON.stringify(given))`
	for was, want := range map[string]string{`["holdpoint"]`: `{}`, `["a"]`: `{"enabled_providers":["a"]}`} {
		if got := tries("exit 2", strings.Replace(models, "%s", was, 1)); got != want {
			t.Errorf("of %s it makes %s, want %s", was, got, want)
		}
	}
	pid := filepath.Join(dir, "pid")
	const hangs = "sleep 600 & echo $! > pid; wait"
	dies := func(what string) {
		t.Helper()
		id, err := strconv.Atoi(strings.TrimSpace(fileText(pid)))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, seeWithin, what, func() bool {
			return syscall.Kill(id, 0) != nil || strings.Contains(fileText("/proc/"+strconv.Itoa(id)+"/stat"), ") Z ") // nobody may have asked for its end
		})
		if err := os.Remove(pid); err != nil {
			t.Error(err)
		}
	}
	if got := tries(hangs, says); !strings.Contains(got, "no answer in time") {
		t.Errorf("it hangs: %s", got)
	}
	dies("what the line had started is gone")
	tries(hangs, `import { existsSync, readFileSync } from "node:fs"
asked.catch(() => {})
while (!existsSync("pid") || !readFileSync("pid", "utf8").endsWith("\n")) await new Promise((resolve) => setTimeout(resolve, 5))
process.exit(0)`)
	dies("it is gone with its host")
}

// TestUngatedBody: a report that cannot be read is refused, and says where.
func TestUngatedBody(t *testing.T) {
	c := onHosted(t).agent(t)
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
