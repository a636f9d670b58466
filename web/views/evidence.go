package views

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"time"
)

//go:embed evidence.css
var packStyle string

// packPolicy is the content policy that a pack carries: it can load nothing and
// run nothing, and has this one style.
var packPolicy = func() string {
	sum := sha256.Sum256([]byte(packStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}()

// Pack is the front of an evidence pack. It is a file of its own: nothing in it
// comes from elsewhere, and no script runs.
type Pack struct {
	Title string
	// Since and Until are the period, zero for the pack of one approval.
	Since, Until time.Time
	Made         time.Time
	// By is who made it, as the audit log names them.
	By string
	// Totals are what a period has.
	Totals []Total
	// Approvals is how many chapters follow.
	Approvals int
}

// Total is a count and what it counts.
type Total struct {
	N    int
	What string
}

// Period reports whether the pack is about more than one approval.
func (p Pack) Period() bool { return !p.Since.IsZero() }

// PackRow is a line of a pack's index.
type PackRow struct {
	Number          int
	ID, Tool, Agent string
	Status          Status
	Execution       string
	Opened          time.Time
	Anchor          string
}

// PackChapter is the story of one approval.
type PackChapter struct {
	PackRow
	Approval
	Ended time.Time
	// Notes are what the reader has to know of the record itself.
	Notes []string
	// Changed are what of the record the log does not bear out.
	Changed []string
	Ask     PackRequester
	Rules   PackRules
	// Requirements are what was asked for, and Could who could have given it.
	Requirements  []PackRequirement
	Notifications []PackNotification
	Shown         []PackShown
	Cards         []PackCard
	Contributions []PackContribution
	Ran           []PackLine
	Log           []PackEvent
}

// PackRequester is who asked.
type PackRequester struct {
	Requests string // the request's own id
	// Side names everybody who counted as the requesting side, and so could not decide.
	Side []string
}

// PackRules names what the call was judged by.
type PackRules struct {
	Digest string
	// Anchor is where in this file they are; "" where the database has them no more.
	Anchor, Policy, Version, Contracts, Environment string
}

// PackRequirement is one requirement of the last edition.
type PackRequirement struct {
	Requirement
	// Could names those who could have given it when this was written, Others counts
	// more of them; Nobody is what to say instead.
	Could  []string
	Others int
	Nobody string
}

// PackNotification is a notification.
type PackNotification struct {
	At            time.Time
	Where, What   string
	Status, Whose string
}

// PackShown is that somebody was shown a card.
type PackShown struct {
	PackPlace
	Who    string
	Digest string
}

// PackCard is a card as it was on a screen.
type PackCard struct {
	Digest string
	// HTML is exactly what was rendered; "" where it is not to be had, for which Why is
	// the reason.
	HTML, Why string
}

// PackPlace is where in the log something is.
type PackPlace struct {
	// Seq is the event's place, 0 for none.
	Seq int64
	At  time.Time
	// Outside says that this file's proof does not have it.
	Outside bool
}

// PackRemark is what somebody wrote; all of it "" for nothing.
type PackRemark struct {
	// Salt and CommentDigest are how Comment can be checked. Erased says that it is
	// gone, and Changed that it is not what the log has the digest of.
	Comment, Salt, CommentDigest string
	Erased, Changed              bool
}

// PackContribution is what somebody contributed.
type PackContribution struct {
	PackPlace
	Who, For, What, Kind string
	// Void says why it counts no more, or "".
	Void   string
	Detail []string
	PackRemark
	// Decides says that a card belongs to it; Card is the one they were shown last.
	Decides bool
	Card    string
}

// PackLine is a moment and what happened.
type PackLine struct {
	At        time.Time
	Who, What string
	PackRemark
}

// PackEvent is an event of the log.
type PackEvent struct {
	PackPlace
	ID, Type, Outcome, Who string
	Reasons                []string
}

// PackDocument is a document by which calls were judged.
type PackDocument struct {
	Anchor, Title, Digest, Note string
	// Changed says that it is not what the digest is of.
	Changed bool
	Code    Code
}

// Document is a text, as people wrote it, as a block of code.
func Document(text string) Code { return lined(text, stringPart) }
