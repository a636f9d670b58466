package web

import (
	"errors"
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

func TestVote(t *testing.T) {
	c := start(t, nil)
	card := c.m.add("apr_1", "payments.transfer", `{"amount":1}`, nil)
	c.signIn("ada@example.com")
	c.get("/").want(t, http.StatusOK, `data-testid="inbox-row"`, "payments.transfer", "billing-agent", "0 of 2", "two finance reviewers", "in 29 min")
	c.get("/approvals/apr_1").want(t, http.StatusOK, `data-testid="approve"`, `data-testid="deny"`, `data-testid="comment"`, `data-testid="timeline"`,
		`data-testid="args"`, `data-testid="status"`, `data-status="pending"`, `name="digest" value="sha256:ab12`, `name="version" value="1"`, "<title>Waiting: payments.transfer")
	res := c.do("POST", "/approvals/apr_1/votes", ballotFor(card, "approve"))
	res.want(t, http.StatusSeeOther)
	if got := res.Header.Get("Location"); got != "/approvals/apr_1" {
		t.Errorf("sent to %q", got)
	}
	v := c.m.votes[0]
	if v.Person.ID != "usr_ada" || !v.Approve || v.Denial != "" || v.Comment != "because" || v.Digest != card.Approval.Call.Digest ||
		v.Version != 1 || v.Channel != "console" || v.RequestID == "" {
		t.Errorf("vote: %+v", v)
	}
	half := c.get("/approvals/apr_1")
	half.want(t, http.StatusOK, "1 of 2", "Ada Lovelace", "You have approved this", `data-testid="deny"`)
	if strings.Contains(half.body, `data-testid="approve"`) {
		t.Error("Approve is offered twice")
	}
	c.do("POST", "/approvals/apr_1/votes", ballotFor(card, "approve")).want(t, http.StatusConflict, "Your vote was not recorded")
	c.signIn("grace@example.com").do("POST", "/approvals/apr_1/votes", ballotFor(card, "approve")).want(t, http.StatusSeeOther)
	done := c.get("/approvals/apr_1")
	done.want(t, http.StatusOK, `data-status="approved"`, "Approved by Ada Lovelace and Grace Hopper", "<title>Approved: ")
	if strings.Contains(done.body, "<form method=\"post\" action=\"/approvals") {
		t.Error("a form on a card that is over")
	}
	c.get("/history").want(t, http.StatusOK, "approved by Ada Lovelace and Grace Hopper", "not started yet")
	c.do("POST", "/approvals/apr_1/votes", ballotFor(card, "deny")).want(t, http.StatusConflict, "Meanwhile: Approved by", "because")
}

// TestVoteByScript: a script is told apart what was recorded, what was refused and that
// nobody is signed in. The page that comes next says what was done.
func TestVoteByScript(t *testing.T) {
	c := start(t, nil)
	card := c.m.add("apr_1", "payments.transfer", `{"amount":1}`, nil)
	send := func() answer {
		return c.do("POST", "/approvals/apr_1/votes", ballotFor(card, "approve"), "Sec-Fetch-Dest", "empty")
	}
	if res := send(); res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(res.Header.Get("Location"), "/login") || len(c.m.votes) != 0 {
		t.Errorf("signed out: %s to %q, %d votes", res.Status, res.Header.Get("Location"), len(c.m.votes))
	}
	c.signIn("ada@example.com")
	send().want(t, http.StatusNoContent)
	if len(c.m.votes) != 1 {
		t.Errorf("%d votes", len(c.m.votes))
	}
	c.get("/").want(t, http.StatusOK, "Your vote is recorded.")
	send().want(t, http.StatusConflict)
}

func TestDeny(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	for _, kind := range []string{"wrong_args", "not_now", "never", "needs_info"} {
		card := c.m.add("apr_"+kind, "payments.transfer", `{}`, nil)
		form := ballotFor(card, "deny")
		form.Set("kind", kind)
		c.do("POST", "/approvals/apr_"+kind+"/votes", form).want(t, http.StatusSeeOther)
		c.get("/approvals/apr_"+kind).want(t, http.StatusOK, `data-status="denied"`, "Denied by Ada Lovelace: "+approval.Denial(kind).Text())
	}
	first := regexp.MustCompile(`<option value="([^"]+)"`).FindStringSubmatch(c.do("GET", "/approvals/"+c.m.add("apr_new", "x", `{}`, nil).Approval.ID, nil).body)
	if first == nil || !approval.Denial(first[1]).Valid() {
		t.Errorf("what a plain Deny means: %q", first)
	}
}

func TestInvalidVoteForms(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	card := c.m.add("apr_1", "payments.transfer", `{}`, nil)
	good := ballotFor(card, "approve")
	for name, change := range map[string]func(url.Values){
		"no decision":       func(f url.Values) { f.Del("decision") },
		"another decision":  func(f url.Values) { f.Set("decision", "Approve") },
		"no digest":         func(f url.Values) { f.Del("digest") },
		"no version":        func(f url.Values) { f.Del("version") },
		"a broken version":  func(f url.Values) { f.Set("version", "1.0") },
		"a no of no kind":   func(f url.Values) { f.Set("decision", "deny"); f.Set("kind", "maybe") },
		"an endless remark": func(f url.Values) { f.Set("comment", strings.Repeat("a", gate.MaxComment+1)) },
	} {
		form, _ := url.ParseQuery(good.Encode())
		change(form)
		if a := c.do("POST", "/approvals/apr_1/votes", form); a.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %s", name, a.Status)
		}
	}
	c.do("POST", "/approvals/apr_1/votes?"+good.Encode(), url.Values{}).want(t, http.StatusUnprocessableEntity)
	c.do("POST", "/approvals/apr_1/votes", url.Values{"comment": {strings.Repeat("a", maxForm)}}).want(t, http.StatusRequestEntityTooLarge, "That is too long", "takes 65 kB in all", "Nothing was done")
	c.do("POST", "/approvals/apr_1/votes", good, "Content-Type", "text/plain").want(t, http.StatusUnsupportedMediaType)
	if len(c.m.votes) != 0 {
		t.Errorf("votes: %+v", c.m.votes)
	}
}

