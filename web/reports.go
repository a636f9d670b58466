package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/report"
	"holdpoint/web/views"
)

// Reports is what the console needs for auditors; report.Reports is one. Errors are
// as Inbox's are.
type Reports interface {
	// Access says who can approve what, or could at a moment of the past.
	Access(ctx context.Context, q report.AccessQuery) (report.AccessReport, error)
	// Exported records that a person takes a file of a report.
	Exported(ctx context.Context, by access.Initiator, f report.File) error
	// Reviewers says what reviewers did in a period.
	Reviewers(ctx context.Context, q report.ReviewerQuery) (report.ReviewerReport, error)
	// Claims says whom agents named as their own side in a period.
	Claims(ctx context.Context, q report.ClaimQuery) (report.ClaimReport, error)
	// Statistics counts what happened in a period, and what waits.
	Statistics(ctx context.Context, since, until time.Time) (report.StatisticsReport, error)
	// List is a page of a report that is a list, by its name.
	List(ctx context.Context, name string, q report.ListQuery) (report.ListPage, error)
	// ExportList writes one as CSV, and records it. flush is called after every page.
	ExportList(ctx context.Context, by access.Initiator, name string, q report.ListQuery, w io.Writer, flush func() error) error
}

// reportHandler serves the reports for auditors.
type reportHandler struct {
	site    *site
	reports Reports
}

func (h *reportHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /audit/access", h.site.forAuditors(h.site.reports(h.access)))
	mux.HandleFunc("GET /audit/access.csv", h.site.forAuditors(h.site.reports(h.accessFile)))
	mux.HandleFunc("GET /audit/reviewers", h.site.forAuditors(h.site.reports(h.reviewers)))
	mux.HandleFunc("GET /audit/claims", h.site.forAuditors(h.site.reports(h.claims)))
	mux.HandleFunc("GET /audit/statistics", h.site.forAuditors(h.site.reports(h.statistics)))
	mux.HandleFunc("GET /audit/reports", h.site.forAuditors(h.overview))
	mux.HandleFunc("GET /audit/reports/{name}", h.site.forAuditors(h.site.reports(h.list)))
	mux.HandleFunc("POST /audit/reports/{name}/export", h.site.forAuditors(h.site.reports(h.listFile)))
}

// reportForm reads the period of a report. A day without a time as the end is in
// the period.
func reportForm(query url.Values) (form views.ReportForm, since, until time.Time, err error) {
	form = views.ReportForm{At: query.Get("at"), Since: query.Get("since"), Until: query.Get("until"), Zone: query.Get("zone")}
	if since, err = report.ParseTime(form.Since); err != nil {
		return form, since, until, err
	}
	until, err = report.ParseTime(form.Until)
	if err == nil && len(strings.TrimSpace(form.Until)) == len(time.DateOnly) {
		until = until.AddDate(0, 0, 1)
	}
	return form, since, until, err
}

// fillPeriod completes what the form shows: the period that the report is of.
func fillPeriod(f *views.ReportForm, since, until time.Time) {
	if f.Since == "" {
		f.Since = since.Format(time.DateOnly)
	}
	if f.Until == "" {
		f.Until = until.Add(-time.Microsecond).Format(time.DateOnly)
	}
}

// jsonURL is where a report is as JSON, of the same moment and period.
func jsonURL(path string, f views.ReportForm, since, until time.Time) string {
	q := url.Values{}
	for name, value := range map[string]string{"at": f.At, "zone": f.Zone, "person": f.Person, "at_least": f.AtLeast, "since": since.Format(time.RFC3339), "until": until.Format(time.RFC3339)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return "/v1" + path + "?" + q.Encode()
}

// rowsURL is where a report is row by row, of the same days.
func rowsURL(list string, f views.ReportForm) string {
	q := url.Values{"since": {f.Since}, "until": {f.Until}}
	if f.Zone != "" {
		q.Set("zone", f.Zone)
	}
	return "/audit/reports/" + list + "?" + q.Encode()
}

func (h *reportHandler) access(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	form, since, until, err := reportForm(r.URL.Query())
	v := views.AccessReport{Frame: h.site.frame(p, "Who can approve what", "audit"), Form: form}
	q := report.AccessQuery{Since: since, Until: until}
	if err == nil {
		q.At, err = report.ParseTime(form.At)
	}
	var found report.AccessReport
	if err == nil {
		found, err = h.reports.Access(r.Context(), q)
	}
	if detail, is := refused(err); is {
		v.Form.Failure = detail
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.AccessReportPage(v))
	}
	if err != nil {
		return err
	}
	v.Form.JSON = jsonURL("/audit/access", form, found.Since, found.Until)
	fillPeriod(&v.Form, found.Since, found.Until)
	if found.Past {
		v.Form.At = found.At.Format("2006-01-02T15:04:05")
	}
	accessView(&v, found)
	findPeople(&v, r.URL.Query())
	return h.site.render(w, r, http.StatusOK, views.AccessReportPage(v))
}

