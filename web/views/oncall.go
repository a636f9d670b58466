package views

import "time"

// OnCall is the page of who is on call.
type OnCall struct {
	Frame
	Rows      []ShiftRow
	Schedules []string
	Zones     []Option
	// What the form says.
	Schedule, People, From, Until, Zone string
	// Proof is what a change has to prove; nil where the last proof is fresh.
	Proof   *VerifyForm
	Failure string
}

// ShiftRow is somebody's turn on a schedule.
type ShiftRow struct {
	Schedule, Name, Email string
	From, Until           time.Time
	State                 Status
}
