package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdpoint/internal/hook"
)

type doctorClaudeCode struct {
	Settings []string `help:"Settings file to look at; may be given several times. By default the user's, the project's and the machine's." type:"path" placeholder:"FILE"`
}

// Help is shown by "holdpoint doctor claude-code --help".
func (doctorClaudeCode) Help() string {
	return `Runs the very hooks that are in Claude Code's settings as Claude Code would, with
a server that is away, that hangs, that answers nonsense, that lets in nobody, and
with a call that cannot be read. Each has to end with 2, in time: with any other
code Claude Code runs the call. No call is proposed, and nobody is asked anything.

Example:
  holdpoint doctor claude-code`
}

func (k *doctorClaudeCode) Run(ctx context.Context, _ *cli) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	files := k.Settings
	if len(files) == 0 {
		user, err := userSettings()
		if err != nil {
			return err
		}
		files = []string{user, ".claude/settings.json", ".claude/settings.local.json", managedSettings()}
	}
	d := &checkup{}
	var before []hook.Installed
	after := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file) // #nosec G304 -- the user names the file
		if errors.Is(err, fs.ErrNotExist) && len(k.Settings) == 0 {
			continue
		}
		var found []hook.Installed
		if err == nil {
			found, err = hook.InClaudeCode(data)
		}
		if err == nil {
			err = hook.HooksRun(data)
		}
		if err == nil && file == managedSettings() {
			err = everybodyReads(file)
		}
		if err == nil && file != managedSettings() && len(found) > 0 {
			if machines, _ := os.ReadFile(managedSettings()); hook.OnlyManagedHooks(machines) {
				err = fmt.Errorf("its hooks do not run: allowManagedHooksOnly is on in %s", managedSettings())
			}
		}
		if !d.say(file, err, "Claude Code takes no notice of settings that it cannot read.") {
			continue
		}
		for _, h := range found {
			if h.Event == "PreToolUse" {
				before = append(before, h)
			} else {
				after[h.Event] = true
			}
		}
	}
	var none error
	if len(before) == 0 {
		none = errors.New("there is none in these settings")
	}
	if d.say("a hook before each tool call", none, "holdpoint connect claude-code") {
		for _, h := range before {
			d.tries(ctx, h)
		}
		if !after["PostToolUse"] || !after["PostToolUseFailure"] {
			d.warn("hooks after each tool call", "there are none", "What became of calls is not reported, and calls without a decision are not found: holdpoint connect claude-code")
		}
	}
	if d.failed {
		return exitCode(1)
	}
	return nil
}

