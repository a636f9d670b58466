package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdpoint/internal/hook"
)

type connectCommand struct {
	ClaudeCode connectClaudeCode `cmd:"" name:"claude-code" help:"Put Holdpoint before the tools of Claude Code."`
	Codex      connectCodex      `cmd:"" name:"codex" help:"Put Holdpoint before the tools of Codex."`
	GeminiCLI  connectGeminiCLI  `cmd:"" name:"gemini-cli" help:"Put Holdpoint before the tools of Gemini CLI."`
	CopilotCLI connectCopilotCLI `cmd:"" name:"copilot-cli" help:"Put Holdpoint before the tools of GitHub Copilot CLI."`
	OpenCode   connectOpenCode   `cmd:"" name:"opencode" help:"Put Holdpoint before the tools of opencode."`
	Cursor     connectCursor     `cmd:"" name:"cursor" help:"Put Holdpoint before the tools of Cursor's agent."`
	MCP        connectMCP        `cmd:"" name:"mcp" help:"Put Holdpoint before the MCP servers of a host."`
}

// connectFlags are what the settings of every host are written by.
type connectFlags struct {
	hookFlags
	Settings string `help:"Settings file to change; by default the user's own." type:"path" placeholder:"FILE" xor:"where"`
	Project  bool   `help:"Change the settings of the project in this directory." xor:"where"`
	Program  string `help:"The holdpoint program that the hook runs; by default this one." type:"path" placeholder:"FILE"`
	DryRun   bool   `help:"Print what the settings would be, and change nothing."`
}

type connectClaudeCode struct {
	connectFlags
	AllowAccepted bool `help:"Let calls that the rules accept run without asking Claude Code's own permissions."`
	Managed       bool `help:"Change the settings of this machine, which no user and no agent may change." xor:"where"`
}

type connectCodex struct{ connectFlags }

type connectGeminiCLI struct {
	connectFlags
	Managed bool `help:"Change the settings of this machine, which no user and no agent may change." xor:"where"`
}

type connectCopilotCLI struct {
	connectFlags
	Managed bool `help:"Write the hooks of this machine, which no user and no agent may change or switch off." xor:"where"`
}

type connectOpenCode struct {
	connectFlags
	Managed bool `help:"Write the plugin and the settings of this machine, by which opencode has no model without it." xor:"where"`
}

type connectCursor struct {
	connectFlags
	Managed bool `help:"Change the hooks of this machine, which no user and no agent may change." xor:"where"`
}

// Help is shown by "holdpoint connect claude-code --help".
func (connectClaudeCode) Help() string {
	return `Writes three hooks into Claude Code's settings (~/.claude/settings.json): one before
each tool call, which asks Holdpoint, and two after it, which report. What else is
there stays, and the former file is kept beside it, with the ending
.before-holdpoint. Start Claude Code again afterwards.

An agent that may write files may write its settings too. Where it must not get
round the hook, use --managed, and let its user not be root.

Examples:
  holdpoint connect claude-code --data .holdpoint
  holdpoint connect claude-code --url https://holdpoint.example.com --key-file ~/.holdpoint-key
  sudo holdpoint connect claude-code --managed --url … --key-file /etc/holdpoint/agent-key`
}

// Help is shown by "holdpoint connect codex --help".
func (connectCodex) Help() string {
	return `Writes two hooks into Codex's hooks.json (~/.codex/hooks.json, or where CODEX_HOME
says): one before each tool call, which asks Holdpoint, and one after it, which
reports. What else is there stays, and the former file is kept beside it, with the
ending .before-holdpoint.

Codex runs no hook before its user has trusted it: start Codex, and trust both by
/hooks, again after each change.

Example:
  holdpoint connect codex --data .holdpoint`
}

// Help is shown by "holdpoint connect gemini-cli --help".
func (connectGeminiCLI) Help() string {
	return `Writes two hooks into Gemini CLI's settings (~/.gemini/settings.json): one before
each tool call, which asks Holdpoint, and one after it, which reports. What else is
there stays, and the former file is kept beside it, with the ending
.before-holdpoint. Start Gemini CLI again afterwards.

Example:
  holdpoint connect gemini-cli --data .holdpoint`
}

// Help is shown by "holdpoint connect copilot-cli --help".
func (connectCopilotCLI) Help() string {
	return `Writes three hooks into a file of Copilot CLI's (~/.copilot/hooks/holdpoint.json, or
where COPILOT_HOME says): one before each tool call, which asks Holdpoint, and two
after it, which report. Start Copilot CLI again afterwards.

A repository may switch off the hooks of its users. Where it must not, use
--managed: those hooks run nevertheless.

Example:
  holdpoint connect copilot-cli --data .holdpoint`
}

// Help is shown by "holdpoint connect opencode --help".
func (connectOpenCode) Help() string {
	return `Writes a plugin for opencode (~/.config/opencode/plugins/holdpoint.js, or where
XDG_CONFIG_HOME says), which asks Holdpoint before each tool call and reports after
it. Start opencode again afterwards.

Whoever starts opencode with --pure or OPENCODE_PURE=1 starts it without plugins, and
then every call runs. Where that must not be, use --managed: the settings of the
machine then leave opencode no model until the plugin is loaded.

Examples:
  holdpoint connect opencode --data .holdpoint
  sudo holdpoint connect opencode --managed --url … --key-file /etc/holdpoint/agent-key`
}

// Help is shown by "holdpoint connect cursor --help".
func (connectCursor) Help() string {
	return `Writes three hooks into Cursor's hooks.json (~/.cursor/hooks.json): one before each
tool call of its agent, which asks Holdpoint and blocks where it fails (failClosed),
and two after it, which report. What else is there stays, and the former file is
kept beside it, with the ending .before-holdpoint. Start Cursor again afterwards.

A repository's own hooks come before its user's, and may answer for them: where
repositories are not trusted, use --managed. Agents in Cursor's cloud run neither.

Example:
  holdpoint connect cursor --data .holdpoint`
}