func accessView(v *views.AccessReport, r report.AccessReport) {
	v.Ready, v.At, v.Past, v.Sources, v.Gaps, v.Since, v.Until, v.More = true, r.At, r.Past, r.Sources, r.Gaps, r.Since, r.Until, r.More
	v.Nobody = true
	bare := map[string]bool{}
	add := func(a report.RoleAccess, means string) views.RoleAccess {
		row := roleRow(a, means)
		if a.Short {
			v.Short = append(v.Short, a.Role)
		}
		for _, h := range a.Holders {
			v.Nobody = false
			if len(h.Factors) == 0 && !bare[h.PersonID] {
				bare[h.PersonID] = true
				v.WithoutFactors = append(v.WithoutFactors, h.Name)
			}
		}
		return row
	}
	for _, a := range r.Roles {
		v.Roles = append(v.Roles, add(a, ""))
	}
	for _, a := range r.Powers {
		row := add(a, powerWords[a.Role])
		row.Anchor, row.Asked = "power-"+a.Role, nil
		v.Powers = append(v.Powers, row)
	}
	slices.Sort(v.WithoutFactors)
	for _, s := range r.Silent {
		v.Silent = append(v.Silent, views.SilentRow{Name: s.Name, Email: s.Email, Roles: s.Roles, LastSignIn: s.LastSignIn, CreatedAt: s.CreatedAt})
	}
	for _, g := range r.Grants {
		used := fmt.Sprintf("at most %d", g.MaxUses)
		if g.Uses != nil {
			used = fmt.Sprintf("%d of %d", *g.Uses, g.MaxUses)
		}
		v.Grants = append(v.Grants, views.GrantHeld{ID: g.ID, By: g.Person, Tool: g.Tool, Agent: g.AgentID, Used: used, MadeAt: g.CreatedAt, ExpiresAt: g.ExpiresAt})
	}
	for _, k := range r.Keys {
		v.Keys = append(v.Keys, views.KeyHeld{
			ID: k.ID, Kind: k.Kind, Agent: k.AgentID, Label: k.Label, MaxState: k.MaxState, Scopes: k.Scopes, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, LastUsedAt: k.LastUsedAt, Unsure: k.Unsure,
		})
	}
	for _, one := range r.Changes {
		v.Changes = append(v.Changes, views.ChangeRow{
			At: one.At, Code: one.Code, Message: one.Message, By: one.By, Channel: one.Channel, About: one.About, Detail: one.Detail, ID: one.EventID,
			ApprovalID: one.ApprovalID, Refused: one.Refused,
		})
	}
}

var powerWords = map[string]string{
	access.AdminRole:        "Changes agents, tools and limits, activates kill switches, and reads everything.",
	access.AuditorRole:      "Reads everything, and decides nothing by it.",
	approval.BreakGlassRole: "Two of them, or one alone whom somebody else reviews afterwards, approve in an emergency what they have not the role for.",
}

func roleRow(a report.RoleAccess, means string) views.RoleAccess {
	row := views.RoleAccess{Role: a.Role, Anchor: "role-" + a.Role, Needed: a.Needed, People: a.People, Short: a.Short, Means: means}
	for _, one := range a.Asked {
		row.Asked = append(row.Asked, roleDemandWords(one))
	}
	for _, h := range a.Holders {
		holder := views.HolderRow{Name: h.Name, Email: h.Email, Since: h.Since, Until: h.Until, Unsure: h.Unsure, LastSignIn: h.LastSignIn}
		switch h.How {
		case "on_call":
			holder.How = "on call"
		case "delegation":
			holder.How = "stands in for " + strings.Join(h.Via, ", who stands in for ")
		default:
			holder.How = "has it"
		}
		for _, f := range h.Factors {
			words := "authenticator app"
			if f.Kind == "passkey" {
				words = views.Plural(f.Count, "passkey", "passkeys")
			}
			holder.Factors = append(holder.Factors, views.FactorRow{Words: words, Since: f.Since})
		}
		row.Holders = append(row.Holders, holder)
	}
	return row
}

func roleDemandWords(a report.RoleAsked) string {
	what := map[string]string{
		"decides": "wants " + strconv.Itoa(a.Needed), "one_of": "wants " + strconv.Itoa(a.Needed) + ", or people of another group",
		"escalation": "escalates to it", "extends": "lets it give more time", "if_too_few": "asks it when agents’ claims leave too few",
	}[a.As]
	switch a.By {
	case "policy":
		return "The policy’s rule " + a.Name + " " + what + "."
	case "approvals":
		return "Approvals: " + a.Name + "; the most that one " + what + "."
	}
	if a.Name == "default" {
		return "Routing, for all other calls, " + what + "."
	}
	return "Routing, " + a.Name + ", " + what + "."
}

