// Package workflows holds two workflows, and the contract of the activities that they call.
// Approval has Settle asked again after every change and after every deadline, until the
// approval is over. Notification has a notification delivered. A workflow here holds no policy,
// no arguments and no decision. Names and input fields are for ever; they may be added to,
// never renamed.
//
//	         ┌──────────────────────────────────────────────┐
//	         ▼                                              │
//	start ─ Settle ── over? ── yes ──► done                │
//	                    │ no                               │
//	                    └─► wait: signal "changed", the next deadline, or the answer of CheckTicket
package workflows

import (
	"hash/fnv"
	"time"

	"go.temporal.io/sdk/workflow"
)

// Names under which Temporal knows things.
const (
	TaskQueue        = "holdpoint"
	ApprovalWorkflow = "Approval"
	SettleActivity   = "Settle"
	// CheckTicketActivity asks a ticket's tracker.
	CheckTicketActivity = "CheckTicket"
	// ChangedSignal says only "look again". A forged, repeated or early one
	// costs a look and changes nothing.
	ChangedSignal = "changed"
)

// roundsPerRun bounds a run's history: a flood of signals starts a new run, not
// an endless history.
const roundsPerRun = 64

// Version counts the changes of what the Approval workflow does. It goes with
// every question, so that activities tell a run of a former version, which a
// worker of before may still lead, only what that version knew: its history then
// replays as it was recorded, without a marker.
//
//	1  Settle, signals and deadlines
//	2  CheckTicket
//	3  Settle as a local activity first; here there is a marker, because it is
//	   asked before anything has been answered
const Version = 3

// ApprovalInput starts an Approval workflow; its id is the approval's id.
type ApprovalInput struct {
	ApprovalID string `json:"approval_id"`
}

// SettleInput is what Settle is asked.
type SettleInput struct {
	ApprovalID string `json:"approval_id"`
	// Version is that of the workflow that asks; 0 stands for 1.
	Version int `json:"version,omitempty"`
}

// SettleResult is what Settle found.
type SettleResult struct {
	// Over says that the approval has reached its terminal state.
	Over bool `json:"over"`
	// WakeIn is how long the next deadline is away, by the database's clock.
	WakeIn time.Duration `json:"wake_in"`
	// CheckTicket says that a ticket was attached that nobody has looked at yet,
	// and Ticket which one: another one has another number. Neither is said to a
	// version before 2.
	CheckTicket bool  `json:"check_ticket,omitempty"`
	Ticket      int64 `json:"ticket,omitempty"`
}

// The worker itself settles what is due (worker.Deadlines). A workflow's timer is there
// in case no worker does, and comes so much later; what is due at the same moment is
// spread, because Temporal wakes far fewer workflows in a second than Postgres settles
// approvals.
const (
	timerAfter  = 10 * time.Second
	timerSpread = 5 * time.Minute
)

// TimerDelay is how much later than an approval's moment its workflow wakes by itself, each
// time the same.
func TimerDelay(approvalID string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(approvalID)) // a hash takes everything
	return timerAfter + timerSpread*time.Duration(h.Sum32()>>16)>>16
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
	tickets := &ticketPoller{input: CheckTicketInput(in)}
	locally := workflow.GetVersion(ctx, "settle-locally", workflow.DefaultVersion, 1) != workflow.DefaultVersion
	for range roundsPerRun {
		drain(changed)
		settled, err := settle(ctx, in.ApprovalID, locally)
		if err != nil {
			return err
		}
		if settled.Over {
			drain(changed)
			return nil
		}
		wake := tickets.look(ctx, settled)
		timerCtx, cancel := workflow.WithCancel(ctx)
		next := workflow.NewSelector(ctx).
			AddReceive(changed, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
			AddFuture(workflow.NewTimer(timerCtx, wake), func(workflow.Future) {})
		if tickets.answer != nil {
			next.AddFuture(tickets.answer, func(workflow.Future) { tickets.checked(ctx) })
		}
		next.Select(ctx)
		cancel()
		if ctx.Err() != nil {
			// Cancelled from outside: that is not how an approval is cancelled,
			// and the reconciler starts the workflow again.
			return ctx.Err()
		}
	}
	return workflow.NewContinueAsNewError(ctx, ApprovalWorkflow, in)
}

// settle has the approval settled, at once by the worker that has the workflow in hand:
// that takes no further task. If this does not succeed the activity is Temporal's, which
// tries it until it does and leaves one entry in the history however long that takes.
func settle(ctx workflow.Context, approvalID string, locally bool) (settled SettleResult, err error) {
	in := SettleInput{ApprovalID: approvalID, Version: Version}
	if locally {
		if err := workflow.ExecuteLocalActivity(oneLocalAttempt(ctx), SettleActivity, in).Get(ctx, &settled); err == nil {
			return settled, nil
		}
	}
	err = workflow.ExecuteActivity(untilDone(ctx), SettleActivity, in).Get(ctx, &settled)
	return settled, err
}
