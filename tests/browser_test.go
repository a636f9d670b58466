package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"holdpoint/internal/chromium"
)

// browser is a real browser, and what its pages complained of.
type browser struct {
	t   testing.TB
	ctx context.Context
	url string

	mu         sync.Mutex
	complaints []string
}

// seeWithin is how long a page may take to show what has happened.
const seeWithin = 30 * time.Second

// chrome is the browser that all tests share, and whole the one of those that need more
// of it than its engine.
var (
	chrome chromium.Browser
	whole  = chromium.Browser{Whole: true}
)

// openBrowser is a browser with nothing in it: no cookie, no other tab. Its person has
// votes sent at once.
func openBrowser(t testing.TB, url string) *browser {
	t.Helper()
	return openIn(&chrome, t, url)
}

// openIn is openBrowser in one of the browsers.
func openIn(program *chromium.Browser, t testing.TB, url string) *browser {
	t.Helper()
	b := openTab(program, t, url)
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: `try { localStorage.setItem("holdpoint-send-at-once", "yes") } catch {}`,
		})
		return err
	}))
	return b
}

// openHolding is openBrowser for somebody whose votes are held for a moment.
func openHolding(t testing.TB, url string) *browser {
	t.Helper()
	return openTab(&chrome, t, url)
}

func openTab(program *chromium.Browser, t testing.TB, url string) *browser {
	t.Helper()
	b := &browser{t: t, ctx: program.Open(t), url: url}
	b.listen()
	return b
}

// listen collects what the pages of a tab complain of: errors of scripts, of
// the content policy, and everything that is logged as an error.
func (b *browser) listen() {
	b.t.Helper()
	note := func(format string, args ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.complaints = append(b.complaints, fmt.Sprintf(format, args...))
	}
	err := chromedp.Listen(b.ctx, func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			note("exception: %s %s", e.ExceptionDetails.Text, e.ExceptionDetails.URL)
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
				note("console %s: %+v", e.Type, e.Args)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				note("%s %s: %s (%s)", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
			}
		case *page.EventJavascriptDialogOpening:
			note("a dialog: %s", e.Message)
		}
	})
	if err != nil {
		b.t.Fatalf("listen to the browser: %v", err)
	}
}

// tab opens another tab of the same browser, with the same session.
func (b *browser) tab() *browser {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	other := &browser{t: b.t, ctx: ctx, url: b.url}
	other.listen()
	return other
}

// do runs steps in the tab, each of which waits for what it needs.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*seeWithin)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%v\nthe page said: %q", err, b.complaints)
	}
}

func (b *browser) open(path string)      { b.t.Helper(); b.do(chromedp.Navigate(b.url + path)) }
func (b *browser) click(selector string) { b.t.Helper(); b.do(chromedp.Click(chromedp.CSS(selector))) }
func (b *browser) write(selector, s string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(selector), s))
}

func (b *browser) choose(selector, s string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(selector), s))
}

func (b *browser) visible(selector string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible(chromedp.CSS(selector)))
}
func (b *browser) key(keys string) { b.t.Helper(); b.do(chromedp.KeyEvent(keys)) }

// signIn fills the form, as a person does, by keys.
func (b *browser) signIn(p person) {
	b.t.Helper()
	b.open("/login")
	b.write(`input[name=email]`, p.Email)
	b.write(`input[name=password]`, p.Password+kb.Enter)
	b.visible(`form.who`)
}

// text is the visible text of an element.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return b.eval(`(document.querySelector(` + quote(selector) + `) || {innerText: ""}).innerText`)
}

// eval is a script's value: a string as it is, anything else as JSON.
func (b *browser) eval(script string) string {
	b.t.Helper()
	v, err := b.try(script)
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return v
}

func (b *browser) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(b.ctx, seeWithin)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[any](script))
	if s, ok := v.(string); ok {
		return s, err
	}
	encoded, _ := json.Marshal(v)
	return string(encoded), err
}

