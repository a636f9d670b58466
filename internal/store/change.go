package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

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
	Size     int // bytes of canonical arguments
	// Answers is what the requesting side has supplied; empty when nothing.
	Answers seal.Box
	// Token is nil until the approval is approved.
	Token *TokenRow
	// Kill is the switch that stops the approval's agent; nil when none does. It
	// was read under the lock, and what grants anything is refused all the same
	// when one is thrown before the change commits.
	Kill *registry.Kill
	// Revoked holds the ids of signing keys that must not be believed.
	Revoked []string

	sealer *seal.Sealer
	ctx    context.Context //nolint:containedctx // a Change lives no longer than the call that it is passed to
	tx     pgx.Tx
	events []engine.Event
	reply  *Reply
	// ifDue has load take the lock only of what is due and nobody else has (ChangeDue).
	ifDue bool
	// entriesFirst says that the locks of what it proposes are had (ChangeEntries).
	entriesFirst bool
	// endpoints are read once for all changes of a transaction.
	endpoints func() ([]Endpoint, error)
	changed
}

// SaveReply says what is answered to a repetition of the request that makes the change.
func (c *Change) SaveReply(r Reply) { c.reply = &r }

// Change locks the approval and runs fn; when fn returns nil, everything that
// it wrote commits at once, together with the answer that fn has saved for once (which
// may be nil). An error of fn rolls all of it
// back and is returned as it is. ErrNotFound: there is no such approval.
func (s Approvals) Change(ctx context.Context, id string, once *Request, fn func(c *Change) error) error {
	return s.change(ctx, s.pool, id, once, nil, fn)
}

// ChangeEntries is Change for an approval that proposes entries: their locks are taken before
// the approval's, since whoever changes such a row has its lock first, and then those of approvals
// (look_again). Roles are changed by the login that writes accounts, where the store has one.
func (s Approvals) ChangeEntries(ctx context.Context, id string, fn func(c *Change) error) error {
	var kind string
	var entries []Entry
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		kind, entries, err = proposedEntries(ctx, tx, id)
		return err
	})
	if err != nil {
		return err
	}
	pool := s.pool
	if kind == RolesChange {
		pool = cmp.Or(s.people, s.pool)
	}
	return s.change(ctx, pool, id, nil, func(c *Change) error {
		c.entriesFirst = true
		return lockEntries(c.ctx, c.tx, kind, entries)
	}, fn)
}

// ErrNotDue is returned by ChangeDue.
var ErrNotDue = errors.New("the approval's moment has not come, or somebody has it in hand")

// ChangeDue is Change for an approval whose moment has come (Outbox.Due). ErrNotDue: it was
// settled meanwhile, or somebody else has its lock: it is left to them, so that of many who
// settle what is due at once each settles another part.
func (s Approvals) ChangeDue(ctx context.Context, id string, fn func(c *Change) error) error {
	return s.change(ctx, s.pool, id, nil, func(c *Change) error {
		c.ifDue = true
		return nil
	}, fn)
}

// ChangeAllDue is ChangeDue for many approvals, which share a transaction: fn is run for each of
// those whose moment has come and that nobody else has in hand, and all that it writes commits
// at once, or nothing when it returns an error for one of them.
func (s Approvals) ChangeAllDue(ctx context.Context, ids []string, fn func(c *Change) error) error {
	var changes []*Change
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		endpoints := sync.OnceValues(func() ([]Endpoint, error) { return readEndpoints(ctx, tx) })
		// Nothing is waited for, so that no two who lock many wait for each other.
		rows, err := tx.Query(ctx, `SELECT `+lockedNames+` FROM approvals WHERE id = ANY ($1) AND `+dueNow+` FOR UPDATE SKIP LOCKED`, ids)
		if err != nil {
			return translate(err)
		}
		changes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Change, error) {
			c := &Change{sealer: s.sealer, ctx: ctx, tx: tx, endpoints: endpoints}
			return c, c.scan(row)
		})
		if err != nil {
			return translate(err)
		}
		reads, writes := &pgx.Batch{}, &pgx.Batch{}
		for _, c := range changes {
			c.queueRest(reads)
		}
		if err := tx.SendBatch(ctx, reads).Close(); err != nil {
			return translate(err)
		}
		var events []engine.Event
		for _, c := range changes {
			c.Approval.ComputeState(c.Now)
			if err := fn(c); err != nil {
				return fmt.Errorf("change %s: %w", c.Approval.ID, err)
			}
			events = append(events, c.events...)
		}
		if len(events) == 0 {
			return nil
		}
		queueEvents(writes, events, nil)
		return translate(tx.SendBatch(ctx, writes).Close())
	})
	if err != nil {
		return err
	}
	for _, c := range changes {
		s.observed(c)
	}
	return nil
}

