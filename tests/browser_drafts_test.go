package tests

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/jackc/pgx/v5"
)

// value waits until a field holds a text.
func (b *browser) value(selector, want string) {
	b.t.Helper()
	b.until(selector+" with "+want, loaded+` && (document.querySelector(`+quote(selector)+`) || {}).value === `+quote(want))
}

// adds writes behind what is in a field.
func (b *browser) adds(selector, s string) {
	b.t.Helper()
	b.visible(selector)
	b.eval(`(() => { const f = document.querySelector(` + quote(selector) + `); f.focus(); f.setSelectionRange(f.value.length, f.value.length); })()`)
	b.key(s)
}

// signInHere fills the form to sign in on the page that is there.
func (b *browser) signInHere(p person) {
	b.t.Helper()
	b.visible(`input[name=password]`)
	b.put(`input[name=email]`, p.Email)
	b.write(`input[name=password]`, p.Password+kb.Enter)
	b.visible(`form.who`)
}

// provedAt makes the person's proof so old, in seconds.
func (d *dev) provedAt(t testing.TB, p person, seconds int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	tag, err := conn.Exec(t.Context(), `UPDATE sessions SET verified_at = clock_timestamp() - make_interval(secs => $2)
		FROM people p WHERE p.id = person_id AND lower(p.email) = lower($1)`, p.Email, seconds)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%d sessions, %v", tag.RowsAffected(), err)
	}
}

