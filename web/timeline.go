package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

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
	facts := factsInOrder(c.Approval.Facts)
	var moments []views.Moment
	for _, e := range c.Timeline {
		who := actorName(e.Actor, agent, name)
		if e.Actor.Kind == engine.ServiceActor && administers(e.Type) {
			who = serviceActor(e.Actor) // and not the agent that the call is of
		}
		if e.Outcome == engine.Deny && e.Type != engine.Decided && e.Type != engine.Settled {
			moments = addRefusal(moments, e, who)
			continue
		}
		m := views.Moment{At: e.Timestamp, EventID: e.ID, Who: who}
		i := slices.IndexFunc(facts, func(f approval.Fact) bool {
			return slices.Contains(factsOf[e.Type], f.Kind) && f.Actor.ID == e.Actor.ID
		})
		if i >= 0 {
			describeFact(&m, facts[i], name)
			changeMoment(&m, e, c)
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
			m.What, m.Detail = "answered", reasonMessages(e)
		case engine.Cancelled:
			m.What = "took the call back"
		case engine.Settled:
			m.Who, m.What, m.Kind, m.Detail = "Holdpoint", settledWords(e.Outcome, c.Approval.Status), "end", reasonMessages(e)
		case engine.Redeemed:
			m.Who, m.What = agent, "took the permission and started the call"
		case engine.Executed:
			describeExecution(&m, e, c, agent)
		case engine.Afterward:
			m.What, m.Detail = "looked at it afterwards", reasonMessages(e)
			if c.BreakGlassReview != nil {
				m.Comment = c.BreakGlassReview.Comment
			}
		case engine.Erased:
			m.What = "erased what the call was about, and what people wrote"
			if e.Actor.Kind == engine.SystemActor {
				m.Who, m.Detail = "Holdpoint", []string{"It was as old as the retention allows."}
			}
		case engine.Held:
			m.What, m.Detail = "changed a legal hold on it", reasonMessages(e)
		case engine.Shown:
			m.What = "was shown all of it"
			if slices.ContainsFunc(e.Reasons, func(r engine.Reason) bool { return r.Code == gate.CodeRevealed }) {
				m.What = "revealed what looks like a secret, and was shown all of it"
			}
		case engine.Refusal, engine.SignIn, engine.Admin:
			m.What, m.Detail = words(string(e.Type)), reasonMessages(e)
		default:
			m.What, m.Detail = words(string(e.Type)), reasonMessages(e)
		}
		changeMoment(&m, e, c)
		moments = append(moments, m)
	}
	return moments
}

// changeMoment tells of a change of the rules what is told otherwise of a call.
func changeMoment(m *views.Moment, e engine.Event, c gate.Card) {
	change, is := gate.RuleChangeOf(c.Approval, c.Document)
	if !is {
		return
	}
	switch e.Type {
	case engine.Decided:
		m.Who, m.What = "Somebody", "proposed a change of "+change.What()
		if name, _, named := strings.Cut(change.Author, " <"); named {
			m.Who = name
		}
	case engine.Cancelled:
		m.What = "took the change back"
	case engine.Redeemed:
		m.Who, m.What, m.Detail = "Holdpoint", "has the change to make, once, as people approved it", nil
	case engine.Executed:
		m.Who, m.What, m.Kind = "Holdpoint", "made the change: it is in force", "end"
		if c.Approval.Execution == approval.Failed {
			m.What = "did not make the change"
		}
		m.Detail = reasonMessages(e)
	default:
	}
}

