package store

import (
	"context"
	"crypto/hmac"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// Slack keeps who people are in Slack, and which of Slack's requests were taken.
type Slack struct{ *db }

// SlackAccount is an account in Slack.
type SlackAccount struct{ Team, User string }

// SlackLink says whose an account is here.
type SlackLink struct {
	SlackAccount
	LinkedAt time.Time
}

// keepSlackRequests is how long a signature is kept: longer than any request can pass,
// whichever way the clocks differ.
const keepSlackRequests = 15 * time.Minute

// codeRow is the kind of row of a code.
const codeRow = "slack code"

// bound is what a link's row is known by. app is the secret that signs the app's requests.
func (s Slack) bound(personID string, a SlackAccount, app string) []byte {
	return s.sealer.Row("slack link", personID, a.Team, a.User, app)
}

// Take notes that a request is taken. ErrConflict: it was taken before, here or elsewhere.
func (s Slack) Take(ctx context.Context, signature []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, `WITH past AS (DELETE FROM slack_requests WHERE at < (SELECT clock_timestamp()) - make_interval(secs => $2))
		INSERT INTO slack_requests (signature) VALUES ($1) ON CONFLICT DO NOTHING`, signature, keepSlackRequests.Seconds())
	if err == nil && tag.RowsAffected() == 0 {
		return ErrConflict
	}
	return translate(err)
}

// SetCode gives a person a code by which they can link an account, in place of the one
// that they had.
func (s Slack) SetCode(ctx context.Context, personID, code string, lasts time.Duration, e engine.Event) error {
	return s.administerIn(ctx, nil, e, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockSlack(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM slack_codes WHERE person_id = $1 OR expires_at < clock_timestamp()`, personID); err != nil {
			return translate(err)
		}
		_, err := tx.Exec(ctx, `INSERT INTO slack_codes (person_id, code_hash, expires_at) SELECT id, $2, clock_timestamp() + make_interval(secs => $3) FROM people
			WHERE id = $1 AND disabled_at IS NULL`, personID, s.rowKey(codeRow, []byte(code), personID), lasts.Seconds())
		return translate(err)
	})
}

// lockSlack has changes of links and codes follow each other: a person has one of each.
func lockSlack(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('slack', 0))`)
	return translate(err)
}

// Link uses a code up: the account is from now on its person's, and no other one is.
// ErrNotFound: there is no such code, or it is over.
func (s Slack) Link(ctx context.Context, code string, a SlackAccount, app string, event func(personID string) engine.Event) error {
	_, err := administerWith(ctx, s.db, nil, func(ctx context.Context, tx pgx.Tx) (Done, engine.Event, error) {
		var e engine.Event
		if err := lockSlack(ctx, tx); err != nil {
			return Done{}, e, err
		}
		var person string
		var key []byte
		from, to := s.keyRange(codeRow, []byte(code))
		if err := tx.QueryRow(ctx, `DELETE FROM slack_codes c USING people p WHERE c.code_hash BETWEEN $1 AND $2 AND c.expires_at > clock_timestamp()
			AND p.id = c.person_id AND p.disabled_at IS NULL RETURNING c.person_id, c.code_hash`, from, to).Scan(&person, &key); err != nil {
			return Done{}, e, translate(err)
		}
		if !hmac.Equal(key, s.rowKey(codeRow, []byte(code), person)) {
			return Done{}, e, ErrNotFound // not a row of ours
		}
		if _, err := tx.Exec(ctx, `DELETE FROM slack_links WHERE person_id = $1 OR team_id = $2 AND user_id = $3`, person, a.Team, a.User); err != nil {
			return Done{}, e, translate(err)
		}
		_, err := tx.Exec(ctx, `INSERT INTO slack_links (person_id, team_id, user_id, bound) VALUES ($1, $2, $3, $4)`, person, a.Team, a.User, s.bound(person, a, app))
		return Done{}, event(person), translate(err)
	})
	return err
}

// Person returns whose an account is, with the second factors that they have, and with no
// proof of who they are. ErrNotFound: it is nobody's, was linked by another app, or its
// person is disabled.
func (s Slack) Person(ctx context.Context, a SlackAccount, app string) (engine.Person, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var factors []string
	var bound []byte
	p, err := personRows.one(s.pool.QueryRow(ctx, `SELECT `+personRows.names+`, `+factorsOf+`, s.bound FROM slack_links s JOIN people p ON p.id = s.person_id
		WHERE s.team_id = $1 AND s.user_id = $2 AND p.disabled_at IS NULL`, a.Team, a.User), &factors, &bound)
	if err == nil && !hmac.Equal(bound, s.bound(p.ID, a, app)) {
		err = ErrNotFound
	}
	p.Factors = factors
	return p, translate(err)
}

// Of returns a person's account; nil for none.
func (s Slack) Of(ctx context.Context, personID string) (*SlackLink, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var l SlackLink
	err := translate(s.pool.QueryRow(ctx, `SELECT team_id, user_id, linked_at FROM slack_links WHERE person_id = $1`, personID).Scan(&l.Team, &l.User, &l.LinkedAt))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &l, nil
}

// Unlink ends a person's link. ErrNotFound: there is none.
func (s Slack) Unlink(ctx context.Context, personID string, e engine.Event) error {
	return s.admin(ctx, e, `DELETE FROM slack_links WHERE person_id = $1`, personID)
}

// There reports whether anything can be decided in Slack: whether an endpoint that is
// switched on allows it.
func (s Slack) There(ctx context.Context) (bool, error) {
	ids, err := s.ids(ctx, `SELECT id FROM endpoints WHERE kind = 'slack' AND disabled_at IS NULL AND settings->>'decide' <> '' ORDER BY id LIMIT 1`)
	return len(ids) > 0, err
}
