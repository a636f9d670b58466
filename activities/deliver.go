package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"holdpoint/internal/notify"
	"holdpoint/workflows"
)

// Deliver has notifications delivered.
type Deliver struct{ Deliverer *notify.Deliverer }

// Deliver is the activity of that name (notify.Deliverer.Deliver).
func (d Deliver) Deliver(ctx context.Context, in workflows.DeliverInput) (workflows.DeliverResult, error) {
	result, err := d.Deliverer.Deliver(ctx, in.NotificationID)
	if errors.Is(err, notify.ErrNotFound) {
		// Somebody started a workflow for a notification that there is not.
		err = temporal.NewNonRetryableApplicationError("no such notification", "not_found", nil)
	}
	return workflows.DeliverResult(result), err
}
