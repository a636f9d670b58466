package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// minWake keeps a deadline that is due now from spinning.
const minWake = 5 * time.Millisecond

// untilDone is for what must happen and can be repeated: it is tried until it
// succeeds, however long the outage, and looked at again within two seconds
// of the outage's end. A worker that died with it in hand is missed after four.
func untilDone(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 4 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    100 * time.Millisecond,
			BackoffCoefficient: 2,
			MaximumInterval:    2 * time.Second,
		},
	})
}

// oneLocalAttempt is for what a worker tries a single time within a workflow's task, and well
// within the time that the task has.
func oneLocalAttempt(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: time.Second,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
	})
}
