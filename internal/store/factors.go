package store

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/passkey"
	"holdpoint/internal/seal"
)

// factorsOf lists the second factors of the person p, for a query.
const factorsOf = `array_remove(ARRAY[
		CASE WHEN EXISTS (SELECT FROM passkeys k WHERE k.person_id = p.id) THEN 'passkey' END,
		CASE WHEN EXISTS (SELECT FROM totp_factors t WHERE t.person_id = p.id AND t.confirmed_at IS NOT NULL) THEN 'totp' END], NULL)`

// Of lists which second factors a person has, of "passkey" and
// "totp" in that order. ErrNotFound: there is no such person who is enabled.
func (s Factors) Of(ctx context.Context, personID string) ([]string, error) {
	return value[[]string](ctx, s.db, `SELECT `+factorsOf+` FROM people p WHERE p.id = $1 AND p.disabled_at IS NULL`, personID)
}

// exec runs a statement, however many rows it changes.
func (s *db) exec(ctx context.Context, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, sql, args...)
	return translate(err)
}

// value reads the one value of the one row that a statement returns. ErrNotFound: it returned none.
func value[T any](ctx context.Context, s *db, sql string, args ...any) (v T, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, sql, args...).Scan(&v)
	return v, translate(err)
}

// change runs a statement that changes one row. ErrNotFound: it changed none.
func (s *db) change(ctx context.Context, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, sql, args...)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrNotFound
	}
	return translate(err)
}

// TOTP is an authenticator app that somebody has enrolled, or is about to.
type TOTP struct {
	Secret    []byte
	CreatedAt time.Time
	Confirmed bool
	LastStep  int64
	// Now is the database's clock, when this was read.
	Now time.Time
}

func totpName(personID string) string { return "totp " + personID }

// PutTOTP keeps a secret that is yet to be confirmed, in the place of another
// such. ErrNotFound: a confirmed one is there, and stays.
func (s Factors) PutTOTP(ctx context.Context, personID string, secret []byte) error {
	box, err := s.sealer.Seal(totpName(personID), secret)
	if err != nil {
		return fmt.Errorf("seal a TOTP secret: %w", err)
	}
	return s.change(ctx, `INSERT INTO totp_factors AS f (person_id, secret, secret_key) VALUES ($1, $2, $3)
		ON CONFLICT (person_id) DO UPDATE SET secret = excluded.secret, secret_key = excluded.secret_key, created_at = clock_timestamp()
		WHERE f.confirmed_at IS NULL`, personID, box.Data, box.Key)
}

// TOTP reads a person's authenticator app. ErrNotFound: there is none.
func (s Factors) TOTP(ctx context.Context, personID string) (TOTP, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var t TOTP
	var box seal.Box
	err := s.pool.QueryRow(ctx, `SELECT secret, secret_key, created_at, confirmed_at IS NOT NULL, last_step, clock_timestamp()
		FROM totp_factors WHERE person_id = $1`, personID).Scan(&box.Data, &box.Key, &t.CreatedAt, &t.Confirmed, &t.LastStep, &t.Now)
	if err != nil {
		return TOTP{}, translate(err)
	}
	if t.Secret, err = s.sealer.Open(totpName(personID), box); err != nil {
		return TOTP{}, fmt.Errorf("open a TOTP secret: %w", err)
	}
	return t, nil
}

// ConfirmTOTP makes the unconfirmed secret that was kept at createdAt a factor,
// whose code of the step has been seen. ErrNotFound: it is not there any more.
func (s Factors) ConfirmTOTP(ctx context.Context, personID string, createdAt time.Time, step int64, e engine.Event) error {
	return s.admin(ctx, e, `UPDATE totp_factors SET confirmed_at = clock_timestamp(), last_step = $3
		WHERE person_id = $1 AND created_at = $2 AND confirmed_at IS NULL`, personID, createdAt, step)
}

// UseTOTP takes the code of a step and gives the attempt back that it was.
// ErrNotFound: a code of that step or a later one has been taken before.
func (s Factors) UseTOTP(ctx context.Context, personID string, step, attempt int64) error {
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE totp_factors SET last_step = $2 WHERE person_id = $1 AND last_step < $2 AND confirmed_at IS NOT NULL`, personID, step)
		if err == nil && tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM proof_attempts WHERE id = $1`, attempt)
		}
		return translate(err)
	})
}

