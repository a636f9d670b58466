package tests

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
)

// narrow gives pages the width of a phone, or that of the window for 0.
func narrow(width int64) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 844 * min(width, 1), DeviceScaleFactor: float64(min(width, 1))})
		return err
	})
}

// unscrolled fails the test where a page is wider than the window.
func (b *browser) unscrolled(path string) {
	b.t.Helper()
	// Until then the stylesheet may be missing.
	b.until("the whole page", loaded)
	wide := b.eval(`document.documentElement.scrollWidth <= document.documentElement.clientWidth ? "" :
		[...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
			.map(e => e.tagName + "." + e.className + " " + e.innerText?.slice(0, 60)).join("\n") || "nobody knows why"`)
	if wide != "" {
		b.t.Errorf("%s scrolls sideways:\n%s", path, wide)
	}
}

// rests waits until no colour changes any more.
func (b *browser) rests() {
	b.t.Helper()
	b.until("rest", `document.getAnimations().length === 0`)
}

const verdict = `document.getElementById("verify").dataset.verdict + ": " + document.querySelector("[data-testid=verify-verdict]").innerText`

// verifies presses the button on an event's page, with a key when it is not "",
// and returns the verdict.
func (b *browser) verifies(key string) string {
	b.t.Helper()
	b.visible(testid("verify-run"))
	if key != "" {
		b.put(".verifyform input[name=key]", key)
	}
	b.click(testid("verify-run"))
	b.until("a verdict", `Boolean(document.getElementById("verify").dataset.verdict) && !document.querySelector("[data-testid=verify-run]").disabled`)
	return b.eval(verdict)
}

// TestBrowserAudits: an auditor searches the log, opens an event and verifies it in
// the page; once somebody with all rights has changed its row, the page says so,
// and other events are still good. Others may not open any of it.
func TestBrowserAudits(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, nil)
	tool := newID("audited.")
	held := d.agent(t).hold(tool, map[string]any{"amount": 12})
	d.as(t, d.Reviewers[0]).vote(held, "deny").want(t, 200)
	d.agent(t).wait(held.ID)
	b := openBrowser(t, d.URL)
	b.signIn(d.Auditor)

	b.click(`nav[aria-label=Main] a[href="/audit"]`)
	b.sees(testid("audit-rows"), tool)
	b.fits("/audit")
	b.put("form[data-testid=audit-filter] input[name=tool]", tool)
	b.choose("form[data-testid=audit-filter] select[name=type]", "vote")
	b.click("form[data-testid=audit-filter] button[type=submit]")
	b.sees(testid("chips"), tool)
	b.sees(testid("audit-rows"), "denied the call of "+tool)
	if got := b.eval(`location.search`); got != "?tool="+tool+"&type=vote" {
		t.Errorf("the search's address has %s", got)
	}
	b.colours("dark")
	b.fits("/audit in the dark")
	b.colours("light")
	b.do(narrow(390))
	b.unscrolled("/audit")
	b.click(testid("chips") + " li:nth-child(2) a") // any type again
	b.until("all events of the tool", `document.querySelectorAll("[data-testid=audit-rows] tbody tr").length >= 3`)
	b.unscrolled("/audit with a filter")
	b.open("/audit?agent=nobody")
	b.sees(testid("audit-empty"), "No event fits all filters")
	b.fits("/audit without events")

	b.open("/audit?tool=" + tool + "&type=decision")
	b.click(testid("audit-rows") + " tbody td.seq a")
	b.visible(testid("audit-event"))
	b.until("times in the reader's zone", `document.querySelectorAll("time:not([data-local])").length === 0`)
	if got := b.eval(`[...document.querySelectorAll("time")].map(t => t.innerText).filter(t => !/^\d{1,2} [A-Z][a-z]{2} \d{4}, \d{2}:\d{2}(:\d{2} UTC| \S+)$/.test(t)).join()`); got != "" {
		t.Errorf("times in another form: %s", got)
	}
	b.unscrolled("an event")
	b.do(narrow(0))
	b.fits("an event")
	path := b.eval(`location.pathname`)
	if got := b.verifies(""); !strings.HasPrefix(got, "fair: ") || !strings.Contains(got, "with the key that this server states") {
		t.Errorf("with the server's key: %s\n%s", got, b.text(testid("verify-steps")))
	}
	b.rests()
	b.fits("an event that is verified")
	if got := b.verifies("nobody.example.com+0badcafe+AAAA"); !strings.HasPrefix(got, "none: ") {
		t.Errorf("with a key that is none: %s", got)
	}

	// The row is changed by somebody whom nothing stops.
	conn, err := pgx.Connect(t.Context(), d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	id := strings.TrimPrefix(path, "/audit/events/")
	rename := func(from, to string) {
		t.Helper()
		for _, sql := range []string{
			`ALTER TABLE events DISABLE TRIGGER events_append_only`,
			`UPDATE events SET body = convert_to(replace(convert_from(body, 'UTF8'), '"` + from + `"', '"` + to + `"'), 'UTF8'), tool_name = '` + to + `' WHERE event_id = '` + id + `'`,
			`ALTER TABLE events ENABLE TRIGGER events_append_only`,
		} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	rename(tool, "something.else")
	if got := b.verifies(""); !strings.HasPrefix(got, "bad: ") && !strings.HasPrefix(got, "none: ") {
		t.Errorf("on the page as it was: %s", got)
	}
	changed := b.tab() // the browser complains of the refusal
	changed.open(path)
	changed.sees(testid("audit-event"), "something.else")
	if got := changed.verifies(""); !strings.HasPrefix(got, "bad: ") {
		t.Errorf("after it was changed: %s\n%s", got, changed.text(testid("verify-steps")))
	}
	changed.open("/audit?tool=" + tool + "&type=vote")
	changed.click(testid("audit-rows") + " tbody td.seq a")
	if got := changed.verifies(""); !strings.HasPrefix(got, "fair: ") {
		t.Errorf("another event: %s", got)
	}
	rename("something.else", tool) // at the end the whole log has to be in order

	b.open("/audit/checkpoints")
	b.sees(testid("log-state"), "Up to date")
	b.sees(testid("log-floor"), "is kept outside the database")
	b.visible(testid("log-key"))
	b.fits("/audit/checkpoints")
	b.do(narrow(390))
	b.unscrolled("/audit/checkpoints")

	b.open("/approvals/" + held.ID)
	b.until("ways from the timeline into the log", `document.querySelectorAll("[data-testid=timeline] a[href^='/audit/events/']").length >= 3`)
	d.as(t, d.Reviewers[0]).do("GET", "/audit", nil).want(t, 403)
}
