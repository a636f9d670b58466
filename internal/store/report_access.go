package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// Account is a person as reports look at them. Roles are the account's own,
// without those of being on call.
type Account struct {
	engine.Person
	CreatedAt  time.Time
	DisabledAt *time.Time
	// LastSignIn is the last time that the log has of their signing in, up to the
	// moment that was asked for; nil for never.
	LastSignIn *time.Time
	// TOTPSince is since when they have an authenticator app; Passkeys is how many
	// passkeys they have, and PasskeysSince since when the oldest.
	TOTPSince     *time.Time
	Passkeys      int
	PasskeysSince *time.Time
}

// Accounts lists everybody, by e-mail, with when they had last signed in at a
// moment. It takes one look into an index for each person.
func (s Reports) Accounts(ctx context.Context, at time.Time) ([]Account, error) {
	return collect(ctx, s.db, func(row pgx.CollectableRow) (Account, error) {
		var a Account
		err := row.Scan(&a.ID, &a.Email, &a.Name, &a.Identity, &a.Roles, &a.CreatedAt, &a.DisabledAt, &a.LastSignIn, &a.TOTPSince, &a.Passkeys, &a.PasskeysSince)
		a.Disabled = a.DisabledAt != nil
		return a, err
	}, `SELECT p.id, p.email, p.name, p.identity, p.roles, p.created_at, p.disabled_at,
			(SELECT e.appended_at FROM events e WHERE e.type = 'sign_in' AND e.outcome = 'ALLOW' AND event_code(e.body) = 'SIGNED_IN'
				AND event_actor(e.body) = p.id AND e.appended_at <= $1 ORDER BY e.appended_at DESC LIMIT 1),
			(SELECT t.confirmed_at FROM totp_factors t WHERE t.person_id = p.id),
			(SELECT count(*) FROM passkeys k WHERE k.person_id = p.id), (SELECT min(k.created_at) FROM passkeys k WHERE k.person_id = p.id)
		FROM people p ORDER BY p.email`, at)
}

// List lists up to limit API keys, the newest first, without their secrets.
func (s Keys) List(ctx context.Context, limit int) ([]Key, error) {
	return collect(ctx, s.db, func(row pgx.CollectableRow) (Key, error) {
		var k Key
		err := row.Scan(&k.ID, &k.AgentID, &k.PersonID, &k.PersonName, &k.Kind, &k.Scopes, &k.MaxState, &k.Label, &k.CreatedAt, &k.ExpiresAt, &k.RevokedAt, &k.LastUsedAt, &k.Dead)
		return k, err
	}, `SELECT k.id, coalesce(k.agent_id, ''), coalesce(k.person_id, ''), coalesce(p.name, ''), k.kind, k.scopes, k.max_state, k.label, k.created_at, k.expires_at, k.revoked_at, u.used_at, `+keyDead+`
		FROM keys k LEFT JOIN agents a ON a.id = k.agent_id LEFT JOIN people p ON p.id = k.person_id LEFT JOIN key_uses u ON u.key_id = k.id ORDER BY k.created_at DESC, k.id LIMIT $1`, limit)
}

// AwaitedRole is a role that pending approvals ask for.
type AwaitedRole struct {
	Role string
	// As is "decides", "one_of" (one of several groups) or "escalation".
	As        string
	Needed    int // the most that any of them needs
	Approvals int
}

// Awaited lists the roles that pending approvals ask for, or escalate to.
func (s Reports) Awaited(ctx context.Context) ([]AwaitedRole, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	voted := slices.DeleteFunc(engine.Kinds(), func(k engine.Kind) bool { return !k.Traits().VotesCount })
	rows, err := s.pool.Query(ctx, `WITH asked AS (
			SELECT a.id, r FROM approvals a, jsonb_array_elements(a.requirements) r WHERE a.status = 'pending')
		SELECT role, how, max(needed)::integer, count(DISTINCT id)::integer FROM (
			SELECT id, r->>'role' AS role, 'decides' AS how, (r->>'needed')::integer AS needed FROM asked WHERE r->>'kind' = ANY($1) AND NOT r ? 'any_of'
			UNION ALL
			SELECT id, g->>'role', 'one_of', (g->>'needed')::integer FROM asked, jsonb_array_elements(coalesce(r->'any_of', '[]')) g
			UNION ALL
			SELECT id, e->>'role', 'escalation', 1 FROM asked, jsonb_array_elements(coalesce(r->'escalation', '[]')) e
		) roles WHERE role <> '' GROUP BY role, how ORDER BY role, how`, voted)
	if err != nil {
		return nil, translate(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AwaitedRole])
	return list, translate(err)
}

