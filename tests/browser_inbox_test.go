package tests

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestBrowserInboxRows: an open inbox that is searched gets the rows that come, change
// and go, and says that their agent was stopped, one by one: the others stay the very elements that they were, and the focus
// stays where it is. The search is kept as a view.
func TestBrowserInboxRows(t *testing.T) {
	d := onBrowsed(t)
	id := newID("agent-") // its own: it is stopped
	agent := d.client(t).with(d.newKey(t, "--agent", id))
	eventually(t, settleWithin, "the new agent is known", func() bool {
		return strings.Contains(string(agent.propose(event("search_docs", "accept", nil)).Body), `"gate_decision":"pass"`)
	})
	prefix := newID("rows_")
	first, second := agent.hold(prefix+"_first", nil), agent.hold(prefix+"_second", nil)
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	b.open("/?q=" + prefix)
	b.sees(testid("inbox-row"), "_first")
	found := func(n string) { // the first word, whether others wait or not
		t.Helper()
		b.until(n+" found", `document.querySelector("[data-testid=inbox-total]").innerText.startsWith("`+n+` ")`)
	}
	found("2")
	b.eval(mark)
	row := func(id string) string { return `document.querySelector('[data-row="` + id + `"]')` }
	b.eval(row(second.ID) + `.querySelector("a").focus()`)
	kept := func(what string) {
		t.Helper()
		if b.eval(marked) != "true" || b.eval(row(second.ID)+`.contains(document.activeElement)`) != "true" {
			t.Errorf("%s: the page was loaded again, or the focus is at %s", what, b.eval(`document.activeElement.outerHTML.slice(0, 80)`))
		}
	}
	// The page's own stream says what it is sent.
	b.eval(`(() => { window.sent = []; const s = new EventSource(document.body.dataset.live);
		s.addEventListener("rows", (e) => window.sent.push(e.data)); s.addEventListener("open", () => { window.listens = true }); })()`)
	b.until("a second stream", `window.listens === true`)

	third := agent.hold(prefix+"_third", nil)
	b.sees(testid("inbox-row"), "_third")
	found("3")
	kept("a call that comes")
	b.until("the row that comes was sent, and not those that stay",
		`window.sent.some(d => { const c = JSON.parse(d); return c.rows === 3 && (c.put || []).map(p => p.id).join() === "`+third.ID+`" && !c.drop })`)

	// The kill switch is told as well, with its reason, though no call has changed; and so is
	// its end. An open card says it, too.
	stop := func(on bool) {
		t.Helper()
		d.admin(t).do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": id, "on": on, "reason": "pays twice"}).want(t, 200)
	}
	stop(true)
	b.sees(testid("row-stopped"), "agent stopped: pays twice")
	kept("an agent that is stopped")
	stop(false)
	b.until("no row says that its agent is stopped", `document.querySelector("[data-testid=row-stopped]") === null`)
	kept("an agent that goes on")

	agent.cancel(first.ID).want(t, 200)
	b.until("the row that goes is gone", row(first.ID)+` === null`)
	found("2")
	kept("a call that goes")
	d.reviewer(t, 1).vote(second, "deny").want(t, 200)
	b.until("the row with the focus is gone, and the focus on the next", row(second.ID)+` === null && `+row(third.ID)+`.contains(document.activeElement)`)

	b.key("?")
	b.sees(testid("keys"), "to the next call")
	b.key(kb.Escape)
	b.until("the list of keys is closed", `!document.getElementById("keys").open`)
	b.key("/")
	b.until("the focus in the search", `document.activeElement.id === "inbox-q"`)
	b.click(`.saveview summary`)
	b.write(`.saveview input[name=name]`, prefix)
	b.click(testid("save-view") + ` button`)
	b.sees(testid("saved-views"), prefix)
	b.sees(testid("notice"), "saved")
	b.open("/")
	b.click(testid("saved-views") + ` a:last-child`)
	b.sees(testid("inbox-row"), "_third")
	b.click(testid("drop-view") + ` button`)
	b.until("no saved view", `document.querySelector("[data-testid=saved-views]") === null`)
	b.fits("/?q=" + prefix)
	b.clean()
}

// TestBrowserInboxOfMany: of more calls than ever fitted on one page the one that is due
// first is the first, also if it came last, and links lead to each of the others.
func TestBrowserInboxOfMany(t *testing.T) {
	d := onWaiting(t)
	name := newID("many_")
	calls := make([]approval, 205)
	together(8, func(k int) {
		for i := k; i < len(calls); i += 8 {
			calls[i] = d.agent(t).hold(name, map[string]any{"n": i})
		}
	})
	soon := d.agent(t).hold("soon_"+name, nil)
	defer together(8, func(k int) {
		for i := k; i < len(calls); i += 8 {
			d.agent(t).cancel(calls[i].ID)
		}
	})
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	b.open("/?q=" + name)
	b.sees(testid("inbox-total"), "206 ")
	const rows = `[...document.querySelectorAll("[data-row]")].map(e => e.dataset.row).join()`
	seen := map[string]bool{}
	for first := true; ; first = false {
		ids := strings.Split(b.eval(rows), ",")
		if first && ids[0] != soon.ID {
			t.Errorf("the first is %s, and %s is due first", ids[0], soon.ID)
		}
		for _, id := range ids {
			seen[id] = true // twice, where its deadline moved by milliseconds when it was first settled
		}
		if b.eval(`document.querySelector("#main a[rel=next]") === null`) == "true" {
			break
		}
		b.click("#main a[rel=next]")
		b.until("the next page", loaded+` && document.querySelector("[data-row]") !== null && `+rows+` !== `+quote(strings.Join(ids, ",")))
	}
	if len(seen) != 206 {
		t.Errorf("the pages have %d calls, want 206", len(seen))
	}
	d.agent(t).cancel(soon.ID)
	b.clean()
}
