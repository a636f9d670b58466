package views

import (
	"strconv"
	"strings"
	"time"
)

// Stage is one or more requirements whose turn comes together.
type Stage struct {
	Requirements []Requirement
}

// Edition says how the call came to be what it is now.
type Edition struct {
	Who  string
	What string // "changed amount and memo", "the rules ask for more now"
	Why  string // what they wrote, or ""
	At   time.Time
}

// Claim says who has taken the approval on.
type Claim struct {
	By string // "" for nobody
	// PassedBy is who passed it on to them; "" where they claimed it themselves.
	PassedBy string
	// Mine says that the reader has, and CanTake that the reader may.
	Mine, CanTake bool
	// PassedByMe says that the reader passed it on; claiming it takes that back.
	PassedByMe bool
}

// claimLabel is what the button says by which the reader claims it.
func claimLabel(c Claim) string {
	if c.PassedByMe {
		return "Take it back"
	}
	return "Claim"
}

// FollowUp is what came after an approval's end.
type FollowUp struct {
	// Successor is the approval by which people are asked anew, or "".
	Successor string
	// Lease is by when the agent has to say what became of the call; zero when it
	// has not to.
	Lease time.Time
	// Remarks are what people have found out or said since.
	Remarks []Moment
	// AwaitsReview says that somebody has to look at it afterwards.
	AwaitsReview bool
}

// Empty reports whether there is nothing to say.
func (a FollowUp) Empty() bool {
	return a.Successor == "" && a.Lease.IsZero() && len(a.Remarks) == 0 && !a.AwaitsReview
}

// Actions are what the person may do beside deciding.
type Actions struct {
	Comment bool
	// Ask lets the person ask a question; AskNote says what that does to the clock.
	Ask     bool
	AskNote string
	// Extend lists by how much the person may lengthen its time.
	Extend []Option
	// Snooze lists for how long the person may snooze it, and SnoozedUntil is until when
	// they have; zero for not at all.
	Snooze []Option
	// SnoozeCut says that its deadline is too soon for some of them.
	SnoozeCut    bool
	SnoozedUntil time.Time
	// PassOn lists the colleagues to whom it can be passed on: Value is an id, and
	// PassOnByEmail says that there are too many to list. Neither: it cannot be.
	PassOn        []Option
	PassOnByEmail bool
	// EditURL and GrantURL are pages, or "".
	EditURL, GrantURL string
	// Break lets the person break the glass; BreakVerify is where they first have to
	// prove who they are, or "".
	Break bool
	// Withdraw offers to take back a change of the rules.
	Withdraw    bool
	BreakVerify string
	// BreakBlocked says why the glass cannot be broken yet, or "", and BreakAccount is
	// where the person can do something about that, or "".
	BreakBlocked, BreakAccount string
	// BreakSign says that the person's passkey signs it.
	BreakSign bool
}

// Mode tells a script whether a new rendering offers the same.
func (a Actions) Mode() string {
	mode := ""
	for _, on := range []bool{a.Comment, a.Ask, len(a.Extend) > 0, a.EditURL != "", a.GrantURL != "", len(a.Snooze) > 0, !a.SnoozedUntil.IsZero(), len(a.PassOn) > 0, a.PassOnByEmail, a.Break, a.BreakVerify != "", a.BreakBlocked != "", a.BreakSign} {
		if on {
			mode += "1"
		} else {
			mode += "0"
		}
	}
	return mode
}

// Offers reports whether there is anything that the person may do.
func (a Actions) Offers() bool {
	return a.Comment || a.Ask || len(a.Extend) > 0 || a.EditURL != "" || a.GrantURL != "" || a.Break || a.Withdraw
}

// OpenTasks is what the call asks of this person in particular.
type OpenTasks struct {
	StepUp *StepUp
	Ticket *TicketForm
	// NoTracker says why the ticket that the call needs cannot be attached, or "".
	NoTracker string
	// AnswerURL is where the person supplies what the call asks for, or "".
	AnswerURL string
	// Question is a reviewer's question that the person can answer, nil for none.
	Question *Question
	// Reconcile asks what became of the call; BreakGlassReview to look at what somebody
	// broke the glass for.
	Reconcile, BreakGlassReview bool
}

// Any reports whether something is asked.
func (a OpenTasks) Any() bool {
	return a.StepUp != nil || a.Ticket != nil || a.NoTracker != "" || a.AnswerURL != "" || a.Question != nil || a.Reconcile || a.BreakGlassReview
}

