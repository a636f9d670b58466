package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/report"
	"holdpoint/internal/store"
)

// adminEvent is an event as the commands write it.
func (h *harness) adminEvent(code string, payload map[string]any) engine.Event {
	h.t.Helper()
	body, err := json.Marshal(payload)
	if err != nil {
		h.t.Fatal(err)
	}
	return engine.Event{
		ID: uuid.NewString(), Type: engine.Admin, Outcome: engine.Allow, Reasons: []engine.Reason{{Code: code, Message: "Something was changed."}},
		SafePayload: body, Actor: engine.Actor{Kind: engine.ServiceActor, ID: "root", Channel: "cli"},
	}
}

func (h *harness) now() time.Time {
	h.t.Helper()
	now, err := h.Store.Now(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	return now
}

func (h *harness) access(q report.AccessQuery) report.AccessReport {
	h.t.Helper()
	r, err := h.Reports.Access(context.Background(), q)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// whoHas says who has a role, and how: "ada direct", "ben delegation ada".
func whoHas(r report.AccessReport, role string) []string {
	list := []string{}
	for _, a := range slices.Concat(r.Roles, r.Powers) {
		if a.Role != role {
			continue
		}
		for _, one := range a.Holders {
			list = append(list, strings.Join(append([]string{one.Name, one.How}, one.Via...), " "))
		}
	}
	slices.Sort(list)
	return list
}

// listedHolders says the same by the report that is a list, read two rows at a time.
func (h *harness) listedHolders(q report.ListQuery, role string) []string {
	h.t.Helper()
	list := []string{}
	for q.Limit = 2; ; {
		page, err := h.Reports.List(context.Background(), report.AccessList, q)
		if err != nil || len(page.Rows) > 2 {
			h.t.Fatal(len(page.Rows), err)
		}
		for _, row := range page.Rows {
			if row["role"] == role && row["how"] != "nobody" {
				list = append(list, strings.Join(slices.Concat([]string{row["person"], row["how"]}, strings.FieldsFunc(row["via"], func(r rune) bool { return r == ',' || r == ' ' })), " "))
			}
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			break
		}
		q.Since, q.Until = page.Since, page.Until
	}
	for i, who := range list {
		list[i] = strings.ReplaceAll(who, " for ", " ")
	}
	slices.Sort(list)
	return list
}

func roleAccess(t *testing.T, r report.AccessReport, role string) report.RoleAccess {
	t.Helper()
	for _, a := range slices.Concat(r.Roles, r.Powers) {
		if a.Role == role {
			return a
		}
	}
	t.Fatalf("the report has no role %q: %+v", role, r.Roles)
	return report.RoleAccess{}
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestAccessReportOfThePast walks through a day of changes and asks at every step,
// and afterwards again, who could approve what at each of them.
func TestAccessReportOfThePast(t *testing.T) {
	ctx := context.Background()
	r := routing(time.Hour, 2)
	r.Default.Role, r.Default.Escalation = "finance", []engine.Escalation{{After: engine.Duration(time.Minute), Role: "on-call/payments"}}
	h := newHarness(t, r)
	h.withoutPolicy = true // what it asked for then would have to be kept, too
	h.judgeBy(gate.Rules{Environment: "test", Routing: r})
	if err := h.Store.Rules.KeepRuleset(ctx, h.judge.Load().Digest(), h.judge.Load().Body()); err != nil {
		t.Fatal(err)
	}
	owner := h.db.Owner()
	type moment struct {
		name string
		at   time.Time
		want map[string][]string
	}
	var moments []moment
	here := func(name string, finance, duty []string) {
		t.Helper()
		m := moment{name, h.now(), map[string][]string{"finance": finance, "on-call/payments": duty}}
		now := h.access(report.AccessQuery{})
		for role, want := range m.want {
			same(t, "now, "+name+", "+role, whoHas(now, role), want...)
		}
		moments = append(moments, m)
	}
	h.db.Exec(`UPDATE people SET roles = '{}'`)
	here("nobody", []string{}, []string{})

	add := func(name string, roles ...string) engine.Person {
		t.Helper()
		p := engine.Person{ID: store.NewID("usr"), Email: name + "@example.com", Name: name, Roles: roles}
		p.Identity = p.ID
		e := h.adminEvent("USER_ADDED", map[string]any{"subject": p.ID, "person": p.ID, "roles_before": []string{}, "roles_after": roles})
		if err := owner.People.Create(ctx, p, "x", e); err != nil {
			t.Fatal(err)
		}
		h.people[name] = p
		return p
	}
	fay, gil, hal := add("fay", "finance", "admin"), add("gil", "finance"), add("hal", "other")
	here("two were added", []string{"fay direct", "gil direct"}, []string{})

	// hal stands in for gil, and ada for hal: the role comes down the chain, the
	// administrator's does not.
	h.delegate("gil", "hal")
	d := h.delegate("fay", "hal")
	h.delegate("hal", "ada")
	here("delegated", []string{"ada delegation hal fay", "ada delegation hal gil", "fay direct", "gil direct", "hal delegation fay", "hal delegation gil"}, []string{})
	same(t, "an administrator's role by delegation", whoHas(h.access(report.AccessQuery{}), access.AdminRole), "fay direct")

	h.onCall(time.Hour, "ben", "cleo")
	if err := h.Delegations.Revoke(ctx, h.people["fay"], d.ID, "console", "req"); err != nil {
		t.Fatal(err)
	}
	here("on call", []string{"ada delegation hal gil", "fay direct", "gil direct", "hal delegation gil"}, []string{"ben on_call", "cleo on_call"})

	// What is to come is not there yet.
	q := admin.OnCallRequest{Schedule: "payments", Emails: []string{"dina@example.com"}, From: h.now().Add(30 * time.Minute), Until: h.now().Add(2 * time.Hour)}
	if err := h.OnCall.Set(ctx, operator, q, nil); err != nil {
		t.Fatal(err)
	}
	here("a shift to come", []string{"ada delegation hal gil", "fay direct", "gil direct", "hal delegation gil"}, []string{"ben on_call", "cleo on_call"})

	h.onCall(time.Hour)
	gone := h.adminEvent("USER_DISABLED", map[string]any{"subject": gil.Email, "person": gil.ID, "roles_before": gil.Roles, "roles_after": []string{}})
	h.db.Disable(gil.ID, gone)
	here("one was disabled", []string{"fay direct"}, []string{})

	h.db.Exec(`UPDATE people SET disabled_at = NULL WHERE id = $1`, gil.ID)
	if gaps := strings.Join(h.access(report.AccessQuery{}).Gaps, "\n"); !strings.Contains(gaps, "The log leaves gil (gil@example.com) disabled") {
		t.Errorf("an account that was enabled past Holdpoint is not among the gaps: %s", gaps)
	}
	if _, err := h.Store.Submit(ctx, store.Submission{Event: h.adminEvent("USER_ENABLED", map[string]any{"subject": gil.ID, "person": gil.ID, "roles_before": []string{}, "roles_after": gil.Roles})}); err != nil {
		t.Fatal(err)
	}
	here("who was disabled is back", []string{"fay direct", "gil direct"}, []string{})
	h.delegate("gil", "hal")
	here("and delegates anew", []string{"ada delegation hal gil", "fay direct", "gil direct", "hal delegation gil"}, []string{})
	h.db.Disable(gil.ID, h.adminEvent("USER_DISABLED", map[string]any{"subject": gil.Email, "person": gil.ID, "roles_before": gil.Roles, "roles_after": []string{}}))
	here("and gone again", []string{"fay direct"}, []string{})

	change := h.adminEvent("USER_ROLES_CHANGED", map[string]any{"subject": hal.ID, "person": hal.ID, "roles_before": hal.Roles, "roles_after": []string{"other", "finance"}})
	if _, err := h.Store.Submit(ctx, store.Submission{Event: change}); err != nil {
		t.Fatal(err)
	}
	h.give("hal", "other", "finance")
	here("another one got the role", []string{"ada delegation hal", "fay direct", "hal direct"}, []string{})

	for _, m := range moments {
		then := h.access(report.AccessQuery{At: m.at})
		if !then.Past || !then.At.Equal(m.at) {
			t.Errorf("%s: the report is of %s, past %v", m.name, then.At, then.Past)
		}
		for role, want := range m.want {
			same(t, "afterwards, "+m.name+", "+role, whoHas(then, role), want...)
			same(t, "as rows, "+m.name+", "+role, h.listedHolders(report.ListQuery{Since: m.at.Add(-time.Hour), Until: m.at}, role), want...)
		}
	}
	if a := roleAccess(t, h.access(report.AccessQuery{At: moments[1].at}), "finance"); a.Short || a.People != 2 || a.Needed != 2 {
		t.Errorf("two people for two places: %+v", a)
	}
	for role, want := range moments[len(moments)-1].want {
		same(t, "as rows, now, "+role, h.listedHolders(report.ListQuery{}, role), want...)
	}
	last := h.access(report.AccessQuery{})
	if a := roleAccess(t, last, "finance"); a.Short || a.People != 2 {
		t.Errorf("a deputy counts, or somebody does not: %+v", a)
	}
	disabled := h.access(report.AccessQuery{At: moments[5].at})
	if a := roleAccess(t, disabled, "finance"); !a.Short || a.People != 1 {
		t.Errorf("one person for two places: %+v", a)
	}
	for _, one := range roleAccess(t, last, "finance").Holders {
		if one.Name == "hal" && (one.Since == nil || !one.Since.After(moments[5].at)) {
			t.Errorf("hal has had the role since %v", one.Since)
		}
		if one.Name == "fay" && (one.Since == nil || one.Since.Before(moments[0].at) || one.Since.After(moments[1].at) || one.Unsure != "") {
			t.Errorf("fay has had the role since %v (%s)", one.Since, one.Unsure)
		}
	}
	if fay.ID == "" || !slices.ContainsFunc(last.Changes, func(c report.AccessChange) bool {
		return c.Code == "USER_ROLES_CHANGED" && c.About == "hal" && c.Detail == "roles: other → finance, other" && c.By == "root"
	}) {
		t.Errorf("the change is not told: %+v", last.Changes)
	}
	if !slices.ContainsFunc(last.Changes, func(c report.AccessChange) bool {
		return c.Code == "ON_CALL_SET" && c.About == "on-call/payments" && strings.HasPrefix(c.Detail, "ben, cleo, from ")
	}) {
		t.Errorf("the shift is not told: %+v", last.Changes)
	}
}

// What the log cannot know is said, and not made up.
func TestAccessGaps(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	began := h.now().Add(-time.Hour)
	gaps := func(q report.AccessQuery) string { return strings.Join(h.access(q).Gaps, "\n") }
	if got := gaps(report.AccessQuery{}); !strings.Contains(got, "does not say who added ada (ada@example.com), or with which roles") {
		t.Errorf("an account that no event explains: %s", got)
	}
	after := h.now()
	then := h.access(report.AccessQuery{At: after})
	if all := strings.Join(then.Gaps, "\n"); !strings.Contains(all, "No event says which roles ada (ada@example.com) had") || !strings.Contains(all, "No routing is known") {
		t.Errorf("roles that no event tells: %s", all)
	}
	if got := gaps(report.AccessQuery{At: began}); !strings.Contains(got, "The log begins at") {
		t.Errorf("before the log: %s", got)
	}
	// Whoever changes the database by hand is found out.
	p := engine.Person{ID: store.NewID("usr"), Email: "eve@example.com", Name: "eve", Roles: []string{"reviewer"}}
	p.Identity = p.ID
	if err := h.db.Owner().People.Create(ctx, p, "x", h.adminEvent("USER_ADDED", map[string]any{"person": p.ID, "subject": p.ID, "roles_before": []string{}, "roles_after": p.Roles})); err != nil {
		t.Fatal(err)
	}
	if got := gaps(report.AccessQuery{}); strings.Contains(got, "eve") {
		t.Errorf("nothing is wrong with eve: %s", got)
	}
	h.db.Exec(`UPDATE people SET roles = '{reviewer,admin}' WHERE id = $1`, p.ID)
	if got := gaps(report.AccessQuery{}); !strings.Contains(got, "leaves eve (eve@example.com) with the role reviewer, and the database says the roles reviewer, admin") {
		t.Errorf("a role that was given by hand: %s", got)
	}
	for _, q := range []report.AccessQuery{
		{At: h.now().Add(time.Hour)}, {Since: h.now(), Until: h.now().Add(-time.Hour)}, {Since: h.now().Add(-400 * 24 * time.Hour)},
	} {
		if _, err := h.Reports.Access(ctx, q); code(err) == "" {
			t.Errorf("%+v is answered: %v", q, err)
		}
	}
}

func TestAccessReportOfKeysAndRules(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	h.give("dina", approval.BreakGlassRole)
	owner := h.db.Owner()
	key := store.Key{ID: "key_export", Kind: access.AdminKey, SecretHash: make([]byte, 32), Scopes: []string{"audit", "admin"}, MaxState: "none", Label: "export"}
	if err := owner.Keys.Create(ctx, key, h.adminEvent("KEY_CREATED", map[string]any{"subject": key.ID, "kind": key.Kind, "scopes": key.Scopes, "max_state": "none"})); err != nil {
		t.Fatal(err)
	}
	wide := h.now()
	if err := owner.Keys.SetScopes(ctx, key.ID, []string{"audit"}, h.adminEvent("KEY_CHANGED", map[string]any{"subject": key.ID, "scopes_before": key.Scopes, "scopes": []string{"audit"}})); err != nil {
		t.Fatal(err)
	}
	narrow := h.now()
	if err := owner.Keys.Revoke(ctx, key.ID, h.adminEvent("KEY_REVOKED", map[string]any{"subject": key.ID})); err != nil {
		t.Fatal(err)
	}
	scopes := func(q report.AccessQuery) string {
		var all []string
		for _, k := range h.access(q).Keys {
			all = append(all, k.ID+" "+strings.Join(k.Scopes, "+")+k.Unsure)
		}
		return strings.Join(all, ", ")
	}
	if a, b, c := scopes(report.AccessQuery{At: wide}), scopes(report.AccessQuery{At: narrow}), scopes(report.AccessQuery{}); a != "key_export audit+admin" || b != "key_export audit" || c != "" {
		t.Errorf("the key: %q, then %q, now %q", a, b, c)
	}

	// What waits asks for its people as well.
	h.open(deferred)
	r := h.access(report.AccessQuery{})
	a := roleAccess(t, r, "reviewer")
	if !slices.ContainsFunc(a.Asked, func(x report.RoleAsked) bool { return x.By == "approvals" && x.Name == "1 waits" }) ||
		!slices.ContainsFunc(a.Asked, func(x report.RoleAsked) bool {
			return x.By == "routing" && x.Name == "default" && x.As == "decides" && x.Needed == 1
		}) {
		t.Errorf("asked by %+v", a.Asked)
	}
	if a.People != 5 { // ada's two accounts are one human being; dina has another role
		t.Errorf("%d people have the role: %v", a.People, whoHas(r, "reviewer"))
	}
	same(t, "break-glass", whoHas(r, approval.BreakGlassRole), "dina direct")

	if len(r.Silent) != 0 {
		t.Errorf("silent on their first day: %+v", r.Silent)
	}
	h.db.Exec(`UPDATE people SET created_at = created_at - interval '100 days'`)
	in := engine.Event{
		ID: uuid.NewString(), Type: engine.SignIn, Outcome: engine.Allow, Reasons: []engine.Reason{{Code: "SIGNED_IN", Message: "Signed in with a password."}},
		SafePayload: []byte(`{}`), Actor: engine.Actor{Kind: engine.HumanActor, ID: h.people["ada"].ID, Channel: "console"},
	}
	if _, err := h.Store.Submit(ctx, store.Submission{Event: in}); err != nil {
		t.Fatal(err)
	}
	var silent []string
	for _, p := range h.access(report.AccessQuery{}).Silent {
		silent = append(silent, p.Name)
	}
	same(t, "silent", silent, "ada again", "ben", "cleo", "dina", "emil", "owner")
}

// Factors that have gone since are put back, and those that came since are not
// there yet.
func TestAccessFactors(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	id := h.people["ada"].ID
	h.give("ada", access.AdminRole)
	tell := func(code, factor string) time.Time {
		t.Helper()
		e := h.adminEvent(code, map[string]any{"person": id, "factor": factor})
		if _, err := h.Store.Submit(ctx, store.Submission{Event: e}); err != nil {
			t.Fatal(err)
		}
		return h.now()
	}
	began := h.now()
	app := tell("FACTOR_ADDED", "totp")
	both := tell("FACTOR_ADDED", "passkey")
	bare := tell("FACTORS_RESET", "")
	last := tell("FACTOR_ADDED", "passkey")
	h.db.Exec(`INSERT INTO passkeys (credential_id, person_id, public_key, sign_count, aaguid, transports, name, backup_eligible, backed_up)
		VALUES ('x', $1, 'x', 0, decode(repeat('00', 16), 'hex'), '{}', 'key', false, false)`, id)
	for _, tc := range []struct {
		what string
		at   time.Time
		want string
	}{{"before", began, ""}, {"an app", app, "totp"}, {"both", both, "passkey totp"}, {"reset", bare, ""}, {"again", last, "passkey"}, {"now", time.Time{}, "passkey"}} {
		var kinds []string
		for _, f := range roleAccess(t, h.access(report.AccessQuery{At: tc.at}), access.AdminRole).Holders[0].Factors {
			kinds = append(kinds, f.Kind)
		}
		if got := strings.Join(kinds, " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.what, got, tc.want)
		}
	}
}

func TestReviewersNotes(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	for range report.NoteFrom {
		a := h.open(another(deferred))
		if _, err := h.Queries.Card(ctx, h.people["ada"], a.ID, gate.Full); err != nil {
			t.Fatal(err)
		}
		if err := h.vote("ada", a, true); err != nil {
			t.Fatal(err)
		}
	}
	h.db.Exec(`UPDATE card_views v SET first_at = f.at - interval '1 second' FROM facts f WHERE f.approval_id = v.approval_id AND f.actor_id = v.person_id AND f.kind = 'vote'`)
	if err := h.vote("ben", h.open(another(deferred)), false); err != nil {
		t.Fatal(err)
	}
	r, err := h.Reports.Reviewers(ctx, report.ReviewerQuery{Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Reviewers) != 2 || r.Reviewers[0].Name != "ada" || r.Reviewers[0].Decided != report.NoteFrom || r.Reviewers[0].Quick != report.NoteFrom || r.Total.Decided != report.NoteFrom+1 || r.Total.Denied != 1 {
		t.Fatalf("got %+v", r)
	}
	codes := []string{}
	for _, n := range r.Reviewers[0].Notes {
		codes = append(codes, n.Code)
	}
	if !slices.Contains(codes, "quick_votes") || !slices.Contains(codes, "always_yes") || slices.Contains(codes, "busy_day") {
		t.Errorf("notes: %v", codes)
	}
	if len(r.Reviewers[1].Notes) != 0 || *r.Reviewers[1].ApprovedShare != 0 || r.Reviewers[1].Timed != 0 {
		t.Errorf("ben: %+v", r.Reviewers[1])
	}
	rows, err := h.Reports.List(ctx, report.ReviewersList, report.ListQuery{})
	if err != nil || len(rows.Rows) != 2 || rows.Rows[0]["person"] != "ada" || rows.Rows[0]["decided"] != "20" || rows.Rows[0]["quick"] != "20" || rows.Rows[1]["denied"] != "1" || rows.Rows[1]["note"] != "" ||
		!strings.Contains(rows.Rows[0]["note"], "too soon to have read it. 20 of 20 were approved") {
		t.Errorf("as rows: %v, %v", rows.Rows, err)
	}
	if one, err := h.Reports.List(ctx, report.ReviewersList, report.ListQuery{Person: "ben"}); err != nil || len(one.Rows) != 1 || one.Found != 1 || one.Rows[0]["person"] != "ben" {
		t.Errorf("ben alone: %v, %v", one.Rows, err)
	}
	for _, zone := range []string{"Mars/Olympus", "Local", "../etc/passwd"} {
		if _, err := h.Reports.Reviewers(ctx, report.ReviewerQuery{Zone: zone}); code(err) != "zone" {
			t.Errorf("zone %q: %v", zone, err)
		}
		if _, err := h.Reports.List(ctx, report.ReviewersList, report.ListQuery{Zone: zone}); code(err) != "zone" {
			t.Errorf("rows by zone %q: %v", zone, err)
		}
	}
	if _, err := h.Reports.List(ctx, "roles", report.ListQuery{Zone: "UTC"}); code(err) != "bad_query" {
		t.Errorf("a zone for a report that counts no hours: %v", err)
	}
	day, night := 0, 0 // it is night at this moment in some zones, and in others it is not
	for east := range 24 {
		zone := fmt.Sprintf("Etc/GMT%+d", east-11)
		loads, err := h.Reports.Reviewers(ctx, report.ReviewerQuery{Zone: zone})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := h.Reports.List(ctx, report.ReviewersList, report.ListQuery{Zone: zone})
		if err != nil || rows.Zone != zone || rows.Rows[0]["zone"] != zone || rows.Rows[0]["nights"] != strconv.Itoa(loads.Reviewers[0].Nights) || rows.Rows[0]["weekends"] != strconv.Itoa(loads.Reviewers[0].Weekends) {
			t.Fatalf("%s: rows %v, %v; the report %+v", zone, rows.Rows, err, loads.Reviewers[0])
		}
		if loads.Reviewers[0].Nights > 0 {
			night++
		} else {
			day++
		}
	}
	if day == 0 || night == 0 {
		t.Errorf("by %d zones it was day, and by %d night", day, night)
	}
}

func TestReportMoment(t *testing.T) {
	for text, want := range map[string]string{
		"": "0001-01-01T00:00:00Z", "2027-01-31": "2027-01-31T00:00:00Z", "2027-01-31T18:00": "2027-01-31T18:00:00Z", " 2027-01-31T18:00:00+02:00 ": "2027-01-31T16:00:00Z",
		"yesterday": "", "31.1.2027": "", "0000-01-01": "", "2027-02-30": "",
	} {
		got, err := report.ParseTime(text)
		if want == "" {
			if code(err) != "bad_time" {
				t.Errorf("%q: %v, %v", text, got, err)
			}
			continue
		}
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}
