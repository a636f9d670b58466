package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// doctorHook are the flags of a look at a host's hooks.
type doctorHook struct {
	Settings []string `help:"Settings file to look at; may be given several times. By default the user's, the project's and the machine's." type:"path" placeholder:"FILE"`
}

type doctorClaudeCode struct{ doctorHook }

type doctorCodex struct{ doctorHook }

type doctorGeminiCLI struct{ doctorHook }

type doctorCopilotCLI struct{ doctorHook }

type doctorOpenCode struct{ doctorHook }

type doctorCursor struct{ doctorHook }

// Help is shown by "holdpoint doctor claude-code --help".
func (doctorClaudeCode) Help() string { return doctorHookHelp(hook.ClaudeCode) }

// Help is shown by "holdpoint doctor codex --help".
func (doctorCodex) Help() string {
	return doctorHookHelp(hook.Codex) + `

It cannot see whether Codex trusts the hooks: look by /hooks.`
}

// Help is shown by "holdpoint doctor gemini-cli --help".
func (doctorGeminiCLI) Help() string { return doctorHookHelp(hook.GeminiCLI) }

// Help is shown by "holdpoint doctor copilot-cli --help".
func (doctorCopilotCLI) Help() string {
	return doctorHookHelp(hook.CopilotCLI) + `

It cannot see whether a repository switches hooks off (disableAllHooks in its
.github/copilot/settings.json): those of “connect copilot-cli --managed” run
nevertheless.`
}

// Help is shown by "holdpoint doctor opencode --help".
func (doctorOpenCode) Help() string {
	return doctorHookHelp(hook.OpenCode) + `

The plugin has to be, byte for byte, as “connect opencode” writes it: what other code
does is not known. That opencode is started without plugins (--pure) shows only in
its environment (OPENCODE_PURE); doctor says whether the machine's settings leave it
a model then (connect opencode --managed).`
}

// Help is shown by "holdpoint doctor cursor --help".
func (doctorCursor) Help() string {
	return doctorHookHelp(hook.Cursor) + `

It cannot see whether Cursor has loaded the hooks: look at Customize, Hooks.`
}

func doctorHookHelp(host *hook.Host) string {
	return `Runs the very hooks that are in the settings of ` + host.Title + ` as it would, with a
server that is away, that hangs, that answers nonsense, that lets in nobody, and
with calls that cannot be read. Each has to end with 2, in time, and to say why:
otherwise ` + host.Title + ` runs the call. No call is proposed, and nobody is asked anything.

Example:
  holdpoint doctor ` + host.Name
}

func (k *doctorClaudeCode) Run(ctx context.Context, _ *cli) error {
	return k.look(ctx, claudeCodeFiles)
}

func (k *doctorCodex) Run(ctx context.Context, _ *cli) error { return k.look(ctx, codexFiles) }

func (k *doctorGeminiCLI) Run(ctx context.Context, _ *cli) error { return k.look(ctx, geminiCLIFiles) }

func (k *doctorCopilotCLI) Run(ctx context.Context, _ *cli) error {
	return k.look(ctx, copilotCLIFiles)
}

func (k *doctorOpenCode) Run(ctx context.Context, _ *cli) error {
	if err := k.look(ctx, openCodeFiles); err != nil {
		return err
	}
	if len(k.Settings) == 0 {
		machines, _ := os.ReadFile(openCodeMachine + "/opencode.json") // #nosec G304 -- it is the machine's
		if d := (&checkup{}); hook.OpenCodeHas(machines, openCodeFiles.managed) {
			d.say("started without plugins, opencode has no model", nil, "")
		} else {
			d.warn("opencode started without plugins", "whoever starts it with --pure runs calls that nobody is asked about", "holdpoint connect opencode --managed")
		}
	}
	if value := os.Getenv("OPENCODE_PURE"); value != "" && value != "0" && value != "false" {
		(&checkup{}).say("OPENCODE_PURE", fmt.Errorf("it is %q here, so that opencode runs no plugin", value), "Take it out of the environment.")
		return exitCode(1)
	}
	return nil
}

func (k *doctorCursor) Run(ctx context.Context, _ *cli) error {
	if err := k.look(ctx, cursorFiles); err != nil {
		return err
	}
	machines, _ := os.ReadFile(cursorFiles.managed)
	if found, err := hook.Cursor.Hooks(machines); len(k.Settings) == 0 && (err != nil || len(found) == 0) {
		(&checkup{}).warn("a repository's own hooks", "those in its .cursor/hooks.json come before a user's, and may allow what Holdpoint turns down",
			"Where repositories are not trusted, use holdpoint connect cursor --managed, whose hooks come first.")
	}
	return nil
}

func (k *doctorHook) look(ctx context.Context, files hostFiles) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	host, looked := files.host, k.Settings
	if len(looked) == 0 {
		var err error
		if looked, err = files.all(); err != nil {
			return err
		}
	}
	d := &checkup{}
	var before []hook.Installed
	after := map[string]bool{}
	for _, file := range looked {
		data, err := os.ReadFile(file) // #nosec G304 -- the user names the file
		if errors.Is(err, fs.ErrNotExist) && len(k.Settings) == 0 {
			continue
		}
		var found []hook.Installed
		if err == nil {
			found, err = host.Hooks(data)
		}
		if err == nil {
			err = host.HooksRun(data)
		}
		if err == nil && file == files.managed {
			err = checkReadable(host, file)
		}
		if err == nil && host == hook.ClaudeCode && file != files.managed && len(found) > 0 {
			if machines, _ := os.ReadFile(files.managed); hook.OnlyManagedHooks(machines) {
				err = fmt.Errorf("its hooks do not run: allowManagedHooksOnly is on in %s", files.managed)
			}
		}
		if !d.say(file, err, host.Title+" takes no notice of settings that it cannot read.") {
			continue
		}
		for _, h := range found {
			if h.Event == host.Before {
				before = append(before, h)
			} else {
				after[h.Event] = true
			}
		}
	}
	if len(before) > 1 {
		d.warn("hooks before each tool call", fmt.Sprintf("there are %d, and each of them asks", len(before)), "A call that people approve is spent by the first and turned down by the next: take away all but one.")
	}
	anew := "holdpoint connect " + host.Name
	var none error
	if len(before) == 0 {
		none = errors.New("there is none in these settings")
	}
	if d.say("a hook before each tool call", none, anew) {
		for _, h := range before {
			d.tryHook(ctx, host, h)
		}
		if len(after) < len(host.After) {
			d.warn("hooks after each tool call", "there are none", "What became of calls is not reported, and calls without a decision are not found: "+anew)
		}
	}
	if d.failed {
		return exitCode(1)
	}
	return nil
}