// until waits for a script to become true, also beyond the page's end.
func (b *browser) until(what, script string) time.Duration {
	b.t.Helper()
	began := time.Now()
	for {
		v, err := b.try(script)
		if err == nil && v == "true" {
			return time.Since(began)
		}
		if time.Since(began) > seeWithin {
			page, _ := b.try(`document.body.innerText`)
			b.t.Fatalf("not within %s: %s (%v)\nthe page: %s\nit said: %q", seeWithin, what, err, page, b.complaints)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// loaded is whether all of a page is there.
const loaded = `document.readyState === "complete"`

// sees waits for an element whose text contains a text, whatever the case, on a
// page that is all there.
func (b *browser) sees(selector, text string) time.Duration {
	b.t.Helper()
	return b.until(selector+" with "+text, loaded+` && [...document.querySelectorAll(`+quote(selector)+`)].some(e => e.innerText.toLowerCase().includes(`+quote(strings.ToLower(text))+`))`)
}

// clean fails the test if a page complained of anything.
func (b *browser) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		b.t.Errorf("the page complained: %s", c)
	}
}

func quote(s string) string {
	encoded, _ := json.Marshal(s)
	return string(encoded)
}

func testid(id string) string { return `[data-testid=` + id + `]` }

// marked plants a mark in the page that a reload would wipe out.
const (
	mark   = `window.notReloaded = true`
	marked = `window.notReloaded === true`
)

// TestBrowserApproves: a person signs in, sees a call come in live, reads its
// exact arguments, and approves it; another open tab and the waiting agent see
// it at once.
func TestBrowserApproves(t *testing.T) {
	d := onBrowsed(t)
	b := openBrowser(t, d.URL)
	b.open("/")
	b.until("the way to sign in", `location.pathname === "/login"`)
	b.signIn(d.Reviewers[2])
	b.open("/?sort=newest") // other tests' calls may fill the first page
	b.eval(mark)
	tool := newID("live_")
	args := map[string]any{"to": "DE02 1203 0000", "amount": 1200.5, "nested": map[string]any{"b": []any{1, nil, true}, "a": "ä"}}
	a := d.agent(t).hold(tool, args)
	b.sees(testid("inbox-row"), tool)
	if b.eval(marked) != "true" {
		t.Error("the inbox was reloaded to show the call")
	}
	b.click(testid("inbox-row") + ` a[href$="` + a.ID + `"]`)
	b.visible(testid("approve"))
	// Exactly the arguments, whatever white space makes them readable.
	shown := b.eval(`document.querySelector('[data-testid=args]').innerText`)
	var got, want any
	if err := json.Unmarshal([]byte(shown), &got); err != nil {
		t.Errorf("the arguments are shown as %q: %v", shown, err)
	}
	encoded, _ := json.Marshal(args)
	_ = json.Unmarshal(encoded, &want) // just encoded
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("shown %v, want %v", got, want)
	}
	b.sees(testid("status"), "waiting")
	b.sees("h1", tool)
	b.sees(testid("timeline"), "demo")

	other := b.tab()
	other.open("/approvals/" + a.ID)
	other.sees(testid("status"), "waiting")
	other.eval(mark)
	woken := make(chan answer, 1)
	agent := d.agent(t)
	go func() { woken <- agent.do("GET", approvalPath(a.ID)+"?wait=40", nil) }()
	b.write(testid("comment"), "fine by me")
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")
	took := other.sees(testid("status"), "approved")
	t.Logf("the other tab showed it after %s", took.Round(time.Millisecond))
	if other.eval(marked) != "true" {
		t.Error("the other tab was reloaded to show it")
	}
	other.sees(testid("timeline"), "fine by me")
	if other.eval(`document.querySelector("[data-testid=approve]") === null`) != "true" {
		t.Error("the other tab can still approve")
	}
	if got := (<-woken).want(t, 200).approval(t); got.Status != "approved" && d.agent(t).wait(a.ID).Status != "approved" {
		t.Errorf("the agent that waited got %+v", got)
	}
	b.clean()
	other.clean()
}