// describeFact says in words what somebody contributed.
func describeFact(m *views.Moment, f approval.Fact, name func(string) string) {
	m.What, m.Comment = f.Statement().Timeline, f.Comment
	if f.Kind == approval.Vote || f.Kind == approval.BreakGlass || f.Discharger() != "" {
		m.Kind = yesNo(f.Yes)
	}
	if len(f.Via) > 0 {
		m.Who += " for " + name(f.Via[len(f.Via)-1])
	}
	switch f.Kind {
	case approval.Reply:
		if len(f.Details.Supplied) > 0 {
			m.What += ", and supplied " + list(f.Details.Supplied)
		}
	case approval.Claim:
		if f.Details.For != "" {
			m.What = "passed it on to " + name(f.Details.For)
		}
	case approval.Extend:
		m.What = "gave it " + brief(time.Duration(f.Details.By)) + " more"
	case approval.Edit:
		if len(f.Details.Changed) > 0 {
			m.What = "changed " + list(f.Details.Changed)
		}
		m.Detail = []string{"Earlier votes count no more."}
	case approval.Verification:
		if p := f.Details.Proof; f.Yes && p != nil && methodWords[p.Method] != "" {
			m.What += ", by " + methodWords[p.Method]
		}
	case approval.TicketLink:
		if t := f.Details.Ticket; t != nil {
			m.What = "attached the ticket " + t.Ref
		}
	case approval.TicketCheck:
		if t := f.Details.Ticket; t != nil && t.Message != "" {
			m.Detail = []string{t.Message}
		}
	default:
	}
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// describeExecution says what became of the call, by the agent, the end of its time,
// or a person who found out.
func describeExecution(m *views.Moment, e engine.Event, c gate.Card, agent string) {
	switch e.Actor.Kind {
	case engine.HumanActor:
		m.What, m.Detail = "found out what became of it", reasonMessages(e)
		if c.Reconciled != nil {
			m.Comment = c.Reconciled.Comment
		}
	case engine.SystemActor:
		m.What, m.Detail = "waited for the agent to say what became of it, and heard nothing in time", reasonMessages(e)
	case engine.AgentActor, engine.ServiceActor:
		m.Who, m.What = agent, "reported what happened"
		if w := executionWords(c.Approval); c.Approval.Execution != approval.Redeemed && c.Reconciled == nil && w != "" {
			m.What = "reported: " + w
		}
	}
}

// attemptWords says what somebody tried whom an event of outcome DENY turned away.
var attemptWords = map[engine.EventType]string{
	engine.Voted: "tried to vote", engine.Answered: "tried to answer", engine.Cancelled: "tried to cancel",
	engine.Redeemed: "tried to start the call", engine.Executed: "tried to report a result",
	engine.Commented: "tried to comment", engine.Asked: "tried to ask or answer a question", engine.Claimed: "tried to claim it or to release the claim",
	engine.Extended: "tried to give it more time", engine.Edited: "tried to change the arguments", engine.Broken: "tried to break the glass",
	engine.Proved: "tried to prove who they are", engine.Ticketed: "tried to attach a ticket", engine.Afterward: "tried to review it afterwards",
	engine.Erased: "tried to erase it",
}

// addRefusal adds an event that records a refusal: it has the type of what was
// tried and the outcome DENY. The same refusal over and over is told once, with
// how often, so that nobody can push the rest of the story off the page.
func addRefusal(moments []views.Moment, e engine.Event, who string) []views.Moment {
	tried := cmp.Or(attemptWords[e.Type], "tried something")
	m := views.Moment{At: e.Timestamp, EventID: e.ID, Who: who, What: tried + " and was turned away", Detail: reasonMessages(e), Times: 1}
	if n := len(moments); n > 0 {
		last := &moments[n-1]
		if last.Times > 0 && last.Who == m.Who && last.What == m.What && slices.Equal(last.Detail, m.Detail) {
			last.Times++
			return moments
		}
	}
	return append(moments, m)
}

func reasonMessages(e engine.Event) []string {
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

func actorName(a engine.Actor, agent string, name func(string) string) string {
	switch a.Kind {
	case engine.HumanActor:
		return name(a.ID)
	case engine.AgentActor, engine.ServiceActor:
		return agent
	case engine.SystemActor:
	}
	return "Holdpoint"
}
