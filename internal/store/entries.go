package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/canon"
)

// The kinds of changes that can take an approval beside those of documents: what an approval
// proposes then are entries, each of which is what one row becomes.
const (
	RolesChange    = "roles"
	RoutingChange  = "routing"
	SettingsChange = "settings"
	// EndpointsChange is of where notifications go, and RetentionChange of what is kept from
	// being erased, and how long.
	EndpointsChange = "endpoints"
	RetentionChange = "retention"
)

// ChangeKinds are all kinds of changes that can take an approval.
func ChangeKinds() []string {
	return []string{PolicyDocument, ContractsDocument, RolesChange, RoutingChange, SettingsChange, EndpointsChange, RetentionChange}
}

// changeTools are the names under which changes wait, by their kind. No agent's call has one of
// them.
var changeTools = map[string]string{
	PolicyDocument: "holdpoint.policy", ContractsDocument: "holdpoint.contracts",
	RolesChange: "holdpoint.roles", RoutingChange: "holdpoint.routing", SettingsChange: "holdpoint.settings",
	EndpointsChange: "holdpoint.endpoints", RetentionChange: "holdpoint.retention",
}

// changeWords say what a kind of changes is of.
var changeWords = map[string]string{
	PolicyDocument: "the policy", ContractsDocument: "the tool contracts", RolesChange: "roles", RoutingChange: "routing", SettingsChange: "settings",
	EndpointsChange: "where notifications go", RetentionChange: "retention and legal holds",
}

// ChangeTool is the name under which changes of a kind wait; "" for no kind.
func ChangeTool(kind string) string { return changeTools[kind] }

// ChangeWords say what changes of a kind are of: "the policy".
func ChangeWords(kind string) string { return changeWords[kind] }

// ChangeUnder is the kind of changes that wait under a tool's name; "" where the name is one of
// a tool.
func ChangeUnder(tool string) string {
	for kind, name := range changeTools {
		if name == tool {
			return kind
		}
	}
	return ""
}

// Entry is what becomes of one thing that is set up, and what it was: a change of something
// that was otherwise by then is not made. It holds ids and no names, so that nothing of it has to be
// erased.
type Entry struct {
	What    string          `json:"what"` // a key of entryRows
	ID      string          `json:"id"`
	Was     json.RawMessage `json:"was"` // null where there was none
	Becomes json.RawMessage `json:"becomes"`
	// What the event of the change says.
	Code     string          `json:"code"`
	Message  string          `json:"message"`
	AgentID  string          `json:"agent_id,omitempty"`
	ToolName string          `json:"tool_name,omitempty"`
	Payload  json.RawMessage `json:"payload"`

	// EventID is of that event, once the change is made.
	EventID string `json:"-"`
}

// The things that entries are of.
const (
	PersonEntry   = "person"
	SettingsEntry = "settings"
	ToolEntry     = "tool"
	AgentEntry    = "agent"
	ScheduleEntry = "schedule"
	EndpointEntry = "endpoint"
	HoldEntry     = "hold"
	FloorEntry    = "floor"
)

// NewEntry is an entry, with the event that a change made at once would have.
func NewEntry(what, id string, was, becomes any, e engine.Event) (Entry, error) {
	n := Entry{What: what, ID: id, AgentID: e.AgentID, ToolName: e.ToolName, Payload: e.SafePayload}
	if len(e.Reasons) > 0 {
		n.Code, n.Message = e.Reasons[0].Code, e.Reasons[0].Message
	}
	var err1, err2 error
	n.Was, err1 = json.Marshal(was)
	n.Becomes, err2 = json.Marshal(becomes)
	return n, errors.Join(err1, err2)
}

// Of is the event of the entry's change, which is made at a moment: what was asked for before
// then begins then.
func (n Entry) Of(e engine.Event, at time.Time) (engine.Event, error) {
	e.AgentID, e.ToolName, e.SafePayload = n.AgentID, n.ToolName, n.Payload
	e.Reasons = []engine.Reason{{Code: n.Code, Message: n.Message}}
	if n.What == HoldEntry {
		e.Type = engine.Held
	}
	if n.What != ScheduleEntry {
		return e, nil
	}
	said, becomes := map[string]any{}, ProposedSchedule{}
	if err := errors.Join(json.Unmarshal(n.Payload, &said), json.Unmarshal(n.Becomes, &becomes)); err != nil {
		return e, fmt.Errorf("read what is said of a schedule: %w", err)
	}
	if becomes.From.Before(at) {
		said["from"] = at.UTC()
	}
	return e, e.SetPayload(said)
}

