package store

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine/approval"
	"holdpoint/internal/seal"
)

// Record is an approval as it was at Now, without a lock on it.
type Record struct {
	Approval approval.Approval
	Now      time.Time
	Sealed   seal.Box
	Answers  seal.Box // what the requesting side has supplied; empty for nothing
	Size     int      // bytes of canonical arguments
	Token    *TokenRow
	// Derived is what has been made of a record that several have; nil for one's own.
	Derived *Derived
}

// openingColumns are the columns of an approval that its opening writes.
func openingColumns(a *approval.Approval) columns {
	c, p := &a.Call, &a.Plan
	return columns{
		{"id", &a.ID},
		{"agent_id", &c.AgentID},
		{"request_id", &c.RequestID},
		{"session", &a.Session},
		{"dialect", &c.Dialect},
		{"tool", &c.Tool},
		{"category", &c.Category},
		{"risk_domain", &c.RiskDomain},
		{"environment", &c.Environment},
		{"digest", &c.Digest},
		{"requested_by", &a.RequestedBy},
		{"decision", &a.Decision},
		{"requirements", &p.Requirements},
		{"terms", &p.Terms},
		{"excluded", &p.Excluded},
		{"preconditions", &a.Preconditions},
	}
}

var approvalRows = newRows(func(a *approval.Approval) columns {
	p := &a.Plan
	return append(openingColumns(a), columns{
		{"opened_at", &p.OpenedAt},
		{"expires_at", &p.ExpiresAt},
		{"edition", &p.Edition},
		{"began_at", zeroTime{&p.BeganAt}},
		{"status", &a.Status},
		{"version", &a.Version},
		{"revision", &a.Revision},
		{"ended_at", zeroTime{&a.EndedAt}},
		{"reasons", &a.Reasons},
		{"final", &a.Final},
		{"execution", &a.Execution},
		{"coalesce(successor, '')", &a.Successor},
		{"erased_at", zeroTime{&a.ErasedAt}},
	}...)
})

// Get reads one approval. ErrNotFound: there is none.
func (s Approvals) Get(ctx context.Context, id string) (Record, error) {
	var r Record
	if !ValidApprovalID(id) {
		return r, ErrNotFound
	}
	// One snapshot: the approval, its facts and its token belong together.
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var err error
		row := tx.QueryRow(ctx, `SELECT `+approvalRows.names+`, sealed, sealed_key, answers, answers_key, sealed_size, clock_timestamp() FROM approvals WHERE id = $1`, id)
		if r.Approval, err = approvalRows.one(row, &r.Sealed.Data, &r.Sealed.Key, &r.Answers.Data, &r.Answers.Key, &r.Size, &r.Now); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		missing := err
		r.Approval.ID = id
		// The same for one that is not there: how long the answer takes is not to tell
		// whether somebody else has it.
		rows := &pgx.Batch{}
		queueFacts(rows, s.sealer, &r.Approval)
		queueToken(rows, s.sealer, id, &r.Token)
		if err := tx.SendBatch(ctx, rows).Close(); err != nil {
			return err
		}
		return missing
	})
	if err != nil {
		return r, translate(err)
	}
	r.Approval.ComputeState(r.Now)
	return r, nil
}

// Former lists the documents with which an approval's call was proposed before somebody
// edited its arguments, the first one first.
func (s Approvals) Former(ctx context.Context, id string) ([]seal.Box, error) {
	return collect(ctx, s.db, func(row pgx.CollectableRow) (b seal.Box, err error) { return b, row.Scan(&b.Data, &b.Key) }, `SELECT sealed, sealed_key FROM former_documents WHERE approval_id = $1 ORDER BY edition`, id)
}

// LastDenied returns the agent's last denied approval of a call with the digest
// that ended less than within ago. ErrNotFound: there is none.
func (s Approvals) LastDenied(ctx context.Context, agentID, digest string, within time.Duration) (Record, error) {
	ids, err := s.ids(ctx, `SELECT id FROM approvals WHERE agent_id = $1 AND digest = $2 AND status = 'denied'
		AND ended_at > (SELECT clock_timestamp()) - make_interval(secs => $3) ORDER BY ended_at DESC LIMIT 1`, agentID, digest, within.Seconds())
	if err != nil {
		return Record{}, err
	}
	if len(ids) == 0 {
		return Record{}, ErrNotFound
	}
	return s.Get(ctx, ids[0])
}

