package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
)

// A quarter, and how its ends are written in SQL.
var (
	quarterFrom  = time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)
	quarterUntil = time.Date(2021, 4, 1, 0, 0, 0, 0, time.UTC)
)

const inQuarter = ` BETWEEN '2021-01-01T00:00:00Z' AND '2021-03-31T23:59:59.999999Z' `

// happened is SQL that appends an event at a moment.
func happened(t testing.TB, at time.Time, e engine.Event) string {
	t.Helper()
	if e.ID = uuid.NewString(); e.Outcome == "" {
		e.Outcome = engine.Allow
	}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`INSERT INTO events (event_id, appended_at, type, outcome, agent_id, tool_name, approval_id, body)
		VALUES ('%s', '%s', '%s', '%s', '%s', '%s', nullif('%s', ''), '\x%x')`, e.ID, at.Format(time.RFC3339Nano), e.Type, e.Outcome, e.AgentID, e.ToolName, e.ApprovalID, body)
}

func administered(code, payload string) engine.Event {
	return engine.Event{
		Type: engine.Admin, Reasons: []engine.Reason{{Code: code, Message: "Something was changed."}}, SafePayload: json.RawMessage(payload),
		Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_0", Channel: "console"},
	}
}

// seedPeople adds usr_0 to usr_11, who answer to names of P0 to P11. usr_9 is usr_3 by
// another account, and usr_10 was usr_4 until the year before.
func seedPeople(t testing.TB, owner string) {
	t.Helper()
	asOwner(t, owner, `INSERT INTO people (id, email, name, identity, password_hash, roles, created_at)
			SELECT 'usr_' || n, 'p' || n || '@x', 'P' || n, 'who' || n, '', '{finance}', '2020-06-01T00:00:00Z' FROM generate_series(0, 11) n`,
		`UPDATE people SET identity = 'who3', created_at = '2021-02-01T00:00:00Z' WHERE id = 'usr_9'`,
		`UPDATE people SET identity = 'who4', disabled_at = '2020-12-01T00:00:00Z' WHERE id = 'usr_10'`,
		`UPDATE people SET roles = '{admin,finance}' WHERE id = 'usr_0'`, `UPDATE people SET roles = '{auditor}' WHERE id = 'usr_1'`,
		`UPDATE people SET roles = '{admin}' WHERE id = 'usr_11'`, `UPDATE agents SET owner_id = 'usr_2' WHERE id = 'bot'`)
}

