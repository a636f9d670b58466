package store

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/passkey"
	"holdpoint/internal/seal"
)

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

// factRows are facts with the standing of those who said them as it is now, of what they have had
// ever since they said it.
var factRows = newRows(func(f *approval.Fact) columns {
	return append(contributedColumns(f), columns{
		{"seq", &f.Seq},
		{"at", &f.At},
		{"edition", &f.Edition},
		{"coalesce(p.identity, '')", &f.Voter.Identity},
		{"coalesce(roles_since(p.id, p.roles, p.since, at), '{}')", &f.Voter.Roles},
		{"p.id IS NOT NULL AND stands_since(p.disabled_at, p.since, at)", &f.Voter.Active},
		{`CASE WHEN via <> '{}' THEN (
			SELECT jsonb_agg(jsonb_build_object('identity', q.identity, 'roles', roles_since(q.id, q.roles, q.since, at), 'active', stands_since(q.disabled_at, q.since, at)) ORDER BY v.n)
			FROM unnest(via) WITH ORDINALITY v (id, n) JOIN people q ON q.id = v.id) END`, &f.Voter.Via},
		{`p.id IS NOT NULL AND (regained_since(p.since, at) OR via <> '{}' AND EXISTS (SELECT FROM people q WHERE q.id = ANY (via) AND regained_since(q.since, at)))`, &f.Regained},
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

// Answered keeps what the requesting side supplied with its answer.
func (c *Change) Answered(box seal.Box) error {
	_, err := c.tx.Exec(c.ctx, `UPDATE approvals SET answers = $2, answers_key = $3 WHERE id = $1`, c.Approval.ID, box.Data, box.Key)
	c.Answers = box
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
