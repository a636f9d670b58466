package web

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
)

// fakeDrafts are drafts by person, approval and form.
type fakeDrafts map[string]url.Values

func (d fakeDrafts) Keep(_ context.Context, p engine.Person, id, form string, fields url.Values) error {
	if d[p.ID+" "+id+" "+form] = fields; fields == nil {
		delete(d, p.ID+" "+id+" "+form)
	}
	return nil
}

func (d fakeDrafts) OfApproval(_ context.Context, p engine.Person, id string) (map[string]url.Values, error) {
	kept := map[string]url.Values{}
	for form := range draftFields {
		if fields := d[p.ID+" "+id+" "+form]; fields != nil {
			kept[form] = fields
		}
	}
	return kept, nil
}

func (d fakeDrafts) Drop(_ context.Context, p engine.Person, id, form string) error {
	delete(d, p.ID+" "+id+" "+form)
	return nil
}

func startWithDrafts(t *testing.T) (*client, fakeDrafts) {
	drafts := fakeDrafts{}
	return start(t, func(cfg *Config) { cfg.Drafts, cfg.Prover = drafts, cfg.Inbox.(*fakeGate) }), drafts
}

// hiddenFields are the hidden fields of a page's forms.
func hiddenFields(page string) url.Values {
	fields := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		fields.Add(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
	}
	return fields
}

// TestDraftsOutliveTheSession: a form that comes after the session's end is on the card
// again once its writer has signed in, in one step or two, and nothing of it is taken
// before.
func TestDraftsOutliveTheSession(t *testing.T) {
	c, drafts := startWithDrafts(t)
	card := c.m.add("apr_1", "payments.transfer", `{"amount":1}`, nil)
	form := ballotFor(card, "approve")
	form.Set("comment", `<b>because "I" & you</b>`)
	form.Set("writer", "usr_ada")
	form.Set("code", "123456")
	page := c.do("POST", "/approvals/apr_1/votes", form)
	page.want(t, http.StatusUnauthorized, "nothing was decided", "it is on the card again", `action="/login"`)
	if len(drafts) != 0 || len(c.m.votes) != 0 {
		t.Fatalf("taken from nobody: %v, %v", drafts, c.m.votes)
	}
	fields := hiddenFields(page.body)
	if fields.Get("votes:code") != "" || strings.Contains(page.body, "123456") {
		t.Error("a code is carried")
	}
	fields.Set("email", "ada@example.com")
	fields.Set("password", "wrong")
	page = c.do("POST", "/login", fields)
	page.want(t, http.StatusUnauthorized, "do not go together")
	fields = hiddenFields(page.body)
	fields.Set("email", "ada@example.com")
	fields.Set("password", "right")
	done := c.do("POST", "/login", fields)
	if done.StatusCode != http.StatusSeeOther || done.Header.Get("Location") != "/approvals/apr_1" {
		t.Fatalf("after signing in: %s %q", done.Status, done.Header.Get("Location"))
	}
	c.get("/approvals/apr_1").want(t, http.StatusOK, "&lt;b&gt;because &#34;I&#34; &amp; you&lt;/b&gt;</textarea>", "What you had written is here again")
	c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusSeeOther)
	if len(drafts) != 0 || len(c.m.votes) != 1 {
		t.Errorf("sent, and still kept: %v", drafts)
	}

	// What no draft is kept of is there to copy; what says nothing, or comes from a
	// script, goes the old way.
	c.do("POST", "/logout", url.Values{})
	c.do("POST", "/sessions/agt/ses/votes", url.Values{"comment": {"for all of them"}}).want(t, http.StatusUnauthorized, "for all of them</textarea>")
	for path, form := range map[string]url.Values{"/approvals/apr_1/votes": {"decision": {"approve"}, "kind": {"never"}}, "/approvals/apr_1/claim": {}, "/approvals/apr_1/votes/options": {"comment": {"x"}}} {
		if path == "/approvals/apr_1/votes/options" {
			c.do("POST", path, form, "Sec-Fetch-Dest", "empty").want(t, http.StatusSeeOther)
			continue
		}
		c.do("POST", path, form).want(t, http.StatusSeeOther)
	}
	evil := url.Values{"email": {"ada@example.com"}, "password": {"right"}, "draft_for": {"apr_1"}, "writer": {"usr_ada"}, "form": {"login", "comments"}, "login:comment": {"x"}, "comments:other": {"x"}, "comments:comment": {"a\x00b"}}
	c.do("POST", "/login", evil).want(t, http.StatusUnprocessableEntity)
	evil.Set("comments:comment", "fine")
	c.do("POST", "/login", evil).want(t, http.StatusSeeOther)
	if got := drafts["usr_ada apr_1 comments"].Encode(); len(drafts) != 1 || got != "comment=fine" {
		t.Errorf("carried %v", drafts)
	}
}