// seedApprovals adds three hundred approvals, which ended ten hours apart from December
// on into April, with their votes, tokens and what became of them.
func seedApprovals(t testing.TB, s *Store, owner string) {
	t.Helper()
	sample := s.mustOpen(t, time.Hour)
	asOwner(t, owner, `INSERT INTO facts (seq, approval_id, at, kind, actor_kind, actor_id, channel, yes, denial, comment) OVERRIDING SYSTEM VALUE
			SELECT 100000 + n * 10 + k, 'apr_q' || n, timestamptz '2020-12-14T23:59:00Z' + n * interval '10 hours', CASE WHEN n % 20 = 0 THEN 'break_glass' ELSE 'vote' END, 'human', 'usr_' || (n + 3 * k) % 9, 'console', n % 10 < 6,
				CASE WHEN n % 10 < 6 THEN '' ELSE 'never' END, '' FROM generate_series(1, 300) n, generate_series(1, 2) k WHERE n % 10 < 6 OR n % 10 < 8 AND k = 1`,
		`INSERT INTO approvals SELECT (jsonb_populate_record(a, jsonb_build_object('id', 'apr_q' || n, 'tool', (ARRAY['pay', 'mail', 'deploy'])[1 + n % 3], 'version', 1,
				'asked', CASE n % 2 WHEN 0 THEN '["finance"]' ELSE '["finance", "ops"]' END::jsonb, 'excluded', CASE n % 30 WHEN 1 THEN '["who2"]' ELSE '[]' END::jsonb,
				'opened_at', timestamptz '2020-12-15T00:00:00Z' + n * interval '10 hours' - n * interval '7 minutes', 'ended_at', timestamptz '2020-12-15T00:00:00Z' + n * interval '10 hours',
				'status', CASE WHEN n % 10 < 6 THEN 'approved' WHEN n % 10 < 8 THEN 'denied' WHEN n % 10 < 9 THEN 'expired' ELSE 'cancelled' END,
				'execution', CASE WHEN n % 10 >= 6 THEN 'none' ELSE (ARRAY['none', 'redeemed', 'unknown', 'succeeded', 'failed'])[1 + n % 5] END,
				'final', jsonb_build_object('broken', n % 20 = 0, 'decisive', 100000 + n * 10 + 1, 'counted', (SELECT coalesce(jsonb_agg(f.seq ORDER BY f.seq), '[]') FROM facts f WHERE f.approval_id = 'apr_q' || n AND f.yes))))).*
			FROM approvals a, generate_series(1, 300) n WHERE a.id = '`+sample+`'`,
		`INSERT INTO tokens (jti, approval_id, created_at, valid_until, redeemed_at, lease_until)
			SELECT 'jti' || id, id, ended_at, ended_at + interval '1 hour', CASE WHEN execution <> 'none' THEN ended_at END, CASE WHEN execution <> 'none' THEN ended_at + CASE WHEN id LIKE '%6' THEN interval '100 years' ELSE interval '5 minutes' END END
			FROM approvals WHERE status = 'approved'`,
		`INSERT INTO reconciliations (approval_id, person_id, outcome, comment, at) SELECT id, 'usr_5', 'failed', 'x', ended_at FROM approvals WHERE execution = 'failed' AND id LIKE '%4'`,
		`INSERT INTO afterwards (approval_id, owed_at, done_at, person_id, justified) SELECT id, ended_at, CASE WHEN n % 40 = 0 THEN ended_at + interval '1 day' END, CASE WHEN n % 40 = 0 THEN 'usr_5' END, CASE WHEN n % 40 = 0 THEN n % 80 = 0 END
			FROM generate_series(20, 300, 20) n JOIN approvals ON id = 'apr_q' || n`)
}

