package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/store"
)

// newContent is what a notification of the approval tells, without an id. It is built of what the
// registry, the rules and the plan say, and of the names that the agent gave;
// what people wrote is not in it.
func newContent(publicURL string, a approval.Approval, what approval.Notification, now time.Time) channel.Notification {
	n := channel.Notification{
		Kind: what.Kind, At: now, ApprovalID: a.ID, Tool: a.Call.Tool, Agent: a.Call.AgentID, Environment: a.Call.Environment,
		Status: string(a.Status), Outcome: string(a.Decision.Outcome), Deadline: a.State.Deadline, Link: link(publicURL, "/approvals/"+a.ID), Self: link(publicURL, "/v1/approvals/"+a.ID), Message: sentence(a, what),
	}
	if what := store.ChangeWords(store.ChangeUnder(a.Call.Tool)); what != "" {
		n.About = "change of " + what
	}
	if len(a.Decision.Findings) > 0 {
		n.Reason = a.Decision.Findings[0].Message
	}
	if a.Status.Terminal() {
		n.Outcome, n.Deadline = string(a.Status.Outcome()), time.Time{}
		if len(a.Reasons) > 0 && what.Kind == engine.NotifyDecided {
			n.Reason = a.Reasons[0].Message
		}
	}
	if i := what.Stage; what.Kind.Traits().Waits && i < len(a.Plan.Requirements) && i < len(a.State.Requirements) {
		n.Stage = a.Plan.Requirements[i].Words()
		if r := a.State.Requirements[i]; r.Needed > 1 {
			n.Stage += fmt.Sprintf(", %d of %d", r.Given, r.Needed)
		}
	}
	return n
}

func link(publicURL, path string) string {
	if publicURL == "" {
		return ""
	}
	return strings.TrimRight(publicURL, "/") + path
}

// sentence says it in words that are all ours.
func sentence(a approval.Approval, what approval.Notification) string {
	if change := store.ChangeWords(store.ChangeUnder(a.Call.Tool)); change != "" {
		return changeSentence(a.Status, what.Kind, change)
	}
	if what.Kind == engine.NotifyDecided {
		switch a.Status {
		case approval.Approved:
			return "The call may run once."
		case approval.Denied:
			return "The call does not run."
		case approval.Expired:
			return "Its deadline has passed: the call does not run."
		case approval.Cancelled:
			return "The requesting side took the call back."
		case approval.Pending:
		}
	}
	return what.Kind.Traits().Message
}

// changeSentence says it of a change of the rules, which is no call.
func changeSentence(ended approval.Status, kind engine.NotificationKind, change string) string {
	switch {
	case kind == engine.NotifyOpened:
		return "A change of " + change + " waits for a decision."
	case kind != engine.NotifyDecided || ended == approval.Pending:
		return kind.Traits().Message
	case ended == approval.Approved:
		return "It comes into force, at the time that it names or at once."
	case ended == approval.Expired:
		return "Its time is up: everything stays as it is."
	case ended == approval.Cancelled:
		return "It was taken back: everything stays as it is."
	}
	return "Everything stays as it is."
}

// NewTest is the content of a notification that tries an endpoint.
func NewTest(id string, now time.Time) channel.Notification {
	return channel.Notification{ID: id, Kind: engine.NotifyTest, At: now, Message: engine.NotifyTest.Traits().Message}
}

// bundled is what a delivery sends: its own content, or a digest of its own and
// those that it takes along. The same delivery always sends the same.
func bundled(publicURL string, d store.Delivery) (channel.Notification, error) {
	list := make([]channel.Notification, 1+len(d.Bundle))
	for i, n := range append([]store.Notification{d.Notification}, d.Bundle...) {
		if err := json.Unmarshal(n.Body, &list[i]); err != nil {
			return channel.Notification{}, fmt.Errorf("read notification %s: %w", n.ID, err)
		}
	}
	if len(list) == 1 {
		return list[0], nil
	}
	digest := channel.Digest(d.ID, list)
	digest.Link = link(publicURL, "/")
	return digest, nil
}
