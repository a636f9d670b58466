package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
)

// refunds adds n alike calls that one reviewer decides.
func refunds(m *fakeGate, n int) (ids []string) {
	for i := range n {
		id := fmt.Sprintf("apr_%02d", i)
		ids = append(ids, id)
		m.add(id, "payments.refund", fmt.Sprintf(`{"amount":%d.5,"currency":"EUR","customer":{"name":"Customer %d","since":2019},"reason":"broken"}`, i, i), one)
	}
	return ids
}

func one(c *gate.Card) {
	c.Approval.Plan.Requirements[0].Needed = 1
	c.Approval.Call.Digest = "sha256:" + strings.Repeat("0", 64-len(c.Approval.ID)) + strings.ReplaceAll(c.Approval.ID, "apr_", "dddd")
}

// formFor is the form of a page that shows these calls.
func formFor(m *fakeGate, decision string, ids ...string) url.Values {
	form := url.Values{"decision": {decision}, "kind": {"not_now"}, "comment": {"as agreed"}, "id": ids, "shown": {strings.Join(ids, " ")}}
	for _, id := range ids {
		if c := m.cards[id]; c != nil {
			form.Set("digest:"+id, c.Approval.Call.Digest)
			form.Set("version:"+id, strconv.Itoa(c.Approval.Version))
		}
	}
	return form
}

func pageFor(ids ...string) string { return bulkURL(ids) }

// TestBulk: what is the same is there once, what differs is in the table, all of each
// call is recorded as shown, and each gets a vote of its own.
func TestBulk(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	ids := refunds(c.m, 10)
	c.get("/").want(t, http.StatusOK, `data-testid="pick-bar"`, `value="apr_03" form="pick-form"`)
	page := c.get(pageFor(ids...))
	page.want(t, http.StatusOK, "10 calls of ", "Customer 7", "customer › name</th>", "amount</th>", `name="digest:apr_09"`, "two finance reviewers", "0 of 1 ")
	table := page.body[strings.Index(page.body, "<table"):strings.Index(page.body, "</table>")]
	if head := table[:strings.Index(table, "<tbody")]; strings.Contains(head, "reason") || strings.Contains(head, "since") || strings.Contains(head, "currency") {
		t.Errorf("a column for what is the same in all: %s", head)
	}
	if len(c.m.seen) != 10 {
		t.Fatalf("%d cards are on record as shown", len(c.m.seen))
	}
	for i, seen := range c.m.seen {
		card := strings.TrimPrefix(seen, "usr_ada ")
		if !strings.Contains(page.body, card) || !strings.Contains(card, fmt.Sprintf("Customer %d", i)) || !strings.Contains(card, "broken") {
			t.Errorf("card %d is not in the page as it is recorded: %s", i, card)
		}
	}
	if own := c.get("/approvals/apr_04"); !strings.Contains(own.body, strings.TrimPrefix(c.m.seen[4], "usr_ada ")) {
		t.Error("what the page shows of a call is not what its own card shows")
	}
	done := c.do("POST", bulkPath, formFor(c.m, "approve", ids...))
	done.want(t, http.StatusOK, "10 votes are recorded", "You approved it.")
	if len(c.m.votes) != 10 {
		t.Fatalf("%d votes", len(c.m.votes))
	}
	requests := map[string]bool{}
	for i, v := range c.m.votes {
		requests[v.RequestID] = true
		if v.ApprovalID != ids[i] || !v.Approve || v.Comment != "as agreed" || v.Digest != c.m.cards[ids[i]].Approval.Call.Digest || v.Version != 1 || v.Channel != "console" || v.Person.ID != "usr_ada" {
			t.Errorf("vote %d: %+v", i, v)
		}
	}
	if len(requests) != 10 {
		t.Errorf("%d requests for ten votes", len(requests))
	}
}

// TestBulkDenies: a no has its kind, and what is not ticked is left alone.
func TestBulkDenies(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	ids := refunds(c.m, 3)
	form := formFor(c.m, "deny", ids[:2]...)
	form.Set("kind", "wrong_args")
	c.do("POST", bulkPath, form).want(t, http.StatusOK, "2 votes are recorded", "You denied it.")
	if a := c.m.cards[ids[2]].Approval; len(c.m.votes) != 2 || c.m.votes[1].Denial != approval.WrongArgs || a.Status != approval.Pending {
		t.Errorf("votes %+v, the third is %s", c.m.votes, a.Status)
	}
}

