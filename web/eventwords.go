package web

import (
	"cmp"
	"encoding/json"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/gate"
	"holdpoint/internal/report"
	"holdpoint/web/views"
)

// logged is a record of the log as an event; ok is false for a row that is gone
// or is not the event that its columns say.
func logged(r audit.Record) (e engine.Event, ok bool) {
	if r.ID == "" || json.Unmarshal(r.Body, &e) != nil {
		return engine.Event{}, false
	}
	ok = e.ID == r.ID && string(e.Type) == r.Type && string(e.Outcome) == r.Outcome && e.AgentID == r.AgentID && e.ToolName == r.ToolName && e.ApprovalID == r.ApprovalID
	e.Seq, e.Timestamp = r.Seq(), r.At.UTC()
	return e, ok
}

// eventText is an event in words: a sentence, and what is given as the reasons.
type eventText struct {
	Sentence string
	Because  []string
}

// decisionWords says what came of a call at the gate.
var decisionWords = map[engine.Outcome]string{
	engine.Allow: "and it was allowed", engine.Deny: "and it was refused", engine.RequireApproval: "and it was held for approval",
	engine.RequireStepUp: "and it was held until it is confirmed", engine.RequireTicket: "and it was held until a ticket covers it",
	engine.RequireHuman: "and it was held for a person", engine.KillSwitch: "and a kill switch stopped it", engine.RateLimited: "and it was one too many",
}

// actionWords are the reasons' codes that say what somebody did to a call.
var actionWords = map[string]string{
	"VOTE_APPROVE": "approved", "VOTE_DENY": "denied", "VOTE_BY_GRANT": "approved beforehand, by a standing grant,",
	"ANSWER_CONFIRMED": "confirmed", "ANSWER_DECLINED": "did not want", "STEP_UP_PASSED": "proved who they are, for", "STEP_UP_FAILED": "did not want",
	"TICKET_ATTACHED": "attached a ticket to", "TICKET_VALIDATED": "found that the ticket covers", "TICKET_REJECTED": "found that the ticket does not cover",
	"CANCEL": "took back", "QUESTION": "asked a question about", "INFORMATION": "answered a question about", "COMMENT": "commented on",
	"CLAIM": "claimed", "UNCLAIM": "released the claim on", "PASSED_ON": "passed on", "EXTEND": "gave more time to", "EDIT": "changed the arguments of", "BREAK_GLASS": "broke the glass for",
	"EXECUTION_SUCCEEDED": "reported the success of", "EXECUTION_FAILED": "reported the failure of", "EXECUTION_UNKNOWN": "does not know what became of",
	"EXECUTION_RECONCILED": "found out what became of", "REVIEWED_AFTERWARDS": "looked afterwards at", "GRANT_MADE": "made a standing grant from",
	"TOOL_REQUEST_APPROVED": "presented the approved document of", "CARD_SHOWN": "was shown all of",
}

// describeEvent says in one sentence what happened.
func describeEvent(e engine.Event, name func(string) string) eventText {
	who, call := eventActor(e, name), callWords(e, name)
	t := eventText{Because: reasonMessages(e)}
	action := ""
	if len(e.Reasons) > 0 {
		action = actionWords[e.Reasons[0].Code]
	}
	attempt := attemptWords[e.Type]
	switch {
	case e.Type == engine.Decided && gate.ChangeUnder(e.ToolName) != "":
		t.Sentence = "A change of " + gate.ChangeUnder(e.ToolName) + " was proposed, " + cmp.Or(decisionWords[e.Outcome], "and the answer was "+string(e.Outcome))
	case e.Type == engine.Decided:
		t.Sentence = nameOr(e.AgentID, name, "An agent") + " called " + cmp.Or(e.ToolName, "a tool") + ", " + cmp.Or(decisionWords[e.Outcome], "and the answer was "+string(e.Outcome))
	case e.Type == engine.ToolContract && action == "":
		t.Sentence = nameOr(e.AgentID, name, "An agent") + " asked what the contract of " + cmp.Or(e.ToolName, "a tool") + " lets through, " + cmp.Or(decisionWords[e.Outcome], "and the answer was "+string(e.Outcome))
	case e.Type == engine.Settled:
		t.Sentence = settledSentence(e, call)
	case e.Outcome == engine.Deny && e.Type == engine.Erased && e.ApprovalID != "":
		t.Sentence = who + " tried to erase what an approval was about, and was turned away"
	case e.Outcome == engine.Deny && e.Type == engine.Erased:
		t.Sentence = who + " tried to erase a person, and was turned away"
	case e.Outcome == engine.Deny && attempt != "":
		t.Sentence = who + " " + attempt + " and was turned away, for " + call
	case action != "":
		t.Sentence = who + " " + action + " " + call
		if e.Type == engine.Shown { // the reason says the same
			t.Because = nil
		}
	case e.Type == engine.Redeemed:
		t.Sentence = who + " took the permission and started " + call
	case e.Type == engine.Executed:
		t.Sentence = who + " reported what became of " + call
	case e.Type == engine.Ungated:
		t.Sentence = nameOr(e.AgentID, name, "An agent") + " ran " + cmp.Or(e.ToolName, "a tool") + " without a decision"
	case e.Type == engine.Escalated:
		t.Sentence = who + " asked those of the escalation about " + call
	case e.Type == engine.Reopened:
		t.Sentence = who + " asks anew about " + call + ", because the rules ask for more than before"
	case e.Type == engine.Exported:
		t.Sentence, t.Because = who+" "+exported(e), nil
	case e.Type == engine.SignIn:
		t.Sentence, t.Because = signedIn(e, who, t.Because)
	case e.Type == engine.Refusal:
		t.Sentence = "A request " + "by " + lowerThe(who) + " was turned away"
	case len(t.Because) > 0: // administration and notifications: the reason is what was done
		first := strings.TrimSuffix(t.Because[0], ".")
		t.Because = t.Because[1:]
		t.Sentence = who + ": " + lowerFirst(first) + aboutWhom(e, name)
		if e.Outcome == engine.Deny {
			t.Sentence = who + " tried to change something and was turned away: " + lowerFirst(first)
		}
	default:
		t.Sentence = who + ": " + words(string(e.Type)) + ", " + string(e.Outcome)
	}
	t.Sentence += "."
	return t
}