// EntriesDocument is the document that proposes entries.
func EntriesDocument(kind string, entries []Entry) (Document, error) {
	body, err := json.Marshal(map[string][]Entry{"entries": entries})
	if err != nil {
		return Document{}, fmt.Errorf("encode a change of %s: %w", kind, err)
	}
	v, err := canon.Parse(body)
	if err != nil {
		return Document{}, fmt.Errorf("encode a change of %s: %w", kind, err)
	}
	d := Document{Kind: kind, Body: v.Canonical()}
	d.KnownAs = d.Digest()
	return d, nil
}

// Entries are those that a document proposes; it is an error for any other document.
func (d Document) Entries() ([]Entry, error) {
	var body struct{ Entries []Entry }
	if err := json.Unmarshal(d.Body, &body); err != nil {
		return nil, fmt.Errorf("read a change of %s: %w", d.Kind, err)
	}
	for _, n := range body.Entries {
		if entryRows[n.What].kind != d.Kind {
			return nil, fmt.Errorf("a change of %s has an entry %q", d.Kind, n.What)
		}
	}
	return body.Entries, nil
}

// ByEntries reports whether changes of a kind are entries, and no document of their own.
func ByEntries(kind string) bool {
	return kind != PolicyDocument && kind != ContractsDocument
}

