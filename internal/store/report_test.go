package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// asOwner runs SQL as the role that owns the database, with triggers off: rows
// of the past cannot come about otherwise.
func asOwner(t testing.TB, owner string, statements ...string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, owner)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, `SET session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
	}
}

func reviewers(t testing.TB, owner string) {
	t.Helper()
	asOwner(t, owner, `INSERT INTO people (id, email, name, identity, password_hash, roles) VALUES
		('usr_ada', 'ada@x', 'Ada', 'ada', '', '{r}'), ('usr_ben', 'ben@x', 'Ben', 'ben', '', '{r}'), ('usr_cleo', 'cleo@x', 'Cleo', 'cleo', '', '{}')`)
}

// past makes an approval that was opened at a moment.
func past(t testing.TB, s *Store, owner, at string) string {
	t.Helper()
	id := s.mustOpen(t, time.Hour)
	asOwner(t, owner, fmt.Sprintf(`UPDATE approvals SET opened_at = '%s' WHERE id = '%s'`, at, id))
	return id
}

func said(id, at, who, kind string, yes bool, more string) string {
	via, details, edition := "{}", "{}", 1
	switch more {
	case "grant":
		details = `{"grant": "gra_x"}`
	case "deputy":
		via = "{usr_cleo}"
	case "edition":
		edition = 2
	}
	return fmt.Sprintf(`INSERT INTO facts (approval_id, at, kind, actor_kind, actor_id, channel, yes, denial, comment, via, details, edition)
		VALUES ('%s', '%s', '%s', '%s', '%s', 'console', %t, '', '', '%s', '%s', %d)`, id, at, kind, map[bool]string{true: "human", false: "service"}[strings.HasPrefix(who, "usr_")], who, yes, via, details, edition)
}

func shown(id, at, who string) string {
	return fmt.Sprintf(`INSERT INTO card_views (approval_id, person_id, digest, first_at) VALUES ('%s', '%s', 'sha256:' || md5(random()::text), '%s')`, id, who, at)
}

// March 2027: the 1st is a Monday.
func TestLoads(t *testing.T) {
	ctx := context.Background()
	s, owner := open(t)
	reviewers(t, owner)
	const day = "2027-03-01T"
	var all []string
	add := func(statements ...string) { all = append(all, statements...) }

	one := past(t, s, owner, day+"09:00:00Z")
	add(shown(one, day+"09:00:58Z", "usr_ada"), said(one, day+"09:01:00Z", "usr_ada", "vote", true, "")) // 60 s, seen for 2 s
	add(said(one, day+"09:01:30Z", "usr_ben", "question", false, ""))
	// The requesting side answered at 10:10; another sight of it was before the edit.
	two := past(t, s, owner, day+"10:00:00Z")
	add(shown(two, day+"10:01:00Z", "usr_ada"), said(two, day+"10:10:00Z", "key_runtime", "answer", true, ""), shown(two, day+"10:11:00Z", "usr_ada"),
		said(two, day+"10:12:00Z", "usr_ada", "vote", false, ""), said(two, day+"10:13:00Z", "usr_ada", "vote", true, "")) // changed: counts once, 180 s
	// A new edition begins the time anew, and is decided anew.
	three := past(t, s, owner, day+"11:00:00Z")
	add(said(three, day+"11:00:20Z", "usr_ada", "vote", false, ""), said(three, day+"11:30:00Z", "usr_ben", "edit", false, ""), said(three, day+"11:35:00Z", "usr_ada", "vote", true, "edition"))
	// At night in Berlin, and not in UTC; on a Sunday; by grant; as deputy.
	four := past(t, s, owner, day+"20:59:00Z")
	add(said(four, day+"21:30:00Z", "usr_ben", "vote", true, ""))
	five := past(t, s, owner, "2027-03-07T12:00:00Z")
	add(said(five, "2027-03-07T12:10:00Z", "usr_ben", "vote", false, "deputy"), said(five, "2027-03-07T12:00:00Z", "usr_cleo", "vote", true, "grant"))
	// Out of the period.
	six := past(t, s, owner, "2027-02-28T12:00:00Z")
	add(said(six, "2027-02-28T23:59:59Z", "usr_ada", "vote", true, ""), said(six, "2027-04-01T00:00:00Z", "usr_ben", "vote", true, ""))
	// ada is alone on call on one schedule from 09:00, and not on the other; ben joins her at 11:00.
	for _, shift := range []string{"'pay', 'usr_ada', '09:00', '12:00'", "'pay', 'usr_ben', '11:00', '12:00'", "'ops', 'usr_ben', '11:00', '21:00'"} {
		shift = strings.ReplaceAll(shift, "'09:00'", "'"+day+"09:00:00Z'")
		for _, hour := range []string{"11", "12", "21"} {
			shift = strings.ReplaceAll(shift, "'"+hour+":00'", "'"+day+hour+":00:00Z'")
		}
		add(`INSERT INTO on_call (schedule, person_id, from_at, until_at, told_by) VALUES (` + shift + `, 'x')`)
	}
	asOwner(t, owner, all...)

	q := LoadQuery{
		Since: time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC), Zone: "UTC",
		Quick: 5 * time.Second, NightFrom: 22, NightTo: 6, Most: 100,
	}
	people, total, err := s.Reports.Loads(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	if len(people) != 3 || people[0].PersonID != "usr_ada" || people[1].PersonID != "usr_ben" || people[2].PersonID != "usr_cleo" {
		t.Fatalf("got %+v", people)
	}
	got := people[0]
	monday := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	// 60 s, 180 s, 20 s and 300 s: the median is 120 s, and 95 percent of the way is 282 s.
	want := Load{
		PersonID: "usr_ada", Decided: 4, Approved: 3, Denied: 1, Median: 120 * time.Second, P95: 282 * time.Second, Timed: 2, Quick: 1,
		OnCall: 4, Alone: 2, Busiest: 4, BusiestDay: monday, LastVote: monday.Add(11*time.Hour + 35*time.Minute),
	}
	if got != want {
		t.Errorf("ada:\n got %+v\nwant %+v", got, want)
	}
	ben := people[1]
	if ben.Decided != 2 || ben.Approved != 1 || ben.Denied != 1 || ben.AsDeputy != 1 || ben.Weekends != 1 || ben.Nights != 0 || ben.OffHours != 1 || ben.Questions != 1 || ben.Alone != 0 || ben.Timed != 0 {
		t.Errorf("ben: %+v", ben)
	}
	if cleo := people[2]; cleo.Decided != 0 || cleo.ByGrant != 1 || cleo.Median != 0 || cleo.Weekends != 0 || cleo.Busiest != 0 {
		t.Errorf("cleo, whose grant voted: %+v", cleo)
	}
	if total.Decided != 6 || total.Approved != 4 || total.Denied != 2 || total.ByGrant != 1 || total.Questions != 1 || total.Quick != 1 {
		t.Errorf("total: %+v", total)
	}

	q.Zone = "Europe/Berlin"
	if people, _, err = s.Reports.Loads(ctx, q); err != nil || people[1].Nights != 1 || people[1].OffHours != 2 {
		t.Errorf("in Berlin: %+v, %v", people, err)
	}
	q.Zone = "Mars/Olympus"
	if _, _, err = s.Reports.Loads(ctx, q); !errors.Is(err, ErrUnstorable) {
		t.Errorf("a zone that there is not: %v", err)
	}
	q.Zone, q.Most = "UTC", 8
	if _, _, err = s.Reports.Loads(ctx, q); !errors.Is(err, ErrTooMany) {
		t.Errorf("more than may be looked at: %v", err)
	}
	q.Since, q.Until = q.Until.AddDate(1, 0, 0), q.Until.AddDate(1, 1, 0)
	if people, total, err = s.Reports.Loads(ctx, q); err != nil || len(people) != 0 || total.Decided != 0 {
		t.Errorf("a period without votes: %+v, %+v, %v", people, total, err)
	}
}

func reportEvent(kind engine.EventType, code, payload, actor string) engine.Event {
	e := event("")
	e.Type, e.Reasons, e.SafePayload = kind, []engine.Reason{{Code: code, Message: `A "quote": {"person":"usr_evil"} "actor":{"kind":"human","id":"usr_evil"`}}, []byte(payload)
	e.Actor = engine.Actor{Kind: engine.HumanActor, ID: actor, Channel: "console"}
	return e
}

func TestReportEvents(t *testing.T) {
	ctx := context.Background()
	s, owner := open(t)
	reviewers(t, owner)
	put := func(e engine.Event) time.Time {
		t.Helper()
		got, err := s.Submit(ctx, Submission{Event: e})
		if err != nil {
			t.Fatal(err)
		}
		return got.At
	}
	put(reportEvent(engine.SignIn, "SIGNED_IN", `{}`, "usr_ada"))
	in := put(reportEvent(engine.SignIn, "SIGNED_IN", `{}`, "usr_ada"))
	put(reportEvent(engine.SignIn, "SIGNED_OUT", `{}`, "usr_ada"))
	refused := reportEvent(engine.SignIn, "SIGNED_IN", `{}`, "usr_ben")
	refused.Outcome = engine.Deny
	put(refused)
	added := put(reportEvent(engine.Admin, "USER_ADDED", `{"person":"usr_ada","subject":"usr_ada"}`, "root"))
	put(reportEvent(engine.Admin, "USER_DISABLED", `{"subject":"ben@x"}`, "root"))
	put(reportEvent(engine.Admin, "ON_CALL_SET", `{"people":["usr_ada"],"schedule":"pay"}`, "usr_ada"))
	granted := put(reportEvent(engine.Granted, "GRANT_MADE", `{"grant":"gra_x"}`, "usr_ada"))
	put(event(""))

	accounts, err := s.Reports.Accounts(ctx, time.Now().Add(time.Hour))
	if err != nil || len(accounts) != 3 {
		t.Fatalf("%+v, %v", accounts, err)
	}
	if a := accounts[0]; a.LastSignIn == nil || !a.LastSignIn.Equal(in) || accounts[1].LastSignIn != nil || len(a.Roles) != 1 {
		t.Errorf("ada signed in at %v, ben at %v; want %v and never", a.LastSignIn, accounts[1].LastSignIn, in)
	}
	if accounts, err = s.Reports.Accounts(ctx, in.Add(-time.Hour)); err != nil || accounts[0].LastSignIn != nil {
		t.Errorf("before she did: %v, %v", accounts[0].LastSignIn, err)
	}
	codes := func(events []engine.Event, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, e := range events {
			list = append(list, e.Reasons[0].Code)
		}
		return strings.Join(list, " ")
	}
	future := time.Now().Add(time.Hour)
	for what, got := range map[string][2]string{
		"all, the newest first": {codes(s.Reports.ChangesOfAccess(ctx, added, future, "", 10)), "GRANT_MADE ON_CALL_SET USER_DISABLED USER_ADDED"},
		"some":                  {codes(s.Reports.ChangesOfAccess(ctx, added, future, "", 2)), "GRANT_MADE ON_CALL_SET"},
		"until":                 {codes(s.Reports.ChangesOfAccess(ctx, added, granted, "", 10)), "ON_CALL_SET USER_DISABLED USER_ADDED"},
		"of a type":             {codes(s.Reports.ChangesOfAccess(ctx, added, future, engine.Granted, 10)), "GRANT_MADE"},
		"with a code":           {codes(s.Reports.AdminEvents(ctx, "ON_CALL_SET", added, future, 10)), "ON_CALL_SET"},
		"about":                 {codes(s.Reports.EventsAbout(ctx, []string{"usr_ada", "ben@x"}, 10)), "USER_DISABLED USER_ADDED"},
		"about nobody":          {codes(s.Reports.EventsAbout(ctx, []string{"usr_evil"}, 10)), ""},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: got %q, want %q", what, got[0], got[1])
		}
	}
	if at, err := s.Reports.LogBegan(ctx); err != nil || at.After(in) {
		t.Errorf("the log began at %v, %v", at, err)
	}
}

// The reports, and what an inbox has beside its calls, look into indexes, however much there
// was.
func TestReportsUseTheirIndexes(t *testing.T) {
	ctx := context.Background()
	_, owner := open(t)
	reviewers(t, owner)
	// A log of decisions with an administrative event here and there, and a year of votes.
	asOwner(t, owner, `INSERT INTO events (event_id, appended_at, type, outcome, agent_id, tool_name, body)
			SELECT gen_random_uuid(), now() - make_interval(mins => 60000 - i), CASE WHEN i % 100 = 0 THEN 'admin' WHEN i % 100 = 1 THEN 'sign_in' ELSE 'decision' END, 'ALLOW', 'bot', 't',
				convert_to('{"reasons":[{"code":"' || CASE i % 100 WHEN 1 THEN 'SIGNED_IN' ELSE 'ON_CALL_SET' END || '","message":"m"}],"safe_payload":{"subject":"usr_' || i % 700 || '"},"actor":{"kind":"human","id":"usr_ada"}}', 'UTF8')
			FROM generate_series(1, 60000) i`,
		`INSERT INTO approvals (id, agent_id, request_id, dialect, tool, category, risk_domain, environment, digest, requested_by, max_state, decision, requirements, excluded, opened_at, expires_in, expires_at,
				sealed, sealed_key, sealed_size, status, version, revision, wake_at, ended_at, reasons, execution)
			SELECT 'apr_' || i, 'bot', '', 'aana', 't', '', '', '', 'sha256:' || repeat('0', 64), '{}', 'none', '{}', '[]', '{}', now() - make_interval(mins => 20000 - i), '1h', now(), '', NULL, 0, 'denied', 1, 1, now(), now(), '[]', 'none'
			FROM generate_series(1, 20000) i`,
		`INSERT INTO facts (approval_id, at, kind, actor_kind, actor_id, channel, yes, denial, comment)
			SELECT 'apr_' || i, now() - make_interval(mins => 19999 - i), 'vote', 'human', 'usr_ada', '', true, '', '' FROM generate_series(1, 20000) i`,
		`ANALYZE events`, `ANALYZE facts`, `ANALYZE approvals`)
	conn, err := pgx.Connect(ctx, owner)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	now := time.Now()
	for _, tc := range []struct {
		index, sql string
		args       []any
	}{
		{"events_changes", `SELECT seq FROM events WHERE ` + changeEvents + ` AND appended_at >= $1 AND appended_at < $2 ORDER BY appended_at DESC, seq DESC LIMIT 500`, []any{now.Add(-time.Hour * 24), now}},
		{"events_admin_code", `SELECT seq FROM events WHERE type = 'admin' AND event_code(body) = $1 AND appended_at >= $2 AND appended_at <= $3 ORDER BY appended_at DESC, seq DESC LIMIT 1`, []any{"ON_CALL_SET", now.Add(-time.Hour), now}},
		{"events_subject", `SELECT seq FROM events WHERE type = 'admin' AND event_subject(body) IS NOT NULL AND event_subject(body) = ANY ($1) ORDER BY appended_at DESC LIMIT 20`, []any{[]string{"usr_100", "usr_200"}}},
		{"events_signed_in", `SELECT e.appended_at FROM events e WHERE e.type = 'sign_in' AND e.outcome = 'ALLOW' AND event_code(e.body) = 'SIGNED_IN' AND event_actor(e.body) = $1 AND e.appended_at <= $2
			ORDER BY e.appended_at DESC LIMIT 1`, []any{"usr_ada", now}},
		{"facts_said", loads, []any{now.Add(-time.Hour), now, "UTC", 5.0, 22, 6}},
		{"approvals_decided", lastDecided, []any{[]string{"bot", "other"}, []string{"t", "t"}, 15}},
		{"approvals_unknown", `SELECT id FROM approvals` + whereUnknown, []any{true, "usr_ada", 20}},
		{"approvals_unknown", `SELECT id FROM approvals` + whereUnknown, []any{false, "usr_ada", 20}},
		{"approvals_", `SELECT id FROM approvals` + whereRequesting, []any{"usr_ada", 20}},
	} {
		rows, err := conn.Query(ctx, `EXPLAIN `+tc.sql, tc.args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, tc.index) || strings.Contains(plan, "Seq Scan on events") || strings.Contains(plan, "Seq Scan on facts") || strings.Contains(plan, "Seq Scan on approvals") {
			t.Errorf("without %s:\n%s", tc.index, plan)
		}
	}
}