// TestBrowserKeepsWords: what somebody writes is on the card again after leaving it, after
// signing in again, after a colleague's change, and after a field that is wrong; and gone
// once it is sent.
func TestBrowserKeepsWords(t *testing.T) {
	d := onBrowsed(t)
	p := d.newPerson(t, "--role", "reviewer")
	a := d.agent(t).hold(newID("pair_words_"), map[string]any{"to": newID("acct_"), "amount": 1})
	card := "/approvals/" + a.ID
	b := openBrowser(t, d.URL)
	b.signIn(p)
	b.open(card)
	b.write(testid("comment"), "half a thought")
	b.sees(testid("draft-note"), "Saved as a draft")
	b.open("/history")
	b.open(card)
	b.value(testid("comment"), "half a thought")

	// Left by a link at once after the last letter.
	b.adds(testid("comment"), " and more")
	b.click(`nav a[href="/history"]`)
	b.at("/history")
	b.open(card)
	b.value(testid("comment"), "half a thought and more")

	// The session ends, and the form is sent.
	other := b.tab()
	other.open("/history")
	other.click(`form.who button`)
	other.at("/login")
	b.adds(testid("comment"), ", sent")
	b.visible(testid("signed-out")) // it moves what is below it
	b.click(testid("deny"))
	b.sees(testid("signed-out-words"), "it is on the card again")
	b.signInHere(p)
	b.at(card)
	b.value(testid("comment"), "half a thought and more, sent")

	// The session ends while somebody writes, and a colleague acts.
	b.open(card)
	b.unfold("do-comment")
	other.open("/history")
	other.click(`form.who button`)
	other.at("/login")
	d.reviewer(t, 0).approve(a)
	b.write(testid("remark"), "typed after the end")
	b.visible(testid("signed-out"))
	b.adds(testid("remark"), ", and on")
	b.click(testid("sign-in-again"))
	b.signInHere(p)
	b.at(card)
	b.value(testid("comment"), "half a thought and more, sent")
	b.value(testid("remark"), "typed after the end, and on")
	b.click(testid("send-comment"))
	b.sees(testid("timeline"), "typed after the end, and on")
	b.value(testid("remark"), "")

	// A term that is none: the card says so, with everything in place.
	b.unfold("tighten")
	b.unfold("other-terms")
	b.write(testid("constraints"), "100")
	b.click(testid("approve"))
	b.sees(testid("vote-failure"), "no JSON object")
	b.value(testid("comment"), "half a thought and more, sent")
	b.value(testid("constraints"), "100")
	b.until("the card's own address", `location.pathname === `+quote(card))
	b.put(testid("constraints"), "")
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")
	b.sees(testid("timeline"), "half a thought and more, sent")
	conn, err := pgx.Connect(t.Context(), d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var left int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM drafts WHERE approval_id = $1`, a.ID).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d drafts of a call that is decided, %v", left, err)
	}
}

// TestBrowserKeepsWordsAboutSeveral: what somebody writes where several calls are decided
// together is there again after leaving, without a script, too, and for those that are left;
// and gone once it is sent.
func TestBrowserKeepsWordsAboutSeveral(t *testing.T) {
	d := onBrowsed(t)
	agent, tool := d.agent(t), newID("refund_words_")
	hold := func(n int) approval {
		return agent.hold(tool, map[string]any{"order": fmt.Sprintf("A-%d", n)})
	}
	calls := []approval{hold(1), hold(2), hold(3)}
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	together := "/inbox/together?" + url.Values{"id": {calls[0].ID, calls[1].ID, calls[2].ID}}.Encode()
	b.open(together)
	b.write(testid("comment"), "as agreed")
	b.sees(testid("draft-note"), "Saved as a draft")
	b.adds(testid("comment"), " with Ann")
	b.click(`nav a[href="/history"]`)
	b.at("/history")
	b.open(together)
	b.value(testid("comment"), "as agreed with Ann")
	b.fits("words that are there again")
	d.reviewer(t, 1).vote(calls[0], "deny").want(t, 200)
	b.open(together)
	b.sees(testid("together-count"), "2 calls of")
	b.value(testid("comment"), "as agreed with Ann")
	b.click(testid("approve"))
	b.sees("h1", "2 votes are recorded")
	for i, want := range []string{"denied", "approved", "approved"} {
		if got := agent.wait(calls[i].ID); got.Status != want {
			t.Errorf("call %d is %s, want %s", i, got.Status, want)
		}
	}
	together = "/inbox/together?" + url.Values{"id": {hold(4).ID, hold(5).ID, calls[0].ID}}.Encode()
	b.open(together)
	b.value(testid("comment"), "")
	// Without a script, whatever leads on from the page takes the words along.
	b.do(chromedp.Func(withoutScript))
	for _, press := range []string{`tr.whole`, testid("apart"), `.crumb`} {
		b.open(together)
		b.eval(`document.querySelectorAll("tr.whole details").forEach((el) => { el.open = true })`)
		if got := b.eval(`[...document.querySelectorAll("#main a[href]")].filter((a) => a.checkVisibility() && !a.hash).map((a) => a.href).join()`); got != "" {
			t.Errorf("a link of the page loses what is written: %s", got)
		}
		words := "before " + press
		b.put(testid("comment"), words)
		b.eval(mark)
		b.click(press + ` button.link`)
		b.until("the page behind "+press, loaded+` && !(`+marked+`)`)
		if got := b.eval(`location.pathname`); press == ".crumb" && got != "/" || press != ".crumb" && !strings.HasPrefix(got, "/approvals/apr_") {
			t.Errorf("%s leads to %s", press, got)
		}
		b.open(together)
		b.value(testid("comment"), words)
	}
	b.clean()
}

// TestBrowserKeepsWordsOfAnEdit: half an edit is there again, and one over arguments that
// a colleague has changed meanwhile says so.
func TestBrowserKeepsWordsOfAnEdit(t *testing.T) {
	d := onBrowsed(t)
	a := d.agent(t).hold(newID("edit_words_"), map[string]any{"to": newID("acct_"), "amount": 89000})
	card := "/approvals/" + a.ID
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	b.open(card)
	b.write(testid("comment"), "looks odd")
	b.click(testid("edit"))
	b.visible(testid("edit-form"))
	b.put(`[name="argument:amount"]`, "98000")
	// More than is kept of a form: it says so, and keeps what is less.
	b.eval(`(() => { const f = document.querySelector("[data-testid=reason]"); f.value = "ß".repeat(200000); f.dispatchEvent(new Event("input", { bubbles: true })); })()`)
	b.sees(testid("draft-note"), "more than the server keeps")
	b.put(testid("reason"), "")
	b.write(testid("reason"), "The invoice says 98,000.")
	b.sees(testid("draft-note"), "Saved as a draft")
	b.click(`.crumb a`)
	b.at(card)
	b.click(testid("edit"))
	b.value(`[name="argument:amount"]`, "98000")
	b.value(testid("reason"), "The invoice says 98,000.")
	b.open(card)
	b.value(testid("comment"), "looks odd")

	colleague := openBrowser(t, d.URL)
	colleague.signIn(d.Reviewers[1])
	colleague.open(card)
	colleague.click(testid("edit"))
	colleague.put(`[name="argument:amount"]`, "97000")
	colleague.write(testid("reason"), "A typo.")
	colleague.click(testid("review-edit"))
	colleague.click(testid("save-edit"))
	colleague.sees(testid("edition"), "changed amount")
	b.visible("#changed:not([hidden])")
	b.click("#changed a")
	b.sees(testid("args"), "97000")
	b.value(testid("comment"), "looks odd")
	b.click(testid("edit"))
	b.sees(testid("problems"), "have changed since you wrote this")
	b.value(`[name="argument:amount"]`, "98000")
	b.clean()
	colleague.clean()
}

// TestBrowserProvesInPlace: a card that is left open says in time that the proof is too
// old, takes a fresh one where the decision is, and what was written goes with the vote.
func TestBrowserProvesInPlace(t *testing.T) {
	d := onBrowsed(t)
	p := d.newPerson(t, "--role", "reviewer")
	name := strings.ToLower(newID(""))
	var asked struct{ Approval approval }
	d.agent(t).do("POST", "/v1/tool-requests", []byte(strings.ReplaceAll(toolDraft, "census", "census"+name)), header{"Content-Type", "text/markdown; charset=utf-8"}).
		want(t, http.StatusAccepted).into(t, &asked)
	card := "/approvals/" + asked.Approval.ID
	b := openBrowser(t, d.URL)
	b.signIn(p)
	b.open(card)
	b.sees(testid("approve"), "Approve")
	b.eval(mark)
	b.write(testid("comment"), "read it twice")
	// Proved anew in another tab: the page asks, and goes on as it is.
	const lapses, until = `document.querySelector("[data-proved-until]").dataset.provedUntil = new Date(Date.now() - 60000).toISOString()`, `Date.parse(document.querySelector("[data-proved-until]").dataset.provedUntil)`
	b.eval(lapses)
	b.until("the time of the newer proof", until+` > Date.now()`)
	b.sees(testid("approve"), "Approve")
	d.provedAt(t, p, 3000)
	b.eval(lapses)
	b.sees(testid("approve"), "Verify and approve")
	b.value(testid("comment"), "read it twice")
	if b.eval(marked) != "true" {
		t.Error("the card was reloaded to say so")
	}
	if b.eval(`document.activeElement.matches("[data-testid=comment]")`) != "true" {
		t.Error("the cursor is not where it was")
	}
	b.everywhere(card + " with a proof")
	b.write(`[data-testid=proof] input[name=password]`, "wrong"+kb.Enter)
	b.sees(testid("vote-failure"), "")
	b.value(testid("comment"), "read it twice")
	b.write(`[data-testid=proof] input[name=password]`, p.Password)
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")
	b.sees(testid("timeline"), "read it twice")
}

// withoutScript has the tab's pages run no scripts.
func withoutScript(ctx context.Context, target *chromedp.Target) error {
	_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	return err
}

// TestBrowserKeepsWordsWithoutScript: the paths of a form need no script to lose nothing.
func TestBrowserKeepsWordsWithoutScript(t *testing.T) {
	d := onBrowsed(t)
	p := d.newPerson(t, "--role", "reviewer")
	a := d.agent(t).hold(newID("noscript_words_"), map[string]any{"to": newID("acct_")})
	card := "/approvals/" + a.ID
	b := openBrowser(t, d.URL)
	b.signIn(p)
	other := b.tab()
	b.do(chromedp.Func(withoutScript))
	b.open(card)
	// A form of its own beside the vote has a page of its own.
	b.unfold("do-comment")
	if b.eval(`document.querySelector("[data-testid=remark]").checkVisibility()`) != "false" {
		t.Error("without script a card has another form for words than the vote's")
	}
	b.write(testid("comment"), "half a thought")
	b.click(`[data-testid=do-comment] .apartlink button`)
	b.at(card + "/comments")
	b.write(testid("remark"), "said by itself")
	b.click(testid("send-comment"))
	b.at(card)
	b.sees(testid("timeline"), "said by itself")
	// Whatever else is pressed on the card, the words of the vote are there again.
	b.value(testid("comment"), "half a thought")
	if b.eval(`[...document.querySelectorAll("#main a[href]")].filter(a => a.checkVisibility() && !a.download && !a.closest(".crumb, .timeline, .note")).map(a => a.href).join()`) != "" {
		t.Errorf("a link of the card loses what is written: %s", b.eval(`document.querySelector("#main").innerHTML`))
	}
	for _, press := range []string{`[data-carries=claim]`, `[data-carries="draft?then=edit"]`, `[data-carries="draft?then=grant"]`, `[data-carries="draft?then="]`, `[data-testid=do-snooze] button[value="30m"]`} {
		if strings.Contains(press, "snooze") {
			b.unfold("do-snooze")
		}
		words := "words for " + press
		b.put(testid("comment"), words)
		b.eval(mark)
		b.click(press)
		b.until("the page behind "+press, loaded+` && !(`+marked+`)`)
		b.open(card)
		b.value(testid("comment"), words)
	}
	if timeline := b.text(testid("timeline")); !strings.Contains(timeline, "claimed it") || strings.Contains(timeline, "words for") {
		t.Errorf("the timeline has what was written for the vote: %s", timeline)
	}
	b.put(testid("comment"), "written without a script")
	other.open("/history")
	other.click(`form.who button`)
	other.at("/login")
	b.click(testid("approve"))
	b.visible(testid("signed-out-words"))
	b.put(`input[name=email]`, p.Email)
	b.write(`input[name=password]`, p.Password+kb.Enter)
	b.visible(testid("approve"))
	b.value(testid("comment"), "written without a script")
	b.click(testid("approve"))
	if got := d.agent(t).wait(a.ID); got.Status != "approved" {
		t.Errorf("got %+v", got)
	}
}

// TestBrowserShowsWhatAnEditChanged: who decides an edited call is shown what it was
// before, field by field.
func TestBrowserShowsWhatAnEditChanged(t *testing.T) {
	d := onBrowsed(t)
	to := newID("acct_")
	a := d.agent(t).hold(newID("edited_"), map[string]any{"to": to, "amount": 89000, "memo": map[string]any{"text": "July", "ref": 7}})
	card := "/approvals/" + a.ID
	editor := openBrowser(t, d.URL)
	editor.signIn(d.Reviewers[0])
	editor.open(card)
	editor.click(testid("edit"))
	editor.put(`[name="argument:amount"]`, "98000")
	editor.put(`[name="argument:memo.text"]`, "August")
	editor.write(testid("reason"), "The invoice says so.")
	editor.click(testid("review-edit"))
	editor.click(testid("save-edit"))
	editor.sees(testid("edition"), "changed")

	next := openBrowser(t, d.URL)
	next.signIn(d.Reviewers[1])
	next.open(card)
	next.sees(testid("what-changed"), "The invoice says so.")
	changed := next.text(testid("what-changed"))
	for _, want := range []string{"amount", "89000", "98000", "memo.text", `"July"`, `"August"`} {
		if !strings.Contains(changed, want) {
			t.Errorf("%q is not among what was changed: %s", want, changed)
		}
	}
	if strings.Contains(changed, to) {
		t.Errorf("what is as it was is among what was changed: %s", changed)
	}
	next.everywhere(card + " after an edit")
	next.click(testid("approve"))
	next.sees(testid("status"), "approved")
	editor.clean()
	next.clean()
}

// TestBrowserGoesOnToTheNext: by keys alone, a vote leads to the next call that waits.
func TestBrowserGoesOnToTheNext(t *testing.T) {
	d := onBrowsed(t)
	first, second := d.agent(t).hold(newID("flow_"), map[string]any{"to": newID("acct_")}), d.agent(t).hold(newID("flow_"), map[string]any{"to": newID("acct_")})
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	b.open("/approvals/" + first.ID)
	b.visible(testid("approve"))
	b.key("c")
	b.until("the cursor in the comment", `document.activeElement.matches("[data-testid=comment]")`)
	b.key("acd, and j")
	b.until("letters in the comment", `document.activeElement.value.endsWith("acd, and j")`)
	b.eval(`document.activeElement.blur()`)
	b.key("a")
	b.key(kb.Enter)
	b.until("the link to the next one, with the focus", loaded+` && document.activeElement.matches("[data-testid=next-link]")`)
	b.sees(testid("status"), "approved")
	b.until("the focus still there", `document.activeElement.matches("[data-testid=next-link]")`)
	if b.eval(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", repeat: true, bubbles: true, cancelable: true }))`) != "false" {
		t.Error("the key that is held opens the next card")
	}
	next := b.eval(`document.activeElement.pathname`)
	if next == "/approvals/"+first.ID {
		t.Error("the next card is the one that was decided")
	}
	b.until("the page to take keys", `document.documentElement.dataset.settled === "1"`)
	b.eval(`document.activeElement.blur()`)
	b.key("j")
	b.key(kb.Enter)
	b.until("the next card", loaded+` && location.pathname === `+quote(next)+` && document.querySelector("[data-card]") !== null`)
	b.clean()
	d.reviewer(t, 0).approve(second)
}
