package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
)

// EventFilter narrows a list of events; zero fields do not.
type EventFilter struct {
	Since, Until time.Time // from Since on, before Until
	AgentID      string
	Tool         string
	Outcome      string
	Type         string
	ActorID      string // a person's, an agent's or a key's id
	ApprovalID   string
	Refusals     Refusals
	// After is the seq after which to go on; in the other direction, before which.
	After int64
	// Newest turns the direction: from the newest event on.
	Newest bool
	Limit  int
}

// Refusals says which events a filter has of those by which somebody was turned away. Whoever is,
// can be as often as they like: what they add must not push off what happened.
type Refusals uint8

// All events, those of no refusal, and those of refusals alone.
const (
	WithRefusals Refusals = iota
	WithoutRefusals
	OnlyRefusals
)

// condition is that of the events, or entries of the log, l.
func (r Refusals) condition() []string {
	switch r {
	case WithoutRefusals:
		return []string{"NOT " + refusal("l")}
	case OnlyRefusals:
		return []string{refusal("l")}
	case WithRefusals:
	}
	return nil
}

// refusal is the condition that an event e, or the log's entry of it, tells of a refusal: it has the type of
// what somebody tried.
func refusal(e string) string {
	return `(` + e + `.outcome = 'DENY' AND ` + e + `.type NOT IN ('decision', 'settled'))`
}

// maxFilterText is how long a text of a filter is at the most: no event has a longer one.
const maxFilterText = 1000

// ErrFilter is wrapped by the errors of EventFilter.Check.
var ErrFilter = errors.New("no event can fit the filter")

// Check returns an error that names the field by which no event can fit the
// filter: a mistake of who asks, and not a search that finds nothing.
func (f EventFilter) Check() error {
	for _, field := range []struct{ name, text string }{
		{"agent", f.AgentID}, {"tool", f.Tool}, {"outcome", f.Outcome}, {"type", f.Type}, {"actor", f.ActorID}, {"approval", f.ApprovalID},
	} {
		if !utf8.ValidString(field.text) || strings.ContainsRune(field.text, 0) {
			return fmt.Errorf("%w: its %s is no text", ErrFilter, field.name)
		}
		if len(field.text) > maxFilterText {
			return fmt.Errorf("%w: its %s has more than %d bytes", ErrFilter, field.name, maxFilterText)
		}
	}
	// An export puts its filter into the log, where an address or a name could not be erased.
	if strings.Contains(f.ActorID, "@") || strings.Contains(strings.TrimPrefix(f.ActorID, "uid "), " ") {
		return fmt.Errorf("%w: its actor is no id: events have ids such as usr_…, and no addresses or names", ErrFilter)
	}
	if f.Outcome != "" && !slices.Contains(engine.Outcomes(), engine.Outcome(f.Outcome)) {
		return fmt.Errorf("%w: the outcomes are %v", ErrFilter, engine.Outcomes())
	}
	if f.Type != "" && !slices.Contains(engine.EventTypes(), engine.EventType(f.Type)) {
		return fmt.Errorf("%w: the types of events are %v", ErrFilter, engine.EventTypes())
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return fmt.Errorf("%w: it has to begin before it ends", ErrFilter)
	}
	return nil
}

// conditions are the filter's, but for its place, on events as l.
func (f EventFilter) conditions() (where []string, args []any) {
	add := func(condition string, value any) {
		args = append(args, value)
		where = append(where, fmt.Sprintf(condition, len(args)))
	}
	if !f.Since.IsZero() {
		add("l.at >= $%d", f.Since)
	}
	if !f.Until.IsZero() {
		add("l.at < $%d", f.Until)
	}
	for _, c := range []struct{ column, value string }{
		{"agent_id", f.AgentID}, {"tool_name", f.Tool}, {"outcome", f.Outcome}, {"type", f.Type}, {"actor_id", f.ActorID}, {"approval_id", f.ApprovalID},
	} {
		if c.value != "" {
			add("l."+c.column+" = $%d", c.value)
		}
	}
	where = append(where, f.Refusals.condition()...)
	if len(where) == 0 {
		where = []string{"true"}
	}
	return where, args
}

// Records lists the records of events that have a place in the log, in its order.
// A record whose event is gone has an empty ID.
func (s Events) Records(ctx context.Context, f EventFilter) ([]audit.Record, error) {
	found, err := s.Search(ctx, f, 0)
	return found.Records, err
}

