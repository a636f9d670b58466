package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/registry"
)

// The kinds of document that decide.
const (
	PolicyDocument    = "policy"
	ContractsDocument = "contracts"
)

// Document is a policy bundle or a set of tool contracts.
type Document struct {
	Kind    string // PolicyDocument or ContractsDocument
	KnownAs string // the digest of what it means, by which decisions name it
	Body    []byte // as it was written
	// ApprovalID is by which approval a document in force has come into force; "" for none.
	ApprovalID string
	// ActivatedAt is since when it is in force.
	ActivatedAt time.Time
	// SignedBy are the fingerprints of people's keys that had signed it when it came into force.
	SignedBy []string
}

// Digest is "sha256:" and the SHA-256 of the body in hex.
func (d Document) Digest() string {
	sum := sha256.Sum256(d.Body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ActiveDocuments reads the documents in force, by kind, and the digests that they
// are to have. A kind that is not there has none. With an error that is no outage,
// the digests are those of the documents in force all the same.
func (s Rules) ActiveDocuments(ctx context.Context) (active map[string]Document, digests map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT a.kind, d.known_as, d.body, coalesce(a.approval_id, ''), a.activated_at, a.signed_by, d.digest FROM active_documents a JOIN documents d ON d.digest = a.digest`)
	if err != nil {
		return nil, nil, translate(err)
	}
	active, digests = map[string]Document{}, map[string]string{}
	var changed error // a document that was tampered with is no outage
	err = each(func(row pgx.Rows) error {
		var d Document
		var digest string
		if err := row.Scan(&d.Kind, &d.KnownAs, &d.Body, &d.ApprovalID, &d.ActivatedAt, &d.SignedBy, &digest); err != nil {
			return err
		}
		if digests[d.Kind] = digest; d.Digest() != digest {
			changed = fmt.Errorf("the %s document in force is not the one that was imported: its bytes have been changed", d.Kind)
			return nil
		}
		active[d.Kind] = d
		return nil
	})(rows)
	if err != nil {
		rows.Close()
		return nil, nil, err
	}
	return active, digests, changed
}

// RulesInForce is what calls are judged by beside their routing.
type RulesInForce struct {
	// Documents are the digests of the documents in force, by kind.
	Documents map[string]string
	Registry  *registry.Snapshot
}

// Rules reads what calls are judged by now.
func (c *Change) Rules() (RulesInForce, error) {
	rows := &pgx.Batch{}
	r := RulesInForce{Documents: map[string]string{}, Registry: queueRegistry(rows)}
	rows.Queue(`SELECT kind, digest FROM active_documents`).Query(each(func(row pgx.Rows) error {
		var kind, digest string
		err := row.Scan(&kind, &digest)
		r.Documents[kind] = digest
		return err
	}))
	return r, translate(c.tx.SendBatch(c.ctx, rows).Close())
}

// WasInForce reports whether a document of a kind was in force and has been replaced.
func (s Rules) WasInForce(ctx context.Context, kind, digest string) (was bool, err error) {
	return value[bool](ctx, s.db, `SELECT EXISTS (SELECT FROM active_documents WHERE kind = $1 AND $2 = ANY (former))`, kind, digest)
}

// Activate puts a document in force and reports whether that changed anything:
// the one that is in force already changes nothing and leaves no event. allowed
// is asked, under the lock on what is in force, what the document replaces, and returns whose
// keys have signed it; its error comes back as it is, and nothing changes.
// ErrGuarded: documents of its kind take an approval.
func (s Rules) Activate(ctx context.Context, d Document, by string, e engine.Event, allowed func(Replacing) (signedBy []string, err error)) (changed bool, err error) {
	return s.activate(ctx, d, by, false, e, allowed)
}

// ActivateAround is Activate where people should have been asked and are not; it takes the
// role that owns the database.
func (s Rules) ActivateAround(ctx context.Context, d Document, by string, e engine.Event, allowed func(Replacing) (signedBy []string, err error)) (changed bool, err error) {
	return s.activate(ctx, d, by, true, e, allowed)
}

func (s Rules) activate(ctx context.Context, d Document, by string, around bool, e engine.Event, allowed func(Replacing) (signedBy []string, err error)) (changed bool, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		changed = false
		if err := lockActive(ctx, tx, d.Kind); err != nil {
			return err
		}
		var digest string
		var r Replacing
		err := tx.QueryRow(ctx, `SELECT d.digest, d.body, $2 = ANY (a.former) FROM active_documents a JOIN documents d ON d.digest = a.digest
			WHERE a.kind = $1`, d.Kind, d.Digest()).Scan(&digest, &r.Former, &r.Back)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return translate(err)
		}
		if digest == d.Digest() {
			return nil
		}
		if r.Signing, err = signing(ctx, tx); err != nil {
			return err
		}
		signedBy, err := allowed(r)
		if err != nil {
			return err
		}
		var guarded bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM guarded_documents WHERE kind = $1)`, d.Kind).Scan(&guarded); err != nil {
			return translate(err)
		}
		if guarded && !around {
			return fmt.Errorf("%w: %s", ErrGuarded, d.Kind)
		}
		rows := &pgx.Batch{}
		rows.Queue(`INSERT INTO documents (digest, kind, known_as, body) VALUES ($1, $2, $3, $4) ON CONFLICT (digest) DO NOTHING`, d.Digest(), d.Kind, d.KnownAs, d.Body)
		rows.Queue(putInForce, d.Kind, d.Digest(), by, "", append([]string{}, signedBy...))
		said := e
		if err := sayWhoSigned(&said, r.Signing, signedBy); err != nil {
			return err
		}
		queueEvents(rows, []engine.Event{said}, nil)
		changed = true
		return translate(tx.SendBatch(ctx, rows).Close())
	})
	return changed, err
}

// KeepRuleset keeps what decisions under a digest are judged by.
func (s Rules) KeepRuleset(ctx context.Context, digest string, body []byte) error {
	return s.exec(ctx, `INSERT INTO rulesets (digest, body) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING`, digest, body)
}

// Ruleset returns what decisions under a digest were judged by. ErrNotFound:
// no decision was.
func (s Rules) Ruleset(ctx context.Context, digest string) ([]byte, error) {
	return s.bytes(ctx, `SELECT body FROM rulesets WHERE digest = $1`, digest)
}

// DocumentKnownAs returns a document, in force or not, as it was written.
// ErrNotFound: there is none.
func (s Rules) DocumentKnownAs(ctx context.Context, digest string) ([]byte, error) {
	return s.bytes(ctx, `SELECT body FROM documents WHERE known_as = $1 ORDER BY imported_at LIMIT 1`, digest)
}

func (s Rules) bytes(ctx context.Context, sql, digest string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var body []byte
	if err := s.pool.QueryRow(ctx, sql, digest).Scan(&body); err != nil {
		return nil, fmt.Errorf("%w: %.80s", translate(err), digest)
	}
	return body, nil
}
