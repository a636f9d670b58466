package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// Chain is a way in which somebody stands in for others: the ids of those whom
// they stand in for, the next one first, and how each of them stands, by the roles that they
// can hand on.
type Chain struct {
	Via   []string
	Voter []approval.Voter
}

// maxChain is how many may have handed on a say, one to the other, and maxChains how many
// ways are looked at, the shorter ones first: where each of forty people stands in for all
// the others there are sixty thousand.
const (
	maxChain  = 3
	maxChains = 500
)

// chains lists for whom a person decides at the moment, through delegations that
// are in force: shorter chains first. A chain never comes back to anybody. For
// somebody who stands in for nobody it is one look into an index. Whoever
// was disabled since hands nothing on by what they said before, and nobody speaks by a
// delegation that they have made for somebody else, as an administrator.
const chains = `WITH RECURSIVE chain AS (
		SELECT ARRAY[d.person_id] AS via FROM delegations d
		WHERE d.deputy_id = $1 AND d.revoked_at IS NULL AND d.from_at <= statement_timestamp() AND d.until_at > statement_timestamp() AND ` + holdsOn + ` AND ` + notMadeBy + `
		UNION
		SELECT c.via || d.person_id FROM chain c JOIN delegations d ON d.deputy_id = c.via[cardinality(c.via)]
		WHERE d.revoked_at IS NULL AND d.from_at <= statement_timestamp() AND d.until_at > statement_timestamp() AND ` + holdsOn + ` AND ` + notMadeBy + `
		  AND NOT d.person_id = ANY (c.via) AND d.person_id <> $1 AND cardinality(c.via) < $2
	)
	SELECT via, (SELECT jsonb_agg(jsonb_build_object('Identity', q.identity, 'Roles', roles_of(q.id, q.roles), 'Active', q.disabled_at IS NULL) ORDER BY v.n)
		FROM unnest(via) WITH ORDINALITY v (id, n) JOIN people q ON q.id = v.id)
	FROM (SELECT via FROM chain LIMIT $3) chain ORDER BY cardinality(via), via`

// holdsOn is true of delegations d that no disabling of who made them has made void since: they are
// not good again when the account is.
const holdsOn = `(SELECT coalesce((p.since->>'')::timestamptz <= d.created_at, true) FROM people p WHERE p.id = d.person_id)`

// notMadeBy is true of delegations d that the person $1, under whichever account, has not made for
// somebody else.
const notMadeBy = `(d.created_by = d.person_id OR NOT EXISTS (SELECT FROM people m JOIN people me ON me.identity = m.identity WHERE m.id = d.created_by AND me.id = $1))`

func collectChains(rows pgx.Rows, err error) ([]Chain, error) {
	if err != nil {
		return nil, translate(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Chain, error) {
		var one Chain
		var standing []byte
		if err := row.Scan(&one.Via, &standing); err != nil {
			return one, err
		}
		err := json.Unmarshal(standing, &one.Voter)
		for i := range one.Voter {
			one.Voter[i].Roles = slices.DeleteFunc(one.Voter[i].Roles, approval.Undelegable)
		}
		return one, err
	})
	return list, translate(err)
}

// StandsIn lists for whom the person decides at the moment, through delegations
// that are in force: shorter chains first. A chain never comes back to anybody.
func (c *Change) StandsIn(personID string) ([]Chain, error) {
	return collectChains(c.tx.Query(c.ctx, chains, personID, maxChain, maxChains))
}

// Chains is Change's, for reading.
func (s Delegations) Chains(ctx context.Context, personID string) ([]Chain, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return collectChains(s.pool.Query(ctx, chains, personID, maxChain, maxChains))
}

// Delegation says that the deputy decides in the person's place from From to
// Until, unless it is revoked before.
type Delegation struct {
	ID                 string
	PersonID, DeputyID string
	From, Until        time.Time
	Reason             string
	CreatedBy          string // the id of a person
	CreatedAt          time.Time
	RevokedAt          *time.Time
}

// MaxDelegations is how many delegations of one person may be in force or to come.
const MaxDelegations = 50

// Create records a delegation. ErrConflict: the same deputy decides in the
// person's place for some of that time already. ErrTooMany: the person has as many as one may have.
func (s Delegations) Create(ctx context.Context, d Delegation, e engine.Event) error {
	return s.administerIn(ctx, nil, e, func(ctx context.Context, tx pgx.Tx) error {
		// Two of the same person at once do not see each other.
		sum := sha256.Sum256([]byte("delegation " + d.PersonID))
		if err := lockKeys(ctx, tx, []int64{int64(binary.BigEndian.Uint64(sum[:]))}); err != nil { // #nosec G115 -- any number will do
			return err
		}
		var there int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM delegations d WHERE person_id = $1 AND revoked_at IS NULL AND until_at > clock_timestamp() AND `+holdsOn, d.PersonID).Scan(&there); err != nil {
			return translate(err)
		}
		if there >= MaxDelegations {
			return ErrTooMany
		}
		tag, err := tx.Exec(ctx, `INSERT INTO delegations (id, person_id, deputy_id, from_at, until_at, reason, created_by)
			SELECT $1, $2, $3, $4, $5, $6, $7 WHERE NOT EXISTS (SELECT FROM delegations d
				WHERE person_id = $2 AND deputy_id = $3 AND revoked_at IS NULL AND from_at < $5 AND until_at > $4 AND `+holdsOn+`)`,
			d.ID, d.PersonID, d.DeputyID, d.From, d.Until, d.Reason, d.CreatedBy)
		if err != nil {
			return translate(err)
		}
		if tag.RowsAffected() == 0 {
			return ErrConflict
		}
		return nil
	})
}

// Revoke ends a delegation at once. ErrNotFound: there is none of that
// id that is not revoked.
func (s Delegations) Revoke(ctx context.Context, id string, e engine.Event) error {
	return s.administer(ctx, nil, e, `UPDATE delegations SET revoked_at = clock_timestamp() WHERE id = $1 AND revoked_at IS NULL`, id)
}

var delegationRows = newRows(func(d *Delegation) columns {
	return columns{
		{"id", &d.ID},
		{"person_id", &d.PersonID},
		{"deputy_id", &d.DeputyID},
		{"from_at", &d.From},
		{"until_at", &d.Until},
		{"reason", &d.Reason},
		{"created_by", &d.CreatedBy},
		{"created_at", &d.CreatedAt},
		{"revoked_at", &d.RevokedAt},
	}
})

// Get reads a delegation. ErrNotFound: there is none.
func (s Delegations) Get(ctx context.Context, id string) (Delegation, error) {
	return delegationRows.queryOne(ctx, s.db, `SELECT `+delegationRows.names+` FROM delegations WHERE id = $1`, id)
}

// List lists up to limit delegations that are in force or still to come,
// of the person in either direction, or everybody's for "", the first to begin
// first; and says what time it is. Those that are void are in force no more.
func (s Delegations) List(ctx context.Context, personID string, limit int) ([]Delegation, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var now time.Time
	if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return nil, now, translate(err)
	}
	list, err := delegationRows.all(s.pool.Query(ctx, `SELECT `+delegationRows.names+` FROM delegations d
		WHERE revoked_at IS NULL AND until_at > $3 AND ($1 = '' OR person_id = $1 OR deputy_id = $1) AND `+holdsOn+` ORDER BY from_at, id LIMIT $2`, personID, limit, now))
	return list, now, err
}
