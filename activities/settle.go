// Package activities touches the world on behalf of workflows: one small
// struct for each outside system. Everything here may run twice and must mean
// the same as once. It never decides by itself: what an approval has come to is
// a pure function's answer, written down under the approval's lock.
package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/registry"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// Rejudge judges the sealed document of an approval whose requirements have
// been met, by the policy in force now. It is pure.
type Rejudge interface {
	Again(a approval.Approval, document []byte, now time.Time) (engine.Decision, error)
}

// EventMaker starts an event about an approval.
type EventMaker func(kind engine.EventType, outcome engine.Outcome, a approval.Approval, by engine.Actor) engine.Event

// Settler writes down what approvals have come to.
type Settler struct {
	Store  *store.Store
	Sealer *seal.Sealer
	Judge  Rejudge
	Event  EventMaker
	// Validity is how long an approved call may wait for its agent.
	Validity time.Duration
	// NewTokenID makes the id of a new token.
	NewTokenID func() string
}

// Settle locks the approval, asks approval.Advance where its facts have
// brought it, and writes a terminal state and its event in one transaction. It
// is the activity of that name; calling it at any time, any number of times,
// is harmless.
func (s *Settler) Settle(ctx context.Context, in workflows.SettleInput) (workflows.SettleResult, error) {
	var result workflows.SettleResult
	err := s.Store.Change(ctx, in.ApprovalID, nil, func(c *store.Change) (any, error, error) {
		if c.Approval.Status.Terminal() {
			result = workflows.SettleResult{Over: true}
			return nil, nil, nil
		}
		state := c.Approval.State
		if state.Status == approval.Pending {
			result = workflows.SettleResult{WakeIn: state.Wake.Sub(c.Now)}
			return nil, nil, c.Wake(state.Wake)
		}
		end, err := s.end(c)
		if errors.Is(err, ErrLater) && c.Now.Before(c.Approval.Plan.ExpiresAt) {
			result = workflows.SettleResult{WakeIn: lookAgain}
			return nil, nil, nil
		}
		token := ""
		if end.status == approval.Approved {
			token = s.NewTokenID()
		}
		if err := c.Settle(end.status, end.reasons, token, s.Validity); err != nil {
			return nil, nil, err
		}
		e := s.Event(engine.Settled, end.status.Outcome(), c.Approval, engine.Actor{Kind: engine.SystemActor, ID: "settle", Channel: "engine"})
		if end.outcome != "" {
			e.Outcome = end.outcome
		}
		e.Reasons, e.Requirements = end.reasons, c.Approval.Plan.Requirements
		c.AddEvent(e)
		result = workflows.SettleResult{Over: true}
		return nil, nil, nil
	})
	if errors.Is(err, store.ErrNotFound) {
		// Somebody started a workflow for an approval that there is not.
		return result, temporal.NewNonRetryableApplicationError("no such approval", "not_found", nil)
	}
	if err != nil {
		return result, fmt.Errorf("settle %s: %w", in.ApprovalID, err)
	}
	return result, nil
}

// ErrLater is returned by a Rejudge that has no rules to judge by at the moment:
// what people have approved waits, until its deadline, for rules to be back.
var ErrLater = errors.New("no rules are in force at the moment")

// lookAgain is how soon what waits for rules is looked at again.
const lookAgain = 5 * time.Second

type ending struct {
	status  approval.Status
	reasons []engine.Reason
	outcome engine.Outcome // where it is not the status's own
}

