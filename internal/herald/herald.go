// Package herald says who is told what: it turns what has come up about an
// approval into notifications, one for each endpoint and addressee that it
// concerns, and writes them in the transaction in which it came up. It sends
// nothing, decides nothing, and never sees an argument, a token or an answer:
// what people and agents have written in comments stays on the page.
//
//	announcement ─► told before? ─► endpoints that want it ─► addressees ─► notification
//	                                                                          │
//	                      at once, or with others at the end of a window ◄────┘
package herald

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

// Herald turns announcements into notifications.
type Herald struct {
	// PublicURL is where people reach the console; "" leaves links out.
	PublicURL string
	Logger    *slog.Logger
}

// Tell queues what people are to be told for the first time, within the change.
// Each announcement is told once, however often it is found. An error is the
// store's; an endpoint that cannot be read is passed over, because nobody may
// wait for it.
func (h *Herald) Tell(ctx context.Context, c *store.Change, due []approval.Notification) error {
	fresh, err := c.Announce(due)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
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
			h.Logger.ErrorContext(ctx, "an endpoint is not told", "endpoint", e.ID, "error", err)
			continue
		}
		for _, what := range fresh {
			if !settings.Covers(c.Approval, what) {
				continue
			}
			addressees, err := audience.of(e.Kind, settings, what)
			if err != nil {
				return fmt.Errorf("find who is told: %w", err)
			}
			for _, to := range addressees {
				n, err := h.notification(c, e, settings, what, to)
				if err != nil {
					return err
				}
				list = append(list, n)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := c.Notify(list); err != nil {
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

func (h *Herald) notification(c *store.Change, e store.Endpoint, s Settings, what approval.Notification, to string) (store.Notification, error) {
	notice := h.Notice(c.Approval, what, c.Now)
	notice.ID = store.NewID("ntf")
	body, err := json.Marshal(notice)
	if err != nil {
		return store.Notification{}, fmt.Errorf("encode a notice of %s: %w", c.Approval.ID, err)
	}
	n := store.Notification{ID: notice.ID, EndpointID: e.ID, Recipient: to, ApprovalID: c.Approval.ID, Tell: string(what.Kind), Body: body}
	if window := time.Duration(s.Digest); window > 0 && !urgent(what.Kind, notice.Deadline, c.Now.Add(window)) {
		n.Bundles, n.Window = true, window
	}
	return n, nil
}

// urgent reports whether it must not wait until the end of a window.
func urgent(k engine.NotificationKind, deadline, end time.Time) bool {
	t := k.Traits()
	return t.Urgent || t.Waits && !deadline.IsZero() && !deadline.After(end)
}