// entryRows say where entries are: lock ($1 is the id) keeps others from changing the row, read
// is what it is now, as JSON, and write ($2 is what it becomes, and holdpoint.event the id of the
// event that tells of it) makes it that. Where nothing is written, the entry cannot be made any more; can says so beforehand, "" where a row that is as it
// was can always be written.
var entryRows = map[string]struct {
	kind, lock, read, can, still string
	write                        []string
}{
	// Whoever is disabled gets no role.
	PersonEntry: {
		RolesChange, `SELECT pg_advisory_xact_lock(hashtextextended('people', 0)) WHERE $1 <> ''`,
		`SELECT to_jsonb(ARRAY(SELECT unnest(roles) ORDER BY 1)) FROM people WHERE id = $1 AND disabled_at IS NULL AND erased_at IS NULL FOR NO KEY UPDATE`, ``, ``,
		[]string{`UPDATE people SET roles = ARRAY(SELECT jsonb_array_elements_text($2::jsonb)) WHERE id = $1`},
	},
	SettingsEntry: {
		SettingsChange, `SELECT pg_advisory_xact_lock(hashtextextended('settings ' || $1::text, 0))`,
		`SELECT body FROM settings WHERE $1 = '' FOR UPDATE`, ``, ``,
		[]string{`INSERT INTO settings (body) SELECT $2::jsonb WHERE $1 = '' ON CONFLICT (only_row) DO UPDATE SET body = excluded.body`},
	},
	ToolEntry: {
		SettingsChange, `SELECT pg_advisory_xact_lock(hashtextextended('tool ' || $1::text, 0))`,
		`SELECT jsonb_build_object('profile', profile, 'revoked', revoked_at IS NOT NULL) FROM tools WHERE name = $1 FOR UPDATE`, ``, ``,
		[]string{`INSERT INTO tools (name, profile) SELECT $1, $2::jsonb->'profile' ON CONFLICT (name) DO UPDATE SET profile = excluded.profile, revoked_at = CASE WHEN ($2::jsonb->>'revoked')::boolean THEN tools.revoked_at END`},
	},
	AgentEntry: {
		SettingsChange, `SELECT pg_advisory_xact_lock(hashtextextended('agent ' || $1::text, 0))`,
		`SELECT jsonb_build_object('profile', profile, 'revoked', revoked_at IS NOT NULL) FROM agents WHERE id = $1 FOR UPDATE`, ``, ``,
		[]string{`UPDATE agents SET profile = $2::jsonb->'profile', revoked_at = CASE WHEN ($2::jsonb->>'revoked')::boolean THEN revoked_at END WHERE id = $1`},
	},
	// From the moment that was asked for, or from now on, where that has passed.
	ScheduleEntry: {
		RoutingChange, `SELECT pg_advisory_xact_lock(hashtextextended('on-call ' || $1::text, 0))`, scheduleNow,
		`SELECT $1 <> '' AND ($2::jsonb->>'until')::timestamptz > transaction_timestamp()
			AND NOT EXISTS (SELECT FROM jsonb_array_elements_text($2::jsonb->'people') AS wanted (id) LEFT JOIN people p ON p.id = wanted.id AND p.disabled_at IS NULL WHERE p.id IS NULL)`,
		`SELECT coalesce(jsonb_agg(shift ORDER BY n), 'null') FROM jsonb_array_elements(CASE jsonb_typeof($1::jsonb) WHEN 'array' THEN $1::jsonb ELSE '[]' END) WITH ORDINALITY AS shifts (shift, n)
			WHERE (shift->>'until')::timestamptz > transaction_timestamp()`,
		[]string{
			`DELETE FROM on_call WHERE schedule = $1 AND from_at >= ` + offFrom,
			`UPDATE on_call SET until_at = ` + offFrom + ` WHERE schedule = $1 AND until_at > ` + offFrom,
			`SELECT look_again(ARRAY['on-call/' || $1::text], '', '') WHERE $2::jsonb IS NOT NULL`,
			`INSERT INTO on_call (schedule, person_id, from_at, until_at, told_by)
				SELECT $1, wanted.id, ` + shiftFrom + `, ($2::jsonb->>'until')::timestamptz, $2::jsonb->>'told_by' FROM jsonb_array_elements_text($2::jsonb->'people') AS wanted (id)`,
		},
	},
	EndpointEntry: {
		EndpointsChange, `SELECT pg_advisory_xact_lock(hashtextextended('endpoint ' || $1::text, 0))`,
		`SELECT jsonb_build_object('on', disabled_at IS NULL, 'edition', edition) FROM endpoints WHERE id = $1 FOR UPDATE`,
		`SELECT EXISTS (SELECT FROM endpoints WHERE id = $1 AND ` + endpointEdition + `)`, ``,
		[]string{`UPDATE endpoints SET disabled_at = NULL,
				settings = CASE WHEN edition = wanted THEN settings ELSE next_settings END,
				sealed = CASE WHEN edition = wanted THEN sealed ELSE next_sealed END,
				sealed_key = CASE WHEN edition = wanted THEN sealed_key ELSE next_sealed_key END
			FROM (SELECT ($2::jsonb->>'edition')::integer) AS becomes (wanted) WHERE id = $1 AND ` + endpointEdition},
	},
	HoldEntry: {
		RetentionChange, retentionLock,
		`SELECT jsonb_build_object('released', released_at IS NOT NULL) FROM legal_holds WHERE id = $1 FOR UPDATE`, ``, ``,
		[]string{`UPDATE legal_holds SET released_by = $2::jsonb->>'by', released_event = current_setting('holdpoint.event')::uuid WHERE id = $1 AND released_at IS NULL`},
	},
	// Whoever owns the database lowers the floor: what people approve is that it may.
	FloorEntry: {
		RetentionChange, retentionLock,
		`SELECT jsonb_build_object('seconds', extract(epoch FROM shortest)::bigint) FROM retention_floor WHERE $1 = '' FOR UPDATE`, ``, ``,
		[]string{`UPDATE retention_floor SET permitted = make_interval(secs => ($2::jsonb->>'seconds')::bigint), permitted_by = current_setting('holdpoint.approval') WHERE $1 = ''`},
	},
}

// endpointEdition is the condition that the edition which an entry names is the endpoint's, or is
// what is proposed in place of it.
const endpointEdition = `($2::jsonb->>'edition')::integer IN (edition, CASE WHEN next_settings IS NOT NULL THEN next_edition END)`

