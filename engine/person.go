package engine

import "slices"

// Person is somebody who signs in to the console.
type Person struct {
	ID    string // "usr_…"
	Email string
	Name  string
	// Identity is shared by all accounts of one human being; separation of
	// duties and quorum count identities, not accounts.
	Identity string
	Roles    []string
	Disabled bool
}

// Has reports whether the person has the role.
func (p Person) Has(role string) bool { return slices.Contains(p.Roles, role) }
