package tests

import (
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
		b.key("a")
		b.key(kb.Enter)
		b.sees(testid("hold"), "Approve: sent in")
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