// TestDraftsBelongToTheirWriter: whoever signs in after somebody else's session has ended
// does not get that person's words.
func TestDraftsBelongToTheirWriter(t *testing.T) {
	c, drafts := startWithDrafts(t)
	card := c.m.add("apr_1", "payments.transfer", `{"amount":1}`, nil)
	form := c.signIn("ada@example.com").get("/approvals/apr_1")
	form.want(t, http.StatusOK, `name="writer" value="usr_ada"`)
	c.do("POST", "/logout", url.Values{})
	written := ballotFor(card, "approve")
	c.do("POST", "/approvals/apr_1/votes", written).want(t, http.StatusUnauthorized, "because</textarea>") // of nobody knows whom
	written.Set("writer", "usr_ada")
	fields := hiddenFields(c.do("POST", "/approvals/apr_1/votes", written).body)
	if fields.Get("votes:comment") != "because" {
		t.Fatalf("carried %v", fields)
	}
	fields.Set("email", "grace@example.com")
	fields.Set("password", "right")
	c.do("POST", "/login", fields).want(t, http.StatusSeeOther)
	if len(drafts) != 0 {
		t.Errorf("kept for somebody else: %v", drafts)
	}
	// Ada's page goes on saving, in Grace's session.
	late := url.Values{"writer": {"usr_ada"}, "form": {"votes"}, "votes:comment": {"because"}}
	c.do("POST", "/approvals/apr_1/draft", late, "Sec-Fetch-Dest", "empty").want(t, http.StatusConflict, `"code":"not_yours"`)
	c.do("POST", "/approvals/apr_1/votes", written).want(t, http.StatusConflict, "Somebody else was signed in")
	if len(drafts) != 0 || len(c.m.votes) != 0 {
		t.Errorf("kept for somebody else: %v, voted for her: %v", drafts, c.m.votes)
	}
	fields.Set("email", "ada@example.com")
	c.do("POST", "/login", fields).want(t, http.StatusSeeOther)
	if drafts["usr_ada apr_1 votes"].Get("comment") != "because" {
		t.Errorf("kept %v", drafts)
	}
}

// TestFormsThatAreNotTaken: whatever refuses a form, the card has its words again.
func TestFormsThatAreNotTaken(t *testing.T) {
	c, drafts := startWithDrafts(t)
	card := c.m.add("apr_1", "payments.transfer", `{"amount":1}`, constraints(`{"max_amount":5}`))
	c.signIn("ada@example.com")
	form := ballotFor(card, "approve")
	form.Set("constraints", "[1]")
	c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusUnprocessableEntity, `data-testid="vote-failure"`, "no JSON object", "because</textarea>", "[1]</textarea>", `data-testid="approve"`)
	c.get("/approvals/apr_1").want(t, http.StatusOK, "because</textarea>", "[1]</textarea>", `<details class="fold" open data-testid="tighten">`)
	card.Approval.Version = 2
	c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusUnprocessableEntity)
	form.Set("constraints", "")
	c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusConflict, "Your vote was not recorded")
	c.get("/approvals/apr_1").want(t, http.StatusOK, "because</textarea>")
	c.m.broken = errors.New("away")
	c.do("POST", "/approvals/apr_1/questions", url.Values{"comment": {"which xxx"}}).want(t, http.StatusServiceUnavailable)
	c.m.broken = nil
	c.get("/approvals/apr_1").want(t, http.StatusOK, "which xxx")
	if len(drafts) != 2 || len(c.m.votes) != 0 {
		t.Errorf("kept %v", drafts)
	}
	// A script keeps while somebody writes; what was emptied is kept no more.
	c.do("POST", "/approvals/apr_1/draft", url.Values{"form": {"votes", "comments", "nonsense"}, "votes:comment": {""}, "votes:kind": {"never"}, "comments:comment": {"half"}, "nonsense:comment": {"x"}},
		"Sec-Fetch-Dest", "empty").want(t, http.StatusNoContent)
	if drafts["usr_ada apr_1 votes"] != nil || drafts["usr_ada apr_1 comments"].Get("comment") != "half" || len(drafts) != 2 {
		t.Errorf("kept %v", drafts)
	}
	// A script is told in its own format why a form is not even read.
	for status, form := range map[int]url.Values{
		http.StatusRequestEntityTooLarge: {"form": {"comments"}, "comments:comment": {strings.Repeat("a", maxEditForm)}},
		http.StatusUnprocessableEntity:   {"form": {"comments"}, "comments:comment": {"a\x00b"}},
	} {
		page := c.do("POST", "/approvals/apr_1/draft", form, "Sec-Fetch-Dest", "empty")
		page.want(t, status, `{"code":`, `"detail":`)
		if got := page.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%d comes as %q", status, got)
		}
	}
	c.signIn("grace@example.com").get("/approvals/apr_1").lacks(t, "half", "which xxx")
}

