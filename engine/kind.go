package engine

import "slices"

// Kind is the kind of thing a requirement asks for. Whatever differs between
// kinds is a field of Traits; nothing else compares kinds. docs/adding.md says
// what a new one needs.
type Kind string

// The kinds, in the order in which an approval discharges them.
const (
	Answer Kind = "answer"
	StepUp Kind = "step_up"
	Ticket Kind = "ticket"
	Review Kind = "review"
	Human  Kind = "human"
)

// Discharger is who gives what a requirement asks for.
type Discharger string

// The givers.
const (
	Requester   Discharger = "requester"   // the user on whose behalf the agent acts, by its runtime or in person
	Accountable Discharger = "accountable" // a person who answers for the call
	Tracker     Discharger = "tracker"     // the ticket system, of a ticket that the requesting side attaches
	Reviewers   Discharger = "reviewers"   // people with the requirement's role
)

// Statement is what a giver says, and how it is told after who said it.
type Statement struct {
	// Reason is that of its event, Timeline tells reviewers of it on the call's page
	// and Pack auditors in an evidence pack.
	Reason         Reason
	Timeline, Pack string
}

var statements = map[Discharger]struct{ yes, no Statement }{
	Requester: {
		yes: Statement{
			Reason{Code: "ANSWER_CONFIRMED", Message: "The runtime says that its user confirmed the call."},
			"said that the user confirmed it", "confirmed it for the requesting side.",
		},
		no: Statement{
			Reason{Code: "ANSWER_DECLINED", Message: "The runtime says that its user does not want the call."},
			"said that the user does not want it", "said for the requesting side that it is not wanted.",
		},
	},
	Accountable: {
		yes: Statement{
			Reason{Code: "STEP_UP_PASSED", Message: "The person who answers for the call proved who they are."},
			"proved who they are", "proved who they are, as who answers for the call.",
		},
		no: Statement{
			Reason{Code: "STEP_UP_FAILED", Message: "The person who answers for the call does not want it."},
			"does not want the call", "answers for the call, and does not want it.",
		},
	},
	Tracker: {
		yes: Statement{
			Reason{Code: "TICKET_VALIDATED", Message: "The ticket was found to cover the call."},
			"found that the ticket covers the call", "found that the ticket covers the call.",
		},
		no: Statement{
			Reason{Code: "TICKET_REJECTED", Message: "The ticket does not cover the call."},
			"found that the ticket does not cover the call", "found that the ticket does not cover the call.",
		},
	},
}

// Says is the giver's yes or no; zero for reviewers, whose votes say more.
func (g Discharger) Says(yes bool) Statement {
	if yes {
		return statements[g].yes
	}
	return statements[g].no
}

// Traits is all that holds of a kind.
type Traits struct {
	Kind Kind
	// Discharger is who gives what it asks for.
	Discharger Discharger
	// Discharges is the strictest route of a finding that it can discharge.
	// Nothing discharges Refuse.
	Discharges Route
	// Outcome is the audit outcome of a decision whose strictest requirement it is.
	Outcome Outcome
	// VotesCount says that a yes of somebody with the requirement's role fills it.
	VotesCount bool
	// FreshProof says that each yes takes a fresh proof of who the voter is, and
	// none is given beforehand by a standing grant.
	FreshProof bool
	// BreakGlass says that an emergency may skip it.
	BreakGlass bool
	// NextAction is what the wire tells those who can act on it to do; "wait" where
	// nobody on the requesting side can.
	NextAction string
	// Noun is what agents and notifications call it.
	Noun string
	// Title is what reviewers read above it.
	Title string
	// Waits is the sentence that a waiting call's page says; "" for one made of
	// Title and role.
	Waits string
	// Wanted asks the requesting side's people for it; "" where they cannot give it.
	Wanted string
	// AgentTask tells a waiting agent who has to do what, with %s for the approval's
	// page; "" where it is told to wait.
	AgentTask string
	// NoPeople tells auditors who gives it where no people can be named; "" where
	// they can.
	NoPeople string
	// Approved is the reason on record when a call is approved whose strictest
	// requirement it is, Denied when whoever gives it says no.
	Approved, Denied Reason
}

