package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// SSOArrival is somebody who comes in by single sign-on: what a provider calls them, and
// the external id of its directory and the address that may find their account ("" for
// none).
type SSOArrival struct{ Issuer, Subject, ExternalID, Email string }

// SSOAccount is the account of an arrival; its id is empty where there is none.
type SSOAccount struct {
	LockedAccount
	// Linked says that it is linked to the arrival, and Named that the directory has
	// told of it by the external id. Else it has the address.
	Linked, Named bool
	// Groups are those that the directory tells of, none for whoever it does not have.
	Groups []string
}

// SSOAdmission is what becomes of an arrival.
type SSOAdmission struct {
	// Add is the account to add, nil for none; Link links the one that was found.
	Add  *engine.Person
	Link bool
	Edit AccountEdit
	// Events tell of what changes; there are none where nothing does.
	Events []engine.Event
}

// Arrive changes the account of somebody who comes in by single sign-on as decide says.
// It is given, under the lock of every change of an account, the account that is linked
// to the arrival, or else the one that the directory names so, or else the one that has
// its address, or else nobody. The person who is returned has the digest of the password
// of this moment. ErrConflict: the address is taken, or the account is linked to somebody else of the same provider.
func (s People) Arrive(ctx context.Context, a SSOArrival, adminRole string, decide func(SSOAccount) (SSOAdmission, error)) (engine.Person, error) {
	var in LockedAccount
	err := s.inTxOn(ctx, s.writesPeople(), func(ctx context.Context, tx pgx.Tx) error {
		if err := lockPeople(ctx, tx); err != nil {
			return err
		}
		account, err := a.find(ctx, tx, adminRole)
		if err != nil {
			return err
		}
		admit, err := decide(account)
		if err != nil {
			return err
		}
		found := account.LockedAccount
		if p := admit.Add; p != nil {
			found = LockedAccount{Person: *p, passwordHash: NoPassword}
			// Its roles come when it is linked: groups give none to anybody else.
			if _, err := tx.Exec(ctx, `INSERT INTO people (id, email, name, identity, password_hash, roles) VALUES ($1, $2, $3, $4, $5, '{}')`,
				p.ID, p.Email, p.Name, p.Identity, NoPassword); err != nil {
				return translate(err)
			}
			admit.Edit.SetRoles, admit.Edit.Roles = true, p.Roles
		}
		if admit.Add != nil || admit.Link {
			if _, err := tx.Exec(ctx, `INSERT INTO sso_identities (issuer, subject, person_id) VALUES ($1, $2, $3)`, a.Issuer, a.Subject, found.ID); err != nil {
				return translate(err)
			}
		}
		in = admit.Edit.of(found)
		if err := admit.Edit.run(ctx, tx, found.ID); err != nil || len(admit.Events) == 0 {
			return err
		}
		rows := &pgx.Batch{}
		queueEvents(rows, admit.Events, nil)
		return translate(tx.SendBatch(ctx, rows).Close())
	})
	in.PasswordChecked = PasswordDigest(in.passwordHash)
	return in.Person, err
}

// find returns the account of an arrival, with an empty id for none.
func (a SSOArrival) find(ctx context.Context, tx pgx.Tx, adminRole string) (found SSOAccount, err error) {
	var id, by string
	err = tx.QueryRow(ctx, `SELECT person_id, '1 linked' FROM sso_identities WHERE issuer = $1 AND subject = $2
		UNION ALL SELECT person_id, '2 named' FROM directory_users WHERE external_id = $3 AND $3 <> ''
		UNION ALL SELECT id, '3 address' FROM people WHERE email = $4 AND $4 <> '' AND erased_at IS NULL
		ORDER BY 2 LIMIT 1`, a.Issuer, a.Subject, a.ExternalID, a.Email).Scan(&id, &by)
	if errors.Is(err, pgx.ErrNoRows) {
		return found, nil
	}
	if err != nil {
		return found, translate(err)
	}
	found.Linked, found.Named = by == "1 linked", by == "2 named"
	if found.LockedAccount, err = standing(ctx, tx, id, "", adminRole); err != nil {
		return found, err
	}
	groups, err := groupsOf(ctx, tx, []string{id})
	found.Groups = groups[id]
	return found, err
}

// Returned notes that a sign-in has come back from its provider. ErrConflict: it has
// already. Those that are over are forgotten.
func (s Sessions) Returned(ctx context.Context, stateHash []byte, until time.Time) error {
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM sso_returned WHERE expires_at < clock_timestamp()`); err != nil {
			return translate(err)
		}
		tag, err := tx.Exec(ctx, `INSERT INTO sso_returned (state_hash, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING`, stateHash, until)
		if err == nil && tag.RowsAffected() == 0 {
			return ErrConflict
		}
		return translate(err)
	})
}
