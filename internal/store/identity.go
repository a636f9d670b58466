package store

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// Key is an API key as it is stored. The secret itself is known to nobody but
// its holder.
type Key struct {
	ID         string
	AgentID    string // "" for an admin key
	PersonID   string // whose own key it is; "" for nobody's in particular
	PersonName string // in lists
	Kind       string // agent, runtime or admin
	SecretHash []byte
	Scopes     []string
	MaxState   string
	Label      string
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	LastUsedAt *time.Time // to the minute, in lists; nil where no use is noted
	// Dead says that the key is revoked or expired, or its agent disabled, or that its person
	// is not an administrator, or was not at some time since it was made.
	Dead bool
}

// KeyExpiresSoon is how long before its end a key is worth a warning.
const KeyExpiresSoon = 14 * 24 * time.Hour

// ExpiresSoon reports whether a key that is good now expires within KeyExpiresSoon.
func (k Key) ExpiresSoon(now time.Time) bool {
	return !k.Dead && k.ExpiresAt != nil && k.ExpiresAt.Sub(now) <= KeyExpiresSoon
}

// keyDead is Key.Dead of keys k, agents a and people p. What has become void with an account or a
// role stays void: a former administrator who is one again has a new key made.
const keyDead = `(k.revoked_at IS NOT NULL OR coalesce(k.expires_at <= clock_timestamp(), false) OR a.disabled_at IS NOT NULL
	OR k.person_id IS NOT NULL AND NOT (p.disabled_at IS NULL AND '` + administratorRole + `' = ANY (p.roles)
		AND coalesce((p.since->>'')::timestamptz <= k.created_at, true) AND coalesce((p.since->>'` + administratorRole + `')::timestamptz <= k.created_at, true)))`

// administratorRole is access.AdminRole, which imports this package.
const administratorRole = "admin"

// Get reads a key. ErrNotFound: there is none.
func (s Keys) Get(ctx context.Context, id string) (Key, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	k := Key{ID: id}
	err := s.pool.QueryRow(ctx, `SELECT coalesce(k.agent_id, ''), coalesce(k.person_id, ''), k.kind, k.secret_hash, k.scopes, k.max_state, k.label, k.created_at, k.expires_at, k.revoked_at, `+keyDead+`
		FROM keys k LEFT JOIN agents a ON a.id = k.agent_id LEFT JOIN people p ON p.id = k.person_id WHERE k.id = $1`, id).
		Scan(&k.AgentID, &k.PersonID, &k.Kind, &k.SecretHash, &k.Scopes, &k.MaxState, &k.Label, &k.CreatedAt, &k.ExpiresAt, &k.RevokedAt, &k.Dead)
	return k, translate(err)
}

// Create stores a key; its agent must exist.
func (s Keys) Create(ctx context.Context, k Key, e engine.Event) error {
	return s.admin(ctx, e, `INSERT INTO keys (id, agent_id, kind, secret_hash, scopes, max_state, label, expires_at, person_id)
		VALUES ($1, nullif($2, ''), $3, $4, $5, $6, $7, $8, nullif($9, ''))`, k.ID, k.AgentID, k.Kind, k.SecretHash, k.Scopes, k.MaxState, k.Label, k.ExpiresAt, k.PersonID)
}

// SetScopes replaces what a key is for. ErrNotFound: there is none.
func (s Keys) SetScopes(ctx context.Context, id string, scopes []string, e engine.Event) error {
	return s.admin(ctx, e, `UPDATE keys SET scopes = $2 WHERE id = $1`, id, scopes)
}

// Revoke makes a key useless from now on. ErrNotFound: there is none that lives.
func (s Keys) Revoke(ctx context.Context, id string, e engine.Event) error {
	return s.admin(ctx, e, `UPDATE keys SET revoked_at = clock_timestamp() WHERE id = $1 AND revoked_at IS NULL`, id)
}

// Used notes that the keys are in use. Those that there are not are passed over.
func (s Keys) Used(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// In one order, so that two processes do not wait for each other.
	_, err := s.pool.Exec(ctx, `INSERT INTO key_uses (key_id) SELECT id FROM keys WHERE id = ANY ($1) ORDER BY id
		ON CONFLICT (key_id) DO UPDATE SET used_at = clock_timestamp()`, ids)
	return translate(err)
}

// RevokeSigningKey makes every token of that key id worthless at once.
func (s Keys) RevokeSigningKey(ctx context.Context, kid string, e engine.Event) error {
	return s.admin(ctx, e, `INSERT INTO revoked_signing_keys (kid) VALUES ($1)`, kid)
}

