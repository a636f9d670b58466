package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Names of what sees a notification through. They are for ever.
const (
	NotificationWorkflow = "Notification"
	DeliverActivity      = "Deliver"
)

// attemptsPerRun bounds a run's history, whatever Deliver answers.
const attemptsPerRun = 64

// NotificationInput starts a Notification workflow; its id is the notification's.
type NotificationInput struct {
	NotificationID string `json:"notification_id"`
}

// DeliverInput is what Deliver is asked.
type DeliverInput struct {
	NotificationID string `json:"notification_id"`
}

// DeliverResult is what came of an attempt.
type DeliverResult struct {
	// Done says that the notification was sent, or given up.
	Done bool `json:"done"`
	// RetryIn is how long to wait before the next attempt.
	RetryIn time.Duration `json:"retry_in,omitempty"`
}

// Notification sees one notification through: it is sent, tried again after the
// time that Deliver says, or given up. It knows neither what is told nor to whom.
//
//	start ─ Deliver ── done? ── yes ──► done
//	            ▲        │ no
//	            └────────┴─ sleep
func Notification(ctx workflow.Context, in NotificationInput) error {
	for range attemptsPerRun {
		var attempt DeliverResult
		if err := workflow.ExecuteActivity(sending(ctx), DeliverActivity, DeliverInput(in)).Get(ctx, &attempt); err != nil {
			return err
		}
		if attempt.Done {
			return nil
		}
		if err := workflow.Sleep(ctx, max(attempt.RetryIn, minWake)); err != nil {
			return err
		}
	}
	return workflow.NewContinueAsNewError(ctx, NotificationWorkflow, in)
}

// sending is for an attempt, which waits for the other side for at most twenty seconds. An
// error of it is our own database's: the attempt is repeated until that answers.
func sending(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 45 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    200 * time.Millisecond,
			BackoffCoefficient: 2,
			MaximumInterval:    30 * time.Second,
		},
	})
}
