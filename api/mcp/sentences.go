package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/dialect/aana"
)

// waiting is what of an approval the sentences are about; the client gets all
// of it as the API wrote it.
type waiting struct {
	ID         string    `json:"id"`
	Status     string    `json:"status"`
	ToolName   string    `json:"tool_name"`
	OpenedAt   time.Time `json:"opened_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	EndedAt    time.Time `json:"ended_at"` // zero while it is pending
	NextAction string    `json:"next_action"`
	Execution  string    `json:"execution"`
	Token      string    `json:"resumption_token"`
	Links      struct {
		Review string `json:"review"`
	} `json:"links"`
	Edited   *struct{} `json:"edited"`
	Question *struct {
		Text string `json:"text"`
	} `json:"question"`
	Denial *struct {
		Kind       string `json:"kind"`
		Retryable  bool   `json:"retryable"`
		RetryAfter int    `json:"retry_after"`
		Comment    string `json:"comment"`
	} `json:"denial"`
}

// approvalOf reads an approval; nil for none.
func approvalOf(data json.RawMessage) (*waiting, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	w := &waiting{}
	if err := json.Unmarshal(data, w); err != nil {
		return nil, fmt.Errorf("read the approval: %w", err)
	}
	return w, nil
}

// verdict is what of an Agent-SPM decision its sentence is about.
type verdict struct {
	Allowed  bool `json:"allowed"`
	Decision struct {
		Outcome string          `json:"outcome"`
		Reasons []engine.Reason `json:"reasons"`
	} `json:"decision"`
	Approval json.RawMessage `json:"approval"`
}

const mayRun = "Allowed: run the tool now, with exactly the arguments that were checked."

// sayAllowed is the line about an accepted call, with an approval where a token was
// asked for.
func sayAllowed(w *waiting) string {
	switch {
	case w == nil:
		return mayRun
	case w.Status == "approved" && w.Token != "":
		return "Allowed: the host spends resumption_token with POST /v1/tokens/redeem for the same tool and arguments, and runs the tool once after that has succeeded."
	}
	return fmt.Sprintf("Allowed, and its token is not here yet: call %s with approval_id %s for it, and do not run the tool before.", awaitTool, w.ID)
}

func sayDecision(e aana.Envelope, w *waiting) string {
	switch {
	case e.ExecutionPolicy.ExecutionAllowed:
		return sayAllowed(w)
	case w != nil:
		return w.sayOpened()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "Not allowed (%s): do not run the tool.", e.RecommendedAction)
	if len(e.HardBlockers) > 0 {
		fmt.Fprintf(&text, " Blocked by %s.", strings.Join(e.HardBlockers, ", "))
	}
	for i, wrong := range e.ValidationErrors {
		if i == 8 {
			break
		}
		fmt.Fprintf(&text, " %s: %s.", wrong.Path, strings.TrimSuffix(wrong.Message, "."))
	}
	if s := e.ArchitectureDecision.RecoverySuggestion; s != "" {
		fmt.Fprintf(&text, " Next: %s", s)
	}
	return text.String()
}

func (v verdict) say(w *waiting) string {
	switch {
	case v.Allowed:
		return sayAllowed(w)
	case w != nil:
		return w.sayOpened()
	}
	var codes []string
	for _, r := range v.Decision.Reasons {
		codes = append(codes, r.Code)
	}
	return fmt.Sprintf("Not allowed (%s): do not run the tool. Reasons: %s.", v.Decision.Outcome, strings.Join(codes, ", "))
}

// sayOpened is the line about a call that has begun to wait, or that people have
// denied before.
func (w *waiting) sayOpened() string {
	if w.Status != "pending" {
		return fmt.Sprintf("Not allowed: do not run the tool. People have denied this very call before (%s). Change it, or ask again later.", w.ID)
	}
	return fmt.Sprintf("Waiting for people: do not run the tool yet. Call %s with approval_id %s; they decide at %s.", awaitTool, w.ID, w.Links.Review)
}

// sayEdited says which arguments are approved, where those are not the proposed ones.
func (w *waiting) sayEdited() string {
	if w.Edited == nil {
		return ""
	}
	return " A reviewer has changed the arguments: use edited.arguments, and no others."
}

// waits is what a client is told of the progress of a call that waits.
func (w *waiting) waits() string {
	return "Waiting for people to decide: " + w.Links.Review + w.asks()
}

// asks is the sentence about a reviewer's open question; "" for none.
func (w *waiting) asks() string {
	if w.Question == nil {
		return ""
	}
	return fmt.Sprintf(" A reviewer asks: %q The agent's owner answers at %s.", w.Question.Text, w.Links.Review)
}

// say is the line about an approval, wherever it stands.
func (w *waiting) say() string {
	switch w.Status {
	case "pending":
		text := fmt.Sprintf("Still waiting: do not run the tool yet. Call %s with approval_id %s again; it expires at %s.", awaitTool, w.ID, w.ExpiresAt.UTC().Format(time.RFC3339)) + w.asks()
		for _, k := range engine.Kinds() {
			if kind := k.Traits(); kind.NextAction == w.NextAction && kind.AgentTask != "" {
				return text + " " + strings.ReplaceAll(kind.AgentTask, "%s", w.Links.Review)
			}
		}
		return text
	case "approved":
		if w.Token == "" {
			return fmt.Sprintf("Approved, but there is no token here to run it with (execution: %s). Do not run the tool again.", w.Execution)
		}
		return fmt.Sprintf("Approved: the host spends resumption_token with POST /v1/tokens/redeem for the same tool and arguments, or calls %s with them, and runs the tool once after that has succeeded.", redeemTool) + w.sayEdited()
	case "denied":
		return w.sayDenied()
	}
	return fmt.Sprintf("It is %s: do not run the tool. Propose the call again if it is still wanted.", w.Status)
}

func (w *waiting) sayDenied() string {
	text := "Denied: do not run the tool."
	if w.Denial == nil {
		return text
	}
	text += fmt.Sprintf(" Kind: %s.", w.Denial.Kind)
	if w.Denial.Comment != "" {
		text += fmt.Sprintf(" The reviewer wrote %q.", w.Denial.Comment)
	}
	switch {
	case w.Denial.RetryAfter > 0:
		text += fmt.Sprintf(" It may be proposed again after %d seconds.", w.Denial.RetryAfter)
	case w.Denial.Retryable:
		text += " Corrected, it may be proposed again."
	default:
		text += " Do not propose it again."
	}
	return text
}