// Waiting is the id of the approval that waits for the same as o would; "" for none.
func (s Approvals) Waiting(ctx context.Context, o *Opening) (string, error) {
	sql, args := o.waiting()
	ids, err := s.ids(ctx, sql, args...)
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}

// scanSealed reads an approval with its sealed document and the time.
func scanSealed(row pgx.CollectableRow) (r Record, err error) {
	r.Approval, err = approvalRows.one(row, &r.Sealed.Data, &r.Sealed.Key, &r.Now)
	return r, err
}

// LastApproved lists up to limit of the tool's approvals that people have approved, the
// newest end first, without the one named and without those of more than size bytes of
// arguments. They have no facts.
func (s Approvals) LastApproved(ctx context.Context, tool, except string, size, limit int) ([]Record, error) {
	return collect(ctx, s.db, scanSealed, `SELECT `+approvalRows.names+`, sealed, sealed_key, clock_timestamp() FROM approvals
		WHERE tool = $1 AND status = 'approved' AND id <> $2 AND sealed_size <= $3 AND erased_at IS NULL AND NOT terms ? 'accepted_as'
		ORDER BY ended_at DESC LIMIT $4`, tool, except, size, limit)
}

// LastApprovedOf is LastApproved for the calls of one agent.
func (s Approvals) LastApprovedOf(ctx context.Context, agentID, tool, except string, size, limit int) ([]Record, error) {
	return collect(ctx, s.db, scanSealed, `SELECT `+approvalRows.names+`, sealed, sealed_key, clock_timestamp() FROM approvals
		WHERE agent_id = $1 AND tool = $2 AND status = 'approved' AND id <> $3 AND sealed_size <= $4 AND erased_at IS NULL AND NOT terms ? 'accepted_as'
		ORDER BY ended_at DESC LIMIT $5`, agentID, tool, except, size, limit)
}

// SameCall is an approved call of the same agent and with the same digest as another one.
type SameCall struct {
	ID        string
	At        time.Time // when it was approved
	Execution approval.Execution
}

// sameWithin is how long ago an approved call is still told of as the same.
const sameWithin = 30 * 24 * time.Hour

