package web

import (
	"slices"
	"strings"
	"time"

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
		kind := req.Kind.Traits()
		switch {
		case a.State.Question != nil:
			return "A reviewer has asked the requesting side a question."
		case len(req.AnyOf) > 0:
			return "Needs " + views.Visible(rolesOf(req)) + "."
		case kind.VotesCount && req.Role != "":
			return "Needs " + views.Plural(left, "more person", "more people") + " with the role " + views.Visible(rolesOf(req)) + "."
		case kind.Giver == engine.Tracker && a.State.Ticket != nil && a.State.Checked == nil:
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
			return "the glass was broken by " + list(saidYes(a, name, approval.BreakGlass))
		}
		who := saidYes(a, name, approval.Vote)
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

// saidYes are the names of those whose yes of this kind was about the call as it is.
func saidYes(a approval.Approval, name func(string) string, kind approval.FactKind) []string {
	var who []string
	for _, f := range inOrder(a.Facts) {
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

// factsOf are the kinds of fact that an event of a type may tell of.
var factsOf = map[engine.EventType][]approval.FactKind{
	engine.Voted: {approval.Vote}, engine.Answered: {approval.Reply}, engine.Commented: {approval.Comment},
	engine.Asked: {approval.Question, approval.Information}, engine.Claimed: {approval.Claim, approval.Unclaim},
	engine.Extended: {approval.Extend}, engine.Edited: {approval.Edit}, engine.Broken: {approval.BreakGlass},
	engine.Proved: {approval.Verification}, engine.Ticketed: {approval.TicketLink, approval.TicketCheck},
	engine.Escalated: {approval.Escalate}, engine.Reopened: {approval.Reopen},
}

// timeline tells the events of a card in words.
func timeline(c gate.Card, agent string, name func(string) string) []views.Moment {
	facts := inOrder(c.Approval.Facts)
	var moments []views.Moment
	for _, e := range c.Timeline {
		who := actor(e.Actor, agent, name)
		if e.Actor.Kind == engine.ServiceActor && administers(e.Type) {
			who = keyOf(e.Actor) // and not the agent that the call is of
		}
		if e.Outcome == engine.Deny && e.Type != engine.Decided && e.Type != engine.Settled {
			moments = turnedAway(moments, e, who)
			continue
		}
		m := views.Moment{At: e.Timestamp, EventID: e.ID, Who: who}
		i := slices.IndexFunc(facts, func(f approval.Fact) bool {
			return slices.Contains(factsOf[e.Type], f.Kind) && f.Actor.ID == e.Actor.ID
		})
		if i >= 0 {
			tellFact(&m, facts[i], name)
			facts = slices.Delete(facts, i, i+1)
			moments = append(moments, m)
			continue
		}
		switch e.Type {
		case engine.Decided:
			m.Who, m.What = agent, "asked to run "+e.ToolName // why it was held is on the card already
		case engine.Voted:
			m.What = "voted"
		case engine.Answered:
			m.What, m.Detail = "answered", messages(e)
		case engine.Cancelled:
			m.What = "took the call back"
		case engine.Settled:
			m.Who, m.What, m.Kind, m.Detail = "Holdpoint", settledWords(e.Outcome, c.Approval.Status), "end", messages(e)
		case engine.Redeemed:
			m.Who, m.What = agent, "took the permission and started the call"
		case engine.Executed:
			tellExecution(&m, e, c, agent)
		case engine.Afterward:
			m.What, m.Detail = "looked at it afterwards", messages(e)
			if c.Afterwards != nil {
				m.Comment = c.Afterwards.Comment
			}
		case engine.Erased:
			m.What = "erased what the call was about, and what people wrote"
			if e.Actor.Kind == engine.SystemActor {
				m.Who, m.Detail = "Holdpoint", []string{"It was as old as the retention allows."}
			}
		case engine.Held:
			m.What, m.Detail = "changed a legal hold on it", messages(e)
		case engine.Shown:
			m.What = "was shown all of it"
		case engine.Refusal, engine.SignIn, engine.Admin:
			m.What, m.Detail = words(string(e.Type)), messages(e)
		default:
			m.What, m.Detail = words(string(e.Type)), messages(e)
		}
		moments = append(moments, m)
	}
	return moments
}

// tellFact says in words what somebody contributed.
func tellFact(m *views.Moment, f approval.Fact, name func(string) string) {
	m.Comment = f.Comment
	if len(f.Via) > 0 {
		m.Who += " for " + name(f.Via[len(f.Via)-1])
	}
	switch f.Kind {
	case approval.Vote:
		m.What, m.Kind = voteWords(f), yesNo(f.Yes)
	case approval.Reply:
		m.What, m.Kind = "said that the user does not want it", yesNo(f.Yes)
		if f.Yes {
			m.What = "said that the user confirmed it"
		}
		if len(f.Details.Supplied) > 0 {
			m.What += ", and supplied " + list(f.Details.Supplied)
		}
	case approval.Comment:
		m.What = "commented"
	case approval.Question:
		m.What = "asked the requesting side"
	case approval.Information:
		m.What = "answered the question"
	case approval.Claim:
		m.What = "took it on"
	case approval.Unclaim:
		m.What = "gave it back"
	case approval.Extend:
		m.What = "gave it " + brief(time.Duration(f.Details.By)) + " more"
	case approval.Edit:
		m.What = "changed the arguments"
		if len(f.Details.Changed) > 0 {
			m.What = "changed " + list(f.Details.Changed)
		}
		m.Detail = []string{"Earlier votes count no more."}
	case approval.Reopen:
		m.What = "asks anew: the rules ask for more than before"
	case approval.Escalate:
		m.What = "found that nobody could decide, and asked those of the escalation at once"
	case approval.BreakGlass:
		m.What, m.Kind = voteWords(f), "yes"
	case approval.Verification:
		m.What, m.Kind = "does not want the call", yesNo(f.Yes)
		if f.Yes {
			m.What = "proved who they are"
		}
		if p := f.Details.Proof; f.Yes && p != nil && methodWords[p.Method] != "" {
			m.What += ", by " + methodWords[p.Method]
		}
	case approval.TicketLink:
		m.What = "attached a ticket"
		if t := f.Details.Ticket; t != nil {
			m.What = "attached the ticket " + t.Ref
		}
	case approval.TicketCheck:
		m.What, m.Kind = "found that the ticket does not cover the call", yesNo(f.Yes)
		if f.Yes {
			m.What = "found that the ticket covers the call"
		}
		if t := f.Details.Ticket; t != nil && t.Message != "" {
			m.Detail = []string{t.Message}
		}
	case approval.Cancel:
		m.What = "took the call back"
	}
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// tellExecution says what became of the call, by the agent, the end of its time,
// or a person who found out.
func tellExecution(m *views.Moment, e engine.Event, c gate.Card, agent string) {
	switch e.Actor.Kind {
	case engine.HumanActor:
		m.What, m.Detail = "found out what became of it", messages(e)
		if c.Reconciled != nil {
			m.Comment = c.Reconciled.Comment
		}
	case engine.SystemActor:
		m.What, m.Detail = "waited for the agent to say what became of it, and heard nothing in time", messages(e)
	case engine.AgentActor, engine.ServiceActor:
		m.Who, m.What = agent, "reported what happened"
		if w := executionWords(c.Approval); c.Approval.Execution != approval.Redeemed && c.Reconciled == nil && w != "" {
			m.What = "reported: " + w
		}
	}
}

// attempts says what somebody tried whom an event of outcome DENY turned away.
var attempts = map[engine.EventType]string{
	engine.Voted: "tried to vote", engine.Answered: "tried to answer", engine.Cancelled: "tried to cancel",
	engine.Redeemed: "tried to start the call", engine.Executed: "tried to report a result",
	engine.Commented: "tried to comment", engine.Asked: "tried to ask or answer a question", engine.Claimed: "tried to take it on or give it back",
	engine.Extended: "tried to give it more time", engine.Edited: "tried to change the arguments", engine.Broken: "tried to break the glass",
	engine.Proved: "tried to prove who they are", engine.Ticketed: "tried to attach a ticket", engine.Afterward: "tried to review it afterwards",
	engine.Erased: "tried to erase it",
}

// turnedAway adds an event that records a refusal: it has the type of what was
// tried and the outcome DENY. The same refusal over and over is told once, with
// how often, so that nobody can push the rest of the story off the page.
func turnedAway(moments []views.Moment, e engine.Event, who string) []views.Moment {
	tried := attempts[e.Type]
	if tried == "" {
		tried = "tried something"
	}
	m := views.Moment{At: e.Timestamp, EventID: e.ID, Who: who, What: tried + " and was turned away", Detail: messages(e), Times: 1}
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