func (k *connectClaudeCode) Run(_ context.Context, _ *cli) error {
	var more []string
	if k.AllowAccepted {
		more = append(more, "--allow-accepted")
	}
	return k.connect(claudeCodeFiles, k.Managed, more...)
}

func (k *connectCodex) Run(_ context.Context, _ *cli) error { return k.connect(codexFiles, false) }

func (k *connectGeminiCLI) Run(_ context.Context, _ *cli) error {
	return k.connect(geminiCLIFiles, k.Managed)
}

func (k *connectCopilotCLI) Run(_ context.Context, _ *cli) error {
	return k.connect(copilotCLIFiles, k.Managed)
}

func (k *connectOpenCode) Run(_ context.Context, _ *cli) error {
	if err := k.connect(openCodeFiles, k.Managed); err != nil {
		return err
	}
	if !k.Managed && k.DryRun {
		return nil
	}
	if !k.Managed {
		fmt.Println("Started with --pure, opencode loads no plugin, and asks nobody. --managed is against that: holdpoint connect opencode --help")
		return nil
	}
	file := openCodeMachine + "/opencode.json"
	before, err := os.ReadFile(file) // #nosec G304 -- it is the machine's
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the settings: %w", err)
	}
	after, err := hook.OpenCodeNeeds(before, openCodeFiles.managed)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if k.DryRun {
		_, err := fmt.Printf("// %s\n%s", file, after)
		return err
	}
	if !bytes.Equal(before, after) {
		if err := replaceSettings(file, before, after, true); err != nil {
			return err
		}
	}
	fmt.Printf("By %s opencode has no model without the plugin. Take away the plugins of users, if there are any: each of them asks, too.\n", file)
	return nil
}

func (k *connectCursor) Run(_ context.Context, _ *cli) error {
	return k.connect(cursorFiles, k.Managed)
}

func (k *connectFlags) connect(files hostFiles, managed bool, more ...string) error {
	if _, _, err := k.server(); err != nil {
		return err
	}
	host := files.host
	command, err := k.command(host, more)
	if err != nil {
		return err
	}
	file, err := k.file(files, managed)
	if err != nil {
		return err
	}
	before, err := os.ReadFile(file) // #nosec G304 -- the user names the file
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the settings: %w", err)
	}
	if len(bytes.TrimSpace(before)) > 0 {
		if err := host.HooksRun(before); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	// The hook ends by itself well before the host lets the call run.
	after, err := host.Install(before, command, k.Wait+k.Deadline+10*time.Second)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if k.DryRun {
		_, err := os.Stdout.Write(after)
		return err
	}
	if !bytes.Equal(before, after) {
		if err := replaceSettings(file, before, after, file == files.managed); err != nil {
			return err
		}
	}
	fmt.Printf("%s asks Holdpoint before every tool call, by %s.\n%s, and see that nothing gets past:\n  holdpoint doctor %s --settings %s\n", host.Title, file, files.then, host.Name, file)
	return nil
}

// lastingProgram is where this program is, for settings that have it run later.
func lastingProgram() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w; name it with --program", err)
	}
	if strings.Contains(program, "go-build") {
		return "", errors.New("“go run” removes the program when it ends: build one (go build -o ~/bin/holdpoint ./cmd/holdpoint), and run that or name it with --program")
	}
	return program, nil
}

// command is what the hook runs.
func (k *connectFlags) command(host *hook.Host, more []string) ([]string, error) {
	program := k.Program
	if program == "" {
		var err error
		if program, err = lastingProgram(); err != nil {
			return nil, err
		}
	}
	words := []string{program, "hook", host.Name}
	if k.Data != "" {
		words = append(words, "--data", k.Data)
		if k.Runtime {
			words = append(words, "--runtime")
		}
	} else {
		if k.KeyFile == "" {
			return nil, errors.New("name the file of the API key with --key-file: settings are no place for a key")
		}
		words = append(words, "--url", k.URL, "--key-file", k.KeyFile)
	}
	if k.Wait > 0 {
		words = append(words, "--wait", k.Wait.String())
	}
	words = append(words, "--deadline", k.Deadline.String())
	if k.State != "" {
		words = append(words, "--state", k.State)
	}
	return append(words, more...), nil
}

func (k *connectFlags) file(files hostFiles, managed bool) (string, error) {
	switch {
	case k.Settings != "":
		return k.Settings, nil
	case managed:
		return files.managed, nil
	case k.Project:
		return filepath.Abs(files.project[0])
	}
	return files.user()
}

// replaceSettings puts a file in the place of another, at once, and keeps that one. What
// is the machine's, everybody's Claude Code has to be able to read, whatever the umask.
func replaceSettings(file string, before, after []byte, shared bool) error {
	mode, dirMode := fs.FileMode(0o600), fs.FileMode(0o700)
	if shared {
		mode, dirMode = 0o644, 0o755
	}
	dir := filepath.Dir(file)
	_, missing := os.Stat(dir)
	err := os.MkdirAll(dir, dirMode)
	if err == nil && shared && missing != nil {
		err = os.Chmod(dir, dirMode)
	}
	if info, statErr := os.Stat(file); statErr == nil {
		if !shared {
			mode = info.Mode().Perm()
		}
		if err == nil {
			err = os.WriteFile(file+".before-holdpoint", before, mode)
		}
	}
	if err == nil {
		err = os.WriteFile(file+".new", after, mode)
	}
	if err == nil {
		err = os.Chmod(file+".new", mode)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	return nil
}