// TestFormsOfAnOlderCard: however the form of a card that has changed is filled in, it is
// not answered with a form for the new one; and words of before say that they are.
func TestFormsOfAnOlderCard(t *testing.T) {
	c, _ := startWithDrafts(t)
	card := c.m.add("apr_1", "payments.transfer", `{"amount":1}`, func(g *gate.Card) {
		g.Approval.Plan.Requirements = []engine.Requirement{{Kind: engine.Human, Role: "finance-approver", Needed: 1}}
	})
	c.signIn("ada@example.com")
	good := ballotFor(card, "approve")
	c.do("POST", "/approvals/apr_1/draft", url.Values{"form": {"votes"}, "votes:comment": {"because"}, "votes:digest": {card.Approval.Call.Digest}}).want(t, http.StatusSeeOther)
	c.get("/approvals/apr_1").lacks(t, `data-testid="written-before"`)
	card.Approval.Version, card.Approval.Call.Digest = 2, "sha256:"+strings.Repeat("cd", 32)
	shown := len(c.m.seen)
	for name, change := range map[string]func(url.Values){
		"terms that are none": func(f url.Values) { f.Set("constraints", "[1]") },
		"minutes":             func(f url.Values) { f.Set("valid_minutes", "soon") },
		"a long comment":      func(f url.Values) { f.Set("comment", strings.Repeat("a", gate.MaxComment+1)) },
		"a wrong code":        func(f url.Values) { f.Set("prove", "yes"); f.Set("code", "000000") },
		"no proof":            func(f url.Values) { f.Set("prove", "yes") },
	} {
		form, _ := url.ParseQuery(good.Encode())
		change(form)
		page := c.do("POST", "/approvals/apr_1/votes", form)
		if !strings.Contains(page.body, "not the ones that you were shown") || strings.Contains(page.body, `value="approve"`) {
			t.Errorf("%s: %s\n%s", name, page.Status, page.body)
		}
	}
	if len(c.m.votes) != 0 || len(c.m.seen) != shown {
		t.Errorf("votes %+v, and shown %d times", c.m.votes, len(c.m.seen)-shown)
	}
	c.get("/approvals/apr_1").want(t, http.StatusOK, `data-testid="written-before"`)
	none := ballotFor(card, "approve")
	none.Del("digest")
	c.do("POST", "/approvals/apr_1/votes", none).lacks(t, "not the ones that you were shown", `value="approve"`)
}

