package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// RedeemBody spends a token.
type RedeemBody struct {
	Token     string          `json:"token"`
	ToolName  string          `json:"tool_name"`
	Arguments json.RawMessage `json:"arguments" doc:"Exactly the arguments that were approved; white space and key order do not matter."`
	// Preconditions and Lease are for calls that depend on things, and long ones.
	Preconditions map[string]string `json:"preconditions,omitempty" doc:"What the things that the call depends on are now, by the approval's names for them."`
	LeaseSeconds  int64             `json:"lease_seconds,omitempty" minimum:"0" maximum:"86400" doc:"How long the call may take before nobody knows what became of it; 900 when left out."`
}

// RedeemAnswer permits the call to run, once.
type RedeemAnswer struct {
	Redeemed    bool            `json:"redeemed"`
	ApprovalID  string          `json:"approval_id"`
	Constraints json.RawMessage `json:"constraints" doc:"What the call must keep to; {} when nothing."`
	LeaseUntil  time.Time       `json:"lease_until" doc:"By when to say what became of the call."`
	Replayed    bool            `json:"replayed,omitempty" doc:"True when this request was answered before, under its Idempotency-Key: the call may be running, or have run."`
	RedeemedAt  *time.Time      `json:"redeemed_at,omitempty" doc:"With replayed: when the token was spent."`
}

// ExecutionBody says what became of a redeemed call.
type ExecutionBody struct {
	ApprovalID string `json:"approval_id"`
	Outcome    string `json:"outcome" enum:"succeeded,failed,unknown"`
	DurationMS int64  `json:"duration_ms,omitempty" minimum:"0"`
	// Findings and Output are looked at after the execution.
	Findings []string        `json:"findings,omitempty" doc:"Codes of what the host found wrong with the output."`
	Output   json.RawMessage `json:"output,omitempty" doc:"What the tool answered. It is looked at and not kept; the answer says what of it the agent may see."`
}

