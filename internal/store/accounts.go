package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdpoint/engine"
)

// LockedAccount is an account as it is while nobody else changes one. Roles are the
// account's own, without those of being on call.
type LockedAccount struct {
	engine.Person
	// HasPassword says that a password signs in; an account that waits for its link to
	// be followed has none.
	HasPassword bool
	// Linked says that a provider of single sign-on opens it.
	Linked bool
	// OtherAdministrators is how many other enabled accounts, which a password or a
	// provider signs in, have the role that administers.
	OtherAdministrators int
	// ByAdministers says that whoever makes the change is an enabled account with that
	// role. It is false for whoever is no person.
	ByAdministers bool
	// ByIdentity is the identity of whoever makes it, "" for whoever is no person.
	ByIdentity string

	passwordHash string
}

// HasHash reports whether the account's password has that hash.
func (s LockedAccount) HasHash(hash string) bool { return s.passwordHash == hash }

// AccountEdit is what becomes of an account. What is zero stays as it is.
type AccountEdit struct {
	Name     string
	SetRoles bool
	Roles    []string // with SetRoles
	Disable  bool
	Enable   bool
	// PasswordHash replaces the password's.
	PasswordHash string
	// Unlink has no provider of single sign-on open the account any more. Only the role
	// that owns the database may.
	Unlink bool
	// SignOut ends all sessions, and where notifications go that were asked for in them.
	SignOut bool
	// LinkHash is that of a link by which the person sets a password, once, within
	// LinkLasts; it takes the place of an earlier one.
	LinkHash  []byte
	LinkLasts time.Duration
	// Opens is the approval that the roles wait for; nil for none.
	Opens *Submission
}

// writesPeople is where accounts are written: as the role that may, where there is
// a login for it, or as the owner.
func (s *db) writesPeople() *pgxpool.Pool { return cmp.Or(s.people, s.reserve) }

// Change changes an account as decide says, which is given it as it is under the
// lock that every change of an account holds, and returns what to do and the event
// that tells of it. by is who makes the change, adminRole the role that administers.
// ErrNotFound: there is no such account, or it is erased.
func (s People) Change(ctx context.Context, id, by, adminRole string, once *Idempotency[LockedAccount], decide func(LockedAccount) (AccountEdit, engine.Event, error)) (LockedAccount, error) {
	return administerOn(ctx, s.db, s.writesPeople(), once, func(ctx context.Context, tx pgx.Tx) (LockedAccount, engine.Event, error) {
		now, err := standing(ctx, tx, id, by, adminRole)
		if err != nil {
			return now, engine.Event{}, err
		}
		edit, e, err := decide(now)
		if err != nil {
			return now, e, err
		}
		if err := edit.run(ctx, tx, id); err != nil {
			return now, e, err
		}
		return edit.of(now), e, s.submitIn(ctx, tx, edit.Opens)
	})
}

// Invite stores a person who sets a password by a link, as Change sets it.
// ErrConflict: the e-mail is taken.
func (s People) Invite(ctx context.Context, p engine.Person, by, adminRole, passwordHash string, link AccountEdit, once *Idempotency[LockedAccount], decide func(LockedAccount) (engine.Event, error)) (LockedAccount, error) {
	return administerOn(ctx, s.db, s.writesPeople(), once, func(ctx context.Context, tx pgx.Tx) (LockedAccount, engine.Event, error) {
		if err := lockPeople(ctx, tx); err != nil {
			return LockedAccount{}, engine.Event{}, err
		}
		now := LockedAccount{Person: p}
		if err := whoChanges(ctx, tx, &now, by, adminRole); err != nil {
			return now, engine.Event{}, err
		}
		e, err := decide(now)
		if err != nil {
			return now, e, err
		}
		_, err = tx.Exec(ctx, `INSERT INTO people (id, email, name, identity, password_hash, roles) VALUES ($1, $2, $3, $4, $5, $6)`,
			p.ID, p.Email, p.Name, p.Identity, passwordHash, slices.Clone(p.Roles))
		if err != nil {
			return now, e, translate(err)
		}
		if err := link.run(ctx, tx, p.ID); err != nil {
			return now, e, err
		}
		return now, e, s.submitIn(ctx, tx, link.Opens)
	})
}

