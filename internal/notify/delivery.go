package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/stakes"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/store"
)

// Deliverer delivers notifications. It opens what is secret about an endpoint for
// one attempt; no history, log or error holds it.
type Deliverer struct {
	Store *store.Store
	// PublicURL is where people reach the console; "" leaves links out.
	PublicURL string
	Webhook   *channel.Webhook
	Slack     *channel.Slack
	// Push is nil where no key signs pushes.
	Push *channel.Push
	// Calls says what may be told of a call by push, and what Slack may decide.
	Calls Calls
	// Mail is nil where no mail server is configured.
	Mail   *channel.Mail
	Logger *slog.Logger
}

// Calls says what a person may be told of the call of an approval, now. gate.Messages is one.
type Calls interface {
	// Glance says how the approval stands, "" where the person may not see it, and what
	// the call will do, "" where nobody can tell.
	Summary(ctx context.Context, personID, approvalID string) (status approval.Status, sentence string, err error)
	// Offer says what a message at an endpoint, where calls of up to a danger may be
	// decided, shows of the call for that.
	Offer(ctx context.Context, endpointID, approvalID string, danger stakes.Danger) (engine.Offer, error)
}

// Result is what came of a delivery.
type Result struct {
	// Done says that the notification was sent, or given up.
	Done bool
	// RetryIn is how long to wait before the next attempt.
	RetryIn time.Duration
}

// ErrNotFound says that there is no such notification.
var ErrNotFound = errors.New("no such notification")

// deliverer is who delivers, as the audit log names it.
var deliverer = engine.Actor{Kind: engine.SystemActor, ID: "deliver", Channel: "engine"}

// maxLastError bounds what is kept of why an attempt failed, in bytes.
const maxLastError = 500

// Deliver makes one attempt to send a notification, and records what came of it.
// Called twice it may send twice, under the same id.
func (d *Deliverer) Deliver(ctx context.Context, id string) (Result, error) {
	over := Result{Done: true}
	delivery, err := d.Store.Notifications.Take(ctx, id)
	switch {
	case errors.Is(err, store.ErrNothingToSend):
		return over, nil
	case errors.Is(err, store.ErrNotFound):
		return over, ErrNotFound
	case err != nil:
		return Result{}, fmt.Errorf("claim %s: %w", id, err)
	}
	if delivery.Endpoint.DisabledAt != nil {
		return over, d.giveUp(ctx, delivery, "the endpoint is switched off", false, false)
	}
	sent, err := d.send(ctx, delivery)
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // the log names the notification beside it
	}
	if ctx.Err() != nil {
		return Result{}, ctx.Err() // the worker stops: nothing is known of this attempt
	}
	if sent.Done {
		if err := d.Store.Notifications.MarkSent(ctx, delivery.ID); err != nil {
			return Result{}, fmt.Errorf("record that %s was sent: %w", delivery.ID, err)
		}
		return over, nil
	}
	reason := failure(err)
	if delivery.Endpoint.Kind == Push && (sent.Gone || errors.Is(err, errNobody) || errors.Is(err, channel.ErrTooLate)) {
		return over, d.drop(ctx, delivery, reason, sent.Gone)
	}
	wait, another := Backoff(delivery.ID, delivery.Attempts+2)
	d.Logger.WarnContext(ctx, "a notification was not taken", "notification", delivery.ID, "endpoint", delivery.EndpointID,
		"attempt", delivery.Attempts+1, "error", reason)
	if sent.Gone || !another {
		// A mailbox that is gone is one of many; a webhook or channel is all there is.
		return over, d.giveUp(ctx, delivery, reason, true, sent.Gone && delivery.Endpoint.Kind != Email)
	}
	wait = max(wait, sent.RetryAfter)
	if err := d.Store.Notifications.MarkFailed(ctx, delivery.ID, reason, wait); err != nil {
		return Result{}, fmt.Errorf("record an attempt of %s: %w", delivery.ID, err)
	}
	return Result{RetryIn: wait}, nil
}

// send makes the attempt. What keeps it from being made is an attempt that
// failed, too: settings may be put right while it is tried again.
func (d *Deliverer) send(ctx context.Context, delivery store.Delivery) (channel.Result, error) {
	content, err := bundled(d.PublicURL, delivery)
	if err != nil {
		return channel.Result{}, err
	}
	sealed, err := d.Store.Endpoints.Secret(ctx, delivery.EndpointID)
	if err != nil {
		return channel.Result{}, err
	}
	target, err := ParseTarget(sealed)
	if err != nil {
		return channel.Result{}, err
	}
	switch delivery.Endpoint.Kind {
	case Webhook:
		now, err := d.Store.Now(ctx)
		if err != nil {
			return channel.Result{}, err
		}
		settings, err := ParseSettings(delivery.Endpoint.Settings)
		if err != nil {
			return channel.Result{}, err
		}
		to := target.Webhook(now)
		to.Format = settings.Format
		return d.Webhook.Send(ctx, content, to)
	case Slack:
		offer, err := d.offer(ctx, delivery, content, target)
		if err != nil {
			return channel.Result{}, err
		}
		return d.Slack.SendOffer(ctx, content, offer, target.URL)
	case Push:
		return d.push(ctx, delivery, content)
	case Email:
		if d.Mail == nil {
			return channel.Result{}, errors.New("no mail server is configured: the setting smtp is missing")
		}
		return d.Mail.Send(ctx, content, delivery.Recipient)
	}
	return channel.Result{}, fmt.Errorf("there is no kind of endpoint %.20q", delivery.Endpoint.Kind)
}

// decidable are the notifications that ask people for a decision.
var decidable = []engine.NotificationKind{engine.NotifyOpened, engine.NotifyStage, engine.NotifyEdited, engine.NotifyReminder, engine.NotifyEscalated}

// offer is what a message in Slack has for deciding right there; nil where the endpoint
// does not allow it. It is made for the attempt, from the call as it is now, and kept nowhere.
func (d *Deliverer) offer(ctx context.Context, delivery store.Delivery, content channel.Notification, target EndpointSecrets) (*engine.Offer, error) {
	settings, err := ParseSettings(delivery.Endpoint.Settings)
	if err != nil {
		return nil, err
	}
	if settings.Decide == "" || target.Signing == "" || delivery.ApprovalID == "" || !slices.Contains(decidable, content.Kind) {
		return nil, nil
	}
	o, err := d.Calls.Offer(ctx, delivery.EndpointID, delivery.ApprovalID, settings.Danger())
	return &o, err
}

// giveUp makes a dead letter of the notification and, where the other side wants
// no more, switches the endpoint off; both are on record.
func (d *Deliverer) giveUp(ctx context.Context, delivery store.Delivery, reason string, tried, gone bool) error {
	event := func(code, message string, more map[string]any) engine.Event {
		payload := map[string]any{"endpoint_id": delivery.EndpointID}
		maps.Copy(payload, more)
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
