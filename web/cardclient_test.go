package web

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/registry"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// acts posts a form of a card and comes back to it.
func (c *client) acts(id, what string, form url.Values, texts ...string) answer {
	c.t.Helper()
	res := c.do("POST", "/approvals/"+id+"/"+what, form)
	res.want(c.t, http.StatusSeeOther)
	if got := res.Header.Get("Location"); got != "/approvals/"+id {
		c.t.Fatalf("%s leads to %q", what, got)
	}
	page := c.get("/approvals/" + id)
	page.want(c.t, http.StatusOK, texts...)
	return page
}

func says(text string) url.Values { return url.Values{"comment": {text}} }

func (a answer) lacks(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			t.Errorf("page has %q", text)
		}
	}
}

func TestDiscussionOnTheCard(t *testing.T) {
	c := start(t, nil)
	c.m.add("apr_1", "payments.transfer", `{"amount":1}`, func(card *gate.Card) {
		card.Approval.Plan.PauseFor, card.Approval.Plan.Extenders = engine.Duration(4*time.Hour), []string{"finance-approver"}
	})
	c.signIn("ada@example.com")
	c.acts("apr_1", "comments", says("looks <b>odd</b>\u202e"), "Your comment is on the card", "commented", "looks &lt;b&gt;odd&lt;/b&gt;", "[U+202E RIGHT-TO-LEFT OVERRIDE]")
	c.acts("apr_1", "claim", url.Values{}, "You have claimed this", `data-testid="unclaim"`)
	c.get("/").want(t, http.StatusOK, "Claimed by you")
	c.acts("apr_1", "unclaim", url.Values{}, "You have released your claim", `data-testid="claim"`)
	c.acts("apr_1", "extension", url.Values{"by": {"4h"}}, "gave it 4h more")
	c.do("POST", "/approvals/apr_1/extension", url.Values{"by": {"5h"}}).want(t, http.StatusUnprocessableEntity, "how much more time")
	c.get("/approvals/apr_1").want(t, http.StatusOK, "The clock stands still for the answer, for 4h in all")
	asked := c.acts("apr_1", "questions", says("Which account?"), "The clock stands still until", "2026-11-21T14:00:00Z", "has asked a question", "Ada Lovelace</strong> asks:")
	asked.lacks(t, `data-testid="send-question"`, `data-testid="answer"`)

	c.signIn("linus@example.com") // of the requesting side
	c.get("/").want(t, http.StatusOK, "Waiting for you", "A reviewer asks: ", "<title>(1) Inbox")
	own := c.get("/approvals/apr_1")
	own.want(t, http.StatusOK, "Which account?", `data-testid="answer"`)
	own.lacks(t, `data-testid="claim"`, `data-testid="do-ask"`, `data-testid="edit"`, `data-testid="do-extend"`)
	c.do("POST", "/approvals/apr_1/questions", says("mine")).want(t, http.StatusForbidden, "Back to the card", "mine</textarea>")
	c.acts("apr_1", "information", says("The one ending in 55."), "answered the question", `data-testid="answered"`, "Ada Lovelace</strong> asked:", "</strong> answered:", "The one ending in 55.").lacks(t, `data-testid="answer"`)
}

