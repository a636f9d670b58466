package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
)

// RulesAgent stands where an approval names its agent, for changes of the rules: they are
// proposed by people. It has no key, and is listed among no agents.
const RulesAgent = "holdpoint:rules"

// Guard says that changes of a kind are made by an approval only.
type Guard struct {
	Kind string
	// Rule says who decides, how many, and until when.
	Rule approval.Rule
	// ByGroups are the roles that membership in a provider's group gives all the same.
	ByGroups []string
	SetBy    string
	SetAt    time.Time
}

var guardRows = newRows(func(g *Guard) columns {
	return columns{{"kind", &g.Kind}, {"rule", &g.Rule}, {"by_groups", &g.ByGroups}, {"set_by", &g.SetBy}, {"set_at", &g.SetAt}}
})

// Guards reads which kinds of documents are guarded, by kind.
func (s Rules) Guards(ctx context.Context) (map[string]Guard, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT `+guardRows.names+` FROM guarded_documents`)
	if err != nil {
		return nil, translate(err)
	}
	all, err := guardRows.all(rows, nil)
	guards := map[string]Guard{}
	for _, g := range all {
		guards[g.Kind] = g
	}
	return guards, translate(err)
}

// SetGuard guards documents of a kind from now on; it takes the role that owns the
// database.
func (s Rules) SetGuard(ctx context.Context, g Guard, e engine.Event) error {
	return s.administerIn(ctx, nil, e, func(ctx context.Context, tx pgx.Tx) error {
		rows := &pgx.Batch{}
		rows.Queue(`INSERT INTO agents (id, name) VALUES ($1, 'Change of the rules') ON CONFLICT (id) DO NOTHING`, RulesAgent)
		rows.Queue(setGuard, g.Kind, g.Rule, g.SetBy, append([]string{}, g.ByGroups...))
		return translate(tx.SendBatch(ctx, rows).Close())
	})
}

const setGuard = `INSERT INTO guarded_documents (kind, rule, set_by, by_groups) VALUES ($1, $2, $3, $4)
	ON CONFLICT (kind) DO UPDATE SET rule = excluded.rule, set_by = excluded.set_by, by_groups = excluded.by_groups, set_at = clock_timestamp()`

// Unguard ends a guard; it takes the role that owns the database. ErrNotFound: there is none.
func (s Rules) Unguard(ctx context.Context, kind string, e engine.Event) error {
	return s.administer(ctx, nil, e, `DELETE FROM guarded_documents WHERE kind = $1`, kind)
}

// ProposedDocument is a document that an approval puts in force when people approve it.
type ProposedDocument struct {
	Document
	// Replaces is the digest of the one in force, in whose place it comes; "" for none.
	Replaces string
}

// Proposed is the last approval that has proposed a document in place of another, and how it
// ended. ErrNotFound: none has.
func (s Rules) Proposed(ctx context.Context, digest, replaces string) (id string, status approval.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, `SELECT id, status FROM approvals WHERE proposes = $1 AND replaces = $2 ORDER BY opened_at DESC, id DESC LIMIT 1`,
		digest, replaces).Scan(&id, &status)
	return id, status, translate(err)
}

// ProposedEntry is what was last proposed of one thing that is set up, and what became of that.
type ProposedEntry struct {
	Entry
	ApprovalID string
	Status     approval.Status
	Execution  approval.Execution
}

// Same reports whether the entry makes the same of the same thing, which was the same before.
func (p ProposedEntry) Same(n Entry) (bool, error) {
	same := p.What == n.What && p.ID == n.ID
	for _, pair := range [][2]json.RawMessage{{p.Was, n.Was}, {p.Becomes, n.Becomes}} {
		a, err1 := canon.Parse(pair[0])
		b, err2 := canon.Parse(pair[1])
		if err := errors.Join(err1, err2); err != nil {
			return false, fmt.Errorf("compare a change of %s: %w", n.What, err)
		}
		same = same && string(a.Canonical()) == string(b.Canonical())
	}
	return same, nil
}

// ProposedEntries are the entries of a kind that were last proposed, one for each thing.
func (s Rules) ProposedEntries(ctx context.Context, kind string) ([]ProposedEntry, error) {
	return collect(ctx, s.db, func(row pgx.CollectableRow) (p ProposedEntry, err error) {
		return p, row.Scan(&p.Entry, &p.ApprovalID, &p.Status, &p.Execution)
	}, `SELECT DISTINCT ON (e->>'what', e->>'id') e, a.id, a.status, a.execution
		FROM documents d JOIN approvals a ON a.proposes = d.digest, jsonb_array_elements(convert_from(d.body, 'UTF8')::jsonb->'entries') e
		WHERE d.kind = $1 ORDER BY e->>'what', e->>'id', a.opened_at DESC, a.id`, kind)
}

// queueProposed adds what an opening proposes: the document stands before the approval that
// names it.
func (o *Opening) queueProposed(rows *pgx.Batch) columns {
	if o.Proposes == nil {
		return nil
	}
	digest := o.Proposes.Digest()
	rows.Queue(`INSERT INTO documents (digest, kind, known_as, body) VALUES ($1, $2, $3, $4) ON CONFLICT (digest) DO NOTHING`,
		digest, o.Proposes.Kind, o.Proposes.KnownAs, o.Proposes.Body)
	return columns{{"proposes", &digest}, {"replaces", &o.Proposes.Replaces}}
}

// Proposal is what an approval proposes, and what stands in its way, under the lock on what
// is in force.
type Proposal struct {
	ProposedDocument
	// Replacing is what it comes into force in place of, and InForce that one's digest; "" for none.
	Replacing
	InForce string
	// Guard is nil where nobody has to be asked any more.
	Guard *Guard
}

// Proposal takes the lock on what is in force and reads what the approval proposes.
func (c *Change) Proposal() (Proposal, error) {
	var p Proposal
	err := c.tx.QueryRow(c.ctx, `SELECT d.kind, d.known_as, d.body, a.replaces FROM approvals a JOIN documents d ON d.digest = a.proposes WHERE a.id = $1`,
		c.Approval.ID).Scan(&p.Kind, &p.KnownAs, &p.Body, &p.Replaces)
	if err != nil {
		return p, translate(err)
	}
	if ByEntries(p.Kind) && !c.entriesFirst {
		return p, ErrEntriesFirst
	}
	if err := lockActive(c.ctx, c.tx, p.Kind); err != nil {
		return p, err
	}
	err = c.tx.QueryRow(c.ctx, `SELECT d.digest, d.body, $2 = ANY (a.former) FROM active_documents a JOIN documents d ON d.digest = a.digest WHERE a.kind = $1`,
		p.Kind, p.Digest()).Scan(&p.InForce, &p.Former, &p.Back)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return p, translate(err)
	}
	if p.Kind == PolicyDocument {
		if p.Signing, err = signing(c.ctx, c.tx); err != nil {
			return p, err
		}
	}
	g, err := guardRows.one(c.tx.QueryRow(c.ctx, `SELECT `+guardRows.names+` FROM guarded_documents WHERE kind = $1`, p.Kind))
	if errors.Is(err, ErrNotFound) {
		return p, nil
	}
	p.Guard = &g
	return p, err
}

// PutInForce puts what the approval proposes in force. Its token has to have been redeemed,
// and nobody to have been told yet what became of it.
func (c *Change) PutInForce(p Proposal, by string) error {
	_, err := c.tx.Exec(c.ctx, putInForce, p.Kind, p.Digest(), by, c.Approval.ID, append([]string{}, p.SignedBy...))
	return translate(err)
}

const putInForce = `INSERT INTO active_documents (kind, digest, activated_by, approval_id, signed_by) VALUES ($1, $2, $3, nullif($4, ''), $5) ON CONFLICT (kind)
	DO UPDATE SET digest = excluded.digest, activated_by = excluded.activated_by, approval_id = excluded.approval_id, activated_at = clock_timestamp(), signed_by = excluded.signed_by`

// SayWhoSigned has the event of what came into force say whose keys have signed it.
func (p Proposal) SayWhoSigned(e *engine.Event) error { return sayWhoSigned(e, p.Signing, p.SignedBy) }

// lockActive takes the lock on what is in force of a kind. Where no row is yet, there is
// none to lock.
func lockActive(ctx context.Context, tx pgx.Tx, kind string) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('activate ' || $1, 0))`, kind)
	return translate(err)
}