// TestBulkSetsApart: what has to be looked at by itself is in no table, and each such
// call says why.
func TestBulkSetsApart(t *testing.T) {
	const args = `{"amount":1,"reason":"broken"}`
	for name, test := range map[string]struct {
		tool, args, why string
		edit            func(*gate.Card)
	}{
		"another tool":  {"mail.send", args, "It is a call of mail.send, and the others are of payments.refund.", nil},
		"another agent": {"", args, "Another agent asks", func(c *gate.Card) { c.Approval.Call.AgentID, c.AgentName = "agt_x", "x" }},
		"another kind": {"", args, "It waits for", func(c *gate.Card) {
			c.Approval.Plan.Requirements[0].AnyOf = []engine.Group{{Role: "finance-approver", Needed: 1}}
		}},
		"a person":           {"", args, "having proved who they are", func(c *gate.Card) { c.Approval.Plan.Requirements[0].Kind = engine.Human }},
		"other findings":     {"", args, "other reasons", func(c *gate.Card) { c.Approval.Decision.Findings[0].Message = "Something else." }},
		"another place":      {"", args, "another environment", func(c *gate.Card) { c.Approval.Call.Environment = "prod" }},
		"more approvals":     {"", args, "Other approvals", func(c *gate.Card) { c.Approval.Plan.Requirements[0].Needed = 2 }},
		"other limits":       {"", args, "would say something else", constraints(`{"max_amount":5}`)},
		"deceptive":          {"", `{"amount":1,"reason":"` + "\u202e" + `x"}`, "not what it looks like", nil},
		"a secret":           {"", `{"amount":1,"api_key":"x"}`, "look like secrets", nil},
		"long":               {"", args, "arguments are long", func(c *gate.Card) { c.Long, c.Shown = true, true }},
		"long to read":       {"", `{"amount":1,"reason":"` + strings.Repeat("x", previewRunes) + `"}`, "arguments are long", nil},
		"a misleading name":  {"", `{"amount":1,"a › b":1}`, "do not fit a table", nil},
		"a look-alike":       {"", args, "looks like one that was approved before", func(c *gate.Card) { c.Resembles = []gate.Resemblance{{Place: "reason"}} }},
		"erased":             {"", "", "have been erased", func(c *gate.Card) { c.Arguments = nil }},
		"edited":             {"", args, "changed since it was first asked", func(c *gate.Card) { c.Approval.Plan.Edition = 2 }},
		"a colleague's word": {"", args, "People have written", func(c *gate.Card) { hasSaid(c, approval.Fact{Kind: approval.Comment, Comment: "wait!"}) }},
		"a question":         {"", args, "question is open", func(c *gate.Card) { hasSaid(c, approval.Fact{Kind: approval.Question, Comment: "why?"}) }},
		"one's own":          {"", args, "You are on the requesting side", func(c *gate.Card) { c.Approval.Plan.Excluded = []string{"ada"} }},
		"not one's role":     {"", args, "takes the role treasurer", func(c *gate.Card) { c.Approval.Plan.Requirements[0].Role = "treasurer" }},
		"signed, no passkey": {"", args, "knows no passkey of yours", func(c *gate.Card) { c.SignYes = true }},
		"another signature":  {"", args, "would say something else", func(c *gate.Card) { c.SignYes, c.CanSign = true, true }},
		"over":               {"", args, "Meanwhile", func(c *gate.Card) { c.Approval.Plan.ExpiresAt = epoch.Add(-time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, nil).signIn("ada@example.com")
			ids := refunds(c.m, 2)
			tool := cmp.Or(test.tool, "payments.refund")
			c.m.add("apr_odd", tool, test.args, func(card *gate.Card) {
				one(card)
				if test.edit != nil {
					test.edit(card)
				}
			})
			page := c.get(pageFor(append(ids, "apr_odd")...))
			page.want(t, http.StatusOK, "2 calls of ", `<li data-id="apr_odd">`, `href="/approvals/apr_odd"`, test.why)
			if strings.Contains(page.body, `name="id" value="apr_odd"`) || len(c.m.seen) != 2 {
				t.Error("it is in the table, or on record as shown")
			}
			// Nor does a form that names it all the same get it decided.
			done := c.do("POST", bulkPath, formFor(c.m, "approve", append(ids, "apr_odd")...))
			done.want(t, http.StatusOK, "2 of 3 votes are recorded", "Not recorded: ", test.why)
			for _, v := range c.m.votes {
				if v.ApprovalID == "apr_odd" {
					t.Errorf("it got a vote: %+v", v)
				}
			}
		})
	}
}