// SameApproved finds for each of these approvals the last one of the same agent, tool and
// arguments, judged for the same environment, that people approved within thirty days.
func (s Approvals) SameApproved(ctx context.Context, ids []string) (map[string]SameCall, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT w.id, a.id, a.ended_at, a.execution FROM approvals w CROSS JOIN LATERAL (
			SELECT p.id, p.ended_at, p.execution FROM approvals p WHERE p.agent_id = w.agent_id AND p.digest = w.digest AND p.environment = w.environment AND p.status = 'approved'
				AND p.ended_at > (SELECT clock_timestamp()) - make_interval(secs => $2) AND p.id <> w.id AND p.erased_at IS NULL AND NOT p.terms ? 'accepted_as'
			ORDER BY p.ended_at DESC LIMIT 1) a
		WHERE w.id = ANY ($1) AND w.erased_at IS NULL`, ids, sameWithin.Seconds())
	if err != nil {
		return nil, translate(err)
	}
	found := map[string]SameCall{}
	var id string
	var same SameCall
	_, err = pgx.ForEachRow(rows, []any{&id, &same.ID, &same.At, &same.Execution}, func() error {
		same.At = same.At.UTC()
		found[id] = same
		return nil
	})
	return found, translate(err)
}

// DecisionCounts is how calls of one agent and tool were decided.
type DecisionCounts struct{ Approved, Denied int }

// lastDecided hides its limit from the planner, which else takes so few rows for all that an
// agent's tool has, and sorts thousands.
const lastDecided = `SELECT w.agent_id, w.tool, count(*) FILTER (WHERE last.status = 'approved'), count(*) FILTER (WHERE last.status = 'denied')
	FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS w (agent_id, tool)) AS w
	CROSS JOIN LATERAL (SELECT status FROM approvals a
		WHERE a.agent_id = w.agent_id AND a.tool = w.tool AND (status = 'denied' OR status = 'approved' AND NOT terms ? 'accepted_as')
		ORDER BY ended_at DESC LIMIT (SELECT $3::bigint)) AS last
	GROUP BY w.agent_id, w.tool`

// AgentTool is one of an agent's tools.
type AgentTool struct{ AgentID, Tool string }

// Alike counts how the last calls of agents' tools, up to limit of each, were decided,
// without those that nobody was asked about. What none was decided of is left out.
func (s Approvals) Alike(ctx context.Context, of []AgentTool, limit int) (map[AgentTool]DecisionCounts, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	agents, tools := make([]string, len(of)), make([]string, len(of))
	for i, one := range of {
		agents[i], tools[i] = one.AgentID, one.Tool
	}
	rows, err := s.pool.Query(ctx, lastDecided, agents, tools, limit)
	if err != nil {
		return nil, translate(err)
	}
	found := map[AgentTool]DecisionCounts{}
	var one AgentTool
	var n DecisionCounts
	_, err = pgx.ForEachRow(rows, []any{&one.AgentID, &one.Tool, &n.Approved, &n.Denied}, func() error {
		found[one] = n
		return nil
	})
	return found, translate(err)
}

// Sealed reads the sealed documents of approvals with at most size bytes of arguments
// that have not been erased, by id, and the time by the database's clock.
func (s Approvals) Sealed(ctx context.Context, ids []string, size int) (map[string]seal.Box, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var now time.Time
	rows, err := s.pool.Query(ctx, `SELECT id, sealed, sealed_key, clock_timestamp() FROM approvals WHERE id = ANY ($1) AND sealed_size <= $2 AND sealed_key IS NOT NULL`, ids, size)
	if err != nil {
		return nil, now, translate(err)
	}
	boxes := map[string]seal.Box{}
	var id string
	var box seal.Box
	_, err = pgx.ForEachRow(rows, []any{&id, &box.Data, &box.Key, &now}, func() error {
		boxes[id] = box
		return nil
	})
	return boxes, now, translate(err)
}

// PendingCount is how many approvals of the agent are pending.
func (s Approvals) PendingCount(ctx context.Context, agentID string) (int, error) {
	return value[int](ctx, s.db, `SELECT count(*) FROM approvals WHERE status = 'pending' AND agent_id = $1`, agentID)
}

// Eligibility is whose say somebody has: their own, or that of somebody for whom
// they stand in. It gives no say where one of the voices is on the requesting side.
type Eligibility struct {
	Roles  []string `json:"roles"`
	Voices []string `json:"voices"` // identities, the person's own first
}

// Reader says which approvals somebody may see: all, or those that ask for one
// of the roles, exclude the identity because it is on the requesting side, or
// give one of the others a say for whom the reader stands in.
type Reader struct {
	All      bool
	Roles    []string
	Identity string
	For      []Eligibility
}

// OwnFilter says which of an agent's approvals are listed: all of them, where a field is "".
type OwnFilter struct {
	AgentID string
	Status  approval.Status
	Tool    string
	Session string
}

// Own lists up to limit of an agent's approvals, the newest first, from after cursor
// on ("" for the start). next is "" at the end. A cursor that is not one of ours is
// ErrNotFound. What is opened meanwhile comes before the first page and moves
// nothing.
func (s Approvals) Own(ctx context.Context, o OwnFilter, cursor string, limit int) (page []approval.Approval, next string, err error) {
	before, id, err := parsePlace(cursor)
	if err != nil {
		return nil, "", err
	}
	page, _, err = s.list(ctx, `SELECT `+approvalRows.names+`, clock_timestamp() FROM approvals
		WHERE agent_id = $1 AND (opened_at, id) < ($2, $3)
		  AND ($4 = '' OR status = $4) AND ($5 = '' OR tool = $5) AND ($6 = '' OR session = $6)
		ORDER BY opened_at DESC, id DESC LIMIT $7`, o.AgentID, before, id, o.Status, o.Tool, o.Session, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(page) > limit {
		page = page[:limit]
		next = place(page[limit-1].Plan.OpenedAt, page[limit-1].ID)
	}
	return page, next, nil
}

// place is the cursor of what comes after an approval in a list by time.
func place(at time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(at.Format(time.RFC3339Nano) + " " + id))
}

// parsePlace reads a cursor of place; "" is before everything. ErrNotFound: it is
// not one of ours.
func parsePlace(cursor string) (before time.Time, id string, err error) {
	if cursor == "" {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	at, id, ok := strings.Cut(string(raw), " ")
	if err != nil || !ok || !ValidApprovalID(id) {
		return before, "", ErrNotFound
	}
	if before, err = time.Parse(time.RFC3339Nano, at); err != nil {
		return before, "", ErrNotFound
	}
	return before, id, nil
}

// list runs a query for approvals and reads their facts.
func (s Approvals) list(ctx context.Context, sql string, args ...any) ([]approval.Approval, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var now time.Time
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, now, translate(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (approval.Approval, error) { return approvalRows.one(row, &now) })
	if err != nil {
		return nil, now, translate(err)
	}
	ids := make([]string, len(list))
	for i, a := range list {
		ids[i] = a.ID
	}
	// Of most that wait nobody has said anything yet.
	said, err := s.ids(ctx, `SELECT DISTINCT approval_id FROM facts WHERE approval_id = ANY ($1)`, ids)
	if err != nil {
		return nil, now, err
	}
	facts := &pgx.Batch{}
	for i := range list {
		if slices.Contains(said, list[i].ID) {
			queueFacts(facts, s.sealer, &list[i])
		}
	}
	if err := s.pool.SendBatch(ctx, facts).Close(); err != nil {
		return nil, now, translate(err)
	}
	for i := range list {
		list[i].ComputeState(now)
	}
	return list, now, nil
}

// NextLook is when an approval is to be looked at next.
type NextLook struct {
	ID string
	// In is how far away the moment is by the database's clock: 0 or less when it has
	// come.
	In time.Duration
}

// dueNow is true of approvals whose moment has come. It is for looking at those of some ids
// and cannot be answered by an index: one over all moments would be read to its end, with every
// approval that is due and has been settled since.
const dueNow = `CASE WHEN status = 'pending' OR execution = 'redeemed' THEN wake_at <= (SELECT clock_timestamp()) END`

// Due lists up to limit approvals whose next moment comes within ahead, the first one
// first, without those in except: deadlines, and what has been decided. Those that have not
// been settled for the first time are not among them (Unsettled).
func (s Outbox) Due(ctx context.Context, ahead time.Duration, limit int, except []string) ([]NextLook, error) {
	return collect(ctx, s.db, func(row pgx.CollectableRow) (d NextLook, err error) {
		var seconds float64
		err = row.Scan(&d.ID, &seconds)
		d.In = time.Duration(seconds * float64(time.Second))
		return d, err
	}, `SELECT id, extract(epoch FROM wake_at - clock_timestamp())::float8 FROM approvals
		WHERE (status = 'pending' OR execution = 'redeemed') AND wake_at <> opened_at AND wake_at < (SELECT clock_timestamp()) + make_interval(secs => $1)
			AND id <> ALL (coalesce($2::text[], '{}'))
		ORDER BY wake_at LIMIT $3`, ahead.Seconds(), except, limit)
}

// Unsettled lists up to limit approvals that were opened so long ago and have not been
// settled for the first time, the oldest first, without those in except.
func (s Outbox) Unsettled(ctx context.Context, ago time.Duration, limit int, except []string) ([]string, error) {
	return s.ids(ctx, `SELECT id FROM approvals
		WHERE (status = 'pending' OR execution = 'redeemed') AND wake_at = opened_at AND wake_at < (SELECT clock_timestamp()) - make_interval(secs => $1)
			AND id <> ALL (coalesce($2::text[], '{}'))
		ORDER BY wake_at LIMIT $3`, ago.Seconds(), except, limit)
}

// PendingAfter lists up to limit pending approvals in order of id, after the
// given one, for walking all of them bit by bit.
func (s Outbox) PendingAfter(ctx context.Context, id string, limit int) ([]string, error) {
	return s.ids(ctx, `SELECT id FROM approvals WHERE status = 'pending' AND id > $1 ORDER BY id LIMIT $2`, id, limit)
}

// Pending counts the approvals that wait.
func (s Outbox) Pending(ctx context.Context) (int, error) {
	return value[int](ctx, s.db, `SELECT count(*) FROM approvals WHERE status = 'pending'`)
}

// HandedOver is PendingAfter without those approvals of which Temporal has not been told
// yet: they have a message in the outbox.
func (s Outbox) HandedOver(ctx context.Context, id string, limit int) ([]string, error) {
	return s.ids(ctx, `SELECT id FROM approvals a WHERE status = 'pending' AND id > $1
			AND NOT EXISTS (SELECT FROM outbox o WHERE o.approval_id = a.id)
		ORDER BY id LIMIT $2`, id, limit)
}

func (s *db) ids(ctx context.Context, sql string, args ...any) ([]string, error) {
	return collect(ctx, s, pgx.RowTo[string], sql, args...)
}

// Relay claims up to limit of the oldest outbox rows that no other relay holds,
// gives a message for each of their approvals to signal, and deletes the rows of those
// approvals that it returns. It returns how many rows were claimed.
func (s Outbox) Relay(ctx context.Context, limit int, signal func(ctx context.Context, messages []Message) (signalled map[string]bool)) (int, error) {
	claimed := 0
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT o.id, o.approval_id, coalesce(o.traceparent, ''), o.may_wait, extract(epoch FROM a.wake_at - clock_timestamp())::float8
			FROM outbox o JOIN approvals a ON a.id = o.approval_id ORDER BY o.id LIMIT $1 FOR UPDATE OF o SKIP LOCKED`, limit)
		if err != nil {
			return translate(err)
		}
		type claim struct {
			Message
			rows []int64
		}
		byApproval := map[string]*claim{}
		var order []*claim
		var id int64
		var m Message
		var seconds float64
		if _, err := pgx.ForEachRow(rows, []any{&id, &m.ApprovalID, &m.Traceparent, &m.MayWait, &seconds}, func() error {
			m.Wait = time.Duration(seconds * float64(time.Second))
			one := byApproval[m.ApprovalID]
			if one == nil {
				one = &claim{Message: m}
				byApproval[m.ApprovalID], order = one, append(order, one)
			}
			one.MayWait = one.MayWait && m.MayWait
			one.rows = append(one.rows, id)
			claimed++
			return nil
		}); err != nil {
			return translate(err)
		}
		if claimed == 0 {
			return nil
		}
		messages := make([]Message, len(order))
		for i, one := range order {
			messages[i] = one.Message
		}
		var done []int64
		for approvalID := range signal(ctx, messages) {
			done = append(done, byApproval[approvalID].rows...)
		}
		_, err = tx.Exec(ctx, `DELETE FROM outbox WHERE id = ANY ($1)`, done)
		return translate(err)
	})
	return claimed, err
}

