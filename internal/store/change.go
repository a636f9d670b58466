package store

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/passkey"
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
	changed
}

// SaveReply says what is answered to a repetition of the request that makes the change.
func (c *Change) SaveReply(r Reply) { c.reply = &r }

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

// Change locks the approval and runs fn; when fn returns nil, everything that
// it wrote commits at once, together with the answer that fn has saved for once (which
// may be nil). An error of fn rolls all of it
// back and is returned as it is. ErrNotFound: there is no such approval.
func (s Approvals) Change(ctx context.Context, id string, once *Request, fn func(c *Change) error) error {
	if !ValidApprovalID(id) {
		return ErrNotFound
	}
	c := &Change{sealer: s.sealer}
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
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
		if err := c.load(id); err != nil {
			return err
		}
		if err := fn(c); err != nil {
			return err
		}
		rows := &pgx.Batch{}
		if len(c.events) > 0 {
			if err := queueEvents(rows, c.events, false, nil); err != nil {
				return err
			}
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
	var err error
	row := c.tx.QueryRow(c.ctx, `SELECT `+approvalRows.names+`, max_state, sealed, sealed_key, sealed_size, answers, answers_key FROM approvals WHERE id = $1 FOR UPDATE`, id)
	if c.Approval, err = approvalRows.one(row, &c.MaxState, &c.Sealed.Data, &c.Sealed.Key, &c.Size, &c.Answers.Data, &c.Answers.Key); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	missing := err
	c.Approval.ID = id
	// The same for one that is not there, as in Get.
	rows := &pgx.Batch{}
	queueFacts(rows, c.sealer, &c.Approval)
	queueToken(rows, c.sealer, id, &c.Token)
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
	if err := c.tx.SendBatch(c.ctx, rows).Close(); err != nil {
		return translate(err)
	}
	if missing != nil {
		return missing
	}
	c.Approval.ComputeState(c.Now)
	return nil
}

// contributedColumns are the columns of a fact that are its contributor's to say.
func contributedColumns(f *approval.Fact) columns {
	return columns{
		{"kind", &f.Kind},
		{"actor_kind", &f.Actor.Kind},
		{"actor_id", &f.Actor.ID},
		{"via", &f.Via},
		{"channel", &f.Actor.Channel},
		{"yes", &f.Yes},
		{"denial", &f.Denial},
		{"comment", &f.Comment},
		{"details", &f.Details},
	}
}

// factRows are facts with the standing of those who said them as it is now.
var factRows = newRows(func(f *approval.Fact) columns {
	return append(contributedColumns(f), columns{
		{"seq", &f.Seq},
		{"at", &f.At},
		{"edition", &f.Edition},
		{"coalesce(p.identity, '')", &f.Voter.Identity},
		{"coalesce(roles_of(p.id, p.roles), '{}')", &f.Voter.Roles},
		{"p.id IS NOT NULL AND p.disabled_at IS NULL", &f.Voter.Active},
		{`CASE WHEN via <> '{}' THEN (
			SELECT jsonb_agg(jsonb_build_object('identity', q.identity, 'roles', roles_of(q.id, q.roles), 'active', q.disabled_at IS NULL) ORDER BY v.n)
			FROM unnest(via) WITH ORDINALITY v (id, n) JOIN people q ON q.id = v.id) END`, &f.Voter.Via},
	}...)
})

// factEvents are the types of events that tell of facts, and of whether they are keyed.
var factEvents = slices.DeleteFunc(engine.EventTypes(), func(t engine.EventType) bool {
	return approval.FactKindsOf(t) == nil && t != engine.Decided
})

// mac is the keyed hash of a fact that has its nonce.
func mac(sealer *seal.Sealer, approvalID string, f approval.Fact) (string, error) {
	document, err := f.Authentic(approvalID)
	nonce, _, _ := strings.Cut(f.Details.Mac, ".")
	return nonce + "." + hex.EncodeToString(sealer.Fact(document)), err
}

// authentic reports whether the programs have written a fact. It is nil without a key.
func authentic(sealer *seal.Sealer, approvalID string) func(approval.Fact) bool {
	if sealer == nil {
		return nil
	}
	return func(f approval.Fact) bool {
		want, err := mac(sealer, approvalID, f)
		return err == nil && hmac.Equal([]byte(want), []byte(f.Details.Mac))
	}
}

// queueFacts reads the facts of an approval, and holds those of a pending one
// against its events.
func queueFacts(rows *pgx.Batch, sealer *seal.Sealer, a *approval.Approval) {
	rows.Queue(`SELECT `+factRows.names+` FROM facts LEFT JOIN people p ON p.id = actor_id AND actor_kind = 'human' WHERE approval_id = $1 ORDER BY seq`,
		a.ID).Query(func(r pgx.Rows) (err error) {
		a.Facts, err = factRows.all(r, nil)
		for i := range a.Facts {
			if f := &a.Facts[i]; len(f.Voter.Via) < len(f.Via) {
				f.Voter.Active = false // somebody of the chain is gone
			}
		}
		return err
	})
	// Asked for every approval, and read for the pending: the statements are not to
	// tell one from another.
	pending := a.Status == approval.Pending
	rows.Queue(`SELECT -1::bigint, `+recordColumns+` FROM (
			SELECT * FROM events e WHERE e.approval_id = $1 AND e.type = ANY ($2) AND e.outcome <> 'DENY'
			UNION ALL `+passkeyEventsOf(signersOf, "$4")+`) e
		WHERE $3 AND EXISTS (SELECT FROM facts WHERE approval_id = $1) ORDER BY e.seq`, a.ID, factEvents, pending, passkey.Codes()).Query(func(r pgx.Rows) error {
		events, err := pgx.CollectRows(r, scanLogged)
		if pending {
			a.HoldAgainst(events, authentic(sealer, a.ID))
		}
		return err
	})
}

// signersOf are the people whose passkeys have signed facts of the approval $1.
const signersOf = `ARRAY (SELECT actor_id FROM facts WHERE approval_id = $1 AND details ? 'signature')`

func scanLogged(row pgx.CollectableRow) (engine.Event, error) {
	r, err := scanRecord(row)
	return logged(r), err
}

// logged is a record as whoever verifies the log reads it. What was written around the
// programs and is no event tells nothing.
func logged(r audit.Record) (e engine.Event) {
	if json.Unmarshal(r.Document(), &e) != nil {
		return engine.Event{Type: engine.EventType(r.Type), ApprovalID: r.ApprovalID}
	}
	return e
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

// eventsOf are the events of the approval $1 but for refusals, and those of the passkeys
// of everybody who has signed.
var eventsOf = `SELECT * FROM events e WHERE e.approval_id = $1 AND e.outcome <> 'DENY' UNION ALL ` + passkeyEventsOf(signersOf, "$2")

// AddFact appends a fact and tells Temporal and everybody who waits. The
// database gives its time; the Approval's State is computed anew with it.
func (c *Change) AddFact(f approval.Fact) error {
	if f.Comment != "" && f.Details.Salt == "" {
		f.Details.Salt = rand.Text()
	}
	if f.Via == nil {
		f.Via = []string{}
	}
	if c.sealer != nil {
		var err error
		f.Edition, f.Details.Mac = c.Approval.Plan.Edition, rand.Text()
		if f.Details.Mac, err = mac(c.sealer, c.Approval.ID, f); err != nil {
			return err
		}
	}
	row := append(contributedColumns(&f), column{"approval_id", &c.Approval.ID})
	err := c.tx.QueryRow(c.ctx, row.insert("facts")+` RETURNING seq, at, edition`, row.fields()...).Scan(&f.Seq, &f.At, &f.Edition)
	if err != nil {
		return translate(err)
	}
	c.Approval.Facts = append(c.Approval.Facts, f)
	c.facts = append(c.facts, f)
	c.Now = f.At
	c.Approval.ComputeState(f.At)
	return c.queue()
}

// SettledWithin is how long Temporal has to settle what has been decided, before a worker
// settles it without being asked (worker.Deadlines).
const SettledWithin = 500 * time.Millisecond

// queue puts the approval into the outbox, wakes whoever watches it, and says by what
// an inbox finds it now, and when to settle it where it has been decided.
func (c *Change) queue() error {
	asking := askingColumns(c.Approval.Asking(c.Now))
	var settle *time.Time
	if c.Approval.State.Status.Terminal() && !c.Approval.Status.Terminal() {
		at := c.Now.Add(SettledWithin)
		settle = &at
	}
	_, err := c.tx.Exec(c.ctx, `WITH queued AS (INSERT INTO outbox (approval_id, traceparent) VALUES ($1, $2))
		UPDATE approvals SET revision = revision + 1, wake_at = coalesce($3, wake_at), (`+asking.names()+`) = ($4, $5, $6, $7, $8, $9) WHERE id = $1`,
		append([]any{c.Approval.ID, traceparent(trace.SpanContextFromContext(c.ctx)), settle}, asking.fields()...)...)
	return translate(err)
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

// Answered keeps what the requesting side supplied with its answer.
func (c *Change) Answered(box seal.Box) error {
	_, err := c.tx.Exec(c.ctx, `UPDATE approvals SET answers = $2, answers_key = $3 WHERE id = $1`, c.Approval.ID, box.Data, box.Key)
	c.Answers = box
	return translate(err)
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

// OweReview notes that somebody has to look at this approval afterwards.
func (c *Change) OweReview() error {
	_, err := c.tx.Exec(c.ctx, `INSERT INTO afterwards (approval_id) VALUES ($1) ON CONFLICT DO NOTHING`, c.Approval.ID)
	return translate(err)
}

// Alarms are the numbers of the facts of which an event says that none tells of them.
func (c *Change) Alarms() (map[int64]bool, error) {
	rows, err := c.tx.Query(c.ctx, `SELECT -1::bigint, `+recordColumns+` FROM events e WHERE e.approval_id = $1 AND e.type = 'refusal' AND event_code(e.body) = $2`, c.Approval.ID, approval.NotInLog.Code)
	if err != nil {
		return nil, translate(err)
	}
	events, err := pgx.CollectRows(rows, scanLogged)
	alarms := map[int64]bool{}
	for _, e := range events {
		var payload approval.UnloggedPayload
		if json.Unmarshal(e.SafePayload, &payload) == nil {
			alarms[payload.Unlogged.Seq] = true
		}
	}
	return alarms, translate(err)
}

// Events are the approval's events as the log has them, in the order in which they
// were appended, but for refusals, and among them those of the passkeys of everybody
// who has signed: those of before, those that the change appends, and then more.
func (c *Change) Events(more ...engine.Event) ([]engine.Event, error) {
	rows, err := c.tx.Query(c.ctx, `SELECT -1::bigint, `+recordColumns+` FROM (`+eventsOf+`) e ORDER BY e.seq`, c.Approval.ID, passkey.Codes())
	if err != nil {
		return nil, translate(err)
	}
	events, err := pgx.CollectRows(rows, scanLogged)
	if err != nil {
		return nil, translate(err)
	}
	for _, e := range slices.Concat(c.events, more) {
		body, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
		}
		events = append(events, logged(audit.Record{
			Leaf: -1, ID: e.ID, At: c.Now, Type: string(e.Type), Outcome: string(e.Outcome), AgentID: e.AgentID, ToolName: e.ToolName, ApprovalID: e.ApprovalID, Body: body,
		}))
	}
	return events, nil
}

// Keys are the person's passkeys as the audit log knows them.
func (c *Change) Keys(personID string) (*passkey.Keys, error) {
	keys, err := keysOf(c.ctx, c.tx.Query, personID)
	return keys, translate(err)
}

// AddEvent appends an event when the change commits.
func (c *Change) AddEvent(e engine.Event) { c.events = append(c.events, e) }

// AppendEvent appends an event at once, and returns when that was.
func (c *Change) AppendEvent(e engine.Event) (at time.Time, err error) {
	rows := &pgx.Batch{}
	if err := queueEvents(rows, []engine.Event{e}, false, func(written time.Time) { at = written }); err != nil {
		return at, err
	}
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
	batch.Queue(`INSERT INTO outbox (approval_id, traceparent) VALUES ($1, $2)`, c.Approval.ID, traceparent(trace.SpanContextFromContext(c.ctx)))
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

// Words are what a person writes of a call after it was decided, and the salt of the
// digest that the event has of it: "" from before there was one, and once erased.
type Words struct{ Comment, Salt string }

// Reconcile records what a person found out about a call of which nobody knew
// whether it had run.
func (c *Change) Reconcile(personID string, e approval.Execution, w Words) error {
	_, err := c.tx.Exec(c.ctx, `INSERT INTO reconciliations (approval_id, person_id, outcome, comment, salt) VALUES ($1, $2, $3, $4, $5)`, c.Approval.ID, personID, e, w.Comment, w.Salt)
	if err != nil {
		return translate(err)
	}
	return c.Executed(e)
}

// Afterwards is what somebody has to say, or has said, of an approval for which
// one person broke the glass.
type Afterwards struct {
	PersonID  string
	Justified bool
	Words
	OwedAt time.Time
	DoneAt *time.Time
}

// Owed returns what is owed of an approval; nil for nothing.
func (c *Change) Owed() (*Afterwards, error) {
	a, err := afterwardsRows.one(c.tx.QueryRow(c.ctx, `SELECT `+afterwardsRows.names+` FROM afterwards WHERE approval_id = $1 FOR UPDATE`, c.Approval.ID))
	if errors.Is(err, ErrNotFound) {
		return nil, nil //nolint:nilnil // nothing owed is no error
	}
	return &a, err
}

// Reviewed records what the person says of it afterwards.
func (c *Change) Reviewed(personID string, justified bool, w Words) error {
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
