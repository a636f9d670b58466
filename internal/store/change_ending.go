package store

import (
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/passkey"
	"holdpoint/internal/seal"
)

// TokenRow is the permission that a token stands for.
type TokenRow struct {
	JTI        string
	ValidUntil time.Time
	RedeemedAt *time.Time
	RedeemedBy string
	// Constraints are the decision's, as the reviewers have tightened them; nil
	// means the decision's own.
	Constraints json.RawMessage
	// LeaseUntil is by when the agent has to say what became of the call.
	LeaseUntil *time.Time
	// StaleAt is since when the call is known not to fit the world any more.
	StaleAt *time.Time
}

var tokenRows = newRows(func(t *TokenRow) columns {
	return columns{
		{"jti", &t.JTI},
		{"valid_until", &t.ValidUntil},
		{"redeemed_at", &t.RedeemedAt},
		{"coalesce(redeemed_by, '')", &t.RedeemedBy},
		{"constraints", &t.Constraints},
		{"lease_until", &t.LeaseUntil},
		{"stale_at", &t.StaleAt},
	}
})

// tokenID is a token's id with a keyed hash behind it, by which one that Settle has not
// made for this approval is known.
func tokenID(sealer *seal.Sealer, approvalID, id string) string {
	return id + hex.EncodeToString(sealer.Row("token", approvalID, id)[:tokenHash])
}

const tokenHash = 16 // bytes

func authenticToken(sealer *seal.Sealer, approvalID, id string) bool {
	bare := len(id) - hex.EncodedLen(tokenHash)
	return bare > 0 && hmac.Equal([]byte(id), []byte(tokenID(sealer, approvalID, id[:bare])))
}

// queueToken reads an approval's token. One that the programs have not made is none;
// approvals that began before facts had keyed hashes have tokens without. Where votes
// have to be signed, neither is one of an approval that its events do not bear out: no
// key of ours can stand for the signatures.
func queueToken(rows *pgx.Batch, sealer *seal.Sealer, id string, into **TokenRow) {
	rows.Queue(`SELECT `+tokenRows.names+`, EXISTS (SELECT FROM events e WHERE e.approval_id = t.approval_id AND e.type = 'decision'
			AND position('"keyed_facts":true'::bytea IN e.body) > 0)
		FROM tokens t WHERE t.approval_id = $1`, id).QueryRow(func(row pgx.Row) error {
		var keyed bool
		t, err := tokenRows.one(row, &keyed)
		if errors.Is(err, ErrNotFound) || err == nil && keyed && sealer != nil && !authenticToken(sealer, id, t.JTI) {
			return nil
		}
		*into = &t
		return err
	})
	rows.Queue(`SELECT -1::bigint, `+recordColumns+` FROM (`+eventsOf+`) e
		WHERE EXISTS (SELECT FROM tokens WHERE approval_id = $1) AND EXISTS (SELECT FROM events WHERE approval_id = $1
			AND type IN ('decision', 'edit', 'reopen') AND position('"signed":true'::bytea IN body) > 0) ORDER BY e.seq`, id, passkey.Codes()).Query(func(r pgx.Rows) error {
		events, err := pgx.CollectRows(r, scanLogged)
		if audit.Contradiction(events) != nil {
			*into = nil
		}
		return err
	})
}

// RequireBreakGlassReview notes that somebody has to look at this approval afterwards.
func (c *Change) RequireBreakGlassReview() error {
	_, err := c.tx.Exec(c.ctx, `INSERT INTO afterwards (approval_id) VALUES ($1) ON CONFLICT DO NOTHING`, c.Approval.ID)
	return translate(err)
}

// Settle writes the terminal state. With a token id, the approval's token row
// is made, good for validFor from now on.
// Constraints, when they are not nil, are what the reviewers have tightened the
// decision's to.
func (c *Change) Settle(status approval.Status, reasons []engine.Reason, jti string, validFor time.Duration, constraints json.RawMessage) error {
	final := c.Approval.State.Final()
	err := c.tx.QueryRow(c.ctx, `UPDATE approvals SET status = $2, reasons = $3, final = $4, version = version + 1,
			due_at = NULL, open_to = '{}', spoken = '{}', waits_for = '', claimed_by = '', noes = '[]' WHERE id = $1
		RETURNING ended_at, version`, c.Approval.ID, status, &reasons, &final).Scan(&c.Approval.EndedAt, &c.Approval.Version)
	if err != nil {
		return translate(err)
	}
	c.Approval.Status, c.Approval.Reasons, c.Approval.Final = status, reasons, &final
	c.settled = true
	if jti == "" {
		return nil
	}
	if c.sealer != nil {
		jti = tokenID(c.sealer, c.Approval.ID, jti)
	}
	t := TokenRow{JTI: jti, Constraints: constraints}
	err = c.tx.QueryRow(c.ctx, `INSERT INTO tokens (jti, approval_id, valid_until, constraints) VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3), $4)
		RETURNING valid_until`, jti, c.Approval.ID, validFor.Seconds(), constraints).Scan(&t.ValidUntil)
	if err != nil {
		return translate(err)
	}
	c.Token = &t
	return nil
}

