package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holdpoint/internal/hook"
)

type hookCommand struct {
	ClaudeCode hookClaudeCode `cmd:"" name:"claude-code" help:"Answer a hook of Claude Code: may this tool call run?"`
	Codex      hookCodex      `cmd:"" name:"codex" help:"Answer a hook of Codex: may this tool call run?"`
	GeminiCLI  hookGeminiCLI  `cmd:"" name:"gemini-cli" help:"Answer a hook of Gemini CLI: may this tool call run?"`
	CopilotCLI hookCopilotCLI `cmd:"" name:"copilot-cli" help:"Answer a hook of GitHub Copilot CLI: may this tool call run?"`
	OpenCode   hookOpenCode   `cmd:"" name:"opencode" help:"Answer a hook of opencode: may this tool call run?"`
	Cursor     hookCursor     `cmd:"" name:"cursor" help:"Answer a hook of Cursor: may this tool call run?"`
}

// hookFlags are what every hook needs to know. "holdpoint connect" writes them.
type hookFlags struct {
	clientFlags
	Wait     time.Duration `help:"How long to wait for people before the call is turned down as waiting." default:"0s" placeholder:"DURATION"`
	Deadline time.Duration `help:"How long the server may take to answer besides; then the call does not run." default:"20s" placeholder:"DURATION"`
	State    string        `help:"Directory of what is known of waiting calls; by default below the user's own." type:"path" placeholder:"DIR"`
}

// hookRun are the flags of a run of a hook.
type hookRun struct {
	hookFlags
	Check bool `help:"Ask the server whether it knows the key, and nothing else."`
}

type hookClaudeCode struct {
	hookRun
	AllowAccepted bool `help:"Let calls that the rules accept run without asking the host's own permissions."`
}

type hookCodex struct{ hookRun }

type hookGeminiCLI struct{ hookRun }

type hookCopilotCLI struct{ hookRun }

type hookOpenCode struct{ hookRun }

type hookCursor struct{ hookRun }

// Help is shown by "holdpoint hook claude-code --help".
func (hookClaudeCode) Help() string {
	return `Claude Code runs this before and after each tool call (PreToolUse, PostToolUse,
PostToolUseFailure). “holdpoint connect claude-code” writes its settings.

A call runs when the rules accept it or people have approved it. A call that
waits for people is turned down with the address at which they decide; the very
same call, made again after they have approved it, runs, once. Whatever fails —
no server, no key, no answer in time — the program ends with 2, and the call
does not run.

Example:
  echo '{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"t1",
    "tool_name":"Bash","tool_input":{"command":"make"}}' |
    holdpoint hook claude-code --data .holdpoint; echo $?`
}

// Help is shown by "holdpoint hook codex --help".
func (hookCodex) Help() string {
	return `Codex runs this before and after each tool call (PreToolUse, PostToolUse).
“holdpoint connect codex” writes its hooks.json, which Codex runs once its user
has trusted it (/hooks). It is otherwise as “holdpoint hook claude-code”.

Example:
  echo '{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"t1",
    "tool_name":"Bash","tool_input":{"command":"make"}}' |
    holdpoint hook codex --data .holdpoint; echo $?`
}

// Help is shown by "holdpoint hook gemini-cli --help".
func (hookGeminiCLI) Help() string {
	return `Gemini CLI runs this before and after each tool call (BeforeTool, AfterTool).
“holdpoint connect gemini-cli” writes its settings. It is otherwise as
“holdpoint hook claude-code”.

Example:
  echo '{"hook_event_name":"BeforeTool","session_id":"s",
    "tool_name":"run_shell_command","tool_input":{"command":"make"}}' |
    holdpoint hook gemini-cli --data .holdpoint; echo $?`
}

// Help is shown by "holdpoint hook copilot-cli --help".
func (hookCopilotCLI) Help() string {
	return `GitHub Copilot CLI runs this before and after each tool call (PreToolUse,
PostToolUse, PostToolUseFailure). “holdpoint connect copilot-cli” writes its
hooks. It is otherwise as “holdpoint hook claude-code”.

Example:
  echo '{"hook_event_name":"PreToolUse","session_id":"s",
    "tool_name":"Bash","tool_input":{"command":"make"}}' |
    holdpoint hook copilot-cli --data .holdpoint; echo $?`
}