// tryHook runs a hook in every way in which it may go wrong.
func (d *checkup) tryHook(ctx context.Context, host *hook.Host, h hook.Installed) {
	anew := "holdpoint connect " + host.Name
	var narrow error
	if h.Matcher != "" && h.Matcher != "*" {
		narrow = fmt.Errorf("it is for %q only", h.Matcher)
	}
	d.say("it is for every tool", narrow, "Give it the matcher *: "+anew)
	if host == hook.Cursor {
		var open error
		if h.Open {
			open = errors.New("failClosed is not set")
		}
		d.say("it blocks where it fails", open, host.Title+" runs a call whose hook does: "+anew)
	}
	limit := cmp.Or(h.Timeout, host.Patience)
	d.say("it ends before "+host.Title+" gives up", inTime(host, h, limit), anew+", with the same --wait and --deadline")
	call := `{"hook_event_name":"` + host.Before + `","session_id":"holdpoint-doctor","tool_use_id":"holdpoint-doctor","tool_name":"holdpoint_doctor","tool_input":{}}`
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
	long := call + strings.Repeat(" ", 9<<20)
	for _, try := range []struct{ what, url, in string }{
		{"a program that is not there", noProgram, long},
		{"a call that cannot be read", "", "{"},
		{"a call without a name", "", `{"hook_event_name":"` + host.Before + `","session_id":"s","tool_use_id":"t"}`},
		{"a call that is too long to be read", "", long},
		{"a server that is away", "http://" + away, call},
		{"a server that answers nonsense", garbled, call},
		{"a server that says nothing", empty, call},
		{"a server that does not know the key", shut, call},
		{"a server that sends elsewhere", moved, call},
		{"a server that hangs", "http://" + silent.Addr().String(), call},
	} {
		d.say(try.what+": the call is blocked", blocks(ctx, host, h.Command, try.url, try.in, limit), host.Title+" would run the call. Write the hook anew: "+anew)
	}
	d.say("the server answers, and knows the key", reaches(ctx, host, h.Command), "Start the server, or name the right one and its key: "+anew)
}

// noProgram stands for an address where the program is not there to ask anybody.
const noProgram = "no program"

// blocks runs a hook's command against a server of ours and reports how it fails to block.
func blocks(ctx context.Context, host *hook.Host, command, url, in string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	words, own := hook.Words(command)
	if !own || len(words) < 3 || words[1] != "hook" {
		return fmt.Errorf("its command is not as “holdpoint connect %s” writes it, so that it is not known what it does when the program is missing or is killed; it was not run", host.Name)
	}
	switch url {
	case "":
	case noProgram:
		words[0] += "-that-is-not-there"
		command = hook.Blocks(words)
	default:
		// Without the real server and its key: what is tried is the program, and the line
		// around it.
		command = hook.Blocks([]string{words[0], "hook", host.Name, "--url", url, "--deadline", "2s"})
	}
	dir, err := os.MkdirTemp("", "holdpoint-doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.CommandContext(ctx, "sh", "-c", command) // #nosec G204 -- it is the hook that is tried
	cmd.Env = append(os.Environ(), "HOLDPOINT_API_KEY=hp_holdpoint-doctor", "XDG_STATE_HOME="+dir)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// The call is written as hosts do. Where it is not read to its end they may run it.
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(stdin, in)
		written <- errors.Join(err, stdin.Close())
	}()
	var unread error
	select {
	case unread = <-written:
	case <-ctx.Done():
		_ = stdin.Close()
		unread = <-written
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("it had not ended after %s", limit)
	case unread != nil:
		return fmt.Errorf("it did not read the call to its end: %w", unread)
	case errors.As(err, &exit) && exit.ExitCode() == 2 && said.Len() > 0:
		return nil
	case err == nil:
		return errors.New("it ended with 0")
	}
	return fmt.Errorf("it ended with %w: %s", err, strings.TrimSpace(said.String()))
}

// inTime reports a hook that may take longer than its host waits for it.
func inTime(host *hook.Host, h hook.Installed, limit time.Duration) error {
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
		return fmt.Errorf("it may take %s, and %s runs the call after %s", longest, host.Title, limit)
	}
	return nil
}

// checkReadable reports settings of the machine that only some can read.
func checkReadable(host *hook.Host, file string) error {
	for _, name := range []string{file, filepath.Dir(file)} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o004 == 0 {
			return fmt.Errorf("not everybody may read %s, so that their %s runs no hook", name, host.Title)
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
func reaches(ctx context.Context, host *hook.Host, command string) error {
	words, own := hook.Words(command)
	if !own || len(words) < 3 {
		return fmt.Errorf("its command is not as “holdpoint connect %s” writes it; it was not run", host.Name)
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
