package views

import (
	"strconv"
	"strings"
	"time"
)

// Account is the page of the signed-in person.
type Account struct {
	Frame
	Email    string
	Roles    []string
	Verified string // how, in words; "" when it is not known
	At       time.Time
	// Factors says that second factors can be had here.
	Factors  bool
	Passkeys []Passkey
	// PasskeysAt is where passkeys work, when they do not at this page's address;
	// NoPasskeys says that they work nowhere.
	PasskeysAt string
	NoPasskeys bool
	TOTP       bool
	// Needed is a role of the person that needs a second factor, of whom they have none.
	Needed string
	// Password says that the person can change their password here; PasswordFailure is
	// what to say about the last attempt, or "".
	Password        bool
	PasswordFailure string
	// Failure is what to say about the last attempt to add a passkey, or "".
	Failure  string
	Browsers Browsers
	Slack    InSlack
}

// InSlack is a person's account in Slack, in which they can decide.
type InSlack struct {
	// There says that there is something to say of it, and On that calls can be decided
	// in Slack.
	There, On bool
	// Team and User are the account, "" for none.
	Team, User string
	LinkedAt   time.Time
	// Code links one, and is shown this once; "" for none. Failure is what to say about
	// the last attempt, or "".
	Code, Failure string
}

// Browsers are those that a person has notified.
type Browsers struct {
	// There says that browsers can be notified at all; Key is what they subscribe to, ""
	// while no administrator has switched that on.
	There bool
	Key   string
	List  []Browser
	// Here says that this browser is among them. Suggested is what to call it.
	Here      bool
	Suggested string
	Failure   string
}

// Browser is one that is notified.
type Browser struct {
	ID, Name      string
	Details, Here bool
	CreatedAt     time.Time
	UsedAt        *time.Time
}

// Passkey is one of a person's passkeys.
type Passkey struct {
	ID, Name  string
	Synced    bool
	CreatedAt time.Time
	UsedAt    *time.Time
}

// Enrolment is the page that shows a new authenticator's secret.
type Enrolment struct {
	Frame
	// Secret and QR are empty where only the code is asked for again.
	Secret  string
	QR      QR
	Failure string
}

// QR is a QR code: as many modules wide and high as Size, margin included, and
// the path of an SVG that fills the dark ones.
type QR struct {
	Size int
	Path string
}

// NewQR draws rows of modules, of which true is dark.
func NewQR(rows [][]bool) QR {
	var path strings.Builder
	for y, row := range rows {
		for x := 0; x < len(row); x++ {
			from := x
			for x < len(row) && row[x] {
				x++
			}
			if n := strconv.Itoa(x - from); x > from {
				path.WriteString("M" + strconv.Itoa(from+qrMargin) + " " + strconv.Itoa(y+qrMargin) + "h" + n + "v1h-" + n + "z")
			}
		}
	}
	return QR{Size: len(rows) + 2*qrMargin, Path: path.String()}
}

func (q QR) box() string { return "0 0 " + strconv.Itoa(q.Size) + " " + strconv.Itoa(q.Size) }

// grouped writes a secret as people copy it: in groups of four.
func grouped(secret string) string {
	var groups []string
	for len(secret) > 4 {
		groups, secret = append(groups, secret[:4]), secret[4:]
	}
	return strings.Join(append(groups, secret), " ")
}
