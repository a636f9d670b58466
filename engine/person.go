package engine

import (
	"slices"
	"strings"
	"time"
)

// OnCallPrefix begins the roles that people have only while they are on call:
// "on-call/payments" is that of the schedule "payments".
const OnCallPrefix = "on-call/"

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
	// VerifiedAt and VerifiedBy say when and how ("password", "totp", "passkey", "sso")
	// this person last proved who they are in the session that they come from,
	// and Factors which second factors they have ("totp", "passkey"). They are
	// zero where a person is read without a session.
	VerifiedAt time.Time
	VerifiedBy string
	Factors    []string
	// Provider is the provider of single sign-on by which that session began, or "";
	// ProviderMFA says that more than one factor was given there.
	Provider    string
	ProviderMFA bool
	// PasswordChecked is a digest of the stored hash that this person's password was
	// just compared with; a session starts only while that is still their password.
	PasswordChecked []byte
}

// Has reports whether the person has the role.
func (p Person) Has(role string) bool { return slices.Contains(p.Roles, role) }

// Label is the name with the address, or the address alone where it is the name.
func (p Person) Label() string {
	if p.Name == "" || p.Name == p.Email {
		return p.Email
	}
	return p.Name + " (" + p.Email + ")"
}

// maxAddress is the length of the longest e-mail address, in bytes (RFC 5321).
const maxAddress = 254

// IsAddress reports whether text has the form of one bare e-mail address, without
// a name and without quotes.
func IsAddress(text string) bool {
	local, domain, ok := strings.Cut(text, "@")
	odd := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`<>()[]:;,\"@`, r) }
	plain := func(part string) bool {
		return part != "" && !strings.ContainsFunc(part, odd) && !slices.Contains(strings.Split(part, "."), "")
	}
	return ok && len(text) <= maxAddress && plain(local) && plain(domain)
}
