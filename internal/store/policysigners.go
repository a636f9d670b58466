package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// SignaturesRule is the guard by which a policy comes into force with people's signatures only.
const SignaturesRule = "signatures"

// OperatorKeyRule is the guard by which commands name an operator's own key.
const OperatorKeyRule = "operator-key"

// PolicySigner is a public key with which somebody signs policies.
type PolicySigner struct {
	Fingerprint string
	PublicKey   string // as a line of a .pub file
	AddedAt     time.Time
	RevokedAt   *time.Time
	// Person is whose it is, as they are now: id, address, name, identity, roles of their own, and
	// whether they are disabled.
	Person engine.Person
}

var signerRows = newRows(func(s *PolicySigner) columns {
	return columns{
		{"s.fingerprint", &s.Fingerprint},
		{"s.public_key", &s.PublicKey},
		{"s.added_at", &s.AddedAt},
		{"s.revoked_at", &s.RevokedAt},
		{"p.id", &s.Person.ID},
		{"p.email", &s.Person.Email},
		{"p.name", &s.Person.Name},
		{"p.identity", &s.Person.Identity},
		{"p.roles", &s.Person.Roles},
		{"p.disabled_at IS NOT NULL", &s.Person.Disabled},
	}
})

// Signing is who has to sign a policy, and who can.
type Signing struct {
	// Rule is nil where nobody has to.
	Rule *Guard
	Keys []PolicySigner // all of them, those that are revoked too
}

// Key is the key with a fingerprint.
func (s Signing) Key(fingerprint string) (PolicySigner, bool) {
	for _, k := range s.Keys {
		if k.Fingerprint == fingerprint {
			return k, true
		}
	}
	return PolicySigner{}, false
}

// Signing reads who has to sign a policy, and who can.
func (s Rules) Signing(ctx context.Context) (Signing, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return signing(ctx, s.pool)
}

func signing(ctx context.Context, db interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
},
) (Signing, error) {
	var in Signing
	g, err := guardRows.one(db.QueryRow(ctx, `SELECT `+guardRows.names+` FROM guarded_documents WHERE kind = $1`, SignaturesRule))
	if err == nil {
		in.Rule = &g
	} else if !errors.Is(err, ErrNotFound) {
		return in, err
	}
	in.Keys, err = signerRows.all(db.Query(ctx, `SELECT `+signerRows.names+` FROM policy_signers s JOIN people p ON p.id = s.person_id ORDER BY s.added_at, s.fingerprint`))
	return in, err
}

// AddPolicySigner registers a key as somebody's; it takes the role that owns the database.
// ErrConflict: the key is registered already.
func (s Rules) AddPolicySigner(ctx context.Context, k PolicySigner, e engine.Event) error {
	return s.administerIn(ctx, nil, e, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO policy_signers (fingerprint, person_id, public_key) VALUES ($1, $2, $3) ON CONFLICT (fingerprint) DO NOTHING`,
			k.Fingerprint, k.Person.ID, k.PublicKey)
		if err == nil && tag.RowsAffected() == 0 {
			return ErrConflict
		}
		return translate(err)
	})
}

// RevokePolicySigner has a key sign nothing any more; it takes the role that owns the database.
// ErrNotFound: there is none that is not revoked.
func (s Rules) RevokePolicySigner(ctx context.Context, fingerprint string, e engine.Event) error {
	return s.administer(ctx, nil, e, `UPDATE policy_signers SET revoked_at = clock_timestamp() WHERE fingerprint = $1 AND revoked_at IS NULL`, fingerprint)
}

// RequireSignatures has policies come into force with signatures only, from now on; it takes the
// role that owns the database. allowed is asked, under the lock on what is in force, with the
// policy that is (nil for none); its error comes back as it is.
func (s Rules) RequireSignatures(ctx context.Context, g Guard, e engine.Event, allowed func(inForce *Document, in Signing) error) error {
	return s.administerIn(ctx, nil, e, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockActive(ctx, tx, PolicyDocument); err != nil {
			return err
		}
		in, err := signing(ctx, tx)
		if err != nil {
			return err
		}
		in.Rule = &g
		d := Document{Kind: PolicyDocument}
		inForce := &d
		err = tx.QueryRow(ctx, `SELECT d.known_as, d.body, a.signed_by FROM active_documents a JOIN documents d ON d.digest = a.digest WHERE a.kind = $1`, PolicyDocument).
			Scan(&d.KnownAs, &d.Body, &d.SignedBy)
		if errors.Is(err, pgx.ErrNoRows) {
			inForce, err = nil, nil
		}
		if err != nil {
			return translate(err)
		}
		if err := allowed(inForce, in); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, setGuard, g.Kind, g.Rule, g.SetBy, []string{})
		return translate(err)
	})
}

// Replacing is what a document comes into force in place of, and who signs policies.
type Replacing struct {
	Former []byte // the body of the document in force, nil for none
	Back   bool   // it was in force before, and was replaced
	Signing
}

// sayWhoSigned has the event of a document that comes into force say whose keys have signed it.
func sayWhoSigned(e *engine.Event, in Signing, fingerprints []string) error {
	type signer struct {
		Person string `json:"person"`
		Key    string `json:"key"`
	}
	var said []signer
	for _, f := range fingerprints {
		if k, ok := in.Key(f); ok {
			said = append(said, signer{k.Person.ID, f})
		}
	}
	if said == nil {
		return nil
	}
	return e.AddToPayload("signed_by", said)
}