// RevokedSigningKeys lists the ids of signing keys that must not be believed.
func (s Keys) RevokedSigningKeys(ctx context.Context) ([]string, error) {
	return s.ids(ctx, `SELECT kid FROM revoked_signing_keys ORDER BY kid`)
}

// Agent is a registered agent.
type Agent struct {
	ID, Name string
	OwnerID  string // a person, or ""
	// OwnerName, OwnerEmail and OwnerIdentity are the owner's; "" without one.
	OwnerName, OwnerEmail, OwnerIdentity string
}

// Agent reads an agent. ErrNotFound: there is none.
func (s People) Agent(ctx context.Context, id string) (Agent, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	a := Agent{ID: id}
	err := s.pool.QueryRow(ctx, `SELECT a.name, coalesce(p.id, ''), coalesce(p.name, ''), coalesce(p.email, ''), coalesce(p.identity, '')
		FROM agents a LEFT JOIN people p ON p.id = a.owner_id WHERE a.id = $1`, id).
		Scan(&a.Name, &a.OwnerID, &a.OwnerName, &a.OwnerEmail, &a.OwnerIdentity)
	return a, translate(err)
}

// personRows are of people p.
var personRows = newRows(func(p *engine.Person) columns {
	return columns{
		{"p.id", &p.ID},
		{"p.email", &p.Email},
		{"p.name", &p.Name},
		{"p.identity", &p.Identity},
		{"roles_of(p.id, p.roles)", &p.Roles},
		{"p.disabled_at IS NOT NULL", &p.Disabled},
	}
})

// Create stores a person. ErrConflict: the e-mail is taken.
func (s People) Create(ctx context.Context, p engine.Person, passwordHash string, e engine.Event) error {
	return s.admin(ctx, e, `INSERT INTO people (id, email, name, identity, password_hash, roles) VALUES ($1, $2, $3, $4, $5, $6)`,
		p.ID, p.Email, p.Name, p.Identity, passwordHash, slices.Clone(p.Roles))
}

// ByEmail returns a person and the password hash. ErrNotFound: there is none.
func (s People) ByEmail(ctx context.Context, email string) (engine.Person, string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var hash string
	p, err := personRows.one(s.pool.QueryRow(ctx, `SELECT `+personRows.names+`, p.password_hash FROM people p WHERE p.email = $1`, email), &hash)
	return p, hash, err
}

// WithPassword returns the person with an id, and the password hash. ErrNotFound:
// there is none.
func (s People) WithPassword(ctx context.Context, id string) (engine.Person, string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var hash string
	p, err := personRows.one(s.pool.QueryRow(ctx, `SELECT `+personRows.names+`, p.password_hash FROM people p WHERE p.id = $1`, id), &hash)
	return p, hash, err
}

// Get reads a person by id. ErrNotFound: there is none.
func (s People) Get(ctx context.Context, id string) (engine.Person, error) {
	return personRows.queryOne(ctx, s.db, `SELECT `+personRows.names+` FROM people p WHERE p.id = $1`, id)
}

// Called lists up to most people whom a text names in full, by id: whose id it is, or else
// whose address, or else whose name; the case of addresses and names does not matter.
func (s People) Called(ctx context.Context, text string, most int) ([]engine.Person, error) {
	return personRows.query(ctx, s.db, `SELECT `+personRows.names+` FROM people p
		JOIN (SELECT q.id, min(q.rank) OVER () AS best, q.rank FROM (SELECT id, CASE WHEN id = $1 THEN 1 WHEN lower(email) = lower($1) THEN 2 WHEN lower(name) = lower($1) THEN 3 END AS rank FROM people) q
			WHERE q.rank IS NOT NULL) named ON named.id = p.id AND named.rank = named.best
		ORDER BY p.id LIMIT $2`, text, most)
}

// Identities lists the identities of the people whom one of the e-mail
// addresses, or of the ids, belongs to.
func (s People) Identities(ctx context.Context, emails, ids []string) ([]string, error) {
	return s.ids(ctx, `SELECT DISTINCT identity FROM people WHERE email = ANY ($1) OR id = ANY ($2) OR identity = ANY ($2) ORDER BY identity`, emails, ids)
}

// List lists everybody, by e-mail.
func (s People) List(ctx context.Context) ([]engine.Person, error) {
	return personRows.query(ctx, s.db, `SELECT `+personRows.names+` FROM people p ORDER BY p.email`)
}

// CountWithPassword counts the enabled people with a role whom a password signs in.
func (s People) CountWithPassword(ctx context.Context, role string) (n int, err error) {
	return value[int](ctx, s.db, `SELECT count(*) FROM people WHERE disabled_at IS NULL AND $1 = ANY (roles) AND password_hash <> $2`, role, NoPassword)
}

