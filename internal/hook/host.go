package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	holdpoint "holdpoint.example/client"
)

// Host is a coding agent that runs a program before and after each of its tool calls.
// Its own documentation says what it tells the program, and what it takes from it.
type Host struct {
	// Name is what it is called in commands: "holdpoint hook NAME".
	Name string
	// Title is what people call it.
	Title string
	// Before is the event of a call that is about to run, After those of one that has run.
	Before string
	After  []string
	// Unit is what its settings give a hook's time in.
	Unit time.Duration
	// Patience is how long it waits for a hook whose settings say nothing of that.
	Patience time.Duration

	failure  string // the event of After that tells of a failure only; "" if there is none
	blocks   bool   // its settings take onFailure
	nameless bool   // it has no ids of calls
	version  int    // its settings have to say this version; 0 for none
	// reasons says that it tells the model what the program writes to standard output, and
	// not what goes to standard error.
	reasons bool
	// answers says that it reads an answer in every version: that a call is allowed, and
	// what it runs with instead. Others are told by the program's code alone; one that
	// took no notice of changed arguments would run those that nobody has approved.
	answers bool
	// flat says that an entry of its settings is a hook itself, which blocks where it fails
	// only if the entry says so, and wants an answer each time.
	flat bool
	// writes and reads are for a host whose hooks are a file of ours, and not in settings.
	writes func(command []string, timeout time.Duration) ([]byte, error)
	reads  func(file []byte) ([]Installed, error)
}

// ClaudeCode is https://code.claude.com/docs/en/hooks.
var ClaudeCode = &Host{
	Name: "claude-code", Title: "Claude Code", Unit: time.Second, Patience: time.Minute, // the shortest that it has had by itself
	Before: "PreToolUse", After: []string{"PostToolUse", "PostToolUseFailure"}, failure: "PostToolUseFailure",
	blocks: true, answers: true,
}

// Codex is https://developers.openai.com/codex/hooks.
var Codex = &Host{
	Name: "codex", Title: "Codex", Unit: time.Second, Patience: time.Minute,
	Before: "PreToolUse", After: []string{"PostToolUse"},
}

// GeminiCLI is https://geminicli.com/docs/hooks/reference.
var GeminiCLI = &Host{
	Name: "gemini-cli", Title: "Gemini CLI", Unit: time.Millisecond, Patience: time.Minute,
	Before: "BeforeTool", After: []string{"AfterTool"}, nameless: true,
}

// CopilotCLI is https://docs.github.com/en/copilot/reference/hooks-reference, by the names
// of events that it shares with others.
var CopilotCLI = &Host{
	Name: "copilot-cli", Title: "Copilot CLI", Unit: time.Second, Patience: 30 * time.Second,
	Before: "PreToolUse", After: []string{"PostToolUse", "PostToolUseFailure"}, failure: "PostToolUseFailure",
	nameless: true, version: 1, reasons: true,
}

// OpenCode is https://opencode.ai/docs/plugins: a plugin of ours runs the program, and
// fails by itself a call that the program does not permit.
var OpenCode = &Host{
	Name: "opencode", Title: "opencode", Unit: time.Millisecond, Patience: time.Minute,
	Before: opencodeBefore, After: []string{opencodeAfter, opencodeFailed}, failure: opencodeFailed,
	writes: opencodeWrites, reads: opencodeReads,
}

// Cursor is https://cursor.com/docs/hooks.
var Cursor = &Host{
	Name: "cursor", Title: "Cursor", Unit: time.Second, Patience: 30 * time.Second,
	Before: "preToolUse", After: []string{"postToolUse", "postToolUseFailure"}, failure: "postToolUseFailure",
	version: 1, reasons: true, flat: true,
}

// Hosts are all of them.
var Hosts = []*Host{ClaudeCode, Codex, GeminiCLI, CopilotCLI, OpenCode, Cursor}

// TurnDown writes why a call does not run, where the host looks for it. The program has to
// end with 2 after it.
func (h *Host) TurnDown(out, errs io.Writer, why error) {
	text := fmt.Sprintf("Holdpoint: %v", why)
	_, _ = fmt.Fprintln(errs, text)
	if !h.reasons {
		return
	}
	// Without it the model is told less.
	if h.flat {
		_ = json.NewEncoder(out).Encode(flatAnswer{"deny", text, text})
		return
	}
	_ = json.NewEncoder(out).Encode(struct {
		Decision string `json:"permissionDecision"`
		Reason   string `json:"permissionDecisionReason"`
	}{"deny", text})
}

