package tests

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestBrowserHoldsVotes: a vote is held for a moment, in which it can be taken back. It is
// sent when the time is up, when its sender says so, and when they go elsewhere; where
// much is at stake it is sent at once.
func TestBrowserHoldsVotes(t *testing.T) {
	d := onBrowsed(t)
	agent := d.agent(t)
	b := openHolding(t, d.URL)
	b.signIn(d.Reviewers[2])
	held := func() approval {
		t.Helper()
		a := agent.hold(newID("held_"), map[string]any{"n": newID("")})
		b.open("/approvals/" + a.ID)
		b.visible(testid("approve"))
		b.sees(testid("undo-note"), "you can undo it")
		b.key("a")
		b.key(kb.Enter)
		b.sees(testid("hold"), "“Approve” is sent in")
		return a
	}
	approved := func(what string, a approval) {
		t.Helper()
		if got := agent.wait(a.ID); got.Status != "approved" {
			t.Errorf("%s: it is %s", what, got.Status)
		}
	}

	a := held()
	b.fits("a vote that is held")
	b.key("z")
	b.until("the vote taken back, and the focus on its button", `document.getElementById("hold").hidden && document.activeElement.dataset.testid === "approve"`)
	if got := agent.get(a.ID); got.Status != "pending" || got.Requirements[0].Given != 0 {
		t.Errorf("what was taken back is recorded: %+v", got)
	}
	b.key(kb.Enter)
	b.sees(testid("hold"), "sent in")
	b.click(testid("hold-now"))
	b.sees(testid("status"), "approved")
	approved("sent now", a)

	// In the last minute nothing is held, and the page says so before.
	a = agent.hold(newID("held_late_"), map[string]any{"n": newID("")})
	b.open("/approvals/" + a.ID)
	b.sees(testid("undo-note"), "you can undo it")
	b.eval(`document.querySelector("#statusline [data-countdown]").dataset.countdown = new Date(Date.parse(document.body.dataset.now) + 50000).toISOString()`)
	b.sees(testid("undo-note"), "There is no undo")
	b.eval(`document.querySelector("[data-testid=approve]").focus()`)
	b.key(kb.Enter)
	approved("in its last minute", a)

	a = held()
	b.click(".crumb a")
	b.until("the inbox", `location.pathname === "/"`)
	approved("a link was followed", a)

	a = held()
	b.open("/history")
	approved("another page was opened", a)

	a = held()
	b.eval(`document.querySelector("form[action='/logout']").requestSubmit()`)
	b.until("the page to sign in on", `location.pathname === "/login"`)
	approved("its sender signed out", a)
	b.signIn(d.Reviewers[2])

	a = agent.hold(newID("held_"), map[string]any{"n": newID("")})
	b.open("/approvals/" + a.ID)
	b.visible(testid("deny"))
	b.eval(`document.querySelector("form[data-hold]").dataset.hold = "1"`)
	b.click(testid("deny"))
	b.sees(testid("status"), "denied")
	if got := agent.wait(a.ID); got.Status != "denied" {
		t.Errorf("the time was up: it is %s", got.Status)
	}

	held()
	b.click(testid("hold-off"))
	b.sees(testid("status"), "approved")
	a = agent.hold(newID("held_"), map[string]any{"n": newID("")})
	b.open("/approvals/" + a.ID)
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")
	approved("nothing is held any more", a)

	a = agent.hold("shell", map[string]any{"command": "rm -rf /var/tmp/" + newID("x")})
	b.open("/approvals/" + a.ID)
	b.visible(testid("approve"))
	if got := b.eval(`document.querySelector("form[data-vote]").dataset.hold === undefined`); got != "true" {
		t.Error("a dangerous call's vote is held")
	}
	agent.cancel(a.ID)
	b.clean()
}

