package approval

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"holdpoint/engine"
)

// FactKind is what a fact contributes.
type FactKind string

// The kinds of fact.
const (
	Vote         FactKind = "vote"         // a person approves or denies
	Reply        FactKind = "answer"       // the requesting side confirms, or does not want it
	Cancel       FactKind = "cancel"       // the requesting side takes the call back
	TicketLink   FactKind = "ticket"       // a ticket was attached
	TicketCheck  FactKind = "ticket_check" // a connector has looked at the ticket
	Verification FactKind = "verification" // the accountable person proves who they are
	Question     FactKind = "question"     // a reviewer asks for more information
	Information  FactKind = "information"  // the requesting side gives it
	Comment      FactKind = "comment"
	Claim        FactKind = "claim"   // a reviewer takes it on
	Unclaim      FactKind = "unclaim" // and gives it back
	Extend       FactKind = "extend"
	Escalate     FactKind = "escalate" // nobody can decide, so those of the escalation, or of if_too_few, may at once
	Edit         FactKind = "edit"     // the arguments were changed: a new edition
	Reopen       FactKind = "reopen"   // the rules ask for more than before: a new edition
	BreakGlass   FactKind = "break_glass"
)

// Discharger says who meets a requirement by such a fact; "" for a vote, and for a fact that
// meets none.
func (f Fact) Discharger() engine.Discharger {
	switch f.Kind {
	case Reply:
		return engine.Requester
	case Verification:
		return engine.Accountable
	case TicketCheck:
		return engine.Tracker
	default:
		return ""
	}
}

// FactKindsOf are the kinds of fact that events of a type tell of; nil for types
// that tell of none.
func FactKindsOf(t engine.EventType) []FactKind {
	switch t {
	case engine.Voted:
		return []FactKind{Vote}
	case engine.Answered:
		return []FactKind{Reply}
	case engine.Cancelled:
		return []FactKind{Cancel}
	case engine.Proved:
		return []FactKind{Verification}
	case engine.Ticketed:
		return []FactKind{TicketLink, TicketCheck}
	case engine.Asked:
		return []FactKind{Question, Information}
	case engine.Commented:
		return []FactKind{Comment}
	case engine.Claimed:
		return []FactKind{Claim, Unclaim}
	case engine.Extended:
		return []FactKind{Extend}
	case engine.Escalated:
		return []FactKind{Escalate}
	case engine.Edited:
		return []FactKind{Edit}
	case engine.Reopened:
		return []FactKind{Reopen}
	case engine.Broken:
		return []FactKind{BreakGlass}
	default:
		return nil
	}
}

// Denial says what kind of no a denial is (docs/spec/wire.md).
type Denial string

// The four kinds of denial.
const (
	WrongArgs Denial = "wrong_args" // the right thing, done wrongly: retry with other arguments
	NotNow    Denial = "not_now"    // may be asked again later
	Never     Denial = "never"      // must not be asked again
	NeedsInfo Denial = "needs_info" // say more and ask again
)

// Retryable reports whether the agent may propose the call again.
func (d Denial) Retryable() bool { return d == WrongArgs || d == NotNow || d == NeedsInfo }

// Valid reports whether d is one of the four kinds.
func (d Denial) Valid() bool { return d == Never || d.Retryable() }

// BreakGlassRole is the role whose people may approve in an emergency what they
// have not the role for.
const BreakGlassRole = "break-glass"

// Roles of those who administer and who read everything: they decide only where a rule
// asks for them.
const (
	AdminRole   = "admin"
	AuditorRole = "auditor"
)

// Undelegable reports whether a role stays with whoever has it.
func Undelegable(role string) bool {
	return role == AdminRole || role == AuditorRole || role == BreakGlassRole
}

// FreshFor is how old a proof of who somebody is may be.
const FreshFor = 5 * time.Minute

// Voter is the standing of the person behind a fact, as it is when the facts
// are read, not as it was when the fact came: a vote of somebody who has been
// disabled or has lost the role since is void, and stays so when they have it again.
type Voter struct {
	// Identity is shared by all accounts of one human being.
	Identity string
	Roles    []string
	Active   bool
	// Via is whom the person stands in for, the next one first: the vote is the
	// last one's, by that one's roles, and takes the voice of everybody in it.
	Via []Voter
	// SecondFactor says that whoever acts now has one. It is no part of what is recorded.
	SecondFactor bool
}

// speaker is whose roles count.
func (v Voter) speaker() Voter {
	if len(v.Via) > 0 {
		return v.Via[len(v.Via)-1]
	}
	return v
}

