package tests

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestBrowserSaysWhatIsAtStake: a card begins with what the call does, on a phone's first
// screen, too; its head names the environment that the call names, and not the
// installation's in its place.
func TestBrowserSaysWhatIsAtStake(t *testing.T) {
	d := onBrowsed(t)
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[0])
	agent, run := d.agent(t), strconv.FormatInt(time.Now().UnixNano(), 10) // no other test's calls count
	a := agent.hold("deploy_stakes_"+run, map[string]any{"service": "checkout", "version": "v2.4.1", "environment": "prod"})
	b.open("/approvals/" + a.ID)
	b.sees(testid("stakes"), "Deploy checkout v2.4.1 in prod")
	if head := b.text(testid("environment")); !strings.HasPrefix(head, "prod") || !strings.Contains(head, "judged by the rules of dev") {
		t.Errorf("the head says %q", head)
	}
	if got := b.eval(`document.querySelector('.seen').firstElementChild.dataset.testid`); got != "stakes" {
		t.Errorf("what is kept as shown begins with %q", got)
	}
	b.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	b.open("/approvals/" + a.ID)
	b.sees(testid("stakes"), "checkout")
	if got := b.eval(`document.querySelector('[data-testid=stakes]').getBoundingClientRect().bottom <= innerHeight && document.documentElement.scrollWidth <= innerWidth`); got != "true" {
		t.Error("the sentence is not on the first screen of a phone, or the page is too wide")
	}
	// Whom nobody has paid before is named as such, once somebody else has been paid.
	pay := func(n int, to string) string {
		return agent.hold("pay_stakes_"+run, map[string]any{"amount": n, "to": to}).ID
	}
	b.open("/approvals/" + pay(1, "Ann"))
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")
	eve := pay(2, "Eve")
	b.open("/?q=" + eve)
	b.sees(testid("row-flag"), "First time: to")
	b.sees(testid("row-before"), "The only one of this agent and tool was approved")
	// Amounts end at one edge, so that they can be compared down the list.
	pay(1200, "Ann")
	for _, width := range []int64{390, 1440} {
		b.do(chromedp.EmulateViewport(width, 844))
		b.open("/?tool=pay_stakes_" + run)
		b.until("both amounts", `document.querySelectorAll("[data-testid=row-amount]").length === 2`)
		got := b.eval(`(() => { const all = [...document.querySelectorAll("[data-testid=row-amount]")], right = (el) => { const r = document.createRange(); r.selectNodeContents([...el.childNodes].findLast((n) => n.data && n.data.trim())); return Math.round(r.getBoundingClientRect().right); };
			return all.map((el) => el.textContent.replace(/\s+/g, " ").trim()).join("; ") + "; edges: " + new Set(all.map(right)).size; })()`)
		if got != "Amount: 2; Amount: 1,200; edges: 1" {
			t.Errorf("on %d: %s", width, got)
		}
	}
	b.open("/approvals/" + eve)
	b.sees(testid("flags"), "First time: what is in “to” was not in the one approved call")
	b.sees(testid("alike"), "the only one before was approved")
	b.open("/approvals/" + pay(3, "Ann"))
	b.sees(testid("stakes"), "Pay 3 [currency is missing] to Ann")
	if b.text(testid("flags")) != "" {
		t.Errorf("a known payee: %q", b.text(testid("flags")))
	}
	// A sentence that is registered for the tool comes before Holdpoint's own, in the row, too.
	must(t, nil, "", "tool", "set", "sing_stakes_"+run, "--data", d.dir, "--stakes", "[high] Sing number {n} to {*to}")
	n := 0
	eventually(t, settleWithin, "the sentence is known", func() bool {
		n++
		b.open("/approvals/" + agent.hold("sing_stakes_"+run, map[string]any{"n": n, "to": "Ann"}).ID)
		return strings.Contains(b.text(testid("stakes")), fmt.Sprintf("Sing number %d to Ann", n))
	})
	b.sees(testid("stakes"), "high danger")
	b.open("/?tool=sing_stakes_" + run)
	b.sees(testid("row-stakes"), "Sing number")
	b.clean()
}

// TestBrowserDecidesByThumb: on a phone, a bar at the bottom of the screen leads to the
// decision, without script too. It is not over the sentence, not over what has the focus,
// and gone where the decision is.
func TestBrowserDecidesByThumb(t *testing.T) {
	d := onBrowsed(t)
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[0])
	a := d.agent(t).hold(newID("thumb_"), map[string]any{"text": strings.Repeat("a line\n", 30), "to": "Ann"})
	b.open("/approvals/" + a.ID)
	if got := b.eval(`[...document.querySelectorAll(".card *")].filter((el) => el.clientHeight + 1 < el.scrollHeight && /auto|scroll/.test(getComputedStyle(el).overflowY) && !el.matches("textarea")).length`); got != "0" {
		t.Errorf("%s parts of the card scroll by themselves", got)
	}
	b.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	const bar = `document.querySelector("[data-testid=decide-bar]").parentElement.getBoundingClientRect()`
	for _, script := range []bool{true, false} {
		if !script {
			b.do(chromedp.Func(withoutScript))
		}
		b.open("/approvals/" + a.ID)
		b.sees(testid("stakes"), "thumb_")
		if got := b.eval(`Math.round(` + bar + `.bottom) === innerHeight && document.querySelector("[data-testid=stakes]").getBoundingClientRect().bottom <= ` + bar + `.top`); got != "true" {
			t.Errorf("script %t: the bar is not at the bottom of the first screen, or over the sentence", script)
		}
		b.click(testid("to-decision"))
		b.until("the decision is on the screen, and the bar is not over it", `(() => {
			const at = document.querySelector("[data-testid=approve]").getBoundingClientRect();
			return at.top >= 0 && at.bottom <= innerHeight && (`+bar+`.bottom <= at.top || `+bar+`.top >= at.bottom);
		})()`)
	}
	// Whatever gets the focus above it is above the bar.
	b.eval(`document.querySelector("[data-testid=args]").tabIndex = 0, document.querySelector(".crumb a").focus()`)
	b.eval(`document.querySelector(".untrusted").insertAdjacentHTML("beforeend", '<a href="/" id="last">x</a>'), document.getElementById("last").focus()`)
	b.until("the focus is not under the bar", `document.getElementById("last").getBoundingClientRect().bottom <= `+bar+`.top`)
	// On paper nothing can be pressed or filled in, so nothing of that is there.
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
		if err == nil {
			_, err = cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		}
		return err
	}))
	b.open("/approvals/" + a.ID)
	b.until("a card on paper", `matchMedia("print").matches && document.querySelector("[data-testid=stakes]").checkVisibility() &&
		![...document.querySelectorAll("main button, main input, main textarea, main select, [data-testid=decide-bar] a")].some(e => e.checkVisibility())`)
	b.clean()
}