// DeleteTOTP removes a person's confirmed authenticator app. ErrNotFound: there is none.
func (s Factors) DeleteTOTP(ctx context.Context, personID string, e engine.Event) error {
	return s.admin(ctx, e, `DELETE FROM totp_factors WHERE person_id = $1 AND confirmed_at IS NOT NULL`, personID)
}

// Passkey is a WebAuthn credential of a person.
type Passkey struct {
	ID         []byte // the credential id
	PersonID   string
	PublicKey  []byte // COSE
	SignCount  uint32
	AAGUID     []byte // 16 bytes: the authenticator's model
	Transports []string
	Name       string
	// BackupEligible says that it may be copied to other devices, BackedUp that
	// it has been.
	BackupEligible, BackedUp bool
	CreatedAt                time.Time
	LastUsedAt               *time.Time
}

// MaxPasskeys is how many passkeys a person may have.
const MaxPasskeys = 20

var passkeyRows = newRows(func(k *Passkey) columns {
	return columns{
		{"credential_id", &k.ID},
		{"person_id", &k.PersonID},
		{"public_key", &k.PublicKey},
		{"sign_count", &k.SignCount},
		{"aaguid", &k.AAGUID},
		{"transports", &k.Transports},
		{"name", &k.Name},
		{"backup_eligible", &k.BackupEligible},
		{"backed_up", &k.BackedUp},
		{"created_at", &k.CreatedAt},
		{"last_used_at", &k.LastUsedAt},
	}
})

// Keys are the person's passkeys as the audit log knows them.
func (s Factors) Keys(ctx context.Context, personID string) (*passkey.Keys, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	keys, err := keysOf(ctx, s.pool.Query, personID)
	return keys, translate(err)
}

// passkeyEventsOf selects the events that tell of the passkeys of some people; both are
// arrays in SQL, codes is passkey.Codes.
func passkeyEventsOf(people, codes string) string {
	return `SELECT * FROM events e WHERE e.type = 'admin' AND event_subject(e.body) = ANY (` + people + `) AND event_code(e.body) = ANY (` + codes + `) AND e.outcome <> 'DENY'`
}

func keysOf(ctx context.Context, query func(ctx context.Context, sql string, args ...any) (pgx.Rows, error), person string) (*passkey.Keys, error) {
	keys := &passkey.Keys{}
	rows, err := query(ctx, `SELECT -1::bigint, `+recordColumns+` FROM events e
		WHERE e.type = 'admin' AND event_subject(e.body) = $1 AND event_code(e.body) = ANY ($2) AND e.outcome <> 'DENY' ORDER BY e.seq`, person, passkey.Codes())
	if err != nil {
		return nil, err
	}
	events, err := pgx.CollectRows(rows, scanLogged)
	for _, e := range events {
		_ = keys.Event(e) // what the log does not bear out changes nothing
	}
	return keys, err
}

// PasskeyEvents are the ids of the events that tell of a person's passkeys, in the order
// in which they were appended.
func (s Factors) PasskeyEvents(ctx context.Context, personID string) ([]string, error) {
	return s.ids(ctx, `SELECT e.event_id::text FROM events e
		WHERE e.type = 'admin' AND event_subject(e.body) = $1 AND event_code(e.body) = ANY ($2) AND e.outcome <> 'DENY' ORDER BY e.seq`, personID, passkey.Codes())
}

// ErrNotSigned says that what changes a person's passkeys is not signed as they are now.
var ErrNotSigned = errors.New("a change of passkeys is not signed")

// changePasskeys runs a change of a person's passkeys whose event follows from those
// that the log has. ErrNotSigned: it does not.
func (s Factors) changePasskeys(ctx context.Context, personID string, e engine.Event, sql string, args ...any) error {
	return s.administerIn(ctx, nil, e, func(ctx context.Context, tx pgx.Tx) error {
		// Of two changes at once, the second is to see the first one's event.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('passkeys ' || $1, 0))`, personID); err != nil {
			return translate(err)
		}
		keys, err := keysOf(ctx, tx.Query, personID)
		if err != nil {
			return translate(err)
		}
		if err := keys.Event(e); err != nil {
			return fmt.Errorf("%w: %w", ErrNotSigned, err)
		}
		tag, err := tx.Exec(ctx, sql, args...)
		if err == nil && tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		return translate(err)
	})
}

