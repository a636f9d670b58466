package tests

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// fit says what is wrong with the page that somebody without a mouse, without
// good eyes or with a small screen would notice: fields without a label, buttons
// and links without a name or too small to hit, ids that are there twice, more
// or less than one heading of the first level, headings that leave out a level.
const fit = `(() => {
	const wrong = [];
	// What is folded away has no innerText.
	const name = (e) => (e.getAttribute("aria-label") || (e.checkVisibility() ? e.innerText : e.textContent) || e.value || "").trim();
	for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
		if (!e.labels.length || !e.labels[0].textContent.trim()) wrong.push("no label: " + e.name);
	for (const e of document.querySelectorAll("button, a[href], summary")) {
		if (!name(e)) wrong.push("no name: " + e.outerHTML.slice(0, 80));
		const r = e.getBoundingClientRect();
		if (e.matches("button, summary") && r.height > 0 && (r.height < 24 || r.width < 24)) wrong.push("too small: " + name(e));
	}
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	for (const id of ids) if (ids.filter((i) => i === id).length > 1) wrong.push("twice: #" + id);
	for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
		for (const id of (e.getAttribute("aria-labelledby") || e.getAttribute("aria-describedby")).split(" "))
			if (!document.getElementById(id)) wrong.push("points to nothing: " + id);
	if (document.querySelectorAll("h1").length !== 1) wrong.push("headings of the first level: " + document.querySelectorAll("h1").length);
	let level = 1;
	for (const h of document.querySelectorAll("main h1, main h2, main h3")) {
		const n = +h.tagName[1];
		if (n > level + 1) wrong.push("a level is left out before: " + h.innerText);
		level = n;
	}
	if (!document.documentElement.lang || !document.title) wrong.push("no language or title");
	return wrong.join("; ");
})()`

// pale names the texts that do not stand out enough from what is behind them:
// less than 4.5 to 1 (WCAG 2.2, 1.4.3), or 3 to 1 for large ones.
const pale = `(() => {
	const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const rgba = (c) => { paint.clearRect(0, 0, 1, 1); paint.fillStyle = c; paint.fillRect(0, 0, 1, 1); return [...paint.getImageData(0, 0, 1, 1).data]; };
	const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255, 255]; };
	const wrong = new Set();
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; (n = texts.nextNode());) {
		const e = n.parentElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
		if (!n.data.trim() || r.width < 2 || r.height < 2 || s.visibility === "hidden" || e.closest(":disabled, script, option")) continue;
		const [a, b] = [light(rgba(s.color)), light(behind(e))];
		const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05), size = parseFloat(s.fontSize);
		if (ratio < (size >= 24 || size >= 18.66 && +s.fontWeight >= 700 ? 3 : 4.5)) wrong.add(n.data.trim().slice(0, 40) + " " + ratio.toFixed(2));
	}
	return [...wrong].join("; ");
})()`

// fits fails the test where a page is not for everybody.
func (b *browser) fits(path string) {
	b.t.Helper()
	b.until("the whole page", loaded)
	for what, script := range map[string]string{"form": fit, "contrast": pale} {
		if wrong := b.eval(script); wrong != "" {
			b.t.Errorf("%s: %s: %s", path, what, wrong)
		}
	}
}

// colours makes pages light or dark, at once: between two colours that fade into one
// another, contrasts are of neither.
func (b *browser) colours(scheme string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return err
	}))
	b.until(scheme+" colours, and no others any more", `matchMedia("(prefers-color-scheme: `+scheme+`) and (prefers-reduced-motion: reduce)").matches && document.getAnimations().length === 0`)
}

// put writes into a field whatever was in it before.
func (b *browser) put(selector, s string) {
	b.t.Helper()
	b.visible(selector)
	b.eval(`document.querySelector(` + quote(selector) + `).value = ""`)
	b.write(selector, s)
}

// outcomeOf is what a gate answers to a harmless call.
func (d *dev) outcomeOf(t testing.TB) string {
	t.Helper()
	return string(d.agent(t).propose(event("search_docs", "accept", map[string]any{"query": "x"})).Body)
}

