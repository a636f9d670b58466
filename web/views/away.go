package views

import "time"

// Away is the page on which people say who decides while they are away.
type Away struct {
	Frame
	// Mine are those by which others decide for the person, For those by which the
	// person decides for others. All is everybody's, for administrators.
	Mine, For, All []AwayRow
	Form           AwayForm
}

// AwayRow is a delegation in one row.
type AwayRow struct {
	ID string
	// Person is who is away, and Deputy who decides.
	Person, PersonEmail, Deputy, DeputyEmail string
	From, Until                              time.Time
	Active                                   bool
	Reason                                   string
	// Idle says why it gives nobody a say at the moment, or "".
	Idle string
}

// Is is where the delegation stands.
func (r AwayRow) Is() Status {
	switch {
	case r.Idle != "":
		return Status{Code: "stopped", Word: "Without effect"}
	case r.Active:
		return Status{Code: "active", Word: "In force"}
	}
	return Status{Code: "pending", Word: "To come"}
}

// Revoking names the button that revokes it.
func (r AwayRow) Revoking() string { return "Revoke: " + r.Deputy + " for " + r.Person }

// AwayForm is the form that makes a deputy of somebody.
type AwayForm struct {
	// People are the choices of a deputy, and Persons those of who is away: empty
	// for those who speak for themselves only.
	People, Persons, Zones                             []Option
	Person, Deputy, From, Until, Zone, Reason, Failure string
}