// Help is shown by "holdpoint hook opencode --help".
func (hookOpenCode) Help() string {
	return `The plugin of “holdpoint connect opencode” runs this before and after each tool call
of opencode. It is otherwise as “holdpoint hook claude-code”.

Example:
  echo '{"hook_event_name":"tool.execute.before","session_id":"s","tool_use_id":"t1",
    "tool_name":"bash","tool_input":{"command":"make"}}' |
    holdpoint hook opencode --data .holdpoint; echo $?`
}

// Help is shown by "holdpoint hook cursor --help".
func (hookCursor) Help() string {
	return `Cursor runs this before and after each tool call (preToolUse, postToolUse,
postToolUseFailure). “holdpoint connect cursor” writes its hooks.json. It is
otherwise as “holdpoint hook claude-code”.

Example:
  echo '{"hook_event_name":"preToolUse","conversation_id":"s","tool_use_id":"t1",
    "tool_name":"Shell","tool_input":{"command":"make"}}' |
    holdpoint hook cursor --data .holdpoint; echo $?`
}

func (h *hookClaudeCode) Run(ctx context.Context, _ *cli) error {
	return h.run(ctx, hook.ClaudeCode, h.AllowAccepted)
}

func (h *hookCodex) Run(ctx context.Context, _ *cli) error { return h.run(ctx, hook.Codex, false) }

func (h *hookGeminiCLI) Run(ctx context.Context, _ *cli) error {
	return h.run(ctx, hook.GeminiCLI, false)
}

func (h *hookCopilotCLI) Run(ctx context.Context, _ *cli) error {
	return h.run(ctx, hook.CopilotCLI, false)
}

func (h *hookOpenCode) Run(ctx context.Context, _ *cli) error {
	return h.run(ctx, hook.OpenCode, false)
}

func (h *hookCursor) Run(ctx context.Context, _ *cli) error { return h.run(ctx, hook.Cursor, false) }

func (h *hookRun) run(ctx context.Context, host *hook.Host, allow bool) error {
	return h.answer(ctx, host, func(ctx context.Context, g *hook.Gate) error {
		if h.Check {
			return g.Check(ctx)
		}
		return g.Answer(ctx, host, os.Stdin, os.Stdout, allow)
	})
}

// answer runs what answers a host. Whatever goes wrong the program ends with 2, in
// time: hosts let a call run whose hook ends with another code, or not soon enough.
func (h *hookFlags) answer(ctx context.Context, host *hook.Host, run func(context.Context, *hook.Gate) error) error {
	limit := h.Wait + h.Deadline
	// The context ends what waits for the server; this is for what waits for anything else.
	time.AfterFunc(limit+time.Second, func() { turnDown(host, errors.New("there was no answer in time")) })
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the server did not answer within %s", limit))
	defer cancel()
	g, err := h.gate(host.Name)
	if err == nil {
		err = run(ctx, g)
	}
	if err != nil {
		turnDown(host, err)
	}
	return nil
}

// turnDown ends the program with the code that blocks the call.
func turnDown(host *hook.Host, why error) {
	host.TurnDown(os.Stdout, os.Stderr, why)
	os.Exit(2)
}

func (h *hookFlags) gate(host string) (*hook.Gate, error) {
	address, key, err := h.server()
	if err != nil {
		return nil, err
	}
	dir := h.State
	if dir == "" {
		if dir, err = stateDir(); err != nil {
			return nil, err
		}
	}
	return &hook.Gate{URL: address, Key: key, Agent: host, Dir: filepath.Join(dir, "hook"), Wait: h.Wait}, nil
}

// stateDir is where programs of a user keep what they need the next time.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "holdpoint"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find where to keep what waits: %w; name a directory with --state", err)
	}
	return filepath.Join(home, ".local", "state", "holdpoint"), nil
}
