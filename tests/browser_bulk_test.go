package tests

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestBrowserDecidesInBulk: ten alike refunds are decided in fewer than ten actions and
// one load of the page that shows them, each with its own event; a reviewer's keys do all
// of it. What a colleague has decided meanwhile is refused by name.
func TestBrowserDecidesInBulk(t *testing.T) {
	d := onBrowsed(t)
	agent, tool := d.agent(t), newID("refund_")
	hold := func(n int) approval {
		return agent.hold(tool, map[string]any{"amount": fmt.Sprintf("%d.50", n), "currency": "EUR", "order": fmt.Sprintf("A-%d", n)})
	}
	var calls []approval
	for i := range 10 {
		calls = append(calls, hold(i))
	}
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	b.open("/?tool=" + tool)
	b.sees(testid("inbox-total"), "10 ")
	loads := 0
	err := chromedp.Listen(b.ctx, func(ev any) {
		if e, ok := ev.(*page.EventFrameNavigated); ok && strings.HasPrefix(e.Frame.URL, d.URL+"/inbox/together") && strings.Contains(e.Frame.URL, "id=") {
			loads++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	actions := 0
	act := func(f func()) { actions++; f() }
	act(func() { b.click(testid("pick-all")) })
	b.sees(testid("pick-bar"), "10 calls are ticked")
	act(func() { b.click(testid("decide-together")) })
	b.sees(testid("together-count"), "10 calls of")
	if got := b.eval(`[...document.querySelectorAll("[data-testid=together-row]")].every((tr) => [...tr.children].every((cell, i) => Math.abs(cell.getBoundingClientRect().left - document.querySelectorAll("table.alikes > thead th")[i].getBoundingClientRect().left) < 2))`); got != "true" {
		t.Error("what differs does not stand under its heading")
	}
	if got := b.eval(`[...document.querySelectorAll("table.alikes > thead th")].map(e => e.innerText.trim()).join()`); got != "Chosen,What it does,amount,order" {
		t.Errorf("the table has the columns %s", got)
	}
	if got := b.eval(`document.querySelectorAll("` + testid("together-row") + `").length`); got != "10" {
		t.Errorf("%s rows", got)
	}
	b.fits("the page of ten alike calls")
	act(func() { b.key("a") })
	act(func() { b.key(kb.Enter) })
	b.sees("h1", "10 votes are recorded")
	if actions >= 10 || loads != 1 {
		t.Errorf("%d actions and %d loads", actions, loads)
	}
	for _, c := range calls {
		if got := agent.wait(c.ID); got.Status != "approved" {
			t.Errorf("%s is %s", c.ID, got.Status)
		}
		var votes []auditEvent
		for _, e := range d.admin(t).events(url.Values{"approval_id": {c.ID}}) {
			if e.Type == "vote" {
				votes = append(votes, e)
			}
		}
		if len(votes) != 1 || !strings.Contains(string(votes[0].Safe), `"card_digest"`) {
			t.Errorf("%s has the votes %+v in the log", c.ID, votes)
		}
	}

	// By keys, with one that has been decided since.
	calls = []approval{hold(20), hold(21), hold(22), hold(23)}
	b.open("/?tool=" + tool)
	b.sees(testid("inbox-total"), "4 ")
	for range calls {
		b.key("j")
		b.key("x")
	}
	b.sees(testid("pick-bar"), "4 calls are ticked")
	b.click(testid("decide-together"))
	b.sees(testid("together-count"), "4 calls of")
	d.reviewer(t, 1).vote(calls[1], "deny").want(t, 200)
	b.click(testid("approve"))
	b.sees("h1", "3 of 4 votes are recorded")
	b.sees(`[data-id="`+calls[1].ID+`"]`, "not recorded: ")
	for i, want := range []string{"approved", "denied", "approved", "approved"} {
		if got := agent.wait(calls[i].ID); got.Status != want {
			t.Errorf("call %d is %s, want %s", i, got.Status, want)
		}
	}
	b.clean()
}
