package views

import "time"

// Delegations is the page on which people say who decides while they are away.
type Delegations struct {
	Frame
	// Mine are those by which others decide for the person, For those by which the
	// person decides for others. All is everybody's, for administrators.
	Mine, For, All []DelegationRow
	Form           DelegationForm
}

// DelegationRow is a delegation in one row.
type DelegationRow struct {
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
func (r DelegationRow) Is() Status {
	switch {
	case r.Idle != "":
		return Status{Code: "stopped", Word: "Without effect"}
	case r.Active:
		return Status{Code: "active", Word: "In force"}
	}
	return Status{Code: "pending", Word: "To come"}
}

// Revoking names the button that revokes it.
func (r DelegationRow) Revoking() string { return "Revoke: " + r.Deputy + " for " + r.Person }

// DelegationForm is the form that makes a deputy of somebody.
type DelegationForm struct {
	// People are the choices of a deputy, and Persons those of who is away: empty
	// for those who speak for themselves only. DeputyEmail names a deputy who is no
	// choice.
	People, Persons, Zones                                          []Option
	Person, Deputy, DeputyEmail, From, Until, Zone, Reason, Failure string
	// Proof asks who makes it; nil for whoever has proved that lately.
	Proof *VerifyForm
}

// deputies are the choices of a deputy. Nobody is chosen beforehand.
func (f DelegationForm) deputies() []Option {
	return append([]Option{{Label: "choose"}}, f.People...)
}
