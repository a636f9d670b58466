package tests

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// unfold opens everything that is folded up.
const unfold = `document.querySelectorAll("details").forEach((e) => { e.open = true; })`

// TestBrowserGrants: a reviewer who is asked the same thing again and again makes
// a grant from a card, is shown the denial that it would overrule, and sees it
// used; what is not like the card still waits, and nothing passes once it is
// revoked.
func TestBrowserGrants(t *testing.T) {
	d := onBrowsed(t)
	agent, tool := d.agent(t), newID("rent_")
	call := func(amount int) map[string]any {
		return map[string]any{"amount": amount, "to": map[string]any{"iban": "DE02 1203 0000"}}
	}
	reviewer := d.reviewer(t, 2)
	denied := agent.hold(tool, call(70))
	reviewer.vote(denied, "deny").want(t, 200)
	agent.wait(denied.ID)
	seen := agent.hold(tool, call(50))

	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	b.open("/grants")
	b.sees("h1", "Standing grants")
	b.fits("/grants")
	form := "/approvals/" + seen.ID + "/grant"
	b.open("/approvals/" + seen.ID)
	b.open(form)
	b.visible(testid("grant-form"))
	b.fits(form)
	if shown := b.text(testid("leaf")); !bytes.Contains([]byte(shown), []byte("50")) {
		t.Errorf("the first leaf is shown as %q", shown)
	}
	b.choose("select[name=op0]", "at_most")
	b.put("textarea[name=value0]", "100")
	b.put("input[name=reason]", "the weekly rent")
	b.click(testid("try-grant"))
	b.sees(testid("past-count"), "2 are like that")
	b.eval(unfold)
	b.sees(testid("past"), denied.ID)
	b.fits(form + " tried")
	b.click(testid("acknowledge"))
	b.click(testid("save-grant"))
	b.sees(testid("notice"), "standing grant was made")
	b.open("/grants")
	b.sees(testid("grant"), "is at most 100")
	b.sees(testid("grant"), "0 of 10")

	passed, large := agent.hold(tool, call(99)), agent.hold(tool, call(101))
	if a := agent.wait(passed.ID); a.Status != "approved" || a.Token == "" {
		t.Errorf("like the card: %s", a.Status)
	}
	b.open("/grants")
	b.sees(testid("grant"), "1 of 10")
	b.eval(unfold)
	b.sees(testid("grant"), passed.ID)
	b.fits("/grants with a grant")
	b.open("/approvals/" + passed.ID)
	b.sees(testid("timeline"), "approved")

	var list struct {
		Grants []struct {
			ID     string   `json:"id"`
			Tool   string   `json:"tool_name"`
			Live   bool     `json:"live"`
			UsedBy []string `json:"used_by"`
		} `json:"grants"`
	}
	answer := d.admin(t).do("GET", "/v1/grants", nil).want(t, 200)
	if err := json.Unmarshal(answer.Body, &list); err != nil || bytes.Contains(answer.Body, []byte("DE02")) {
		t.Errorf("the list for programs: %s, %v", answer.Body, err)
	}
	id := ""
	for _, g := range list.Grants {
		if g.Tool == tool && g.Live && len(g.UsedBy) == 1 && g.UsedBy[0] == passed.ID {
			id = g.ID
		}
	}
	if id == "" {
		t.Fatalf("the grant is not in %s", answer.Body)
	}
	agent.do("GET", "/v1/grants", nil).want(t, 403, "scope_missing")
	b.open("/grants")
	b.click("#" + id + " " + testid("revoke-grant"))
	b.sees(testid("notice"), "standing grant was revoked")
	reviewer.do("POST", "/v1/grants/"+id+"/revoke", nil).want(t, 409, "grant_over")
	after := agent.hold(tool, call(1))
	if a, err := agent.await(after.ID, 3*time.Second); err == nil {
		t.Errorf("after the revocation: %s", a.Status)
	}
	for _, waiting := range []approval{seen, large, after} {
		if a := agent.get(waiting.ID); a.Status != "pending" {
			t.Errorf("%s is %s", waiting.ID, a.Status)
		}
		agent.cancel(waiting.ID).want(t, 200)
	}
	b.clean()
}