// Depth is how many messages wait for Temporal, and how long the oldest has.
func (s Outbox) Depth(ctx context.Context) (n int, oldest time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var seconds float64
	err = s.pool.QueryRow(ctx, `SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 FROM outbox`).Scan(&n, &seconds)
	return n, time.Duration(seconds * float64(time.Second)), translate(err)
}

// Poke puts messages for Temporal into the outbox, but for the approvals that
// have one waiting there already.
func (s Outbox) Poke(ctx context.Context, approvalIDs []string) error {
	return s.exec(ctx, `INSERT INTO outbox (approval_id)
		SELECT lost.id FROM unnest($1::text[]) AS lost (id) WHERE NOT EXISTS (SELECT FROM outbox o WHERE o.approval_id = lost.id)`, approvalIDs)
}

// MarkRead records that the person was shown the whole of the arguments that have
// the digest.
func (s Approvals) MarkRead(ctx context.Context, approvalID, personID, digest string) error {
	return s.exec(ctx, `INSERT INTO card_views (approval_id, person_id, digest) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, approvalID, personID, digest)
}

// WasRead reports whether MarkRead has recorded that.
func (s Approvals) WasRead(ctx context.Context, approvalID, personID, digest string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return wasRead(ctx, s.pool, approvalID, personID, digest)
}

// WasRead reports it on the change's own connection: one that waited for a second while
// it holds the lock could wait for all others that do the same.
func (c *Change) WasRead(personID, digest string) (bool, error) {
	return wasRead(c.ctx, c.tx, c.Approval.ID, personID, digest)
}

func wasRead(ctx context.Context, q querier, approvalID, personID, digest string) (shown bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM card_views WHERE approval_id = $1 AND person_id = $2 AND digest = $3)`,
		approvalID, personID, digest).Scan(&shown)
	return shown, translate(err)
}