// UngatedBody is a call that ran without a decision.
type UngatedBody struct {
	ToolName  string          `json:"tool_name"`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"What it ran with. It is not kept; the event has the names of the arguments, and the keyed digest by which decisions on the same call are found."`
	Outcome   string          `json:"outcome" enum:"succeeded,failed,unknown"`
	SessionID string          `json:"session_id,omitempty" doc:"The host's conversation."`
	CallID    string          `json:"call_id,omitempty" doc:"The host's id of the call."`
	Host      string          `json:"host,omitempty" doc:"What the agent runs in, such as claude-code."`
}

// UngatedAnswer says where that is on record.
type UngatedAnswer struct {
	EventID    string    `json:"event_id"`
	RecordedAt time.Time `json:"recorded_at"`
}

// ExecutedAnswer is the approval, and what of the tool's answer the agent may see.
type ExecutedAnswer struct {
	Approval
	Output *safeai.Filtered `json:"output,omitempty"`
}

// lease is so many seconds; too many of them are more than the gate takes, and
// none that overflow.
func lease(seconds int64) time.Duration {
	most := int64(gate.MaxLease/time.Second) + 1
	return time.Duration(max(min(seconds, most), -1)) * time.Second
}

func (a approvalDoor) redeem(c *call) error {
	var in RedeemBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	arguments, _ := body.Get("arguments")
	return answer(a.API, c, body, func(once *access.Idempotency[gate.Redemption]) (gate.Redemption, error) {
		redeemed, err := a.Gate.Redeem(c.r.Context(), c.principal, gate.RedeemRequest{
			Token: in.Token, Tool: in.ToolName, Arguments: arguments, Preconditions: in.Preconditions, Lease: lease(in.LeaseSeconds),
			RequestID: RequestID(c.r.Context()),
		}, once)
		if err == nil {
			a.Metrics.redeemed.Inc()
		}
		if kept := (*access.Replay)(nil); errors.As(err, &kept) && kept.Reply.Status == http.StatusOK {
			err = a.redeemedBefore(c, kept.Reply)
		}
		return redeemed, err
	}, func(r gate.Redemption) (access.Reply, error) {
		answer := RedeemAnswer{Redeemed: true, ApprovalID: r.ApprovalID, Constraints: r.Constraints, LeaseUntil: r.LeaseUntil}
		if answer.Constraints == nil {
			answer.Constraints = json.RawMessage(`{}`)
		}
		return jsonReply(http.StatusOK, answer, nil)
	})
}

// redeemedBefore is what a repetition gets of a redemption that was answered with
// success: the first answer and when that was, as a *Replay.
func (a approvalDoor) redeemedBefore(c *call, first access.Reply) error {
	var answer RedeemAnswer
	if err := json.Unmarshal(first.Body, &answer); err != nil {
		return fmt.Errorf("read the kept answer: %w", err)
	}
	at, err := a.Gate.RedeemedAt(c.r.Context(), c.principal, answer.ApprovalID, RequestID(c.r.Context()))
	if err != nil {
		return err
	}
	answer.Replayed, answer.RedeemedAt = true, &at
	reply, err := jsonReply(http.StatusOK, answer, nil)
	if err != nil {
		return err
	}
	return &access.Replay{Reply: reply}
}

func (a approvalDoor) execution(c *call) error {
	var in ExecutionBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	outcome := approval.Execution(in.Outcome)
	if outcome != approval.Succeeded && outcome != approval.Failed && outcome != approval.Unknown || in.DurationMS < 0 {
		return &failure{
			Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "outcome must be succeeded, failed or unknown, and duration_ms not negative.",
			Fields: []FieldError{{Path: "/outcome", Message: "must be succeeded, failed or unknown"}},
		}
	}
	request := gate.ExecutionRequest{
		ApprovalID: in.ApprovalID, Outcome: outcome, DurationMS: in.DurationMS, Findings: in.Findings, RequestID: RequestID(c.r.Context()),
	}
	if output, sent := body.Get("output"); sent {
		request.Output = &output
	}
	return answer(a.API, c, body, func(once *access.Idempotency[gate.ExecutedCall]) (gate.ExecutedCall, error) {
		return a.Gate.Executed(c.r.Context(), c.principal, request, once)
	}, func(done gate.ExecutedCall) (access.Reply, error) {
		return jsonReply(http.StatusOK, ExecutedAnswer{a.wire(c.principal, gate.View{Approval: done.Approval}), done.Output}, nil)
	})
}

func (a approvalDoor) ungated(c *call) error {
	var in UngatedBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	u := gate.UngatedExecution{
		Tool: in.ToolName, Outcome: approval.Execution(in.Outcome), Session: in.SessionID, CallID: in.CallID, Host: in.Host, RequestID: RequestID(c.r.Context()),
	}
	if arguments, sent := body.Get("arguments"); sent {
		u.Arguments = &arguments
	}
	var wrong []FieldError
	if u.Outcome != approval.Succeeded && u.Outcome != approval.Failed && u.Outcome != approval.Unknown {
		wrong = append(wrong, FieldError{Path: "/outcome", Message: "must be succeeded, failed or unknown"})
	}
	if u.Tool == "" {
		wrong = append(wrong, FieldError{Path: "/tool_name", Message: "must not be empty"})
	}
	if u.Arguments != nil && u.Arguments.Kind() != canon.ObjectKind {
		wrong = append(wrong, FieldError{Path: "/arguments", Message: "must be an object"})
	}
	if len(wrong) > 0 {
		return &failure{Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "The body is not what it has to be.", Fields: wrong}
	}
	return answer(a.API, c, body, func(once *access.Idempotency[engine.Event]) (engine.Event, error) {
		return a.Gate.ReportUngated(c.r.Context(), c.principal, u, once)
	}, func(e engine.Event) (access.Reply, error) {
		return jsonReply(http.StatusOK, UngatedAnswer{e.ID, e.Timestamp}, nil)
	})
}