// TestBrowserAdministers: the owner sees what is in force, tries a call, changes
// an agent, and stops and releases it and all agents; everybody sees it.
func TestBrowserAdministers(t *testing.T) {
	ownPrograms(t)
	d := startDev(t, nil)
	b, reviewer := openBrowser(t, d.URL), openBrowser(t, d.URL)
	b.signIn(d.Owner)
	reviewer.signIn(d.Reviewers[0])
	agents := "table[data-testid=agents]"

	b.open("/policies")
	b.sees(testid("rules"), "tool-requests")
	// On a phone a rule is one line, until it is unfolded: by a press, by a link to it, by a search.
	b.do(chromedp.EmulateViewport(390, 844))
	const open = `[...document.querySelectorAll("[data-testid=rules] tbody tr")].filter((tr) => tr.querySelector("td").checkVisibility()).map((tr) => tr.id).join()`
	if got := b.eval(open + ` + " " + [...document.querySelectorAll("[data-testid=rule-fold]")].every((el) => el.closest("tr").clientHeight < 70)`); got != " true" {
		t.Errorf("on a phone the rules that are unfolded, and whether all are one line: %q", got)
	}
	b.click("#rule-1 summary")
	b.click(testid("rule-jump") + " summary")
	b.click(testid("rule-jump") + ` a[href="#rule-3"]`)
	b.until("two rules unfolded", open+` === "rule-1,rule-3"`)
	b.click("#rule-1 summary")
	b.until("one of them folded", open+` === "rule-3"`)
	b.fits("/policies on a phone")
	b.open("/policies?q=tool-requests")
	b.until("what was found unfolded", open+` !== ""`)
	b.do(chromedp.EmulateViewport(1440, 900))
	b.open("/policies")
	if b.eval(open) == "" || b.eval(`document.querySelector("[data-testid=rule-fold]").checkVisibility()`) != "false" {
		t.Error("on a desk the rules are no plain table")
	}
	b.put("#try input[name=tool]", "no.such.tool")
	b.put("#try textarea[name=arguments]", `{"amount": 12}`)
	b.click("#try button[type=submit]")
	b.sees(testid("try-result"), "no.such.tool")
	b.fits("/policies")
	wrong := b.tab() // a browser complains of every 422 by itself
	wrong.open("/policies")
	wrong.click("#try form summary")
	wrong.put("#try textarea[name=request]", `{"toolName": 7}`)
	wrong.click("#try button[type=submit]")
	wrong.sees(testid("try-failure"), "/toolName")
	wrong.fits("/policies with a mistake")

	b.open("/agents")
	b.visible(agents)
	b.click(agents + " tbody th a")
	b.visible(testid("agent-form"))
	page := b.eval("location.pathname")
	b.fits(page)
	b.choose("select[name=trust]", "privileged")
	b.put("textarea[name=roles]", "support"+kb.Enter+"mail")
	b.click(testid("agent-form") + " button[type=submit]")
	b.sees(testid("notice"), "registration was changed")
	b.sees(testid("agent-trust"), "privileged")

	held := d.agent(t).hold("stop_me", map[string]any{"x": 1})
	if got := d.outcomeOf(t); !strings.Contains(got, `"pass"`) {
		t.Errorf("before the kill switch: %s", got)
	}
	b.put(testid("agent-switch")+" input[name=reason]", "pays the same invoice twice")
	b.click(testid("agent-switch") + " button[type=submit]")
	b.until("the box to be asked for", `document.querySelector("[data-testid=agent-switch] input[name=confirm]").matches(":invalid") && !document.querySelector("[data-testid=notice]")?.innerText.includes("kill")`)
	b.click(testid("agent-switch") + " input[name=confirm]")
	b.click(testid("agent-switch") + " button[type=submit]")
	b.sees(testid("agent-stopped"), "pays the same invoice twice")
	b.fits(page + " stopped")
	if got := d.outcomeOf(t); strings.Contains(got, `"pass"`) || !strings.Contains(strings.ToLower(got), "kill") {
		t.Errorf("after the kill switch: %s", got)
	}
	reviewer.open("/approvals/" + held.ID)
	reviewer.sees("#decide", "kill switch for this agent is on")
	if reviewer.eval(`document.querySelector("[data-testid=approve]") === null`) != "true" {
		t.Error("what is stopped can be approved")
	}
	b.click(testid("agent-switch") + " input[name=confirm]")
	b.click(testid("agent-switch") + " button[type=submit]")
	b.sees(testid("notice"), "kill switch is off")

	// The switch of all, by keys alone.
	b.open("/admin")
	b.visible(testid("global-switch"))
	b.fits("/admin")
	for range 40 {
		b.key(kb.Tab)
		if b.eval(`document.activeElement.name === "reason"`) == "true" {
			break
		}
	}
	b.key("incident 4711")
	b.key(kb.Tab)
	b.key("stop")
	b.key(kb.Enter)
	b.sees(testid("switch-state"), "everything is stopped")
	b.sees(testid("all-stopped"), "incident 4711")
	b.fits("/admin stopped")
	if got := d.outcomeOf(t); strings.Contains(got, `"pass"`) {
		t.Errorf("after all are stopped: %s", got)
	}
	reviewer.open("/")
	reviewer.sees(testid("all-stopped"), "kill switch for all agents is on")
	reviewer.fits("/ stopped")
	b.put(testid("global-switch")+" input[name=confirm]", "RELEASE"+kb.Enter)
	b.sees(testid("switch-state"), "calls are judged")
	reviewer.open("/approvals/" + held.ID)
	reviewer.click(testid("approve"))
	reviewer.sees(testid("timeline"), "approved")

	b.open("/admin/tool")
	b.put("input[name=name]", "mcp/read file")
	b.put("input[name=provider]", "mcp")
	b.click(testid("tool-form") + " button[type=submit]")
	b.sees(testid("notice"), "tool's registration was changed")
	b.fits("/admin/tool")
	b.open("/admin")
	b.sees(testid("tools"), "mcp/read file")
	b.clean()
	reviewer.clean()
	changesThePolicy(t, d, b)

	record := string(d.admin(t).do("GET", "/v1/audit/events?limit=200", nil).Body)
	for _, code := range []string{"AGENT_REGISTERED", "AGENT_KILL_SWITCH", "GLOBAL_KILL_SWITCH", "KILL_SWITCH_RELEASED", "TOOL_REGISTERED"} {
		if !strings.Contains(record, code) {
			t.Errorf("%s is not on record", code)
		}
	}
}