// IndexedRecord is a record and what the log's index has it filed under.
type IndexedRecord struct {
	audit.Record
	under [7]string
}

// Mismatch names what the index says otherwise than the event, whose actor this is;
// "" for nothing. Who searches by that does not find the event.
func (r IndexedRecord) Mismatch(actor string) string {
	for i, c := range []struct{ name, says string }{
		{"time", audit.Time(r.At)},
		{"type", r.Type},
		{"outcome", r.Outcome},
		{"agent_id", r.AgentID},
		{"tool_name", r.ToolName},
		{"approval_id", r.ApprovalID},
		{"actor", actor},
	} {
		if r.under[i] != c.says {
			return c.name
		}
	}
	return ""
}

// Placed is Records, with what they are filed under.
func (s Events) Placed(ctx context.Context, f EventFilter) ([]IndexedRecord, error) {
	filed, _, err := s.search(ctx, f, 0)
	return filed, err
}

func scanFiled(row pgx.CollectableRow) (IndexedRecord, error) {
	var r IndexedRecord
	var at time.Time
	u := &r.under
	err := row.Scan(append(append([]any{&r.Leaf}, recordInto(&r.Record)...), &at, &u[1], &u[2], &u[3], &u[4], &u[5], &u[6])...)
	u[0] = audit.Time(at)
	return r, err
}

// Unplaced lists the records of events that have no place in the log yet, in the
// order in which they were appended. After and Newest do not count.
func (s Events) Unplaced(ctx context.Context, f EventFilter) ([]audit.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if f.ActorID != "" {
		return nil, nil // the body alone says it; it is found a moment later
	}
	where, args := f.conditions()
	args = append(args, f.Limit)
	rows, err := s.pool.Query(ctx, `SELECT -1::bigint, `+recordColumns+`
		FROM (SELECT x.*, x.appended_at AS at, -1 AS leaf FROM events x WHERE x.seq > (SELECT seq FROM log_head)) e
		CROSS JOIN LATERAL (SELECT e.at, e.agent_id, e.tool_name, e.outcome, e.type, e.approval_id, e.leaf) l
		WHERE `+strings.Join(where, " AND ")+fmt.Sprintf(` ORDER BY e.seq LIMIT $%d`, len(args)), args...)
	if err != nil {
		return nil, translate(err)
	}
	list, err := pgx.CollectRows(rows, scanRecord)
	return list, translate(err)
}

func scanRecord(row pgx.CollectableRow) (audit.Record, error) {
	var r audit.Record
	err := row.Scan(append([]any{&r.Leaf}, recordInto(&r)...)...)
	return r, err
}

// CountUnplaced counts the rows of events that have no place in the log though later ones
// have: nothing of ours leaves such a row. Somebody put it there, or numbers were set
// back for a moment, so that the sequencer did not see it. It reads all numbers there
// are, which takes seconds for ten million.
func (s Events) CountUnplaced(ctx context.Context) (strays int64, err error) {
	for after := int64(math.MinInt64); ; {
		var last *int64
		var n int64
		err := s.pool.QueryRow(ctx, `SELECT max(e.seq), count(*) FILTER (WHERE l.seq IS NULL)
			FROM (SELECT seq FROM events WHERE seq > $1 AND seq <= (SELECT seq FROM log_head) ORDER BY seq LIMIT 200000) e LEFT JOIN log_entries l ON l.seq = e.seq`, after).Scan(&last, &n)
		if err != nil || last == nil {
			return strays, translate(err)
		}
		after, strays = *last, strays+n
	}
}

// CountAlarms counts the events that tell of a fact without an event (approval.NotInLog)
// of approvals that are pending, or ended less than within ago.
func (s Events) CountAlarms(ctx context.Context, within time.Duration) (alarms int64, err error) {
	return value[int64](ctx, s.db, countAlarms, within.Seconds(), approval.NotInLog.Code)
}

const countAlarms = `SELECT count(*) FROM approvals a JOIN events e ON e.approval_id = a.id
	WHERE (a.status = 'pending' OR a.status <> 'pending' AND a.ended_at > (SELECT clock_timestamp()) - make_interval(secs => $1))
	  AND e.type = 'refusal' AND event_code(e.body) = $2`