// traits has every kind, in the order of discharge.
var traits = []Traits{
	{
		Kind: Answer, Discharger: Requester, Discharges: Ask, Outcome: RequireStepUp, VotesCount: true,
		NextAction: "answer", Noun: "answer", Title: "Confirmation", Wanted: "It needs an answer",
		AgentTask: "The user has to confirm this very call, through the runtime.",
		NoPeople:  "The requesting side's own user, by its runtime or in the console.",
		Approved:  Reason{Code: "STEP_UP_PASSED", Message: "The call was confirmed."},
		Denied:    Reason{Code: "STEP_UP_FAILED", Message: "The user does not want the call."},
	},
	{
		Kind: StepUp, Discharger: Accountable, Discharges: Ask, Outcome: RequireStepUp,
		NextAction: "verify", Noun: "proof of identity", Title: "Proof of identity by who answers for it", Wanted: "Prove that it is you",
		Waits:     "Waits for whoever answers for the call to prove who they are.",
		AgentTask: "A person has to verify themselves at %s.",
		Approved:  Reason{Code: "STEP_UP_PASSED", Message: "The call was confirmed."},
		Denied:    Reason{Code: "STEP_UP_FAILED", Message: "The person who answers for the call does not want it."},
	},
	{
		Kind: Ticket, Discharger: Tracker, Discharges: Ask, Outcome: RequireTicket, BreakGlass: true,
		NextAction: "attach_ticket", Noun: "ticket", Title: "A ticket", Wanted: "It needs a ticket",
		Waits:     "Waits for a ticket that covers the call.",
		AgentTask: "It needs a ticket.",
		NoPeople:  "No person: a ticket has to cover it, and its tracker is asked.",
		Approved:  Reason{Code: "TICKET_VALIDATED", Message: "The ticket was found to cover the call."},
		Denied:    Reason{Code: "TICKET_MISSING", Message: "The call was denied before a ticket covered it."},
	},
	{
		Kind: Review, Discharger: Reviewers, Discharges: Defer, Outcome: RequireApproval, VotesCount: true, BreakGlass: true,
		NextAction: "wait", Noun: "review", Title: "Review",
		Approved: Reason{Code: "APPROVED", Message: "Everybody whose approval was needed approved the call."},
		Denied:   Reason{Code: "REJECTED", Message: "A reviewer denied the call."},
	},
	{
		Kind: Human, Discharger: Reviewers, Discharges: Defer, Outcome: RequireHuman, VotesCount: true, FreshProof: true, BreakGlass: true,
		NextAction: "wait", Noun: "decision by a person", Title: "A person's decision",
		Approved: Reason{Code: "HUMAN_APPROVED", Message: "A person approved the call."},
		Denied:   Reason{Code: "HUMAN_REJECTED", Message: "A person denied the call."},
	},
}

// Kinds returns every kind, in the order of discharge.
func Kinds() []Kind {
	all := make([]Kind, len(traits))
	for i, t := range traits {
		all[i] = t.Kind
	}
	return all
}

// Order is the kind's place in the order of discharge, from 0. Unknown kinds
// come last.
func (k Kind) Order() int {
	if i := slices.IndexFunc(traits, func(t Traits) bool { return t.Kind == k }); i >= 0 {
		return i
	}
	return len(traits)
}

// Traits is what holds of the kind. One that is not known discharges nothing,
// and a decision that asks for it is a person's.
func (k Kind) Traits() Traits {
	if i := k.Order(); i < len(traits) {
		return traits[i]
	}
	return Traits{Kind: k, Outcome: RequireHuman, NextAction: "wait"}
}

// PeopleDecide reports whether people with a role decide. Such requirements of
// one kind have their turn together, in any order; all others one by one.
func (k Kind) PeopleDecide() bool { return k.Traits().Discharger == Reviewers }

// Confirms reports whether it asks for a yes that people with a role need not
// give: a review says all that such a yes would.
func (k Kind) Confirms() bool { return k.Traits().VotesCount && !k.PeopleDecide() }

// Kind is what a policy's outcome asks for: the kind itself, "" for an outcome
// that does not wait.
func (o Outcome) Kind() Kind {
	switch o {
	case RequireStepUp:
		return StepUp
	case RequireTicket:
		return Ticket
	case RequireApproval:
		return Review
	case RequireHuman:
		return Human
	default:
		return ""
	}
}