func TestReadingNeverVotes(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	card := c.m.add("apr_1", "payments.transfer", `{}`, func(g *gate.Card) { g.Long = true })
	q := "?" + ballotFor(card, "approve").Encode()
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		for _, path := range []string{"/approvals/apr_1/votes", "/approvals/apr_1", "/logout"} {
			c.do(method, path+q, nil)
			c.do(method, path+q, nil, "Sec-Purpose", "prefetch")
		}
	}
	c.do("HEAD", "/approvals/apr_1?full=1", nil)
	c.get("/approvals/apr_1?full=1", "Sec-Purpose", "prefetch;prerender")
	c.get("/approvals/apr_1?full=1", "Sec-Fetch-Dest", "image")
	if len(c.m.votes) != 0 || len(c.m.sessions) != 1 || c.m.fulls != 0 {
		t.Errorf("votes %d, sessions %d, times shown %d", len(c.m.votes), len(c.m.sessions), c.m.fulls)
	}
}

func TestStale(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	card := c.m.add("apr_1", "payments.transfer", `{}`, nil)
	form := ballotFor(card, "approve")
	card.Approval.Version, card.Approval.Call.Digest = 2, "sha256:"+strings.Repeat("cd", 32)
	c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusConflict, "not the ones that you were shown", "version 2; you were shown version 1",
		`href="/approvals/apr_1"`, "because</textarea>")
	if len(c.m.votes) != 0 {
		t.Error("a stale vote counts")
	}
}