func TestProgressInFull(t *testing.T) {
	c := start(t, nil)
	c.m.add("apr_1", "payments.transfer", `{}`, func(card *gate.Card) {
		card.Approval.Plan.Requirements = []engine.Requirement{
			{Kind: engine.Review, Role: "finance-approver", Needed: 2, Deny: 2, Calendar: "office hours", Suggested: []string{"grace@example.com"}},
			{Kind: engine.Review, Needed: 1, AnyOf: []engine.Group{{Role: "legal", Needed: 2}, {Role: "security", Needed: 1}}},
		}
		voter := approval.Voter{Identity: "grace", Roles: []string{"finance-approver"}, Active: true}
		card.Approval.Facts = []approval.Fact{
			{Seq: 1, At: epoch, Kind: approval.Vote, Yes: true, Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_grace"}, Voter: approval.Voter{Identity: "grace", Active: true, Via: []approval.Voter{{Identity: "olga", Roles: []string{"finance-approver"}, Active: true}}}, Via: []string{"usr_olga"}},
			{Seq: 2, At: epoch, Kind: approval.Vote, Denial: approval.NotNow, Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_x"}, Voter: approval.Voter{Identity: "x", Roles: voter.Roles, Active: true}},
		}
	})
	page := c.signIn("ada@example.com").get("/approvals/apr_1")
	page.want(t, http.StatusOK, "All of these, in any order", "1 of 2", "1 of 2 noes", "counts only in the hours of", "office hours", "to ask first", "grace@example.com",
		"Review by 2 of legal or 1 of security", "2 of finance-approver and either 2 of legal or 1 of security", "<strong>Olga Owner</strong>")
	page.lacks(t, "reminder")
}

func TestFreshProof(t *testing.T) {
	c := start(t, nil)
	human := c.m.add("apr_1", "update_payee", `{}`, func(card *gate.Card) { card.Approval.Plan.Requirements[0].Kind = engine.Human })
	c.signIn("ada@example.com").get("/approvals/apr_1").want(t, http.StatusOK, `data-testid="approve"`)
	p := c.m.people["ada@example.com"]
	for name, at := range map[string]time.Time{"never": {}, "too long ago": epoch.Add(-approval.FreshFor - time.Second)} {
		p.VerifiedAt = at
		c.m.people[p.Email] = p
		page := c.get("/approvals/apr_1")
		page.want(t, http.StatusOK, `href="/verify?next=%2Fapprovals%2Fapr_1"`, `data-mode="prove"`, `data-testid="deny"`)
		page.lacks(t, `data-testid="approve"`)
		a := c.do("POST", "/approvals/apr_1/votes", ballotFor(human, "approve"))
		if a.StatusCode != http.StatusForbidden || len(c.m.votes) != 0 {
			t.Errorf("proved %s: %s", name, a.Status)
		}
	}
}

func TestTighterTerms(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	card := c.m.add("apr_1", "payments.transfer", `{}`, constraints(`{"max_amount":100}`))
	c.get("/approvals/apr_1").want(t, http.StatusOK, "What it may do", "max_amount", "Approve with tighter terms")
	for name, bad := range map[string][2]string{"no JSON": {"{", ""}, "a list": {"[1]", ""}, "no number": {"", "soon"}, "no time": {"", "0"}, "too long": {"", "10081"}} {
		form := ballotFor(card, "approve")
		form.Set("constraints", bad[0])
		form.Set("valid_minutes", bad[1])
		if a := c.do("POST", "/approvals/apr_1/votes", form); a.StatusCode != http.StatusUnprocessableEntity || len(c.m.votes) != 0 {
			t.Errorf("%s: %s", name, a.Status)
		}
	}
	form := ballotFor(card, "approve")
	form.Set("constraints", `{"max_amount": 50}`)
	form.Set("valid_minutes", "15")
	c.acts("apr_1", "votes", form, "approved with tighter terms")
	if v := c.m.votes[0]; string(v.Constraints) != `{"max_amount": 50}` || v.ValidFor != 15*time.Minute {
		t.Errorf("vote: %s for %s", v.Constraints, v.ValidFor)
	}
}

// TestTermFields: numbers among the constraints have a field each, and nothing else has: a tool
// need not know of a limit that the rules do not set. What is written there goes with what
// is written as JSON, and a form says of one constraint one thing.
func TestTermFields(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	card := c.m.add("apr_1", "payments.transfer", `{"amount":"12.50","currency":"EUR","to":"Ann"}`, constraints(`{"min_delay_seconds":5,"max_rows":100,"allowed_hosts":["a"],"maximum":3,"max_odd name":1}`))
	page := c.get("/approvals/apr_1")
	page.want(t, http.StatusOK, `name="term:max_rows"`, "Rows, at most", "now; ", `name="term:min_delay_seconds"`, "Delay seconds, at least")
	page.lacks(t, `name="term:max_amount"`, `name="term:allowed_hosts"`, `name="term:maximum"`, `name="term:max_odd`)
	for name, bad := range map[string]url.Values{
		"no number":       {"term:max_rows": {"few"}},
		"an object":       {"term:max_rows": {`{"a":1}`}},
		"no name":         {"term:\xff": {"1"}},
		"an odd name":     {"term:max rows": {"1"}},
		"twice":           {"term:max_rows": {"5"}, "constraints": {`{"max_rows":6}`}},
		"twice, by case":  {"term:max_rows": {"5"}, "constraints": {`{"MAX_ROWS":6}`}},
		"too large":       {"term:max_rows": {"1e999"}},
		"two in one":      {"term:max_rows": {`5,"b":6`}},
		"not even a sign": {"term:max_rows": {"-"}},
	} {
		form := ballotFor(card, "approve")
		maps.Copy(form, bad)
		if a := c.do("POST", "/approvals/apr_1/votes", form); a.StatusCode != http.StatusUnprocessableEntity || len(c.m.votes) != 0 {
			t.Errorf("%s: %s", name, a.Status)
		}
	}
	form := ballotFor(card, "approve")
	form["term:max_rows"], form["term:max_amount"], form["term:min_delay_seconds"] = []string{" 50 "}, []string{"9.50"}, []string{""}
	form.Set("constraints", `{"allowed_hosts": []}`)
	c.acts("apr_1", "votes", form, "approved with tighter terms")
	if v := c.m.votes[0]; string(v.Constraints) != `{"allowed_hosts":[],"max_amount":9.5,"max_rows":50}` {
		t.Errorf("vote: %s", v.Constraints)
	}
}

func TestBreakTheGlass(t *testing.T) {
	c := start(t, nil)
	card := c.m.add("apr_1", "accounts.close", `{}`, nil)
	c.signIn("ada@example.com").get("/approvals/apr_1").lacks(t, "Break the glass")
	p := c.m.people["linus@example.com"]
	p.Identity, p.Roles = "linus2", []string{approval.BreakGlassRole}
	c.m.people[p.Email] = p
	c.signIn(p.Email).get("/approvals/apr_1").want(t, http.StatusOK, "For emergencies only", `data-testid="break"`)
	form := url.Values{"digest": {card.Approval.Call.Digest}, "version": {"1"}, "comment": {"fire"}}
	c.do("POST", "/approvals/apr_1/break-glass", form).want(t, http.StatusUnprocessableEntity, "fire</textarea>")
	p.VerifiedAt = epoch.Add(-time.Hour)
	c.m.people[p.Email] = p
	stale := c.get("/approvals/apr_1")
	stale.want(t, http.StatusOK, "First prove that it is you")
	stale.lacks(t, `data-testid="break"`)
	form.Set("how", "alone")
	c.do("POST", "/approvals/apr_1/break-glass", form).want(t, http.StatusForbidden, "Prove who you are first", `href="/verify?next=%2Fapprovals%2Fapr_1"`)
	p.VerifiedAt = epoch
	c.m.people[p.Email] = p
	own := c.acts("apr_1", "break-glass", form, "broke the glass, alone", "fire", `data-status="approved"`, `data-testid="owed"`)
	own.lacks(t, `data-testid="reviewed"`) // not by whoever did it
	c.signIn("olga@example.com").get("/").want(t, http.StatusOK, "Follow-ups", "Look at it afterwards")
	c.do("POST", "/approvals/apr_1/afterwards", says("hm")).want(t, http.StatusUnprocessableEntity)
	after := c.acts("apr_1", "afterwards", url.Values{"justified": {"no"}, "comment": {"it was not"}}, "not justified", "it was not")
	after.lacks(t, `data-testid="owed"`)
}

func TestStepUpAndTicket(t *testing.T) {
	c := start(t, func(cfg *Config) { cfg.Prover = cfg.Inbox.(*fakeGate) })
	step := c.m.add("apr_1", "secrets.rotate", `{}`, func(card *gate.Card) {
		card.Approval.Plan.Accountable = []string{"linus"}
		card.Approval.Plan.Requirements = []engine.Requirement{{Kind: engine.StepUp, Needed: 1}, {Kind: engine.Ticket, Needed: 1, Ticket: &engine.TicketTerms{System: "jira", Projects: []string{"OPS"}}}}
	})
	c.signIn("ada@example.com").get("/approvals/apr_1").lacks(t, "Prove that it is you")
	c.signIn("linus@example.com").get("/").want(t, http.StatusOK, "Prove that it is you")
	bound := "apr_1/" + step.Approval.Call.Digest
	c.get("/approvals/apr_1").want(t, http.StatusOK, "Prove that it is you", `name="code"`, "I do not want this")
	form := url.Values{"digest": {step.Approval.Call.Digest}, "version": {"1"}, "want": {"yes"}, "code": {"000000"}}
	c.do("POST", "/approvals/apr_1/step-up", form).want(t, http.StatusForbidden, "not the right code", `data-testid="step-up"`)
	if len(c.m.facts) != 0 || c.m.proved[0] != "approval "+bound {
		t.Fatalf("said %v, proved %v", c.m.facts, c.m.proved)
	}
	form.Set("code", "123456")
	c.acts("apr_1", "step-up", form, "proved who they are, by a code", "This call needs a ticket", "A ticket of jira, in project OPS.")
	c.do("POST", "/approvals/apr_1/ticket", url.Values{"ref": {" "}}).want(t, http.StatusUnprocessableEntity)
	c.acts("apr_1", "ticket", url.Values{"ref": {"OPS-7"}, "system": {"jira"}}, "attached the ticket OPS-7", "Its tracker is being asked")

	other := c.m.add("apr_2", "secrets.rotate", `{}`, func(card *gate.Card) {
		card.Approval.Plan.Accountable = []string{"linus"}
		card.Approval.Plan.Requirements = []engine.Requirement{{Kind: engine.StepUp, Needed: 1}}
	})
	form = url.Values{"digest": {other.Approval.Call.Digest}, "version": {"1"}}
	c.do("POST", "/approvals/apr_2/step-up", form).want(t, http.StatusUnprocessableEntity)
	form.Set("want", "no")
	c.acts("apr_2", "step-up", form, `data-status="denied"`, "does not want the call")
}

func TestReconciliationOnTheCard(t *testing.T) {
	c := start(t, nil)
	c.m.add("apr_1", "accounts.close", `{}`, func(card *gate.Card) {
		card.Approval.Execution, card.Approval.Successor, card.LeaseUntil = approval.Unknown, "apr_next", epoch
		card.Approval.Facts = []approval.Fact{{Seq: 1, At: epoch, Kind: approval.Vote, Yes: true, Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_ada"}, Voter: approval.Voter{Identity: "ada", Roles: []string{"finance-approver"}, Active: true}}}
		card.Approval.Plan.Requirements[0].Needed = 1
	})
	c.signIn("ada@example.com").get("/approvals/apr_1").lacks(t, "What became of it?")
	c.signIn("linus@example.com").get("/").want(t, http.StatusOK, "Say what became of it")
	c.get("/approvals/apr_1").want(t, http.StatusOK, "What became of it?", `href="/approvals/apr_next"`)
	c.do("POST", "/approvals/apr_1/reconciliation", url.Values{"outcome": {"unknown"}, "comment": {"x"}}).want(t, http.StatusUnprocessableEntity)
	c.acts("apr_1", "reconciliation", url.Values{"outcome": {"failed"}, "comment": {"The ledger has no entry."}}, "found out that the call failed or never ran", "The ledger has no entry.").
		lacks(t, "What became of it?")
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)

// fields are a page's hidden fields.
func (a answer) fields() url.Values {
	form := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(a.body, -1) {
		form.Set(m[1], strings.NewReplacer("&#34;", `"`, "&quot;", `"`, "&#39;", "'", "&amp;", "&", "&lt;", "<", "&gt;", ">").Replace(m[2]))
	}
	return form
}

func TestEdit(t *testing.T) {
	c := start(t, nil)
	card := c.m.add("apr_1", "payments.transfer", `{"amount":{"value":89000},"memo":"one\ntwo","to":"Acme"}`, nil)
	c.signIn("olga@example.com").get("/approvals/apr_1/edit").want(t, http.StatusForbidden)
	c.signIn("ada@example.com").get("/approvals/apr_1").want(t, http.StatusOK, `href="/approvals/apr_1/edit"`)
	page := c.get("/approvals/apr_1/edit")
	page.want(t, http.StatusOK, "No schema is registered", `name="argument:amount.value" value="89000"`, "amount.value", `name="json"`)
	form := page.fields()
	for name, v := range map[string]string{"argument:amount.value": "98000", "argument:memo": "one\r\ntwo", "argument:to": "Acmе", "from": "form", "comment": "too low"} {
		form.Set(name, v)
	}
	review := c.do("POST", "/approvals/apr_1/edit", form)
	review.want(t, http.StatusOK, "Nothing has been changed yet", "amount.value", "89000", "98000", "not what it looks like", "looks like", "too low")
	review.lacks(t, "<code>memo</code>")
	if card.Approval.Version != 1 {
		t.Fatal("looking at a change made it")
	}
	c.do("POST", "/approvals/apr_1/votes", ballotFor(card, "approve")).want(t, http.StatusSeeOther)
	save := review.fields()
	save.Set("step", "save")
	res := c.do("POST", "/approvals/apr_1/edit", save)
	res.want(t, http.StatusSeeOther)
	if string(card.Arguments) != `{"amount":{"value":98000},"memo":"one\ntwo","to":"Acmе"}` {
		t.Errorf("arguments: %s", card.Arguments)
	}
	mine := c.get("/approvals/apr_1")
	mine.want(t, http.StatusOK, "Version 2:", "Ada Lovelace changed amount and to.", "too low", "counts no more: the call has changed", "0 of 2")
	mine.lacks(t, `data-testid="approve"`)
	c.do("POST", "/approvals/apr_1/edit", save).want(t, http.StatusForbidden) // of the requesting side by now
	form.Set("comment", "again")
	form.Set("writer", "usr_grace")
	c.signIn("grace@example.com").do("POST", "/approvals/apr_1/edit", form).want(t, http.StatusConflict, "has changed since you opened the page")
	c.get("/approvals/apr_1").want(t, http.StatusOK, `data-testid="approve"`)
}

// TestEditShowsWhatIsHidden: a field has what is invisible as JSON has it, and it means the same.
func TestEditShowsWhatIsHidden(t *testing.T) {
	c := start(t, nil)
	card := c.m.add("apr_1", "payments.transfer", `{"amount":1,"list":["a\u200bb"],"memo":"say \"hi\" c:\\u202e","to":"Acme\u202egro.live"}`, nil)
	c.signIn("ada@example.com").get("/approvals/apr_1").want(t, http.StatusOK)
	page := c.get("/approvals/apr_1/edit")
	page.want(t, http.StatusOK, `name="quoted:to"`, `&#34;Acme\u202egro.live&#34;`, "does not show as they are", `[&#34;a\u200bb&#34;]`, `name="argument:memo"`, `value="say &#34;hi&#34; c:\u202e"`)
	if strings.ContainsAny(page.body, "\u202e\u200b") {
		t.Error("the page has hidden characters")
	}
	send := func(to string) answer {
		form := page.fields()
		for name, v := range map[string]string{"argument:amount": "2", "argument:list": `["a\u200bb"]`, "argument:memo": `say "hi" c:\u202e`, "quoted:to": to, "from": "form", "comment": "too low"} {
			form.Set(name, v)
		}
		return c.do("POST", "/approvals/apr_1/edit", form)
	}
	send(`Acme`).want(t, http.StatusUnprocessableEntity, "as JSON has it", `name="quoted:to"`, "\nAcme</textarea>")
	send(`7`).want(t, http.StatusUnprocessableEntity, "Is not a text in quotation marks")
	send(`"Acme"`).want(t, http.StatusOK, "Nothing has been changed yet", "Acme")
	review := send(`"Acme\u202egro.live"`)
	review.want(t, http.StatusOK, "reverses or reorders text")
	review.lacks(t, "<code>to</code></h3>", "<code>memo</code></h3>", "<code>list</code></h3>")
	save := review.fields()
	save.Set("step", "save")
	c.do("POST", "/approvals/apr_1/edit", save).want(t, http.StatusSeeOther)
	if got := string(card.Arguments); got != "{\"amount\":2,\"list\":[\"a\u200bb\"],\"memo\":\"say \\\"hi\\\" c:\\\\u202e\",\"to\":\"Acme\u202egro.live\"}" {
		t.Errorf("arguments: %+q", got)
	}
}

func TestEditThatChangesNothing(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.registry.known.Tools["payments.transfer"] = registry.Tool{Name: "payments.transfer", InputSchema: []byte(`{"type":"object","required":["amount"],"properties":{"amount":{"type":"integer","maximum":100,"title":"Amount in EUR"},"to":{"type":"string"}}}`)}
	card := c.m.add("apr_1", "payments.transfer", `{"amount":1,"to":"Acme"}`, nil)
	c.get("/approvals/apr_1/edit").want(t, http.StatusConflict, "There is more to read first", `href="/approvals/apr_1?full=1"`)
	c.get("/approvals/apr_1").want(t, http.StatusOK)
	page := c.get("/approvals/apr_1/edit")
	page.want(t, http.StatusOK, "Amount in EUR")
	page.lacks(t, "No schema is registered")
	for name, bad := range map[string]struct {
		set  map[string]string
		says string
	}{
		"too much":          {map[string]string{"argument:amount": "101", "argument:to": "Acme"}, "problem"},
		"no number":         {map[string]string{"argument:amount": "many", "argument:to": "Acme"}, "problem"},
		"nothing different": {map[string]string{"argument:amount": "1", "argument:to": "Acme"}, "nothing is different"},
		"no reason":         {map[string]string{"argument:amount": "2", "argument:to": "Acme", "comment": " "}, "Say why"},
		"no JSON":           {map[string]string{"from": "json", "json": `{"amount":1,}`}, "cannot be read"},
		"twice the same":    {map[string]string{"from": "json", "json": `{"amount":1,"amount":2}`}, "cannot be read"},
		"no object":         {map[string]string{"from": "json", "json": `[]`}, "JSON object"},
		"JSON off schema":   {map[string]string{"from": "json", "json": `{"amount":"1"}`}, "amount"},
	} {
		form := page.fields()
		form.Set("from", "form")
		form.Set("comment", "why")
		form.Set("step", "save")
		for k, v := range bad.set {
			form.Set(k, v)
		}
		a := c.do("POST", "/approvals/apr_1/edit", form)
		if a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.body, bad.says) {
			t.Errorf("%s: %s, without %q", name, a.Status, bad.says)
		}
	}
	if card.Approval.Version != 1 {
		t.Error("something was changed")
	}
}

func TestBulkOfSession(t *testing.T) {
	c := start(t, nil)
	in := func(long bool) func(*gate.Card) {
		return func(card *gate.Card) {
			card.Approval.Session, card.Session, card.Long = "a/b c", 3, long
			card.Approval.Plan.Requirements[0].Needed = 1
		}
	}
	for _, id := range []string{"apr_1", "apr_2", "apr_3"} {
		c.m.add(id, "tool."+id, `{"id":"`+id+`"}`, in(false))
	}
	c.m.add("apr_long", "tool.long", `{"sql":"`+strings.Repeat("ALTER TABLE;\\n", 400)+`"}`, in(true))
	c.m.add("apr_trap", "tool.trap", `{"to":"`+"\u202e"+`"}`, in(false))
	const page = "/sessions/agt_billing/a%2Fb%20c"
	c.signIn("ada@example.com").get("/approvals/apr_1").want(t, http.StatusOK, `href="`+page+`"`, "All 3 calls of its session")
	shown := c.get(page)
	shown.want(t, http.StatusOK, "tool.apr_1", "Its arguments are long", "is not what it looks like: approve it on its own card", `name="decision:apr_1"`)
	form := url.Values{"kind": {"not_now"}, "comment": {"together"}, "id": {"apr_1", "apr_1", "apr_2", "apr_3", "apr_long", "apr_trap"}}
	for _, id := range []string{"apr_1", "apr_2", "apr_3", "apr_long", "apr_trap"} {
		form.Set("decision:"+id, "leave")
		form.Set("digest:"+id, c.m.cards[id].Approval.Call.Digest)
		form.Set("version:"+id, "1")
	}
	c.do("POST", page+"/votes", form).want(t, http.StatusUnprocessableEntity, "Nothing was decided")
	form.Set("decision:apr_1", "approve")
	form.Set("decision:apr_2", "deny")
	form.Set("decision:apr_3", "approve")
	form.Set("version:apr_3", "2")
	form.Set("decision:apr_long", "approve")
	form.Set("decision:apr_trap", "approve")
	done := c.do("POST", page+"/votes", form)
	done.want(t, http.StatusOK, "You approved it.", "You denied it.", "Not recorded: The card changed", "Not recorded: Its arguments are long", "Not recorded: Something in it")
	if len(c.m.votes) != 2 || !c.m.votes[0].Approve || c.m.votes[1].Approve || c.m.votes[0].Comment != "together" {
		t.Errorf("votes: %+v", c.m.votes)
	}
	c.get("/sessions/agt_billing/none").want(t, http.StatusNotFound)
	if sessionURL("a", "..") != "" || sessionURL("a", "") != "" {
		t.Error("an address that names another page")
	}
}

func TestReconciledIsTold(t *testing.T) {
	c := gate.Card{Reconciled: &store.Reconciliation{PersonID: "usr_a", Outcome: approval.Succeeded, At: epoch}}
	got := followUp(c, func(string) string { return "Ada" })
	if len(got.Remarks) != 1 || got.Remarks[0].What != "found out that the call succeeded" || got.AwaitsReview {
		t.Errorf("got %+v", got)
	}
}

// What a call asks for is supplied in a form of its own; what does not fit comes
// back with its field.
func TestSupplies(t *testing.T) {
	c := start(t, nil)
	c.m.add("apr_1", "payments.transfer", `{"amount":1}`, func(card *gate.Card) {
		card.Approval.Plan.Accountable = []string{"linus"}
		card.Approval.Plan.Requirements = []engine.Requirement{{
			Kind: engine.Answer, Role: "finance-approver", Needed: 1,
			Form: []byte(`{"type":"object","properties":{"cost_center":{"type":"string","minLength":4,"title":"Cost center"}},"required":["cost_center"]}`),
		}}
	})
	c.signIn("linus@example.com")
	c.get("/approvals/apr_1").want(t, http.StatusOK, "Something is missing", `href="/approvals/apr_1/answer"`)
	page := c.get("/approvals/apr_1/answer")
	page.want(t, http.StatusOK, "Cost center", `name="argument:cost_center"`, "Supply it")
	a := c.m.cards["apr_1"].Approval
	form := url.Values{"digest": {a.Call.Digest}, "version": {"1"}, "argument:cost_center": {"47"}}
	c.do("POST", "/approvals/apr_1/answer", form).want(t, http.StatusUnprocessableEntity, "Some of the fields need another look", `value="47"`)
	form.Set("argument:cost_center", "4711")
	c.do("POST", "/approvals/apr_1/answer", form).want(t, http.StatusSeeOther)
	if got := string(c.m.supplied.Canonical()); got != `{"cost_center":"4711"}` {
		t.Errorf("supplied %s", got)
	}
	c.do("POST", "/approvals/apr_1/answer", form).want(t, http.StatusConflict)
}