// Person returns the person of a live session, with when and how they
// last proved who they are in it and which second factors they have; a disabled
// person's session is none. ErrNotFound: there is none.
func (s Sessions) Person(ctx context.Context, idHash []byte) (engine.Person, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	from, to := s.keyRange(sessionRow, idHash)
	rows, err := s.pool.Query(ctx, `SELECT `+personRows.names+`, s.verified_at, coalesce(s.verified_by, ''), coalesce(s.provider, ''), s.provider_mfa, `+factorsOf+`, s.id_hash
		FROM sessions s JOIN people p ON p.id = s.person_id
		WHERE s.id_hash BETWEEN $1 AND $2 AND s.expires_at > clock_timestamp() AND p.disabled_at IS NULL`, from, to)
	if err != nil {
		return engine.Person{}, translate(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (engine.Person, error) {
		var verified time.Time
		var by, provider string
		var mfa bool
		var factors []string
		var key []byte
		p, err := personRows.one(row, zeroTime{&verified}, &by, &provider, &mfa, &factors, &key)
		if err != nil || !hmac.Equal(key, s.rowKey(sessionRow, idHash, p.ID)) {
			return engine.Person{}, err // not a row of ours
		}
		p.VerifiedAt, p.VerifiedBy, p.Factors, p.Provider, p.ProviderMFA = verified, by, factors, provider, mfa
		return p, nil
	})
	if err != nil {
		return engine.Person{}, translate(err)
	}
	if i := slices.IndexFunc(found, func(p engine.Person) bool { return p.ID != "" }); i >= 0 {
		return found[i], nil
	}
	return engine.Person{}, ErrNotFound
}

// The kinds of row whose secret somebody's browser holds.
const (
	sessionRow   = "session"
	challengeRow = "challenge"
)

// rowKey is the key of a row whose secret somebody's browser holds: 16 bytes by which
// it is found, and 16 that bind it to whom it is of and what it says. Without the data
// key nobody can write one, even for a secret that they know. (The column was made for
// idHash itself.)
func (s *db) rowKey(kind string, idHash []byte, says ...string) []byte {
	found, bound := s.sealer.Row(kind, string(idHash)), s.sealer.Row(append([]string{kind, string(idHash)}, says...)...)
	return slices.Concat(found[:16], bound[:16])
}

// keyRange are the least and the greatest key that a row with the secret can have.
func (s *db) keyRange(kind string, idHash []byte) (from, to []byte) {
	found := s.sealer.Row(kind, string(idHash))[:16]
	return slices.Concat(found, make([]byte, 16)), slices.Concat(found, bytes.Repeat([]byte{0xff}, 16))
}

// PasswordDigest is what engine.Person has of the hash of a password.
func PasswordDigest(hash string) []byte {
	sum := sha256.Sum256([]byte(hash))
	return sum[:]
}

// BrowserHash is the size of Sessions.BrowserHash, in bytes.
const BrowserHash = 16

// BrowserHash is the keyed hash of the id of a browser in which a person has signed in with the
// password of the digest. There is no row of it: the browser holds both.
func (s Sessions) BrowserHash(id []byte, personID string, passwordDigest []byte) []byte {
	return s.sealer.Row("browser", string(id), personID, string(passwordDigest))[:BrowserHash]
}

// Create starts a session of somebody who has just proved, by VerifiedBy, who they
// are, and drops those that are over. Whoever comes from a provider has proved it at
// VerifiedAt; VerifiedBy is "" where it did not say when. ErrNotFound: the person is
// disabled, or has another password than the one that was checked.
func (s Sessions) Create(ctx context.Context, idHash []byte, p engine.Person, lasting time.Duration) error {
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// Before the first row, as changes of accounts take it: a session is there when a
		// change ends them, or starts by what the account is after it.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared(hashtextextended('people', 0))`); err != nil {
			return translate(err)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM sessions WHERE expires_at < (SELECT clock_timestamp())`); err != nil {
			return translate(err)
		}
		tag, err := tx.Exec(ctx, `INSERT INTO sessions (id_hash, person_id, expires_at, verified_at, verified_by, provider, provider_mfa)
			SELECT $1, id, clock_timestamp() + make_interval(secs => $3),
				CASE $4 WHEN '' THEN NULL WHEN 'sso' THEN least($6, clock_timestamp()) ELSE clock_timestamp() END, nullif($4, ''), nullif($7, ''), $8 FROM people
			WHERE id = $2 AND disabled_at IS NULL AND sha256(convert_to(password_hash, 'UTF8')) = $5
				AND CASE $4 WHEN 'totp' THEN EXISTS (SELECT FROM totp_factors f WHERE f.person_id = people.id AND f.confirmed_at IS NOT NULL)
					WHEN 'passkey' THEN EXISTS (SELECT FROM passkeys k WHERE k.person_id = people.id) ELSE true END`,
			s.rowKey(sessionRow, idHash, p.ID), p.ID, lasting.Seconds(), p.VerifiedBy, p.PasswordChecked, p.VerifiedAt, p.Provider, p.ProviderMFA)
		if err == nil && tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		return translate(err)
	})
}

// Verify notes that the person of a live session has just proved, by
// verifiedBy, who they are. ErrNotFound: the session is not theirs, or over.
func (s Sessions) Verify(ctx context.Context, idHash []byte, personID, verifiedBy string) error {
	return s.change(ctx, `UPDATE sessions SET verified_at = clock_timestamp(), verified_by = $3
		WHERE id_hash = $1 AND person_id = $2 AND expires_at > clock_timestamp()`, s.rowKey(sessionRow, idHash, personID), personID, verifiedBy)
}

// Delete ends a session, if there is one.
func (s Sessions) Delete(ctx context.Context, idHash []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	from, to := s.keyRange(sessionRow, idHash)
	_, err := s.pool.Exec(ctx, `DELETE FROM sessions WHERE id_hash BETWEEN $1 AND $2`, from, to)
	return translate(err)
}

// admin is administer without an answer to keep.
func (s *db) admin(ctx context.Context, e engine.Event, sql string, args ...any) error {
	return s.administer(ctx, nil, e, sql, args...)
}

// Names returns the names of the people and agents with these ids; an id that
// has none is left out.
func (s People) Names(ctx context.Context, ids []string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT id, name FROM people WHERE id = ANY ($1) UNION ALL SELECT id, name FROM agents WHERE id = ANY ($1)`, ids)
	if err != nil {
		return nil, translate(err)
	}
	names := map[string]string{}
	var id, name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	})
	return names, translate(err)
}

