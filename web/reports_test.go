package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/report"
)

// reports is a Reports that tells what it was given. What is in a report is the
// gate's, and tested there.
type reports struct {
	access    report.AccessReport
	reviewers report.ReviewerReport
	asked     []report.AccessQuery
	loads     []report.ReviewerQuery
	claims    report.ClaimReport
	claimed   []report.ClaimQuery
	counted   report.StatisticsReport
	files     []report.File
	list      report.ListPage
	listed    []report.ListQuery
	broken    error
}

func (r *reports) Exported(_ context.Context, _ access.Initiator, f report.File) error {
	r.files = append(r.files, f)
	return r.broken
}

func (r *reports) Statistics(_ context.Context, since, until time.Time) (report.StatisticsReport, error) {
	answer := r.counted
	if answer.Since, answer.Until = since, until; until.IsZero() {
		answer.Since, answer.Until = epoch.AddDate(0, 0, -30), epoch
	}
	return answer, r.broken
}

func (r *reports) Access(_ context.Context, q report.AccessQuery) (report.AccessReport, error) {
	r.asked = append(r.asked, q)
	answer := r.access
	answer.Since, answer.Until = q.Since, q.Until
	if answer.Until.IsZero() {
		answer.Since, answer.Until = epoch.AddDate(0, 0, -30), epoch
	}
	if answer.At, answer.Past = epoch, !q.At.IsZero(); answer.Past {
		answer.At = q.At
	}
	return answer, r.broken
}

func (r *reports) Reviewers(_ context.Context, q report.ReviewerQuery) (report.ReviewerReport, error) {
	r.loads = append(r.loads, q)
	answer := r.reviewers
	answer.Since, answer.Until, answer.Zone = q.Since, q.Until, q.Zone
	answer.Zone = cmp.Or(answer.Zone, "UTC")
	if answer.Until.IsZero() {
		answer.Since, answer.Until = epoch.AddDate(0, 0, -30), epoch
	}
	answer.ShiftsSince = answer.Since
	return answer, r.broken
}

func (r *reports) Claims(_ context.Context, q report.ClaimQuery) (report.ClaimReport, error) {
	r.claimed = append(r.claimed, q)
	answer := r.claims
	answer.Since, answer.Until = q.Since, q.Until
	if answer.Until.IsZero() {
		answer.Since, answer.Until = epoch.AddDate(0, 0, -30), epoch
	}
	return answer, r.broken
}

func (r *reports) List(_ context.Context, name string, q report.ListQuery) (report.ListPage, error) {
	r.listed = append(r.listed, q)
	l, ok := report.FindList(name)
	if !ok {
		return report.ListPage{}, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such report."}
	}
	page := r.list
	page.List, page.Since, page.Until = l, q.Since, q.Until
	if page.Until.IsZero() {
		page.Since, page.Until = epoch.AddDate(0, 0, -30), epoch
	}
	return page, r.broken
}

func (r *reports) ExportList(ctx context.Context, by access.Initiator, name string, q report.ListQuery, w io.Writer, flush func() error) error {
	page, err := r.List(ctx, name, q)
	if err != nil {
		return err
	}
	r.files = append(r.files, report.File{As: report.ListFile, Role: name, At: page.Until, Rows: len(page.Rows)})
	_, err = io.WriteString(w, "time,act\n")
	return errors.Join(err, flush())
}

func onDay(days int, clock time.Duration) *time.Time {
	t := epoch.Truncate(24*time.Hour).AddDate(0, 0, days).Add(clock)
	return &t
}

