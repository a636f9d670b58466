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
	inbox.want(t, http.StatusOK, `action="/inbox/unsnooze"`, `name="id" value="apr_1"`, `data-testid="undo"`)
	c.get("/").lacks(t, `data-testid="undo"`) // it is said once
	c.get("/?snoozed=1").want(t, http.StatusOK, `data-row="apr_1"`, "1 call is snoozed", "Snoozed until", `action="/inbox/unsnooze?snoozed=1"`, `data-testid="bring-back"`)
	c.get("/approvals/apr_1").want(t, http.StatusOK, "You have snoozed it until", `data-testid="approve"`)
	c.do("POST", "/approvals/apr_1/unsnooze", url.Values{}).want(t, http.StatusSeeOther)
	c.get("/").want(t, http.StatusOK, "2 calls wait for you", `data-row="apr_1"`)
}

// TestSnoozeSeveral: what is ticked is snoozed and brought back together, in the search in
// which it was ticked; what is due before stays.
func TestSnoozeSeveral(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	for id, left := range map[string]time.Duration{"apr_1": 3 * time.Hour, "apr_2": 3 * time.Hour, "apr_3": 30 * time.Minute} {
		c.m.add(id, "pay", `{"n":1}`, func(card *gate.Card) { card.Approval.Plan.ExpiresAt = epoch.Add(left) })
	}
	c.get("/?tool=pay").want(t, http.StatusOK, `formaction="/inbox/snooze?tool=pay"`, `name="for" value="1h"`)
	for name, form := range map[string]url.Values{"nothing ticked": {"for": {"1h"}}, "no time": {"id": {"apr_1"}}, "too long": {"id": {"apr_1"}, "for": {"1000h"}}, "due before": {"id": {"apr_3"}, "for": {"1h"}}} {
		if got := c.do("POST", "/inbox/snooze", form); got.StatusCode < 400 || got.StatusCode > 499 {
			t.Errorf("%s: %s", name, got.Status)
		}
	}
	done := c.do("POST", "/inbox/snooze?tool=pay", url.Values{"id": {"apr_1", "apr_2", "apr_3"}, "for": {"1h"}})
	if done.StatusCode != http.StatusSeeOther || done.Header.Get("Location") != "/?tool=pay" {
		t.Fatalf("%s to %s", done.Status, done.Header.Get("Location"))
	}
	some := c.get("/?tool=pay")
	some.want(t, http.StatusOK, "What could be is snoozed", `data-row="apr_3"`, "2 snoozed</a>", `action="/inbox/unsnooze?tool=pay"`, `<input type="hidden" name="id" value="apr_1">`, `<input type="hidden" name="id" value="apr_2">`, `data-testid="undo"`)
	some.lacks(t, `<input type="hidden" name="id" value="apr_3">`)
	snoozed := c.get("/?snoozed=1")
	snoozed.want(t, http.StatusOK, `data-row="apr_1"`, `data-row="apr_2"`, `formaction="/inbox/unsnooze?snoozed=1"`)
	if strings.Contains(snoozed.body, "/inbox/snooze") {
		t.Error("what is snoozed can be snoozed")
	}
	c.do("POST", "/inbox/unsnooze", url.Values{"id": {"apr_1", "apr_2"}}).want(t, http.StatusSeeOther)
	back := c.get("/")
	back.want(t, http.StatusOK, "The calls are in your inbox again", "3 calls wait for you")
	back.lacks(t, `data-testid="undo"`)
	c.get("/?snoozed=1").want(t, http.StatusOK, "Nothing is snoozed", "Back to the inbox")
}