// seedEvents adds what people and switches did from December on into April.
func seedEvents(t testing.TB, owner string) {
	t.Helper()
	var all []string
	for n := range 250 {
		at := time.Date(2020, 12, 15, 3, 0, 0, 0, time.UTC).Add(time.Duration(n) * 11 * time.Hour)
		who := fmt.Sprintf("usr_%d", n%12)
		change := func(code, before, after string) engine.Event {
			return administered(code, fmt.Sprintf(`{"subject":%q,"person":%q,"roles_before":%s,"roles_after":%s}`, who, who, before, after))
		}
		e := []engine.Event{
			change("USER_ADDED", `[]`, `["finance"]`), change("USER_ROLES_CHANGED", `["finance"]`, `["finance","ops"]`), change("USER_ROLES_CHANGED", `["ops","finance"]`, `[]`),
			change("USER_DISABLED", `["ops"]`, `[]`), change("USER_ENABLED", `[]`, `["finance"]`),
			administered("ON_CALL_SET", fmt.Sprintf(`{"schedule":"pay","people":[%q,"usr_7"],"from":"2021-01-01T00:00:00Z","until":"2021-01-02T00:00:00Z"}`, who)),
			administered("DELEGATION_MADE", fmt.Sprintf(`{"delegation":"dlg_1","person":%q,"deputy":"usr_8","from":"2021-01-01T00:00:00Z","until":"2021-01-02T00:00:00Z"}`, who)),
			{Type: engine.Ungated, AgentID: "bot", ToolName: "shell", Reasons: []engine.Reason{{Code: "UNGATED_EXECUTION", Message: "x"}}, SafePayload: json.RawMessage(`{"execution":"succeeded"}`), Actor: engine.Actor{Kind: engine.AgentActor, ID: "bot"}},
		}[n%8]
		if n%8 == 1 {
			e.ApprovalID = fmt.Sprint("apr_q", n)
		}
		if n%16 == 1 { // since then, events say who approved it
			e.SafePayload = json.RawMessage(strings.Replace(string(e.SafePayload), "{", fmt.Sprintf(`{"proposed_by":{"kind":"human","id":"usr_6"},"approved_by":["usr_%d","usr_%d"],`, (n+3)%9, (n+6)%9), 1))
		}
		if n%9 == 0 && e.Type == engine.Admin {
			e.Outcome = engine.Deny // it was refused, and changed nothing
		}
		all = append(all, happened(t, at, e))
	}
	for n := 20; n <= 300; n += 20 {
		at := time.Date(2020, 12, 14, 23, 59, 0, 0, time.UTC).Add(time.Duration(n) * 10 * time.Hour)
		for k := 1; k <= 2; k++ {
			all = append(all, happened(t, at, engine.Event{
				Type: engine.Broken, ApprovalID: fmt.Sprint("apr_q", n), AgentID: "bot", ToolName: "t", Reasons: []engine.Reason{{Code: "BREAK_GLASS", Message: "x"}}, SafePayload: json.RawMessage(`{}`),
				Actor: engine.Actor{Kind: engine.HumanActor, ID: fmt.Sprint("usr_", (n+3*k)%9), Channel: "console"},
			}))
		}
	}
	for _, id := range []string{"key_before", "key_short", "key_gone", "key_now", "key_later"} {
		made := administered("KEY_CREATED", fmt.Sprintf(`{"subject":%q,"scopes":["audit"]}`, id))
		if id == "key_short" {
			made.Actor.ID = "usr_1"
		}
		all = append(all, happened(t, quarterFrom.AddDate(0, -2, 0), made))
	}
	all = append(all, happened(t, quarterFrom.AddDate(0, -2, 0), administered("KEY_REVOKED", `{"subject":"key_gone"}`)),
		`INSERT INTO keys (id, kind, secret_hash, scopes, max_state, created_at, expires_at, revoked_at)
			SELECT id, 'admin', sha256(id::bytea), '{audit}', 'none', made, ends, revoked FROM (VALUES ('key_before', timestamptz '2020-06-01', timestamptz '2021-12-31', timestamptz '2020-12-01'), ('key_short', '2020-06-01', '2021-01-02', NULL),
				('key_gone', '2021-02-01', NULL, '2021-02-02'), ('key_now', '2021-03-01', NULL, NULL), ('key_later', '2021-04-01', NULL, NULL)) made (id, made, ends, revoked)`,
		`INSERT INTO key_uses (key_id, used_at) VALUES ('key_now', '2021-03-05T10:00:00Z')`)
	all = append(all, `INSERT INTO log_entries (leaf, seq, at, type, outcome, agent_id, tool_name, actor_id, approval_id)
		SELECT seq, seq, appended_at, type, outcome, agent_id, tool_name, '', approval_id FROM events`)
	asOwner(t, owner, all...)
}

func quarter(list string) ListQuery {
	return ListQuery{List: list, Since: quarterFrom, Until: quarterUntil, Limit: 5000, Admin: "admin", Auditor: "auditor"}
}

// listedRows are a list's rows, by the columns' names.
func listedRows(t testing.TB, s *Store, q ListQuery) []map[string]string {
	t.Helper()
	l, err := s.Reports.List(context.Background(), q)
	if err != nil || l.Next != "" {
		t.Fatalf("%s: %v, next %q", q.List, err, l.Next)
	}
	rows := make([]map[string]string, len(l.Rows))
	for i, cells := range l.Rows {
		rows[i] = map[string]string{}
		for n, name := range l.Columns {
			rows[i][name] = cells[n]
		}
	}
	return rows
}

