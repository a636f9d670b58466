package views

import "time"

// Undo undoes what was done just now: a form with IDs, sent to Address; no IDs for none.
type Undo struct {
	Address string
	IDs     []string
}

// Frame is what every page has around its content.
type Frame struct {
	// Title is the page's title without the product's name.
	Title string
	// Person is the signed-in person's name, or "" on pages for anybody.
	Person string
	// PersonID is the signed-in person, whose words the page's forms have; "" for nobody.
	PersonID string
	// Here is the entry of the navigation that the page is: "inbox", "history",
	// "policies", "agents", "audit", "admin", "account" or "".
	Here string
	// Rules and Admin say which entries of the navigation the person may open.
	Rules, Admin bool
	// Delegations says that there is a page on which people say that they are away.
	Delegations bool
	// Grants says that there are pages for standing grants; Here is "grants" there.
	Grants bool
	// Pages says which pages of the administration there are besides the first.
	Pages AdminPages
	// Audit says that the person may open the audit log; Here is "audit" there.
	Audit bool
	// AllStopped is the kill switch of all agents, when it is on.
	AllStopped Kill
	// Notice says what was done just now, or "".
	Notice string
	// Undo is the button that goes with it, where that can be undone.
	Undo Undo
	// Enrolling says that the person can do nothing but add a second factor.
	Enrolling bool
	// Live is the address of the event stream that says when to look again, or "".
	Live string
	// Refresh makes the page load itself again where there is no script.
	Refresh bool
	// Now is the server's time, by which a script counts down.
	Now time.Time
}

// AdminPages are pages of the administration that an installation may do without.
type AdminPages struct{ People, OnCall, Keys, Notifications, Reviews bool }

// Link is a text and where it leads.
type Link struct{ Text, To string }

// SignIn is the page on which people sign in.
type SignIn struct {
	Frame
	Email string
	// Next is where to go afterwards.
	Next string
	// Lost says that a form came without a session. Carried are the hidden fields that
	// have what it said; what is carried nowhere is in Words, to copy. Together says that it
	// was about several calls.
	Lost, Together bool
	Carried        []Field
	Words          string
	// Providers are those of single sign-on: what they are called, and where they begin.
	// SSOOnly says that a password is for administrators alone.
	Providers []Link
	SSOOnly   bool
	// Failure is what to say about the last attempt, or "".
	Failure string
}

// Welcome is the page on which somebody who has a link sets a password.
type Welcome struct {
	Frame
	Token string
	// Failure is what to say about the last attempt, or "".
	Failure string
}

// Message is a page that says one thing.
type Message struct {
	Frame
	Heading string
	// Lines are paragraphs.
	Lines []string
	// Comment is what the person had written and would otherwise lose.
	Comment string
	// LinkText and LinkTo say where to go on.
	LinkText, LinkTo string
}

// Status is where an approval stands, as a word for programs and one for people.
type Status struct {
	Code string // pending, settling, approved, denied, expired, cancelled
	Word string
}

// Resembling is a text that looks like another one, which was approved at the same
// place at that time.
type Resembling struct {
	Place string
	// Here is the text, and Known the other one; "" for both where they are masked.
	Here, Known string
	At          time.Time
}

// maxResembling is how many of them are named; the others are counted.
const maxResembling = 6

