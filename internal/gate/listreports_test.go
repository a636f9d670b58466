package gate_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/report"
	"holdpoint/internal/store"
)

// TestListsHaveTheirColumns: the columns that a report tells of are those of its SQL, in
// the same order, and each word that a row has is explained.
func TestListsHaveTheirColumns(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	denied := h.open(asked)
	if err := h.vote("ada", denied, false); err != nil {
		t.Fatal(err)
	}
	h.settle(denied.ID)
	h.give("ben", "reviewer", "admin")
	for _, l := range report.Lists() {
		if l.Name == report.AmountsList { // it is added up here: TestAmountsOfAQuarter
			continue
		}
		page, err := h.Reports.List(ctx, l.Name, report.ListQuery{Count: true})
		if err != nil || page.Found != len(page.Rows) {
			t.Errorf("%s: %d rows, counted %d: %v", l.Name, len(page.Rows), page.Found, err)
		}
		for _, row := range page.Rows {
			for _, c := range l.Columns {
				if value, has := row[c.Name]; !has || c.Kind == report.TermCell && value != "" && !slices.ContainsFunc(l.Terms, func(t report.Term) bool { return t.Word == value }) {
					t.Errorf("%s, %s: there is none, or nobody says what %q means", l.Name, c.Name, value)
				}
			}
			if len(row) != len(l.Columns) {
				t.Errorf("%s: a row has %d cells for %d columns", l.Name, len(row), len(l.Columns))
			}
		}
		if l.Columns[0].Place != report.OwnColumn {
			t.Errorf("%s begins with a column that is not on the page", l.Name)
		}
		if l.Name == "duties" && len(page.Rows) != 2 || l.Name == "approvals" && (len(page.Rows) != 1 || page.Rows[0]["decided_by"] != "ada") {
			t.Errorf("%s: %v", l.Name, page.Rows) // ada has two accounts, and ben two duties
		}
		if l.Name == report.AccessList || l.Name == report.ReviewersList || l.Name == report.ClaimsList { // they are made of reports that tell more
			continue
		}
		found, err := h.Store.Reports.List(ctx, store.ListQuery{List: l.Name, Since: h.now().Add(-time.Hour), Until: h.now().Add(time.Hour), Limit: 10, Admin: "admin", Auditor: "auditor"})
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		var names []string
		for _, c := range l.Columns {
			names = append(names, c.Name)
		}
		if !slices.Equal(names, found.Columns) {
			t.Errorf("%s:\n tells of %q\n its SQL has %q", l.Name, names, found.Columns)
		}
	}
}