// TestListsOfAQuarter counts each report's rows of a quarter, and the same again by SQL
// that goes another way through the tables.
func TestListsOfAQuarter(t *testing.T) {
	s, owner := open(t)
	seedPeople(t, owner)
	seedApprovals(t, s, owner)
	seedEvents(t, owner)
	conn := connect(t, owner)
	const told = `(SELECT *, convert_from(body, 'UTF8')::jsonb AS doc FROM events WHERE outcome = 'ALLOW' AND appended_at` + inQuarter + `) e`
	for _, c := range []struct {
		name, list string
		by         func(row map[string]string) []string
		sql        string
	}{
		{"acts", "roles", inColumn("act"), `SELECT CASE split_part(split_part(convert_from(body, 'UTF8'), '"code":"', 2), '"', 1)
			WHEN 'USER_ADDED' THEN 'joined' WHEN 'USER_ROLES_CHANGED' THEN 'moved' WHEN 'USER_DISABLED' THEN 'left' WHEN 'USER_ENABLED' THEN 'returned' WHEN 'ON_CALL_SET' THEN 'on_call' ELSE 'stands_in' END,
			sum(CASE WHEN doc->'safe_payload' ? 'people' THEN jsonb_array_length(doc->'safe_payload'->'people') ELSE 1 END) FROM ` + told + ` WHERE type = 'admin' GROUP BY 1`},
		{"roles given", "roles", wordsIn("roles_given", ", "), `SELECT role, count(*) FROM ` + told + `, jsonb_array_elements_text(doc #> '{safe_payload,roles_after}') role
			WHERE NOT coalesce(doc #> '{safe_payload,roles_before}' ? role, false) GROUP BY 1
			UNION ALL SELECT 'on-call/pay', 2 * count(*) FROM ` + told + ` WHERE doc->'safe_payload' ? 'schedule' GROUP BY ()`},
		{"roles taken", "roles", wordsIn("roles_taken", ", "), `SELECT role, count(*) FROM ` + told + `, jsonb_array_elements_text(doc #> '{safe_payload,roles_before}') role
			WHERE NOT doc #> '{safe_payload,roles_after}' @> to_jsonb(role) GROUP BY 1`},
		{"in place of", "roles", wordsIn("in_place_of", ", "), `SELECT name, count(*) FROM ` + told + ` JOIN people ON doc @> jsonb_build_object('safe_payload', jsonb_build_object('person', people.id, 'deputy', 'usr_8')) GROUP BY 1`},
		{"on whose approval", "roles", wordsIn("approved_by", ", "), `SELECT p.name, count(*) FROM ` + told + ` JOIN people p ON (doc #> '{safe_payload,approved_by}') ? p.id
			OR NOT doc->'safe_payload' ? 'approved_by' AND p.id IN (SELECT actor_id FROM facts WHERE approval_id = doc->>'approval_id' AND yes) WHERE type = 'admin' GROUP BY 1`},
		{"proposed by whom", "roles", inColumn("proposed_by"), `SELECT coalesce((SELECT name FROM people WHERE id = doc #>> '{safe_payload,proposed_by,id}'), (SELECT requested_by->>'id' FROM approvals a WHERE a.id = doc->>'approval_id'), ''),
			sum(CASE WHEN doc->'safe_payload' ? 'people' THEN jsonb_array_length(doc->'safe_payload'->'people') ELSE 1 END) FROM ` + told + ` WHERE type = 'admin' GROUP BY 1`},
		{"keys", "keys", inColumn("key_id"), `SELECT id, 1 FROM keys WHERE NOT (created_at > '2021-03-31T23:59:59.999999Z' OR coalesce(least(revoked_at, expires_at), 'infinity') <= '2021-01-01')`},
		{"keys' makers", "keys", inColumn("by"), `SELECT p.name, count(*) FROM events JOIN people p ON p.id = convert_from(body, 'UTF8')::jsonb #>> '{actor,id}'
			WHERE convert_from(body, 'UTF8')::jsonb @> '{"reasons": [{"code": "KEY_CREATED"}]}' AND convert_from(body, 'UTF8')::jsonb #>> '{safe_payload,subject}' IN ('key_now', 'key_gone', 'key_short') GROUP BY 1`},
		{"keys' last use", "keys", inColumn("last_used_at"), `SELECT CASE id WHEN 'key_now' THEN '2021-03-05T10:00:00Z' ELSE '' END, count(*) FROM keys WHERE id IN ('key_now', 'key_gone', 'key_short') GROUP BY 1`},
		{"outcomes", "approvals", inColumn("status"), `SELECT status, count(*) FROM approvals WHERE ended_at` + inQuarter + `GROUP BY 1`},
		{"by role", "approvals", wordsIn("roles", ", "), `SELECT role, count(*) FROM approvals, unnest(asked) role WHERE ended_at` + inQuarter + `GROUP BY 1`},
		{"by tool", "approvals", inColumn("tool"), `SELECT tool, count(*) FROM approvals WHERE ended_at` + inQuarter + `GROUP BY 1`},
		{"by approver", "approvals", wordsIn("decided_by_id", ", "), `SELECT actor_id, count(DISTINCT approval_id) FROM facts WHERE approval_id IN (SELECT id FROM approvals WHERE ended_at` + inQuarter + `) GROUP BY 1`},
		{"how", "approvals", inColumn("decided"), `SELECT how, count(*) FROM (SELECT CASE WHEN final @> '{"broken": true}' THEN 'break_glass' WHEN status IN ('approved', 'denied') THEN 'people'
			WHEN status = 'expired' THEN 'time' ELSE 'requesting_side' END AS how FROM approvals WHERE ended_at` + inQuarter + `) each GROUP BY 1`},
		{"hours", "approvals", inColumn("seconds"), `SELECT to_char(extract(epoch FROM ended_at) - extract(epoch FROM opened_at), 'FM9999990.000'), count(*) FROM approvals WHERE ended_at` + inQuarter + `GROUP BY 1`},
		{"who broke it", "break-glass", inColumn("person_id"), `SELECT actor_id, count(*) FROM facts WHERE kind = 'break_glass' AND at` + inQuarter + `GROUP BY 1`},
		{"reviews", "break-glass", inColumn("review"), `SELECT CASE justified WHEN true THEN 'justified' WHEN false THEN 'not_justified' ELSE 'owed' END, 2 * count(*) FROM afterwards
			WHERE owed_at - interval '1 minute'` + inQuarter + `GROUP BY 1`},
		{"findings", "executions", inColumn("finding"), `SELECT 'never_run', count(*) FROM approvals WHERE (status, execution) = ('approved', 'none') AND ended_at` + inQuarter + `
			UNION ALL SELECT 'outcome_unknown', count(*) FROM approvals WHERE execution = 'unknown' AND ended_at` + inQuarter + `
			UNION ALL SELECT CASE WHEN right(id, 1) = '6' THEN 'running' ELSE 'not_reported' END, count(*) FROM approvals WHERE execution = 'redeemed' AND ended_at` + inQuarter + `GROUP BY 1
			UNION ALL SELECT 'found_out', count(*) FROM reconciliations WHERE at` + inQuarter + `
			UNION ALL SELECT 'ungated', count(*) FROM events WHERE type = 'ungated' AND appended_at` + inQuarter},
	} {
		got, want := map[string]int{}, map[string]int{}
		for _, row := range listedRows(t, s, quarter(c.list)) {
			for _, key := range c.by(row) {
				got[key]++
			}
		}
		rows, err := conn.Query(context.Background(), c.sql)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var key string
			var n int
			if err := rows.Scan(&key, &n); err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				want[key] = n
			}
		}
		if err := rows.Err(); err != nil || len(want) < 2 || !maps.Equal(got, want) {
			t.Errorf("%s, %s:\n got %v\nwant %v (%v)", c.list, c.name, got, want, err)
		}
	}
}

