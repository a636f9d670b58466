package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/identity"
	"holdpoint/internal/store"
)

// NewPerson is an account to add.
type NewPerson struct {
	Email    string
	Name     string // "" means the address
	Roles    []string
	Password string
	// SameAs is the address of another account of the same human being, or "": both
	// have one voice.
	SameAs string
}

// Add adds somebody who signs in to the console, with a password. waits is the approval by
// which they get their roles, "" where they have them.
func (p People) Add(ctx context.Context, by access.Initiator, n NewPerson) (added engine.Person, waits string, err error) {
	known, err := p.known(ctx, true)
	if err != nil {
		return added, "", err
	}
	added, event, err := p.adding(ctx, by, n)
	if err == nil {
		err = rolesFit(added.Roles, known)
	}
	if err != nil {
		return added, "", err
	}
	hash, err := identity.HashPassword(n.Password)
	if err != nil {
		return added, "", err
	}
	added, event, roles, err := p.rolesLater(ctx, by, added, event)
	if err != nil {
		return added, "", err
	}
	err = p.withoutRoles(ctx, by, added, roles, func(approvalID string, opens *store.Submission) error {
		waits = approvalID
		_, err := p.Store.People.Invite(ctx, added, by.Actor.ID, access.AdminRole, hash, store.AccountEdit{Opens: opens}, nil, func(store.LockedAccount) (engine.Event, error) { return event, nil })
		if errors.Is(err, store.ErrConflict) {
			err = emailTaken(added.Email)
		}
		return err
	})
	return added, waits, err
}

// adding is the account to add, and the event that tells of it.
func (p People) adding(ctx context.Context, by access.Initiator, n NewPerson) (engine.Person, engine.Event, error) {
	added := engine.Person{ID: store.NewID("usr"), Email: strings.ToLower(strings.TrimSpace(n.Email)), Name: strings.TrimSpace(n.Name), Roles: append([]string{}, n.Roles...)}
	added.Name = cmp.Or(added.Name, added.Email)
	if err := emailFits(added.Email, n.Email); err != nil {
		return added, engine.Event{}, err
	}
	if err := nameFits(added.Name); err != nil {
		return added, engine.Event{}, err
	}
	added.Identity = added.ID
	if n.SameAs != "" {
		other, err := p.Find(ctx, n.SameAs)
		if errors.Is(err, store.ErrNotFound) {
			return added, engine.Event{}, &access.Refusal{Kind: access.Invalid, Code: "unknown_people", Detail: "there is nobody with the address " + n.SameAs}
		}
		if err != nil {
			return added, engine.Event{}, err
		}
		added.Identity = other.Identity
	}
	roles := roleChange(added.ID, nil, added.Roles)
	roles["identity"] = added.Identity // whoever verifies the log compares it with who stands behind votes
	return added, changed(by, "USER_ADDED", "A person was added.", added.ID, roles), nil
}

// emailFits refuses an address that nobody can have; written is how it was written.
func emailFits(email, written string) error {
	if !access.ValidEmail(email) || len(email) > maxEmail || !utf8.ValidString(email) || strings.ContainsFunc(email, unseen) {
		return &access.Refusal{Kind: access.Invalid, Code: "unfit_email", Detail: fmt.Sprintf("%.300q is no e-mail address", written)}
	}
	return nil
}

// Check says what is wrong with what an account is to be. known are the roles that may
// be given, nil for any.
func (n NewPerson) Check(known []string) []error {
	return slices.DeleteFunc([]error{emailFits(n.Email, n.Email), nameFits(n.Name), rolesFit(n.Roles, knownRoles{known, known == nil})}, func(err error) bool { return err == nil })
}

// unseen reports whether a character does not show: two addresses that differ by it
// look the same.
func unseen(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

func emailTaken(email string) error {
	return &access.Refusal{Kind: access.Conflict, Code: "email_taken", Detail: "there is somebody with the address " + email + " already"}
}

// Find returns the account with an e-mail address, disabled or not.
func (p People) Find(ctx context.Context, email string) (engine.Person, error) {
	found, _, err := p.Store.People.ByEmail(ctx, strings.ToLower(email))
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("there is nobody with the address %s: %w", email, err)
	}
	return found, err
}

// ResetFactors removes somebody's second factors and says how many there were.
func (p People) ResetFactors(ctx context.Context, by access.Initiator, email string) (removed int64, err error) {
	email = strings.ToLower(email)
	found, _, err := p.Store.People.ByEmail(ctx, email)
	if err == nil {
		removed, err = p.Store.Factors.Reset(ctx, email, changed(by, "FACTORS_RESET", "A person's second factors were removed.", found.ID, map[string]any{"person": found.ID}))
	}
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("there is no account with the address %s", email)
	}
	return removed, err
}

// RestoreTOTP enrols an authenticator app whose secret is known, unless the person
// has one.
func (p People) RestoreTOTP(ctx context.Context, by access.Initiator, personID, secret string) error {
	app, err := p.Store.Factors.TOTP(ctx, personID)
	if err == nil && app.Confirmed || err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return identity.RestoreTOTP(ctx, p.Store, personID, secret, changed(by, "FACTOR_ADDED", "An authenticator app was enrolled.", personID, map[string]any{"factor": "totp"}))
}

// roleChange says whose roles changed, and how: the account's own, without those
// of being on call.
func roleChange(personID string, before, after []string) map[string]any {
	own := func(roles []string) []string {
		return slices.DeleteFunc(append([]string{}, roles...), func(role string) bool { return strings.HasPrefix(role, engine.OnCallPrefix) })
	}
	return map[string]any{"person": personID, "roles_before": own(before), "roles_after": own(after)}
}

// changed is the event of a change to an account or a key, which its payload names
// as the subject. more says what there was before and after, for the reports.
func changed(by access.Initiator, code, message, subject string, more map[string]any) engine.Event {
	payload := map[string]any{"subject": subject}
	maps.Copy(payload, more)
	e := by.Event(code, message, "", "")
	_ = e.SetPayload(payload) // texts and times always encode
	return e
}
