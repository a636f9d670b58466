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
	"holdpoint/engine/registry"
	"holdpoint/internal/seal"
)

// Change is an approval under its row lock, with its facts as they are and the
// database's clock read after the lock was had: nothing can change it while a
// caller looks and decides. What the methods write commits together, or not at
// all.
type Change struct {
	Approval approval.Approval
	Now      time.Time
	MaxState string
	Sealed   seal.Box
	// Token is nil until the approval is approved.
	Token *TokenRow
	// Kill is the switch that stops the approval's agent; nil when none does. It
	// was read under the lock, and what grants anything is refused all the same
	// when one is thrown before the change commits.
	Kill *registry.Kill
	// Revoked holds the ids of signing keys that must not be believed.
	Revoked []string

	ctx    context.Context //nolint:containedctx // a Change lives no longer than the call that it is passed to
	tx     pgx.Tx
	events []engine.Event
}

// TokenRow is the permission that a token stands for.
type TokenRow struct {
	JTI        string
	ValidUntil time.Time
	RedeemedAt *time.Time
	RedeemedBy string
}

// Change locks the approval and runs fn; when fn returns nil, everything that
// it wrote commits at once, together with the answer kept for once (which may
// be nil). result is what once.Render is given. An error of fn rolls all of it
// back and is returned as it is. ErrNotFound: there is no such approval.
func (s *Store) Change(ctx context.Context, id string, once *Once, fn func(c *Change) (result any, refused error, err error)) error {
	if !ValidApprovalID(id) {
		return ErrNotFound
	}
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if once != nil {
			// Under the key's lock: of two repetitions at once, the second waits
			// here and finds the first one's answer.
			if err := lockKeys(ctx, tx, []int64{once.lock()}); err != nil {
				return err
			}
			if err := s.replayIn(ctx, tx, once); err != nil {
				return err
			}
		}
		c := &Change{ctx: ctx, tx: tx}
		if err := c.load(id); err != nil {
			return err
		}
		result, refused, err := fn(c)
		if err != nil {
			return err
		}
		rows := &pgx.Batch{}
		if len(c.events) > 0 {
			if err := queueEvents(rows, c.events, false, nil); err != nil {
				return err
			}
		}
		if once != nil {
			if err := s.queueReply(rows, once, id, once.Render(result, refused)); err != nil {
				return err
			}
		}
		return translate(tx.SendBatch(ctx, rows).Close())
	})
}

const approvalColumns = `id, agent_id, request_id, dialect, tool, category, risk_domain, environment, digest, requested_by,
	decision, requirements, excluded, opened_at, expires_at, status, version, revision, ended_at, reasons, final, execution`

func scanApproval(row pgx.Row, more ...any) (approval.Approval, error) {
	var a approval.Approval
	var requestedBy, decision, requirements, reasons, final []byte
	var endedAt *time.Time
	c := &a.Call
	err := row.Scan(append([]any{
		&a.ID, &c.AgentID, &c.RequestID, &c.Dialect, &c.Tool, &c.Category, &c.RiskDomain, &c.Environment, &c.Digest,
		&requestedBy, &decision, &requirements, &a.Plan.Excluded, &a.Plan.OpenedAt, &a.Plan.ExpiresAt,
		&a.Status, &a.Version, &a.Revision, &endedAt, &reasons, &final, &a.Execution,
	}, more...)...)
	if err != nil {
		return a, translate(err)
	}
	err = errors.Join(json.Unmarshal(requestedBy, &a.RequestedBy), json.Unmarshal(decision, &a.Decision),
		json.Unmarshal(requirements, &a.Plan.Requirements), json.Unmarshal(reasons, &a.Reasons))
	if final != nil {
		err = errors.Join(err, json.Unmarshal(final, &a.Final))
	}
	if err != nil {
		return a, fmt.Errorf("decode approval %s: %w", a.ID, err)
	}
	if endedAt != nil {
		a.EndedAt = endedAt.UTC()
	}
	a.Plan.OpenedAt, a.Plan.ExpiresAt = a.Plan.OpenedAt.UTC(), a.Plan.ExpiresAt.UTC()
	return a, nil
}

