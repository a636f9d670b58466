package tests

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestBrowserSignsVotes: where votes have to be signed, somebody without a passkey is
// told what to do; with one, the button asks for it, what was written stays when it is
// cancelled, the signed vote approves, as do several that are decided together, and the
// log proves whose passkey it was.
func TestBrowserSignsVotes(t *testing.T) {
	d := onBrowsed(t)
	p := d.newPerson(t, "--role", "security-approver")
	a := d.agent(t).hold(newID("signed_"), map[string]any{"to": newID("acct_"), "amount": 1})
	card := "/approvals/" + a.ID

	// Without JavaScript, or over the API, an unsigned vote is refused.
	d.as(t, p).vote(a, "approve").want(t, http.StatusForbidden, "signature_required")

	b := openBrowser(t, strings.Replace(d.URL, "127.0.0.1", "localhost", 1))
	finger := b.authenticator()
	b.signIn(p)
	b.open(card)
	b.sees("#progress", "only votes that the voter’s passkey has signed count")
	b.sees("#blocked", "knows no passkey of yours")
	if got := b.eval(`document.querySelector("[data-testid=approve]").disabled && document.querySelector("[data-testid=deny]").disabled`); got != "true" {
		t.Error("somebody without a passkey can press the buttons")
	}
	b.everywhere(card + " without a passkey")
	b.click(testid("unblock"))
	b.at("/account")
	b.write(`[data-testid=new-passkey] input[name=name]`, "Work laptop"+kb.Enter)
	b.sees(testid("notice"), "passkey was added")

	b.open(card)
	b.sees(testid("approve"), "Approve and sign")
	b.sees(testid("deny"), "Deny and sign")
	b.everywhere(card + " with a passkey")
	b.write(testid("comment"), "checked with the owner")
	finger(false)
	b.click(testid("approve"))
	b.sees("[data-passkey-status]", "cancelled")
	if got := b.eval(`document.querySelector("[data-testid=comment]").value`); got != "checked with the owner" {
		t.Errorf("what was written is now %q", got)
	}
	finger(true)
	b.click(testid("approve"))
	b.sees(testid("votes"), "signed with a passkey")
	if got := d.agent(t).wait(a.ID); got.Status != "approved" {
		t.Errorf("approved with a signature: %+v", got)
	}
	b.sees(testid("status"), "approved")

	second := d.agent(t).hold(newID("signed_"), map[string]any{"to": newID("acct_"), "amount": 2})
	b.open("/approvals/" + second.ID)
	b.visible(testid("deny"))
	b.choose(testid("kind"), "never")
	b.click(testid("deny"))
	b.sees(testid("votes"), "signed with a passkey")
	if got := d.agent(t).wait(second.ID); got.Status != "denied" {
		t.Errorf("denied with a signature: %+v", got)
	}

	// Several at once are signed one by one, or not at all.
	tool := newID("signed_")
	var pair []approval
	for i := range 2 {
		pair = append(pair, d.agent(t).hold(tool, map[string]any{"to": newID("acct_"), "amount": 3 + i}))
	}
	b.open("/inbox/together?id=" + pair[0].ID + "&id=" + pair[1].ID)
	b.sees(testid("approve"), "Approve all and sign each")
	finger(false)
	b.click(testid("approve"))
	b.sees("[data-passkey-status]", "cancelled")
	finger(true)
	b.click(testid("approve"))
	b.sees("h1", "2 votes are recorded")
	for _, one := range pair {
		if got := d.agent(t).wait(one.ID); got.Status != "approved" {
			t.Errorf("approved together, with a signature: %+v", got)
		}
	}
	b.clean()

	// The agent is told what its call waits for, and the log proves it to anybody.
	if len(a.Requirements) != 1 || !a.Requirements[0].Signed {
		t.Errorf("the agent is told of %+v", a.Requirements)
	}
	r := d.verified(t, d.exported(t))
	if r.code != 0 || !strings.Contains(r.out, "signed by the voters’ own passkeys") || !strings.Contains(r.out, "4 votes by usr_") {
		t.Errorf("%d: %s", r.code, r.out)
	}
}