func TestLongArguments(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	card := c.m.add("apr_1", "db.migrate", `{"a":"`+strings.Repeat(`line\n`, 200)+`","z":["DROP TABLE users"]}`, func(g *gate.Card) { g.Long = true })
	cut := c.get("/approvals/apr_1")
	cut.want(t, http.StatusOK, "more lines", "Show everything", `href="/approvals/apr_1?full=1"`, "Approving needs the whole")
	if strings.Contains(cut.body, "DROP TABLE") || !regexp.MustCompile(`data-testid="approve" disabled`).MatchString(cut.body) {
		t.Error("all is shown, or Approve works, at once")
	}
	c.do("POST", "/approvals/apr_1/votes", ballotFor(card, "approve")).want(t, http.StatusConflict, "There is more to read first", `href="/approvals/apr_1?full=1"`)
	whole := c.get("/approvals/apr_1?full=1")
	whole.want(t, http.StatusOK, "DROP TABLE users")
	if strings.Contains(whole.body, "more lines") || strings.Contains(whole.body, "disabled") {
		t.Error("something is still held back")
	}
	c.get("/approvals/apr_1").want(t, http.StatusOK, "DROP TABLE users") // and stays shown
	c.do("POST", "/approvals/apr_1/votes", ballotFor(card, "approve")).want(t, http.StatusSeeOther)
}

func TestWhoCannotVoteIsToldWhy(t *testing.T) {
	c := start(t, nil).signIn("linus@example.com")
	c.m.add("apr_1", "payments.transfer", `{}`, nil)
	c.m.add("apr_2", "payments.transfer", `{}`, func(g *gate.Card) { g.Approval.Plan.Excluded = nil })
	c.get("/approvals/apr_1").want(t, http.StatusOK, "You are on the requesting side")
	c.get("/approvals/apr_2").want(t, http.StatusOK, "takes the role finance-approver, which you do not have")
	for _, id := range []string{"apr_1", "apr_2"} {
		if a := c.get("/approvals/" + id); strings.Contains(a.body, "data-testid=\"deny\"") {
			t.Errorf("%s: a form for somebody without a say", id)
		}
		c.do("POST", "/approvals/"+id+"/votes", ballotFor(c.m.cards[id], "deny")).want(t, http.StatusForbidden, "not yours to decide", "because</textarea>")
	}
	c.get("/").want(t, http.StatusOK, "Nothing waits for you")
	c.m.add("apr_3", "secrets.rotate", `{}`, func(g *gate.Card) {
		g.Approval.Plan.Accountable, g.Approval.Plan.Requirements = []string{"linus"}, []engine.Requirement{{Kind: engine.StepUp, Needed: 1}}
	})
	c.get("/approvals/apr_3").want(t, http.StatusOK, "Nobody else has to decide this one")
	c.get("/").want(t, http.StatusOK, "Nothing else waits for you")
	c.m.add("apr_4", "payments.transfer", `{}`, func(g *gate.Card) {
		edit := approval.Fact{Seq: 1, At: epoch, Kind: approval.Edit, Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_linus"}, Edition: 1, Comment: "a typo"}
		g.Approval.Facts, g.Approval.Plan.Edition = []approval.Fact{edit}, 2
	})
	c.get("/approvals/apr_4").want(t, http.StatusOK, "You have changed the arguments of this call")
}

func TestLaterStagesMayDenyEarly(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_1", "payments.transfer", `{}`, func(g *gate.Card) {
		g.Approval.Plan.Requirements = []engine.Requirement{{Kind: engine.Answer, Role: "ops", Needed: 1}, {Kind: engine.Human, Role: "finance-approver", Needed: 1}}
	})
	a := c.get("/approvals/apr_1")
	a.want(t, http.StatusOK, `data-testid="deny"`, "It is not your turn to approve: this step is for ops", "its turn comes later")
	if strings.Contains(a.body, `data-testid="approve"`) {
		t.Error("Approve before its turn")
	}
}