// TestBrowserDenies: the deny path, with its kind and comment, to the agent.
func TestBrowserDenies(t *testing.T) {
	d := onBrowsed(t)
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	a := d.agent(t).hold("deny_in_browser", map[string]any{"x": 1})
	b.open("/approvals/" + a.ID)
	b.write(testid("comment"), "not today")
	b.choose(testid("kind"), "needs_info")
	b.click(testid("deny"))
	b.sees(testid("status"), "denied")
	got := d.agent(t).wait(a.ID)
	if got.Status != "denied" || got.Denial == nil || got.Denial.Kind != "needs_info" || got.Denial.Comment != "not today" {
		t.Errorf("the agent got %+v, %+v", got, got.Denial)
	}
	b.open("/history")
	b.sees("table.history tbody tr:first-child", "deny_in_browser")
	b.clean()
}

// TestBrowserShowsDeception: what tries to look like something else is named
// and warned of, and nothing in a call is ever run or followed.
func TestBrowserShowsDeception(t *testing.T) {
	d := onBrowsed(t)
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	evil := `</script><script>window.pwned=1</script><img src=x onerror="window.pwned=2"><svg onload=window.pwned=3>`
	e := event("deceive<script>window.pwned=4</script>", "defer", map[string]any{
		"invisible": "pay​ment", "reversed": "safe‮txt.exe", "tags": "hi\U000E0041\U000E0042", "lookalike": "pаypal.com", "letters": "ɡo pɑy lıst ⅼs ﬁle rᴏot ǀs ᗷuy",
		"ansi": "\x1b[31mred", "html": evil, "link": "javascript:window.pwned=5", evil: "key", "markdown": "[click](javascript:window.pwned=6)",
	})
	e["user_intent"] = evil
	e["evidence_refs"] = []any{evil}
	a := d.agent(t).submit(e)
	b.open("/?sort=newest")
	b.sees(testid("inbox-row"), "deceive")
	b.open("/approvals/" + a.ID)
	b.sees(testid("warning"), "not what they look like")
	warning := strings.ToLower(b.text(testid("warning")))
	for _, want := range []string{"invisible character", "reverse", "tag character", "pass for other ones", "escape sequence"} {
		if !strings.Contains(warning, want) {
			t.Errorf("no warning of %q in %q", want, warning)
		}
	}
	shown := b.text(testid("args"))
	for _, hidden := range []string{"​", "‮", "\U000E0041", "\x1b"} {
		if strings.Contains(shown, hidden) {
			t.Errorf("%U is shown as itself in %q", []rune(hidden), shown)
		}
	}
	for _, want := range []string{"<script>window.pwned=1</script>", "javascript:window.pwned=5", "200B", "202E", "U+0261 LATIN SMALL LETTER SCRIPT G", "U+0251", "U+0131", "U+217C", "U+FB01", "U+1D0F", "U+01C0", "U+15F7"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not shown in %q", want, shown)
		}
	}
	if n := b.eval(`document.querySelectorAll("main script, main img, main svg, main [onload], main [onerror], a[href^='javascript:']").length`); n != "0" {
		t.Errorf("%s elements came out of the call", n)
	}
	b.click(testid("deny"))
	b.sees(testid("status"), "denied")
	b.open("/history")
	b.sees("table.history", "deceive")
	if got := b.eval(`String(window.pwned)`); got != "undefined" {
		t.Errorf("a script of the call ran: %s", got)
	}
	b.clean()
}

// TestBrowserLongArguments: what is long has to be shown in full before it can
// be approved, and its middle can be read.
func TestBrowserLongArguments(t *testing.T) {
	d := onBrowsed(t)
	lines := make([]string, 3000)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d of a very long text", i)
	}
	lines[1500] = "rm -rf / # the danger in the middle"
	a := d.agent(t).hold("long_call", map[string]any{"text": strings.Join(lines, "\n")})
	d.reviewer(t, 2).vote(a, "approve").want(t, 409, "arguments_not_shown")
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	b.open("/approvals/" + a.ID)
	if b.eval(`document.querySelector("[data-testid=approve]").disabled`) != "true" {
		t.Error("it can be approved before all of it was shown")
	}
	b.click(`a[href*="full=1"]`)
	b.sees(testid("args"), "the danger in the middle")
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")
	b.clean()
}

