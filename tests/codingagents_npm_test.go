//go:build npm

package tests

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// standIn stands in for the model of a coding agent: it has tools called, one after
// another, and says done. Nothing of what it is asked counts.
type standIn struct {
	agent   *codingAgent
	mu      sync.Mutex
	steps   []modelStep
	results []string // what the host says became of the calls
}

// modelStep is a command for the shell; before runs first, when the result of the former
// one is there.
type modelStep struct {
	shell  string
	before func(results []string)
}

func (m *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	results, asks := m.agent.results(r.URL.Path, body)
	if !asks { // it is asked for a title or the like
		m.agent.says(w, r, nil)
		return
	}
	m.mu.Lock()
	m.results = results
	m.mu.Unlock()
	n := len(results)
	if n >= len(m.steps) {
		m.agent.says(w, r, nil)
		return
	}
	if m.steps[n].before != nil {
		m.steps[n].before(results)
	}
	m.agent.says(w, r, &m.steps[n].shell)
}

// codingAgent is a coding agent itself, as it is released.
type codingAgent struct {
	hookHost
	shell string // what its hooks call the shell
	// command runs it with a home of its own and a model at an address. Every permission
	// of its own is off: what keeps a call from running is the hook alone.
	command func(t *testing.T, home, model string) *exec.Cmd
	// results are what a request for the model says became of its calls.
	results func(path string, body []byte) (results []string, asks bool)
	// says answers for the model: with a command for the shell, or that it is done.
	says func(w http.ResponseWriter, r *http.Request, shell *string)
}

var codingAgents = []codingAgent{
	{hookHost: hookHosts[0], shell: "Bash", command: claudeCode, results: claudeCodeResults, says: claudeCodeSays},
	{hookHost: hookHosts[1], shell: "Bash", command: codex, results: codexResults, says: codexSays},
	{hookHost: hookHosts[2], shell: "run_shell_command", command: geminiCLI, results: geminiCLIResults, says: geminiCLISays},
	{hookHost: hookHosts[3], shell: "Bash", command: copilotCLI, results: completionResults, says: completionSays},
	{hookHost: hookHosts[4], shell: "bash", command: openCode, results: completionResults, says: completionSays},
}

// codingRun is a test of a coding agent in a directory of its own.
type codingRun struct {
	*codingAgent
	t         *testing.T
	d         *dev
	home, dir string
}

// ran is what the commands have written, in order.
func (c *codingRun) ran() string {
	return strings.Join(strings.Fields(fileText(filepath.Join(c.dir, "ran"))), " ")
}

func word(w string) string { return "echo " + w + " >> ran" }

// goes runs the agent until it is done, or is killed, and returns what the model was told
// became of its calls.
func (c *codingRun) goes(steps ...modelStep) []string {
	c.t.Helper()
	results, err := c.starts(nil, steps...)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(results) != len(steps) {
		c.t.Fatalf("%d of %d calls were made: %q", len(results), len(steps), results)
	}
	return results
}

func (c *codingRun) starts(begun func(pid int), steps ...modelStep) ([]string, error) {
	c.t.Helper()
	model := &standIn{agent: c.codingAgent, steps: steps}
	server := httptest.NewServer(model)
	defer server.Close()
	cmd := c.command(c.t, c.home, server.URL)
	cmd.Dir = c.dir
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"), "HOME="+c.home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if begun != nil {
		begun(cmd.Process.Pid)
	}
	endsBy(c.t, cmd)
	err := cmd.Wait()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", c.name, err, out.String())
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	return model.results, err
}

// approval is the one that the model was told of last.
func (c *codingRun) approval(results []string) approval {
	last := results[len(results)-1]
	_, id, _ := strings.Cut(last, "/approvals/")
	id, _, _ = strings.Cut(id, ". ")
	return c.d.agent(c.t).get(id)
}