const changeEvents = `type IN ('admin', 'grant', 'break_glass', 'review_afterwards')`

// ChangesOfAccess lists up to limit events by which somebody may do more or less
// than before, from since on and before until, the newest first. With a type,
// they are of that one.
func (s Reports) ChangesOfAccess(ctx context.Context, since, until time.Time, of engine.EventType, limit int) ([]engine.Event, error) {
	return s.reportEvents(ctx, `SELECT seq, appended_at, body FROM events WHERE `+changeEvents+`
		AND appended_at >= $1 AND appended_at < $2 AND ($3 = '' OR type = $3) ORDER BY appended_at DESC, seq DESC LIMIT $4`, since, until, string(of), limit)
}

// AdminEvents lists up to limit administrative events with the code, from since
// on and up to until, the newest first.
func (s Reports) AdminEvents(ctx context.Context, code string, since, until time.Time, limit int) ([]engine.Event, error) {
	return s.reportEvents(ctx, `SELECT seq, appended_at, body FROM events WHERE type = 'admin' AND event_code(body) = $1
		AND appended_at >= $2 AND appended_at <= $3 ORDER BY appended_at DESC, seq DESC LIMIT $4`, code, since, until, limit)
}

// EventsAbout lists up to limit administrative events about the accounts (by id
// or e-mail address) and keys, the newest first.
func (s Reports) EventsAbout(ctx context.Context, subjects []string, limit int) ([]engine.Event, error) {
	return s.reportEvents(ctx, `SELECT seq, appended_at, body FROM events WHERE type = 'admin' AND event_subject(body) IS NOT NULL
		AND event_subject(body) = ANY ($1) ORDER BY appended_at DESC, seq DESC LIMIT $2`, subjects, limit)
}

func (s Reports) reportEvents(ctx context.Context, sql string, args ...any) ([]engine.Event, error) {
	return collect(ctx, s.db, func(row pgx.CollectableRow) (engine.Event, error) {
		var e engine.Event
		var seq int64
		var at time.Time
		var body []byte
		if err := row.Scan(&seq, &at, &body); err != nil {
			return e, err
		}
		if err := json.Unmarshal(body, &e); err != nil {
			return e, fmt.Errorf("decode event %d: %w", seq, err)
		}
		e.Seq, e.Timestamp = seq, at
		return e, nil
	}, sql, args...)
}

// LogBegan is when the first event was appended. ErrNotFound: there is none.
func (s Reports) LogBegan(ctx context.Context) (time.Time, error) {
	return value[time.Time](ctx, s.db, `SELECT appended_at FROM events ORDER BY seq LIMIT 1`)
}

// DocumentByDigest returns a document, in force or not, by the digest of its
// bytes. ErrNotFound: there is none.
func (s Rules) DocumentByDigest(ctx context.Context, digest string) ([]byte, error) {
	return s.bytes(ctx, `SELECT body FROM documents WHERE digest = $1`, digest)
}

// RulesetOf returns the newest rules that were first used at or before a moment
// together with the policy of that digest ("" for none), and when they were.
// ErrNotFound: none were.
func (s Rules) RulesetOf(ctx context.Context, at time.Time, policyDigest string) ([]byte, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var body []byte
	var first time.Time
	err := s.pool.QueryRow(ctx, `SELECT body, first_at FROM rulesets
		WHERE first_at <= $1 AND coalesce(convert_from(body, 'UTF8')::jsonb->>'policy', '') = $2 ORDER BY first_at DESC LIMIT 1`, at, policyDigest).Scan(&body, &first)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, first, ErrNotFound
	}
	return body, first, translate(err)
}
