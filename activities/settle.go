// Package activities has the activities of the workflows, one small struct each.
// An activity calls the package that decides, and says to the workflow what came of
// it. Everything here may run twice and must mean the same as once.
package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"holdpoint/internal/gate"
	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// Settle has approvals settled.
type Settle struct{ Settler *gate.Settler }

// Settle is the activity of that name (gate.Settler.Settle).
func (s Settle) Settle(ctx context.Context, in workflows.SettleInput) (workflows.SettleResult, error) {
	found, err := s.Settler.Settle(ctx, in.ApprovalID)
	result := workflows.SettleResult(found)
	if !found.Over {
		result.WakeIn += workflows.TimerDelay(in.ApprovalID)
	}
	if in.Version < 2 {
		result.CheckTicket, result.Ticket = false, 0 // its workflow would not ask
	}
	return result, final(err)
}

// CheckTicket has tickets checked by their trackers.
type CheckTicket struct{ Checker *gate.TicketChecker }

// CheckTicket is the activity of that name (gate.TicketChecker.Check).
func (t CheckTicket) CheckTicket(ctx context.Context, in workflows.CheckTicketInput) (workflows.CheckTicketResult, error) {
	retryIn, err := t.Checker.Check(ctx, in.ApprovalID)
	return workflows.CheckTicketResult{RetryIn: retryIn}, final(err)
}

// final keeps Temporal from trying again where somebody has started a workflow for
// an approval that does not exist.
func final(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return temporal.NewNonRetryableApplicationError("no such approval", "not_found", nil)
	}
	return err
}
