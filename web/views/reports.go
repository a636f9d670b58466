package views

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ReportForm chooses what a report is about.
type ReportForm struct {
	// At is a moment, in UTC, for the access report; "" means now.
	At string
	// Since and Until are days; Until is the last one of the period.
	Since, Until string
	Zone         string
	// Query is a part of people's names or addresses, and Role the one role that is asked
	// for, in the access report; "" for all.
	Query, Role string
	// Person is whom the rows of a list are about, by id, or what was written instead; "" for
	// everybody.
	Person string
	// AtLeast is the least amount of a list's rows, "" for none.
	AtLeast string
	// Periods are those that are asked for most, as links.
	Periods []PeriodLink
	// Failure is why there is no report, or "".
	Failure string
	// JSON is where the same is as JSON.
	JSON string
	// Rows is where the same is row by row, with a CSV file.
	Rows string
}

// AccessReport is the page that says who could approve what.
type AccessReport struct {
	Frame
	Form  ReportForm
	Ready bool
	At    time.Time
	Past  bool
	// Sources and Gaps are sentences.
	Sources, Gaps  []string
	Roles, Powers  []RoleAccess
	Silent         []SilentRow
	Grants         []GrantHeld
	Keys           []KeyHeld
	Since, Until   time.Time
	Changes        []ChangeRow
	More           bool
	Short          []string // the roles that too few people have
	WithoutFactors []string // people with a say and no second factor
	CSV            string   // where who has which role is as a file
	Nobody         bool     // nobody is known to have had a say, so nothing is right or wrong
}

// RoleAccess is a role with who asks for it and who has it.
type RoleAccess struct {
	Role, Anchor   string
	Asked          []string
	Needed, People int
	Short          bool
	Holders        []HolderRow
	// All are those whom nobody searched for as well, Found how many are as the search
	// wants them, and AllURL where all of these are, or "".
	All    []HolderRow
	Found  int
	AllURL string
	// Means says what a role of Holdpoint's own lets people do, or "".
	Means string
}

// labels are the ids of what names the table of who has the role: a role may be in both
// sections.
func (r RoleAccess) labels() string {
	section, _, _ := strings.Cut(r.Anchor, "-")
	return section + "s-h " + r.Anchor + "-h"
}

// HolderRow is somebody who has a role.
type HolderRow struct {
	Name, Email, How string
	Since, Until     *time.Time
	Unsure           string
	Factors          []FactorRow
	LastSignIn       *time.Time
}

// FactorRow is a second factor.
type FactorRow struct {
	Words string
	Since *time.Time
}

// SilentRow is somebody with a say who has not signed in for long.
type SilentRow struct {
	Name, Email string
	Roles       []string
	LastSignIn  *time.Time
	CreatedAt   time.Time
}

// GrantHeld is a standing grant in force.
type GrantHeld struct {
	ID, By, Tool, Agent, Used string
	MadeAt, ExpiresAt         time.Time
}

// KeyHeld is an API key that is good.
type KeyHeld struct {
	ID, Kind, Agent, Label, MaxState, Unsure string
	Scopes                                   []string
	CreatedAt                                time.Time
	ExpiresAt, LastUsedAt                    *time.Time
}

// ChangeRow is a change of who may do what.
type ChangeRow struct {
	At                                            time.Time
	Code, Message, By, Channel, About, Detail, ID string
	ApprovalID                                    string
	Refused                                       bool
}

// ReviewerReport is the page that says how much reviewers decide, and how.
type ReviewerReport struct {
	Frame
	Form         ReportForm
	Ready        bool
	Since, Until time.Time
	Zone         string
	Rows         []LoadRow
	Total        LoadRow
	// Forgotten is set when shifts before ShiftsSince are not known any more.
	Forgotten   bool
	ShiftsSince time.Time
	// Thresholds say what is noted, and from when on.
	Thresholds []string
}

// LoadRow is what one reviewer did.
type LoadRow struct {
	Name, Email                         string
	Disabled                            bool
	Decided, Approved, Denied           int
	Share, Median, P95                  string
	Timed, Quick                        int
	Nights, Weekends, Questions         int
	OnCall, Alone, ByGrant, AsDeputy    int
	Busiest                             string
	Notes                               []string
	NotedQuick, NotedYes, NotedOffHours bool
	NotedAlone, NotedBusy               bool
}

// ClaimReport is the page that says whom agents named as their own side.
type ClaimReport struct {
	Frame
	Form         ReportForm
	Ready        bool
	Since, Until time.Time
	Rows         []AgentClaims
	// From and Factor say what is sudden.
	From, Factor int
}

// AgentClaims is what one agent claimed.
type AgentClaims struct {
	Name, ID                         string
	Opened, Claimed, Before, Widened int
	Sudden                           bool
	People                           []ClaimedPerson
}

// ClaimedPerson is somebody whom an agent named, in how many approvals, and in how many
// in the period before.
type ClaimedPerson struct {
	Name          string
	Times, Before int
	Sudden        bool
}

// Elapsed writes how long something took, for a table: "45 s", "12 min 30 s", "3 h 05 min".
func Elapsed(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", max(d, 0).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d/time.Minute), int(d/time.Second)%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d/time.Hour), int(d/time.Minute)%60)
	}
	return fmt.Sprintf("%d days", int(d/(24*time.Hour)))
}

// quickWords says how many of those votes that could be timed were quick.
func quickWords(l LoadRow) string {
	if l.Timed == 0 {
		return "not known"
	}
	return strconv.Itoa(l.Quick) + " of " + strconv.Itoa(l.Timed)
}

// offHoursRule says when it is night or a weekend.
func offHoursRule(zone string) string {
	return "Off hours: nights are 22:00 to 06:00, weekends Saturday and Sunday, in " + zone + "."
}

// offHoursWords says how many votes were cast at night and how many at weekends; one
// can be both.
func offHoursWords(l LoadRow) string {
	switch {
	case l.Nights == 0 && l.Weekends == 0:
		return "0"
	case l.Weekends == 0:
		return Thousands(l.Nights) + " at night"
	case l.Nights == 0:
		return Thousands(l.Weekends) + " at weekends"
	}
	return Thousands(l.Nights) + " at night, " + Thousands(l.Weekends) + " at weekends"
}

func aloneWords(l LoadRow) string {
	if l.OnCall == 0 {
		return "–"
	}
	return strconv.Itoa(l.Alone) + " of " + strconv.Itoa(l.OnCall)
}
