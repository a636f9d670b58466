package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine/approval"
)

// askingColumns are the columns by which an inbox finds a pending approval. They are
// written with every change of it, and read by nothing that decides.
func askingColumns(a approval.Asking) columns {
	if a.Roles == nil {
		a.Roles = []string{}
	}
	if a.Spoken == nil {
		a.Spoken = []string{}
	}
	if a.Noes == nil {
		a.Noes = [][]string{}
	}
	var due *time.Time
	if !a.Due.IsZero() {
		due = &a.Due
	}
	return columns{{"due_at", &due}, {"open_to", &a.Roles}, {"spoken", &a.Spoken}, {"waits_for", &a.Kind}, {"claimed_by", &a.Claimed}, {"noes", &a.Noes}}
}

// InboxOrder is the order of an inbox.
type InboxOrder string

// The orders; in each, ties are broken by id.
const (
	ByDue  InboxOrder = ""       // what is due first
	Oldest InboxOrder = "oldest" // what was proposed first
	Newest InboxOrder = "newest" // what was proposed last
)

// InboxSearch says which approvals of an inbox are wanted: all of them, where a field
// is zero.
type InboxSearch struct {
	// Words have each to be in the tool's name, the agent's name or id, the environment,
	// the domain, or to be the approval's or the request's id. Arguments are sealed, and
	// not searched.
	Words []string
	// Tool, AgentID, Environment and Domain are exact.
	Tool, AgentID, Environment, Domain string
	// Waits is the kind of what is asked for.
	Waits string
	// Roles are all of whom are asked, for the calls of one group.
	Roles []string
	// DueWithin is how soon the time is up.
	DueWithin time.Duration
	// ClaimedBy is the id of the person who has taken it on.
	ClaimedBy string
	// PersonID is whose inbox it is, and Snoozed wants what that person has snoozed, which
	// is left out otherwise.
	PersonID string
	Snoozed  bool
	Order    InboxOrder
	// Alike makes one row of the calls of one tool by one agent that ask the same people
	// for the same: the first of them.
	Alike bool
	// After and Before are cursors of a page: at most one of them is set.
	After, Before string
	Limit         int
	// Counts asks for InboxPage.Counts.
	Counts bool
}

// InboxRow is an approval in an inbox.
type InboxRow struct {
	approval.Approval
	// Alike is how many calls the row stands for, Roles whom they ask, and AlikeIDs some of
	// them, up to GroupIDs.
	Alike    int
	Roles    []string
	AlikeIDs []string
	// InPlaceOf is by whom the person's say comes to them, the next one first; empty for
	// their own. The gate says it.
	InPlaceOf []string
	// SnoozedUntil is until when the person has snoozed it, where what they snoozed is wanted.
	SnoozedUntil time.Time
}

// GroupIDs is how many calls of a group are named.
const GroupIDs = 30

// InboxPage is a page of an inbox.
type InboxPage struct {
	Rows []InboxRow
	// All is how many approvals wait for the person, Found how many of them are as the
	// search wants them, and Groups of how many rows the list is.
	All, Found, Groups int
	// Snoozed is how many the person has snoozed.
	Snoozed int
	// From is how many rows come before the page.
	From int
	// Previous and Next are cursors of the pages beside it; "" where there is none.
	Previous, Next string
	// Counts has, for "tool", "agent", "environment", "domain" and "waits", what the
	// approvals that wait for the person have there, and how many of them.
	Counts map[string][]Count
	Now    time.Time
}

// Count is how often something is there.
type Count struct {
	Value string `json:"value"`
	N     int    `json:"n"`
}

