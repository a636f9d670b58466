package views

import "time"

// Erasures is the page that says what was erased, what is held and what is due.
type Erasures struct {
	Frame
	// MayHold says that the person may place and release holds.
	MayHold bool
	// Keeps says how long approvals are kept, and Minimum how long they cannot be
	// erased by anybody.
	Keeps, Minimum string
	Rows           []ErasureRow
	// Next is the cursor of the page after this one, or "".
	Next  string
	First bool
	Holds []HoldRow
	Form  HoldForm
	Due   []DueRow
}

// ErasureRow is something that was erased.
type ErasureRow struct {
	ID      string
	Subject string // its id
	What    string
	URL     string // of what is left, or ""
	Parts   []string
	Rule    string // "asked for", "older than" and how long
	Reason  string
	By      string
	At      time.Time
}

// HoldRow is a legal hold.
type HoldRow struct {
	ID, Covers, Subject string
	What                string
	Reason, By          string
	At                  time.Time
	ReleasedAt          *time.Time
	ReleasedBy          string
	State               Status
	URL                 string // that releases it
}

// HoldForm places a hold; what was entered is kept.
type HoldForm struct {
	Covers, Subject, Reason string
	Failure                 string
}

// DueRow is an ended approval that has not been erased.
type DueRow struct {
	ID, URL, Tool, Agent string
	EndedAt              time.Time
	// At is when it is erased by age; zero for never.
	At time.Time
	// NotErasable says what keeps it even then, or "".
	NotErasable string
}

func holdKinds() []Option {
	return []Option{{"approval", "One approval, by id"}, {"agent", "An agent, by id"}, {"person", "A person, by e-mail address"}, {"everything", "Everything"}}
}
