package web

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/stakes"
	"holdpoint/internal/report"
	"holdpoint/web/views"
)

// approvalsReport is the report of the decisions, of which the history tells more.
const approvalsReport = "approvals"

const erasuresList = "erasures"

// otherReports are the reports that are no lists, with the questions that they answer.
var otherReports = []views.ReportLink{
	{Title: "Start an access review, and follow it", URL: "/access-reviews", Asks: "Have people say of each role that somebody has whether it is still needed."},
	{Title: "Statistics", URL: "/audit/statistics", Asks: "What waits, how long decisions take, and how they end, as plots."},
	{Title: "The log", URL: "/audit/export", Asks: "Everything, with the proof that nothing was changed, removed or put in front of it."},
}

// wholeOf leads from a list to the page that tells more of the same.
func wholeOf(v views.ListReport, past bool) views.ReportLink {
	days := url.Values{"since": {v.Form.Since}, "until": {v.Form.Until}}
	switch v.Name {
	case report.AccessList:
		if past {
			days.Set("at", v.Until.Format(time.RFC3339))
		}
		return views.ReportLink{Asks: "What asks for each role, standing grants, API keys and what changed:", Title: "Who can approve what", URL: "/audit/access?" + days.Encode()}
	case report.ReviewersList:
		if v.Form.Zone != "" {
			days.Set("zone", v.Form.Zone)
		}
		return views.ReportLink{Asks: "All of them together, and what is taken for fatigue:", Title: "Reviewer activity", URL: "/audit/reviewers?" + days.Encode()}
	case report.ClaimsList:
		return views.ReportLink{Asks: "Agent by agent:", Title: "Whom agents name as their side", URL: "/audit/claims?" + days.Encode()}
	case erasuresList:
		return views.ReportLink{Asks: "What is due next, and holds to place and release:", Title: "Erasures and holds", URL: erasuresURL}
	}
	return views.ReportLink{}
}

// overview is the page from which each report is reached.
func (h *reportHandler) overview(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	v := views.ReportIndex{Frame: h.site.frame(p, "Reports", "audit"), Others: otherReports}
	for _, l := range report.Lists() {
		v.Lists = append(v.Lists, views.ReportLink{Title: l.Title, Asks: l.Asks, URL: "/audit/reports/" + l.Name})
	}
	return h.site.render(w, r, http.StatusOK, views.ReportIndexPage(v))
}

// list shows a report that is a list.
func (h *reportHandler) list(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	return h.showList(w, r, p, r.URL.Query(), "")
}

// showList shows the report of a query, or says why there is none.
func (h *reportHandler) showList(w http.ResponseWriter, r *http.Request, p engine.Person, query url.Values, failure string) error {
	form, since, until, err := reportForm(query)
	name := r.PathValue("name")
	l, _ := report.FindList(name)
	v := views.ListReport{Frame: h.site.frame(p, l.Title, "audit"), Form: form, Name: name, Title: l.Title, Asks: l.Asks, None: l.None}
	person := strings.TrimSpace(query.Get("person"))
	v.Form.Query, v.Form.Person, v.OfPeople, v.Decided = person, person, l.OfPeople(), l.OfAmounts()
	v.Form.AtLeast, v.OfAmounts, v.OfHours = strings.TrimSpace(query.Get("at_least")), l.OfAmounts(), l.OfHours()
	now := h.site.clock().UTC()
	v.Form.Periods = periods(now, "/audit/reports/"+name, v.Form)
	var found report.ListPage
	if err == nil {
		found, err = h.reports.List(r.Context(), name, report.ListQuery{Since: since, Until: until, Cursor: query.Get("after"), Count: true, Person: person, AtLeast: v.Form.AtLeast, Zone: v.Form.Zone})
	}
	detail, is := refused(err)
	if failure != "" {
		detail, is = failure, true
	}
	if is && l.Name != "" {
		v.Form.Failure = detail
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.ListReportPage(v))
	}
	if err != nil {
		return err
	}
	if one := found.Person; one != nil {
		person, v.Form.Query, v.Who = one.ID, cmp.Or(one.Email, one.ID), cmp.Or(one.Name, one.Email, one.ID)
		v.Form.Person = person // addresses of pages are in logs and histories: they have the id
		v.Form.Periods = periods(now, "/audit/reports/"+name, v.Form)
	}
	v.Form.JSON = jsonURL("/audit/reports/"+name, v.Form, found.Since, found.Until)
	v.Form.Since, v.Form.Until = "", "" // links have moments: the form shows days
	fillPeriod(&v.Form, found.Since, found.Until)
	v.Ready, v.Since, v.Until, v.Gaps, v.Zone = true, found.Since, found.Until, found.Gaps, found.Zone
	v.Found, v.More, v.Uncounted = min(found.Found, report.ListCounted), found.Found > report.ListCounted, found.Uncounted
	listView(&v, found)
	here := url.Values{"since": {found.Since.Format(time.RFC3339Nano)}, "until": {found.Until.Format(time.RFC3339Nano)}}
	if person != "" {
		here.Set("person", person)
	}
	if v.Form.AtLeast != "" {
		here.Set("at_least", v.Form.AtLeast)
	}
	if v.Form.Zone != "" {
		here.Set("zone", v.Form.Zone)
	}
	if name == approvalsReport {
		told := url.Values{"since": {v.Form.Since}, "until": {v.Form.Until}}
		if person != "" {
			told.Set("by", v.Form.Query)
		}
		v.History = "/history?" + told.Encode()
	}
	if other := map[string]string{approvalsReport: report.AmountsList, report.AmountsList: approvalsReport}[name]; other != "" {
		v.Beside = "/audit/reports/" + other + "?" + here.Encode()
	}
	v.Whole = wholeOf(v, found.Until.Before(now))
	v.Exact = views.Exact{Since: here.Get("since"), Until: here.Get("until")}
	if query.Get("after") != "" {
		v.First = "/audit/reports/" + name + "?" + here.Encode()
	}
	if found.NextCursor != "" {
		here.Set("after", found.NextCursor)
		v.Next = "/audit/reports/" + name + "?" + here.Encode()
	}
	return h.site.render(w, r, http.StatusOK, views.ListReportPage(v))
}

