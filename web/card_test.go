package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/gate"
)

// inOrder fails the test where the page does not have the texts one after the other.
func (a answer) inOrder(t *testing.T, texts ...string) {
	t.Helper()
	var at []int
	for _, text := range texts {
		at = append(at, strings.Index(a.body, text))
	}
	if !slices.IsSorted(at) || at[0] < 0 {
		t.Errorf("%q are at %v", texts, at)
	}
}

// TestOrderOfACard: what the call does, what it is in full, why it was held, and
// what the agent says of it. What leads to the decision is there for those who may decide.
func TestOrderOfACard(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_1", "refund_payment", `{"amount":1,"to":"Ann"}`, func(c *gate.Card) { c.Former = []byte(`{"amount":2,"to":"Ann"}`) })
	card := c.get("/approvals/apr_1")
	card.want(t, http.StatusOK)
	card.inOrder(t, `class="seen"`, `data-testid="stakes"`, `data-testid="what-changed"`, `data-testid="args"`, "Why it was held", "What you are deciding on", `data-testid="decide-bar"`, `data-testid="approve"`)
	if seen := c.m.seen[0]; strings.Contains(seen, "decide-bar") || !strings.Contains(seen, "what-changed") {
		t.Errorf("what is kept as shown is %s", seen)
	}
	c.m.add("apr_long", "run", `{"text":"`+strings.Repeat(`line\n`, 200)+`"}`, func(c *gate.Card) { c.Long = true })
	c.get("/approvals/apr_long").inOrder(t, `data-testid="decide-bar"`, `<a class="alone button" href="/approvals/apr_long?full=1" data-testid="bar-full">Show everything</a>`, `href="#decide"`, `id="decide"`)
	c.do("POST", "/logout", nil, "Sec-Fetch-Site", "same-origin")
	if c.signIn("linus@example.com"); strings.Contains(c.get("/approvals/apr_1").body, "decide-bar") {
		t.Error("somebody who may not decide is led to a decision")
	}
}

// TestSecretsAreRevealed: what looks like a secret is nowhere on the page before somebody
// asks for it by a form; nothing is on record as shown before, and nothing is approved. A
// no takes no look.
func TestSecretsAreRevealed(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_1", "set_config", `{"api_key":"sk_live_4eC39HqLyjWDarjtT1zdp7dcXb2","service":"checkout"}`, func(c *gate.Card) {
		c.Former = []byte(`{"api_key":"old-secret-value","service":"shop"}`)
		c.Document = []byte(`{"user_intent":"use ghp_16C7e42F292c6912E7710c838347Ae178B4a"}`)
	})
	secrets := []string{"4eC39HqLyjWDarjtT1zdp7dcXb2", "old-secret-value", "ghp_16C7"}
	hidden := func(p answer) {
		t.Helper()
		for _, secret := range secrets {
			if strings.Contains(p.body, secret) {
				t.Errorf("%q is on the page", secret)
			}
		}
	}
	for _, path := range []string{"/approvals/apr_1", "/approvals/apr_1?full=1"} {
		page := c.get(path)
		page.want(t, http.StatusOK, "Masked: api_key", `data-testid="reveal"`, "••••••••", "checkout", `data-mode="blocked"`, "Arguments, with secrets masked")
		hidden(page)
	}
	if len(c.m.seen) != 0 {
		t.Errorf("a masked card is on record as shown: %q", c.m.seen)
	}
	c.get("/approvals/apr_1/arguments").want(t, http.StatusConflict)
	c.get("/approvals/apr_1/edit").want(t, http.StatusConflict)
	form := func(decision string) url.Values {
		return url.Values{"digest": {c.m.cards["apr_1"].Approval.Call.Digest}, "version": {"1"}, "decision": {decision}, "kind": {"never"}, "writer": {"usr_ada"}}
	}
	c.do("POST", "/approvals/apr_1/votes", form("approve")).want(t, http.StatusConflict)
	c.get("/approvals/apr_1/reveal").want(t, http.StatusNotFound)
	c.do("POST", "/approvals/apr_1/reveal", url.Values{"writer": {"usr_ada"}}, "Sec-Fetch-Site", "cross-site").want(t, http.StatusForbidden)
	revealed := c.do("POST", "/approvals/apr_1/reveal", url.Values{"writer": {"usr_ada"}})
	revealed.want(t, http.StatusOK, append(secrets, "Revealed: api_key", `data-mode="both"`, "Exact arguments", `data-here="/approvals/apr_1"`)...)
	if len(c.m.seen) != 1 || !strings.Contains(c.m.seen[0], secrets[0]) {
		t.Errorf("on record as shown: %q", c.m.seen)
	}
	again := c.get("/approvals/apr_1")
	again.want(t, http.StatusOK, "Masked: api_key", `data-mode="both"`)
	hidden(again)
	c.do("POST", "/approvals/apr_1/votes", form("approve")).want(t, http.StatusSeeOther)
	c.do("POST", "/logout", nil, "Sec-Fetch-Site", "same-origin")
	c.signIn("grace@example.com")
	deny := form("deny")
	deny.Set("writer", "usr_grace")
	c.do("POST", "/approvals/apr_1/votes", deny).want(t, http.StatusSeeOther)
}

// TestASessionMasksSecrets: what looks like a secret is approved on its own card.
func TestASessionMasksSecrets(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	for _, id := range []string{"apr_1", "apr_2"} {
		c.m.add(id, "set_config", `{"password":"`+id+`-hunter2"}`, func(c *gate.Card) { c.Approval.Session = "s1" })
	}
	page := c.get("/sessions/agt_billing/s1")
	page.want(t, http.StatusOK, "masked: approve it on its own card", "••••••••")
	if strings.Contains(page.body, "hunter2") || len(c.m.seen) != 0 {
		t.Errorf("a session shows secrets; %d cards are on record", len(c.m.seen))
	}
}