// sampleReports is a company's.
func sampleReports() *reports {
	passkeys := []report.HeldFactor{{Kind: "passkey", Count: 2, Since: onDay(-300, 9*time.Hour)}, {Kind: "totp", Count: 1, Since: onDay(-310, 9*time.Hour)}}
	ada := report.RoleHolder{PersonID: "usr_ada", Name: "Ada Lovelace", Email: "ada@example.com", Identity: "ada", How: "direct", Since: onDay(-310, 8*time.Hour), Factors: passkeys, LastSignIn: onDay(0, 8*time.Hour)}
	grace := report.RoleHolder{PersonID: "usr_grace", Name: "Grace Hopper", Email: "grace@example.com", Identity: "grace", How: "on_call", Since: onDay(0, 8*time.Hour), Until: onDay(7, 8*time.Hour), Factors: []report.HeldFactor{}, LastSignIn: onDay(-2, 15*time.Hour)}
	kay := report.RoleHolder{PersonID: "usr_kay", Name: "Katherine Johnson-Goble <b>", Email: "katherine.johnson-goble@treasury.example.com", Identity: "kay", How: "delegation", Via: []string{"Linus", "Ada Lovelace"}, Since: onDay(-1, 0), Until: onDay(13, 0), Factors: passkeys[1:]}
	unsure := ada
	unsure.Since, unsure.Unsure = nil, "The log does not say since when."
	used := 3
	share, all, median, tail := 87.5, 100.0, 312.0, 7384.0
	quick, slow := 6.2, 14.0
	row := func(name, email string, decided, approved int, share, median, tail *float64) report.ReviewerLoad {
		return report.ReviewerLoad{
			PersonID: "usr_" + name, Name: name, Email: email, Decided: decided, Approved: approved, Denied: decided - approved, ApprovedShare: share, MedianSeconds: median, P95Seconds: tail,
			Timed: decided - 1, Quick: 2, Nights: 1, Weekends: 4, OffHours: 5, Questions: 6, OnCall: 20, AloneOnCall: 3, ByGrant: 11, AsDeputy: 2, BusiestDay: "2026-11-12", BusiestDecided: 9, Notes: []report.LoadNote{},
		}
	}
	tired := row("Linus Torvalds-Benedict", "linus@example.com", 1240, 1240, &all, &quick, &slow)
	tired.Quick, tired.BusiestDecided = 900, 212
	tired.Notes = []report.LoadNote{
		{Code: "quick_votes", Text: "73% of the votes came within 5 seconds of seeing the card: too soon to have read it."},
		{Code: "always_yes", Text: "1240 of 1240 were approved: either what is asked needs no person, or nobody looks."},
		{Code: "busy_day", Text: "212 were decided on one day, 2026-11-12."},
	}
	gone := report.ReviewerLoad{PersonID: "usr_old", Name: "usr_old", Disabled: true, Questions: 1, Notes: []report.LoadNote{}}
	return &reports{
		access: report.AccessReport{
			Now: epoch, Sources: []string{"Accounts, their roles and second factors are those of the database; since when somebody has a role is what the log says."},
			Gaps: []string{"The log does not say who added Ada Lovelace (ada@example.com), or with which roles."},
			Roles: []report.RoleAccess{
				{Role: "finance-approver", Needed: 3, People: 2, Short: true, Holders: []report.RoleHolder{ada, grace, kay}, Asked: []report.RoleAsked{
					{By: "policy", Name: "big-payment", As: "decides", Needed: 3}, {By: "routing", Name: "rules[0]", As: "escalation", Needed: 1}, {By: "approvals", Name: "2 wait", As: "one_of", Needed: 1}, {By: "routing", Name: "default", As: "extends", Needed: 1},
				}},
				{Role: "on-call/payments", Needed: 1, People: 1, Holders: []report.RoleHolder{grace}, Asked: []report.RoleAsked{{By: "routing", Name: "default", As: "decides", Needed: 1}}},
			},
			Powers: []report.RoleAccess{
				{Role: "admin", People: 1, Holders: []report.RoleHolder{unsure}}, {Role: "auditor", Holders: []report.RoleHolder{}}, {Role: "break-glass", People: 1, Holders: []report.RoleHolder{ada}},
			},
			Silent: []report.SilentPerson{{PersonID: "usr_kay", Name: "Katherine Johnson", Email: "kay@example.com", Roles: []string{"finance-approver"}, LastSignIn: onDay(-120, 0), CreatedAt: *onDay(-300, 0)}},
			Grants: []report.HeldGrant{{ID: "gra_1", Person: "Ada Lovelace", PersonID: "usr_ada", AgentID: "agt_billing", Tool: "send_email", Uses: &used, MaxUses: 10, CreatedAt: *onDay(-1, 0), ExpiresAt: *onDay(2, 0)}},
			Keys: []report.HeldKey{
				{ID: "key_export", Kind: "admin", Label: "nightly export", Scopes: []string{"audit"}, MaxState: "none", CreatedAt: *onDay(-30, 0), ExpiresAt: onDay(300, 0)},
				{ID: "key_billing", Kind: "agent", AgentID: "agt_billing", Scopes: []string{"check", "approvals", "redeem"}, MaxState: "authenticated", CreatedAt: *onDay(-200, 0), Unsure: "The log does not say what it was for then; this is what it is for today."},
			},
			Changes: []report.AccessChange{
				{EventID: "e1", At: *onDay(-1, 9*time.Hour), Code: "ON_CALL_SET", Message: "Who is on call was changed.", By: "key_pager", Channel: "api", About: "on-call/payments", Detail: "Grace Hopper, from 21 Nov 2026, 08:00:00 UTC until 28 Nov 2026, 08:00:00 UTC"},
				{EventID: "e2", At: *onDay(-3, 9*time.Hour), Code: "USER_ADDED", Message: "A person was added.", By: "root", Channel: "cli", About: "Katherine \u202eJohnson", Detail: "roles: none → finance-approver"},
				{EventID: "e3", At: *onDay(-4, 9*time.Hour), Code: "not_yours", Message: "Only an administrator can say who decides in somebody else's place.", By: "Linus", Channel: "console", Refused: true, ApprovalID: "apr_transfer"},
			}, More: true,
		},
		reviewers: report.ReviewerReport{
			Now:       epoch,
			Reviewers: []report.ReviewerLoad{tired, row("Ada Lovelace", "ada@example.com", 48, 42, &share, &median, &tail), gone},
			Total:     row("", "", 1288, 1282, &share, &quick, &tail),
		},
		claims: report.ClaimReport{Agents: []report.AgentClaims{
			{AgentID: "agt_billing", Name: "billing <b>", Opened: 1200, Claimed: 14, Before: 2, Widened: 3, Sudden: true, People: []report.ClaimedPerson{
				{Identity: "ada", Name: "Ada Lovelace", Times: 13, Sudden: true}, {Identity: "grace", Name: "Grace \u202eHopper", Times: 1, Before: 2},
			}},
			{AgentID: "agt_desk", Name: "agt_desk", Opened: 3, Claimed: 1, Before: 1, People: []report.ClaimedPerson{{Identity: "ada", Name: "Ada Lovelace", Times: 1, Before: 1}}},
		}},
	}
}