func inColumn(name string) func(map[string]string) []string {
	return func(row map[string]string) []string { return []string{row[name]} }
}

func wordsIn(name, between string) func(map[string]string) []string {
	return func(row map[string]string) []string {
		return slices.DeleteFunc(strings.Split(row[name], between), func(word string) bool { return word == "" })
	}
}

// TestListsPage: page by page a list has the same rows as at once, and the count says how
// many; the whole of two periods side by side is that of both.
func TestListsPage(t *testing.T) {
	ctx := context.Background()
	s, owner := open(t)
	seedPeople(t, owner)
	seedApprovals(t, s, owner)
	seedEvents(t, owner)
	for list := range reportLists {
		whole, err := s.Reports.List(ctx, quarter(list))
		if err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		if (list == "policies" || list == "factors" || list == "access-reviews" || list == "erasures") != (len(whole.Rows) == 0) {
			t.Errorf("%s has %d rows", list, len(whole.Rows))
		}
		var rows [][]string
		q := quarter(list)
		for q.Limit = 7; ; {
			page, err := s.Reports.List(ctx, q)
			if err != nil || len(page.Rows) > 7 || page.Next != "" && len(page.Rows) < 7 || !slices.Equal(page.Columns, whole.Columns) {
				t.Fatalf("%s: a page of %d rows, %v", list, len(page.Rows), err)
			}
			rows = append(rows, page.Rows...)
			if q.After = page.Next; q.After == "" || len(rows) > len(whole.Rows) {
				break
			}
		}
		if fmt.Sprint(rows) != fmt.Sprint(whole.Rows) {
			t.Errorf("%s: %d rows page by page, and %d at once", list, len(rows), len(whole.Rows))
		}
		for most, want := range map[int]int{5000: len(whole.Rows), 5: min(len(whole.Rows), 6)} {
			if n, err := s.Reports.CountList(ctx, quarter(list), most); err != nil || n != want {
				t.Errorf("%s: counted %d, want %d: %v", list, n, want, err)
			}
		}
		if list == "duties" || list == "policies" || list == "factors" || list == "keys" || list == "erasures" {
			continue // they tell of states, which two periods share
		}
		first, second := quarter(list), quarter(list)
		first.Until, second.Since = quarterFrom.AddDate(0, 1, 9), quarterFrom.AddDate(0, 1, 9)
		if both := append(listedRows(t, s, first), listedRows(t, s, second)...); len(both) != len(whole.Rows) {
			t.Errorf("%s: %d rows in two parts, and %d in one", list, len(both), len(whole.Rows))
		}
	}
	for _, cursor := range []string{"x", "bm90IGEgdGltZSBrZXk", listPlace("key", quarterFrom.Add(-time.Second)), listPlace("a\x00b", quarterFrom), "====", listPlace("k", time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC))} {
		q := quarter("roles")
		q.After = cursor
		if _, err := s.Reports.List(ctx, q); !errors.Is(err, ErrNotFound) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	if _, err := s.Reports.List(ctx, quarter("nothing")); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such list: %v", err)
	}
}