// Approval is the page on which a person decides.
type Approval struct {
	Frame
	ID      string
	Version int
	Digest  string
	Policy  string
	Request string

	Tool  string
	Agent string
	// Changes is what of the rules would change, by what Agent has written; "" for a call.
	Changes string
	// Tags are what the call is besides, in a word each; empty ones are not shown.
	Tags []string

	// Stakes says what the call does, and Sum what else to know of it at once.
	Stakes Stakes
	Sum    CallSummary
	// Environment is the one by whose rules it was judged.
	Environment string

	// Resembles says which texts look like others that were approved before.
	Resembles []Resembling

	// Erased is since when what it was about is gone; zero while it is there.
	Erased time.Time

	Status   Status
	Sentence string    // what the status means now, or what comes next
	Over     bool      // nothing is left to decide
	Deadline time.Time // zero when Over

	// Path says in one line who is needed and in which order, where that is more
	// than one stage; else "".
	Path     string
	Stages   []Stage
	Votes    []Vote
	Findings []Finding
	// Paused says that the clock stands still until then for an answer; zero when
	// it does not. Question is the open question, nil for none.
	Paused   time.Time
	Question *Question
	// Answered are the questions that were answered last, for whoever decides on it.
	Answered []Question
	// Edition says how the call was changed, nil when it was not.
	Edition *Edition
	Claim   Claim
	// Ticket is the one that was attached last, nil for none.
	Ticket *Ticket
	// Answers is what was supplied because the call asked for it; nil for nothing.
	Answers *Code
	// Permits is what the call may do once it is approved; nil for no limits.
	Permits  *Code
	FollowUp FollowUp
	Tasks    OpenTasks
	Actions  Actions
	// SessionURL leads to all calls of the session, of which there are SessionSize;
	// "" when this is the only one.
	SessionURL string
	// EvidenceURL makes an evidence pack, for those who may; else "".
	EvidenceURL string
	SessionSize int

	// ToolRequest is the document, where a tool request proposes the call.
	ToolRequest *ToolRequest

	// AgentStopped is the kill switch of the call's agent while the call waits.
	AgentStopped Kill
	// LastAlike is the last approved call like it, nil for none.
	LastAlike *LastAlike
	// Rules says which rules of the policy met it, nil where that is not told.
	Rules *RuleTrace

	// Changed is what the last edit has changed, and ChangedInAll what all of them have;
	// nil for nothing.
	Changed, ChangedInAll []Change
	// EditedBy is who made the last edit, and EditedWhy what they wrote.
	EditedBy, EditedWhy string
	Arguments           Arguments
	Warnings            Warnings
	Secrets             Secrets
	// Seen is the card that the decision is about, rendered (RenderCard).
	Seen string

	// Voted says that the person has just voted here; Next is what waits for them then, nil
	// for nothing.
	Voted bool
	Next  *NextCall

	// Drafts is what the person has written and not sent.
	Drafts Drafts
	// Apart says that one of the forms is on a page of its own.
	Apart bool

	Requester  Requester
	Statements AgentStatements
	Decide     Decide
	// ProvedUntil is until when the person counts as having just proved who they are,
	// where something here needs that; else zero.
	ProvedUntil time.Time
	Timeline    []Moment
}

// NextCall is the call that somebody looks at next.
type NextCall struct {
	URL, Agent, Tool string
	// Waiting is how many calls wait for the person.
	Waiting int
}

// Requirement is one stage and how far it has come.
type Requirement struct {
	What          string
	Given, Needed int
	Standing      string // in words
	Code          string // queued, waiting, satisfied, closed
	// Short says that fewer people can do it than are still needed.
	Short string
	// Escalation says who may decide as well, and from when on, or "".
	Escalation string
	// Denied counts the noes, where it takes more than one; "".
	Denied string
	// Due is its own deadline, zero where only that of the whole counts, and
	// Calendar the hours that count, or "".
	Due      time.Time
	Calendar string
	// Suggested are people to ask first.
	Suggested []string
	// Signed says that only votes count that a passkey has signed.
	Signed bool
}

// Vote is a vote that somebody cast.
type Vote struct {
	Who     string
	For     string // in whose place, or ""
	Yes     bool
	What    string // "approved", "denied: wrong arguments"
	Comment string
	At      time.Time
}

// Finding is a reason for the approval.
type Finding struct {
	Message, Route, RouteWord string
	// From names the check: "contract/confirmation_missing", "policy rule pay".
	From string
	// Original is what the check said, where Message says it in other words; else "".
	Original string
}

// Arguments is the code block of what will run.
type Arguments struct {
	Code Code
	// Erased says that the arguments are gone, and ErasedAt since when, where that
	// is known.
	Erased   bool
	ErasedAt time.Time
	// Unreadable says that they are there and cannot be read.
	Unreadable bool
	// MoreLines and MoreRunes count what the preview leaves out; FullURL shows it.
	MoreLines, MoreRunes int
	FullURL              string
	// Forms are arguments as people read them, and Tree all of them; nil where they are
	// too long.
	Forms []Form
	Tree  []Node
	// ExactURL has the exact bytes, for those who have been shown them; else "".
	ExactURL string
}

