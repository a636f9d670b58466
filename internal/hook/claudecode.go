package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	holdpoint "holdpoint.example/client"
)

// The events of Claude Code's hooks that are known here.
// https://code.claude.com/docs/en/hooks
const (
	preToolUse         = "PreToolUse"
	postToolUse        = "PostToolUse"
	postToolUseFailure = "PostToolUseFailure"
)

// maxInput bounds what a host says of a call, in bytes.
const maxInput = 8 << 20

// claudeCode is what Claude Code says of a call.
type claudeCode struct {
	Event      string          `json:"hook_event_name"`
	Session    string          `json:"session_id"`
	CallID     string          `json:"tool_use_id"`
	Tool       string          `json:"tool_name"`
	Arguments  json.RawMessage `json:"tool_input"`
	DurationMS int64           `json:"duration_ms"`
	Interrupt  bool            `json:"is_interrupt"`
}

// ClaudeCode answers one run of a hook of Claude Code: what it says comes from in. What
// the host shall read goes to out; the error is for its standard error, and means that
// the call must not run: the program ends with 2 then, the only code by which Claude
// Code blocks a call.
//
// A call that the rules accept is left to the host's own permissions, unless allow says
// that Holdpoint's answer is enough; one that people have approved is allowed.
func (g *Gate) ClaudeCode(ctx context.Context, in io.Reader, out io.Writer, allow bool) error {
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return fmt.Errorf("read what the host says: %w", err)
	}
	if len(data) > maxInput {
		return fmt.Errorf("the call is longer than %d bytes", maxInput)
	}
	var said claudeCode
	if err := json.Unmarshal(data, &said); err != nil {
		return fmt.Errorf("read what the host says: %w", err)
	}
	c := Call{Session: said.Session, ID: said.CallID, Tool: said.Tool, Arguments: said.Arguments}
	if c.Tool == "" || c.Session == "" || c.ID == "" {
		return errors.New("the host does not say which tool of which session it calls")
	}
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage(`{}`)
	}
	switch said.Event {
	case preToolUse:
		return g.before(ctx, c, out, allow)
	case postToolUse, postToolUseFailure:
		outcome := holdpoint.Succeeded
		if said.Event == postToolUseFailure {
			outcome = holdpoint.Failed
		}
		if said.Interrupt {
			outcome = holdpoint.Uncertain
		}
		return g.After(ctx, c, outcome, time.Duration(said.DurationMS)*time.Millisecond)
	}
	return fmt.Errorf("the host tells of %q; this program is for PreToolUse, PostToolUse and PostToolUseFailure", said.Event)
}

func (g *Gate) before(ctx context.Context, c Call, out io.Writer, allow bool) error {
	v, err := g.Before(ctx, c)
	if err != nil {
		return fmt.Errorf("%w. Without a decision the call does not run", err)
	}
	if !v.Run {
		return errors.New(v.Why)
	}
	if !allow && !v.ByPeople {
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
	}{decision{preToolUse, "allow", reason, v.Changed}}
	if err := json.NewEncoder(out).Encode(answer); err != nil {
		return fmt.Errorf("answer the host: %w", err)
	}
	return nil
}