// CreatePasskey stores a passkey. ErrConflict: the credential is known already,
// as anybody's. ErrNotFound: the person has as many as one may have. ErrNotSigned: the
// event lacks the signature of one that is there.
func (s Factors) CreatePasskey(ctx context.Context, k Passkey, e engine.Event) error {
	return s.changePasskeys(ctx, k.PersonID, e, `INSERT INTO passkeys (credential_id, person_id, public_key, sign_count, aaguid, transports, name, backup_eligible, backed_up)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 WHERE (SELECT count(*) FROM passkeys WHERE person_id = $2) < $10`,
		k.ID, k.PersonID, k.PublicKey, int64(k.SignCount), k.AAGUID, k.Transports, k.Name, k.BackupEligible, k.BackedUp, MaxPasskeys)
}

// Passkeys lists a person's passkeys, the oldest first.
func (s Factors) Passkeys(ctx context.Context, personID string) ([]Passkey, error) {
	return passkeyRows.query(ctx, s.db, `SELECT `+passkeyRows.names+` FROM passkeys WHERE person_id = $1 ORDER BY created_at, credential_id`, personID)
}

// UsePasskey notes that a passkey was used. Where the authenticator counts, the
// count has to grow. ErrNotFound: it did not, or the passkey is gone.
func (s Factors) UsePasskey(ctx context.Context, personID string, id []byte, signCount uint32, backedUp bool) error {
	return s.change(ctx, `UPDATE passkeys SET sign_count = $3, backed_up = $4, last_used_at = clock_timestamp()
		WHERE credential_id = $2 AND person_id = $1 AND (sign_count < $3 OR sign_count = 0 AND $3 = 0)`, personID, id, int64(signCount), backedUp)
}

// RenamePasskey gives a person's passkey another name. ErrNotFound: it is not theirs.
func (s Factors) RenamePasskey(ctx context.Context, personID string, id []byte, name string) error {
	return s.change(ctx, `UPDATE passkeys SET name = $3 WHERE credential_id = $2 AND person_id = $1`, personID, id, name)
}

// DeletePasskey removes a person's passkey. ErrNotFound: it is not theirs.
// ErrNotSigned: the event lacks the signature of one that is there.
func (s Factors) DeletePasskey(ctx context.Context, personID string, id []byte, e engine.Event) error {
	return s.changePasskeys(ctx, personID, e, `DELETE FROM passkeys WHERE credential_id = $2 AND person_id = $1`, personID, id)
}

// Reset removes all second factors of the person with the e-mail address,
// ends their sessions, what they were about to prove, their browsers' notifications and their link to Slack, and returns how
// many factors there were. ErrNotFound: there is no such person.
func (s Factors) Reset(ctx context.Context, email string, e engine.Event) (removed int64, err error) {
	err = s.inTxOn(ctx, s.reserve, func(ctx context.Context, tx pgx.Tx) error {
		removed = 0
		// As sign-ins do: a session is there before, and ends, or does not begin.
		if err := lockPeople(ctx, tx); err != nil {
			return err
		}
		var id string
		if err := tx.QueryRow(ctx, `SELECT id FROM people WHERE email = $1`, email).Scan(&id); err != nil {
			return translate(err)
		}
		for _, table := range []string{"totp_factors", "passkeys", "challenges", "proof_attempts", "sessions", "push_subscriptions", "slack_links", "slack_codes"} {
			tag, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE person_id = $1`, id)
			if err != nil {
				return translate(err)
			}
			if table == "totp_factors" || table == "passkeys" {
				removed += tag.RowsAffected()
			}
		}
		rows := &pgx.Batch{}
		queueEvents(rows, []engine.Event{e}, nil)
		return translate(tx.SendBatch(ctx, rows).Close())
	})
	return removed, err
}

// Challenge is something that somebody was asked to prove.
type Challenge struct {
	IDHash   []byte // SHA-256 of the id that the browser holds
	PersonID string
	Purpose  string
	BoundTo  string
	Data     json.RawMessage
}

// Of a person at most so many challenges of a purpose are under way; the oldest
// make room.
const maxChallenges = 20

// CreateChallenge keeps a challenge for a while of at most five minutes, and
// drops those of the same person that are over.
func (s Factors) CreateChallenge(ctx context.Context, c Challenge, lasting time.Duration) error {
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM challenges WHERE person_id = $1 AND (expires_at < clock_timestamp() OR id_hash IN (
			SELECT id_hash FROM challenges WHERE person_id = $1 AND purpose = $2 ORDER BY created_at DESC, id_hash OFFSET $3))`,
			c.PersonID, c.Purpose, maxChallenges-1)
		if err != nil {
			return translate(err)
		}
		_, err = tx.Exec(ctx, `INSERT INTO challenges (id_hash, person_id, purpose, bound_to, data, expires_at)
			VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))`, s.challengeKey(c), c.PersonID, c.Purpose, c.BoundTo, c.Data, lasting.Seconds())
		return translate(err)
	})
}

