package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine/approval"
)

// HistorySearch says which approvals that have ended are wanted: all of them, where a
// field is zero.
type HistorySearch struct {
	// Words are as InboxSearch has them.
	Words []string
	// Tool, AgentID and Environment are exact.
	Tool, AgentID, Environment string
	Status                     approval.Status
	// DecidedBy is the id of a person who has voted on it, or approved it in an emergency.
	DecidedBy string
	// Deciders are the ids of people of whom one has; nil for anybody.
	Deciders []string
	// PartOf is the id of a person who has contributed to it: a vote, a comment, a question
	// or an answer to one, a claim, an edit.
	PartOf string
	// Since and Until are between when it ended; Until is not in it.
	Since, Until time.Time
	// After and Before are cursors of a page: at most one of them is set.
	After, Before string
	Limit         int
	// Counts asks for HistoryPage.Found and HistoryPage.Recent.
	Counts bool
}

// HistoryPage is a page of approvals that have ended, the newest end first.
type HistoryPage struct {
	Rows []approval.Approval
	// Found is how many there are, up to HistoryCounted; one more stands for more.
	Found int
	// Recent has, for "tool", "agent" and "environment", what the newest of all that the
	// reader may see have there.
	Recent map[string][]Count
	// Previous and Next are cursors of the pages beside it; "" where there is none.
	Previous, Next string
}

const (
	// HistoryCounted is how many approvals that have ended are counted.
	HistoryCounted = 10_000
	// historyRecent is how many of the newest say what can be chosen.
	historyRecent = 1000
)

// History is a page of the approvals that have ended and that the reader may see. A
// cursor that is not one of ours is ErrNotFound.
func (s Approvals) History(ctx context.Context, by Reader, search HistorySearch) (HistoryPage, error) {
	var page HistoryPage
	q := &inboxQuery{}
	readable := q.readable(by)
	wanted := readable + " AND " + q.ended(search)
	counted := len(q.args)
	key, err := q.cursor(search.After + search.Before)
	if err != nil {
		return page, err
	}
	here, direction := "true", "DESC"
	switch {
	case search.Before != "":
		here, direction = "(ended_at, id) > "+key, "ASC"
	case search.After != "":
		here = "(ended_at, id) < " + key
	}
	page.Rows, _, err = s.list(ctx, `SELECT `+approvalRows.names+`, clock_timestamp() FROM approvals WHERE `+wanted+` AND `+here+`
		ORDER BY ended_at `+direction+`, id `+direction+` LIMIT `+q.param(search.Limit+1), q.args...)
	if err != nil {
		return page, err
	}
	page.cut(search)
	if !search.Counts {
		return page, nil
	}
	return page, s.countHistory(ctx, &page, readable, wanted, q.args[:counted])
}

// cut makes a page of what was found, which is one row more than it where there are more.
func (page *HistoryPage) cut(search HistorySearch) {
	more := len(page.Rows) > search.Limit
	if more {
		page.Rows = page.Rows[:search.Limit]
	}
	if len(page.Rows) == 0 {
		return
	}
	if search.Before != "" {
		slices.Reverse(page.Rows)
	}
	first, last := page.Rows[0], page.Rows[len(page.Rows)-1]
	if search.After != "" || search.Before != "" && more {
		page.Previous = place(first.EndedAt, first.ID)
	}
	if search.Before != "" || more {
		page.Next = place(last.EndedAt, last.ID)
	}
}

// countHistory counts what a search finds, and what the newest of all are.
func (s Approvals) countHistory(ctx context.Context, page *HistoryPage, readable, wanted string, args []any) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var recent []byte
	err := s.pool.QueryRow(ctx, fmt.Sprintf(`WITH recent AS (SELECT tool, agent_id, environment, risk_domain, waits_for FROM approvals
			WHERE status <> 'pending' AND %s ORDER BY ended_at DESC, id DESC LIMIT %d),
		sorts AS (SELECT tool, agent_id, environment, risk_domain, waits_for, count(*) AS n FROM recent GROUP BY tool, agent_id, environment, risk_domain, waits_for)
		SELECT (SELECT count(*) FROM (SELECT FROM approvals WHERE %s LIMIT %d) AS found), %s`,
		readable, historyRecent, wanted, HistoryCounted+1, inboxCounts), args...).Scan(&page.Found, &recent)
	if err != nil {
		return translate(err)
	}
	if recent == nil {
		return nil
	}
	if err := json.Unmarshal(recent, &page.Recent); err != nil {
		return fmt.Errorf("read what has ended: %w", err)
	}
	return nil
}

// readable is the condition that the reader may see an approval that has ended.
func (q *inboxQuery) readable(by Reader) string {
	if by.All {
		return "true"
	}
	either := []string{"excluded && " + q.param([]string{by.Identity})}
	if len(by.Roles) > 0 {
		either = append(either, "asked && "+q.param(by.Roles))
	}
	for _, each := range by.For {
		either = append(either, "asked && "+q.param(each.Roles)+" AND NOT excluded && "+q.param(each.Voices))
	}
	return "(" + strings.Join(either, " OR ") + ")"
}

// ended is the condition of a search for what has ended.
func (q *inboxQuery) ended(s HistorySearch) string {
	all := append([]string{"status <> 'pending'"}, q.words(s.Words, `tool ILIKE %[1]s OR environment ILIKE %[1]s OR risk_domain ILIKE %[1]s`)...)
	for _, each := range []struct{ column, value string }{
		{"tool", s.Tool}, {"agent_id", s.AgentID}, {"environment", s.Environment}, {"status", string(s.Status)},
	} {
		if each.value != "" {
			all = append(all, each.column+" = "+q.param(each.value))
		}
	}
	if s.DecidedBy != "" {
		all = append(all, `id IN (SELECT f.approval_id FROM facts f WHERE f.kind IN ('vote', 'break_glass') AND f.actor_kind = 'human' AND f.actor_id = `+q.param(s.DecidedBy)+`)`)
	}
	if s.Deciders != nil {
		all = append(all, `id IN (SELECT f.approval_id FROM facts f WHERE f.kind IN ('vote', 'break_glass') AND f.actor_kind = 'human' AND f.actor_id = ANY (`+q.param(s.Deciders)+`))`)
	}
	if s.PartOf != "" {
		all = append(all, "id IN (SELECT f.approval_id FROM facts f WHERE f.actor_kind = 'human' AND f.actor_id = "+q.param(s.PartOf)+")")
	}
	if !s.Since.IsZero() {
		all = append(all, "ended_at >= "+q.param(s.Since))
	}
	if !s.Until.IsZero() {
		all = append(all, "ended_at < "+q.param(s.Until))
	}
	return strings.Join(all, " AND ")
}
