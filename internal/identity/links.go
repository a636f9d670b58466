package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// linkLength is the length of the token of a link by which somebody sets a password:
// 130 random bits.
const linkLength = 26

// linkOver is the one answer for a link that is wrong, used, or too old.
var linkOver = &access.Refusal{Kind: access.NotFound, Code: "link_over", Detail: "This link is not good any more: it was used, or is too old. Ask for another one."}

// FollowLink sets the password of the person whom a link is of, which is used up by
// that, and ends their sessions. It signs nobody in. Refusals are unfit_password (422),
// which leaves the link as it is, link_over (404), and too_many_attempts (429). Known may take the person.
func (s *SignIn) FollowLink(ctx context.Context, token, password, remote string) (engine.Person, error) {
	address := s.failures(s.addresses, network(remote), addressEvery, addressBurst)
	if address.wrong.Tokens() < 1 {
		return engine.Person{}, s.refused(ctx, tooManyAttempts, "")
	}
	if len(token) != linkLength || strings.ContainsFunc(token, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') }) {
		address.wrong.Allow()
		return engine.Person{}, s.refused(ctx, linkOver, "")
	}
	hash, err := s.factors.newPassword(func() (func(), error) { return s.turn(ctx, "") }, password, func() error {
		// With the slot in hand, and before the hash: attempts that queued together, or
		// that wait for the database, do not all pass.
		if !address.wrong.Allow() {
			return s.refused(ctx, tooManyAttempts, "")
		}
		return nil
	})
	if err != nil {
		return engine.Person{}, err
	}
	p, err := s.store.People.FollowLink(ctx, token, hash, func(personID string) engine.Event {
		return administered(engine.Person{ID: personID}, "PASSWORD_SET", "A person has set a password by their link.", map[string]any{"person": personID, "subject": personID})
	})
	if errors.Is(err, store.ErrNotFound) {
		return engine.Person{}, s.refused(ctx, linkOver, "")
	}
	p.PasswordChecked = store.PasswordDigest(hash)
	return p, err
}

// newPassword hashes a password that somebody wants, if may agrees once it is their
// turn. The refusal is unfit_password, or may's.
func (f *Factors) newPassword(turn func() (give func(), err error), password string, may func() error) (string, error) {
	if len(password) < minPassword || len(password) > maxPassword {
		return "", &access.Refusal{Kind: access.Invalid, Code: "unfit_password", Detail: fmt.Sprintf("A password has %d to %d bytes.", minPassword, maxPassword)}
	}
	give, err := turn()
	if err != nil {
		return "", err
	}
	defer give()
	if err := may(); err != nil {
		return "", err
	}
	return HashPassword(password)
}

// MayChangePasswords reports whether people can change their own password here.
func (f *Factors) MayChangePasswords() bool { return f.store.People.AdministersPeople() }

// ChangePassword sets another password of a person who knows the former one, and ends
// all of their sessions. It returns the person as who starts another one. Refusals are by_command (422) where nobody can,
// verification_failed (403), unfit_password (422) and too_many_attempts (429).
func (f *Factors) ChangePassword(ctx context.Context, p engine.Person, former, password string) (engine.Person, error) {
	if !f.MayChangePasswords() {
		return p, &access.Refusal{Kind: access.Invalid, Code: "by_command", Detail: "Passwords are changed by a link here: ask an administrator for one."}
	}
	checked, right, err := f.checkPassword(ctx, p, former)
	if err != nil {
		return p, err
	}
	if !right {
		return p, access.Refuse(ctx, f.store, verificationFailed, engine.Event{
			ID: uuid.NewString(), Type: engine.SignIn, SafePayload: []byte(`{}`), Actor: engine.Actor{Kind: engine.HumanActor, ID: p.ID, Channel: "console"},
		})
	}
	hash, err := f.newPassword(func() (func(), error) { return f.slots.Take(ctx, p.ID, 1) }, password, func() error { return nil })
	if err != nil {
		return p, err
	}
	_, err = f.store.People.Change(ctx, p.ID, p.ID, access.AdminRole, nil, func(now store.LockedAccount) (store.AccountEdit, engine.Event, error) {
		if now.Disabled || !now.HasHash(checked) {
			return store.AccountEdit{}, engine.Event{}, verificationFailed // since it was checked
		}
		return store.AccountEdit{PasswordHash: hash, SignOut: true},
			administered(p, "PASSWORD_CHANGED", "A person has changed their password.", map[string]any{"person": p.ID, "subject": p.ID}), nil
	})
	if err == nil {
		p.VerifiedBy, p.PasswordChecked = Password, store.PasswordDigest(hash)
	}
	return p, err
}
