package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// CheckTicketInput is what CheckTicket is asked.
type CheckTicketInput struct {
	ApprovalID string `json:"approval_id"`
}

// CheckTicketResult is what CheckTicket has to say to the workflow. What the
// tracker said is a fact in the database, which Settle finds.
type CheckTicketResult struct {
	// RetryIn is how long the tracker is to be left alone, at least, when it gave
	// no answer; 0 when it did.
	RetryIn time.Duration `json:"retry_in"`
}

// patience is how long a ticket is left alone after the first, second, … look in
// a row at it; the last one stands for all that follow.
var patience = [...]time.Duration{5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}

// ticketPoller sees to it that a ticket's tracker is asked until it answers: one look
// at a time, in the background, so that neither deadlines nor signals wait for a
// tracker. A new ticket is looked at at once; the same one not before its time,
// however often the workflow is woken.
type ticketPoller struct {
	input  CheckTicketInput
	ticket int64     // which one was looked at last
	looks  int       // how often
	again  time.Time // not before then
	// answer is that of the look that is under way; nil for none.
	answer workflow.Future
}

// look begins a look at the ticket if it is time for one, and returns when to
// wake at the latest.
func (l *ticketPoller) look(ctx workflow.Context, settled SettleResult) time.Duration {
	wake := max(settled.WakeIn, minWake)
	if !settled.CheckTicket || l.answer != nil {
		return wake
	}
	if settled.Ticket != l.ticket {
		l.ticket, l.looks, l.again = settled.Ticket, 0, time.Time{}
	}
	if left := l.again.Sub(workflow.Now(ctx)); left > 0 {
		return min(wake, left)
	}
	l.answer = workflow.ExecuteActivity(oneAttempt(ctx), CheckTicketActivity, l.input)
	return wake
}

// checked takes the answer. Whatever it was, Settle says whether the ticket has to
// be looked at again: an answer that was lost on its way is in the database.
func (l *ticketPoller) checked(ctx workflow.Context) {
	var result CheckTicketResult
	err := l.answer.Get(ctx, &result)
	if err != nil {
		result.RetryIn = 0 // it ran out of time, or its worker has died
	}
	l.answer = nil
	wait := patience[min(l.looks, len(patience)-1)]
	l.looks++
	l.again = workflow.Now(ctx).Add(max(wait, result.RetryIn))
}

// oneAttempt is for what the workflow itself asks again, in its own time.
func oneAttempt(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: time.Minute,
		StartToCloseTimeout:    12 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
	})
}
