package notify

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/store"
)

// What reviewers of an access review are told, and when: at its start, a week and a day
// before it is due, when it is due, and every day from then on until it is over.
var beforeDue = []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, 0}

const whenOverdue = 24 * time.Hour

// nextReminder is when reviewers are told again.
func nextReminder(due, now time.Time) time.Time {
	for _, before := range beforeDue {
		if at := due.Add(-before); at.After(now) {
			return at
		}
	}
	return due.Add(now.Sub(due).Truncate(whenOverdue) + whenOverdue)
}

// AccessReview is what is told of an access review to those who have something left to
// review, at the endpoints that want it, and when the next time is. A mailbox and a browser are told of
// what is its owner's own, everything else of how much there is left. An endpoint that is
// told of some tools or agents only is not told.
func (n *Notifier) AccessReview(r store.AccessReview, lines []store.AccessLine, endpoints []store.Endpoint, browsers map[string][]string, now time.Time) ([]store.Notification, time.Time, error) {
	next := nextReminder(r.DueAt, now)
	left := map[string]int{}      // by reviewers' addresses
	person := map[string]string{} // their ids
	var order []string
	for _, l := range lines {
		if l.Decision != "" || l.Reviewer.Disabled {
			continue
		}
		if left[l.Reviewer.Email]++; left[l.Reviewer.Email] == 1 {
			order, person[l.Reviewer.Email] = append(order, l.Reviewer.Email), l.Reviewer.ID
		}
	}
	var list []store.Notification
	for _, e := range endpoints {
		settings, err := ParseSettings(e.Settings)
		if err != nil {
			n.Logger.Error("an endpoint is not told", "endpoint", e.ID, "error", err)
			continue
		}
		if len(order) == 0 || len(settings.Kinds) > 0 && !slices.Contains(settings.Kinds, engine.NotifyAccessReview) || len(settings.Tools)+len(settings.Agents)+len(settings.Roles) > 0 {
			continue
		}
		for _, to := range settings.reviewersOf(e.Kind, order) {
			content := channel.Notification{
				Kind: engine.NotifyAccessReview, At: now, Deadline: r.DueAt, Link: link(n.PublicURL, "/access-reviews/"+r.ID),
				Message: reviewSentence(order, left, to, !now.Before(r.DueAt)),
			}
			if e.Kind == Push && !r.DueAt.After(now) {
				content.Deadline = time.Time{} // it is told all the same
			}
			recipients := []string{to}
			if e.Kind == Push {
				recipients = browsers[person[to]]
			}
			for _, recipient := range recipients {
				content.ID = store.NewID("ntf")
				body, err := json.Marshal(content)
				if err != nil {
					return nil, next, fmt.Errorf("encode a notification of %s: %w", r.ID, err)
				}
				list = append(list, store.Notification{ID: content.ID, EndpointID: e.ID, Recipient: recipient, Kind: string(content.Kind), Body: body})
			}
		}
	}
	return list, next, nil
}

// reviewersOf are the addressees of what is told to reviewers at an endpoint of a kind.
func (s Settings) reviewersOf(kind string, reviewers []string) []string {
	switch kind {
	case Webhook, Slack:
		return []string{""}
	case Push:
		return reviewers
	case Email:
		return slices.DeleteFunc(slices.Clone(reviewers), func(to string) bool { return !slices.Contains(s.To, Reviewers) && !slices.Contains(s.To, to) })
	}
	return nil
}

// reviewSentence says how much is left: to a reviewer what is theirs, to "" of everybody.
func reviewSentence(order []string, left map[string]int, to string, overdue bool) string {
	count, whose := left[to], "You have"
	if to == "" {
		for _, email := range order {
			count += left[email]
		}
		whose = "1 reviewer has"
		if len(order) != 1 {
			whose = fmt.Sprintf("%d reviewers have", len(order))
		}
	}
	what := "roles of people"
	if count == 1 {
		what = "role of a person"
	}
	late := ""
	if overdue {
		late = " It is overdue."
	}
	return fmt.Sprintf("%s %d %s to review: is each still needed?%s", whose, count, what, late)
}
