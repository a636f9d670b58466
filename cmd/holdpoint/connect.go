package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"holdpoint/internal/hook"
)

type connectCommand struct {
	ClaudeCode connectClaudeCode `cmd:"" name:"claude-code" help:"Put Holdpoint before the tools of Claude Code."`
	MCP        connectMCP        `cmd:"" name:"mcp" help:"Put Holdpoint before the MCP servers of a host."`
}

type connectClaudeCode struct {
	hookFlags
	AllowAccepted bool   `help:"Let calls that the rules accept run without asking Claude Code's own permissions."`
	Settings      string `help:"Settings file to change; by default the user's own, ~/.claude/settings.json." type:"path" placeholder:"FILE" xor:"where"`
	Project       bool   `help:"Change the settings of the project in this directory, .claude/settings.json." xor:"where"`
	Managed       bool   `help:"Change the settings of this machine, which no user and no agent may change." xor:"where"`
	Program       string `help:"The holdpoint program that the hook runs; by default this one." type:"path" placeholder:"FILE"`
	DryRun        bool   `help:"Print what the settings would be, and change nothing."`
}

// Help is shown by "holdpoint connect claude-code --help".
func (connectClaudeCode) Help() string {
	return `Writes three hooks into Claude Code's settings: one before each tool call, which
asks Holdpoint, and two after it, which report. What else is there stays, and the
former file is kept beside it, with the ending .before-holdpoint. Start Claude Code
again afterwards.

An agent that may write files may write its settings too. Where it must not get
round the hook, use --managed, and let its user not be root.

Examples:
  holdpoint connect claude-code --data .holdpoint
  holdpoint connect claude-code --url https://holdpoint.example.com --key-file ~/.holdpoint-key
  sudo holdpoint connect claude-code --managed --url … --key-file /etc/holdpoint/agent-key`
}

func (k *connectClaudeCode) Run(_ context.Context, _ *cli) error {
	if _, _, err := k.server(); err != nil {
		return err
	}
	command, err := k.command()
	if err != nil {
		return err
	}
	file, err := k.file()
	if err != nil {
		return err
	}
	before, err := os.ReadFile(file) // #nosec G304 -- the user names the file
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the settings: %w", err)
	}
	// The hook ends by itself well before the host lets the call run.
	timeout := int((k.Wait + k.Deadline + 10*time.Second).Seconds())
	if len(bytes.TrimSpace(before)) > 0 {
		if err := hook.HooksRun(before); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	after, err := hook.InstallClaudeCode(before, command, timeout)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if k.DryRun {
		_, err := os.Stdout.Write(after)
		return err
	}
	if !bytes.Equal(before, after) {
		if err := replaceSettings(file, before, after); err != nil {
			return err
		}
	}
	fmt.Printf("Claude Code asks Holdpoint before every tool call, by %s.\nStart it again, and see that nothing gets past:\n  holdpoint doctor claude-code --settings %s\n", file, file)
	return nil
}

// command is what the hook runs.
func (k *connectClaudeCode) command() (string, error) {
	program := k.Program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return "", fmt.Errorf("find this program: %w; name it with --program", err)
		}
		if strings.Contains(program, "go-build") {
			return "", errors.New("“go run” removes the program when it ends: build one (go build -o ~/bin/holdpoint ./cmd/holdpoint), and run that or name it with --program")
		}
	}
	words := []string{program, "hook", "claude-code"}
	if k.Data != "" {
		words = append(words, "--data", k.Data)
		if k.Runtime {
			words = append(words, "--runtime")
		}
	} else {
		if k.KeyFile == "" {
			return "", errors.New("name the file of the API key with --key-file: settings are no place for a key")
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
	if k.AllowAccepted {
		words = append(words, "--allow-accepted")
	}
	return hook.Blocks(words), nil
}

func (k *connectClaudeCode) file() (string, error) {
	switch {
	case k.Settings != "":
		return k.Settings, nil
	case k.Managed:
		return managedSettings(), nil
	case k.Project:
		return filepath.Abs(filepath.Join(".claude", "settings.json"))
	}
	return userSettings()
}

// userSettings is where Claude Code keeps what its user has set.
func userSettings() (string, error) {
	if dir := os.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, "settings.json"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the settings: %w; name them with --settings", err)
	}
	return filepath.Join(home, ".claude", "settings.json"), nil
}

// managedSettings is where Claude Code reads what an administrator has set.
func managedSettings() string {
	if runtime.GOOS == "darwin" {
		return "/Library/Application Support/ClaudeCode/managed-settings.json"
	}
	return "/etc/claude-code/managed-settings.json"
}

// replaceSettings puts a file in the place of another, at once, and keeps that one. What
// is the machine's, everybody's Claude Code has to be able to read, whatever the umask.
func replaceSettings(file string, before, after []byte) error {
	mode, dirMode := fs.FileMode(0o600), fs.FileMode(0o700)
	shared := file == managedSettings()
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