func startReports(t *testing.T) (*client, *reports) {
	t.Helper()
	r := sampleReports()
	return start(t, func(cfg *Config) { cfg.Reports = r }), r
}

func TestWhoMayOpenReports(t *testing.T) {
	paths := []string{"/audit/access", "/audit/reviewers", "/audit/claims", "/audit/reports", "/audit/reports/roles"}
	for email, may := range map[string]bool{"ada@example.com": false, "aude@example.com": true, "olga@example.com": true} {
		c, r := startReports(t)
		for _, path := range paths {
			if to := c.get(path).Header.Get("Location"); to != "/login?next="+url.QueryEscape(path) {
				t.Errorf("%s without a session leads to %q", path, to)
			}
		}
		c.signIn(email)
		for _, path := range paths {
			if a := c.get(path); (a.StatusCode == http.StatusOK) != may || !may && a.StatusCode != http.StatusForbidden {
				t.Errorf("%s for %s: %s", path, email, a.Status)
			}
		}
		if asked := len(r.asked) + len(r.loads) + len(r.claimed) + len(r.listed); (asked > 0) != may {
			t.Errorf("%s: %d reports were made", email, asked)
		}
	}
	c := start(t, nil).signIn("aude@example.com")
	c.get("/audit/access").want(t, http.StatusNotFound)
}

func TestAccessReportPage(t *testing.T) {
	c, r := startReports(t)
	page := c.signIn("aude@example.com").get("/audit/access")
	page.want(t, http.StatusOK, `data-testid="short"`, "Katherine Johnson-Goble &lt;b&gt;", "<caption", `scope="col"`, `scope="row"`, `href="/audit/reviewers"`, `href="#role-finance-approver"`,
		`data-utc`, "15 Jan 2026, 08:00:00 UTC", "RIGHT-TO-LEFT OVERRIDE", `href="/approvals/apr_transfer"`, `name="since" value="2026-10-22"`, `name="until" value="2026-11-21"`, `name="at" value=""`)
	text := strip(page.body)
	for _, want := range []string{
		"Too few: 3 needed, 2 there", "1 role has fewer people than something needs: finance-approver", "1 person with a say has no second factor: Grace Hopper",
		"stands in for Linus, who stands in for Ada Lovelace", "on call until 28 Nov 2026, 08:00:00 UTC", "2 passkeys since 25 Jan 2026, 09:00:00 UTC", "The policy’s rule big-payment wants 3.",
		"Routing, for all other calls, lets it give more time.", "Approvals: 2 wait; the most that one wants 1, or people of another group.", "The log does not say since when.", "Nobody has it.",
		"3 of 10", "nightly export", "what it is for today", "roles: none → finance-approver", "refused", "There are more in this period", "The log does not say who added Ada Lovelace", "As it is now, 21 Nov 2026, 10:00:00 UTC",
		"GET /v1/audit/access?since=2026-10-22T10%3A00%3A00Z&until=2026-11-21T10%3A00%3A00Z",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(page.body, "Goble <b>") {
		t.Error("a name is markup")
	}
	if strings.Count(page.body, "<table") != strings.Count(page.body, "<caption") {
		t.Error("a table has no caption")
	}
	past := c.get("/audit/access?at=2026-11-02T10:30&since=2026-11-01&until=2026-11-05")
	past.want(t, http.StatusOK, "As it was at", `name="at" value="2026-11-02T10:30:00"`, `name="until" value="2026-11-05"`)
	got := r.asked[len(r.asked)-1]
	want := report.AccessQuery{At: time.Date(2026, 11, 2, 10, 30, 0, 0, time.UTC), Since: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 6, 0, 0, 0, 0, time.UTC)}
	if got != want {
		t.Errorf("asked for %+v, want %+v", got, want)
	}
	r.access.Roles, r.access.Gaps, r.access.Silent, r.access.Grants, r.access.Keys, r.access.Changes, r.access.Powers = nil, nil, nil, nil, nil, nil, nil
	none := c.get("/audit/access")
	none.want(t, http.StatusOK, "Nothing asks for a role.", "There are none.", "Nothing changed in this period.", "The log explains every account", "Nobody is known to have a say")
	for _, praise := range []string{"Every role has", "Everybody with a say"} {
		if strings.Contains(none.body, praise) {
			t.Errorf("of nobody the page says %q", praise)
		}
	}
}