// aboutWhom names the account that an event of administration is about, "" where it is about
// none, or about that of the actor.
func aboutWhom(e engine.Event, name func(string) string) string {
	var p struct {
		Person  string `json:"person"`
		Subject string `json:"subject"`
	}
	if e.Type != engine.Admin || json.Unmarshal(e.SafePayload, &p) != nil {
		return ""
	}
	if about := cmp.Or(p.Person, p.Subject); about != "" && about != e.Actor.ID {
		return " (" + name(about) + ")"
	}
	return ""
}

func settledSentence(e engine.Event, call string) string {
	ending := map[engine.Outcome]string{
		engine.Approved: upperFirst(call) + " was approved: it may run once",
		engine.Timeout:  "Time ran out for " + call + ": it will not run", engine.KillSwitch: "A kill switch ended " + call + ": it will not run",
	}[e.Outcome]
	return cmp.Or(ending, upperFirst(call)+" ended without an approval: it will not run")
}

func signedIn(e engine.Event, who string, because []string) (string, []string) {
	if len(e.Reasons) > 0 {
		switch e.Reasons[0].Code {
		case "SIGNED_IN":
			return who + lowerFirst(strings.TrimSuffix(" "+lowerFirst(e.Reasons[0].Message), ".")), nil
		case "SIGNED_OUT":
			return who + " signed out", nil
		}
	}
	if e.Outcome == engine.Deny {
		return who + " tried to sign in or to prove who they are, and was turned away", because
	}
	return who + " proved who they are", because
}

// exported says of what was taken out of the log whether it has arguments in it: a
// pack has.
func exported(e engine.Event) string {
	begun := len(e.Reasons) > 0 && e.Reasons[0].Code == "EXPORT_BEGUN"
	var p struct {
		As      string `json:"as"`
		Report  string `json:"report"`
		Amounts bool   `json:"amounts"`
	}
	_ = json.Unmarshal(e.SafePayload, &p) // without it, it is the log
	l, _ := report.FindList(p.Report)
	with := map[bool]string{true: ", with amounts"}[p.Amounts]
	switch pack, history := p.As == "evidence_pack", p.As == "approval_history"; {
	case p.As == report.ListFile && begun:
		return "began to export the report “" + cmp.Or(l.Title, "?") + "”" + with
	case p.As == report.ListFile:
		return "exported the report “" + cmp.Or(l.Title, "?") + "”" + with
	case p.As == report.AccessFile:
		return "exported who has which role"
	case history && begun:
		return "began to export the history of approvals"
	case history:
		return "exported the history of approvals"
	case pack && begun:
		return "began to make an evidence pack"
	case pack:
		return "made an evidence pack"
	case begun:
		return "began to export the audit log"
	}
	return "exported the audit log"
}

// eventActor names the actor.
func eventActor(e engine.Event, name func(string) string) string {
	switch e.Actor.Kind {
	case engine.HumanActor:
		return nameOr(e.Actor.ID, name, "Somebody")
	case engine.AgentActor:
		return nameOr(e.Actor.ID, name, "An agent")
	case engine.ServiceActor:
		switch {
		case administers(e.Type) || e.AgentID == "" || e.Actor.Channel == "cli":
			return serviceActor(e.Actor)
		case e.Type == engine.Refusal:
			return "A key of " + name(e.AgentID)
		}
		return "The runtime of " + name(e.AgentID)
	case engine.SystemActor:
	}
	return "Holdpoint"
}