// hasSaid adds something that a colleague has said.
func hasSaid(c *gate.Card, f approval.Fact) {
	f.Seq, f.At, f.Edition = int64(len(c.Approval.Facts)+1), epoch, c.Approval.Plan.Edition
	f.Actor, f.Voter = engine.Actor{Kind: engine.HumanActor, ID: "usr_grace"}, approval.Voter{Identity: "grace", Roles: []string{"finance-approver"}, Active: true}
	c.Approval.Facts = append(c.Approval.Facts, f)
}

// TestBulkAttacked: what has happened since the page was shown, what a form makes up,
// and one that comes twice: each call has its own result, and no vote is on anything else
// than what was shown.
func TestBulkAttacked(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	ids := refunds(c.m, 6)
	c.m.add("apr_mail", "mail.send", `{"to":"x@example.com"}`, one)
	c.m.add("apr_own", "payments.refund", `{"amount":1}`, func(card *gate.Card) { one(card); card.Approval.Plan.Excluded = []string{"ada"} })
	form := formFor(c.m, "approve", append(ids, "apr_mail", "apr_own", "apr_none", ids[0])...)
	form.Set("digest:apr_none", "sha256:x")
	form.Set("version:apr_none", "1")
	form.Del("digest:" + ids[4])
	// Since the page was shown, one was edited, one denied, one got a question.
	edited := &c.m.cards[ids[1]].Approval
	edited.Version, edited.Call.Digest = 2, "sha256:"+strings.Repeat("cd", 32)
	grace := c.m.people["grace@example.com"]
	other := c.m.cards[ids[2]].Approval
	if _, err := c.m.Vote(t.Context(), gate.VoteRequest{Person: grace, ApprovalID: ids[2], Denial: approval.Never, Digest: other.Call.Digest, Version: 1}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.m.Ask(t.Context(), gate.Contribution{Person: grace, ApprovalID: ids[3], Comment: "why?"}, nil); err != nil {
		t.Fatal(err)
	}
	c.m.votes = nil
	check := func(a answer) {
		t.Helper()
		a.want(t, http.StatusOK, "2 of 9 votes are recorded")
		for id, want := range map[string]string{
			ids[0]: "You approved it.", ids[5]: "You approved it.", ids[1]: "Not recorded: The arguments are not the ones that you were shown", ids[2]: "Not recorded: Meanwhile: Denied by",
			ids[3]: "Not recorded: A question is open", ids[4]: "did not say which version", "apr_mail": "It is a call of mail.send", "apr_own": "You are on the requesting side",
			"apr_none": "Not recorded: There is no such approval",
		} {
			if got := resultOf(a, id); !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q", id, got, want)
			}
		}
		if len(c.m.votes) != 2 || c.m.votes[0].ApprovalID != ids[0] || c.m.votes[1].ApprovalID != ids[5] {
			t.Errorf("votes %+v", c.m.votes)
		}
	}
	check(c.do("POST", bulkPath, form))
	check(c.do("POST", bulkPath, form)) // sent again: the same results, and no further vote
	form.Set("decision", "deny")
	if a := c.do("POST", bulkPath, form); strings.Contains(resultOf(a, ids[0]), "You denied it") {
		t.Error("what was approved counts as denied")
	}
}

// resultOf is what a page of results says of a call.
func resultOf(a answer, id string) string {
	_, rest, _ := strings.Cut(a.body, `<li class="good" data-id="`+id+`"`)
	if rest == "" {
		_, rest, _ = strings.Cut(a.body, `<li class="bad" data-id="`+id+`"`)
	}
	_, rest, _ = strings.Cut(rest, "</a>")
	text, _, _ := strings.Cut(rest, "</li>")
	return text
}

