package tests

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

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
	b.open("/approvals/" + pay(2, "Eve"))
	b.sees(testid("flags"), "First time: to is in none of the last 1 approved call")
	b.sees(testid("alike"), "the only one before was approved")
	b.open("/approvals/" + pay(3, "Ann"))
	b.sees(testid("stakes"), "Pay 3 to Ann")
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
