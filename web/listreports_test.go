package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/report"
)

func TestReportIndex(t *testing.T) {
	c, _ := startReports(t)
	page := c.signIn("aude@example.com").get("/audit/reports")
	page.want(t, http.StatusOK, `href="/audit/reports" aria-current`, `href="/audit/access"`, `href="/audit/statistics"`)
	for _, l := range report.Lists() {
		if !strings.Contains(page.body, `href="/audit/reports/`+l.Name+`"`) || !strings.Contains(strip(page.body), l.Asks) {
			t.Errorf("the page does not lead to %s, or does not say what it answers", l.Name)
		}
	}
}

// TestListReportPages opens each report with a row that has a value in each column.
func TestListReportPages(t *testing.T) {
	for _, l := range report.Lists() {
		c, r := startReports(t)
		row := map[string]string{}
		for _, column := range l.Columns {
			row[column.Name] = "<b>" + column.Name + "\u202e"
			switch column.Kind {
			case report.TimeCell:
				row[column.Name] = "2026-11-02T10:30:00.5Z"
			case report.SecondsCell, report.NumberCell:
				row[column.Name] = "7384.000"
			case report.AmountCell:
				row[column.Name] = "1234567.50"
			case report.TermCell:
				row[column.Name] = l.Terms[0].Word
			case report.TextCell, report.ApprovalCell, report.EventCell:
			}
		}
		r.list = report.ListPage{Rows: []map[string]string{row, {}}, Found: 2, NextCursor: "more", Gaps: []string{"The log begins at noon."}}
		page := c.signIn("aude@example.com").get("/audit/reports/" + l.Name + "?since=2026-11-01&until=2026-11-05")
		page.want(t, http.StatusOK, "<caption", `scope="col"`, `scope="row"`, `data-testid="list-export"`, `value="2026-11-05"`, "The log begins at noon.", "after=more",
			"GET /v1/audit/reports/"+l.Name+"?since=2026-11-01T00%3A00%3A00Z&amp;until=2026-11-06T00%3A00%3A00Z", "2 rows")
		if len(l.Terms) > 0 {
			page.want(t, http.StatusOK, l.Terms[0].Means)
		}
		if has := strings.Contains(page.body, `data-testid="list-whole"`); has != (l.Name == "access" || l.Name == "reviewers" || l.Name == "claims" || l.Name == "erasures") {
			t.Errorf("%s: leads to a page that tells more: %t", l.Name, has)
		}
		if l.Name == "access" {
			page.want(t, http.StatusOK, `href="/audit/access?at=2026-11-06T00%3A00%3A00Z&amp;since=2026-11-01&amp;until=2026-11-05"`)
		}
		if slices.ContainsFunc(l.Columns, func(c report.ListColumn) bool { return c.Kind == report.TimeCell && c.Place != report.InFile }) {
			page.want(t, http.StatusOK, "2 Nov 2026, 10:30:00 UTC")
		}
		if strings.Contains(page.body, "<b>") || strings.Contains(page.body, "\u202e") || strings.Contains(page.body, "0001-01-01") {
			t.Errorf("%s: a value is markup, turns the text around, or is a time that there is not", l.Name)
		}
		if q := r.listed[len(r.listed)-1]; q.Since != time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC) || q.Until != time.Date(2026, 11, 6, 0, 0, 0, 0, time.UTC) || !q.Count {
			t.Errorf("%s: asked for %+v", l.Name, q)
		}
		if has := strings.Contains(page.body, "1,234,567.50 &lt;b&gt;currency") && strings.Contains(page.body, `name="at_least"`); has != l.OfAmounts() {
			t.Errorf("%s: has amounts: %t", l.Name, has)
		}
		r.list.Person = &report.ListPerson{ID: "usr_ada", Name: "Ada <Archer>", Email: "ada@example.com"}
		of := c.get("/audit/reports/" + l.Name + "?since=2026-11-01&until=2026-11-05&person=+ada")
		if has := strings.Contains(of.body, `<input type="search" name="person" value="ada@example.com"`); has != l.OfPeople() || r.listed[len(r.listed)-1].Person != "ada" {
			t.Errorf("%s: offers to narrow it to a person: %t, %+v", l.Name, has, r.listed[len(r.listed)-1])
		}
		// Ways on have the id: what a form of exports says is for the log.
		of.want(t, http.StatusOK, `name="person" value="usr_ada"`, "after=more&amp;person=usr_ada", "person=usr_ada&amp;since=2026-11-15", "Ada &lt;Archer&gt;", "person=usr_ada&amp;since=2026-11-01T00")
		if has := strings.Contains(of.body, `href="/history?by=ada%40example.com&amp;since=2026-11-01&amp;until=2026-11-05"`); has != (l.Name == "approvals") {
			t.Errorf("%s: leads to the history: %t", l.Name, has)
		}
		r.broken = &access.Refusal{Kind: access.Invalid, Code: "no_such_person", Detail: "There is nobody of that id."}
		c.get("/audit/reports/"+l.Name+"?person=nosuch").want(t, http.StatusUnprocessableEntity, "There is nobody of that id.")
		r.list, r.broken = report.ListPage{}, nil
		c.get("/audit/reports/"+l.Name).want(t, http.StatusOK, `data-testid="list-empty"`, l.None, "0 rows")
	}
}