// retentionLock is that of the triggers retention_lock: nothing is erased meanwhile.
const retentionLock = `SELECT pg_advisory_xact_lock(7214480935526633015) WHERE $1::text IS NOT NULL`

// shiftFrom is when the shift of an entry begins.
const shiftFrom = `greatest(($2::jsonb->>'from')::timestamptz, transaction_timestamp())`

// offFrom is from when nobody else is on call any more.
const offFrom = `greatest(least(($2::jsonb->>'off')::timestamptz, ($2::jsonb->>'from')::timestamptz), transaction_timestamp())`

// scheduleNow are the shifts of a schedule that are not over.
const scheduleNow = `SELECT jsonb_agg(jsonb_build_object('person', person_id, 'from', from_at, 'until', until_at) ORDER BY from_at, person_id)
	FROM on_call WHERE schedule = $1 AND until_at > transaction_timestamp()`

// EntryNow is what something is now: null where there is none.
func (s Rules) EntryNow(ctx context.Context, what, id string) (json.RawMessage, error) {
	var now json.RawMessage
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		now, err = entryNow(ctx, tx, what, id)
		return err
	})
	return now, err
}

func entryNow(ctx context.Context, tx pgx.Tx, what, id string) (json.RawMessage, error) {
	rows := entryRows[what]
	if _, err := tx.Exec(ctx, rows.lock, id); err != nil {
		return nil, translate(err)
	}
	var now json.RawMessage
	err := tx.QueryRow(ctx, rows.read, id).Scan(&now)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && now == nil {
		return json.RawMessage("null"), nil
	}
	return now, translate(err)
}

// Stand says what stands in the way of entries, "" for nothing: everything that they would change
// has to be as it was when they were proposed, and somebody has to be left with adminRole. Locks keep
// it so until the change commits.
func (c *Change) Stand(entries []Entry, adminRole string) (obstacle string, err error) {
	const changed = "What it would change has been changed since it was proposed. Propose it again."
	for _, n := range entries {
		now, err := entryNow(c.ctx, c.tx, n.What, n.ID)
		if err != nil {
			return "", err
		}
		before, can := n.Was, true
		if sql := entryRows[n.What].still; sql != "" {
			if err := c.tx.QueryRow(c.ctx, sql, n.Was).Scan(&before); err != nil {
				return "", translate(err)
			}
		}
		was, err1 := canon.Parse(before)
		is, err2 := canon.Parse(now)
		if err := errors.Join(err1, err2); err != nil {
			return "", fmt.Errorf("compare a change of %s: %w", n.What, err)
		}
		if string(was.Canonical()) != string(is.Canonical()) {
			return changed, nil
		}
		if sql := entryRows[n.What].can; sql != "" {
			err = c.tx.QueryRow(c.ctx, sql, n.ID, n.Becomes).Scan(&can)
		}
		if err != nil {
			return "", translate(err)
		}
		if !can {
			return changed, nil
		}
	}
	return c.lastAdministrator(entries, adminRole)
}

// lastAdministrator is the obstacle of a change after which nobody would administer who can sign in.
func (c *Change) lastAdministrator(entries []Entry, adminRole string) (obstacle string, err error) {
	if !slices.ContainsFunc(entries, func(n Entry) bool { return n.What == PersonEntry }) {
		return "", nil
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return "", fmt.Errorf("encode entries: %w", err)
	}
	var last bool
	err = c.tx.QueryRow(c.ctx, `WITH becomes AS (SELECT e->>'id' AS id, e->'becomes' ? $2 AS administers FROM jsonb_array_elements($1::jsonb) e)
		SELECT EXISTS (SELECT FROM becomes b JOIN people o USING (id) WHERE o.disabled_at IS NULL AND $2 = ANY (o.roles) AND NOT b.administers)
			AND NOT EXISTS (SELECT FROM people o LEFT JOIN becomes b USING (id) WHERE coalesce(b.administers, `+administers+`) AND `+signsIn+`)`,
		text, adminRole, NoPassword).Scan(&last)
	if last {
		obstacle = "Nobody would be left who administers: it takes the role from the last administrator. Give somebody else the role admin first."
	}
	return obstacle, translate(err)
}

