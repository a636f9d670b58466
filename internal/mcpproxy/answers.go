package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	holdpoint "holdpoint.example/client"

	"holdpoint/engine"
	"holdpoint/engine/shellword"
)

// alreadyBegun is the answer to an approved call that has begun, here before a crash or in another
// host, and may have had its effect.
func alreadyBegun(a *holdpoint.Approval) *refusal {
	return &refusal{approval: a.ID, text: "Not run: this very call was approved and begun before, and nobody knows what became of it (" + a.ID +
		"). It is not run again until that is on record: " + a.Links.Review}
}

// unclear is the answer to an approved call of which it is not known whether another proxy
// runs it.
func unclear(a *holdpoint.Approval) *refusal {
	return &refusal{approval: a.ID, text: "Not run here: it was approved (" + a.ID + "), but Holdpoint did not say that it may run now, and it may have been run elsewhere by the same approval. " +
		"Call the tool again with the same arguments to find out; do not do the same by other means: " + a.Links.Review}
}

// hasRun is the answer to a call that has run by its approval, and whose result is elsewhere.
func hasRun(a *holdpoint.Approval) *refusal {
	return &refusal{approval: a.ID, text: "Not run again: this very call has run, and " + a.Execution + " (" + a.ID +
		"). What the tool answered is not known here. Call the tool again only if it is wanted once more."}
}

// refused is the answer to a call that did not run.
func (p *Proxy) refused(ctx context.Context, c *call, err error) *jsonrpc.Response {
	var known *refusal
	var problem *holdpoint.Problem
	switch {
	case errors.As(err, &known):
		return result(c, known.text, known.approval)
	case ctx.Err() != nil:
		return result(c, "Not run: the call was cancelled.", "")
	case errors.As(err, &problem):
		text := fmt.Sprintf("Not run: nothing has been granted. %s (%s)", problem.Detail, problem.Code)
		if problem.RetryAfter > 0 {
			text += fmt.Sprintf(" Try again after %d seconds.", int(problem.RetryAfter.Seconds()))
		}
		return result(c, text, "")
	}
	p.Logger.WarnContext(ctx, "a call was not permitted", "tool", ToolName(p.Name, c.tool), "error", err)
	var unreachable *holdpoint.Unreachable
	var address *url.Error
	if errors.As(err, &unreachable) || errors.As(err, &address) {
		err = errUnreachable // theirs have the address in them
	}
	return result(c, "Not run: nothing has been granted, because Holdpoint could not be asked. Try again later. ("+err.Error()+")", "")
}

// result is a tool's result that says why it did not run.
func result(c *call, text, approval string) *jsonrpc.Response {
	out := struct {
		Content []block           `json:"content"`
		IsError bool              `json:"isError"`
		Meta    map[string]string `json:"_meta,omitempty"`
	}{[]block{{"text", text}}, true, nil}
	if approval != "" {
		out.Meta = map[string]string{"holdpoint/approval_id": approval}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return failure(c.id, jsonrpc.CodeInternalError, "not run") // texts always encode
	}
	return &jsonrpc.Response{ID: c.id, Result: data}
}

type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// refusal is why a proposed call was refused at once. register is the command by which an
// operator registers the tool.
func (c checkAnswer) refusal(register string) *refusal {
	if a := c.Approval; a != nil {
		r := ended(a)
		r.text = "People have denied this very call before. " + r.text
		return r
	}
	text := "Not allowed"
	var verify bool
	for i, reason := range c.Decision.Reasons {
		text += map[bool]string{true: ": ", false: "; "}[i == 0] + strings.TrimSuffix(reason.Message, ".") + " (" + reason.Code + ")"
		verify = verify || reason.Code == "UNVERIFIED_MCP_TOOL" || reason.Code == "PROVENANCE_FAILED"
	}
	text += ". The tool was not run; do not rephrase the call to get it past this."
	if verify {
		text += fmt.Sprintf(" An operator who has looked at the tool says so with: %s", register)
	}
	return &refusal{text: text}
}