// TestBrowserManyLookalikes: a page full of them is of bounded length, and has all
// that is approved.
func TestBrowserManyLookalikes(t *testing.T) {
	d := onBrowsed(t)
	text := strings.Repeat("aɡ", 300_000) + "ᗷ"
	a := d.agent(t).hold("many_lookalikes", map[string]any{"text": text})
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	b.open("/approvals/" + a.ID + "?full=1")
	b.sees(testid("warning"), "300,001")
	shown := b.text(testid("args"))
	for _, want := range []string{"U+0261 LATIN SMALL LETTER SCRIPT G", "299,501 MORE; FROM HERE ON IN ESCAPES", `a\u0261a\u0261\u15f7`} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not shown", want)
		}
	}
	if n := len(b.eval(`document.documentElement.outerHTML`)); n > 3_000_000 {
		t.Errorf("the page has %d bytes for %d of arguments", n, len(text))
	}
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")
	b.clean()
}

// TestBrowserKeyboardOnly: everything from signing in to approving can be done
// without a mouse.
func TestBrowserKeyboardOnly(t *testing.T) {
	d := onBrowsed(t)
	tool := newID("keys_")
	e := event(tool, "defer", map[string]any{"x": 1})
	a := d.agent(t).submit(e)
	b := openBrowser(t, d.URL)
	b.open("/login?next=/%3Fsort=newest")
	b.until("the focus in the form", `document.activeElement.name === "email"`)
	p := d.Reviewers[2]
	b.key(p.Email)
	b.key(kb.Tab)
	b.key(p.Password)
	b.key(kb.Enter)
	b.sees(testid("inbox-row"), tool)
	at := fmt.Sprintf(`document.activeElement.matches('a[href$="%s"]')`, a.ID)
	for range 200 {
		if b.eval(at) == "true" {
			break
		}
		b.key("j")
	}
	if b.eval(at) != "true" {
		t.Fatal("j does not reach the call's row")
	}
	b.key(kb.Enter)
	b.visible(testid("approve"))
	onApprove := `document.activeElement.matches("[data-testid=approve]")`
	onComment := `document.activeElement.matches("[data-testid=comment]")`
	tab := func(what, there string) {
		for range 60 {
			b.key(kb.Tab)
			if b.eval(there) == "true" {
				return
			}
		}
		t.Fatalf("Tab does not reach %s", what)
	}
	tab("the comment", onComment)
	b.key("typed")
	tab("Approve", onApprove)
	outline := b.eval(`(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.boxShadow })()`)
	if outline == "nonenone" {
		t.Error("the focus cannot be seen on Approve")
	}
	b.key(kb.Enter)
	b.sees(testid("status"), "approved")
	b.sees(testid("timeline"), "typed")
	b.clean()
}

// TestBrowserOnAPhone: no page needs scrolling sideways, and a finger can hit
// the buttons.
func TestBrowserOnAPhone(t *testing.T) {
	d := onBrowsed(t)
	b := openBrowser(t, d.URL)
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	a := d.agent(t).hold("a_tool_with_quite_a_long_name_"+strings.Repeat("x", 60), map[string]any{"word": strings.Repeat("w", 400), "deep": map[string]any{"er": []any{1, 2}}})
	narrow := func(path string) {
		t.Helper()
		if path != "" {
			b.open(path)
		}
		b.until("the whole page", loaded)
		if got := b.eval(`document.documentElement.scrollWidth + " of " + innerWidth`); got != "360 of 360" {
			t.Errorf("%s: width %s", path, got)
		}
	}
	narrow("/login")
	b.signIn(d.Reviewers[2])
	narrow("/")
	narrow("/approvals/" + a.ID)
	for _, button := range []string{"approve", "deny"} {
		if got := b.eval(`document.querySelector('[data-testid=` + button + `]').getBoundingClientRect().height >= 40`); got != "true" {
			t.Errorf("%s is too small for a finger", button)
		}
	}
	narrow("/history")
	b.open("/approvals/" + a.ID)
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")
	narrow("")
	b.clean()
}

// TestBrowserSignedOut: signing out ends the session for every tab.
func TestBrowserSignedOut(t *testing.T) {
	d := onBrowsed(t)
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[3])
	other := b.tab()
	other.open("/history")
	b.click(`form.who button`)
	b.until("the way to sign in", `location.pathname === "/login"`)
	other.open("/history")
	other.until("the way to sign in", `location.pathname === "/login"`)
	b.clean()
	other.clean()
}