// TestACallThatCannotBeRead: its card says so and takes a no, and no yes.
func TestACallThatCannotBeRead(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	card := c.m.add("apr_1", "pay", `{}`, func(c *gate.Card) { c.Approval.Session = "s1"; c.Session = 2 })
	card.Arguments, card.Unreadable, card.Stakes = nil, true, gate.Stakes{}
	c.m.add("apr_2", "pay", `{"to":"Ann"}`, func(c *gate.Card) { c.Approval.Session = "s1" })
	page := c.get("/approvals/apr_1")
	page.want(t, http.StatusOK, `data-testid="unreadable"`, "cannot be decrypted", `data-testid="deny"`, "nobody can approve it", "Whoever runs this installation")
	for _, bad := range []string{`data-testid="approve"`, "have been erased", "/approvals/apr_1/edit", "/approvals/apr_1/grant", `data-testid="stakes"`, "arguments/"} {
		if strings.Contains(page.body, bad) {
			t.Errorf("%s is on the page", bad)
		}
	}
	if len(c.m.seen) != 0 {
		t.Error("it is on record as shown")
	}
	c.get("/sessions/agt_billing/s1").want(t, http.StatusOK, "This call cannot be read", "Ann")
	c.do("POST", "/approvals/apr_1/votes", url.Values{"digest": {card.Approval.Call.Digest}, "version": {"1"}, "decision": {"deny"}, "kind": {"never"}, "writer": {"usr_ada"}}).want(t, http.StatusSeeOther)
	c.get("/approvals/apr_1").want(t, http.StatusOK, "This call cannot be read")
}

// TestACardComparesWithTheLastOneLikeIt: field by field, folded, and outside of what is
// kept as shown. However much differs, the page is bounded.
func TestACardComparesWithTheLastOneLikeIt(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	last := &gate.SimilarCall{ID: "apr_0", At: epoch, Arguments: []byte(`{"amount":5,"key":"••••••••","to":"Ann"}`)}
	c.m.add("apr_1", "refund_payment", `{"amount":7,"key":"x","to":"Ann"}`, func(c *gate.Card) { c.LastAlike = last; c.Alike.Approved = 3 })
	page := c.get("/approvals/apr_1")
	page.want(t, http.StatusOK, `data-testid="last-alike"`, "2 differences to the last approved call like it", `href="/approvals/apr_0"`, "Approved then", "Masked values are not compared", `href="#last-alike"`)
	if strings.Contains(c.m.seen[0], "last-alike") {
		t.Error("it is in what is kept as shown")
	}
	c.m.add("apr_2", "refund_payment", `{"amount":5,"to":"Ann"}`, func(c *gate.Card) {
		c.LastAlike = &gate.SimilarCall{ID: "apr_0", At: epoch, Arguments: []byte(`{"amount":5,"to":"Ann"}`)}
	})
	c.get("/approvals/apr_2").want(t, http.StatusOK, "The same arguments as in the last approved call like it")
	c.m.add("apr_4", "refund_payment", `{"amount":5,"password":"new"}`, func(c *gate.Card) {
		c.Masked = &gate.Masked{Arguments: []byte(`{"amount":5,"password":"••••••••"}`), Places: []string{"password"}}
		c.LastAlike = &gate.SimilarCall{ID: "apr_0", At: epoch, Arguments: c.Masked.Arguments}
	})
	unknown := c.get("/approvals/apr_4")
	unknown.want(t, http.StatusOK, "No difference but in masked values, which are not compared")
	unknown.lacks(t, "The same arguments")
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, `,"m%d":"aɡaɡaɡaɡ"`, i)
	}
	c.m.add("apr_3", "refund_payment", "{"+many.String()[1:]+"}", func(c *gate.Card) { c.Former = []byte(`{}`); c.LastAlike = &gate.SimilarCall{Arguments: []byte(`{}`)} })
	if page := c.get("/approvals/apr_3"); strings.Count(page.body, "looks like “g”") > 2000 || !strings.Contains(page.body, "Not all of it is shown here.") {
		t.Errorf("%d marks are spelt out", strings.Count(page.body, "looks like “g”"))
	}
}

// TestResembledText: a card shows the text that one of its texts is drawn like, with the
// letters marked that are others; and neither of them while secrets are masked.
func TestResembledText(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	resembles := []gate.Resemblance{{Place: "payee", Here: "Paypa1", Known: "Paypal", At: epoch.Add(-time.Hour)}}
	c.m.add("apr_1", "pay", `{"payee":"Paypa1"}`, func(card *gate.Card) { card.Resembles = resembles })
	c.m.add("apr_2", "pay", `{"payee":"Paypa1","token":"x"}`, func(card *gate.Card) {
		card.Resembles, card.Masked = resembles, &gate.Masked{Places: []string{"payee"}, Arguments: []byte(`{"payee":"x"}`)}
	})
	c.get("/approvals/apr_1").want(t, http.StatusOK, `Paypa<b class="differs">1</b>`, `Paypa<b class="differs">l</b>`)
	masked := c.get("/approvals/apr_2")
	masked.want(t, http.StatusOK, "looks like one that was approved")
	if strings.Contains(masked.body, "drawn-alike") || strings.Contains(masked.body, "Paypal") {
		t.Error("a text is shown that may be a secret")
	}
}
