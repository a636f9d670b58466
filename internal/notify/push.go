package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/notify/webpush"
	"holdpoint/internal/store"
)

// errNobody says that nobody is to be told any more.
var errNobody = errors.New("nobody is to be told")

// push makes an attempt to notify a browser. What is to be told is looked at once more:
// a person may have ended the subscription meanwhile, lost sight of the call, or have
// been spared it by a colleague. What the call will do is read now, for a browser whose
// person wants it there, and is kept nowhere.
func (d *Deliverer) push(ctx context.Context, delivery store.Delivery, content channel.Notification) (channel.Result, error) {
	if d.Push == nil {
		return channel.Result{}, errors.New("no key signs pushes: the setting push_key is missing")
	}
	to, err := d.Store.Push.Get(ctx, delivery.Recipient)
	if errors.Is(err, store.ErrNotFound) {
		return channel.Result{}, fmt.Errorf("read the subscription: %w: the browser is not notified any more", errNobody)
	}
	if err != nil {
		return channel.Result{}, err
	}
	sentence := ""
	if delivery.ApprovalID != "" {
		status, says, err := d.Calls.Summary(ctx, to.PersonID, delivery.ApprovalID)
		switch {
		case err != nil:
			return channel.Result{}, err
		case status == "":
			return channel.Result{}, fmt.Errorf("look at the call: %w: its person may not see the call", errNobody)
		case content.Kind.Traits().Waits && status != approval.Pending:
			return channel.Result{}, fmt.Errorf("look at the call: %w: it waits for nobody any more", errNobody)
		}
		if to.Details {
			sentence = says
		}
	}
	now, err := d.Store.Now(ctx)
	if err != nil {
		return channel.Result{}, err
	}
	sent, err := d.Push.Send(ctx, content, webpush.Subscription{Endpoint: to.Endpoint, P256DH: to.P256DH, Auth: to.Auth}, sentence, now)
	if sent.Done {
		// The push is sent, whether that is noted or not.
		if err := d.Store.Push.MarkUsed(ctx, to.ID); err != nil {
			d.Logger.WarnContext(ctx, "the use of a subscription is not noted", "subscription", to.ID, "error", err)
		}
	}
	return sent, err
}

// drop ends a notification for a browser that is not to get it, and with gone the
// subscription that the browser has ended itself.
func (d *Deliverer) drop(ctx context.Context, delivery store.Delivery, reason string, gone bool) error {
	if gone {
		if err := d.Store.Push.Gone(ctx, delivery.Recipient); err != nil {
			return fmt.Errorf("take subscription %s away: %w", delivery.Recipient, err)
		}
	}
	if err := d.Store.Notifications.Drop(ctx, delivery.ID, reason); err != nil {
		return fmt.Errorf("drop %s: %w", delivery.ID, err)
	}
	return nil
}

// NewTestOf is a test for one browser, at an endpoint for web push.
func NewTestOf(endpointID, subscriptionID string, test channel.Notification) (store.Notification, error) {
	body, err := json.Marshal(test)
	if err != nil {
		return store.Notification{}, fmt.Errorf("encode a test: %w", err)
	}
	return store.Notification{ID: test.ID, EndpointID: endpointID, Recipient: subscriptionID, Kind: string(engine.NotifyTest), Body: body}, nil
}
