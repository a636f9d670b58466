package approval

import (
	"encoding/json"
	"time"

	"holdpoint/engine"
)

// Status is where an approval stands (docs/spec/wire.md).
type Status string

// The five states; all but Pending are terminal.
const (
	Pending   Status = "pending"
	Approved  Status = "approved"
	Denied    Status = "denied"
	Expired   Status = "expired"
	Cancelled Status = "cancelled"
)

// Terminal reports whether nothing can change the status any more.
func (s Status) Terminal() bool { return s != Pending }

// Outcome is the audit outcome of an approval that ended so.
func (s Status) Outcome() engine.Outcome {
	switch s {
	case Approved:
		return engine.Approved
	case Expired:
		return engine.Timeout
	case Denied, Cancelled, Pending:
	}
	return engine.Rejected
}

// RequirementStatus is the status of one requirement.
type RequirementStatus string

// A requirement is queued until its turn, then waiting, then satisfied; when the
// approval ends without it, it is closed.
const (
	Queued    RequirementStatus = "queued"
	Waiting   RequirementStatus = "waiting"
	Satisfied RequirementStatus = "satisfied"
	Closed    RequirementStatus = "closed"
)

// Progress is a requirement and how far it has come. ExpiresAt of a queued one
// is the latest moment that it can have.
type Progress struct {
	Kind   engine.Kind       `json:"kind" doc:"What has to happen."`
	Role   string            `json:"role,omitempty" doc:"Whose people may do it."`
	Needed int               `json:"needed" doc:"How many distinct people it takes."`
	Given  int               `json:"given" doc:"How many have agreed so far."`
	Status RequirementStatus `json:"status" enum:"queued,waiting,satisfied,closed"`
	Signed bool              `json:"signed,omitempty" doc:"Only votes count that the voter's own passkey has signed."`
	// AnyOf lists the groups of which one is enough; needed and given are those of
	// the one that has come furthest.
	AnyOf []engine.Group `json:"any_of,omitempty" doc:"Groups of which one is enough; needed and given are those of the one that has come furthest."`
	// Denied and DenyNeeded count the noes where it takes more than one.
	Denied     int `json:"denied,omitempty" doc:"How many have said no so far, where it takes more than one."`
	DenyNeeded int `json:"deny_needed,omitempty" doc:"How many have to say no to deny it; left out where the first no does."`
	// Form is the JSON Schema of what has to be supplied with the answer.
	Form json.RawMessage `json:"form,omitempty" doc:"The JSON Schema of the values that the answer has to come with."`
	// Escalated names the roles that may decide as well by now.
	Escalated []string  `json:"escalated_to,omitempty" doc:"Whose people may do it as well, because it has waited so long."`
	ExpiresAt time.Time `json:"expires_at" doc:"When this requirement's time is up."`
}

// State is what Advance returns.
type State struct {
	Status Status
	// At is when the status was reached: the time of the deciding fact, or the
	// deadline itself. Zero while pending.
	At time.Time
	// Stage is the index of the first requirement that is waiting, or that was
	// when the approval ended.
	Stage int
	// Deadline is when the first of the waiting requirements' times is up; Wake is
	// the next moment at which anything changes by itself: the deadline, or before
	// it an escalation, a reminder, or the end of a pause or claim. Both are zero
	// once it is over.
	Deadline, Wake time.Time
	// ExpiresAt is the overall deadline with all extensions and pauses.
	ExpiresAt time.Time
	// Requirements has one entry for each of the plan's.
	Requirements []Progress
	// Decisive is the fact that ended the approval; nil for a deadline.
	Decisive *Fact
	// Question is the open one, for whose answer the clock may stand still until
	// PausedUntil; nil when none is.
	Question    *Fact
	PausedUntil time.Time
	// Claim says who has taken it on; nil when nobody has.
	Claim *Fact
	// Ticket is the last one that was attached in this edition, with what was
	// found of it in Checked; nil while none was, or has not been looked at.
	Ticket, Checked *Fact
	// Broken says that it was approved by breaking the glass, and Owed that
	// somebody else has to look at that afterwards.
	Broken, Owed bool
	// Counted are the approving votes that nobody took back, and those that broke
	// the glass.
	Counted []Fact
	// Due are the notifications that have come up by now.
	Due []Notification
}