// codingPolicy accepts and refuses by what a command says; everything else waits.
const codingPolicy = `version: "2"
generated_at: "NOW"
expires_at: "2036-01-01T00:00:00Z"
defaults:
  outcome: REQUIRE_APPROVAL
rules:
  - id: test-accept
    description: Is accepted.
    match: {tool_name: [Bash, bash, run_shell_command], environment: "*"}
    when: {tool_args_match: {command: "echo accepted >> ran"}}
    outcome: ALLOW
  - id: test-refuse
    description: Is refused.
    match: {tool_name: [Bash, bash, run_shell_command], environment: "*"}
    when: {matches_regex: refused}
    outcome: DENY
  - id: test-brief
    description: Waits briefly.
    match: {tool_name: [Bash, bash, run_shell_command], environment: "*"}
    when: {matches_regex: brief}
    outcome: REQUIRE_APPROVAL
    approval: {expires_in: 1s}
`

// TestCodingAgents puts Holdpoint before the tools of coding agents themselves: a call
// runs when it is accepted, or once when it is approved, as it was approved, and not when
// it is refused, denied, too late or stopped, or when anything fails.
func TestCodingAgents(t *testing.T) {
	for _, agent := range codingAgents {
		t.Run(agent.name, func(t *testing.T) {
			t.Parallel()
			c := &codingRun{codingAgent: &agent, t: t, home: t.TempDir(), dir: t.TempDir()}
			agent.command(t, c.home, "") // is it there?
			c.d = startDev(t, nil)
			if err := os.WriteFile(filepath.Join(c.d.dir, "policy.yaml"), []byte(strings.Replace(codingPolicy, "NOW", time.Now().UTC().Format(time.RFC3339), 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			eventually(t, seeWithin, "the policy is in force", func() bool {
				return c.d.hookOf(t, agent.hookHost).before("x", agent.shell, map[string]any{"command": word("accepted")}).code == 0
			})
			must(t, []string{"HOME=" + c.home, "CODEX_HOME=", "CLAUDE_CONFIG_DIR=", "COPILOT_HOME=", "XDG_CONFIG_HOME="}, "", "connect", c.name, "--data", c.d.dir, "--state", t.TempDir())
			c.decides()
			c.diesWhileItRuns()
			c.fails()
		})
	}
}

// decides: the rules and people decide on calls.
func (c *codingRun) decides() {
	t, d := c.t, c.d
	t.Helper()
	after := func(shell string, before func(approval)) modelStep {
		return modelStep{word(shell), func(results []string) { before(c.approval(results)) }}
	}
	steps := []modelStep{
		{shell: word("accepted")},
		{shell: word("refused")},
		{shell: word("approved")},
		after("approved", func(a approval) { d.reviewer(t, 0).approve(a) }),
		{shell: word("approved")},
		{shell: word("edit")},
		after("edit", func(a approval) {
			arguments := map[string]any{"command": word("edited")}
			if c.answers { // it shows its hooks all of a call
				arguments["description"] = "Write a word"
			}
			a = d.reviewer(t, 1).edit(a, arguments).want(t, http.StatusOK).approval(t)
			d.reviewer(t, 0).approve(a)
		}),
		{shell: word("denied")},
		after("denied", func(a approval) { d.reviewer(t, 0).vote(a, "deny").want(t, http.StatusOK) }),
		{shell: word("brief")},
		after("brief", func(a approval) { d.agent(t).wait(a.ID) }),
	}
	want := []string{"", "The call is refused", "waits for people", "", "waits for people", "waits for people", "", "waits for people", "was not approved: denied", "waits for people", "was not approved: expired"}
	if !c.answers { // it takes no changes: the model makes the changed call itself
		steps = append(steps[:7], append([]modelStep{{shell: word("edited")}}, steps[7:]...)...)
		want = append(want[:6], append([]string{"exactly these arguments", ""}, want[7:]...)...)
	}
	results := c.goes(steps...)
	for i, words := range want {
		if !strings.Contains(results[i], words) || words == "" && strings.Contains(results[i], "Holdpoint") {
			t.Errorf("call %d, %s: %s, want %q", i, steps[i].shell, results[i], words)
		}
	}
	if got := c.ran(); got != "accepted approved edited" {
		t.Errorf("ran: %q", got)
	}
	events := d.admin(t).events(url.Values{"type": {"execution"}})
	if len(events) != 2 || events[0].Reasons[0].Code != "EXECUTION_SUCCEEDED" {
		t.Errorf("reported: %+v", events)
	}
	if events := d.admin(t).events(url.Values{"type": {"ungated"}}); len(events) != 0 {
		t.Errorf("ungated: %+v", events)
	}
}

// diesWhileItRuns: the agent is killed in the middle of an approved call. The call does
// not run again, whatever the next process does.
func (c *codingRun) diesWhileItRuns() {
	c.t.Helper()
	pid, killer := filepath.Join(c.t.TempDir(), "pid"), filepath.Join(c.t.TempDir(), "killer")
	if err := os.WriteFile(killer, []byte("kill -9 $(cat "+pid+")\n"), 0o600); err != nil { // in a script: Copilot CLI reads commands for it
		c.t.Fatal(err)
	}
	kills := word("killed") + "; sh " + killer + "; sleep 60"
	results, err := c.starts(func(id int) {
		if err := os.WriteFile(pid, []byte(strconv.Itoa(id)), 0o600); err != nil {
			c.t.Error(err)
		}
	}, modelStep{shell: kills}, modelStep{kills, func(results []string) { c.d.reviewer(c.t, 0).approve(c.approval(results)) }})
	if err == nil || len(results) != 1 {
		c.t.Fatalf("it was to be killed: %v, %q", err, results)
	}
	if again := c.goes(modelStep{shell: kills}); !strings.Contains(again[0], "waits for people") {
		c.t.Errorf("the same call after it: %s", again[0])
	}
	if got := c.ran(); got != "accepted approved edited killed" {
		c.t.Errorf("ran: %q", got)
	}
}

// fails: whatever fails, the call does not run. Without the hook it does: what kept it
// from running was the hook.
func (c *codingRun) fails() {
	t, d := c.t, c.d
	t.Helper()
	var mode string
	var mu sync.Mutex
	is := func(now string) func([]string) {
		return func([]string) { mu.Lock(); defer mu.Unlock(); mode = now }
	}
	target, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	onward := httputil.NewSingleHostReverseProxy(target)
	onward.ErrorLog = log.New(io.Discard, "", 0)
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now := mode
		mu.Unlock()
		says := func(status int, kind, text string) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
		if r.URL.Path == "/elsewhere" {
			t.Error("a redirect is followed")
		}
		switch now {
		case "real":
			onward.ServeHTTP(w, r)
		case "slow":
			select {
			case <-held:
			case <-r.Context().Done():
			}
		case "cut":
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"allowed":true,`)
			panic(http.ErrAbortHandler)
		case "500":
			says(http.StatusInternalServerError, "application/json", `{"allowed":true}`)
		case "html":
			says(http.StatusOK, "text/html", `<p>Welcome to this network. Please sign in.`)
		case "empty":
			says(http.StatusOK, "application/json", `{}`)
		case "none":
			says(http.StatusNoContent, "application/json", ``)
		case "text":
			says(http.StatusOK, "application/json", `{"allowed":"true","decision":{"outcome":"ALLOW"}}`)
		case "redirect":
			w.Header().Set("Location", "/elsewhere")
			says(http.StatusTemporaryRedirect, "application/json", `{"allowed":true,"decision":{"outcome":"ALLOW"}}`)
		case "huge":
			says(http.StatusOK, "application/json", `{"allowed":true,"decision":{"outcome":"ALLOW"},"more":"`+strings.Repeat("x", 20<<20)+`"}`)
		default:
			t.Errorf("mode %q", now)
		}
	}))
	defer server.Close()
	defer close(held)
	key, shim, ill := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "holdpoint"), filepath.Join(t.TempDir(), "ill")
	// What the hook runs, which is killed while there is the file.
	script := "#!/bin/sh\nif [ -e " + ill + " ]; then kill -9 $$; fi\nexec " + binaryPath() + ` "$@"` + "\n"
	for name, text := range map[string]string{key: d.AgentKey, shim: script} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	must(t, []string{"HOME=" + c.home, "CODEX_HOME=", "CLAUDE_CONFIG_DIR=", "COPILOT_HOME=", "XDG_CONFIG_HOME="}, "", "connect", c.name, "--url", server.URL, "--key-file", key, "--state", t.TempDir(), "--deadline", "2s", "--program", shim)
	do := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	never, long := "", " # "+strings.Repeat("x", 100_000)
	steps := []modelStep{{never, is("real")}}
	for _, each := range []string{"slow", "cut", "500", "html", "empty", "none", "text", "redirect", "huge"} {
		steps = append(steps, modelStep{never, is(each)})
	}
	steps = append(steps,
		modelStep{never, func([]string) {
			is("real")(nil)
			must(t, nil, "", "kill", "--all", "--reason", "enough", "--data", d.dir)
		}},
		modelStep{never, func([]string) {
			must(t, nil, "", "release", "--all", "--data", d.dir)
			do(os.WriteFile(ill, nil, 0o600))
		}},
		modelStep{long, nil},
		modelStep{never, func([]string) { do(os.Remove(ill)); do(d.program.stop()) }},
		modelStep{never, func([]string) { server.CloseClientConnections(); do(os.Remove(key)) }},
		modelStep{never, func([]string) { do(os.Remove(shim)) }},
		modelStep{long, nil},
	)
	for i := range steps { // Gemini CLI gives up on a model that makes the same call five times
		steps[i].shell = word("never"+strconv.Itoa(i)) + steps[i].shell
	}
	for i, result := range c.goes(steps...) {
		// Where the program is not there, no output of its own can say so.
		if !strings.Contains(result, "Holdpoint: ") && !(c.reasons && strings.Contains(result, "Denied by preToolUse hook")) {
			t.Errorf("failure %d: %s", i, result)
		}
	}
	if got := c.ran(); got != "accepted approved edited killed" {
		t.Errorf("ran: %q", got)
	}
	for _, file := range []string{c.file, ".claude/settings.json"} {
		do(os.RemoveAll(filepath.Join(c.home, file)))
	}
	c.goes(modelStep{shell: word("unhooked")})
	if !strings.HasSuffix(c.ran(), " unhooked") {
		t.Error("the calls of this test run nowhere")
	}
}

// TestOpenCodeWithoutPlugins: with the machine's settings as “connect opencode --managed” makes
// them, opencode that is started without plugins, or with one that is broken, runs nothing, also
// where its user allows everything; with the plugin it runs what is accepted.
func TestOpenCodeWithoutPlugins(t *testing.T) {
	agent := codingAgents[4]
	home, machine := t.TempDir(), t.TempDir()
	agent.command(t, home, "") // is it there?
	d := onHosted(t)
	plugin := filepath.Join(machine, "holdpoint.js")
	must(t, nil, "", "tool", "set", agent.shell, "--data", d.dir, "--category", "public_read")
	eventually(t, seeWithin, "the tool's registration", func() bool {
		return d.hookOf(t, agent.hookHost).before("x", agent.shell, map[string]any{"command": "x"}).code == 0
	})
	must(t, nil, "", "connect", "opencode", "--data", d.dir, "--settings", plugin, "--state", t.TempDir())
	settings := must(t, nil, "", "connect", "opencode", "--data", d.dir, "--managed", "--dry-run")
	_, settings, found := strings.Cut(settings, "// /etc/opencode/opencode.json\n")
	if !found {
		t.Fatal("the machine's settings are not shown")
	}
	if err := os.WriteFile(filepath.Join(machine, "opencode.json"), []byte(strings.ReplaceAll(settings, "/etc/opencode/holdpoint.js", plugin)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct {
		flag, ran string
		breaks    bool
	}{{"", "pure", false}, {"--pure", "", false}, {"", "", true}} {
		if each.breaks {
			if err := os.WriteFile(plugin, []byte("throw new Error()"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run := agent
		run.command = func(t *testing.T, home, model string) *exec.Cmd {
			cmd := agent.command(t, home, model)
			if each.flag != "" {
				cmd.Args = append(cmd.Args[:2:2], each.flag, "go on")
			}
			cmd.Env = append(cmd.Env, "OPENCODE_TEST_MANAGED_CONFIG_DIR="+machine)
			return cmd
		}
		c := &codingRun{codingAgent: &run, t: t, d: d, home: home, dir: t.TempDir()}
		_, err := c.starts(nil, modelStep{shell: word("pure")})
		if got := c.ran(); got != each.ran || (err == nil) != (each.ran != "") {
			t.Errorf("%+v: ran %q, %v", each, got, err)
		}
	}
}
