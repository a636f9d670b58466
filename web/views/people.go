package views

import (
	"slices"
	"strings"
	"time"
)

// People is the page of everybody.
type People struct {
	Frame
	Query string
	// Total is how many there are, Found how many of them fit the query, of which the
	// first are Rows.
	Total, Found int
	Rows         []PersonRow
	// MayChange says that people are administered from here, and not by command alone.
	MayChange bool
}

// PersonRow is a person in a list.
type PersonRow struct {
	ID, URL, Name, Email string
	Roles                []string
	OnCall               []string // the schedules
	LastSignIn           *time.Time
	App                  bool // an authenticator app
	Passkeys             int
	Disabled             bool
	State                Status
}

// Matches reports whether the row is one that a query looks for: each of its words is
// part of the name, the address, a role or the state.
func (r PersonRow) Matches(query string) bool {
	text := strings.ToLower(strings.Join(slices.Concat([]string{r.Name, r.Email, r.State.Word}, r.Roles, r.OnCall), "\n"))
	for _, word := range strings.Fields(strings.ToLower(query)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// factorWords say which second factors there are.
func (r PersonRow) factorWords() string {
	var parts []string
	if r.App {
		parts = append(parts, "app")
	}
	if r.Passkeys > 0 {
		parts = append(parts, Plural(r.Passkeys, "passkey", "passkeys"))
	}
	return strings.Join(parts, ", ")
}

// RoleBox is a role to choose. Means says what it is for.
type RoleBox struct {
	Role, Means string
	On          bool
}

// PersonPage is the page of a person.
type PersonPage struct {
	Frame
	PersonRow
	CreatedAt  time.Time
	DisabledAt *time.Time
	AuditURL   string
	MayChange  bool
	// Own says that it is the reader's own account, or another one of theirs.
	Own bool
	// NewName, Boxes and RoleToCome are what the form says.
	NewName    string
	Boxes      []RoleBox
	RoleToCome string
	// RolesWait says that giving a role takes an approval.
	RolesWait bool
	Mail      MailChoice
	// Proof is what a change has to prove; nil where the last proof is fresh.
	Proof   *VerifyForm
	Failure string
}

// MailChoice is whether links can be sent by mail, and whether this one is to be.
type MailChoice struct{ Offered, Ticked bool }

// NewPerson is the page on which somebody is invited.
type NewPerson struct {
	Frame
	MayChange                       bool
	Email, Name, SameAs, RoleToCome string
	Boxes                           []RoleBox
	Mail                            MailChoice
	Proof                           *VerifyForm
	Failure                         string
}

// PersonLink shows, once, a link by which somebody sets a password; or that it was sent
// to them, where Link is "".
type PersonLink struct {
	Frame
	Name, Email, URL, Link string
	Roles                  []string // that they have
	RolesURL               string   // of the approval by which they get their roles, "" where they have them
	NotSent                bool     // it was to be sent, and could not be
	ExpiresAt              time.Time
}
