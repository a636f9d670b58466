package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/gate"
)

// TestSnooze: a call that is snoozed is out of one's own inbox, which says how many are,
// until it is brought back or its time has come; its card offers no time after its end.
func TestSnooze(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_1", "pay", `{"n":1}`, func(card *gate.Card) { card.Approval.Plan.ExpiresAt = epoch.Add(3 * time.Hour) })
	c.m.add("apr_2", "pay", `{"n":2}`, nil)
	card := c.get("/approvals/apr_1")
	card.want(t, http.StatusOK, `action="/approvals/apr_1/snooze"`, `<option value="1h">`)
	if strings.Contains(card.body, `<option value="72h">`) {
		t.Error("it can be snoozed past its end")
	}
	if near := c.get("/approvals/apr_2"); strings.Contains(near.body, "/snooze") {
		t.Error("a call with half an hour left can be snoozed")
	}
	c.do("POST", "/approvals/apr_1/snooze", url.Values{"for": {"soon"}}).want(t, http.StatusUnprocessableEntity)
	done := c.do("POST", "/approvals/apr_1/snooze", url.Values{"for": {"1h"}})
	if done.StatusCode != http.StatusSeeOther || done.Header.Get("Location") != "/" {
		t.Fatalf("%s to %s", done.Status, done.Header.Get("Location"))
	}
	inbox := c.get("/")
	inbox.want(t, http.StatusOK, "The call is snoozed", "1 call waits for you", "1 snoozed</a>", `href="/?snoozed=1"`)
	if strings.Contains(inbox.body, `data-row="apr_1"`) {
		t.Error("it is in the inbox")
	}
	c.get("/?snoozed=1").want(t, http.StatusOK, `data-row="apr_1"`, "1 call is snoozed")
	c.get("/approvals/apr_1").want(t, http.StatusOK, "You have snoozed it until", `data-testid="approve"`)
	c.do("POST", "/approvals/apr_1/unsnooze", url.Values{}).want(t, http.StatusSeeOther)
	c.get("/").want(t, http.StatusOK, "2 calls wait for you", `data-row="apr_1"`)
}