// end is the terminal state of an approval whose facts have decided it. What
// people approved is judged again first: approval is not the last word.
//
// ErrLater comes with the end that it has if that cannot wait any longer.
func (s *Settler) end(c *store.Change) (ending, error) {
	state := c.Approval.State
	if state.Status != approval.Approved {
		return ending{status: state.Status, reasons: []engine.Reason{why(c.Approval)}}, nil
	}
	if c.Kill != nil {
		// A yes from before the switch was thrown is none after it.
		code := registry.AgentKill
		if c.Kill.AgentID == "" {
			code = registry.GlobalKill
		}
		return ending{approval.Denied, []engine.Reason{{Code: code, Message: "The call was approved, but a kill switch stops its agent."}}, engine.KillSwitch}, nil
	}
	// Opening depends on nothing that may be back later, and judging on little
	// (ErrLater): what else fails now fails always, and the approval must end all
	// the same.
	document, err := s.Sealer.Open(c.Approval.ID, c.Sealed)
	if err != nil {
		return unjudged("The sealed arguments cannot be opened, so the call cannot be judged again."), nil
	}
	again, err := s.Judge.Again(c.Approval, document, c.Now)
	if errors.Is(err, ErrLater) {
		return unjudged("There were no rules in force by which the call could have been judged again."), err
	}
	if err != nil {
		return unjudged("The call cannot be judged again."), nil
	}
	left := engine.Undischarged(c.Approval.Decision.Findings, c.Approval.Plan.Requirements, again)
	if len(left) > 0 {
		reasons := []engine.Reason{{Code: "policy_changed", Message: "The call was approved, but judged again it shows what nobody has approved."}}
		return ending{status: approval.Denied, reasons: append(reasons, engine.Reasons(left)...)}, nil
	}
	if unmet := engine.Unmet(c.Approval.Plan.Requirements, again); len(unmet) > 0 {
		return ending{status: approval.Denied, reasons: []engine.Reason{
			{Code: "policy_changed", Message: "The call was approved by those whom it needed then; by the rules in force now it needs more."},
		}}, nil
	}
	if !sameConstraints(c.Approval.Decision.Constraints, again.Constraints) {
		return ending{status: approval.Denied, reasons: []engine.Reason{
			{Code: "policy_changed", Message: "The call was approved under constraints that are not those of the policy any more."},
		}}, nil
	}
	return ending{status: approval.Approved, reasons: []engine.Reason{why(c.Approval)}}, nil
}

// sameConstraints compares two JSON objects, however they are written.
func sameConstraints(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	x, errX := canon.Parse(a)
	y, errY := canon.Parse(b)
	return errX == nil && errY == nil && bytes.Equal(x.Canonical(), y.Canonical())
}

// unjudged is the end of an approved call that cannot be judged again: no.
func unjudged(message string) ending {
	return ending{status: approval.Denied, reasons: []engine.Reason{{Code: "recheck_failed", Message: message}}}
}

// why is the reason code that ends a wait (Agent-SPM), by what was waited for.
func why(a approval.Approval) engine.Reason {
	switch a.State.Status {
	case approval.Approved:
		switch a.Decision.Outcome {
		case engine.RequireHuman:
			return engine.Reason{Code: "HUMAN_APPROVED", Message: "A person approved the call."}
		case engine.RequireTicket:
			return engine.Reason{Code: "TICKET_VALIDATED", Message: "The ticket was found to cover the call."}
		case engine.RequireStepUp:
			return engine.Reason{Code: "STEP_UP_PASSED", Message: "The call was confirmed."}
		default:
			return engine.Reason{Code: "APPROVED", Message: "Everybody whose approval was needed approved the call."}
		}
	case approval.Expired:
		stage := a.Plan.Requirements[a.State.Stage]
		return engine.Reason{Code: "TIMEOUT", Message: fmt.Sprintf("The deadline passed while the call waited for its %s by %q.", stage.Kind, stage.Role)}
	case approval.Cancelled:
		return engine.Reason{Code: "CANCELLED", Message: "The requesting side took the call back."}
	case approval.Denied, approval.Pending:
	}
	if f := a.State.Decisive; f != nil && f.Kind == approval.Reply {
		return engine.Reason{Code: "STEP_UP_FAILED", Message: "The user does not want the call."}
	}
	if a.Decision.Outcome == engine.RequireHuman {
		return engine.Reason{Code: "HUMAN_REJECTED", Message: "A person denied the call."}
	}
	return engine.Reason{Code: "REJECTED", Message: "A reviewer denied the call."}
}
