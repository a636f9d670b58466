package web

import (
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/web/views"
)

// status is the approval's status. Between a decisive fact and its settlement
// it is "settling": the facts are in, and the last check has not been made.
func status(a approval.Approval) views.Status {
	if a.Status == approval.Pending && a.State.Status.Terminal() {
		return views.Status{Code: "settling", Word: "Settling"}
	}
	word := map[approval.Status]string{
		approval.Pending: "Waiting", approval.Approved: "Approved", approval.Denied: "Denied",
		approval.Expired: "Expired", approval.Cancelled: "Cancelled",
	}[a.Status]
	return views.Status{Code: string(a.Status), Word: word}
}

// sentence says what the status means, or what comes next.
func sentence(a approval.Approval, name func(string) string) string {
	if a.Status == approval.Pending {
		if a.State.Status.Terminal() {
			return "Everything that was needed has been said; the result is being recorded."
		}
		req, ok := waiting(a)
		if !ok {
			return ""
		}
		left := max(req.Needed-req.Given, 0)
		kind := req.Kind.Traits()
		switch {
		case a.State.Question != nil:
			return name(a.State.Question.Actor.ID) + " has asked a question, and waits for an answer."
		case len(req.AnyOf) > 0:
			return "Needs " + views.Visible(rolesOf(req)) + "."
		case kind.VotesCount && req.Role != "":
			return "Needs " + views.Plural(left, "more person", "more people") + " with the role " + views.Visible(rolesOf(req)) + "."
		case kind.Discharger == engine.Tracker && a.State.Ticket != nil && a.State.Checked == nil:
			return "A ticket is attached; its tracker is being asked."
		case kind.Waits != "":
			return kind.Waits
		}
		return "Waits for: " + lowerFirst(views.Visible(requirementWords(req.Kind, req.Role))) + "."
	}
	text := upperFirst(views.Visible(ending(a, name)))
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	if w := executionWords(a); w != "" {
		text += " The call: " + w + "."
	}
	return text
}

// ending says who or what ended the approval.
func ending(a approval.Approval, name func(string) string) string {
	switch a.Status {
	case approval.Approved:
		if a.State.Broken {
			return "the glass was broken by " + list(confirmers(a, name, approval.BreakGlass))
		}
		if len(a.Plan.Requirements) == 0 {
			return "accepted when it was proposed"
		}
		who := confirmers(a, name, approval.Vote)
		if len(who) == 0 {
			return "everything needed was there"
		}
		return "approved by " + list(who)
	case approval.Denied:
		if f, ok := a.Denial(); ok && !f.Yes {
			if f.Kind == approval.Vote {
				return strings.Replace(f.Statement().Timeline, "denied", "denied by "+name(f.Actor.ID), 1)
			}
			return "the requesting side said no"
		}
	case approval.Expired:
		return "nobody decided in time"
	case approval.Cancelled:
		return "withdrawn by the requesting side"
	case approval.Pending:
	}
	for _, r := range a.Reasons {
		if r.Message != "" {
			return r.Message
		}
	}
	return string(a.Status)
}

// confirmers are the names of those whose yes of this kind was about the call as it is.
func confirmers(a approval.Approval, name func(string) string, kind approval.FactKind) []string {
	var who []string
	for _, f := range factsInOrder(a.Facts) {
		n := name(f.Actor.ID)
		if len(f.Via) > 0 {
			n += " for " + name(f.Via[len(f.Via)-1])
		}
		if f.Kind == kind && f.Yes && f.Edition == a.Plan.Edition && !slices.Contains(who, n) {
			who = append(who, n)
		}
	}
	return who
}

func executionWords(a approval.Approval) string {
	if a.Status != approval.Approved {
		return ""
	}
	switch a.Execution {
	case approval.NotRun, "":
		if a.Successor != "" {
			return "did not run, because things had changed"
		}
		return "not started yet"
	case approval.Redeemed:
		return "started, result not reported yet"
	case approval.Succeeded:
		return "succeeded"
	case approval.Failed:
		return "failed"
	case approval.Unknown:
		return "nobody knows whether it ran"
	}
	return string(a.Execution)
}

// final reports whether nothing about the approval will change any more.
func final(a approval.Approval) bool {
	switch a.Execution {
	case approval.Succeeded, approval.Failed:
		return a.Status.Terminal()
	case approval.NotRun, approval.Redeemed, approval.Unknown:
	}
	return a.Status.Terminal() && a.Status != approval.Approved
}

// over reports whether nothing more can be decided: the approval has ended, or
// its facts say that it is about to.
func over(a approval.Approval) bool { return a.Status.Terminal() || a.State.Status.Terminal() }

func waiting(a approval.Approval) (approval.Progress, bool) {
	if i := a.State.Stage; i >= 0 && i < len(a.State.Requirements) {
		return a.State.Requirements[i], true
	}
	return approval.Progress{}, false
}

func deadline(a approval.Approval) time.Time {
	if !a.State.Deadline.IsZero() {
		return a.State.Deadline
	}
	return a.Plan.ExpiresAt
}