func (s Approvals) change(ctx context.Context, pool *pgxpool.Pool, id string, once *Request, first, fn func(c *Change) error) error {
	if !ValidApprovalID(id) {
		return ErrNotFound
	}
	c := &Change{sealer: s.sealer}
	c.endpoints = func() ([]Endpoint, error) { return readEndpoints(c.ctx, c.tx) }
	err := s.inTxOn(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
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
		c.ctx, c.tx = ctx, tx
		if first != nil {
			if err := first(c); err != nil {
				return err
			}
		}
		if err := c.load(id); err != nil {
			return err
		}
		if err := fn(c); err != nil {
			return err
		}
		rows := &pgx.Batch{}
		if len(c.events) > 0 {
			queueEvents(rows, c.events, nil)
		}
		if once != nil {
			if c.reply == nil {
				return errors.New("a change that may be repeated has no answer to keep")
			}
			if err := s.queueReply(rows, once, id, "", *c.reply); err != nil {
				return err
			}
		}
		return translate(tx.SendBatch(ctx, rows).Close())
	})
	if err == nil {
		s.observed(c)
	}
	return err
}

// load takes the lock, then reads everything else and the clock: statements
// that begin after the lock was had see all that was committed before.
func (c *Change) load(id string) error {
	lock := ` FOR UPDATE`
	if c.ifDue {
		lock = ` AND ` + dueNow + ` FOR UPDATE SKIP LOCKED`
	}
	err := c.scan(c.tx.QueryRow(c.ctx, `SELECT `+lockedNames+` FROM approvals WHERE id = $1`+lock, id))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err != nil && c.ifDue {
		return ErrNotDue
	}
	missing := err
	c.Approval.ID = id
	// The same for one that is not there, as in Get.
	rows := &pgx.Batch{}
	c.queueRest(rows)
	if err := c.tx.SendBatch(c.ctx, rows).Close(); err != nil {
		return translate(err)
	}
	if missing != nil {
		return missing
	}
	c.Approval.ComputeState(c.Now)
	return nil
}

// lockedNames are what is read of the row with its lock.
var lockedNames = approvalRows.names + `, max_state, sealed, sealed_key, sealed_size, answers, answers_key`

// scan reads the row.
func (c *Change) scan(row pgx.Row) (err error) {
	c.Approval, err = approvalRows.one(row, &c.MaxState, &c.Sealed.Data, &c.Sealed.Key, &c.Size, &c.Answers.Data, &c.Answers.Key)
	return err
}