// administers says what no runtime does of its agent: an event of these that names
// an agent is about it, and not by it.
func administers(t engine.EventType) bool {
	switch t { //nolint:exhaustive // all others come from calls, their people and their runtimes
	case engine.Admin, engine.Erased, engine.Held, engine.Exported, engine.Granted, engine.Notified:
		return true
	}
	return false
}

// serviceActor names a service that acts for nobody else.
func serviceActor(a engine.Actor) string {
	switch {
	case a.Channel == "cli":
		return "The command line"
	case a.ID == "":
		return "Somebody"
	case a.Channel == "engine":
		return "The program " + a.ID
	}
	if provider, ok := strings.CutPrefix(a.ID, "sso:"); ok {
		return "The provider of single sign-on " + provider
	}
	return "The key " + a.ID
}

func callWords(e engine.Event, name func(string) string) string {
	if what := gate.ChangeUnder(e.ToolName); what != "" {
		return "the change of " + what
	}
	call := "the call of " + cmp.Or(e.ToolName, "a tool")
	if e.ToolName == "" && e.AgentID == "" {
		return "a call"
	}
	if e.AgentID != "" && e.Actor.Kind != engine.AgentActor {
		call += " by " + name(e.AgentID)
	}
	return call
}

func nameOr(id string, name func(string) string, otherwise string) string {
	if id == "" {
		return otherwise
	}
	return name(id)
}

// outcomes are those by which a log is searched, in words.
var outcomes = []struct {
	outcome engine.Outcome
	words   string
}{
	{engine.Allow, "allowed"},
	{engine.Deny, "refused or denied"},
	{engine.RequireApproval, "held for approval"},
	{engine.RequireHuman, "held for a person"},
	{engine.RequireStepUp, "held for a confirmation"},
	{engine.RequireTicket, "held for a ticket"},
	{engine.Approved, "approved"},
	{engine.Rejected, "rejected"},
	{engine.Timeout, "out of time"},
	{engine.KillSwitch, "stopped by a kill switch"},
	{engine.RateLimited, "too many calls"},
}

// eventTypes are what a log is searched by, in words.
var eventTypes = []struct {
	kind  engine.EventType
	words string
}{
	{engine.Decided, "a call was judged"},
	{engine.Settled, "an approval ended"},
	{engine.Voted, "a vote"},
	{engine.Shown, "a call's card was shown"},
	{engine.Redeemed, "an approved call started"},
	{engine.Executed, "what became of a call"},
	{engine.Ungated, "a call ran without a decision"},
	{engine.Answered, "an answer"},
	{engine.Proved, "a proof of who somebody is"},
	{engine.Ticketed, "a ticket"},
	{engine.Asked, "a question"},
	{engine.Commented, "a comment"},
	{engine.Claimed, "claimed, passed on, or the claim released"},
	{engine.Extended, "more time"},
	{engine.Escalated, "an escalation"},
	{engine.Edited, "changed arguments"},
	{engine.Reopened, "asked anew"},
	{engine.Cancelled, "taken back"},
	{engine.Broken, "broken glass"},
	{engine.Afterward, "a look afterwards"},
	{engine.Granted, "a standing grant"},
	{engine.Notified, "a notification"},
	{engine.ToolContract, "a tool contract was asked"},
	{engine.Refusal, "a request was turned away"},
	{engine.SignIn, "signing in or out"},
	{engine.Exported, "the log was exported"},
	{engine.Held, "a legal hold"},
	{engine.Erased, "an erasure"},
	{engine.Admin, "administration"},
}

func outcomeWords(code string) string {
	for _, o := range outcomes {
		if string(o.outcome) == code {
			return o.words
		}
	}
	return ""
}

func typeWords(code string) string {
	for _, t := range eventTypes {
		if string(t.kind) == code {
			return t.words
		}
	}
	return ""
}

// outcomeOf is an event's outcome as a badge.
func outcomeOf(o engine.Outcome) views.Outcome {
	v := views.Outcome{Code: string(o), Words: outcomeWords(string(o)), Kind: "wait"}
	switch o {
	case engine.Allow, engine.Approved:
		v.Kind = "allow"
	case engine.Deny, engine.Rejected, engine.KillSwitch, engine.RateLimited, engine.Timeout:
		v.Kind = "deny"
	case engine.RequireStepUp, engine.RequireTicket:
		v.Kind = "ask"
	case engine.RequireApproval, engine.RequireHuman:
	}
	return v
}