// TestListsOfStates: what was in force, and what people had, from when to when; what had
// ended before the quarter or began after it is not there.
func TestListsOfStates(t *testing.T) {
	s, owner := open(t)
	seedPeople(t, owner)
	day := func(month, day int) time.Time { return time.Date(2021, time.Month(month), day, 0, 0, 0, 0, time.UTC) }
	policy := func(version string) engine.Event {
		e := administered("POLICY_ACTIVATED", `{"document":"sha256:d","means":"sha256:m"}`)
		e.Reasons[0].Message = fmt.Sprintf("Policy version %q was put in force.", version)
		return e
	}
	around := func(e engine.Event) engine.Event {
		e.Reasons = append(e.Reasons, engine.Reason{Code: "NOBODY_ASKED", Message: "People should have approved it, and were not asked."})
		return e
	}
	factor := func(code, who, kind, key string) engine.Event {
		e := administered(code, fmt.Sprintf(`{"factor":%q,"person":%q}`, kind, who))
		if key != "" {
			e.SafePayload = json.RawMessage(fmt.Sprintf(`{"factor":%q,"person":%q,"passkey":{"credential":%q}}`, kind, who, key))
		}
		return e
	}
	asOwner(t, owner,
		happened(t, day(-2, 1), policy("1")), happened(t, day(-1, 1), policy("2")), happened(t, day(2, 1), policy("3")), happened(t, day(2, 10), administered("TOOL_CONTRACTS_ACTIVATED", `{}`)),
		happened(t, day(3, 1), around(policy("4"))), happened(t, day(4, 1), policy("5")),
		happened(t, day(-1, 1), factor("FACTOR_ADDED", "usr_3", "totp", "")), happened(t, day(0, 20), factor("FACTOR_REMOVED", "usr_3", "totp", "")),
		happened(t, day(1, 5), factor("FACTOR_ADDED", "usr_3", "totp", "")), happened(t, day(1, 6), factor("FACTOR_ADDED", "usr_3", "passkey", "a")), happened(t, day(1, 7), factor("FACTOR_ADDED", "usr_3", "passkey", "b")),
		happened(t, day(2, 1), factor("FACTOR_REMOVED", "usr_3", "passkey", "a")), happened(t, day(3, 1), factor("FACTORS_RESET", "usr_3", "", "")),
		happened(t, day(3, 2), factor("FACTOR_ADDED", "usr_3", "totp", "")), happened(t, day(4, 1), factor("FACTOR_ADDED", "usr_4", "totp", "")),
		`INSERT INTO totp_factors (person_id, secret, secret_key, created_at, confirmed_at) VALUES ('usr_5', '', '', '2020-01-01T00:00:00Z', '2020-01-01T00:00:00Z'), ('usr_3', '', '', '2021-03-02T00:00:00Z', '2021-03-02T00:00:00Z')`)
	text := func(list string, columns ...string) (lines []string) {
		for _, row := range listedRows(t, s, quarter(list)) {
			var cells []string
			for _, c := range columns {
				cells = append(cells, strings.TrimSuffix(row[c], "T00:00:00Z"))
			}
			lines = append(lines, strings.Join(cells, " "))
		}
		slices.Sort(lines)
		return lines
	}
	if got, want := text("policies", "kind", "version", "in_force_from", "in_force_until", "by", "approved"), []string{
		"contracts  2021-02-10  P0 no_need", "policy 2 2020-11-01 2021-02-01 P0 no_need", "policy 3 2021-02-01 2021-03-01 P0 no_need", "policy 4 2021-03-01 2021-04-01 P0 nobody_asked",
	}; !slices.Equal(got, want) {
		t.Errorf("policies:\n got %q\nwant %q", got, want)
	}
	if got, want := text("factors", "person", "factor", "since", "until", "ended_by", "source"), []string{
		"P3 passkey 2021-01-06 2021-02-01 removed log", "P3 passkey 2021-01-07 2021-03-01 reset log", "P3 totp 2021-01-05 2021-03-01 reset log", "P3 totp 2021-03-02   log",
		"P5 totp 2020-01-01   database",
	}; !slices.Equal(got, want) {
		t.Errorf("factors:\n got %q\nwant %q", got, want)
	}
}