// queueRest reads all else, after the lock was had.
func (c *Change) queueRest(rows *pgx.Batch) {
	queueFacts(rows, c.sealer, &c.Approval)
	queueToken(rows, c.sealer, c.Approval.ID, &c.Token)
	rows.Queue(`SELECT coalesce(array_agg(kid), '{}') FROM revoked_signing_keys`).QueryRow(func(row pgx.Row) error { return row.Scan(&c.Revoked) })
	rows.Queue(`SELECT `+killRows.names+` FROM kill_switches WHERE agent_id IN ('', $1) ORDER BY agent_id LIMIT 1`,
		c.Approval.Call.AgentID).QueryRow(func(row pgx.Row) error {
		kill, err := killRows.one(row)
		if err == nil {
			c.Kill = &kill
		}
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	})
	rows.Queue(`SELECT clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&c.Now) })
}

// SettledWithin is how long Temporal has to settle what has been decided, before a worker
// settles it without being asked (worker.Deadlines). Where the approval's workflow has not
// even begun it has no such time: its first task may be behind those of thousands.
const SettledWithin = 100 * time.Millisecond

// queue puts the approval into the outbox, wakes whoever watches it, and says by what
// an inbox finds it now, and when to settle it where it has been decided.
func (c *Change) queue() error {
	asking := askingColumns(c.Approval.Asking(c.Now))
	rows := &pgx.Batch{}
	var settle *time.Time
	if c.Approval.State.Status.Terminal() && !c.Approval.Status.Terminal() {
		at := c.Now.Add(SettledWithin)
		settle = &at
		rows.Queue(`SELECT pg_notify('` + decidedChannel + `', '')`)
	}
	// Settled for the first time it waits for another moment than that of its opening.
	rows.Queue(`WITH queued AS (INSERT INTO outbox (approval_id, traceparent) VALUES ($1, $2))
		UPDATE approvals SET revision = revision + 1, wake_at = CASE WHEN $3::timestamptz IS NULL THEN wake_at WHEN wake_at = opened_at THEN $4 ELSE $3 END,
			(`+asking.names()+`) = ($5, $6, $7, $8, $9, $10) WHERE id = $1`,
		append([]any{c.Approval.ID, traceparent(trace.SpanContextFromContext(c.ctx)), settle, c.Now}, asking.fields()...)...)
	return translate(c.tx.SendBatch(c.ctx, rows).Close())
}

// Amendment is what a new edition of an approval asks for.
type Amendment struct {
	Digest       string
	Decision     engine.Decision
	Requirements []engine.Requirement
	Excluded     []string
	Terms        approval.Terms
	// Sealed is the changed document, nil for the one that there is.
	Sealed        *seal.Box
	ArgumentsSize int
}

// Amend begins a new edition: what was said of the former counts no more, and
// what is asked for now is a. An edit or reopen fact of the former edition has
// to have been added. The overall deadline stays the one that there was, and what
// questions have used of the time for which they may stop the clock stays used.
func (c *Change) Amend(a Amendment) error {
	expires, left := approval.CarryOver(c.Approval.Plan, c.Approval.Facts, c.Now)
	a.Terms.PauseFor = min(a.Terms.PauseFor, left)
	if a.Excluded == nil {
		a.Excluded = []string{}
	}
	var data, key []byte
	if a.Sealed != nil {
		data, key = a.Sealed.Data, a.Sealed.Key
	}
	p := &c.Approval.Plan
	err := c.tx.QueryRow(c.ctx, `WITH former AS (INSERT INTO former_documents (approval_id, edition, sealed, sealed_key)
			SELECT id, edition, sealed, sealed_key FROM approvals WHERE id = @id AND @sealed::bytea IS NOT NULL)
		UPDATE approvals SET digest = @digest, decision = @decision, requirements = @requirements, excluded = @excluded,
			terms = @terms, expires_at = @expires, sealed = coalesce(@sealed, sealed), sealed_key = coalesce(@key, sealed_key),
			sealed_size = CASE WHEN @sealed::bytea IS NULL THEN sealed_size ELSE @size END, answers = NULL, answers_key = NULL, edition = edition + 1
		WHERE id = @id RETURNING edition, began_at, version, expires_at`,
		pgx.NamedArgs{
			"id": c.Approval.ID, "digest": a.Digest, "decision": a.Decision, "requirements": &a.Requirements, "excluded": a.Excluded,
			"terms": a.Terms, "expires": expires, "sealed": data, "key": key, "size": a.ArgumentsSize,
		}).
		Scan(&p.Edition, &p.BeganAt, &c.Approval.Version, &p.ExpiresAt)
	if err != nil {
		return translate(err)
	}
	p.Requirements, p.Excluded, p.Terms = a.Requirements, a.Excluded, a.Terms
	c.Approval.Call.Digest, c.Approval.Decision = a.Digest, a.Decision
	if a.Sealed != nil {
		c.Sealed = *a.Sealed
	}
	c.Now = p.BeganAt
	c.Approval.ComputeState(c.Now)
	return c.queue()
}

// People are all people as they stand, for asking whether enough of them could
// still decide.
func (c *Change) People() ([]approval.Voter, error) {
	rows, err := c.tx.Query(c.ctx, `SELECT p.identity, roles_of(p.id, p.roles), p.disabled_at IS NULL FROM people p ORDER BY p.id`)
	if err != nil {
		return nil, translate(err)
	}
	people, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (approval.Voter, error) {
		var v approval.Voter
		return v, row.Scan(&v.Identity, &v.Roles, &v.Active)
	})
	return people, translate(err)
}

// AddEvent appends an event when the change commits.
func (c *Change) AddEvent(e engine.Event) { c.events = append(c.events, e) }

// AppendEvent appends an event at once, and returns when that was.
func (c *Change) AppendEvent(e engine.Event) (at time.Time, err error) {
	rows := &pgx.Batch{}
	queueEvents(rows, []engine.Event{e}, func(written time.Time) { at = written })
	return at, translate(c.tx.SendBatch(c.ctx, rows).Close())
}

// Wake records the next deadline that the workflow will wake for, and by what an inbox
// finds the approval now.
func (c *Change) Wake(at time.Time) error {
	asking := askingColumns(c.Approval.Asking(c.Now))
	_, err := c.tx.Exec(c.ctx, `UPDATE approvals SET (wake_at, `+asking.names()+`) = ($2, $3, $4, $5, $6, $7, $8)
		WHERE id = $1 AND (wake_at, `+asking.names()+`) IS DISTINCT FROM ($2, $3::timestamptz, $4::text[], $5::text[], $6::text, $7::text, $8::jsonb)`,
		append([]any{c.Approval.ID, at}, asking.fields()...)...)
	return translate(err)
}