// Mode tells a script whether a new rendering asks the same.
func (a OpenTasks) Mode() string {
	mode := ""
	if a.StepUp != nil {
		mode += "s" + a.StepUp.BoundTo
	}
	if a.Ticket != nil {
		mode += "t"
	}
	if a.NoTracker != "" {
		mode += "n"
	}
	if a.AnswerURL != "" {
		mode += "a"
	}
	if a.Question != nil {
		mode += "q" + a.Question.Number
	}
	return mode + strconv.FormatBool(a.Reconcile) + strconv.FormatBool(a.BreakGlassReview)
}

// StepUp asks the person who answers for the call to prove who they are.
type StepUp struct {
	// Code and Passkey are the ways in which they can; with neither, they have no
	// second factor yet.
	Code, Passkey    bool
	Purpose, BoundTo string
	// Failure is what to say about the last attempt, or "".
	Failure string
}

// TicketForm asks for a ticket.
type TicketForm struct {
	// System is the only one that is good, or "", and Systems are those that there are.
	System  string
	Systems []string
	// Terms says what the ticket has to be, or "".
	Terms string
}

// Question is a question that waits for its answer, or has one.
type Question struct {
	Number             string // the fact's, which names it
	Who                string
	Text               string
	At                 time.Time
	Answer, AnsweredBy string
}

// Ticket is a ticket that was attached, and what was found of it.
type Ticket struct {
	System, Ref, Title, State, Project string
	URL                                string // https only, or ""
	Code                               string // "wait", "good" or "bad"
	Finding                            string
}

// Edit is the page on which a reviewer changes the arguments.
type Edit struct {
	Frame
	ID, Digest, Tool, Agent string
	Version                 int
	// Fields are the controls of the arguments; Typed says that they are by the
	// tool's registered schema.
	Fields []EditField
	Typed  bool
	// JSON is the arguments as text, and Current how they are now.
	JSON    string
	Current Code
	Reason  string
	// Again says that it is as the person left it.
	Again bool
	// Problems are what is wrong beside the fields.
	Problems   []string
	MaxComment int
}

// Answer is the page on which somebody supplies what a call asks for.
type Answer struct {
	Frame
	ID, Digest, Tool, Agent string
	Version                 int
	Fields                  []EditField
	Problems                []string
}

// EditField is a control of one argument.
type EditField struct {
	Name, Label, Help string
	Kind              string
	Required          bool
	Choices           []string
	Value             string
	Min, Max          string
	MaxLength         int
	Problem           string
}

// id is what the field is called on the page.
func (f EditField) id() string { return "f-" + f.Name }

// described names what describes the field.
func (f EditField) described() string {
	var ids []string
	if f.Kind == "quoted" {
		ids = append(ids, f.id()+"-quoted")
	}
	if f.Help != "" {
		ids = append(ids, f.id()+"-help")
	}
	if f.Problem != "" {
		ids = append(ids, f.id()+"-problem")
	}
	return strings.Join(ids, " ")
}

// EditReview is the page that shows what an edit would change.
type EditReview struct {
	Frame
	ID, Digest, Tool, Agent string
	Version                 int
	Changes                 []Change
	Warnings                Warnings
	// JSON is the changed arguments in canonical form, and Reason why.
	JSON, Reason string
}

// Change is one changed argument.
type Change struct {
	Path string
	// Old and New are nil where there is none; Cut says that they are not all of it.
	Old, New *Code
	Cut      bool
}

// SessionPage is all calls of one session.
type SessionPage struct {
	Frame
	Agent, AgentID, Session string
	// Action is where the decisions go, and Failure why nothing was decided, or "".
	Action, Failure string
	Rows            []SessionRow
	// Full says that there are more than are shown, and Open how many can be
	// decided here.
	Full bool
	Open int
	// Kinds are the kinds of no.
	Kinds      []Option
	MaxComment int
	// Results say what became of each decision just now.
	Results []SessionResult
}

// SessionRow is one call of a session.
type SessionRow struct {
	ID, Tool, Digest string
	Version          int
	Why              string
	Status           Status
	Sentence         string
	Deadline         time.Time
	Stakes           Stakes
	Arguments        Code
	// Cut says that Arguments is not all of them, and Warnings counts what in them
	// is not what it looks like.
	Cut      bool
	Warnings int
	// Masked says that values of it are, because they look like secrets.
	Masked bool
	// Approve and Deny say what can be done here, and Note why not more.
	Approve, Deny bool
	Note          string
	// Seen is what the row shows of the call, rendered (RenderRow).
	Seen string
}

// SessionResult is what became of one decision.
type SessionResult struct {
	ID, Tool, Text string
	Good           bool
}
