// Package workflows holds the Approval workflow and the contract of the
// activities that it calls. A workflow here holds no policy, no arguments and
// no decision: it only makes sure that Settle is asked again after every
// change and at every deadline, until the approval is over. Names and input
// fields are for ever; they may be added to, never renamed.
//
//	        ┌──────────────────────────────────────────────┐
//	        ▼                                              │
//	start ─ Settle ── over? ── yes ──► done                │
//	                    │ no                               │
//	                    └─► wait: signal "changed" or the next deadline
package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Names under which Temporal knows things.
const (
	TaskQueue        = "holdpoint"
	ApprovalWorkflow = "Approval"
	SettleActivity   = "Settle"
	// ChangedSignal says only "look again". A forged, repeated or early one
	// costs a look and changes nothing.
	ChangedSignal = "changed"
)

// roundsPerRun bounds a run's history: a flood of signals starts a new run, not
// an endless history.
const roundsPerRun = 64

// ApprovalInput starts an Approval workflow; its id is the approval's id.
type ApprovalInput struct {
	ApprovalID string `json:"approval_id"`
}

// SettleInput is what Settle is asked.
type SettleInput struct {
	ApprovalID string `json:"approval_id"`
}

// SettleResult is what Settle found.
type SettleResult struct {
	// Over says that the approval has reached its terminal state.
	Over bool `json:"over"`
	// WakeIn is how long the next deadline is away, by the database's clock.
	WakeIn time.Duration `json:"wake_in"`
	// CheckTicket says that a ticket was attached that nobody has looked at yet.
	CheckTicket bool `json:"check_ticket,omitempty"`
}

// drain takes the signals that have come so far: one look sees every change
// that was signalled before it.
func drain(changed workflow.ReceiveChannel) {
	for changed.ReceiveAsync(nil) {
		continue
	}
}

// Approval sees one approval through to its end.
func Approval(ctx workflow.Context, in ApprovalInput) error {
	changed := workflow.GetSignalChannel(ctx, ChangedSignal)
	for range roundsPerRun {
		drain(changed)
		var settled SettleResult
		err := workflow.ExecuteActivity(untilDone(ctx), SettleActivity, SettleInput(in)).Get(ctx, &settled)
		if err != nil {
			return err
		}
		if settled.Over {
			drain(changed)
			return nil
		}
		timerCtx, cancel := workflow.WithCancel(ctx)
		workflow.NewSelector(ctx).
			AddReceive(changed, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
			AddFuture(workflow.NewTimer(timerCtx, max(settled.WakeIn, minWake)), func(workflow.Future) {}).
			Select(ctx)
		cancel()
		if ctx.Err() != nil {
			// Cancelled from outside: that is not how an approval is cancelled,
			// and the reconciler starts the workflow again.
			return ctx.Err()
		}
	}
	return workflow.NewContinueAsNewError(ctx, ApprovalWorkflow, in)
}