// TestDutiesInConflict finds each conflict that there is, and none where there is none.
func TestDutiesInConflict(t *testing.T) {
	s, owner := open(t)
	seedPeople(t, owner)
	const at = "2021-02-0"
	own, agents, twice, fine, emergency := s.mustOpen(t, time.Hour), s.mustOpen(t, time.Hour), s.mustOpen(t, time.Hour), s.mustOpen(t, time.Hour), s.mustOpen(t, time.Hour)
	asOwner(t, owner,
		`UPDATE approvals SET excluded = '{who6}' WHERE id = '`+own+`'`,
		said(own, at+"1T00:00:00Z", "usr_6", "vote", true, ""), said(own, at+"1T00:00:00Z", "usr_7", "vote", true, ""),
		said(agents, at+"2T00:00:00Z", "usr_2", "vote", true, ""), said(agents, at+"2T00:00:00Z", "usr_5", "vote", false, ""),
		said(twice, at+"3T00:00:00Z", "usr_3", "vote", true, ""), said(twice, at+"3T01:00:00Z", "usr_9", "vote", true, ""),
		said(fine, at+"4T00:00:00Z", "usr_0", "vote", true, ""), said(fine, at+"4T00:00:00Z", "usr_6", "vote", false, ""), said(fine, "2021-04-01T00:00:00Z", "usr_2", "vote", true, ""),
		said(emergency, at+"5T00:00:00Z", "usr_9", "break_glass", true, ""),
		`INSERT INTO afterwards (approval_id, owed_at, done_at, person_id, justified) VALUES ('`+emergency+`', '2021-02-05', '2021-02-06', 'usr_3', true)`,
		// usr_11 administers and decides by an event; usr_0 had only one of both at the end.
		happened(t, quarterFrom.AddDate(0, 1, 0), administered("USER_ROLES_CHANGED", `{"person":"usr_11","roles_before":["admin"],"roles_after":["admin","ops"]}`)),
		happened(t, quarterFrom.AddDate(0, 1, 1), administered("USER_ROLES_CHANGED", `{"person":"usr_0","roles_before":["admin","finance"],"roles_after":["admin"]}`)),
		happened(t, quarterFrom.AddDate(0, 3, 1), administered("USER_ROLES_CHANGED", `{"person":"usr_1","roles_before":["auditor"],"roles_after":["auditor","ops"]}`)),
	)
	var got []string
	for _, row := range listedRows(t, s, quarter("duties")) {
		got = append(got, strings.TrimSpace(row["finding"]+" "+row["person"]+" "+row["other"]+" "+row["count"]))
	}
	slices.Sort(got)
	want := []string{
		"administered_and_decided P0  1", "administers_and_decides P11 ops", "decided_for_own_agent P2 Bot", "decided_own_call P6 Bot", "reviewed_own_emergency P3", "two_accounts P9 p3@x", "voted_twice P9 usr_3, usr_9 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