// ErrGuarded is the error of putting in force directly what takes an approval.
var ErrGuarded = errors.New("it comes into force by an approval only")

// Edition is a document that is or was in force, as the log tells of it.
type Edition struct {
	Kind, Version string
	// Digest names its file; "" where the log does not.
	Digest string
	From   time.Time
	Until  *time.Time // nil while it is in force
	// Approved is people, nobody_asked or no_need.
	Approved   string
	ApprovalID string
	Author     string
	ApprovedBy string
	// SignedBy are the names of the people whose keys had signed it, "" for none.
	SignedBy string
	// NotAsked is why nobody was asked.
	NotAsked string
}

var editionRows = newRows(func(e *Edition) columns {
	return columns{
		{"kind", &e.Kind},
		{"coalesce(version, '')", &e.Version},
		{"coalesce(document, '')", &e.Digest},
		{"in_force_from", &e.From},
		{"in_force_until", &e.Until},
		{"approved", &e.Approved},
		{"coalesce(approval_id, '')", &e.ApprovalID},
		{"coalesce(author, '')", &e.Author},
		{"coalesce(approved_by, '')", &e.ApprovedBy},
		{"coalesce(signed_by, '')", &e.SignedBy},
		{`coalesce((SELECT convert_from(v.body, 'UTF8')::json->'safe_payload'->>'reason' FROM events v WHERE v.event_id = e.event_id::uuid), '')`, &e.NotAsked},
	}
})

// Editions are the documents of a kind that are or were in force, the newest first.
func (s Rules) Editions(ctx context.Context, kind string, limit int) ([]Edition, error) {
	return editionRows.query(ctx, s.db, `SELECT `+editionRows.names+` FROM (`+policiesInForce+`) e WHERE kind = $3 ORDER BY in_force_from DESC LIMIT $4`,
		time.Unix(0, 0), time.Now().Add(time.Hour), kind, limit)
}

// Document returns a document, in force or not, by the digest of its bytes. ErrNotFound: there
// is none.
func (s Rules) Document(ctx context.Context, digest string) (Document, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var d Document
	err := s.pool.QueryRow(ctx, `SELECT kind, known_as, body FROM documents WHERE digest = $1`, digest).Scan(&d.Kind, &d.KnownAs, &d.Body)
	return d, translate(err)
}