func TestNothingFromAnAgentIsMarkup(t *testing.T) {
	const canary = `<script>alert(1)</script><img src=x onerror=alert(2)>"'>[x](javascript:alert(3))</textarea></pre></title>`
	hidden := strings.Map(func(c rune) rune { return 0xE0000 + c }, "<script>alert(4)")
	json := strings.NewReplacer(`"`, `\"`).Replace(canary)
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_1", canary, `{"`+json+`":"`+json+`","rtl":"`+"\u202e\u200b"+hidden+`"}`, func(g *gate.Card) {
		g.Document = document(canary, canary)
		g.AgentName, g.AgentOwner, g.Approval.RequestedBy.ID, g.Approval.Call.RequestID = canary, canary, canary, canary
		g.Approval.Call.RiskDomain, g.Approval.Call.Environment = canary, canary
		g.Approval.Decision.Findings = append(g.Approval.Decision.Findings, engine.Finding{Source: canary, Code: canary, Message: canary, Route: engine.Defer})
	})
	form := ballotFor(c.m.cards["apr_1"], "approve")
	form.Set("comment", canary)
	c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusSeeOther)
	form.Set("version", "7")
	pages := []answer{c.get("/approvals/apr_1"), c.do("POST", "/approvals/apr_1/votes", form), c.get("/login?next=" + url.QueryEscape("/"+canary))}
	pages = append(pages, c.signIn("grace@example.com").get("/"))
	form.Set("version", "1")
	form.Set("decision", "deny")
	c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusSeeOther)
	pages = append(pages, c.get("/history"), c.get("/approvals/apr_1"))
	for i, p := range pages {
		if n := strings.Count(p.body, "<script"); n != 4 && p.StatusCode != http.StatusSeeOther {
			t.Errorf("page %d has %d scripts", i, n)
		}
		for _, bad := range []string{"<img src=x", `href="javascript`, "\u202e", "\u200b", "<script>alert"} {
			if strings.Contains(p.body, bad) {
				t.Errorf("page %d contains %q", i, bad)
			}
		}
	}
	pages[0].want(t, http.StatusOK, "&lt;script&gt;alert(1)", "SPELLING “&lt;script&gt;alert(4)”", "U+202E RIGHT-TO-LEFT OVERRIDE", `data-testid="warning"`, "Untrusted: written by the agent")
	if args, intent := strings.Index(pages[0].body, `data-testid="args"`), strings.Index(pages[0].body, "Untrusted"); args > intent {
		t.Error("what the agent says comes before the arguments")
	}
}

func TestOutage(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	card := c.m.add("apr_1", "payments.transfer", `{}`, nil)
	c.get("/approvals/nope").want(t, http.StatusNotFound, "Not found")
	c.get("/nowhere").want(t, http.StatusNotFound, "There is nothing at this address")
	c.m.broken = errors.New("password=hunter2 at 10.0.0.1")
	for _, p := range []string{"/", "/history", "/approvals/apr_1"} {
		a := c.get(p)
		a.want(t, http.StatusServiceUnavailable, "Nothing was decided")
		if strings.Contains(a.body, "hunter2") {
			t.Error("the page tells of the inside")
		}
	}
	c.do("POST", "/approvals/apr_1/votes", ballotFor(card, "approve")).want(t, http.StatusServiceUnavailable, "Nothing was decided", "because</textarea>")
}

