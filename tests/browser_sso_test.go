package tests

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"holdpoint/internal/ssotest"
)

// ssoSettings are a dev's, with the provider; what is routed to a lead waits for one.
func ssoSettings(p *ssotest.Provider) string {
	return fmt.Sprintf(`sso:
  - name: corp
    label: Corp ID
    issuer: %s
    client_id: %s
    client_secret: %q
    create: true
    email_domains: [example.com]
    sign_out: true
    roles: {deciders: [reviewer], leads: [lead]}
routing:
  rules:
    - {tool: "lead_*", role: lead, needed: 1, expires_in: 1h}
  default: {role: reviewer, needed: 1, expires_in: 1h}
`, p.URL, p.ClientID, p.ClientSecret)
}

// TestBrowserSSO: somebody whom nobody has added signs in at a provider by one key,
// decides by the role of their group, has another role by a further group, signs out
// there, too, and does not come in once they are disabled.
func TestBrowserSSO(t *testing.T) {
	ownPrograms(t)
	p := ssotest.New(t)
	d := startDev(t, func(o *devOptions) { o.policy = ssoSettings(p) })
	p.Person("u-1", "sso-ada@example.com", map[string]any{"groups": []string{"deciders"}})
	b := openBrowser(t, d.URL)
	b.open("/login")
	b.everywhere("/login with a provider")
	b.open("/login")
	b.until("the button of the provider to have the focus", `document.activeElement.textContent === "Sign in with Corp ID"`)
	b.key(kb.Enter)
	b.visible("form.who")
	a, forLeads := d.agent(t).hold("pay", nil), d.agent(t).hold("lead_on", nil)
	b.open("/approvals/" + a.ID)
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")
	if got := d.agent(t).wait(a.ID); got.Status != "approved" {
		t.Errorf("it came to %+v", got)
	}
	b.open("/account")
	b.sees(testid("account"), "reviewer")

	// At the provider, too; then with the other group as well.
	b.click("form.who button")
	b.at("/login")
	b.until("to be back", `document.querySelector('[data-testid=providers]') !== null`)
	signedOut := 0
	p.Set(func(p *ssotest.Provider) { signedOut = p.SignOuts })
	if signedOut != 1 {
		t.Errorf("signed out at the provider %d times", signedOut)
	}
	p.Person("u-1", "sso-ada@example.com", map[string]any{"groups": []string{"deciders", "leads"}})
	b.open("/login?next=" + "/approvals/" + forLeads.ID)
	b.click(testid("providers") + " a")
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")

	// A proof that the account's page asks for is made there.
	b.open("/verify?next=/account")
	b.click(testid("at-provider"))
	b.at("/account")
	b.sees(testid("account"), "single sign-on")

	must(t, nil, "", "user", "disable", "sso-ada@example.com", "--data", d.dir)
	b.open("/login")
	b.clean()
	b.click(testid("providers") + " a")
	b.sees("#failure", "Your account here is disabled")
	p.Set(func(p *ssotest.Provider) { p.Error = "access_denied" })
	b.open("/login")
	b.click(testid("providers") + " a")
	b.sees("#failure", "did not let you in")
}
