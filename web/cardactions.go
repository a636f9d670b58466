package web

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// refusalOf reports why a person's fact would be refused now. The gate has the last
// word: it knows for whom the person stands in.
func refusalOf(c gate.Card, p engine.Person, f approval.Fact) error {
	f.Actor = engine.Actor{Kind: engine.HumanActor, ID: p.ID}
	f.Voter = approval.Voter{Identity: p.Identity, Roles: p.Roles, Active: !p.Disabled}
	return approval.Admit(c.Approval.Plan, c.Approval.Facts, f, c.Now)
}

// canDecide reports whether the person could decide it, now or at another stage, or
// has.
func canDecide(c gate.Card, p engine.Person) bool {
	err := refusalOf(c, p, approval.Fact{Kind: approval.Claim})
	return c.CannotVote == nil || err == nil || errors.Is(err, approval.ErrAlreadyVoted)
}

// actions are what the person may do beside deciding.
func actions(c gate.Card, p engine.Person, full bool) views.Actions {
	a := c.Approval
	if over(a) {
		return views.Actions{}
	}
	v := views.Actions{Comment: true, Withdraw: gate.MayWithdraw(a, engine.Actor{Kind: engine.HumanActor, ID: p.ID}, p)}
	if c.CannotVote == nil {
		for _, o := range snoozes {
			if long, err := time.ParseDuration(o.Value); err == nil && c.Now.Add(long).Before(deadline(a)) {
				v.Snooze = append(v.Snooze, o)
			} else {
				v.SnoozeCut = true
			}
		}
	}
	if canDecide(c, p) {
		v.PassOn, v.PassOnByEmail = colleagues(c, p)
		// A change of the rules has nobody behind it who would be told of a question.
		v.Ask, v.AskNote = a.State.Question == nil && a.Call.Dialect != gate.DialectChange, pauseWords(a)
		if a.Call.Dialect != gate.DialectThreeGate && a.Call.Dialect != gate.DialectChange && c.Arguments != nil {
			v.EditURL = cardURL(a.ID) + "/edit"
		}
		if !a.NeedsProof() && !c.Unreadable {
			v.GrantURL = cardURL(a.ID) + "/grant"
		}
	}
	for _, o := range extensions {
		by, err := time.ParseDuration(o.Value)
		if err == nil && refusalOf(c, p, approval.Fact{Kind: approval.Extend, Details: approval.Details{By: engine.Duration(by)}}) == nil {
			v.Extend = append(v.Extend, o)
		}
	}
	glass := approval.Fact{Kind: approval.BreakGlass, Yes: true, Comment: "…", Details: approval.Details{Alone: true, Proof: &approval.Proof{Method: "passkey", At: c.Now}}, Signed: true}
	if v.Break = gate.MayBeBroken(a) && refusalOf(c, p, glass) == nil; v.Break {
		unsigned := glass
		unsigned.Signed = false
		must := errors.Is(refusalOf(c, p, unsigned), approval.ErrNotSigned)
		switch {
		case must && !c.CanSign:
			v.BreakBlocked, v.BreakAccount = "Breaking the glass has to be signed here, and the audit log knows no passkey of yours.", "/account"
		case must:
			v.BreakSign = true
		case !gate.Proved(p, c.Now):
			v.BreakVerify = verifyURL(cardURL(a.ID))
		}
		switch unread := unseen(c, full); {
		case v.BreakBlocked != "":
		case c.Unreadable:
			v.BreakBlocked = "This call cannot be read, so nobody can let it run."
		case unread != "":
			v.BreakBlocked = unread
		}
	}
	return v
}

// colleagues are those to whom the person could pass it on; many says that there are more
// than the card names.
func colleagues(c gate.Card, p engine.Person) (list []views.Option, many bool) {
	if c.Eligible > len(c.Colleagues) {
		return nil, true
	}
	for _, other := range c.Colleagues {
		if other.Identity != p.Identity && (c.Approval.State.Claim == nil || c.Approval.State.Claim.Claimant() != other.ID) {
			list = append(list, views.Option{Value: other.ID, Label: views.Visible(other.Name)})
		}
	}
	return list, false
}

// pauseWords says what asking a question does to the clock.
func pauseWords(a approval.Approval) string {
	if a.Plan.PauseFor <= 0 {
		return "The clock goes on while you wait for the answer."
	}
	return "The clock stands still for the answer, for " + brief(time.Duration(a.Plan.PauseFor)) + " in all."
}

// openTasks is what the call asks of the person in particular.
func openTasks(c gate.Card, p engine.Person, name func(string) string) views.OpenTasks {
	a := c.Approval
	var v views.OpenTasks
	if a.Status.Terminal() {
		v.Reconcile = gate.MayReconcile(p, a)
		v.BreakGlassReview = c.BreakGlassReview != nil && c.BreakGlassReview.DoneAt == nil && gate.MayReviewBreakGlass(p, a)
		return v
	}
	if over(a) || a.State.Stage >= len(a.Plan.Requirements) {
		return v
	}
	switch req := a.Plan.Requirements[a.State.Stage]; req.Kind.Traits().Discharger {
	case engine.Accountable:
		if slices.Contains(a.Plan.Accountable, p.Identity) {
			v.StepUp = &views.StepUp{Purpose: identity.ForApproval, BoundTo: proofBinding(a.ID, a.Call.Digest)}
		}
	case engine.Tracker:
		if gate.AwaitsTicket(a, c.Trackers) {
			v.Ticket = ticketForm(req.Ticket, c.Trackers)
		} else if a.State.Ticket == nil {
			v.NoTracker = noTracker(req.Ticket)
		}
	case engine.Requester:
		if len(req.Form) > 0 && refusalOf(c, p, approval.Fact{Kind: approval.Reply, Yes: true}) == nil {
			v.AnswerURL = cardURL(a.ID) + "/answer"
		}
	default: // kinds without Wanted ask nothing of the requesting side
	}
	if q := openQuestion(a, name); q != nil && slices.Contains(a.Plan.Excluded, p.Identity) && !gate.HasEdited(p, a) {
		v.Question = q
	}
	return v
}