// Page is a page of the pending approvals that ask for somebody with one of the
// standings and have not had their yes. A cursor that is not one of ours is
// ErrNotFound.
func (s Inbox) Page(ctx context.Context, standings []Eligibility, search InboxSearch) (InboxPage, error) {
	var page InboxPage
	if len(standings) == 0 {
		page.Now = s.Clock()
		return page, nil
	}
	sql, args, err := inboxSQL(standings, search)
	if err != nil {
		return page, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var found []inboxKey
	var counts []byte
	err = s.pool.QueryRow(ctx, sql, args...).Scan(&page.All, &page.Found, &page.Groups, &page.From, &page.Snoozed, &found, &counts)
	if err != nil {
		return page, translate(err)
	}
	if counts != nil {
		if err := json.Unmarshal(counts, &page.Counts); err != nil {
			return page, fmt.Errorf("read the counts of an inbox: %w", err)
		}
	}
	page.cut(found, search.Before != "")
	if err := s.fill(ctx, &page); err != nil || !search.Snoozed {
		return page, err
	}
	return page, s.fillSnoozes(ctx, search.PersonID, &page)
}

// inboxKey is a row of an inbox before it is read.
type inboxKey struct {
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
	Alike int       `json:"alike"`
	Roles []string  `json:"roles"`
	IDs   []string  `json:"ids"`
}

// cut makes a page of what was found.
func (page *InboxPage) cut(found []inboxKey, backwards bool) {
	if backwards {
		slices.Reverse(found)
		page.From -= len(found)
	}
	for _, key := range found {
		row := InboxRow{Alike: key.Alike, Roles: key.Roles, AlikeIDs: key.IDs}
		row.ID = key.ID
		page.Rows = append(page.Rows, row)
	}
	if len(found) == 0 {
		return
	}
	first, last := found[0], found[len(found)-1]
	if page.From > 0 {
		page.Previous = place(first.At, first.ID)
	}
	if page.From+len(found) < page.Groups {
		page.Next = place(last.At, last.ID)
	}
}

// fill reads the approvals of a page.
func (s Inbox) fill(ctx context.Context, page *InboxPage) error {
	ids := make([]string, len(page.Rows))
	for i, row := range page.Rows {
		ids[i] = row.ID
	}
	list, now, err := Approvals(s).list(ctx, `SELECT `+approvalRows.names+`, clock_timestamp() FROM approvals WHERE id = ANY ($1)`, ids)
	if err != nil {
		return err
	}
	page.Now = now
	for i := range page.Rows {
		at := slices.IndexFunc(list, func(a approval.Approval) bool { return a.ID == page.Rows[i].ID })
		page.Rows[i].Approval = list[at] // approvals are never deleted
	}
	return nil
}

// inboxQuery is a statement in the making.
type inboxQuery struct{ args []any }

// param is the placeholder of an argument.
func (q *inboxQuery) param(v any) string {
	q.args = append(q.args, v)
	return fmt.Sprintf("$%d", len(q.args))
}

// open is the condition that an approval asks for somebody with one of the standings.
func (q *inboxQuery) open(standings []Eligibility) string {
	var either, roles []string
	for _, each := range standings {
		voices := q.param(each.Voices)
		say := fmt.Sprintf("open_to && %s AND NOT excluded && %s AND NOT spoken && %s", q.param(each.Roles), voices, voices)
		if len(each.Voices) > 1 { // whoever stands in says nothing against another's no
			say += fmt.Sprintf(" AND (noes = '[]' OR NOT EXISTS (SELECT FROM jsonb_array_elements(noes) no WHERE no ?| %s AND NOT no ? %s))", voices, q.param(each.Voices[0]))
		}
		either = append(either, say)
		roles = append(roles, each.Roles...)
	}
	if len(either) == 1 {
		return either[0]
	}
	// The first condition is for the index.
	return "open_to && " + q.param(roles) + " AND (" + strings.Join(either, " OR ") + ")"
}

// everything is the condition of a search for all that waits.
const everything = "true"

// wanted is the condition of a search.
func (q *inboxQuery) wanted(s InboxSearch) string {
	all := append([]string{everything}, q.words(s.Words, `words LIKE (SELECT lower(%[1]s))`)...)
	for _, each := range []struct{ column, value string }{
		{"tool", s.Tool}, {"agent_id", s.AgentID}, {"environment", s.Environment}, {"risk_domain", s.Domain}, {"waits_for", s.Waits}, {"claimed_by", s.ClaimedBy},
	} {
		if each.value != "" {
			all = append(all, each.column+" = "+q.param(each.value))
		}
	}
	if len(s.Roles) > 0 {
		all = append(all, "open_to = "+q.param(s.Roles))
	}
	if s.DueWithin > 0 {
		all = append(all, "due_at < (SELECT clock_timestamp()) + make_interval(secs => "+q.param(s.DueWithin.Seconds())+")")
	}
	return strings.Join(all, " AND ")
}

// words are the conditions that each of the words is in what is searched: in what in says of
// a pattern, or in an agent's name, or is an id.
func (q *inboxQuery) words(words []string, in string) (all []string) {
	for _, word := range words {
		if ValidApprovalID(word) { // found by its key, however many there are
			all = append(all, "id = "+q.param(word))
			continue
		}
		like, exact := q.param("%"+escapeLike(word)+"%"), q.param(word)
		all = append(all, fmt.Sprintf(`(`+in+` OR id = %[2]s OR request_id = %[2]s
			OR agent_id IN (SELECT g.id FROM agents g WHERE g.id ILIKE %[1]s OR g.name ILIKE %[1]s))`, like, exact))
	}
	return all
}

func escapeLike(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}

// inboxOrders are the columns by which the orders go.
var inboxOrders = map[InboxOrder]struct {
	column, first string
	descending    bool
}{
	ByDue: {"due_at", "min", false}, Oldest: {"opened_at", "min", false}, Newest: {"opened_at", "max", true},
}

// inboxSQL is the statement that counts an inbox and finds a page of it. All that waits for
// the person is read once, in narrow rows, and counted; a page of calls is found by an index,
// and one of groups in what was read.
func inboxSQL(standings []Eligibility, s InboxSearch) (sql string, args []any, err error) {
	order, known := inboxOrders[s.Order]
	if !known {
		return "", nil, fmt.Errorf("%w: there is no order %q", ErrNotFound, s.Order)
	}
	later, earlier, direction := ">", "<", ""
	if order.descending {
		later, earlier, direction = "<", ">", " DESC"
	}
	q := &inboxQuery{}
	key, err := q.cursor(s.After + s.Before)
	if err != nil {
		return "", nil, err
	}
	own, hidden := q.param(s.PersonID), map[bool]string{false: "z.until IS NULL", true: "z.until IS NOT NULL"}[s.Snoozed]
	const now = "(SELECT clock_timestamp())" // asked once, and not for each row
	open := q.open(standings)
	from := `FROM waiting_calls a LEFT JOIN snoozes z ON z.person_id = ` + own + ` AND z.approval_id = a.id AND ` + snoozed + `
			WHERE due_at > ` + now + ` AND ` + open + ` AND ` + hidden
	wanted := q.wanted(s)
	// Where all that waits is listed by its time, an index has the page, and nothing is kept.
	// Else a page is found in what was read.
	indexed := s.Order == ByDue && !s.Alike && wanted == everything
	row := "(at, id)"
	if indexed {
		row = "(due_at, id)"
	}
	here, passed := "true", "false"
	sequence := func(direction string) string { return "at" + direction + ", id" + direction }
	listing := sequence(direction)
	switch {
	case s.Before != "":
		// The page is found backwards from the cursor.
		here, passed = row+" "+earlier+" "+key, row+" "+earlier+" "+key
		listing = sequence(map[string]string{"": " DESC", " DESC": ""}[direction])
	case s.After != "":
		here, passed = row+" "+later+" "+key, "NOT "+row+" "+later+" "+key
	}
	limit := q.param(s.Limit)
	sorts, group := "''::text AS tool", ""
	if s.Counts {
		sorts, group = "tool, agent_id, environment, risk_domain, waits_for", " GROUP BY tool, agent_id, environment, risk_domain, waits_for"
	}
	var with, totals string
	if indexed {
		with = `sorts AS MATERIALIZED (SELECT ` + sorts + `, count(*) AS n, count(*) AS found, count(*) FILTER (WHERE ` + passed + `) AS passed ` + from + group + `),
		page AS (SELECT id, due_at AS at, 1 AS alike, open_to AS roles, NULL::text[] AS ids ` + from + ` AND ` + here + ` ORDER BY ` + listing + ` LIMIT ` + limit + `)`
		totals = "sum(found)::bigint, sum(passed)::bigint"
	} else {
		rows := `SELECT id, ` + order.column + ` AS at, 1 AS alike, open_to AS roles, NULL::text[] AS ids FROM waiting WHERE wanted`
		totals = "sum(found)::bigint, (SELECT count(*) FROM listed WHERE " + passed + ")"
		if s.Alike {
			// A group has the place of its first call.
			rows = fmt.Sprintf(`SELECT %[1]s(w.id) AS id, g.at, g.alike, g.roles, g.ids
				FROM (SELECT agent_id, tool, waits_for, open_to AS roles, %[1]s(%[2]s) AS at, count(*) AS alike, (array_agg(id))[1:%[3]d] AS ids FROM waiting WHERE wanted GROUP BY agent_id, tool, waits_for, open_to) g
				JOIN waiting w ON w.wanted AND w.%[2]s = g.at AND w.agent_id = g.agent_id AND w.tool = g.tool AND w.waits_for = g.waits_for AND w.open_to = g.roles
				GROUP BY g.agent_id, g.tool, g.waits_for, g.roles, g.at, g.alike, g.ids`, order.first, order.column, GroupIDs)
			totals = "(SELECT count(*) FROM listed), (SELECT count(*) FROM listed WHERE " + passed + ")"
		}
		with = `waiting AS MATERIALIZED (SELECT id, agent_id, tool, environment, risk_domain, waits_for, open_to, due_at, opened_at, ` + wanted + ` AS wanted ` + from + `),
		sorts AS MATERIALIZED (SELECT ` + sorts + `, count(*) AS n, count(*) FILTER (WHERE wanted) AS found FROM waiting` + group + `),
		listed AS (` + rows + `),
		page AS (SELECT id, at, alike, roles, ids FROM listed WHERE ` + here + ` ORDER BY ` + listing + ` LIMIT ` + limit + `)`
	}
	counts := "NULL::jsonb"
	if s.Counts {
		counts = inboxCounts
	}
	return `WITH ` + with + `
		SELECT coalesce(waiting, 0), coalesce(found, 0), coalesce(groups, 0), coalesce(before, 0),
			(SELECT count(*) FROM snoozes z JOIN waiting_calls a ON a.id = z.approval_id
				WHERE z.person_id = ` + own + ` AND ` + snoozed + ` AND due_at > ` + now + ` AND ` + open + `),
			(SELECT coalesce(jsonb_agg(page ORDER BY ` + listing + `), '[]') FROM page), ` + counts + `
		FROM (SELECT sum(n)::bigint, sum(found)::bigint, ` + totals + ` FROM sorts) counted (waiting, found, groups, before)`, q.args, nil
}

// cursor is the key at which a page begins or ends; "" for no cursor.
func (q *inboxQuery) cursor(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	at, id, err := parsePlace(cursor)
	return "(" + q.param(at) + "::timestamptz, " + q.param(id) + "::text)", err
}

// inboxCounts counts what waits by what can be chosen, the most first. It counts the sorts of
// calls first, of which there are few.
const inboxCounts = `(SELECT jsonb_object_agg(what, list) FROM (
		SELECT what, jsonb_agg(jsonb_build_object('value', value, 'n', n) ORDER BY n DESC, value) AS list FROM (
			SELECT CASE WHEN GROUPING(tool) = 0 THEN 'tool' WHEN GROUPING(agent_id) = 0 THEN 'agent' WHEN GROUPING(environment) = 0 THEN 'environment'
					WHEN GROUPING(risk_domain) = 0 THEN 'domain' ELSE 'waits' END AS what,
				coalesce(tool, agent_id, environment, risk_domain, waits_for) AS value, sum(n)::bigint AS n
			FROM sorts GROUP BY GROUPING SETS ((tool), (agent_id), (environment), (risk_domain), (waits_for))) each
		WHERE value <> '' GROUP BY what) kinds)`

// InboxView is a search of the inbox that a person keeps under a name. Query is as the
// console writes it.
type InboxView struct{ ID, Name, Query string }

// Views lists the person's, by name.
func (s Inbox) Views(ctx context.Context, personID string) ([]InboxView, error) {
	return collect(ctx, s.db, pgx.RowToStructByPos[InboxView], `SELECT id, name, query FROM inbox_views WHERE person_id = $1 ORDER BY lower(name), name`, personID)
}

// SaveView keeps a search of the person's, in place of the one that has the name.
// ErrConflict: there are most others already.
func (s Inbox) SaveView(ctx context.Context, personID string, v InboxView, most int) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, `INSERT INTO inbox_views (id, person_id, name, query)
		SELECT $1, $2, $3, $4 WHERE (SELECT count(*) FROM inbox_views WHERE person_id = $2 AND name <> $3) < $5
		ON CONFLICT (person_id, name) DO UPDATE SET query = excluded.query`, v.ID, personID, v.Name, v.Query, most)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrConflict
	}
	return translate(err)
}

// DropView forgets one of the person's; forgetting one that is not there is no error.
func (s Inbox) DropView(ctx context.Context, personID, id string) error {
	return s.exec(ctx, `DELETE FROM inbox_views WHERE person_id = $1 AND id = $2`, personID, id)
}