// TestListReportOfAmounts: the least amount goes with every way on, and the sums lead to the
// approvals and back.
func TestListReportOfAmounts(t *testing.T) {
	c, r := startReports(t)
	c.signIn("aude@example.com")
	r.list = report.ListPage{Uncounted: true, NextCursor: "more", Rows: []map[string]string{{"amount": "1000.00", "currency": "EUR"}, {"amount_note": "erased"}}}
	page := c.get("/audit/reports/approvals?since=2026-11-01&until=2026-11-05&at_least=+1000+EUR")
	page.want(t, http.StatusOK, "2 rows on this page", "1,000.00 EUR", "erased", `name="at_least" value="1000 EUR"`, `type="hidden" name="at_least" value="1000 EUR"`, "after=more&amp;at_least=1000+EUR",
		`href="/audit/reports/amounts?at_least=1000+EUR&amp;since=2026-11-01T00`, "at_least=1000+EUR&amp;since=2026-11-15", "GET /v1/audit/reports/approvals?at_least=1000+EUR")
	if q := r.listed[len(r.listed)-1]; q.AtLeast != "1000 EUR" {
		t.Errorf("asked for %+v", q)
	}
	c.get("/audit/reports/amounts?since=2026-11-01&until=2026-11-05&at_least=5").want(t, http.StatusOK, `href="/audit/reports/approvals?at_least=5&amp;since=2026-11-01T00`)
	c.do("POST", "/audit/reports/amounts/export", url.Values{"at_least": {"5 USD"}}).want(t, http.StatusOK)
	if q := r.listed[len(r.listed)-1]; q.AtLeast != "5 USD" {
		t.Errorf("exported %+v", q)
	}
	r.broken = &access.Refusal{Kind: access.Invalid, Code: "bad_amount", Detail: "Write the least amount such as 1000."}
	c.get("/audit/reports/amounts?at_least=x").want(t, http.StatusUnprocessableEntity, "Write the least amount such as 1000.", `name="at_least" value="x"`)
}

// TestListReportOfHours: the time zone goes with every way on.
func TestListReportOfHours(t *testing.T) {
	c, r := startReports(t)
	c.signIn("aude@example.com")
	r.list = report.ListPage{Zone: "Europe/Berlin", NextCursor: "more", Rows: []map[string]string{{"person": "Ada Archer", "off_hours": "3"}}}
	c.get("/audit/reports/reviewers?since=2026-11-01&until=2026-11-05&zone=Europe/Berlin").want(t, http.StatusOK, "weekends Saturday and Sunday, in Europe/Berlin.", `type="hidden" name="zone" value="Europe/Berlin"`,
		`placeholder="UTC"`, "after=more&amp;since=2026-11-01T00%3A00%3A00Z&amp;until=2026-11-06T00%3A00%3A00Z&amp;zone=Europe%2FBerlin", `href="/audit/reviewers?since=2026-11-01&amp;until=2026-11-05&amp;zone=Europe%2FBerlin"`)
	if q := r.listed[len(r.listed)-1]; q.Zone != "Europe/Berlin" {
		t.Errorf("asked for %+v", q)
	}
	c.do("POST", "/audit/reports/reviewers/export", url.Values{"zone": {"Asia/Tokyo"}}).want(t, http.StatusOK)
	if q := r.listed[len(r.listed)-1]; q.Zone != "Asia/Tokyo" {
		t.Errorf("exported %+v", q)
	}
	r.list = report.ListPage{}
	if page := c.get("/audit/reports/roles"); strings.Contains(page.body, `name="zone"`) {
		t.Error("a report that counts no hours asks for a time zone")
	}
}

