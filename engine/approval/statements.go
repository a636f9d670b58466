package approval

import "holdpoint/engine"

// statements tell a fact of each kind whose words are not its giver's. Of a vote and
// of broken glass they tell the plain yes. A reopening has the reasons of the rules.
var statements = map[FactKind]engine.Statement{
	Vote:        {Reason: engine.Reason{Code: "VOTE_APPROVE", Message: "Approved by a reviewer."}, Timeline: "approved", Pack: "approved it."},
	BreakGlass:  {Reason: engine.Reason{Code: "BREAK_GLASS", Message: "Somebody broke the glass: the call is to run in an emergency."}, Timeline: "broke the glass", Pack: "broke the glass."},
	Cancel:      {Reason: engine.Reason{Code: "CANCEL", Message: "The requesting side took the call back."}, Timeline: "took the call back", Pack: "took the call back."},
	TicketLink:  {Reason: engine.Reason{Code: "TICKET_ATTACHED", Message: "A ticket was attached."}, Timeline: "attached a ticket", Pack: "attached a ticket."},
	Question:    {Reason: engine.Reason{Code: "QUESTION", Message: "A reviewer asks for more information."}, Timeline: "asked the requesting side", Pack: "asked the requesting side a question."},
	Information: {Reason: engine.Reason{Code: "INFORMATION", Message: "The requesting side answered the question."}, Timeline: "answered the question", Pack: "answered the question."},
	Comment:     {Reason: engine.Reason{Code: "COMMENT", Message: "Somebody commented on it."}, Timeline: "commented", Pack: "commented."},
	Claim:       {Reason: engine.Reason{Code: "CLAIM", Message: "A reviewer claimed it."}, Timeline: "claimed it", Pack: "claimed it."},
	Unclaim:     {Reason: engine.Reason{Code: "UNCLAIM", Message: "A reviewer released the claim."}, Timeline: "released the claim on it", Pack: "released the claim."},
	Extend:      {Reason: engine.Reason{Code: "EXTEND", Message: "It was given more time."}, Timeline: "gave it more time", Pack: "gave it more time."},
	Edit:        {Reason: engine.Reason{Code: "EDIT", Message: "A reviewer changed the arguments; what was said before counts no more."}, Timeline: "changed the arguments", Pack: "changed the arguments."},
	Reopen:      {Timeline: "asks anew: the rules ask for more than before", Pack: "asked anew, because the rules had come to ask for more."},
	Escalate: {
		Reason:   engine.Reason{Code: "NOBODY_ELIGIBLE", Message: "Nobody is left who may decide at this stage, so those whom it escalates to may at once."},
		Timeline: "found that nobody could decide, and asked those of the escalation at once", Pack: "found that nobody could decide, and asked those of the escalation.",
	},
}

var denials = map[Denial]string{NotNow: "not now", WrongArgs: "wrong arguments", NeedsInfo: "needs more information", Never: "never"}

// Text is the denial in words.
func (d Denial) Text() string {
	if text := denials[d]; text != "" {
		return text
	}
	return string(d)
}

// Statement returns the words that tell of the fact. Readers add what its details say beyond
// that.
func (f Fact) Statement() engine.Statement {
	s := statements[f.Kind]
	if giver := f.Discharger(); giver != "" {
		s = giver.Says(f.Yes)
	}
	switch {
	case f.Kind == Reply && f.Yes && f.Actor.Kind == engine.HumanActor:
		s.Reason.Message = "A person supplied what was asked for."
	case f.Kind == TicketCheck && !f.Yes && f.Details.Ticket != nil:
		s.Reason.Message = "The ticket does not cover the call (" + f.Details.Ticket.Code + "): " + f.Details.Ticket.Message
	case f.Kind == Escalate && len(f.Details.Widened) > 0:
		s.Reason = engine.Reason{Code: "WIDENED", Message: "The agent names people as its own side, and too few are left without them: people of another role may decide as well."}
		s.Timeline = "found too few left without the people whom the agent names as its side, and asked others as well"
		s.Pack = "found too few left without the people whom the agent names as its side, and asked others as well."
	case f.Kind == Claim && f.Details.For != "":
		s.Reason = engine.Reason{Code: "PASSED_ON", Message: "A reviewer passed it on to a colleague."}
		s.Timeline, s.Pack = "passed it on", "passed it on to a colleague."
	case f.Kind == BreakGlass && f.Details.Alone:
		s.Timeline, s.Pack = "broke the glass, alone", "broke the glass, alone."
	case f.Kind != Vote:
	case !f.Yes:
		s.Reason = engine.Reason{Code: "VOTE_DENY", Message: "Denied by a reviewer: " + string(f.Denial) + "."}
		s.Timeline, s.Pack = "denied", "denied it: "+f.Denial.Text()+"."
		if f.Denial != "" {
			s.Timeline += ": " + f.Denial.Text()
		}
	case f.Details.Grant != "":
		s.Reason = engine.Reason{Code: "VOTE_BY_GRANT", Message: "Approved beforehand, by the standing grant " + f.Details.Grant + "."}
		s.Timeline, s.Pack = "approved beforehand, by a standing grant", "approved it beforehand, by the standing grant "+f.Details.Grant+"."
	case len(f.Details.Constraints) > 0 || f.Details.ValidFor > 0:
		s.Timeline = "approved with tighter terms"
	}
	return s
}
