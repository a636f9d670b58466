package gate_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/report"
	"holdpoint/internal/store"
)

// TestListsHaveTheirColumns: the columns that a report tells of are those of its SQL, in
// the same order, and each word that a row has is explained.
func TestListsHaveTheirColumns(t *testing.T) {
	ctx := context.Background()
	h := newHouse(t, routing(time.Hour, 1))
	denied := h.open(asked)
	if err := h.vote("ada", denied, false); err != nil {
		t.Fatal(err)
	}
	h.settle(denied.ID)
	h.give("ben", "reviewer", "admin")
	for _, l := range report.Lists() {
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
		if l.Columns[0].Place != report.OwnColumn {
			t.Errorf("%s begins with a column that is not on the page", l.Name)
		}
		page, err := h.Reports.List(ctx, l.Name, report.ListQuery{Count: true})
		if err != nil || page.Found != len(page.Rows) {
			t.Errorf("%s: %d rows, counted %d: %v", l.Name, len(page.Rows), page.Found, err)
		}
		for _, row := range page.Rows {
			for _, c := range l.Columns {
				if c.Kind == report.TermCell && row[c.Name] != "" && !slices.ContainsFunc(l.Terms, func(t report.Term) bool { return t.Word == row[c.Name] }) {
					t.Errorf("%s, %s: nobody says what %q means", l.Name, c.Name, row[c.Name])
				}
			}
		}
		if l.Name == "duties" && len(page.Rows) != 2 || l.Name == "approvals" && (len(page.Rows) != 1 || page.Rows[0]["decided_by"] != "ada") {
			t.Errorf("%s: %v", l.Name, page.Rows) // ada has two accounts, and ben two duties
		}
	}
	// Of one person, by name or id, whatever the case.
	for who, want := range map[string]int{"ADA": 1, " ada ": 1, "ben": 0, "ad": 0, "%": 0} {
		page, err := h.Reports.List(ctx, "approvals", report.ListQuery{Person: who, Count: true})
		if err != nil || len(page.Rows) != want || page.Found != want {
			t.Errorf("decided by %q: %d rows, %d counted, %v; want %d", who, len(page.Rows), page.Found, err, want)
		}
	}
}

func TestListRefusals(t *testing.T) {
	ctx := context.Background()
	h := newHouse(t, routing(time.Hour, 1))
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
			if err := h.Reports.ExportList(ctx, access.By{}, c.name, c.q, &file, nil); code(err) != c.want || file.Len() > 0 {
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
	h := newHouse(t, routing(time.Hour, 1))
	person := h.db.Person(engine.Person{Email: "formula@example.com", Name: "=2+3", Roles: []string{}})
	const joined = report.MaxListPage + 7
	for n := range joined {
		e := h.adminEvent("USER_ADDED", map[string]any{"person": person.ID, "subject": person.ID, "roles_before": []string{}, "roles_after": []string{fmt.Sprint("role-", n)}})
		if n == 0 {
			e.Actor.ID = "=cmd()"
		}
		if _, err := h.Store.Submit(ctx, store.Submission{Event: e}); err != nil {
			t.Fatal(err)
		}
	}
	pages, file := 0, &recordedFirst{h: h}
	by := access.PersonAdministers(engine.Person{ID: "usr_aude"}, "console", "req_1")
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