// TestBrowserOfficeIsClosed: who may not administer is told so, and is not shown
// the way there.
func TestBrowserOfficeIsClosed(t *testing.T) {
	d := onBrowsed(t)
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[0])
	for _, path := range []string{"/policies", "/agents", "/admin"} {
		if b.eval(`document.querySelector('nav a[href="`+path+`"]') === null`) != "true" {
			t.Errorf("a reviewer is shown the way to %s", path)
		}
		d.as(t, d.Reviewers[0]).do("GET", path, nil).want(t, http.StatusForbidden)
	}
	form := "switch=throw&reason=r&confirm=STOP"
	d.as(t, d.Auditor).do("POST", "/admin/kill-switch", []byte(form), header{"Content-Type", "application/x-www-form-urlencoded"}).want(t, http.StatusForbidden)
	b.clean()
	auditor := openBrowser(t, d.URL)
	auditor.signIn(d.Auditor)
	auditor.open("/agents")
	auditor.click("table[data-testid=agents] tbody th a")
	auditor.visible(testid("agent"))
	if auditor.eval(`document.querySelectorAll("main form").length`) != "0" {
		t.Error("an auditor is shown forms that change an agent")
	}
	auditor.open("/policies")
	auditor.visible(testid("policy"))
	auditor.clean()
}

// TestBrowserOfficeOnAPhone: no page of the office needs scrolling sideways, in
// the dark as in the light, and all of its text can be read.
func TestBrowserOfficeOnAPhone(t *testing.T) {
	d := onBrowsed(t)
	b := openBrowser(t, d.URL)
	var asked struct{ Approval approval }
	d.agent(t).do("POST", "/v1/tool-requests", []byte(toolDraft), header{"Content-Type", "text/markdown"}).want(t, http.StatusAccepted).into(t, &asked)
	b.signIn(d.Owner)
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	b.open("/agents")
	agent := b.eval(`document.querySelector("table[data-testid=agents] tbody th a").pathname`)
	for _, path := range []string{"/policies", "/agents", agent, "/admin", "/admin/tool", "/approvals/" + asked.Approval.ID} {
		for _, scheme := range []string{"light", "dark"} {
			b.colours(scheme)
			b.open(path)
			b.visible("h1")
			if got := b.eval(`document.documentElement.scrollWidth + " of " + innerWidth`); got != "360 of 360" {
				t.Errorf("%s: width %s", path, got)
			}
			b.fits(path + " " + scheme)
		}
	}
	b.sees(testid("tool-request"), "command")
	b.clean()
}
