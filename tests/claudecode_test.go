//go:build npm

package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// standIn stands in for the model of Claude Code: it has tools called, one after
// another, and says done. Nothing of what it is asked counts.
type standIn struct {
	mu      sync.Mutex
	steps   []modelStep
	results []string // what the host says became of the calls
}

// modelStep is a tool call; before runs first, when the result of the former one is there.
type modelStep struct {
	tool      string
	arguments map[string]any
	before    func(results []string)
}

func (m *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var asked struct {
		Model    string
		Tools    []json.RawMessage
		Messages []struct{ Content json.RawMessage }
	}
	if !strings.HasSuffix(r.URL.Path, "/v1/messages") || json.Unmarshal(body, &asked) != nil {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"input_tokens":1}`)
		return
	}
	var results []string
	for _, message := range asked.Messages {
		var parts []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(message.Content, &parts)
		for _, part := range parts {
			if part.Type == "tool_result" {
				results = append(results, string(part.Content))
			}
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(kind string, members map[string]any) {
		members["type"] = kind
		data, _ := json.Marshal(members)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
	}
	event("message_start", map[string]any{"message": map[string]any{
		"id": newID("msg_"), "type": "message", "role": "assistant", "model": asked.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": 1, "output_tokens": 1},
	}})
	stop, block, delta := "end_turn", map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": "done"}
	if len(asked.Tools) > 0 { // else it is asked for a title or the like
		m.mu.Lock()
		m.results = results
		m.mu.Unlock()
		if n := len(results); n < len(m.steps) {
			step := m.steps[n]
			if step.before != nil {
				step.before(results)
			}
			input, _ := json.Marshal(step.arguments)
			stop, block = "tool_use", map[string]any{"type": "tool_use", "id": newID("toolu_"), "name": step.tool, "input": map[string]any{}}
			delta = map[string]any{"type": "input_json_delta", "partial_json": string(input)}
		}
	}
	event("content_block_start", map[string]any{"index": 0, "content_block": block})
	event("content_block_delta", map[string]any{"index": 0, "delta": delta})
	event("content_block_stop", map[string]any{"index": 0})
	event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 1}})
	event("message_stop", map[string]any{})
}

// claudeCode runs Claude Code itself in a directory until it is done, with settings, and returns what
// the model was told became of its calls. Every permission of its own is off: what keeps
// a call from running is the hook alone.
func claudeCode(t *testing.T, settings, dir string, steps ...modelStep) []string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(npmDir, "node_modules", "@anthropic-ai", "claude-code-"+runtime.GOOS+"-"+strings.Replace(runtime.GOARCH, "amd64", "x64", 1), "claude"))
	if err == nil {
		err = os.Chmod(program, 0o755) //nolint:gosec // npm ci --ignore-scripts leaves that to whoever wants to run it
	}
	if err != nil {
		t.Fatalf("%v\nrun: npm ci --ignore-scripts --prefix tests/%s", err, npmDir)
	}
	model := &standIn{steps: steps}
	server := httptest.NewServer(model)
	defer server.Close()
	home := t.TempDir()
	cmd := exec.Command(program, "-p", "go on", "--settings", settings, "--model", "stand-in", "--dangerously-skip-permissions")
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CLAUDE_CONFIG_DIR=" + home + "/.claude", "ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=sk-none",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1", // root may not do without permissions elsewhere
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	endsBy(t, cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("Claude Code: %v\n%s", err, out)
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	if len(model.results) != len(steps) {
		t.Fatalf("%d of %d calls were made: %q", len(model.results), len(steps), model.results)
	}
	return model.results
}

// TestClaudeCode puts Holdpoint before the tools of Claude Code itself: a call runs when
// it is accepted, or once when it is approved, and not when it is refused, denied,
// stopped, or when anything fails.
func TestClaudeCode(t *testing.T) {
	d := startDev(t, nil)
	ran := filepath.Join(t.TempDir(), "ran")
	settings := filepath.Join(t.TempDir(), "settings.json")
	must(t, nil, "", "connect", "claude-code", "--data", d.dir, "--state", t.TempDir(), "--settings", settings)
	must(t, nil, "", "tool", "set", "Read", "--data", d.dir, "--category", "private_read")
	eventually(t, seeWithin, "the tool's registration", func() bool {
		return d.hook(t).before("x", "Read", map[string]any{"file_path": "/"}).code == 0
	})
	if err := os.WriteFile(ran, []byte("begun\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := modelStep{tool: "Read", arguments: map[string]any{"file_path": ran}}
	run := func(word string) modelStep {
		return modelStep{tool: "Bash", arguments: map[string]any{"command": "echo " + word + " >> ran", "description": "Write a word"}}
	}
	decided := func(step modelStep, decision string) modelStep {
		step.before = func(results []string) {
			last := results[len(results)-1]
			_, id, _ := strings.Cut(last, "/approvals/")
			id, _, _ = strings.Cut(id, ". ")
			a := d.agent(t).get(id)
			if answer := d.reviewer(t, 0).vote(a, decision); answer.Status != http.StatusOK {
				t.Errorf("the model was told %s\nvote: %s", last, answer)
			}
		}
		return step
	}
	results := claudeCode(t, settings, filepath.Dir(ran), read, run("approved"), decided(run("approved"), "approve"), run("approved"), run("denied"), decided(run("denied"), "deny"))
	for i, want := range []string{"begun", "waits for people", "", "waits for people", "waits for people", "was not approved: denied"} {
		if !strings.Contains(results[i], want) || i == 2 && strings.Contains(results[i], "Holdpoint") {
			t.Errorf("call %d: %s, want %q", i, results[i], want)
		}
	}
	events := d.admin(t).events(map[string][]string{"type": {"execution"}})
	if len(events) != 1 || events[0].Reasons[0].Code != "EXECUTION_SUCCEEDED" {
		t.Errorf("reported: %+v", events)
	}
	// Everything that fails blocks: a hook that is killed, one that is not there, a stopped
	// agent, and a server that is away.
	blocked := func(what, settings string) {
		t.Helper()
		if got := claudeCode(t, settings, filepath.Dir(ran), run("never")); strings.Contains(fileText(ran), "never") {
			t.Errorf("%s: the call ran: %q", what, got)
		}
	}
	broken := func(program string) string {
		file := filepath.Join(t.TempDir(), "settings.json")
		text := strings.ReplaceAll(fileText(settings), binaryPath()+" hook", program+" hook")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil || !strings.Contains(text, program) {
			t.Fatal(err)
		}
		return file
	}
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.WriteFile(killed, []byte("#!/bin/sh\nkill -9 $$\n"), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	blocked("a hook that is killed", broken(killed))
	blocked("a hook that is not there", broken("/nowhere/holdpoint"))
	must(t, nil, "", "kill", "--all", "--reason", "enough", "--data", d.dir)
	blocked("a kill switch", settings)
	must(t, nil, "", "release", "--all", "--data", d.dir)
	if err := d.program.stop(); err != nil {
		t.Fatal(err)
	}
	blocked("a server that is away", settings)
	if got := strings.Fields(fileText(ran)); strings.Join(got, " ") != "begun approved" {
		t.Errorf("ran: %q", got)
	}
	// Without the hook it runs: what kept it from running was the hook.
	empty := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	claudeCode(t, empty, filepath.Dir(ran), run("unhooked"))
	if !strings.Contains(fileText(ran), "unhooked") {
		t.Error("the calls of this test run nowhere")
	}
}