func TestReportsThatThereAreNone(t *testing.T) {
	c, r := startReports(t)
	c.signIn("aude@example.com")
	c.get("/audit/access?at=tomorrow").want(t, http.StatusUnprocessableEntity, "Write a time such as", `value="tomorrow"`, `data-testid="report-form"`)
	c.get("/audit/reviewers?since=x").want(t, http.StatusUnprocessableEntity, "Write a time such as")
	if len(r.asked)+len(r.loads) > 0 {
		t.Error("a report was made of a time that there is not")
	}
	r.broken = &access.Refusal{Kind: access.Invalid, Code: "zone", Detail: "There is no such time zone."}
	c.get("/audit/reviewers?zone=%3Cb%3E").want(t, http.StatusUnprocessableEntity, "There is no such time zone.", `value="&lt;b&gt;"`)
	r.broken = context.DeadlineExceeded
	c.get("/audit/access").want(t, http.StatusServiceUnavailable)
}

func TestReviewerReportPage(t *testing.T) {
	c, r := startReports(t)
	page := c.signIn("olga@example.com").get("/audit/reviewers?zone=Europe/Berlin&since=2026-11-01&until=2026-11-05")
	page.want(t, http.StatusOK, `href="/audit/reports/reviewers?since=2026-11-01&amp;until=2026-11-05&amp;zone=Europe%2FBerlin"`, "<caption", `href="/audit/access"`, `value="Europe/Berlin"`)
	text := strip(page.body)
	for _, want := range []string{
		"Linus Torvalds-Benedict : 73% of the votes came within 5 seconds", "5 min 12 s", "2 h 03 min", "900 of 1239", "88%", "account disabled", "All together", "not known",
		"weekends Saturday and Sunday, in Europe/Berlin", "fewer than 20", "busiest day: 212 on 12 Nov 2026", "3 of 20", "2 in somebody else’s place",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q:\n%s", want, text)
		}
	}
	if len(r.loads) != 1 || r.loads[0].Zone != "Europe/Berlin" {
		t.Errorf("asked for %+v", r.loads)
	}
	r.reviewers = report.ReviewerReport{Total: report.ReviewerLoad{}}
	c.get("/audit/reviewers").want(t, http.StatusOK, `data-testid="no-votes"`, "Nobody decided anything")
}

func TestClaimReport(t *testing.T) {
	c, r := startReports(t)
	page := c.signIn("olga@example.com").get("/audit/claims?since=2026-11-01&until=2026-11-05")
	page.want(t, http.StatusOK, `href="/audit/reports/claims?since=2026-11-01&amp;until=2026-11-05"`, `data-testid="claims"`, "billing &lt;b&gt;", "1,200", "Ada Lovelace", ": 13, before 0", `href="/audit/access"`, `href="/audit/claims" aria-current`,
		"GET /v1/audit/claims?since=2026-11-01T00%3A00%3A00Z&amp;until=2026-11-06T00%3A00%3A00Z")
	if n := strings.Count(page.body, `data-testid="sudden"`); n != 1 {
		t.Errorf("%d agents stand out, want one", n)
	}
	if strings.Contains(page.body, "\u202e") {
		t.Error("a name turns the text around")
	}
	c.get("/audit/claims?since=x").want(t, http.StatusUnprocessableEntity, "Write a time such as")
	r.claims = report.ClaimReport{}
	c.get("/audit/claims").want(t, http.StatusOK, `data-testid="no-claims"`)
}