// Challenge reads a challenge of a purpose without using it up. ErrNotFound:
// there is none, it is over, or its person is disabled.
func (s Factors) Challenge(ctx context.Context, idHash []byte, purpose string) (Challenge, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	from, to := s.keyRange(challengeRow, idHash)
	rows, err := s.pool.Query(ctx, `SELECT c.id_hash, c.person_id, c.purpose, c.bound_to, c.data, true FROM challenges c JOIN people p ON p.id = c.person_id
		WHERE c.id_hash BETWEEN $1 AND $2 AND c.purpose = $3 AND c.expires_at > clock_timestamp() AND p.disabled_at IS NULL`, from, to, purpose)
	if err != nil {
		return Challenge{}, translate(err)
	}
	return s.genuine(rows, idHash)
}

// challengeKey is the key of a challenge's row, which binds all of it.
func (s Factors) challengeKey(c Challenge) []byte {
	data := string(c.Data)
	if v, err := canon.Parse(c.Data); err == nil {
		data = string(v.Canonical()) // the database writes it in its own way
	}
	return s.rowKey(challengeRow, c.IDHash, c.PersonID, c.Purpose, c.BoundTo, data)
}

// genuine is the challenge of ours among those with one secret, of which whoever can
// write rows may have written others. ErrNotFound: there is none, or it is over.
func (s Factors) genuine(rows pgx.Rows, idHash []byte) (Challenge, error) {
	found := Challenge{}
	var live, is bool
	var key []byte
	c := Challenge{IDHash: idHash}
	_, err := pgx.ForEachRow(rows, []any{&key, &c.PersonID, &c.Purpose, &c.BoundTo, &c.Data, &live}, func() error {
		if live && hmac.Equal(key, s.challengeKey(c)) {
			found, is = c, true
			found.Data = slices.Clone(c.Data)
		}
		return nil
	})
	if err == nil && !is {
		return Challenge{}, ErrNotFound
	}
	return found, translate(err)
}

// TakeChallenge uses a person's challenge up, whatever its purpose. ErrNotFound:
// there is none, it was taken before, it is over, or it is somebody else's.
func (s Factors) TakeChallenge(ctx context.Context, idHash []byte, personID string) (Challenge, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	from, to := s.keyRange(challengeRow, idHash)
	rows, err := s.pool.Query(ctx, `DELETE FROM challenges WHERE id_hash BETWEEN $1 AND $2 AND person_id = $3
		RETURNING id_hash, person_id, purpose, bound_to, data, expires_at > clock_timestamp()`, from, to, personID)
	if err != nil {
		return Challenge{}, translate(err)
	}
	return s.genuine(rows, idHash)
}

// ErrTooMany says that somebody has made as many attempts, or has as many of something, as they may.
var ErrTooMany = errors.New("too many attempts")

// TakeAttempt counts an attempt of a person before it is looked at. ErrTooMany:
// there have been most within the window, and the next may be made after wait.
func (s Factors) TakeAttempt(ctx context.Context, personID string, most int, window time.Duration) (attempt int64, wait time.Duration, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// Attempts that are made at the same moment are counted one after the other.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('proof_attempts ' || $1, 0))`, personID); err != nil {
			return translate(err)
		}
		var made int
		var seconds float64
		err := tx.QueryRow(ctx, `WITH gone AS (DELETE FROM proof_attempts WHERE person_id = $1 AND at < (SELECT clock_timestamp()) - make_interval(secs => $2))
			SELECT count(*), coalesce(extract(epoch FROM min(at) + make_interval(secs => $2) - clock_timestamp()), 0)
			FROM proof_attempts WHERE person_id = $1 AND at >= (SELECT clock_timestamp()) - make_interval(secs => $2)`, personID, window.Seconds()).Scan(&made, &seconds)
		if err != nil {
			return translate(err)
		}
		if made >= most {
			wait = max(time.Duration(seconds*float64(time.Second)), time.Second)
			return ErrTooMany
		}
		return translate(tx.QueryRow(ctx, `INSERT INTO proof_attempts (person_id) VALUES ($1) RETURNING id`, personID).Scan(&attempt))
	})
	return attempt, wait, err
}

// ReturnAttempt gives an attempt back that was right.
func (s Factors) ReturnAttempt(ctx context.Context, attempt int64) error {
	return s.change(ctx, `DELETE FROM proof_attempts WHERE id = $1`, attempt)
}