// load takes the lock, then reads everything else and the clock: statements
// that begin after the lock was had see all that was committed before.
func (c *Change) load(id string) error {
	var err error
	row := c.tx.QueryRow(c.ctx, `SELECT `+approvalColumns+`, max_state, sealed, sealed_key FROM approvals WHERE id = $1 FOR UPDATE`, id)
	if c.Approval, err = scanApproval(row, &c.MaxState, &c.Sealed.Data, &c.Sealed.Key); err != nil {
		return err
	}
	rows := &pgx.Batch{}
	queueFacts(rows, id, &c.Approval.Facts)
	queueToken(rows, id, &c.Token)
	rows.Queue(`SELECT coalesce(array_agg(kid), '{}') FROM revoked_signing_keys`).QueryRow(func(row pgx.Row) error { return row.Scan(&c.Revoked) })
	rows.Queue(`SELECT agent_id, reason, thrown_by, thrown_at FROM kill_switches WHERE agent_id IN ('', $1) ORDER BY agent_id LIMIT 1`,
		c.Approval.Call.AgentID).QueryRow(func(row pgx.Row) error {
		kill, err := scanKill(row)
		if err == nil {
			c.Kill = &kill
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	rows.Queue(`SELECT clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&c.Now) })
	if err := c.tx.SendBatch(c.ctx, rows).Close(); err != nil {
		return translate(err)
	}
	c.Now = c.Now.UTC()
	c.Approval.Stand(c.Now)
	return nil
}

// queueFacts reads an approval's facts with the voters' standing as it is now.
func queueFacts(rows *pgx.Batch, id string, into *[]approval.Fact) {
	rows.Queue(`SELECT f.seq, f.at, f.kind, f.actor_kind, f.actor_id, f.channel, f.yes, f.denial, f.comment,
			coalesce(p.identity, ''), coalesce(p.roles, '{}'), p.id IS NOT NULL AND p.disabled_at IS NULL
		FROM facts f LEFT JOIN people p ON p.id = f.actor_id AND f.actor_kind = 'human'
		WHERE f.approval_id = $1 ORDER BY f.seq`, id).Query(func(r pgx.Rows) error {
		*into = nil
		for r.Next() {
			var f approval.Fact
			if err := r.Scan(&f.Seq, &f.At, &f.Kind, &f.Actor.Kind, &f.Actor.ID, &f.Actor.Channel, &f.Yes, &f.Denial, &f.Comment,
				&f.Voter.Identity, &f.Voter.Roles, &f.Voter.Active); err != nil {
				return err
			}
			f.At = f.At.UTC()
			*into = append(*into, f)
		}
		return r.Err()
	})
}

func queueToken(rows *pgx.Batch, id string, into **TokenRow) {
	rows.Queue(`SELECT jti, valid_until, redeemed_at, coalesce(redeemed_by, '') FROM tokens WHERE approval_id = $1`, id).QueryRow(func(row pgx.Row) error {
		var t TokenRow
		err := row.Scan(&t.JTI, &t.ValidUntil, &t.RedeemedAt, &t.RedeemedBy)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		*into = &t
		return err
	})
}

// AddFact appends a fact and tells Temporal and everybody who waits. The
// database gives its time; the Approval's State is computed anew with it.
func (c *Change) AddFact(f approval.Fact) error {
	err := c.tx.QueryRow(c.ctx, `INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING seq, at`,
		c.Approval.ID, f.Kind, f.Actor.Kind, f.Actor.ID, f.Actor.Channel, f.Yes, f.Denial, f.Comment).Scan(&f.Seq, &f.At)
	if err != nil {
		return translate(err)
	}
	f.At = f.At.UTC()
	c.Approval.Facts = append(c.Approval.Facts, f)
	c.Now = f.At
	c.Approval.Stand(f.At)
	_, err = c.tx.Exec(c.ctx, `WITH told AS (INSERT INTO outbox (approval_id) VALUES ($1))
		UPDATE approvals SET revision = revision + 1 WHERE id = $1`, c.Approval.ID)
	return translate(err)
}

// AddEvent appends an event when the change commits.
func (c *Change) AddEvent(e engine.Event) { c.events = append(c.events, e) }

// Wake records the next deadline that the workflow will wake for.
func (c *Change) Wake(at time.Time) error {
	_, err := c.tx.Exec(c.ctx, `UPDATE approvals SET wake_at = $2 WHERE id = $1 AND wake_at <> $2`, c.Approval.ID, at)
	return translate(err)
}

// Settle writes the terminal state. With a token id, the approval's token row
// is made, good for validFor from now on.
func (c *Change) Settle(status approval.Status, reasons []engine.Reason, jti string, validFor time.Duration) error {
	final := c.Approval.State.Finish()
	encoded, err1 := json.Marshal(reasons)
	standing, err2 := json.Marshal(final)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("encode the end of %s: %w", c.Approval.ID, err)
	}
	err := c.tx.QueryRow(c.ctx, `UPDATE approvals SET status = $2, reasons = $3, final = $4, version = version + 1 WHERE id = $1
		RETURNING ended_at, version`, c.Approval.ID, status, encoded, standing).Scan(&c.Approval.EndedAt, &c.Approval.Version)
	if err != nil {
		return translate(err)
	}
	c.Approval.Status, c.Approval.Reasons, c.Approval.Final = status, reasons, &final
	if jti == "" {
		return nil
	}
	_, err = c.tx.Exec(c.ctx, `INSERT INTO tokens (jti, approval_id, valid_until) VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))`,
		jti, c.Approval.ID, validFor.Seconds())
	return translate(err)
}

// Redeem spends the approval's token. It is an error when it is spent already.
func (c *Change) Redeem(by string) error {
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE tokens SET redeemed_by = $2 WHERE approval_id = $1`, c.Approval.ID, by)
	batch.Queue(`UPDATE approvals SET execution = 'redeemed' WHERE id = $1`, c.Approval.ID)
	c.Approval.Execution = approval.Redeemed
	return translate(c.tx.SendBatch(c.ctx, batch).Close())
}

// Executed records what became of the redeemed call.
func (c *Change) Executed(e approval.Execution) error {
	_, err := c.tx.Exec(c.ctx, `UPDATE approvals SET execution = $2 WHERE id = $1`, c.Approval.ID, e)
	c.Approval.Execution = e
	return translate(err)
}
