package tests

import (
	"strings"
	"testing"
)

// unfold opens a folded part of a card.
func (b *browser) unfold(id string) { b.t.Helper(); b.click(testid(id) + " > summary") }

// TestBrowserDiscussion: a reviewer takes a call on, comments, asks, and is answered
// by the agent's owner; another reviewer's open card shows all of it by itself.
func TestBrowserDiscussion(t *testing.T) {
	d := onBrowsed(t)
	a := d.agent(t).hold(newID("talk_"), map[string]any{"to": "DE02 1203 0000", "amount": 1200})
	card := "/approvals/" + a.ID

	other := openBrowser(t, d.URL)
	other.signIn(d.Reviewers[1])
	other.open(card)
	other.visible(testid("approve"))
	other.eval(mark)
	// What is being written stays while the card looks again.
	other.write(testid("comment"), "half a thought")

	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[0])
	b.open(card)
	b.click(testid("claim"))
	b.sees(testid("taken"), "You have claimed this")
	other.sees(testid("taken"), "Claimed by")
	b.unfold("do-comment")
	b.write(testid("remark"), "The amount looks odd.")
	b.click(testid("send-comment"))
	b.sees(testid("notice"), "Your comment is on the card")
	other.sees(testid("timeline"), "The amount looks odd.")
	b.unfold("do-ask")
	b.write(testid("ask"), "Which invoice is it for?")
	b.click(testid("send-question"))
	b.sees(testid("question"), "Which invoice is it for?")
	other.sees(testid("question"), "Which invoice is it for?")

	owner := openBrowser(t, d.URL)
	owner.signIn(d.Owner)
	owner.sees(testid("mine"), "A reviewer asks: ")
	owner.open(card)
	owner.write(testid("answer"), "For 2026-1187.")
	owner.click(testid("send-answer"))
	owner.sees(testid("timeline"), "For 2026-1187.")
	b.sees(testid("timeline"), "For 2026-1187.")
	b.sees(testid("answered"), "For 2026-1187.") // beside the decision, where the question stood
	other.sees(testid("timeline"), "For 2026-1187.")
	if got := other.eval(`document.querySelector("[data-testid=comment]").value`); got != "half a thought" {
		t.Errorf("what was being written is now %q", got)
	}
	if other.eval(marked) != "true" {
		t.Error("the other card was reloaded to show it")
	}
	b.click(testid("unclaim"))
	b.visible(testid("claim"))
	b.unfold("do-pass-on")
	b.write(testid("pass-on-to"), strings.TrimSuffix(d.Reviewers[1].Email, "@example.com"))
	b.click(testid("pass-on"))
	b.sees(testid("notice"), "Your colleague is told")
	other.sees(testid("taken"), "has passed this on to you")
	other.open("/?mine=1")
	other.sees("[data-row="+a.ID+"]", "passed it on to you")
	b.open("/?q=" + a.ID)
	b.sees("[data-row="+a.ID+"]", "you passed it on to")
	b.open(card)
	b.sees(testid("taken"), "you have passed this on to")
	b.click(testid("claim")) // takes it back
	b.sees(testid("taken"), "you have claimed this")
	for _, one := range []*browser{b, other, owner} {
		one.clean()
	}
}

// TestBrowserEdits: a reviewer changes the arguments after having seen what that
// changes; an open card does not let anybody approve what it does not show; and
// somebody else approves the call as it is now.
func TestBrowserEdits(t *testing.T) {
	d := onBrowsed(t)
	tool := newID("edit_")
	a := d.agent(t).hold(tool, map[string]any{"to": "Acme", "amount": 89000})
	card := "/approvals/" + a.ID

	second := openBrowser(t, d.URL)
	second.signIn(d.Reviewers[1])
	second.open(card)
	second.visible(testid("approve"))

	first := openBrowser(t, d.URL)
	first.signIn(d.Reviewers[0])
	first.open(card)
	first.click(testid("edit"))
	first.visible(testid("edit-form"))
	first.put(`[name="argument:amount"]`, "98000")
	first.write(testid("reason"), "The invoice says 98,000.")
	first.click(testid("review-edit"))
	first.sees(testid("changes"), "89000")
	first.sees(testid("changes"), "98000")
	if got := d.agent(t).get(a.ID); got.Version != a.Version {
		t.Fatal("looking at a change made it")
	}
	first.click(testid("save-edit"))
	first.sees(testid("edition"), "changed amount")
	if first.eval(`document.querySelector("[data-testid=approve]") === null`) != "true" {
		t.Error("whoever changed the call may approve it")
	}
	second.visible("#changed:not([hidden])")
	if second.eval(`document.querySelector("[data-testid=approve]").disabled`) != "true" {
		t.Error("the card of before can still be approved")
	}
	second.open(card)
	second.sees(testid("args"), "98000")
	second.sees(testid("edition"), "The invoice says 98,000.")
	second.click(testid("approve"))
	second.sees(testid("status"), "approved")
	got := d.agent(t).wait(a.ID)
	if got.Status != "approved" || got.Digest == a.Digest {
		t.Fatalf("the agent got %+v", got)
	}
	d.agent(t).redeem(got.Token, tool, map[string]any{"to": "Acme", "amount": 89000}).want(t, 403, "arguments_mismatch")
	d.agent(t).redeem(got.Token, tool, map[string]any{"to": "Acme", "amount": 98000}).want(t, 200)
	first.clean()
	second.clean()
}
