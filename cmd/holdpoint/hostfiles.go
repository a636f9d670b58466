package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"holdpoint/internal/hook"
)

// hostFiles says where a coding agent has its settings.
type hostFiles struct {
	host *hook.Host
	// home is the directory of the user's own, below their home, unless a variable of the
	// environment names another one; file is its file.
	home, variable, file string
	project              []string // in the project's directory
	managed              string   // the machine's; "" if there is no such file that we write
	then                 string   // what its user does next
}

var (
	claudeCodeFiles = hostFiles{
		host: hook.ClaudeCode, home: ".claude", variable: "CLAUDE_CONFIG_DIR", file: "settings.json",
		project: []string{".claude/settings.json", ".claude/settings.local.json"},
		managed: ofSystem("/etc/claude-code/managed-settings.json", "/Library/Application Support/ClaudeCode/managed-settings.json"),
		then:    "Start it again",
	}
	codexFiles = hostFiles{
		host: hook.Codex, home: ".codex", variable: "CODEX_HOME", file: "hooks.json",
		project: []string{".codex/hooks.json"},
		then:    "Start it, trust both hooks by /hooks, since it runs no other",
	}
	geminiCLIFiles = hostFiles{
		host: hook.GeminiCLI, home: ".gemini", file: "settings.json",
		project: []string{".gemini/settings.json"},
		managed: ofSystem("/etc/gemini-cli/settings.json", "/Library/Application Support/GeminiCli/settings.json"),
		then:    "Start it again",
	}
	copilotCLIFiles = hostFiles{
		host: hook.CopilotCLI, home: ".copilot", variable: "COPILOT_HOME", file: "hooks/holdpoint.json",
		project: []string{".github/hooks/holdpoint.json"},
		managed: "/etc/github-copilot/policy.d/holdpoint.json",
		then:    "Start it again",
	}
	openCodeFiles = hostFiles{
		host: hook.OpenCode, home: ".config", variable: "XDG_CONFIG_HOME", file: "opencode/plugins/holdpoint.js",
		project: []string{".opencode/plugins/holdpoint.js"},
		managed: openCodeMachine + "/holdpoint.js",
		then:    "Start it again",
	}
	cursorFiles = hostFiles{
		host: hook.Cursor, home: ".cursor", file: "hooks.json",
		project: []string{".cursor/hooks.json"},
		managed: ofSystem("/etc/cursor/hooks.json", "/Library/Application Support/Cursor/hooks.json"),
		then:    "Start it again",
	}
)

// openCodeMachine is where opencode has the settings of the machine.
var openCodeMachine = ofSystem("/etc/opencode", "/Library/Application Support/opencode")

func ofSystem(linux, mac string) string {
	if runtime.GOOS == "darwin" {
		return mac
	}
	return linux
}

// user is where the host keeps what its user has set.
func (f hostFiles) user() (string, error) {
	if dir := os.Getenv(f.variable); f.variable != "" && dir != "" {
		return filepath.Join(dir, f.file), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the settings: %w; name them with --settings", err)
	}
	return filepath.Join(home, f.home, f.file), nil
}

// all are the files that there may be.
func (f hostFiles) all() ([]string, error) {
	user, err := f.user()
	if err != nil {
		return nil, err
	}
	files := append([]string{user}, f.project...)
	if f.managed != "" {
		files = append(files, f.managed)
	}
	return files, nil
}