// TestListsOfOnePerson: a report of one person is of the one who is meant, or refused, and
// the log names them by id alone.
func TestListsOfOnePerson(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	denied := h.open(asked)
	if err := h.vote("ada", denied, false); err != nil {
		t.Fatal(err)
	}
	h.settle(denied.ID)
	ada, ben := h.people["ada"], h.people["ben"]
	aude := h.db.Person(engine.Person{Email: "aude@example.com", Name: "Aude", Roles: []string{access.AuditorRole}})
	first := h.db.Person(engine.Person{ID: "usr_kim1", Email: "kim@example.com", Name: "Kim", Roles: []string{}})
	second := h.db.Person(engine.Person{ID: "usr_kim2", Email: "kim@example.net", Name: "KIM", Roles: []string{}})
	h.db.Person(engine.Person{Email: "liar@example.com", Name: strings.ToUpper(ada.Email), Roles: []string{}})
	h.db.Person(engine.Person{Email: "other@example.com", Name: ada.ID, Roles: []string{}})
	wide := gate.HistorySearch{Words: []string{denied.Call.Tool}}
	for _, c := range []struct {
		who, code string
		id        string
		rows      int
	}{
		{ada.ID, "", ada.ID, 1},
		{" " + strings.ToUpper(ada.Email) + " ", "", ada.ID, 1},
		{strings.ToUpper(ben.Email), "", ben.ID, 0},
		{"Kim@Example.net", "", second.ID, 0},
		{"kim", "several_people", first.ID + ", " + second.ID, 0},
		{"nosuch", "no_such_person", "", 0},
		{"ad", "no_such_person", "", 0},
		{"%", "no_such_person", "", 0},
		{"a\x00", "bad_query", "", 0},
		{"a\xff", "bad_query", "", 0},
		{strings.Repeat("x", 10_000), "no_such_person", "", 0},
	} {
		page, err := h.Reports.List(ctx, "approvals", report.ListQuery{Person: c.who, Count: true})
		if code(err) != c.code || c.code == "" && (len(page.Rows) != c.rows || page.Found != c.rows || page.Person == nil || page.Person.ID != c.id) {
			t.Errorf("decided by %.40q: %d rows, %d counted, of %+v: %v", c.who, len(page.Rows), page.Found, page.Person, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.id) {
			t.Errorf("several people: %v", err)
		}
		by := access.PersonInitiator(aude, "console", "req_1")
		before, _ := h.exports()
		if err := h.Reports.ExportList(ctx, by, "approvals", report.ListQuery{Person: c.who}, &bytes.Buffer{}, func() error { return nil }); code(err) != c.code {
			t.Errorf("the file of %.40q: %v", c.who, err)
		}
		search := wide
		search.DecidedBy = c.who
		if found, err := h.Histories.History(ctx, aude, search); code(err) != c.code || len(found.Rows) != c.rows {
			t.Errorf("the history of %.40q: %d rows, %v", c.who, len(found.Rows), err)
		}
		// Who does not see everybody finds what they may, and is not told who there is.
		if found, err := h.Histories.History(ctx, ben, search); code(err) != "" && code(err) != "bad_query" || len(found.Rows) != c.rows {
			t.Errorf("ben's history of %.40q: %d rows, %v", c.who, len(found.Rows), err)
		}
		if err := h.Histories.ExportHistory(ctx, by, aude, search, &bytes.Buffer{}, func() error { return nil }); code(err) != c.code {
			t.Errorf("the history's file of %.40q: %v", c.who, err)
		}
		after, _ := h.exports()
		if want := map[bool]int{true: 4, false: 0}[c.code == ""]; len(after)-len(before) != want {
			t.Errorf("%.40q: %q are on record", c.who, after[len(before):])
		}
	}
	events, err := h.Events(ctx, store.EventFilter{Type: string(engine.Exported)}, 100)
	if err != nil || len(events) == 0 {
		t.Fatal(len(events), err)
	}
	for _, e := range events {
		var told struct {
			As, Person string
			Filter     map[string]any
		}
		if err := json.Unmarshal(e.SafePayload, &told); err != nil {
			t.Fatal(err)
		}
		who := told.Person
		if told.As == "approval_history" {
			who, _ = told.Filter["decided_by"].(string)
			if told.Filter["searched"] != true || told.Filter["words"] != nil {
				t.Errorf("of the words is on record: %v", told.Filter)
			}
		}
		if !slices.Contains([]string{ada.ID, ben.ID, second.ID}, who) || strings.Contains(string(e.SafePayload), "@") {
			t.Errorf("on record is %s", e.SafePayload)
		}
	}
}

func TestListRefusals(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	long := report.ListQuery{Since: h.now().AddDate(-2, 0, 0), Until: h.now()}
	for _, c := range []struct {
		name, want string
		q          report.ListQuery
	}{{"nothing", "not_found", report.ListQuery{}}, {"roles", "bad_cursor", report.ListQuery{Cursor: "x"}}, {"keys", "bad_query", report.ListQuery{Person: "ada"}}, {"roles", "period_too_long", long}, {"roles", "period", report.ListQuery{Since: h.now().Add(time.Hour)}}} {
		if _, err := h.Reports.List(ctx, c.name, c.q); code(err) != c.want {
			t.Errorf("%s, %+v: %v, want %s", c.name, c.q, err, c.want)
		}
		var file bytes.Buffer
		if c.q.Cursor == "" {
			if err := h.Reports.ExportList(ctx, access.Initiator{}, c.name, c.q, &file, nil); code(err) != c.want || file.Len() > 0 {
				t.Errorf("the file of %s: %v, want %s", c.name, err, c.want)
			}
		}
	}
	if codes, _ := h.exports(); len(codes) > 0 {
		t.Errorf("what was refused is on record: %v", codes)
	}
	page, err := h.Reports.List(ctx, "roles", report.ListQuery{Since: h.now().AddDate(0, -2, 0)})
	if err != nil || len(page.Gaps) != 1 || !strings.HasPrefix(page.Gaps[0], "The log begins at") {
		t.Errorf("a period from before the log: %q, %v", page.Gaps, err)
	}
}

// TestExportList: a report is a file that no spreadsheet computes, with more rows than a
// page has, and it is on record before its first byte.
func TestExportList(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, routing(time.Hour, 1))
	person := h.db.Person(engine.Person{Email: "formula@example.com", Name: "=2+3", Roles: []string{}})
	const joined = report.MaxListPage + 7
	joins := func(n int, actor string) error {
		e := h.adminEvent("USER_ADDED", map[string]any{"person": person.ID, "subject": person.ID, "roles_before": []string{}, "roles_after": []string{fmt.Sprint("role-", n)}})
		e.Actor.ID = cmp.Or(actor, e.Actor.ID)
		_, err := h.Store.Submit(ctx, store.Submission{Event: e})
		return err
	}
	if err := joins(0, "=cmd()"); err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	failed := make(chan error, joined)
	for n := range joined - 1 { // at once, because they share commits
		others.Go(func() { failed <- joins(n+1, "") })
	}
	others.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Fatal(err)
		}
	}
	pages, file := 0, &recordedFirst{h: h}
	by := access.PersonInitiator(engine.Person{ID: "usr_aude"}, "console", "req_1")
	if err := h.Reports.ExportList(ctx, by, "roles", report.ListQuery{}, file, func() error { pages++; return nil }); err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(file.Bytes()))
	rows, err := csv.NewReader(&file.Buffer).ReadAll()
	if err != nil || len(rows) != joined+1 || pages != 2 || rows[0][0] != "time" {
		t.Fatalf("%d rows in %d pages: %v", len(rows), pages, err)
	}
	if first := strings.Join(rows[1], " "); !strings.Contains(first, "[U+003D]2+3") || !strings.Contains(first, "[U+003D]cmd()") {
		t.Errorf("cells that compute: %q", first)
	}
	codes, last := h.exports()
	if file.codes != "EXPORT_BEGUN" || strings.Join(codes, " ") != "EXPORT_BEGUN EXPORTED" || last.Actor.ID != "usr_aude" {
		t.Errorf("at the first byte: %q, at the end: %q, by %+v", file.codes, codes, last.Actor)
	}
	var told struct {
		As, Report, Digest string
		Rows               int
	}
	if err := json.Unmarshal(last.SafePayload, &told); err != nil || told.As != report.ListFile || told.Report != "roles" || told.Digest != digest || told.Rows != joined {
		t.Errorf("on record is %+v, %v", told, err)
	}
	broken := &recordedFirst{h: h, broken: errors.New("the reader is gone")}
	if err := h.Reports.ExportList(ctx, by, "roles", report.ListQuery{}, broken, func() error { return nil }); !errors.Is(err, broken.broken) {
		t.Errorf("a file that breaks off: %v", err)
	}
	if codes, _ := h.exports(); strings.Join(codes, " ") != "EXPORT_BEGUN EXPORTED EXPORT_BEGUN" {
		t.Errorf("after a file that broke off: %q", codes)
	}
}