// LastAlike is the last approved call of the same agent and tool.
type LastAlike struct {
	URL     string
	At      time.Time
	Changes []Change
	// Masked says that values of one of them are masked, and not compared.
	Masked bool
}

// Secrets are what looks like a secret on a card.
type Secrets struct {
	// Places are where, the first of them, and More how many others there are.
	Places []string
	More   int
	// Hidden says that they are masked.
	Hidden bool
}

// Cut reports whether not everything is shown.
func (a Arguments) Cut() bool { return a.MoreLines > 0 || a.MoreRunes > 0 }

// Requester is who proposed the call, as registered.
type Requester struct {
	Agent, AgentID, Owner, Credential string
	// Author is who has written a change of the rules, or that nobody knows; "" for a call.
	Author string
	// ByClaim says whom nothing but the agent's word excludes, and Widened what came of
	// it, where too few were left; each a sentence, or "".
	ByClaim, Widened string
}

// AgentStatements is what the agent says itself. Nobody has checked it.
type AgentStatements struct {
	Intent string
	// IntentIs says what Intent is, where that is not the agent's own wording; "".
	IntentIs string
	Facts    []Field
	Evidence []Evidence
	// Unread says that the document could not be read.
	Unread bool
}

// Evidence is one evidence reference of the agent's document.
type Evidence struct {
	Source, Kind, Trust, Redaction, Freshness, Provenance, Summary string
}

// Decide says what the person can do about the approval.
type Decide struct {
	Approve, Deny bool
	// Blocked says why Approve is there and cannot be used yet, or "".
	Blocked string
	// BlockedAt is where the person can do something about that, and BlockedLink the
	// words of the link; "" for nowhere.
	BlockedAt, BlockedLink string
	// Verify is where the person first has to prove who they are, or "". With Sign it is
	// another way.
	Verify string
	// Prove is the proof of who they are that goes with the vote, nil for none. Where it
	// is nil, and Verify is not "", Verify is where they give it.
	Prove *VerifyForm
	// Failure is why the vote was not taken just now, or "".
	Failure string
	// Sign and SignDeny say that the person's passkey signs the vote, and DenyBlocked that
	// it has to and cannot.
	Sign, SignDeny, DenyBlocked bool
	// Note says in a sentence why the person cannot vote, or "".
	Note string
	// MaxComment bounds the comment, in bytes.
	MaxComment int
	Kinds      []Option
	// Terms are the constraints that a vote can tighten by a number.
	Terms []TightTerm
}

// TightTerm is a constraint that a vote can tighten by a number. Now is what it is, "" for not set,
// and Least says that it can only grow.
type TightTerm struct {
	Name, Label, Now string
	Least            bool
}

// Field is the name of its field, which no other field of the form can have.
func (t TightTerm) Field() string { return "term:" + t.Name }

// Mode tells a script whether a new rendering has the same form.
func (d Decide) Mode() string {
	switch {
	case d.Approve && d.Blocked != "":
		return "blocked"
	case d.Approve && d.Sign:
		return "sign"
	case d.Approve && d.Verify != "":
		return "prove"
	case d.Approve:
		return "both"
	case d.Deny:
		return "deny"
	}
	return "none"
}

// Ready reports whether the form approves as it is.
func (d Decide) Ready() bool { return d.Approve && (d.Verify == "" || d.Sign) }

// Asks reports whether a button of the form asks a passkey.
func (d Decide) Asks() bool {
	return d.Approve && d.Sign && d.Blocked == "" || d.SignDeny && !d.DenyBlocked
}

// Option is a choice of a select.
type Option struct{ Value, Label string }

// Moment is an event of the timeline, in words.
type Moment struct {
	At      time.Time
	Who     string
	What    string
	Detail  []string
	Comment string
	Kind    string // decides the bullet: "", "yes", "no", "end"
	Times   int    // how often in a row, where that can be more than once
	EventID string // of the event that says so, or of the first of several
}