// tries runs a hook in every way in which it may go wrong.
func (d *checkup) tries(ctx context.Context, h hook.Installed) {
	var narrow error
	if h.Matcher != "" && h.Matcher != "*" {
		narrow = fmt.Errorf("it is for %q only", h.Matcher)
	}
	d.say("it is for every tool", narrow, "Give it the matcher *: holdpoint connect claude-code")
	limit := time.Duration(h.Timeout) * time.Second
	if limit == 0 {
		limit = time.Minute // the shortest that Claude Code has had by itself
	}
	d.say("it ends before Claude Code gives up", inTime(h, limit), "holdpoint connect claude-code, with the same --wait and --deadline")
	const call = `{"hook_event_name":"PreToolUse","session_id":"holdpoint-doctor","tool_use_id":"holdpoint-doctor","tool_name":"holdpoint_doctor","tool_input":{}}`
	away, err := closedAddress(ctx)
	if err != nil {
		d.say("an address at which nobody listens", err, "")
		return
	}
	answers := func(handle http.HandlerFunc) (string, func()) {
		s := httptest.NewServer(handle)
		return s.URL, s.Close
	}
	silent, err := loopback(ctx)
	if err != nil {
		d.say("a server that never answers", err, "")
		return
	}
	defer func() { _ = silent.Close() }()
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	garbled, end1 := answers(says(200, `{"allowed":"yes"`))
	defer end1()
	empty, end2 := answers(says(200, `{}`))
	defer end2()
	shut, end3 := answers(says(401, `{"code":"unauthorized"}`))
	defer end3()
	moved, end4 := answers(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://"+away, http.StatusFound) })
	defer end4()
	for _, try := range []struct{ what, url, in string }{
		{"a call that cannot be read", "", "{"},
		{"a call without a name", "", `{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"t"}`},
		{"a server that is away", "http://" + away, call},
		{"a server that answers nonsense", garbled, call},
		{"a server that says nothing", empty, call},
		{"a server that does not know the key", shut, call},
		{"a server that sends elsewhere", moved, call},
		{"a server that hangs", "http://" + silent.Addr().String(), call},
	} {
		d.say(try.what+": the call is blocked", blocks(ctx, h.Command, try.url, try.in, limit), "Claude Code would run the call. Write the hook anew: holdpoint connect claude-code")
	}
	d.say("the server answers, and knows the key", reaches(ctx, h.Command), "Start the server, or name the right one and its key: holdpoint connect claude-code")
}

// blocks runs a hook's command against a server of ours and reports how it fails to block.
func blocks(ctx context.Context, command, url, in string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	words, own := hook.Words(command)
	if !own || len(words) < 3 || words[1] != "hook" {
		return errors.New("its command is not as “holdpoint connect claude-code” writes it, so that it is not known what it does when the program is missing or is killed; it was not run")
	}
	if url != "" {
		// Without the real server and its key: what is tried is the program, and the line
		// around it.
		command = hook.Blocks([]string{words[0], "hook", "claude-code", "--url", url, "--deadline", "2s"})
	}
	dir, err := os.MkdirTemp("", "holdpoint-doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.CommandContext(ctx, "sh", "-c", command) // #nosec G204 -- it is the hook that is tried
	cmd.Env = append(os.Environ(), "HOLDPOINT_API_KEY=hp_holdpoint-doctor", "XDG_STATE_HOME="+dir)
	cmd.Stdin = strings.NewReader(in)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("it had not ended after %s", limit)
	case errors.As(err, &exit) && exit.ExitCode() == 2:
		return nil
	case err == nil:
		return errors.New("it ended with 0")
	}
	return fmt.Errorf("it ended with %w: %s", err, strings.TrimSpace(said.String()))
}

// inTime reports a hook that may take longer than its host waits for it.
func inTime(h hook.Installed, limit time.Duration) error {
	words, _ := hook.Words(h.Command)
	longest := time.Second
	for i, word := range words {
		if (word == "--wait" || word == "--deadline") && i+1 < len(words) {
			if d, err := time.ParseDuration(words[i+1]); err == nil {
				longest += d
			}
		}
	}
	if longest >= limit {
		return fmt.Errorf("it may take %s, and Claude Code runs the call after %s", longest, limit)
	}
	return nil
}

// everybodyReads reports settings of the machine that only some can read.
func everybodyReads(file string) error {
	for _, name := range []string{file, filepath.Dir(file)} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o004 == 0 {
			return fmt.Errorf("not everybody may read %s, so that their Claude Code runs no hook", name)
		}
	}
	return nil
}

// closedAddress is one at which nobody listens.
func closedAddress(ctx context.Context) (string, error) {
	l, err := loopback(ctx)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func loopback(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
}

// reaches runs a hook's command with --check: it asks the server for nothing but whether
// it knows the key.
func reaches(ctx context.Context, command string) error {
	words, own := hook.Words(command)
	if !own || len(words) < 3 {
		return errors.New("its command is not as “holdpoint connect claude-code” writes it; it was not run")
	}
	command = hook.Blocks(append(slices.Clone(words), "--check"))
	cmd := exec.CommandContext(ctx, "sh", "-c", command) // #nosec G204 -- it is the hook that is tried
	cmd.WaitDelay = time.Second
	said, err := cmd.CombinedOutput()
	if err != nil {
		return errors.New(strings.TrimSpace(string(said)))
	}
	return nil
}
