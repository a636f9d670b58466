package tests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// mixed is a call of one of several sorts.
func mixed(i int) map[string]any {
	n := fmt.Sprint("M-", i)
	switch i % 6 {
	case 0:
		return event("send_email", "defer", map[string]any{"to": []any{"ann@example.com"}, "subject": "Order " + n, "body": "Dear Ann,\nyour order is on its way."})
	case 1:
		return event("run_sql", "defer", map[string]any{"database": "shop", "query": "SELECT sku, price FROM prices WHERE id = " + fmt.Sprint(i)})
	case 2:
		return event("http_get", "defer", map[string]any{"url": "https://api.example.com/orders/" + n})
	case 3:
		return event("write_file", "defer", map[string]any{"path": "/srv/reports/" + n + ".txt", "content": "Sold: 12"})
	case 4:
		return event("deploy_service", "defer", map[string]any{"service": "checkout", "version": "2.4." + fmt.Sprint(i)})
	default:
		return event("import_rows", "defer", map[string]any{"table": "prices", "rows": []any{map[string]any{"sku": n, "price": 12.5}}})
	}
}

// TestBrowserClearsTheInbox: a reviewer clears an inbox by keys alone, what is alike
// together and the rest one after the other, in four keys and two loads each. With -long
// there are 30 alike calls and 70 others.
func TestBrowserClearsTheInbox(t *testing.T) {
	ownPrograms(t)
	alike, others := 4, 8
	if *long {
		alike, others = 30, 70
	}
	d := startDev(t, nil)
	agent := d.agent(t)
	var calls []approval
	for i := range others {
		calls = append(calls, agent.submit(mixed(i)))
	}
	for i := range alike {
		calls = append(calls, agent.hold("refund_payment", map[string]any{"amount": fmt.Sprintf("%d.50", i), "currency": "EUR", "order": fmt.Sprint("A-", i)}))
	}

	b := openHolding(t, d.URL)
	b.signIn(d.Reviewers[0])
	loads := make(chan string, 1000)
	if err := chromedp.Listen(b.ctx, func(ev any) {
		if e, ok := ev.(*page.EventFrameNavigated); ok {
			loads <- e.Frame.URL
		}
	}); err != nil {
		t.Fatal(err)
	}
	keys := 0
	press := func(k string) { keys++; b.key(k) }
	began, before := time.Now(), d.spent(t)

	b.open("/?tool=refund_payment")
	b.sees(testid("inbox-total"), fmt.Sprint(alike, " "))
	b.click(testid("pick-all"))
	b.click(testid("decide-together"))
	keys += 2
	b.sees(testid("together-count"), fmt.Sprint(alike, " calls of"))
	press("a")
	press(kb.Enter)
	b.sees(testid("hold"), fmt.Sprint(alike, " calls"))
	b.click(testid("hold-now"))
	keys++
	b.sees("h1", fmt.Sprint(alike, " votes are recorded"))

	b.open("/")
	b.sees(testid("inbox-total"), fmt.Sprint(others, " "))
	press("j")
	press("o")
	for left := others; left > 0; left-- {
		b.until("a card that takes keys", loaded+` && document.documentElement.dataset.settled === "1" && document.querySelector("[data-card] [data-testid=approve]") !== null`)
		press("a")
		press(kb.Enter)
		if b.eval(`document.getElementById("hold")?.hidden === false`) == "true" {
			press(kb.Enter) // sends it now
		}
		if left > 1 {
			b.until("the link to the next one, with the focus", loaded+` && document.documentElement.dataset.settled === "1" && document.activeElement.matches("[data-testid=next-link]")`)
			at := b.eval(`location.pathname`)
			press(kb.Enter)
			b.until("the next card", `location.pathname !== `+quote(strings.Trim(at, `"`)))
		}
	}
	b.sees(testid("status"), "approved")
	b.open("/")
	b.visible(testid("inbox-empty"))
	took, server := time.Since(began), d.spent(t)-before
	for _, c := range calls {
		if got := agent.wait(c.ID); got.Status != "approved" {
			t.Errorf("%s is %s", c.ID, got.Status)
		}
	}
	b.clean()
	t.Logf("%d alike and %d other calls: %d keys and clicks, %d loads, %s, %.1f s of a processor in the program and its Postgres", alike, others, keys, len(loads), took.Round(time.Second), server)
	if *long {
		t.Logf("the same number without all that: %.1f s of a processor", d.oneByOne(t, alike+others))
	}
	if most := 10 + 4*others; keys > most {
		t.Errorf("%d keys and clicks, want %d at most", keys, most)
	}
	if most := 10 + 2*others; len(loads) > most {
		t.Errorf("%d loads, want %d at most", len(loads), most)
	}
}

// oneByOne is what so many calls take of a processor where each is found in the inbox, opened
// and decided, with a page for each of these steps: nothing leads from one to the next, and
// none are decided together.
func (d *dev) oneByOne(t *testing.T, calls int) (seconds float64) {
	agent, reviewer := d.agent(t), d.reviewer(t, 0)
	var waits []approval
	for i := range calls {
		waits = append(waits, agent.submit(mixed(i)))
	}
	before := d.spent(t)
	for _, a := range waits {
		reviewer.do("GET", "/", nil).want(t, 200)
		reviewer.do("GET", "/approvals/"+a.ID, nil).want(t, 200)
		reviewer.approve(a)
		reviewer.do("GET", "/approvals/"+a.ID, nil).want(t, 200)
	}
	return d.spent(t) - before
}
