package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/google/uuid"
	"go.temporal.io/sdk/temporal"

	"holdpoint/engine"
	"holdpoint/internal/herald"
	"holdpoint/internal/notify"
	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// Deliverer sends notifications. What is secret about an endpoint is opened here,
// for one attempt, and is in no history, no log and no error.
type Deliverer struct {
	Store   *store.Store
	Herald  *herald.Herald
	Webhook *notify.Webhook
	Slack   *notify.Slack
	// Mail is nil where no mail server is configured.
	Mail   *notify.Mail
	Logger *slog.Logger
}

// deliverer is who delivers, as the audit log names it.
var deliverer = engine.Actor{Kind: engine.SystemActor, ID: "deliver", Channel: "engine"}

// maxLastError bounds what is kept of why an attempt failed, in bytes.
const maxLastError = 500

// Deliver makes one attempt to send a notification, and records what came of it.
// It is the activity of that name. Called twice it may send twice, under the same
// id.
func (d *Deliverer) Deliver(ctx context.Context, in workflows.DeliverInput) (workflows.DeliverResult, error) {
	over := workflows.DeliverResult{Done: true}
	delivery, err := d.Store.Notifications.Take(ctx, in.NotificationID)
	switch {
	case errors.Is(err, store.ErrNothingToSend):
		return over, nil
	case errors.Is(err, store.ErrNotFound):
		// Somebody started a workflow for a notification that there is not.
		return over, temporal.NewNonRetryableApplicationError("no such notification", "not_found", nil)
	case err != nil:
		return workflows.DeliverResult{}, fmt.Errorf("claim %s: %w", in.NotificationID, err)
	}
	if delivery.Endpoint.DisabledAt != nil {
		return over, d.giveUp(ctx, delivery, "the endpoint is switched off", false, false)
	}
	result, err := d.send(ctx, delivery)
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // which notification it was is told beside it
	}
	if ctx.Err() != nil {
		return workflows.DeliverResult{}, ctx.Err() // the worker stops: nothing is known of this attempt
	}
	if result.Done {
		if err := d.Store.Notifications.MarkSent(ctx, delivery.ID); err != nil {
			return workflows.DeliverResult{}, fmt.Errorf("record that %s was sent: %w", delivery.ID, err)
		}
		return over, nil
	}
	reason := failure(err)
	wait, another := notify.Backoff(delivery.ID, delivery.Attempts+2)
	d.Logger.WarnContext(ctx, "a notification was not taken", "notification", delivery.ID, "endpoint", delivery.EndpointID,
		"attempt", delivery.Attempts+1, "error", reason)
	if result.Gone || !another {
		// A mailbox that is gone is one of many; a webhook or channel is all there is.
		return over, d.giveUp(ctx, delivery, reason, true, result.Gone && delivery.Endpoint.Kind != herald.Email)
	}
	wait = max(wait, result.RetryAfter)
	if err := d.Store.Notifications.MarkFailed(ctx, delivery.ID, reason, wait); err != nil {
		return workflows.DeliverResult{}, fmt.Errorf("record an attempt of %s: %w", delivery.ID, err)
	}
	return workflows.DeliverResult{RetryIn: wait}, nil
}

// send makes the attempt. What keeps it from being made is an attempt that
// failed, too: settings may be put right while it is tried again.
func (d *Deliverer) send(ctx context.Context, delivery store.Delivery) (notify.Result, error) {
	notice, err := d.Herald.Gather(delivery)
	if err != nil {
		return notify.Result{}, err
	}
	sealed, err := d.Store.Endpoints.Secret(ctx, delivery.EndpointID)
	if err != nil {
		return notify.Result{}, err
	}
	target, err := herald.ParseTarget(sealed)
	if err != nil {
		return notify.Result{}, err
	}
	switch delivery.Endpoint.Kind {
	case herald.Webhook:
		now, err := d.Store.Now(ctx)
		if err != nil {
			return notify.Result{}, err
		}
		return d.Webhook.Send(ctx, notice, target.Endpoint(now))
	case herald.Slack:
		return d.Slack.Send(ctx, notice, target.URL)
	case herald.Email:
		if d.Mail == nil {
			return notify.Result{}, errors.New("no mail server is configured: the setting smtp is missing")
		}
		return d.Mail.Send(ctx, notice, delivery.Recipient)
	}
	return notify.Result{}, fmt.Errorf("there is no kind of endpoint %.20q", delivery.Endpoint.Kind)
}

// giveUp makes a dead letter of the notification and, where the other side wants
// no more, switches the endpoint off; both are on record.
func (d *Deliverer) giveUp(ctx context.Context, delivery store.Delivery, reason string, tried, gone bool) error {
	event := func(code, message string, more map[string]any) engine.Event {
		payload := map[string]any{"endpoint_id": delivery.EndpointID}
		for name, value := range more {
			payload[name] = value
		}
		encoded, err := json.Marshal(payload)
		if err != nil {
			encoded = []byte(`{}`) // strings and numbers always encode
		}
		return engine.Event{
			ID: uuid.NewString(), Type: engine.Notified, Outcome: engine.Allow, ApprovalID: delivery.ApprovalID,
			Reasons: []engine.Reason{{Code: code, Message: message}}, SafePayload: encoded, Actor: deliverer,
		}
	}
	attempts := delivery.Attempts
	if tried {
		attempts++
	}
	dead := event("NOTIFICATION_GIVEN_UP", "A notification could not be sent and was given up.", map[string]any{
		"notification_id": delivery.ID, "attempts": attempts, "bundled": len(delivery.Bundle),
	})
	var closing *engine.Event
	if gone {
		e := event("ENDPOINT_GONE", "The receiver wants no more notifications: the endpoint was switched off.", nil)
		closing = &e
	}
	if err := d.Store.Notifications.MarkDead(ctx, delivery.ID, reason, tried, dead, closing); err != nil {
		return fmt.Errorf("give %s up: %w", delivery.ID, err)
	}
	return nil
}

// failure is what is kept of an error: one line, and not too long.
func failure(err error) string {
	if err == nil {
		return "the other side did not say that it has it"
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	if len(line) > maxLastError {
		line = strings.ToValidUTF8(line[:maxLastError], "") + "…"
	}
	return strings.ReplaceAll(line, "\x00", "")
}