func TestTimelineTellsRefusals(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_1", "payments.transfer", `{}`, func(g *gate.Card) {
		g.Approval.Facts = []approval.Fact{{
			Seq: 1, At: epoch.Add(-time.Second), Kind: approval.Vote, Yes: true, Comment: "fine by me",
			Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_grace"}, Voter: c.m.voter(c.m.people["grace@example.com"]),
		}}
		event := func(kind engine.EventType, by engine.Actor, outcome engine.Outcome, message string) {
			g.Timeline = append(g.Timeline, engine.Event{Type: kind, Timestamp: epoch, Outcome: outcome, Actor: by, Reasons: []engine.Reason{{Message: message}}})
		}
		grace, linus := engine.Actor{Kind: engine.HumanActor, ID: "usr_grace"}, engine.Actor{Kind: engine.HumanActor, ID: "usr_linus"}
		event(engine.Voted, grace, engine.Deny, "The page was old.")
		event(engine.Voted, grace, engine.RequireApproval, "Approved by a reviewer.")
		for range 12 {
			event(engine.Voted, linus, engine.Deny, "Somebody else has to decide it.")
		}
		event(engine.Redeemed, engine.Actor{Kind: engine.ServiceActor, ID: "key_1"}, engine.Deny, "Not a good token.")
	})
	page := c.get("/approvals/apr_1").body
	story := page[strings.Index(page, `data-testid="timeline"`):]
	at := 0
	for _, want := range []string{
		"billing-agent", "asked to run payments.transfer", "Grace Hopper", "tried to vote and was turned away", "The page was old.",
		"Grace Hopper", "approved", "fine by me", "Linus", "tried to vote and was turned away", "12 times", "Somebody else", "tried to start the call and was turned away",
	} {
		i := strings.Index(story[at:], want)
		if i < 0 {
			t.Fatalf("timeline lacks %q after %d:\n%s", want, at, story)
		}
		at += i + len(want)
	}
	if n := strings.Count(story, "Linus"); n != 1 {
		t.Errorf("the same refusal is told %d times", n)
	}
}

// What the form offers where votes are signed: to who can, to who cannot, and where a
// signature saves the way to a proof.
func TestSignedDecision(t *testing.T) {
	c := start(t, nil)
	found := *c.m.add("apr_1", "payments.transfer", `{"amount":1}`, nil)
	ada := engine.Person{ID: "usr_x", Identity: "usr_x", Roles: []string{found.Approval.Plan.Requirements[0].Role}}
	for name, tc := range map[string]struct {
		yes, no, can bool
		kind         engine.Kind
		elsewhere    string
		want         string
	}{
		"nothing is signed":       {kind: engine.Review, want: "approve deny"},
		"both are signed":         {kind: engine.Review, yes: true, no: true, can: true, want: "sign sign-deny"},
		"who cannot":              {kind: engine.Review, yes: true, no: true, want: "blocked:/account deny-blocked"},
		"at another address":      {kind: engine.Review, yes: true, no: true, can: true, elsewhere: "http://localhost/", want: "blocked:http://localhost/ deny-blocked"},
		"a proof is due":          {kind: engine.Human, want: "prove deny"},
		"a signature proves":      {kind: engine.Human, can: true, want: "sign-or-prove deny"},
		"not at another address":  {kind: engine.Human, can: true, elsewhere: "http://localhost/", want: "prove deny"},
		"a signed vote is proved": {kind: engine.Human, yes: true, can: true, want: "sign deny"},
	} {
		card := found
		card.Approval.Plan.Requirements = []engine.Requirement{{Kind: tc.kind, Role: ada.Roles[0], Needed: 1}}
		card.SignYes, card.SignNo, card.CanSign, card.CannotVote = tc.yes, tc.no, tc.can, nil
		d := decisionOf(card, ada, true, nil)
		signedHere(&d, tc.elsewhere)
		got := "approve"
		switch {
		case d.Blocked != "":
			got = "blocked:" + d.BlockedAt
		case d.Sign && d.Verify != "":
			got = "sign-or-prove"
		case d.Sign:
			got = "sign"
		case d.Verify != "":
			got = "prove"
		}
		switch {
		case d.DenyBlocked:
			got += " deny-blocked"
		case d.SignDeny:
			got += " sign-deny"
		case d.Deny:
			got += " deny"
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// What is at stake stands once more right before the buttons: on a phone it is far above.
func TestDangerBeforeTheButtons(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_a", "grant_role", `{"user":"mallory","role":"admin"}`, nil)
	_, rest, found := strings.Cut(c.get("/approvals/apr_a").body, `data-testid="about"`)
	about, _, _ := strings.Cut(rest, `data-testid="approve"`)
	if !found || !strings.Contains(about, "mallory") || !strings.Contains(about, "level-high") {
		t.Errorf("before the buttons stands %q", about)
	}
}