// TestBrowserHoldsInBulk: votes on several calls are held, too, whatever is at stake, with
// what they are about in one sum, and can be taken back; who leaves sends them. Several are
// snoozed and brought back together.
func TestBrowserHoldsInBulk(t *testing.T) {
	d := onBrowsed(t)
	agent, tool := d.agent(t), newID("refund_")
	hold := func(n int) approval {
		refund := map[string]any{"amount": fmt.Sprintf("%d.50", n), "currency": "EUR", "order": fmt.Sprintf("A-%d", n)}
		if n == 3000 {
			delete(refund, "currency")
		}
		return agent.hold(tool, refund)
	}
	calls := []approval{hold(1000), hold(2000), hold(3000)}
	b := openHolding(t, d.URL)
	b.signIn(d.Reviewers[2])
	inbox := "/?tool=" + tool
	b.open(inbox)
	b.click(testid("pick-all"))
	b.unfold("snooze-picked")
	b.click(testid("snooze-picked") + " button[value='30m']")
	b.sees(testid("notice"), "the calls are snoozed")
	b.until("the same search", `location.search === "?tool=`+tool+`" && document.querySelector("[data-row]") === null`)
	b.click(testid("undo"))
	b.sees(testid("notice"), "in your inbox again")
	b.until("the same search, with all of them", `location.search === "?tool=`+tool+`" && document.querySelectorAll("[data-row]").length === 3`)
	b.click(testid("pick-all"))
	b.unfold("snooze-picked")
	b.click(testid("snooze-picked") + " button[value='30m']")
	b.sees(testid("notice"), "the calls are snoozed")
	b.open(inbox + "&snoozed=1")
	b.sees(testid("row-snoozed"), "snoozed until")
	b.click(testid("bring-back"))
	b.until("two are snoozed still", `location.search.includes("snoozed=1") && document.querySelectorAll("[data-row]").length === 2`)
	b.click(testid("pick-all"))
	b.click(testid("unsnooze-picked"))
	b.sees(testid("inbox-empty"), "nothing is snoozed")
	b.open(inbox)
	b.sees(testid("inbox-total"), "3 ")

	together := func() {
		t.Helper()
		b.open(inbox)
		b.click(testid("pick-all"))
		b.click(testid("decide-together"))
		b.visible(testid("together-sum"))
	}
	together()
	b.sees(testid("together-sum"), "3 calls · 3,001.00 eur in all, and 1 amount without a currency")
	b.eval(`document.querySelector("[data-sum]").click()`)
	b.sees(testid("together-sum"), "2 of 3 calls · 2,000.50 eur in all, and 1 amount without a currency")
	b.fits("a sum of several calls")
	b.key("a")
	b.key(kb.Enter)
	b.sees(testid("hold"), "“approve 2 (2 of 3 calls · 2,000.50 eur in all, and 1 amount without a currency)” is sent in")
	b.fits("votes that are held")
	b.key("z")
	b.until("the votes taken back, and the focus on their button", `document.getElementById("hold").hidden && document.activeElement.dataset.testid === "approve"`)
	for _, c := range calls {
		if got := agent.get(c.ID); got.Status != "pending" || got.Requirements[0].Given != 0 {
			t.Errorf("what was taken back is recorded: %+v", got)
		}
	}
	b.key(kb.Enter)
	b.sees(testid("hold"), "sent in")
	b.open("/history")
	for _, c := range calls[1:] {
		if got := agent.wait(c.ID); got.Status != "approved" {
			t.Errorf("another page was opened: %s is %s", c.ID, got.Status)
		}
	}
	if got := agent.get(calls[0].ID); got.Status != "pending" {
		t.Errorf("what was not ticked is %s", got.Status)
	}
	calls = []approval{calls[0], hold(4)}
	together()
	b.click(testid("deny"))
	b.sees(testid("hold"), "deny all (not now")
	b.click(testid("hold-now"))
	b.sees("h1", "2 votes are recorded")
	for _, c := range calls {
		if got := agent.wait(c.ID); got.Status != "denied" {
			t.Errorf("%s is %s", c.ID, got.Status)
		}
	}
	b.clean()
}

// TestBrowserPalette: what the page and the console have is found by a few letters, by
// keys alone; it decides nothing.
func TestBrowserPalette(t *testing.T) {
	d := onBrowsed(t)
	a := d.agent(t).hold(newID("palette_"), map[string]any{"n": 1})
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	b.open("/approvals/" + a.ID)
	b.visible(testid("approve"))
	shut := func() {
		t.Helper()
		b.key(kb.Escape)
		b.until("no dialog is open", `document.querySelector("dialog[open]") === null`)
	}
	open := func(words string) {
		t.Helper()
		b.eval(`document.dispatchEvent(new KeyboardEvent("keydown", {key: "k", ctrlKey: true, bubbles: true, cancelable: true}))`)
		b.until("the palette, with the focus", `document.getElementById("palette").open && document.activeElement.id === "palette-q"`)
		if words != "" {
			b.key(words)
		}
	}
	open("")
	b.fits("the palette")
	b.key("appr")
	b.until("Approve is the first entry", `document.querySelector("#palette-list [aria-selected=true]").innerText.startsWith("Approve")`)
	b.key(kb.Enter)
	b.until("the focus on the button", `!document.getElementById("palette").open && document.activeElement.dataset.testid === "approve"`)
	if got := d.agent(t).get(a.ID); got.Status != "pending" || got.Requirements[0].Given != 0 {
		t.Errorf("the palette has decided: %+v", got)
	}
	open("all keys")
	b.key(kb.Enter)
	b.sees(testid("keys"), "take back a vote")
	shut()
	open("no such thing")
	b.until("no entry", `document.getElementById("palette-count").innerText === "0 entries"`)
	shut()
	open("history")
	b.key(kb.Enter)
	b.until("the history", `location.pathname === "/history"`)
	b.key("?")
	b.sees(testid("keys"), "pages, views and actions")
	shut()
	b.clean()
	d.agent(t).cancel(a.ID)
}
