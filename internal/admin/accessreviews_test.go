package admin_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/internal/report"
	"holdpoint/internal/store"
)

// TestAccessReview takes a review from its start to its end: who reviews what, that nobody
// reviews their own, that what was said stays, that roles are taken away by the door of
// all changes, and that the report has what the log tells, counted another way.
func TestAccessReview(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	ada := o.db.Person(engine.Person{Name: "ada", Roles: []string{"reviewer", "lead"}})
	ben := o.db.Person(engine.Person{Name: "ben", Roles: []string{"reviewer"}})
	ben2 := o.db.Person(engine.Person{Name: "ben2", Identity: ben.Identity, Roles: []string{"auditor"}})
	cem := o.db.Person(engine.Person{Name: "cem", Roles: []string{"reviewer"}})
	dan := o.db.Person(engine.Person{Name: "dan", Roles: []string{}})
	gone := o.db.Person(engine.Person{Name: "gone", Roles: []string{"reviewer"}})
	o.db.Disable(gone.ID, engine.Event{ID: store.NewEventID(), Type: engine.Admin, Outcome: engine.Allow, SafePayload: []byte(`{}`)})
	reviews := admin.New(admin.Config{Store: o.store, PublicURL: "https://hp.example.com/"}).AccessReviews
	due := o.store.Clock().Add(14 * 24 * time.Hour)
	began := o.store.Clock().Add(-time.Hour)

	// What cannot be started.
	ask := func(edit func(*admin.AccessReviewRequest)) error {
		q := admin.AccessReviewRequest{Title: "Q3", DueAt: due, Reviewer: dan.Email}
		edit(&q)
		_, err := reviews.Start(ctx, by(o.olga), q, nil)
		return err
	}
	for want, edit := range map[string]func(*admin.AccessReviewRequest){
		"unfit_title":     func(q *admin.AccessReviewRequest) { q.Title = " " },
		"due_too_early":   func(q *admin.AccessReviewRequest) { q.DueAt = began },
		"too_far":         func(q *admin.AccessReviewRequest) { q.DueAt = due.AddDate(2, 0, 0) },
		"until_too_early": func(q *admin.AccessReviewRequest) { q.Since, q.Until = due, began },
		"unknown_people":  func(q *admin.AccessReviewRequest) { q.Reviewer = "nobody@example.com" },
		"no_reviewer":     func(q *admin.AccessReviewRequest) { q.Reviewer, q.ByRole = "", map[string]string{"lead": dan.Email} },
		"own_access":      func(q *admin.AccessReviewRequest) { q.Reviewer = ada.Email },
		"unknown_role": func(q *admin.AccessReviewRequest) {
			q.Roles, q.ByRole = []string{"lead"}, map[string]string{"admin": dan.Email}
		},
		"nothing_to_review": func(q *admin.AccessReviewRequest) { q.Roles = []string{"nobody-has-it"} },
	} {
		o.check(want, ask(edit), want)
	}
	// The alternate reviews what is the reviewer's own; another account of theirs is not another person.
	o.check("an alternate of the same person", ask(func(q *admin.AccessReviewRequest) { q.Reviewer, q.Alternate = ben.Email, ben2.Email }), "own_access")

	r, err := reviews.Start(ctx, by(o.olga), admin.AccessReviewRequest{
		Title: "Q3", DueAt: due, Reviewer: dan.Email, ByRole: map[string]string{"reviewer": ada.Email}, Alternate: cem.Email,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := func(who string) map[string]int {
		s, err := reviews.Get(ctx, r.ID, who)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		for _, l := range s.AccessLines {
			found[l.Person.Name+" "+l.Role+" by "+l.Reviewer.Name] = l.N
		}
		return found
	}
	all := lines("")
	want := "ada lead by dan, ada reviewer by cem, ben reviewer by ada, ben2 auditor by dan, cem reviewer by ada, olga admin by dan"
	if got := strings.Join(slices.Sorted(maps.Keys(all)), ", "); got != want {
		t.Fatalf("the review has\n%s, want\n%s", got, want)
	}
	if got := len(lines(dan.ID)); got != 3 {
		t.Errorf("dan sees %d lines, want 3", got)
	}
	_, err = reviews.Get(ctx, r.ID, o.olga.ID)
	o.check("somebody with nothing to review", err, "not_found")

	// Told once to each reviewer, by mail.
	o.db.Exec(`INSERT INTO endpoints (id, kind, name, settings, created_by) VALUES ('end_mail', 'email', 'mail', '{"to": ["reviewers"]}', 'ops'),
		('end_hook', 'webhook', 'hook', '{}', 'ops'), ('end_tool', 'webhook', 'tool', '{"tools": ["pay*"]}', 'ops')`)
	told := &notify.Notifier{PublicURL: "https://hp.example.com", Logger: slog.New(slog.DiscardHandler)}
	remind := func() int {
		n := 0
		for {
			found, err := o.store.AccessReviews.Remind(ctx, told.AccessReview)
			if err != nil {
				t.Fatal(err)
			}
			if !found {
				return n
			}
			n++
		}
	}
	if n := remind(); n != 1 {
		t.Errorf("told %d times, want 1", n)
	}
	got := o.texts(`SELECT recipient || ': ' || (body->>'Message') FROM notifications ORDER BY 1`)
	if want := []string{
		": 3 reviewers have 6 roles of people to review: is each still needed?", "ada@example.com: You have 2 roles of people to review: is each still needed?",
		"cem@example.com: You have 1 role of a person to review: is each still needed?", "dan@example.com: You have 3 roles of people to review: is each still needed?",
	}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if got := o.texts(`SELECT ($1::timestamptz - remind_at)::text FROM access_reviews`, due); got[0] != "7 days" {
		t.Errorf("told again %s before it is due, want 7 days", got)
	}

	// Decided by whom it was assigned to, once.
	decide := func(p engine.Person, remove bool, comment string, numbers ...int) error {
		_, err := reviews.Decide(ctx, p, r.ID, admin.AccessDecision{Lines: numbers, Remove: remove, Comment: comment}, "console", "req")
		return err
	}
	o.check("somebody else's line", decide(ada, false, "", all["ada lead by dan"]), "not_found")
	o.check("no such line", decide(ada, false, "", 99), "unknown_line")
	o.check("none", decide(ada, false, ""), "no_lines")
	o.check("without a reason", decide(ada, true, " ", all["ben reviewer by ada"]), "comment_required")
	o.check("certified", decide(dan, false, "", all["olga admin by dan"], all["ada lead by dan"]), "")
	o.check("again", decide(dan, true, "changed my mind", all["olga admin by dan"]), "already_reviewed")
	o.check("to be taken away", decide(ada, true, "left the team", all["ben reviewer by ada"], all["cem reviewer by ada"]), "")

	// Nobody gets their own, whoever assigns it.
	assign := func(from, to string, numbers ...int) error {
		_, err := reviews.Assign(ctx, by(o.olga), r.ID, from, to, numbers, nil)
		return err
	}
	o.check("one's own", assign(dan.Email, ben.Email), "own_access")
	o.check("nothing left", assign(ada.Email, dan.Email), "unchanged")
	o.check("assigned", assign(cem.Email, dan.Email), "")
	if n := remind(); n != 1 {
		t.Errorf("after another assignment told %d times, want 1", n)
	}
	for what, sql := range map[string]string{
		"what was said":  `UPDATE access_review_lines SET decision = 'certified' WHERE decision = 'removal_asked'`,
		"one's own role": fmt.Sprintf(`UPDATE access_review_lines SET reviewer_id = person_id WHERE n = %d`, all["ada reviewer by cem"]),
	} {
		if _, err := o.db.Connect(o.db.RuntimeURL).Exec(ctx, sql); err == nil || !strings.Contains(err.Error(), "SQLSTATE 23514") {
			t.Errorf("%s was changed in the database: %v", what, err)
		}
	}

	_, err = reviews.Complete(ctx, by(o.olga), r.ID, "", nil)
	o.check("completed with something left", err, "review_incomplete")
	o.check("the rest", decide(dan, false, "", all["ada reviewer by cem"]), "")
	// The other account of ben is dan's to take away, who is no administrator.
	o.check("the last", decide(dan, true, "nobody uses it", all["ben2 auditor by dan"]), "")
	_, err = reviews.Complete(ctx, by(o.olga), r.ID, "", nil)
	o.check("completed with roles left", err, "review_incomplete")
	_, err = reviews.Remove(ctx, by(dan), r.ID, nil)
	if err != nil {
		t.Error(err)
	}
	if got := o.roles(ben); got != "reviewer" {
		t.Errorf("taken away by somebody who is no administrator: ben has %q", got)
	}
	if got := o.texts(`SELECT event_code(body) || ' ' || (convert_from(body, 'UTF8')::json->>'outcome') FROM events WHERE event_code(body) IN ('ACCESS_REMOVED', 'ACCESS_NOT_REMOVED')`); !slices.Equal(got, []string{"ACCESS_NOT_REMOVED DENY"}) {
		t.Errorf("and the log says %q", got)
	}
	done, err := reviews.Remove(ctx, by(o.olga), r.ID, nil)
	if err != nil || len(done) != 3 || slices.ContainsFunc(done, func(one admin.AccessRemoval) bool { return one.Why != "" }) {
		t.Errorf("taken away: %+v, %v", done, err)
	}
	if got := o.roles(ben) + "|" + o.roles(ben2) + "|" + o.roles(cem); got != "||" {
		t.Errorf("afterwards they have %q", got)
	}
	if e, _ := o.last(ben); e.Reasons[0].Code != "USER_ROLES_CHANGED" || e.Actor.ID != o.olga.ID {
		t.Errorf("the log says %s by %s", e.Reasons[0].Code, e.Actor.ID)
	}
	over, err := reviews.Complete(ctx, by(o.olga), r.ID, "", nil)
	if err != nil || over.EndedAt == nil || over.Certified != 3 || over.Removed != 3 || over.Open != 0 {
		t.Fatalf("completed: %+v, %v", over, err)
	}
	_, err = reviews.Complete(ctx, by(o.olga), r.ID, "", nil)
	o.check("completed again", err, "review_over")
	o.check("decided afterwards", decide(dan, false, "", all["ada reviewer by cem"]), "review_over")

	// The event has the digest of the lines, and a changed line shows.
	sealed := o.texts(`SELECT convert_from(body, 'UTF8')::json->'safe_payload'->>'digest' FROM events WHERE event_code(body) = 'ACCESS_REVIEW_COMPLETED'`)
	if !slices.Equal(sealed, []string{over.Digest}) {
		t.Errorf("the log has the digest %q, the review %q", sealed, over.Digest)
	}
	o.reported(began, r.ID)
	if s, err := reviews.Get(ctx, r.ID, ""); err != nil || s.Changed {
		t.Errorf("changed %t, %v", s.Changed, err)
	}
	o.db.Exec(`ALTER TABLE access_review_lines DISABLE TRIGGER USER; UPDATE access_review_lines SET decision = 'certified', removed_at = NULL WHERE decision = 'removal_asked'`)
	if s, err := reviews.Get(ctx, r.ID, ""); err != nil || !s.Changed {
		t.Errorf("a forged line does not show: %v", err)
	}
}

// reported holds the report against the log's events, counted by another way.
func (o *harness) reported(since time.Time, id string) {
	o.Helper()
	page, err := report.Reports{Store: o.store}.List(o.Context(), "access-reviews", report.ListQuery{Since: since, Limit: 100})
	if err != nil {
		o.Fatal(err)
	}
	var got []string
	for _, row := range page.Rows {
		if row["review_id"] != id || row["state"] != "completed" || row["review"] != "Q3" {
			o.Errorf("the report has %v", row)
		}
		got = append(got, row["person_id"]+" "+row["role"]+" "+row["decision"]+" by "+row["reviewer_id"])
	}
	slices.Sort(got)
	want := o.texts(`WITH said AS (SELECT event_code(e.body) AS code, event_actor(e.body) AS actor, one->>'person' AS person, one->>'role' AS role
			FROM events e, json_array_elements(convert_from(e.body, 'UTF8')::json->'safe_payload'->'accesses') one
			WHERE event_code(e.body) IN ('ACCESS_CERTIFIED', 'ACCESS_REMOVAL_ASKED', 'ACCESS_REMOVED') AND convert_from(e.body, 'UTF8')::json->'safe_payload'->>'review' = $1)
		SELECT s.person || ' ' || s.role || ' ' || CASE WHEN s.code = 'ACCESS_CERTIFIED' THEN 'certified' WHEN EXISTS (SELECT FROM said g WHERE g.code = 'ACCESS_REMOVED' AND (g.person, g.role) = (s.person, s.role))
				AND EXISTS (SELECT FROM events c, json_array_elements_text(convert_from(c.body, 'UTF8')::json->'safe_payload'->'roles_before') r WHERE event_code(c.body) = 'USER_ROLES_CHANGED' AND event_subject(c.body) = s.person AND r = s.role)
			THEN 'removed' ELSE 'removal_asked' END || ' by ' || s.actor FROM said s WHERE s.code <> 'ACCESS_REMOVED' ORDER BY 1`, id)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(got) != 6 {
		o.Errorf("the report has\n%s\nthe log\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// texts are what a query says, as a superuser.
func (o *harness) texts(sql string, args ...any) []string {
	o.Helper()
	rows, err := o.db.Connect(o.db.URL).Query(o.Context(), sql, args...)
	if err != nil {
		o.Fatal(err)
	}
	var found []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			o.Fatal(err)
		}
		found = append(found, one)
	}
	if rows.Err() != nil {
		o.Fatal(rows.Err())
	}
	return found
}

// TestAccessReviewOverdue: what is overdue is told daily, ends only for a reason, and says so.
func TestAccessReviewOverdue(t *testing.T) {
	o := newHarness(t)
	ada := o.db.Person(engine.Person{Name: "ada", Roles: []string{"reviewer"}})
	dan := o.db.Person(engine.Person{Name: "dan", Roles: []string{}})
	reviews := admin.New(admin.Config{Store: o.store}).AccessReviews
	now := o.store.Clock()
	r, err := reviews.Start(t.Context(), by(o.olga), admin.AccessReviewRequest{Title: "late", Roles: []string{"reviewer"}, DueAt: now.Add(time.Hour), Reviewer: dan.Email}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.db.Exec(`UPDATE access_reviews SET due_at = due_at - interval '50 hours', remind_at = clock_timestamp() - interval '1 minute'`)
	list, at, err := reviews.List(t.Context(), dan.ID)
	if err != nil || len(list) != 1 || !admin.AccessOverdue(list[0], at) {
		t.Fatalf("%+v, %v", list, err)
	}
	told := &notify.Notifier{Logger: slog.New(slog.DiscardHandler)}
	if found, err := o.store.AccessReviews.Remind(t.Context(), told.AccessReview); err != nil || !found {
		t.Fatal(found, err)
	}
	if got := o.texts(`SELECT (remind_at - due_at)::text FROM access_reviews`); got[0] != "3 days" {
		t.Errorf("told again %s after it was due, want 3 days", got[0])
	}
	awaited, err := reviews.Awaited(t.Context(), dan.ID)
	if err != nil || awaited.Lines != 1 {
		t.Errorf("%+v, %v", awaited, err)
	}
	_, err = reviews.Remove(t.Context(), by(o.olga), r.ID, nil)
	o.check("nothing to take away", err, "nothing_to_remove")
	over, err := reviews.Complete(t.Context(), by(o.olga), r.ID, "dan has left", nil)
	if err != nil || over.Incomplete != "dan has left" || over.Open != 1 {
		t.Errorf("%+v, %v", over, err)
	}
	if e := o.texts(`SELECT event_code(body) FROM events WHERE event_code(body) LIKE 'ACCESS%' ORDER BY appended_at DESC LIMIT 1`); e[0] != "ACCESS_REVIEW_ENDED" {
		t.Errorf("the log says %s", e)
	}
	page, err := report.Reports{Store: o.store}.List(t.Context(), "access-reviews", report.ListQuery{Since: now.Add(-time.Hour)})
	if err != nil || len(page.Rows) != 1 || page.Rows[0]["state"] != "ended" || page.Rows[0]["decision"] != "not_reviewed" || page.Rows[0]["person_id"] != ada.ID {
		t.Errorf("the report has %v, %v", page.Rows, err)
	}
}