func (h *reportHandler) reviewers(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	form, since, until, err := reportForm(r.URL.Query())
	v := views.ReviewerReport{Frame: h.site.frame(p, "Reviewer activity", "audit"), Form: form, Thresholds: thresholds}
	v.Form.Periods = periods(h.site.clock().UTC(), "/audit/reviewers", form)
	var found report.ReviewerReport
	if err == nil {
		found, err = h.reports.Reviewers(r.Context(), report.ReviewerQuery{Since: since, Until: until, Zone: form.Zone})
	}
	if detail, is := refused(err); is {
		v.Form.Failure = detail
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.ReviewerReportPage(v))
	}
	if err != nil {
		return err
	}
	v.Form.JSON = jsonURL("/audit/reviewers", form, found.Since, found.Until)
	fillPeriod(&v.Form, found.Since, found.Until)
	v.Form.Rows = rowsURL(report.ReviewersList, v.Form)
	v.Ready, v.Since, v.Until, v.Zone = true, found.Since, found.Until, found.Zone
	v.Forgotten, v.ShiftsSince = found.ShiftsSince.After(found.Since), found.ShiftsSince
	for _, one := range found.Reviewers {
		v.Rows = append(v.Rows, loadRow(one))
	}
	v.Total = loadRow(found.Total)
	v.Total.Name = "All together"
	v.Total.Busiest = ""
	return h.site.render(w, r, http.StatusOK, views.ReviewerReportPage(v))
}

func (h *reportHandler) claims(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	form, since, until, err := reportForm(r.URL.Query())
	v := views.ClaimReport{Frame: h.site.frame(p, "Whom agents name as their side", "audit"), Form: form, From: report.SuddenFrom, Factor: report.SuddenTimes}
	v.Form.Periods = periods(h.site.clock().UTC(), "/audit/claims", form)
	var found report.ClaimReport
	if err == nil {
		found, err = h.reports.Claims(r.Context(), report.ClaimQuery{Since: since, Until: until})
	}
	if detail, is := refused(err); is {
		v.Form.Failure = detail
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.ClaimReportPage(v))
	}
	if err != nil {
		return err
	}
	v.Form.JSON = jsonURL("/audit/claims", form, found.Since, found.Until)
	fillPeriod(&v.Form, found.Since, found.Until)
	v.Form.Rows = rowsURL(report.ClaimsList, v.Form)
	v.Ready, v.Since, v.Until = true, found.Since, found.Until
	for _, a := range found.Agents {
		row := views.AgentClaims{Name: a.Name, ID: a.AgentID, Opened: a.Opened, Claimed: a.Claimed, Before: a.Before, Widened: a.Widened, Sudden: a.Sudden}
		for _, one := range a.People {
			row.People = append(row.People, views.ClaimedPerson{Name: one.Name, Times: one.Times, Before: one.Before, Sudden: one.Sudden})
		}
		v.Rows = append(v.Rows, row)
	}
	return h.site.render(w, r, http.StatusOK, views.ClaimReportPage(v))
}

// thresholds say what is noted, as the gate has it.
var thresholds = []string{
	fmt.Sprintf("Nothing is noted of anybody who decided fewer than %d.", report.NoteFrom),
	fmt.Sprintf("Quick votes: %d%% or more of those that could be timed, of at least %d, came within %d seconds.", report.QuickShare, report.NoteFrom, int(report.QuickVote.Seconds())),
	fmt.Sprintf("Always yes: %d%% or more were approved.", report.YesShare),
	fmt.Sprintf("Off hours: %d%% or more were decided at night or on a weekend.", report.OffHoursShare),
	fmt.Sprintf("Alone: %d%% or more were decided while nobody else was on call.", report.AloneShare),
	fmt.Sprintf("Busy day: %d or more were decided on one day.", report.BusyDay),
}

func loadRow(l report.ReviewerLoad) views.LoadRow {
	row := views.LoadRow{
		Name: l.Name, Email: l.Email, Disabled: l.Disabled, Decided: l.Decided, Approved: l.Approved, Denied: l.Denied, Share: "", Median: "–", P95: "–",
		Timed: l.Timed, Quick: l.Quick, Nights: l.Nights, Weekends: l.Weekends, Questions: l.Questions, OnCall: l.OnCall, Alone: l.AloneOnCall,
		ByGrant: l.ByGrant, AsDeputy: l.AsDeputy,
	}
	if l.ApprovedShare != nil {
		row.Share = fmt.Sprintf("%.0f%%", *l.ApprovedShare)
		row.Median, row.P95 = views.Elapsed(seconds(*l.MedianSeconds)), views.Elapsed(seconds(*l.P95Seconds))
	}
	if l.BusiestDecided > 1 {
		row.Busiest = fmt.Sprintf("busiest day: %d", l.BusiestDecided)
		if day, err := time.Parse(time.DateOnly, l.BusiestDay); err == nil {
			row.Busiest += " on " + views.Day(day)
		}
	}
	for _, n := range l.Notes {
		row.Notes = append(row.Notes, n.Text)
		switch n.Code {
		case "quick_votes":
			row.NotedQuick = true
		case "always_yes":
			row.NotedYes = true
		case "off_hours":
			row.NotedOffHours = true
		case "alone":
			row.NotedAlone = true
		case "busy_day":
			row.NotedBusy = true
		}
	}
	return row
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
