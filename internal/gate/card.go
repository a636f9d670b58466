package gate

import (
	"encoding/json"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/identity"
	"holdpoint/internal/store"
)

// Card is an approval as its reviewer sees it.
type Card struct {
	Approval approval.Approval
	// Arguments is the canonical JSON (RFC 8785) of exactly what will run; nil
	// when it has been erased.
	Arguments []byte
	// Document is the canonical JSON of the whole document that proposed the
	// call (for dialect "aana" the Agent Action Contract event).
	Document []byte
	// Answers is the canonical JSON of what the requesting side has supplied with its
	// answer; nil for nothing.
	Answers []byte
	// Former and First are the canonical JSON of the arguments as they were before the
	// last edit, and as the agent proposed them; nil where nobody has edited them, and
	// First also where there was one edit.
	Former, First []byte
	// Masked is the card with what looks like a secret left out; nil where nothing does.
	Masked *Masked
	// Unreadable says that what was sealed of the call cannot be read, so that nothing of
	// it is known but what events tell.
	Unreadable bool
	// Trackers are the ticket systems that are configured.
	Trackers []string
	// AgentName and AgentOwner say who asks, as registered, not as claimed.
	AgentName, AgentOwner string
	// Names maps the ids of people in the timeline to display names.
	Names map[string]string
	// Timeline tells what happened so far, oldest first.
	Timeline []engine.Event
	// Long says that approving needs the whole arguments to have been shown;
	// Shown says that they have been, to this person.
	Long, Shown bool
	// CannotVote is nil when the person may approve now, else the reason
	// (approval.ErrSelfReview, ErrNotEligible, ErrAlreadyVoted, ErrDecided, …).
	CannotVote error
	// InPlaceOf holds the ids of those for whom the person would approve now, the
	// next one first: they stand in for the last one. Nil when they speak for
	// themselves, or cannot vote.
	InPlaceOf []string
	// SignYes and SignNo say that the person's yes, or no, now takes the signature of
	// their passkey, and CanSign that the log knows one of theirs.
	SignYes, SignNo, CanSign bool
	// Resembles says which texts of the arguments are drawn like others that were
	// approved before: at most resembleTexts of them. It changes as others are approved, so it
	// is no part of what is kept as shown.
	Resembles []Resemblance
	// Stakes says what is at stake; it is zero when the arguments have been erased.
	Stakes Stakes
	// FirstTime names the places of those whom or what the call is about that none of
	// the last Compared approved calls of the tool has named, and Alike counts how the
	// last calls of the same agent and tool were decided. Both change as others are, too.
	FirstTime []string
	Compared  int
	// Larger says that this one's amount is larger than those of all of them. It does not say what
	// they were: the reader may not be one who may read them.
	Larger bool
	Alike  DecisionCounts
	// Same is the last call of the same agent that was approved with these very arguments; nil
	// for none within thirty days. It changes as others are approved and run.
	Same *SameCall
	// LastAlike is the last approved call of the same agent and tool that the person may
	// read, Same if they may read that; nil for none.
	LastAlike *SimilarCall
	// Eligible is how many people could fill the waiting requirement's places.
	Eligible int
	// Colleagues are those people, by name: the first of them, if there are very many.
	Colleagues []engine.Person
	// Session is how many calls the call's session has; 0 for a call of none.
	Session int
	// LeaseUntil is by when the agent has to say what became of a redeemed call, and
	// Permits what the call may do; zero and nil for none.
	LeaseUntil time.Time
	Permits    json.RawMessage
	// BreakGlassReview is what is owed, or was said, of a call for which somebody broke
	// the glass alone, and Reconciled what somebody found out; nil for nothing.
	BreakGlassReview *store.BreakGlassReview
	Reconciled       *store.Reconciliation
	// Salt goes into the card that is shown: it makes its digest one that nobody can
	// guess at (engine/audit, card.go).
	Salt string
	// Now is the database's clock when the card was read.
	Now time.Time
}

// Display says how much of a card is shown, and so what counts as having seen it.
type Display uint8

// Unrecorded shows the card to nobody in particular. Page shows the person the card
// with the beginning of long arguments, Whole with all of them; in both, what looks
// like a secret is masked. Revealed shows everything. A display that shows all of the
// arguments is recorded.
const (
	Unrecorded Display = iota
	Excerpt
	Full
	Revealed
)

// VoteRequest is a person's vote as the door received it.
type VoteRequest struct {
	Person     engine.Person
	ApprovalID string
	Approve    bool
	Denial     approval.Denial // required when not Approve
	Comment    string          // at most MaxComment bytes
	Digest     string          // of the arguments that the page showed
	Version    int             // of the card that the page showed
	RequestID  string
	Channel    string // "console", "api" or "slack"
	// Constraints and ValidFor tighten what an approval permits: a JSON object, and
	// how long the permission is good; nil and 0 leave them.
	Constraints json.RawMessage
	ValidFor    time.Duration
	// Signed answers the challenge of SignVote; zero for a vote that nobody has signed.
	Signed identity.Proof
}

// MaxComment bounds a comment, and maxConstraints what a vote adds to the
// constraints, in bytes.
const (
	MaxComment     = 4000
	maxConstraints = 4000
)