// Redeem spends the approval's token. It is an error when it is spent already.
// The agent has lease from now on to say what became of the call: the workflow
// is told, and wakes for its end.
func (c *Change) Redeem(by string, lease time.Duration) error {
	until := c.Now.Add(lease)
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE tokens SET redeemed_by = $2, lease_until = $3 WHERE approval_id = $1`, c.Approval.ID, by, until)
	batch.Queue(`UPDATE approvals SET execution = 'redeemed', wake_at = $2 WHERE id = $1`, c.Approval.ID, until)
	batch.Queue(`INSERT INTO outbox (approval_id, traceparent, may_wait) VALUES ($1, $2, true)`, c.Approval.ID, traceparent(trace.SpanContextFromContext(c.ctx)))
	c.Approval.Execution = approval.Redeemed
	return translate(c.tx.SendBatch(c.ctx, batch).Close())
}

// Stale marks the token of a call that does not fit the world any more: it can
// never be redeemed.
func (c *Change) Stale() error {
	_, err := c.tx.Exec(c.ctx, `UPDATE tokens SET stale_at = clock_timestamp() WHERE approval_id = $1`, c.Approval.ID)
	return translate(err)
}

// Succeed names the approval that was opened in this one's place.
func (c *Change) Succeed(id string) error {
	_, err := c.tx.Exec(c.ctx, `UPDATE approvals SET successor = $2 WHERE id = $1 AND successor IS NULL`, c.Approval.ID, id)
	c.Approval.Successor = id
	return translate(err)
}

// SaltedComment is what a person writes of a call after it was decided, and the salt of the
// digest that the event has of it: "" from before there was one, and once erased.
type SaltedComment struct{ Comment, Salt string }

// Reconcile records what a person found out about a call of which nobody knew
// whether it had run.
func (c *Change) Reconcile(personID string, e approval.Execution, w SaltedComment) error {
	_, err := c.tx.Exec(c.ctx, `INSERT INTO reconciliations (approval_id, person_id, outcome, comment, salt) VALUES ($1, $2, $3, $4, $5)`, c.Approval.ID, personID, e, w.Comment, w.Salt)
	if err != nil {
		return translate(err)
	}
	return c.Executed(e)
}

// BreakGlassReview is what somebody has to say, or has said, of an approval for which
// one person broke the glass.
type BreakGlassReview struct {
	PersonID  string
	Justified bool
	SaltedComment
	DueSince time.Time
	DoneAt   *time.Time
}

// BreakGlassReview returns what is owed of an approval; nil for nothing.
func (c *Change) BreakGlassReview() (*BreakGlassReview, error) {
	a, err := breakGlassReviewRows.one(c.tx.QueryRow(c.ctx, `SELECT `+breakGlassReviewRows.names+` FROM afterwards WHERE approval_id = $1 FOR UPDATE`, c.Approval.ID))
	if errors.Is(err, ErrNotFound) {
		return nil, nil //nolint:nilnil // nothing owed is no error
	}
	return &a, err
}

// ReviewBreakGlass records what the person says of it afterwards.
func (c *Change) ReviewBreakGlass(personID string, justified bool, w SaltedComment) error {
	_, err := c.tx.Exec(c.ctx, `WITH done AS (UPDATE afterwards SET person_id = $2, justified = $3, comment = $4, salt = $5, done_at = clock_timestamp() WHERE approval_id = $1)
		UPDATE approvals SET revision = revision + 1 WHERE id = $1`, c.Approval.ID, personID, justified, w.Comment, w.Salt)
	return translate(err)
}

// Executed records what became of the redeemed call.
func (c *Change) Executed(e approval.Execution) error {
	_, err := c.tx.Exec(c.ctx, `UPDATE approvals SET execution = $2 WHERE id = $1`, c.Approval.ID, e)
	c.Approval.Execution = e
	return translate(err)
}