// MayGiveRoles reports whether the login of the change may write what roles people have.
func (c *Change) MayGiveRoles() (may bool, err error) {
	err = c.tx.QueryRow(c.ctx, `SELECT has_column_privilege('people', 'roles', 'UPDATE')`).Scan(&may)
	return may, translate(err)
}

// ErrEntriesFirst is the error of a change that ChangeEntries can make.
var ErrEntriesFirst = errors.New("what it changes is locked before the approval")

// proposedEntries are those that an approval proposes, none for any other document.
func proposedEntries(ctx context.Context, tx pgx.Tx, id string) (string, []Entry, error) {
	var d Document
	err := tx.QueryRow(ctx, `SELECT d.kind, d.body FROM approvals a JOIN documents d ON d.digest = a.proposes WHERE a.id = $1`, id).Scan(&d.Kind, &d.Body)
	if err != nil || !ByEntries(d.Kind) {
		return d.Kind, nil, translate(err)
	}
	entries, err := d.Entries()
	if err != nil {
		return d.Kind, nil, nil //nolint:nilerr // the change ends with no, by whoever looks at it
	}
	return d.Kind, entries, nil
}

// lockEntries takes the locks of what is changed, always in the same order.
func lockEntries(ctx context.Context, tx pgx.Tx, kind string, entries []Entry) error {
	if err := lockActive(ctx, tx, kind); err != nil {
		return err
	}
	entries = slices.SortedFunc(slices.Values(entries), func(a, b Entry) int { return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.ID, b.ID)) })
	for _, n := range entries {
		if _, err := tx.Exec(ctx, entryRows[n.What].lock, n.ID); err != nil {
			return translate(err)
		}
	}
	return nil
}

// PutEntries makes of everything what the approval proposes, or nothing: done is false where the
// database does not take it. Its token has to have been redeemed, and they have to Stand.
func (c *Change) PutEntries(entries []Entry) (done bool, err error) {
	part, err := c.tx.Begin(c.ctx)
	if err != nil {
		return false, translate(err)
	}
	err = c.putEntries(part, entries)
	if err == nil {
		return true, translate(part.Commit(c.ctx))
	}
	if rollback := part.Rollback(c.ctx); rollback != nil {
		return false, errors.Join(err, translate(rollback))
	}
	var refused *refusedByPostgres
	if errors.Is(err, ErrGuarded) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) || errors.As(err, &refused) {
		return false, nil
	}
	return false, err
}

func (c *Change) putEntries(tx pgx.Tx, entries []Entry) error {
	if _, err := tx.Exec(c.ctx, `SELECT set_config('holdpoint.approval', $1, true)`, c.Approval.ID); err != nil {
		return translate(err)
	}
	for _, n := range entries {
		var written int64
		if _, err := tx.Exec(c.ctx, `SELECT set_config('holdpoint.event', $1, true)`, n.EventID); err != nil {
			return translate(err)
		}
		for _, sql := range entryRows[n.What].write {
			tag, err := tx.Exec(c.ctx, sql, n.ID, n.Becomes)
			if err != nil {
				return translate(err)
			}
			written = tag.RowsAffected()
		}
		if written == 0 {
			return ErrNotFound
		}
	}
	_, err := tx.Exec(c.ctx, `SELECT set_config('holdpoint.approval', '', true)`)
	return translate(err)
}

// ProposedEndpoint is what an entry of an endpoint becomes, and was: on or off, in an edition of its
// settings and address, which is the one that it has or the one that is proposed in place of it.
type ProposedEndpoint struct {
	On      bool  `json:"on"`
	Edition int64 `json:"edition"`
}

// ProposedHold is what an entry of a legal hold becomes, and, without By, was.
type ProposedHold struct {
	Released bool   `json:"released"`
	By       string `json:"by"`
}

// ProposedFloor is what an entry of the floor becomes, and was.
type ProposedFloor struct {
	Seconds int64 `json:"seconds"`
}

// ProposedSchedule is what an entry of a schedule becomes.
type ProposedSchedule struct {
	People []string `json:"people"` // ids
	// Off is from when whoever was on call is so no more: at From, or before.
	Off    time.Time `json:"off"`
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	ToldBy string    `json:"told_by"`
}