// lockPeople has changes of accounts made one after the other: of two
// administrators who disable each other, one stays.
func lockPeople(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('people', 0))`)
	return translate(err)
}

// administers is the condition that an account o is that of an administrator who can sign
// in: $2 is the role that administers, $3 NoPassword.
const administers = `o.disabled_at IS NULL AND $2 = ANY (o.roles) AND ` + signsIn

// signsIn is the condition that whoever has an account o can sign in, once it is enabled.
const signsIn = `(o.password_hash <> $3 OR EXISTS (SELECT FROM sso_identities i WHERE i.person_id = o.id))`

func standing(ctx context.Context, tx pgx.Tx, id, by, adminRole string) (LockedAccount, error) {
	if err := lockPeople(ctx, tx); err != nil {
		return LockedAccount{}, err
	}
	var now LockedAccount
	err := tx.QueryRow(ctx, `SELECT id, email, name, identity, roles, disabled_at IS NOT NULL, password_hash, EXISTS (SELECT FROM sso_identities i WHERE i.person_id = p.id),
			(SELECT count(*) FROM people o WHERE o.id <> p.id AND `+administers+`)
		FROM people p WHERE id = $1 AND erased_at IS NULL FOR NO KEY UPDATE`, id, adminRole, NoPassword).
		Scan(&now.ID, &now.Email, &now.Name, &now.Identity, &now.Roles, &now.Disabled, &now.passwordHash, &now.Linked, &now.OtherAdministrators)
	if err != nil {
		return now, translate(err)
	}
	now.HasPassword = now.passwordHash != NoPassword
	return now, whoChanges(ctx, tx, &now, by, adminRole)
}

func whoChanges(ctx context.Context, tx pgx.Tx, now *LockedAccount, by, adminRole string) error {
	err := tx.QueryRow(ctx, `SELECT identity, disabled_at IS NULL AND $2 = ANY (roles) FROM people WHERE id = $1`, by, adminRole).Scan(&now.ByIdentity, &now.ByAdministers)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return translate(err)
}

// NoPassword is a hash that no password has: comparing with it takes as long as
// comparing with a real one, so that the time does not show an unknown account.
// An erased account and one that waits for its link have it.
const NoPassword = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" // #nosec G101 -- no password

// of is the account after the edit.
func (e AccountEdit) of(was LockedAccount) LockedAccount {
	was.Name = cmp.Or(e.Name, was.Name)
	if e.SetRoles {
		was.Roles = e.Roles
	}
	was.Disabled = (was.Disabled || e.Disable) && !e.Enable
	if e.PasswordHash != "" {
		was.HasPassword = e.PasswordHash != NoPassword
	}
	return was
}

func (e AccountEdit) run(ctx context.Context, tx pgx.Tx, id string) error {
	rows := &pgx.Batch{}
	if e.Name != "" {
		rows.Queue(`UPDATE people SET name = $2 WHERE id = $1`, id, e.Name)
	}
	if e.SetRoles {
		rows.Queue(`UPDATE people SET roles = $2 WHERE id = $1`, id, append([]string{}, e.Roles...))
	}
	if e.Disable {
		rows.Queue(`UPDATE people SET disabled_at = clock_timestamp() WHERE id = $1 AND disabled_at IS NULL`, id)
	}
	if e.Enable {
		rows.Queue(`UPDATE people SET disabled_at = NULL WHERE id = $1`, id)
	}
	if e.PasswordHash != "" {
		rows.Queue(`UPDATE people SET password_hash = $2 WHERE id = $1`, id, e.PasswordHash)
	}
	if e.Unlink {
		rows.Queue(`DELETE FROM sso_identities WHERE person_id = $1`, id)
	}
	if e.SignOut {
		for _, table := range []string{"sessions", "challenges", "push_subscriptions", "slack_links", "slack_codes"} {
			rows.Queue(`DELETE FROM `+table+` WHERE person_id = $1`, id)
		}
	}
	if e.PasswordHash != "" || e.LinkHash != nil {
		rows.Queue(`DELETE FROM password_links WHERE person_id = $1`, id)
	}
	if e.LinkHash != nil {
		rows.Queue(`INSERT INTO password_links (person_id, token_hash, expires_at) VALUES ($1, $2, now() + make_interval(secs => $3))`, id, e.LinkHash, e.LinkLasts.Seconds())
	}
	return translate(tx.SendBatch(ctx, rows).Close())
}

// FollowLink sets the password of the person whom a link is of, ends their sessions,
// and appends the event that tells of it. The link is used up. ErrNotFound: there is
// no such link, or it is over, or its person is disabled.
func (s People) FollowLink(ctx context.Context, token, passwordHash string, event func(personID string) engine.Event) (engine.Person, error) {
	// Everybody may ask for it, and it waits for a lock: not on the connections that are
	// kept for kill switches.
	return administerOn(ctx, s.db, s.pool, nil, func(ctx context.Context, tx pgx.Tx) (engine.Person, engine.Event, error) {
		var p engine.Person
		if err := tx.QueryRow(ctx, `SELECT id, email FROM follow_link($1, $2)`, token, passwordHash).Scan(&p.ID, &p.Email); err != nil {
			return p, engine.Event{}, translate(err)
		}
		return p, event(p.ID), nil
	})
}

// AdministersPeople reports whether the store has a login that may write accounts,
// beside the one that everything else is done as.
func (s People) AdministersPeople() bool { return s.people != nil }