func TestListReportPeriods(t *testing.T) {
	c, r := startReports(t)
	c.signIn("olga@example.com")
	first := c.get("/audit/reports/roles?since=2026-07-01&until=2026-09-30")
	first.want(t, http.StatusOK, `href="/audit/reports/roles?since=2026-07-01&amp;until=2026-09-30" aria-current`, "Last quarter", "Last 7 days", "?since=2026-11-15&amp;until=2026-11-21", "?since=2025-01-01&amp;until=2025-12-31", `name="since" value="2026-07-01"`)
	r.list.NextCursor = "next-one"
	next := c.get("/audit/reports/roles?after=cursor&since=2026-07-01T00:00:00Z&until=2026-10-01T00:00:00.5Z")
	next.want(t, http.StatusOK, "First page", `name="until" value="2026-10-01"`, "after=next-one&amp;since=2026-07-01T00%3A00%3A00Z&amp;until=2026-10-01T00%3A00%3A00.5Z")
	if q := r.listed[len(r.listed)-1]; q.Cursor != "cursor" || q.Until.Nanosecond() != 5e8 {
		t.Errorf("asked for %+v", q)
	}
	asked := len(r.listed)
	c.get("/audit/reports/roles?since=x").want(t, http.StatusUnprocessableEntity, "Write a time such as", `data-testid="report-form"`)
	if len(r.listed) != asked {
		t.Error("a report was made of a time that there is not")
	}
	c.get("/audit/reports/nothing").want(t, http.StatusNotFound)
	r.broken = &access.Refusal{Kind: access.Invalid, Code: "period_too_long", Detail: "A report covers at most 366 days."}
	c.get("/audit/reports/roles").want(t, http.StatusUnprocessableEntity, "at most 366 days")
	r.broken = &access.Refusal{Kind: access.Malformed, Code: "bad_cursor", Detail: "That is no place in this report."}
	c.get("/audit/reports/roles?after=x").want(t, http.StatusBadRequest, "That is no place")
}

func TestListReportFile(t *testing.T) {
	c, r := startReports(t)
	c.signIn("aude@example.com")
	form := url.Values{"since": {"2026-07-01T00:00:00Z"}, "until": {"2026-10-01T00:00:00Z"}}
	file := c.do("POST", "/audit/reports/roles/export", form)
	if file.StatusCode != http.StatusOK || file.body != "time,act\n" || file.Header.Get("Content-Disposition") != `attachment; filename="holdpoint-roles-from-2026-07-01-to-2026-09-30.csv"` || file.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s %v %q", file.Status, file.Header, file.body)
	}
	if len(r.files) != 1 || r.files[0].Role != "roles" || !r.files[0].At.Equal(time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("exported %+v", r.files)
	}
	c.do("POST", "/audit/reports/roles/export", url.Values{"since": {"x"}}).want(t, http.StatusUnprocessableEntity, "Write a time such as")
	c.do("POST", "/audit/reports/nothing/export", form).want(t, http.StatusNotFound)
	if len(r.files) != 1 {
		t.Errorf("exported %+v", r.files)
	}
	ada, none := startReports(t)
	ada.signIn("ada@example.com").do("POST", "/audit/reports/roles/export", form).want(t, http.StatusForbidden)
	if len(none.files) > 0 {
		t.Error("somebody who is no auditor exported a report")
	}
}
