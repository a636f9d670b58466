// Package notify tells people and programs what happens to approvals. A
// notification is what is told, an endpoint is where it goes, a delivery is one
// attempt to bring it there.
//
//	what has come up ─► new? ─► endpoints that want it ─► addressees ─► notification   Notifier
//	                                                                      │
//	                  at once, or with others at the end of a window ◄────┘
//	                                   │
//	                                   └─► delivery ─► webhook, mail, Slack            Deliverer, package channel
//
// Notifications are written in the transaction in which something comes up, and
// delivered later. The package decides nothing about an approval and never sees
// an argument, a token or an answer: what people and agents have written in
// comments stays on the page.
package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/store"
)

// Notifier writes notifications of what has come up about an approval, one for
// each endpoint and addressee that it concerns.
type Notifier struct {
	// PublicURL is where people reach the console; "" leaves links out.
	PublicURL string
	Logger    *slog.Logger
}

// Notify queues, within the change, notifications of what has come up for the
// first time; what is found again is not told again. An error is the store's; an
// endpoint that cannot be read is passed over, because nobody may wait for it.
func (n *Notifier) Notify(ctx context.Context, c *store.Change, due []approval.Notification) error {
	fresh, err := c.RecordDue(due)
	if err != nil {
		return fmt.Errorf("record what has come up: %w", err)
	}
	if fresh = current(c.Approval, fresh); len(fresh) == 0 {
		return nil
	}
	endpoints, err := c.Endpoints()
	if err != nil {
		return fmt.Errorf("read the endpoints: %w", err)
	}
	audience := &audience{change: c}
	var list []store.Notification
	for _, e := range endpoints {
		settings, err := ParseSettings(e.Settings)
		if err != nil {
			n.Logger.ErrorContext(ctx, "an endpoint is not told", "endpoint", e.ID, "error", err)
			continue
		}
		for _, what := range fresh {
			if !settings.Covers(c.Approval, what) {
				continue
			}
			addressees, err := audience.addresses(e.Kind, settings, what)
			if err != nil {
				return fmt.Errorf("find who is told: %w", err)
			}
			for _, to := range addressees {
				queued, err := n.notification(c, e, settings, what, to)
				if err != nil {
					return err
				}
				list = append(list, queued)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := c.QueueNotifications(list); err != nil {
		return fmt.Errorf("queue notifications: %w", err)
	}
	return nil
}

// current leaves out what has been overtaken: after an outage several reminders
// may have come up at once, and the last one says it all; and what is over waits
// for nobody.
func current(a approval.Approval, fresh []approval.Notification) []approval.Notification {
	var list []approval.Notification
	for i, what := range fresh {
		if a.Status.Terminal() && what.Kind != engine.NotifyOpened && what.Kind.Traits().Waits {
			continue
		}
		overtaken := what.Kind == engine.NotifyReminder && slices.ContainsFunc(fresh[i+1:], func(later approval.Notification) bool {
			return later.Kind == what.Kind && later.Stage == what.Stage
		})
		if !overtaken {
			list = append(list, what)
		}
	}
	return list
}

func (n *Notifier) notification(c *store.Change, e store.Endpoint, s Settings, what approval.Notification, to string) (store.Notification, error) {
	content := newContent(n.PublicURL, c.Approval, what, c.Now)
	content.ID = store.NewID("ntf")
	body, err := json.Marshal(content)
	if err != nil {
		return store.Notification{}, fmt.Errorf("encode a notification of %s: %w", c.Approval.ID, err)
	}
	queued := store.Notification{ID: content.ID, EndpointID: e.ID, Recipient: to, ApprovalID: c.Approval.ID, Kind: string(what.Kind), Body: body}
	if window := time.Duration(s.Digest); window > 0 && !urgent(what.Kind, content.Deadline, c.Now.Add(window)) {
		queued.Bundles, queued.Window = true, window
	}
	return queued, nil
}

// urgent reports whether it must not wait until the end of a window.
func urgent(k engine.NotificationKind, deadline, end time.Time) bool {
	t := k.Traits()
	return t.Urgent || t.Waits && !deadline.IsZero() && !deadline.After(end)
}