// TestBulkForms: what no such form can say is refused before anything is done, and
// what was written is still there.
func TestBulkForms(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	ids := refunds(c.m, 3)
	for name, test := range map[string]struct {
		change func(url.Values)
		says   string
	}{
		"none ticked":       {func(f url.Values) { f.Del("id") }, "Tick the calls first"},
		"no decision":       {func(f url.Values) { f.Del("decision") }, "neither approve nor deny"},
		"a no of no kind":   {func(f url.Values) { f.Set("decision", "deny"); f.Set("kind", "maybe") }, "what kind of no"},
		"an endless remark": {func(f url.Values) { f.Set("comment", "as agreed"+strings.Repeat("a", gate.MaxComment)) }, "longer than"},
	} {
		form := formFor(c.m, "approve", ids...)
		test.change(form)
		a := c.do("POST", bulkPath, form)
		if a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.body, test.says) || !strings.Contains(a.body, "as agreed") || !strings.Contains(a.body, "3 calls of ") {
			t.Errorf("%s: %s\n%s", name, a.Status, a.body)
		}
	}
	many := make([]string, maxBulk+1)
	for i := range many {
		many[i] = fmt.Sprintf("apr_%03d", i)
	}
	c.get(pageFor(many...)).want(t, http.StatusUnprocessableEntity, "Up to 100 calls")
	c.do("POST", bulkPath, formFor(c.m, "approve", many...)).want(t, http.StatusUnprocessableEntity, "Up to 100 calls", "as agreed")
	c.get(bulkPath).want(t, http.StatusUnprocessableEntity, "Tick the calls first")
	if a := c.get(pageFor(ids[0], ids[0])); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/approvals/"+ids[0] {
		t.Errorf("one call: %s to %s", a.Status, a.Header.Get("Location"))
	}
	for _, header := range [][2]string{{"Sec-Purpose", "prefetch"}, {"Sec-Fetch-Dest", "image"}} {
		if a := c.get(pageFor(ids...), header[0], header[1]); a.StatusCode == http.StatusOK {
			t.Errorf("%s: cards are sent ahead", header)
		}
	}
	c.do("POST", bulkPath+"?"+formFor(c.m, "approve", ids...).Encode(), url.Values{}).want(t, http.StatusUnprocessableEntity)
	other := formFor(c.m, "approve", ids...)
	other.Set(writer, "usr_grace")
	c.do("POST", bulkPath, other).want(t, http.StatusConflict)
	c.do("POST", bulkPath, formFor(c.m, "approve", ids...), "Sec-Fetch-Site", "cross-site").want(t, http.StatusForbidden)
	if len(c.m.votes) != 0 {
		t.Errorf("votes: %+v", c.m.votes)
	}
	two := c.get(pageFor(ids[0], c.m.add("apr_mail", "mail.send", `{"to":"x"}`, one).Approval.ID))
	two.want(t, http.StatusOK, "None of these calls can be decided together", "None of the others is like it")
	c.m.broken = errors.New("away")
	if a := c.do("POST", bulkPath, formFor(c.m, "approve", ids...)); a.StatusCode < 500 || !strings.Contains(a.body, "as agreed") {
		t.Errorf("an outage: %s\n%s", a.Status, a.body)
	}
}

// TestBulkSigned: where votes are signed, each call has a challenge of its own.
func TestBulkSigned(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	ids := refunds(c.m, 2)
	for _, id := range ids {
		c.m.cards[id].SignYes, c.m.cards[id].CanSign = true, true
	}
	c.get(pageFor(ids...)).want(t, http.StatusOK, `Approve <span data-sum-all>all</span> and sign each`, `data-passkey="each"`, `name="assertion:`+ids[1]+`"`, ">Deny <span data-sum-all>all</span></span></button>")
	form := formFor(c.m, "approve", ids...)
	for _, id := range ids {
		form.Set("challenge:"+id, "cha_"+id)
		form.Set("assertion:"+id, `{"of":"`+id+`"}`)
	}
	c.do("POST", bulkPath, form).want(t, http.StatusOK, "2 votes are recorded")
	for i, v := range c.m.votes {
		if v.Signed.ChallengeID != "cha_"+ids[i] || string(v.Signed.Assertion) != `{"of":"`+ids[i]+`"}` {
			t.Errorf("vote %d is signed by %+v", i, v.Signed)
		}
	}
}