func openQuestion(a approval.Approval, name func(string) string) *views.Question {
	q := a.State.Question
	if q == nil {
		return nil
	}
	return &views.Question{Number: strconv.FormatInt(q.Seq, 10), Who: name(q.Actor.ID), Text: q.Comment, At: q.At}
}

// maxAnswered is how many answered questions stand beside the decision. What happened has all.
const maxAnswered = 2

func answeredQuestions(a approval.Approval, agent string, name func(string) string) []views.Question {
	var list []views.Question
	var asked *views.Question
	for _, f := range factsInOrder(a.Facts) {
		switch {
		case f.Kind == approval.Question:
			asked = &views.Question{Who: name(f.Actor.ID), Text: f.Comment, At: f.At}
		case f.Kind == approval.Information && asked != nil:
			asked.Answer, asked.AnsweredBy = f.Comment, actorName(f.Actor, agent, name)
			list, asked = append(list, *asked), nil
		}
	}
	return list[max(len(list)-maxAnswered, 0):]
}

// noTracker says that nobody can attach the ticket that a call needs.
func noTracker(t *engine.TicketTerms) string {
	if t != nil && t.System != "" {
		return "It has to be one of " + t.System + ", which is not configured here, so nobody can attach it."
	}
	return "No ticket system is configured here, so nobody can attach one."
}

func ticketForm(t *engine.TicketTerms, systems []string) *views.TicketForm {
	f := &views.TicketForm{Systems: systems}
	if len(systems) == 1 {
		f.System = systems[0]
	}
	if t == nil {
		return f
	}
	f.System = cmp.Or(t.System, f.System)
	var terms []string
	for _, term := range []struct{ words, value string }{
		{"of ", t.System}, {"in project ", strings.Join(t.Projects, " or ")}, {"in state ", strings.Join(t.States, " or ")},
	} {
		if term.value != "" {
			terms = append(terms, term.words+term.value)
		}
	}
	if t.MaxAge > 0 {
		terms = append(terms, "at most "+brief(time.Duration(t.MaxAge))+" old")
	}
	if len(terms) > 0 {
		f.Terms = "A ticket " + strings.Join(terms, ", ") + "."
	}
	return f
}

// attachedTicket is the ticket that was attached last, and what was found of it.
func attachedTicket(a approval.Approval) *views.Ticket {
	f := a.State.Ticket
	if f == nil || f.Details.Ticket == nil {
		f = lastTicket(a)
	}
	if f == nil {
		return nil
	}
	t := *f.Details.Ticket
	v := &views.Ticket{Code: "wait", Finding: "Its tracker is being asked."}
	if checked := ticketCheck(a, f); checked != nil {
		t = *checked.Details.Ticket
		v.Code, v.Finding = "good", "It covers this call."
		if !checked.Yes {
			v.Code, v.Finding = "bad", "It does not cover this call: "+t.Message
		}
	}
	v.System, v.Ref, v.Title, v.State, v.Project = t.System, t.Ref, t.Title, t.State, t.Project
	if u, err := url.Parse(t.URL); err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil {
		v.URL = t.URL
	}
	return v
}

// lastTicket is the last ticket of the edition, also of one that has ended.
func lastTicket(a approval.Approval) *approval.Fact {
	for i := len(a.Facts) - 1; i >= 0; i-- {
		if f := &a.Facts[i]; f.Kind == approval.TicketLink && f.Edition == a.Plan.Edition && f.Details.Ticket != nil {
			return f
		}
	}
	return nil
}

// ticketCheck is what was found of a ticket, nil while nothing was.
func ticketCheck(a approval.Approval, link *approval.Fact) *approval.Fact {
	for i := len(a.Facts) - 1; i >= 0; i-- {
		f := &a.Facts[i]
		if f.Kind == approval.TicketCheck && f.Seq > link.Seq && f.Edition == link.Edition && f.Details.Ticket != nil &&
			f.Details.Ticket.Ref == link.Details.Ticket.Ref && f.Details.Ticket.System == link.Details.Ticket.System {
			return f
		}
	}
	return nil
}

// claimOf says who has taken it on.
func claimOf(c gate.Card, p engine.Person, name func(string) string) views.Claim {
	var v views.Claim
	a := c.Approval
	if over(a) {
		return v
	}
	if claim := a.State.Claim; claim != nil {
		v.By, v.Mine = name(claim.Claimant()), claim.Claimant() == p.ID
		if claim.Details.For != "" {
			v.PassedBy, v.PassedByMe = name(claim.Actor.ID), claim.Actor.ID == p.ID
		}
	}
	v.CanTake = !v.Mine && (c.CannotVote == nil || refusalOf(c, p, approval.Fact{Kind: approval.Claim}) == nil)
	return v
}