// listView lays a page of a list out: what is only in the file is left out, and what
// belongs to another cell is below it.
func listView(v *views.ListReport, page report.ListPage) {
	used := map[string]bool{}
	for _, c := range page.Columns {
		if c.Place == report.OwnColumn {
			v.Heads = append(v.Heads, views.ListHead{Title: c.Title, Number: c.Kind == report.NumberCell || c.Kind == report.SecondsCell || c.Kind == report.AmountCell})
		}
	}
	for _, row := range page.Rows {
		var cells []views.ListCell
		for _, c := range page.Columns {
			part := listPart(c, row[c.Name])
			if c.Kind == report.AmountCell && part.Text != "" {
				part.Text = strings.TrimSpace(part.Text + " " + row["currency"])
			}
			switch {
			case c.Place == report.OwnColumn:
				cells = append(cells, views.ListCell{Part: part})
			case c.Place == report.Below && row[c.Name] != "" && len(cells) > 0:
				last := &cells[len(cells)-1]
				last.Below = append(last.Below, part)
			}
			if c.Kind == report.TermCell && c.Place != report.InFile {
				used[row[c.Name]] = true
			}
		}
		v.Rows = append(v.Rows, cells)
	}
	for _, t := range page.Terms {
		if used[t.Word] {
			v.Terms = append(v.Terms, views.Term{Word: reportWord(t.Word), Means: t.Means})
		}
	}
}

func listPart(c report.ListColumn, value string) views.ListPart {
	part := views.ListPart{Text: value, Lead: c.Lead}
	switch c.Kind {
	case report.TimeCell:
		part.Time, _ = time.Parse(time.RFC3339Nano, value) // zero where there is none
	case report.SecondsCell:
		if s, err := strconv.ParseFloat(value, 64); err == nil {
			part.Text = views.Elapsed(seconds(s))
		}
	case report.TermCell:
		part.Text, part.Term = reportWord(value), true
	case report.ApprovalCell:
		part.Href = "/approvals/" + url.PathEscape(value)
	case report.AmountCell:
		part.Text = stakes.Grouped(value)
	case report.EventCell:
		part.Text, part.Href = "event", eventURL(value)
	case report.TextCell, report.NumberCell:
	}
	if value == "" {
		part = views.ListPart{}
	}
	return part
}

// reportWords are the words of a report that people say otherwise.
var reportWords = map[string]string{
	"none": "not run", // what became of a call
	"owed": "needed", "not_owed": "not needed",
}

// reportWord writes a word of a report as people do.
func reportWord(word string) string {
	if said := reportWords[word]; said != "" {
		return said
	}
	return strings.ReplaceAll(word, "_", " ")
}

// periods are those that auditors ask for, as of now.
func periods(now time.Time, path string, chosen views.ReportForm) []views.PeriodLink {
	day := func(t time.Time) string { return t.Format(time.DateOnly) }
	quarter := time.Date(now.Year(), (now.Month()-1)/3*3+1, 1, 0, 0, 0, 0, time.UTC)
	year := time.Date(now.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	var links []views.PeriodLink
	for _, one := range []struct {
		label       string
		first, last time.Time
	}{
		{"Last 7 days", now.AddDate(0, 0, -6), now},
		{"Last 30 days", now.AddDate(0, 0, -29), now},
		{"This quarter", quarter, now},
		{"Last quarter", quarter.AddDate(0, -3, 0), quarter.AddDate(0, 0, -1)},
		{"This year", year, now},
		{"Last year", year.AddDate(-1, 0, 0), year.AddDate(0, 0, -1)},
	} {
		q := url.Values{"since": {day(one.first)}, "until": {day(one.last)}}
		if chosen.Zone != "" {
			q.Set("zone", chosen.Zone)
		}
		if chosen.Person != "" {
			q.Set("person", chosen.Person)
		}
		if chosen.AtLeast != "" {
			q.Set("at_least", chosen.AtLeast)
		}
		links = append(links, views.PeriodLink{Label: one.label, URL: path + "?" + q.Encode(), Here: chosen.Since == day(one.first) && chosen.Until == day(one.last)})
	}
	return links
}

// listFile sends a report that is a list as a file.
func (h *reportHandler) listFile(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	form, since, until, err := reportForm(r.PostForm)
	name := r.PathValue("name")
	file := newDownload(w, r, "text/csv; charset=utf-8", report.FileName(name, since, until, "csv"))
	if err == nil {
		err = h.reports.ExportList(r.Context(), by(p), name, report.ListQuery{Since: since, Until: until, Person: r.PostForm.Get("person"), AtLeast: r.PostForm.Get("at_least"), Zone: form.Zone}, file, file.Flush)
	}
	err = file.End(err)
	if detail, is := refused(err); is {
		return h.showList(w, r, p, r.PostForm, detail)
	}
	return err
}
