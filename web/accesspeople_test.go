package web

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"holdpoint/internal/report"
)

// The report is fit for a company of 300 people: a role shows the first of them and leads
// to all, a person is found by a part of the name, and the file has everybody.
func TestAccessReportOfManyPeople(t *testing.T) {
	company := report.AccessReport{}
	for _, role := range []string{"finance-approver", "ops", "security"} {
		a := report.RoleAccess{Role: role, Needed: 2, People: 300}
		for i := range 300 {
			a.Holders = append(a.Holders, report.RoleHolder{
				PersonID: fmt.Sprintf("usr_%d", i), Name: fmt.Sprintf("Person %03d", i), Email: fmt.Sprintf("p%d@example.com", i), How: "direct", Since: onDay(-3, 0),
			})
		}
		a.Holders[7].Name = "=HYPERLINK(1)"
		company.Roles = append(company.Roles, a)
	}
	kept := &reports{access: company}
	c := start(t, withReports(kept)).signIn("aude@example.com")
	all := c.get("/audit/access")
	all.want(t, http.StatusOK, "Show all 300", `/audit/access?role=ops"`, " and 290 more", `href="/audit/access.csv?"`)
	if n := strings.Count(all.body, "@example.com</span>"); n != 3*roleHolders || len(all.body) > 200_000 {
		t.Errorf("%d people in %d bytes", n, len(all.body))
	}
	one := c.get("/audit/access?role=ops")
	if n := strings.Count(one.body, "@example.com</span>"); n != 300 || strings.Contains(one.body, `id="role-security"`) {
		t.Errorf("of one role %d people", n)
	}
	found := c.get("/audit/access?q=PERSON+29")
	found.want(t, http.StatusOK, "Person 290", `value="PERSON 29"`, "300 people")
	if n := strings.Count(found.body, "@example.com</span>"); n != 30 || strings.Contains(found.body, "Person 100") {
		t.Errorf("found %d people", n)
	}
	c.get("/audit/access?q=nobody").want(t, http.StatusOK, "Nobody here fits the search")
	for query, want := range map[string]int{"": 900, "role=ops": 300, "q=person+29": 30, "q=nobody": 0} {
		file := c.get("/audit/access.csv?" + query)
		rows, err := csv.NewReader(strings.NewReader(file.body)).ReadAll()
		if err != nil || len(rows) != want+1 || !strings.HasPrefix(file.Header.Get("Content-Type"), "text/csv") {
			t.Errorf("%q: %d rows, %v, %v", query, len(rows), err, file.Header)
		}
		if last := kept.files[len(kept.files)-1]; last.As != report.AccessFile || last.Rows != want || string(last.Text) != file.body || last.Searched != strings.Contains(query, "q=") {
			t.Errorf("%q: on record is a file of %d rows, %d bytes, searched %t", query, last.Rows, len(last.Text), last.Searched)
		}
		if query == "" && rows[8][1] != "[U+003D]HYPERLINK(1)" {
			t.Errorf("a formula: %q", rows[8])
		}
	}
	kept.broken = errors.New("the database is down")
	if unsent := c.get("/audit/access.csv"); unsent.StatusCode == http.StatusOK || strings.Contains(unsent.body, "@example.com") {
		t.Errorf("what could not be recorded was sent: %d", unsent.StatusCode)
	}
	kept.broken = nil
	c.get("/audit/access.csv?role=ada@example.com").want(t, http.StatusNotFound, "There is no such role")
	c.get("/audit/access.csv?at=never").want(t, http.StatusUnprocessableEntity, "That did not work")
	start(t, withReports(&reports{access: company})).signIn("ada@example.com").get("/audit/access.csv").want(t, http.StatusForbidden)
}