// opens is the condition on an event e that it is the one that opened its approval.
const opens = `e.type = 'decision' AND position('"asked":{'::bytea IN e.body) > 0`

// binds is what an event's body holds that has this binding.
func binds(binding string) []byte { return []byte(`"binding":"` + binding + `"`) }

// Bound reports whether the event that opened the approval has this binding.
func (s Events) Bound(ctx context.Context, approvalID, binding string) (bool, error) {
	return s.exists(ctx, `SELECT EXISTS (SELECT FROM events e WHERE e.approval_id = $1 AND `+opens+` AND position($2::bytea IN e.body) > 0)`, approvalID, binds(binding))
}

// Evaluated reports whether the event of this id is a decision that waited for the
// approval, and has this binding.
func (s Events) Evaluated(ctx context.Context, id, approvalID, binding string) (bool, error) {
	if uuid.Validate(id) != nil {
		return false, nil
	}
	return s.exists(ctx, `SELECT EXISTS (SELECT FROM events e WHERE e.event_id = $1 AND e.approval_id = $2 AND e.type = 'decision' AND position($3::bytea IN e.body) > 0)`,
		id, approvalID, binds(binding))
}

func (s Events) exists(ctx context.Context, sql string, args ...any) (there bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return there, translate(s.pool.QueryRow(ctx, sql, args...).Scan(&there))
}

// List lists events in the order in which they were appended, whether they have
// a place in the log or not: those of one approval, or the first ones. Of the
// filter only the columns and the limit count.
func (s Events) List(ctx context.Context, f EventFilter) ([]engine.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	where, args := f.conditions()
	args = append(args, f.Limit)
	return readEvents(s.pool.Query(ctx, `SELECT `+toldColumns+`
		FROM (SELECT x.*, x.appended_at AS at FROM events x) l WHERE `+strings.Join(where, " AND ")+fmt.Sprintf(` ORDER BY l.seq LIMIT $%d`, len(args)), args...))
}

// Bounds of what is told of an approval.
const (
	maxTold    = 2000
	maxRefused = 200
)

// OfApproval lists what happened to an approval, in the order in which it was appended, whether it has a place in
// the log or not, and the last refusals among it.
func (s Events) OfApproval(ctx context.Context, id string) ([]engine.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	turnedAway := refusal("e") + ` AND NOT (e.type = 'refusal' AND event_code(e.body) = $4)`
	return readEvents(s.pool.Query(ctx, `SELECT `+toldColumns+` FROM (
			(SELECT * FROM events e WHERE e.approval_id = $1 AND NOT (`+turnedAway+`) ORDER BY e.seq LIMIT $2)
			UNION ALL (SELECT * FROM events e WHERE e.approval_id = $1 AND `+turnedAway+` ORDER BY e.seq DESC LIMIT $3)) l ORDER BY l.seq`,
		id, maxTold, maxRefused, approval.NotInLog.Code))
}

// toldColumns are those of events l that readEvents reads.
const toldColumns = `coalesce((SELECT p.leaf FROM log_entries p WHERE p.seq = l.seq), -1), l.appended_at, l.body`

func readEvents(rows pgx.Rows, err error) ([]engine.Event, error) {
	if err != nil {
		return nil, translate(err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (engine.Event, error) {
		var e engine.Event
		var leaf int64
		var at time.Time
		var body []byte
		if err := row.Scan(&leaf, &at, &body); err != nil {
			return e, err
		}
		if err := json.Unmarshal(body, &e); err != nil {
			return e, fmt.Errorf("decode an event: %w", err)
		}
		e.Seq, e.Timestamp = leaf+1, at
		return e, nil
	})
	return events, translate(err)
}

// CountBy counts what somebody did, or was refused, of administration, as the events' code says, within a time until now.
func (s Events) CountBy(ctx context.Context, actorID, code string, within time.Duration) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return countBy(ctx, s.pool, actorID, code, within)
}

func countBy(ctx context.Context, q querier, actorID, code string, within time.Duration) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT count(*) FROM events WHERE type = 'admin' AND event_code(body) = $2
		AND appended_at > (SELECT clock_timestamp()) - make_interval(secs => $3) AND event_actor(body) = $1`, actorID, code, within.Seconds()).Scan(&n)
	return n, translate(err)
}