// identities are the identities that speak with the vote.
func (v Voter) identities() []string {
	voices := []string{v.Identity}
	for _, other := range v.Via {
		voices = append(voices, other.Identity)
	}
	return voices
}

// eligible reports whether everybody behind the vote may have a say at all.
func (v Voter) eligible(p Plan) bool {
	for _, one := range append([]Voter{v}, v.Via...) {
		if !one.Active || one.Identity == "" || slices.Contains(p.Excluded, one.Identity) {
			return false
		}
	}
	return true
}

// Proof says how somebody proved who they are, and when.
type Proof struct {
	Method string    `json:"method"` // passkey, totp, password or sso
	At     time.Time `json:"at"`
}

// Fresh reports whether there is a proof, and it was good at a moment.
func (p *Proof) Fresh(at time.Time) bool {
	return p != nil && p.Method != "" && !p.At.After(at.Add(time.Minute)) && at.Sub(p.At) <= FreshFor
}

// Ticket is a ticket that was attached, and what its tracker says of it.
type Ticket struct {
	System  string `json:"system"`
	Ref     string `json:"ref"`
	Title   string `json:"title,omitempty"`
	Project string `json:"project,omitempty"`
	State   string `json:"state,omitempty"`
	URL     string `json:"url,omitempty"`
	// Code says why the ticket does not cover the call; "" when it does.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// Details is what some facts say beside who and when. Nothing in it is an
// argument's value.
type Details struct {
	Proof  *Proof  `json:"proof,omitempty"`
	Ticket *Ticket `json:"ticket,omitempty"`
	// Grant is the standing grant by which a vote was cast.
	Grant string `json:"grant,omitempty"`
	// Constraints and ValidFor tighten what an approving vote permits.
	Constraints json.RawMessage `json:"constraints,omitempty"`
	ValidFor    engine.Duration `json:"valid_for,omitempty"`
	// By is how much more time an extension gives.
	By engine.Duration `json:"by,omitempty"`
	// Alone says that whoever broke the glass takes it upon them alone, and that
	// somebody has to look at it afterwards.
	Alone bool `json:"alone,omitempty"`
	// For is whom a claim is made for, where somebody passes the approval on; "" where
	// the actor claims it.
	For string `json:"for,omitempty"`
	// Widened are the requirements of the plan that Terms.IfTooFew may decide as well.
	Widened []int `json:"widened,omitempty"`
	// Digest is the new one after an edit; Changed names the arguments that it
	// changed. Supplied names what an answer supplied.
	Digest   string   `json:"digest,omitempty"`
	Changed  []string `json:"changed,omitempty"`
	Supplied []string `json:"supplied,omitempty"`
	// Salt makes the digest of the fact's comment, which the log has, one that
	// nobody can guess at. Erasing it with the comment leaves the log as it is.
	Salt string `json:"salt,omitempty"`
	// Signature is set where the contributor's passkey has signed it.
	Signature *Signature `json:"signature,omitempty"`
	// Mac is a nonce, a dot and the keyed hash of Authentic in hex: without the data key
	// nobody can write a fact, nor the same one again.
	Mac string `json:"mac,omitempty"`
}

// Fact is something that people or systems contributed. Seq and At are given
// by the database, under the lock on the approval's row.
type Fact struct {
	Seq  int64
	At   time.Time
	Kind FactKind
	// Edition is the edition of the approval that it is about: with a new one,
	// those of the former count no more.
	Edition int
	// Actor is who contributed; for votes a human.
	Actor engine.Actor
	// Yes is a vote to approve, an answer that confirms, a proof that was good, a
	// ticket that covers the call.
	Yes bool
	// Denial and Comment explain a vote; both may be empty when Yes.
	Denial  Denial
	Comment string
	Details Details
	// Via holds the ids of those whom the actor stands in for, the next one first.
	Via []string
	// Voter is set when a person contributed.
	Voter Voter
	// Regained says that the account of whoever contributed was enabled again since, or given
	// a role: what they lacked meanwhile does not come back to what they said before.
	Regained bool
	// Signed says that Details.Signature was verified by the keys that the log knows. It
	// is not stored, and nothing that is stored sets it.
	Signed bool
}

// Claimant is the id of the person who has the approval by the claim f.
func (f Fact) Claimant() string { return cmp.Or(f.Details.For, f.Actor.ID) }

// PassedOnKey is the key of the notification that tells of the claim f.
func (f Fact) PassedOnKey() string { return "claim/" + strconv.FormatInt(f.Seq, 10) }
