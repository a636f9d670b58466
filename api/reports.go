package api

import (
	"errors"
	"slices"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/download"
	"holdpoint/internal/identity"
	"holdpoint/internal/report"
)

// auditReports are the auditors' reports.
func (a auditDoor) auditReports() []operation {
	period := []parameter{
		{"since", "RFC 3339 time, or a day such as 2027-01-31 (UTC); 30 days before until when left out."},
		{"until", "The same, and not in the period; now when left out. At most 366 days after since."},
	}
	return []operation{
		{
			method: "GET", path: "/v1/audit/access", summary: "Who could approve what, and when that changed", scope: identity.ScopeAudit, out: report.AccessReport{},
			statuses: []int{200}, problems: []int{400, 401, 403, 422, 503}, handle: a.accessReport,
			detail: "As it is now; with at, as it was at that moment, put together from the audit log. gaps says what the log does not tell. changes are those of the period.",
			query:  append([]parameter{{"at", "RFC 3339 time, or a day (its beginning, in UTC)."}}, period...),
		},
		{
			method: "GET", path: "/v1/audit/reviewers", summary: "How much reviewers decide, and how", scope: identity.ScopeAudit, out: report.ReviewerReport{},
			statuses: []int{200}, problems: []int{400, 401, 403, 422, 503}, handle: a.reviewerReport,
			detail: "Times run from when a call was put to people until the vote. notes says what looks like fatigue; none of it is proof.",
			query:  append([]parameter{{"zone", "The time zone by which it is night (22:00 to 06:00) or a weekend, such as Europe/Berlin; UTC when left out."}}, period...),
		},
		{
			method: "GET", path: "/v1/audit/claims", summary: "Whom agents name as their own side", scope: identity.ScopeAudit, out: report.ClaimReport{},
			statuses: []int{200}, problems: []int{400, 401, 403, 422, 503}, handle: a.claimReport,
			detail: "Whom an agent names as its side may not decide. This counts, agent by agent, the approvals of the period that nothing but such a claim takes from somebody.",
			query:  period,
		},
		{
			method: "GET", path: "/v1/audit/reports", summary: "Which reports there are that are lists", scope: identity.ScopeAudit, out: Reports{},
			statuses: []int{200}, problems: []int{401, 403}, handle: a.reports,
			detail: "Each with the question that it answers, and its columns.",
		},
		{
			method: "GET", path: "/v1/audit/reports/{name}", summary: "A report of a period, as rows", scope: identity.ScopeAudit, long: true, out: report.ListPage{},
			statuses: []int{200}, problems: []int{400, 401, 403, 404, 422, 429, 503}, handle: a.listReport,
			detail: "The console's page, its CSV file and this have the same rows. With format=csv the answer is the whole file, and that it was exported is on record; it has no end when something went wrong on the way. The reports approvals and amounts have how much each call is about, read out of its sealed arguments as the first amount in the sentence of its card; that somebody was given a page of these is on record, too. A page may have fewer rows than limit and go on all the same. The report access is of the period's end: as it is, where the period reaches up to now; as the log tells of that moment otherwise.",
			query: append(slices.Clone(period), parameter{"format", "json, the default, or csv."}, parameter{"cursor", "next_cursor of the page before. Name the same since and until with it."}, parameter{"limit", "1 to 1000; 100 when left out."},
				parameter{"person", "The id of one person, or else the address, or else the name: in the report of approvals, of who decided them. Nobody of that kind is no_such_person; several are several_people, which names their ids. The log names the person by id. The reports of claims, erasures, executions, keys and policies are not about people, and refuse it."},
				parameter{"at_least", "The least amount, such as 1000, 1000.50 or 1000 EUR, for the reports approvals and amounts: without a currency that number of each currency, with one only what is in it. What has no known amount is left out then."},
				parameter{"zone", "For the report reviewers: the time zone by which it is night (22:00 to 06:00), a weekend or another day, such as Europe/Berlin; UTC when left out. Other reports refuse it."}),
		},
	}
}

// Reports are the reports that are lists.
type Reports struct {
	Reports []report.List `json:"reports"`
}

// day reads a moment as people write one in a report's form: a date will do.
func day(into *time.Time) func(string) error {
	return func(value string) (err error) {
		if *into, err = report.ParseTime(value); err != nil {
			return errors.New("a time such as 2027-01-31 or 2027-01-31T18:00:00Z")
		}
		return nil
	}
}

func (a auditDoor) accessReport(c *call) error {
	var q report.AccessQuery
	if err := (parameters{"at": day(&q.At), "since": day(&q.Since), "until": day(&q.Until)}).read(c.r.URL.Query()); err != nil {
		return err
	}
	r, err := a.Reports.Access(c.r.Context(), q)
	if err != nil {
		return err
	}
	return ok(c, r)
}

func (a auditDoor) reviewerReport(c *call) error {
	var q report.ReviewerQuery
	if err := (parameters{"since": day(&q.Since), "until": day(&q.Until), "zone": anyText(&q.Zone)}).read(c.r.URL.Query()); err != nil {
		return err
	}
	r, err := a.Reports.Reviewers(c.r.Context(), q)
	if err != nil {
		return err
	}
	return ok(c, r)
}

func (a auditDoor) claimReport(c *call) error {
	var q report.ClaimQuery
	if err := (parameters{"since": day(&q.Since), "until": day(&q.Until)}).read(c.r.URL.Query()); err != nil {
		return err
	}
	r, err := a.Reports.Claims(c.r.Context(), q)
	if err != nil {
		return err
	}
	return ok(c, r)
}

func (a auditDoor) reports(c *call) error { return ok(c, Reports{report.Lists()}) }

func (a auditDoor) listReport(c *call) error {
	name, format := c.r.PathValue("name"), "json"
	var q report.ListQuery
	err := (parameters{
		"since": day(&q.Since), "until": day(&q.Until), "format": oneOf(&format, "json", "csv"), "cursor": anyText(&q.Cursor), "limit": whole(&q.Limit, 1, report.MaxListPage),
		"person": anyText(&q.Person), "at_least": anyText(&q.AtLeast), "zone": anyText(&q.Zone),
	}).read(c.r.URL.Query())
	if err != nil {
		return err
	}
	by := access.Initiator{Actor: c.actor(), RequestID: RequestID(c.r.Context())}
	if format == "json" {
		page, err := a.Reports.List(c.r.Context(), name, q)
		if err == nil {
			err = a.Reports.Told(c.r.Context(), by, q, page, format)
		}
		if err != nil {
			return err
		}
		return ok(c, page)
	}
	if q.Cursor != "" || q.Limit != 0 {
		return badQuery("A CSV file is whole: leave out cursor and limit.")
	}
	out := download.New(c.w, "text/csv; charset=utf-8", report.FileName(name, q.Since, q.Until, "csv"))
	return out.End(a.Reports.ExportList(c.r.Context(), by, name, q, out, out.Flush))
}
