package web

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

func overTime(g *gate.Card) { g.Approval.Plan.ExpiresAt = epoch }

func TestHistoryPages(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.get("/history").want(t, http.StatusOK, "Nothing has been decided yet")
	for i := range fakeHistoryPage + 5 {
		c.m.add("apr_"+string(rune('A'+i)), "payments.transfer", `{"amount": 5, "to": "DE89370400440532013000"}`, overTime)
	}
	rows := func(a answer) int { return strings.Count(a.body, `data-testid="history-row"`) }
	first := c.get("/history")
	first.want(t, http.StatusOK, "nobody decided in time", "did not run", "<strong>35 approvals</strong>", `data-testid="row-stakes"`)
	m := regexp.MustCompile(`href="(/history\?after=[^"]+)" rel="next"`).FindStringSubmatch(first.body)
	if m == nil || rows(first) != fakeHistoryPage {
		t.Fatalf("first page: next %q, %d rows", m, rows(first))
	}
	second := c.get(m[1])
	second.want(t, http.StatusOK, "Newest", "Newer")
	if rows(second) != 5 || strings.Contains(second.body, "Older") {
		t.Errorf("second page: %d rows", rows(second))
	}
}

// A search of the history is in its address: what is asked for is shown, what cannot be
// understood is said, and the ways on keep it.
func TestHistorySearch(t *testing.T) {
	c := start(t, nil).signIn("grace@example.com")
	for i := range fakeHistoryPage + 1 {
		c.m.add("apr_"+string(rune('A'+i)), "payments.transfer", `{}`, overTime)
	}
	c.m.add("apr_z", "mail.send", `{}`, func(g *gate.Card) {
		g.Approval.Facts = []approval.Fact{{
			Seq: 1, At: epoch, Kind: approval.Vote, Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_grace"}, Voter: c.m.voter(c.m.people["grace@example.com"]),
		}}
	})
	c.get("/history?outcome=expired&tool=payments.transfer").want(t, http.StatusOK, "31 approvals", "expired: nobody decided in time</strong>", `href="/history?outcome=expired"`,
		`&amp;outcome=expired&amp;tool=payments.transfer" rel="next"`)
	mine := c.get("/history?by=me")
	mine.want(t, http.StatusOK, "1 approval<", "denied by Grace Hopper", `href="/history?by=me" aria-current`, "<strong>me</strong>")
	if strings.Contains(mine.body, "payments.transfer") {
		t.Error("what others have decided is mine")
	}
	c.m.add("apr_y", "files.read", `{}`, func(g *gate.Card) {
		g.Approval.Plan.ExpiresAt = epoch
		g.Approval.Facts = []approval.Fact{
			{Seq: 1, At: epoch, Kind: approval.Question, Comment: "Whose file\nis it?", Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_grace"}},
			{Seq: 2, At: epoch, Kind: approval.Comment, Comment: "I do not know.", Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_ada"}},
		}
	})
	part := c.get("/history?part=me")
	part.want(t, http.StatusOK, "2 approvals<", "mail.send", "You asked</span> <q>Whose file is it?</q>", `href="/history?part=me" aria-current`, `href="/history?by=me"`)
	if strings.Contains(part.body, "I do not know") {
		t.Error("what somebody else has written is the reader's")
	}
	c.get("/history?part=you").want(t, http.StatusBadRequest, "Took part cannot be")
	c.get("/history?tool=none").want(t, http.StatusOK, "No approval fits this search")
	for query, want := range map[string]string{
		"since=yesterday": "Ended from is no day", "until=2026-13-01": "Ended to is no day", "outcome=good": "Outcome cannot be", "tool=a&tool=b": "more than once",
		"since=2026-11-02&until=2026-11-01": "ends before it begins", "q=%00": "cannot be read", "since=10000-01-01": "no day", "q=%zz": "cannot be read",
		"q=" + strings.Repeat("x", 201): "too long", "q=1+2+3+4+5+6+7+8+9": "up to 8 words",
	} {
		c.get("/history?"+query).want(t, http.StatusBadRequest, want)
	}
}

// The file has what the page has found; who may not have it is told, in a page.
func TestHistoryExport(t *testing.T) {
	c := start(t, nil).signIn("aude@example.com")
	c.m.add("apr_a", "payments.transfer", `{}`, overTime)
	c.m.add("apr_b", "mail.send", `{}`, overTime)
	c.get("/history?tool=mail.send").want(t, http.StatusOK, `data-testid="history-export"`, `name="query" value="tool=mail.send"`)
	file := c.do("POST", "/history/export", url.Values{"query": {"tool=mail.send"}})
	file.want(t, http.StatusOK, "for usr_aude\napr_b\n")
	if strings.Contains(file.body, "apr_a") || file.Header.Get("Content-Disposition") != `attachment; filename="holdpoint-history.csv"` {
		t.Errorf("%q, %v", file.body, file.Header)
	}
	c.do("POST", "/history/export", url.Values{"query": {"since=never"}}).want(t, http.StatusBadRequest, "is no day")
	c.m.broken = &access.Refusal{Kind: access.Invalid, Code: "no_such_person", Detail: "There is nobody of that id."}
	c.do("POST", "/history/export", url.Values{"query": {"by=nosuch"}}).want(t, http.StatusUnprocessableEntity, "There is nobody of that id.", `name="by" value="nosuch"`)
	c.get("/history?by=nosuch").want(t, http.StatusUnprocessableEntity, "There is nobody of that id.", `name="by" value="nosuch"`)
	c.m.broken = errors.New("no database")
	if a := c.do("POST", "/history/export", url.Values{"query": {""}}); a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Content-Disposition") != "" {
		t.Errorf("%d, %v", a.StatusCode, a.Header)
	}
	c = start(t, nil).signIn("ada@example.com")
	if strings.Contains(c.get("/history").body, "Export") {
		t.Error("somebody is offered what they may not have")
	}
	c.do("POST", "/history/export", url.Values{"query": {""}}).want(t, http.StatusForbidden, "exported by auditors and administrators")
}