// flatAnswer is what Cursor reads of a hook.
type flatAnswer struct {
	Permission string `json:"permission"`
	User       string `json:"user_message,omitempty"`
	Model      string `json:"agent_message,omitempty"`
}

// maxInput bounds what a host says of a call, in bytes.
const maxInput = 8 << 20

// hostCall is what a host says of a call.
type hostCall struct {
	Event      string          `json:"hook_event_name"`
	Session    string          `json:"session_id"`
	Talk       string          `json:"conversation_id"` // Cursor's word for a session
	CallID     string          `json:"tool_use_id"`
	Tool       string          `json:"tool_name"`
	Arguments  json.RawMessage `json:"tool_input"`
	DurationMS float64         `json:"duration_ms"`
	Duration   float64         `json:"duration"` // Cursor's, in milliseconds, too
	Interrupt  bool            `json:"is_interrupt"`
	Response   json.RawMessage `json:"tool_response"`
	Failure    string          `json:"failure_type"` // Cursor: error, timeout, permission_denied
}

// Answer answers one run of a host's hook: what the host says comes from in. What it
// shall read goes to out; the error is for its standard error, and means that the call
// must not run: the program ends with 2 then, the only code by which hosts block a call.
//
// A call that the rules accept is left to the host's own permissions, unless allow says
// that Holdpoint's answer is enough; one that people have approved is allowed, if the
// host reads answers.
func (g *Gate) Answer(ctx context.Context, h *Host, in io.Reader, out io.Writer, allow bool) error {
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return fmt.Errorf("read what the host says: %w", err)
	}
	if len(data) > maxInput {
		return fmt.Errorf("the call is longer than %d bytes", maxInput)
	}
	var s hostCall
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("read what the host says: %w", err)
	}
	c := Call{Session: cmp.Or(s.Session, s.Talk), ID: s.CallID, Tool: s.Tool, Arguments: s.Arguments}
	if c.Tool == "" || c.Session == "" || c.ID == "" && !h.nameless {
		return errors.New("the host does not say which tool of which session it calls")
	}
	if h.nameless {
		c.ID = ""
	}
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage(`{}`)
	}
	if s.Event == h.Before {
		return g.before(ctx, h, c, out, allow)
	}
	for _, event := range h.After {
		if s.Event == event {
			if s.Failure == "permission_denied" {
				return g.NotRun(ctx, c)
			}
			return g.After(ctx, c, s.outcome(h), time.Duration(max(s.DurationMS, s.Duration)*float64(time.Millisecond)))
		}
	}
	return fmt.Errorf("the host tells of %q; %s's hook is for %s and %s", s.Event, h.Title, h.Before, h.After)
}

// outcome is what became of a call that has run, as far as the host says it.
func (s *hostCall) outcome(h *Host) holdpoint.Outcome {
	var response struct {
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(s.Response, &response) // other hosts have a text here
	switch failed := len(response.Error) > 0 && string(response.Error) != "null"; {
	case s.Interrupt, s.Failure == "timeout":
		return holdpoint.Uncertain
	case s.Event == h.failure || h.nameless && failed:
		return holdpoint.Failed
	}
	return holdpoint.Succeeded
}

func (g *Gate) before(ctx context.Context, h *Host, c Call, out io.Writer, allow bool) error {
	v, err := g.Before(ctx, c, h.answers)
	if err != nil {
		return fmt.Errorf("%w. Without a decision the call does not run", err)
	}
	if !v.Run {
		return errors.New(v.Why)
	}
	if h.flat { // without a word it takes the hook for one that has failed
		return answered(json.NewEncoder(out).Encode(flatAnswer{Permission: "allow"}))
	}
	if !h.answers || !allow && !v.ByPeople {
		return nil
	}
	type decision struct {
		Event    string          `json:"hookEventName"`
		Decision string          `json:"permissionDecision"`
		Reason   string          `json:"permissionDecisionReason"`
		Changed  json.RawMessage `json:"updatedInput,omitempty"`
	}
	reason := "Accepted by Holdpoint's rules."
	if v.ByPeople {
		reason = "Approved in Holdpoint."
	}
	answer := struct {
		Output decision `json:"hookSpecificOutput"`
	}{decision{h.Before, "allow", reason, v.Changed}}
	return answered(json.NewEncoder(out).Encode(answer))
}

func answered(err error) error {
	if err != nil {
		return fmt.Errorf("answer the host: %w", err)
	}
	return nil
}