// Register is the command that registers a tool as it is described now, with a running “holdpoint dev” if
// data is its directory. The tool's name is the server's: it is quoted, so that a shell runs nothing of it.
func Register(tool, manifest, data string) string {
	words := []string{"holdpoint", "tool", "set", tool, "--provider", "mcp", "--verified", "--manifest-hash", manifest}
	if data != "" {
		words = append(words, "--data", data)
	}
	return shellword.Command(words...)
}

// waitsFor is what a host is told while a call waits.
func waitsFor(a *holdpoint.Approval) string {
	return "Waiting for people to decide: " + a.Links.Review + asked(a)
}

// asked is the sentence about an open question; "" for none.
func asked(a *holdpoint.Approval) string {
	if a.Question == nil {
		return ""
	}
	return fmt.Sprintf(" A reviewer asks: %q The agent's owner answers on that page.", a.Question.Text)
}

// pending is the answer to a call that people still decide on.
func pending(a *holdpoint.Approval) *refusal {
	text := fmt.Sprintf("Not run yet: people decide on this call at %s. Call the tool again with the same arguments to wait for them; once approved, it runs then, once. "+
		"Do not change the arguments, and do not do the same by other means. (%s, until %s)", a.Links.Review, a.ID, a.ExpiresAt.UTC().Format(time.RFC3339))
	for _, k := range engine.Kinds() {
		if kind := k.Traits(); kind.NextAction == a.NextAction && kind.AgentTask != "" {
			text += " " + strings.ReplaceAll(kind.AgentTask, "%s", a.Links.Review)
		}
	}
	return &refusal{text: text + asked(a), approval: a.ID}
}

// ended is the answer to a call that was not approved.
func ended(a *holdpoint.Approval) *refusal {
	text := fmt.Sprintf("Not run: it is %s (%s).", a.Status, a.ID)
	if d := a.Denial; d != nil {
		text += fmt.Sprintf(" Kind: %s.", d.Kind)
		if d.Comment != "" {
			text += fmt.Sprintf(" The reviewer wrote %q.", d.Comment)
		}
		switch {
		case d.RetryAfter > 0:
			text += fmt.Sprintf(" It may be called again after %d seconds.", d.RetryAfter)
		case d.Retryable:
			text += " Corrected, it may be called again."
		default:
			text += " Do not call it again."
		}
	} else if a.Status != holdpoint.Denied {
		text += " Call the tool again if it is still wanted."
	}
	return &refusal{text: text, approval: a.ID}
}

// lost is the answer to a call that ran, or may have.
func lost(approval string, err error) string {
	if errors.Is(err, errGone) || errors.Is(err, context.Canceled) {
		err = errGone
	}
	text := fmt.Sprintf("It is not known whether the tool had its effect: %v. Do not call it again before you know.", err)
	if approval != "" {
		text += " (" + approval + ")"
	}
	return text
}

// withEdit says in a result that the call ran with other arguments than the model's.
func withEdit(a *jsonrpc.Response, allowed permission) *jsonrpc.Response {
	var result map[string]json.RawMessage
	var content []json.RawMessage
	if allowed.edited == nil || a.Error != nil || json.Unmarshal(a.Result, &result) != nil || json.Unmarshal(result["content"], &content) != nil {
		return a
	}
	note, err := json.Marshal(block{"text", fmt.Sprintf("A reviewer changed %s: the tool ran with the arguments %s", strings.Join(allowed.edited, ", "), allowed.arguments.Canonical())})
	if err != nil {
		return a
	}
	if result["content"], err = json.Marshal(append([]json.RawMessage{note}, content...)); err != nil {
		return a
	}
	changed, err := json.Marshal(result)
	if err != nil {
		return a
	}
	return &jsonrpc.Response{ID: a.ID, Result: changed}
}