// ExcessRights names what the role that is logged in may do and must not: a
// runtime role that can change the audit log makes it worthless.
func (s *Store) ExcessRights(ctx context.Context) ([]string, error) {
	// The login for accounts writes them; the one for everything else must not.
	excess, err := s.ids(ctx, excessRights+accountRights)
	if err != nil || s.people == nil {
		return excess, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.people.Query(ctx, excessRights)
	if err != nil {
		return nil, translate(err)
	}
	more, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return append(excess, more...), translate(err)
}

const accountRights = ` UNION ALL SELECT 'write accounts' WHERE has_column_privilege('people', 'roles', 'UPDATE') OR
	has_column_privilege('people', 'password_hash', 'UPDATE') OR has_table_privilege('people', 'INSERT')`

const excessRights = `SELECT what FROM (VALUES
			('be a superuser', (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)),
			('own the events', pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = 'events'::regclass), 'USAGE')),
			('INSERT events', has_table_privilege('events', 'INSERT')),
			('UPDATE events', has_table_privilege('events', 'UPDATE')),
			('DELETE events', has_table_privilege('events', 'DELETE')),
			('TRUNCATE events', has_table_privilege('events', 'TRUNCATE')),
			('UPDATE log_entries', has_table_privilege('log_entries', 'INSERT, UPDATE, DELETE, TRUNCATE')),
			('UPDATE log_spans', has_table_privilege('log_spans', 'INSERT, UPDATE, DELETE, TRUNCATE')),
			('UPDATE log_cosignatures', has_table_privilege('log_cosignatures', 'UPDATE, DELETE, TRUNCATE')),
			('UPDATE cards', has_table_privilege('cards', 'UPDATE, DELETE, TRUNCATE')),
			('UPDATE log_tiles', has_table_privilege('log_tiles', 'INSERT, UPDATE, DELETE, TRUNCATE')),
			('UPDATE log_head', has_table_privilege('log_head', 'INSERT, UPDATE, DELETE, TRUNCATE')),
			('UPDATE log_checkpoints', has_table_privilege('log_checkpoints', 'INSERT, UPDATE, DELETE, TRUNCATE')),
			('UPDATE facts', has_table_privilege('facts', 'UPDATE')),
			('DELETE facts', has_table_privilege('facts', 'DELETE')),
			('INSERT erasures', has_table_privilege('erasures', 'INSERT')),
			('DELETE legal holds', has_table_privilege('legal_holds', 'DELETE')),
			('UPDATE the retention floor', has_column_privilege('retention_floor', 'shortest', 'UPDATE'))) AS rights (what, held) WHERE held`
