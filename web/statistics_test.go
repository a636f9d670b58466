package web

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/report"
	"holdpoint/internal/store"
	"holdpoint/web/views"
)

// withReports is a console with these reports.
func withReports(r *reports) func(*Config) { return func(c *Config) { c.Reports = r } }

func counted() report.StatisticsReport {
	day := epoch.Truncate(24 * time.Hour)
	return report.StatisticsReport{Statistics: store.Statistics{
		Waiting: []int{3, 2, 0, 0, 0, 1},
		Days: []store.DayStatistics{
			{Day: day.AddDate(0, 0, -3), Decided: 40, Ended: 44, Expired: 4, P50: 300, P90: 4000},
			{Day: day.AddDate(0, 0, -1), Decided: 3, Ended: 3, P50: 20, P90: 90},
		},
		Tools:     []store.RateStatistics{{Name: "pay", Approved: 30, Denied: 10, Expired: 4}, {Name: "<b>&\u202e", Approved: 3}},
		Agents:    []store.RateStatistics{{Name: "agt_billing", Approved: 33, Denied: 10}},
		Reviewers: []store.VoteStatistics{{PersonID: "usr_grace", Votes: 41}, {PersonID: "usr_ada", Votes: 2, ByGrant: 1}},
		Grants:    []store.GrantStatistics{{ID: "gra_1", Tool: "pay", AgentID: "agt_billing", PersonID: "usr_ada", Votes: 1, Uses: 2, MaxUses: 8}},
	}}
}

// What is counted is shown as plots, each with its title, its description and its table;
// a share of few has no percentage, and people are in order of their names.
func TestStatistics(t *testing.T) {
	c := start(t, withReports(&reports{counted: counted()})).signIn("aude@example.com")
	page := c.get("/audit/statistics")
	page.want(t, http.StatusOK, `<th scope="row">pay</th>`, "75%, 30 of 40", "3 of 3<", "44</td>", "6 approvals wait now", "43 approvals were approved or denied",
		"4 of the 47 approvals that ended", "44 votes of 2 people", "2 of 8", views.Visible("\u202e"), "5 min 00 s", `aria-current>Statistics`)
	if strings.Contains(page.body, "100%, 3 of 3") || strings.Contains(page.body, "<b>&") || strings.Contains(page.body, "style=") {
		t.Error("a share of three, markup of others, or a style")
	}
	if ada, grace := strings.Index(page.body, `<th scope="row">Ada`), strings.Index(page.body, `<th scope="row">Grace`); ada < 0 || grace < ada {
		t.Errorf("people are at %d and %d", ada, grace)
	}
	pictures := regexp.MustCompile(`(?s)<svg [^>]*role="img" aria-labelledby="(\S+) (\S+)">.*?</svg>`).FindAllStringSubmatch(page.body, -1)
	if len(pictures) != 7 || strings.Count(page.body, "<summary>Table") != 7 {
		t.Errorf("%d plots, %d tables", len(pictures), strings.Count(page.body, "<summary>Table"))
	}
	for _, m := range pictures {
		if !strings.Contains(m[0], `<title id="`+m[1]+`">`) || !strings.Contains(m[0], `<desc id="`+m[2]+`">`) || strings.Contains(m[0], "NaN") || strings.Contains(m[0], "Inf") {
			t.Errorf("%.300s", m[0])
		}
	}
}

// A period in which there was nothing is no error, and one that cannot be is said.
func TestStatisticsOfNothing(t *testing.T) {
	r := &reports{counted: report.StatisticsReport{Statistics: store.Statistics{Waiting: make([]int, 6)}}}
	c := start(t, withReports(r)).signIn("olga@example.com")
	page := c.get("/audit/statistics")
	page.want(t, http.StatusOK, "Nothing was decided", "0 approvals wait")
	if strings.Contains(page.body, "NaN") {
		t.Error("a plot of nothing is broken")
	}
	c.get("/audit/statistics?since=never").want(t, http.StatusUnprocessableEntity, "never")
	r.broken = &access.Refusal{Kind: access.Invalid, Code: "period_too_long", Detail: "Choose a shorter one."}
	c.get("/audit/statistics").want(t, http.StatusUnprocessableEntity, "Choose a shorter one.")
	r.broken = errors.New("no database")
	c.get("/audit/statistics").want(t, http.StatusServiceUnavailable)
	start(t, withReports(r)).signIn("ada@example.com").get("/audit/statistics").want(t, http.StatusForbidden)
}

// Of many people none has a bar of their own.
func TestStatisticsOfMany(t *testing.T) {
	found := counted()
	for i := range maxLoads {
		found.Reviewers = append(found.Reviewers, store.VoteStatistics{PersonID: fmt.Sprintf("usr_%d", i), Votes: 10 * i})
	}
	p := loadPlot(found, func(id string) string { return id })
	var words []string
	for _, b := range p.Bars {
		words = append(words, b.Label+": "+b.Value)
	}
	want := "fewer than 10 votes: 2 people, 10 to 29 votes: 2 people, 30 to 99 votes: 8 people, 100 to 299 votes: 10 people, 300 votes or more: 0 people"
	if got := strings.Join(words, ", "); got != want || len(p.Table.Rows) != maxLoads+2 {
		t.Errorf("%d rows, %s", len(p.Table.Rows), got)
	}
}