// TestProofInPlace: the proof that a vote takes is asked for on the card, and goes with
// the vote and its words; a wrong one leaves all of it there.
func TestProofInPlace(t *testing.T) {
	c, _ := startWithDrafts(t)
	now := epoch
	c.m.now = func() time.Time { return now }
	card := c.m.add("apr_1", "payments.transfer", `{"amount":1}`, func(g *gate.Card) {
		g.Approval.Plan.Requirements = []engine.Requirement{{Kind: engine.Human, Role: "finance-approver", Needed: 1}}
	})
	c.signIn("ada@example.com")
	c.get("/approvals/apr_1").want(t, http.StatusOK, `data-proved-until="2026-11-21T10:05:00Z"`, `data-mode="both"`)
	now = now.Add(approval.FreshFor + time.Second)
	page := c.get("/approvals/apr_1")
	page.want(t, http.StatusOK, `data-mode="prove"`, `data-testid="proof"`, `name="code"`, "Verify and approve", `data-testid="comment"`)
	page.lacks(t, "/verify?next", "data-proved-until=\"2")
	form := ballotFor(card, "approve")
	c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusForbidden, `data-testid="vote-failure"`, "because</textarea>", `data-testid="proof"`)
	form.Set("prove", "yes")
	c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusForbidden, "Prove who you are to approve this", "because</textarea>")
	form.Set("code", "000000")
	c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusForbidden, "not the right code", "because</textarea>")
	form.Set("code", "123456")
	c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusSeeOther)
	if len(c.m.votes) != 1 || c.m.votes[0].Comment != "because" || c.m.proved[len(c.m.proved)-1] != "session " {
		t.Errorf("votes %+v, proved %v", c.m.votes, c.m.proved)
	}
	if deny := ballotFor(card, "deny"); deny.Get("code") != "" {
		t.Error("denying takes a code")
	}
}

// TestRevealKeepsTheComment: what is written into the form of a vote goes with it when
// secrets are revealed, without script too, and what has been taken out of it is gone.
func TestRevealKeepsTheComment(t *testing.T) {
	c, drafts := startWithDrafts(t)
	c.signIn("ada@example.com")
	c.m.add("apr_1", "deploy", `{"api_key":"x"}`, func(card *gate.Card) {
		card.Masked = &gate.Masked{Places: []string{"api_key"}, Arguments: []byte(`{"api_key":"m"}`)}
	})
	c.get("/approvals/apr_1").want(t, http.StatusOK, `form="vote" formaction="/approvals/apr_1/reveal"`, `<form id="vote"`)
	form := url.Values{"writer": {"usr_ada"}, "comment": {"I asked Grace about it."}, "kind": {"never"}}
	c.do("POST", "/approvals/apr_1/reveal", form).want(t, http.StatusOK, "Revealed: api_key", "I asked Grace about it.</textarea>", `<option value="never" selected>`)
	form.Set("comment", "")
	if page := c.do("POST", "/approvals/apr_1/reveal", form); strings.Contains(page.body, "I asked Grace") || len(drafts) != 0 {
		t.Errorf("what was taken out is there again: %v", drafts)
	}
}

// TestFormsOnPagesOfTheirOwn: without script the forms into which people write beside their vote are on
// pages of their own, so that no other form of the card takes their words away. What is
// kept of each is there, and what the card does not offer is not.
func TestFormsOnPagesOfTheirOwn(t *testing.T) {
	c, drafts := startWithDrafts(t)
	c.signIn("ada@example.com")
	c.m.add("apr_1", "deploy", `{"api_key":"x"}`, func(card *gate.Card) {
		card.Masked = &gate.Masked{Places: []string{"api_key"}, Arguments: []byte(`{"api_key":"m"}`)}
	})
	for form, button := range map[string]string{"comments": "send-comment", "questions": "send-question"} {
		address := "/approvals/apr_1/" + form
		c.get("/approvals/apr_1").want(t, http.StatusOK, `<form class="folded apart" method="post" action="`+address+`"`, `class="apartlink"><a class="alone button" href="`+address+`"`)
		page := c.get(address)
		page.want(t, http.StatusOK, `data-testid="form-page"`, `data-testid="`+button+`"`, "Back to the card")
		if strings.Contains(page.body, "/reveal") || strings.Contains(page.body, `id="vote"`) || strings.Count(page.body, "<textarea") != 1 {
			t.Errorf("%s has another form beside it", address)
		}
	}
	drafts["usr_ada apr_1 comments"] = url.Values{"comment": {"Grace knows it."}}
	c.get("/approvals/apr_1/comments").want(t, http.StatusOK, "Grace knows it.</textarea>", "is here again")
	c.get("/approvals/apr_1/break-glass").to(t, "/approvals/apr_1")
	c.get("/approvals/apr_1/votes").want(t, http.StatusNotFound)
	c.get("/approvals/apr_none/comments").want(t, http.StatusNotFound)
}
