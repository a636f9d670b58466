package web

import (
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
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
		if peopled(req.Kind) && req.Role != "" {
			roles := append([]string{req.Role}, req.Escalated...)
			return "Needs " + views.Plural(left, "more person", "more people") + " with the role " + views.Visible(strings.Join(roles, " or ")) + "."
		}
		if !peopled(req.Kind) {
			return "Waits for " + lowerFirst(views.Visible(requirementWords(req.Kind, req.Role))) + ", which nobody can give here yet."
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
		var who []string
		for _, f := range inOrder(a.Facts) {
			if n := name(f.Actor.ID); f.Kind == approval.Vote && f.Yes && !slices.Contains(who, n) {
				who = append(who, n)
			}
		}
		if len(who) == 0 {
			return "everything needed was there"
		}
		return "approved by " + list(who)
	case approval.Denied:
		if f, ok := a.Denial(); ok && !f.Yes {
			if f.Kind == approval.Vote {
				return strings.Replace(voteWords(f), "denied", "denied by "+name(f.Actor.ID), 1)
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

func executionWords(a approval.Approval) string {
	if a.Status != approval.Approved {
		return ""
	}
	switch a.Execution {
	case approval.NotRun, "":
		return "not started yet"
	case approval.Redeemed:
		return "started, result not reported yet"
	case approval.Succeeded:
		return "succeeded"
	case approval.Failed:
		return "failed"
	case approval.Unknown:
		return "the agent cannot tell whether it ran"
	}
	return string(a.Execution)
}

// final reports whether nothing about the approval will change any more.
func final(a approval.Approval) bool {
	switch a.Execution {
	case approval.Succeeded, approval.Failed, approval.Unknown:
		return a.Status.Terminal()
	case approval.NotRun, approval.Redeemed:
	}
	return a.Status.Terminal() && a.Status != approval.Approved
}

// timeline tells the events of a card in words.
func timeline(c gate.Card, agent string, name func(string) string) []views.Moment {
	var ballots []approval.Fact
	for _, f := range inOrder(c.Approval.Facts) {
		if f.Kind == approval.Vote {
			ballots = append(ballots, f)
		}
	}
	var moments []views.Moment
	for _, e := range c.Timeline {
		if e.Outcome == engine.Deny && e.Type != engine.Decided && e.Type != engine.Settled {
			moments = turnedAway(moments, e, actor(e.Actor, agent, name))
			continue
		}
		m := views.Moment{At: e.Timestamp, Who: actor(e.Actor, agent, name)}
		switch e.Type {
		case engine.Decided:
			m.Who, m.What = agent, "asked to run "+e.ToolName // why it was held is on the card already
		case engine.Voted:
			m.What = "voted"
			i := slices.IndexFunc(ballots, func(f approval.Fact) bool { return f.Actor.ID == e.Actor.ID })
			if i >= 0 {
				m.What, m.Comment, m.Kind = voteWords(ballots[i]), ballots[i].Comment, "no"
				if ballots[i].Yes {
					m.Kind = "yes"
				}
				ballots = slices.Delete(ballots, i, i+1)
			}
		case engine.Answered:
			m.What, m.Detail = "answered", messages(e)
		case engine.Cancelled:
			m.What = "took the call back"
		case engine.Settled:
			m.Who, m.What, m.Kind, m.Detail = "Holdpoint", settledWords(e.Outcome, c.Approval.Status), "end", messages(e)
		case engine.Redeemed:
			m.Who, m.What = agent, "took the permission and started the call"
		case engine.Executed:
			m.Who, m.What = agent, "reported what happened"
			if w := executionWords(c.Approval); c.Approval.Execution != approval.Redeemed && w != "" {
				m.What = "reported: " + w
			}
		case engine.Refusal, engine.SignIn, engine.Admin:
			m.What, m.Detail = words(string(e.Type)), messages(e)
		default:
			m.What, m.Detail = words(string(e.Type)), messages(e)
		}
		moments = append(moments, m)
	}
	return moments
}

// turnedAway adds an event that records a refusal: it has the type of what was
// tried and the outcome DENY. The same refusal over and over is told once, with
// how often, so that nobody can push the rest of the story off the page.
func turnedAway(moments []views.Moment, e engine.Event, who string) []views.Moment {
	tried := map[engine.EventType]string{
		engine.Voted: "tried to vote", engine.Answered: "tried to answer", engine.Cancelled: "tried to cancel",
		engine.Redeemed: "tried to start the call", engine.Executed: "tried to report a result",
	}[e.Type]
	if tried == "" {
		tried = "tried something"
	}
	m := views.Moment{At: e.Timestamp, Who: who, What: tried + " and was turned away", Detail: messages(e), Times: 1}
	if n := len(moments); n > 0 {
		last := &moments[n-1]
		if last.Times > 0 && last.Who == m.Who && last.What == m.What && slices.Equal(last.Detail, m.Detail) {
			last.Times++
			return moments
		}
	}
	return append(moments, m)
}

func messages(e engine.Event) []string {
	var texts []string
	for _, r := range e.Reasons {
		if r.Message != "" {
			texts = append(texts, r.Message)
		}
	}
	return texts
}

func settledWords(o engine.Outcome, s approval.Status) string {
	switch {
	case o == engine.Approved:
		return "recorded the approval: the call may run once"
	case o == engine.Timeout:
		return "recorded that time ran out: the call will not run"
	case s == approval.Cancelled:
		return "recorded the cancellation: the call will not run"
	}
	return "recorded the denial: the call will not run"
}

func actor(a engine.Actor, agent string, name func(string) string) string {
	switch a.Kind {
	case engine.HumanActor:
		return name(a.ID)
	case engine.AgentActor, engine.ServiceActor:
		return agent
	case engine.SystemActor:
	}
	return "Holdpoint"
}

func list(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
