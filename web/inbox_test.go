package web

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/registry"
	"holdpoint/engine/stakes"
	"holdpoint/internal/gate"
)

// fill adds n calls, of which those with a higher number are due later.
func (m *fakeGate) fill(n int) {
	for i := range n {
		m.add(fmt.Sprintf("apr_%03d", i), fmt.Sprintf("tool.%03d", i), `{}`, func(c *gate.Card) {
			c.Approval.Plan.ExpiresAt = epoch.Add(time.Hour + time.Duration(i)*time.Minute)
		})
	}
}

// TestInboxPages: what does not fit on a page is on the next one, and the pages lead to
// each other with the search that there is.
func TestInboxPages(t *testing.T) {
	c := start(t, nil)
	c.m.fill(120)
	c.signIn("ada@example.com")
	a := c.get("/")
	a.want(t, http.StatusOK, "120 calls wait for you", "the earliest deadline first: 1 to 50.", "tool.000", "tool.049", `href="/?after=50"`, "(120) Inbox")
	a.lacks(t, "tool.050", "Previous")
	a.lacks(t, "Calls by agent")
	c.m.add("apr_other", "other.tool", `{}`, func(c *gate.Card) { c.Approval.Call.AgentID = "agt_other" })
	c.get("/").want(t, http.StatusOK, "Calls by agent", `href="/?agent=agt_other"`, "<strong>1</strong>", "<strong>120</strong>")
	c.get("/?q=other").lacks(t, "Calls by agent")
	delete(c.m.cards, "apr_other")
	a = c.get("/?after=50")
	a.want(t, http.StatusOK, "51 to 100.", "tool.050", "tool.099", `href="/?before=50"`, `href="/?after=100"`)
	a.lacks(t, "tool.049", "tool.100")
	a = c.get("/?q=tool&after=100")
	a.want(t, http.StatusOK, "101 to 120.", "tool.119", `href="/?before=100&amp;q=tool"`, `href="/?q=tool"`)
	a.lacks(t, "Next")
	c.get("/?after=elsewhere").want(t, http.StatusBadRequest, "no place in the inbox")
	c.get("/?after=400").want(t, http.StatusOK, "nothing on this page any more", "Go to the first page")
}

// TestInboxSearch: a search is what its address says, and what it cannot mean is said.
func TestInboxSearch(t *testing.T) {
	c := start(t, nil)
	c.m.fill(3)
	c.signIn("ada@example.com")
	a := c.get("/?q=tool.001")
	a.want(t, http.StatusOK, "1 of the 3 calls that wait for you", "tool.001", "Show everything", "Arguments are sealed")
	a.lacks(t, "tool.002")
	c.get("/?tool=none").want(t, http.StatusOK, "No call fits this search", "3 calls wait for you, and none of them fits")
	c.get("/?sort=newest&due=24h&tool=+").want(t, http.StatusOK, "newest first", "within a day")
	for query, says := range map[string]string{
		"sort=size":                         "Order cannot be “size”. It can be: oldest, newest.",
		"asked=luck":                        "Waits for cannot be “luck”. It can be: answer, step_up, ticket, review, human.",
		"due=1y":                            "Deadline cannot be “1y”",
		"mine=2":                            "Claimed cannot be “2”",
		"group=tool":                        "Rows cannot be “tool”",
		"q=%00":                             "a character that cannot be read",
		"q=%ff":                             "a character that cannot be read",
		"q=" + strings.Repeat("x", 201):     "Search is too long",
		"q=" + strings.Repeat("x+", 9):      "up to 8 words",
		"tool=a&tool=b":                     "Tool is there more than once",
		"tool=&tool=b":                      "Tool is there more than once",
		"q=%zz":                             "A part of the search cannot be read",
		"tool=a;b":                          "A part of the search cannot be read",
		"tool=" + strings.Repeat("x", 1001): "Tool is too long",
	} {
		a = c.get("/?" + query)
		a.want(t, http.StatusBadRequest, says)
		a.lacks(t, "tool.001")
		c.get("/live?"+query).want(t, http.StatusBadRequest)
	}
	c.get("/?tool="+strings.Repeat("x", 512)).want(t, http.StatusOK, "No call fits this search")
	a = c.signIn("linus@example.com").get("/")
	a.want(t, http.StatusOK, "Nothing waits for you", "one of your roles", "ops")
	a.lacks(t, "go run")
	c.m.people["linus@example.com"] = engine.Person{ID: "usr_linus", Email: "linus@example.com", Name: "Linus", Identity: "linus", VerifiedBy: "totp", VerifiedAt: epoch, Factors: []string{"totp"}}
	c.get("/").want(t, http.StatusOK, "your account has none", "ask an administrator")
}

// TestInboxViews: a search is kept by a name, shown as the one it is, and forgotten.
func TestInboxViews(t *testing.T) {
	c := start(t, nil)
	c.m.fill(3)
	c.signIn("ada@example.com")
	c.get("/?q=tool.001&sort=newest").want(t, http.StatusOK, "Save this view", `name="query" value="q=tool.001&amp;sort=newest"`)
	saved := c.do("POST", "/inbox/views", url.Values{"name": {"One <b>"}, "query": {"sort=newest&q=tool.001&after=1&other=x"}})
	saved.want(t, http.StatusSeeOther)
	if to := saved.Header.Get("Location"); to != "/?q=tool.001&sort=newest" {
		t.Errorf("saving leads to %q", to)
	}
	a := c.get("/?sort=newest&q=tool.001")
	a.want(t, http.StatusOK, "The view was saved", "This is your saved view", "One &lt;b&gt;", "Remove it")
	a.lacks(t, "Save this view")
	c.get("/").want(t, http.StatusOK, `href="/?q=tool.001&amp;sort=newest"`)
	c.do("POST", "/inbox/views", url.Values{"name": {"x"}, "query": {"sort=size"}}).want(t, http.StatusUnprocessableEntity, "cannot be “size”")
	c.do("POST", "/inbox/views", url.Values{"name": {"x"}, "query": {"%zz"}}).want(t, http.StatusUnprocessableEntity, "cannot be saved")
	c.do("POST", "/inbox/views/view_0", url.Values{}).want(t, http.StatusSeeOther)
	c.get("/").lacks(t, "Saved views")
}

// TestInboxRows: a row stands for several alike calls, and leads to them.
func TestInboxRows(t *testing.T) {
	asked := inboxAsked{searchForm: searchForm{path: "/", form: map[string]string{"q": "tool", "group": "alike"}}, search: gate.InboxSearch{Alike: true}}
	c := start(t, nil)
	card := c.m.add("apr_1", "pay\u200b", `{}`, nil)
	found := gate.InboxRow{Approval: card.Approval, Alike: 7, Roles: []string{"a", "b"}, InPlaceOf: []string{"usr_x", "usr_y"}}
	found.Facts = []approval.Fact{{Kind: approval.Edit}}
	row := inboxRow(asked, found, gate.Stakes{Environment: "prod"}, func(id string) string { return "~" + id })
	if row.AlikeURL != "/?agent=agt_billing&asked=review&q=tool&roles=a%2Cb&tool=pay%E2%80%8B" || row.Alike != 7 || row.WhyMe != "In place of ~usr_y" || !row.Edited || !row.Deceptive || row.Question || row.Environment != "dev" || row.Named != "prod" {
		t.Errorf("%+v", row)
	}
	addGroup(&row, gate.GroupStakes{Of: 5, WithAmount: 3, Ranges: []string{"12.50 – 4,600.00 EUR"}, Targets: []gate.Count{{Value: "to", N: 2}}, FirstTime: []gate.Count{{Value: "iban", N: 1}}})
	if got := strings.Join(append(row.Group, row.Flags...), "; "); got != "of 5 calls that were looked at; no amount in 2 of 5 calls; 2 different in “to”; First time: iban, in 1 of 5 calls" {
		t.Errorf("a group is told as %q", got)
	}
	if got := strings.Join(row.Amounts, "; "); got != "12.50 – 4,600.00 EUR" {
		t.Errorf("a group's amounts are %q", got)
	}
	one := found
	one.Alike = 1
	if row = inboxRow(asked, one, gate.Stakes{Sentence: stakes.Sentence{Amount: "1,250.00 EUR"}}, func(string) string { return "" }); strings.Join(row.Amounts, "; ") != "1,250.00 EUR" || row.Before != "" {
		t.Errorf("amounts %q, before %q", row.Amounts, row.Before)
	}
	for n, want := range map[gate.DecisionCounts]string{
		{}: "", {Approved: 1}: "The only one of this agent and tool was approved", {Denied: 1}: "The only one of this agent and tool was denied", {Approved: 15}: "Last 15 of this agent and tool: all approved",
		{Denied: 2}: "! Last 2 of this agent and tool: all denied", {Approved: 12, Denied: 1}: "Last 13 of this agent and tool: 12 approved, 1 denied", {Approved: 1, Denied: 2}: "! Last 3 of this agent and tool: 1 approved, 2 denied",
		{Approved: 2, Denied: 2}: "Last 4 of this agent and tool: 2 approved, 2 denied",
	} {
		for _, calls := range []int{1, 7} { // of one agent's tool, in a group as well
			found.Alike = calls
			row = inboxRow(asked, found, gate.Stakes{Alike: n}, func(string) string { return "" })
			if got := map[bool]string{true: "! "}[row.MostlyDenied] + row.Before; got != want {
				t.Errorf("%+v of %d calls is told as %q, want %q", n, calls, got, want)
			}
		}
	}
	if row = inboxRow(asked, found, gate.Stakes{}, func(string) string { return "" }); row.Environment != "dev" || row.Named != "" {
		t.Errorf("without a word of the call: %+v", row)
	}
	c.m.cards["apr_1"].Stakes.Environment = "prod<"
	c.signIn("ada@example.com").get("/").want(t, http.StatusOK, `data-testid="row-environment">dev</span>`, "call names prod&lt;</span>")
}

// TestRowsSayWhatDeservesASecondLook: that the agent is stopped, and that the same call was
// approved before, stand in the row and on top of the card.
func TestRowsSayWhatDeservesASecondLook(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	same := &gate.SameCall{ID: "apr_0", At: epoch.Add(-14 * time.Minute), Execution: approval.Succeeded}
	card := c.m.add("apr_1", "pay", `{"amount":40}`, func(c *gate.Card) { c.Same, c.Stakes.Same = same, same })
	list := c.get("/")
	list.want(t, http.StatusOK, "The same arguments were approved before, and the call ran")
	list.lacks(t, "row-stopped")
	page := c.get("/approvals/apr_1")
	page.want(t, http.StatusOK, "The same arguments were approved 14 min ago, and the call ran")
	page.lacks(t, `data-testid="agent-stopped"`)
	c.m.registry.known.Kills[card.Approval.Call.AgentID] = registry.Kill{Reason: "pays <twice>", At: epoch}
	c.get("/").want(t, http.StatusOK, `data-testid="row-stopped"`)
	page = c.get("/approvals/apr_1")
	page.want(t, http.StatusOK, "This agent is stopped.", "pays &lt;twice&gt;")
	if strings.Contains(c.m.seen[len(c.m.seen)-1], "agent is stopped") {
		t.Error("what may end is part of what is kept as shown")
	}
}

// TestRowsSayThatAQuestionIsAnswered: who has asked sees it in the inbox, and so do others
// who are to decide; an open question is told alone, also where an earlier one has its answer.
func TestRowsSayThatAQuestionIsAnswered(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	asks := approval.Fact{Seq: 1, Kind: approval.Question, Actor: engine.Actor{ID: "usr_ada"}, Comment: "Which invoice?"}
	answers := approval.Fact{Seq: 2, Kind: approval.Information, Actor: engine.Actor{ID: "agt_billing"}, Comment: "2026-1187"}
	card := c.m.add("apr_1", "pay", `{"amount":40}`, nil)
	for _, try := range []struct {
		facts       []approval.Fact
		open        bool
		want, lacks string
	}{
		{nil, false, "", `data-testid="row-answered"`},
		{[]approval.Fact{answers, asks}, false, "Your question has an answer", "A question"},
		{[]approval.Fact{asks, answers, {Seq: 3, Kind: approval.Question, Actor: engine.Actor{ID: "usr_ben"}}, {Seq: 4, Kind: approval.Information}}, false, "A question was answered", "Your question"},
		{[]approval.Fact{asks}, true, "A question is open", `data-testid="row-answered"`},
		{[]approval.Fact{asks, answers, {Seq: 3, Kind: approval.Question, Actor: engine.Actor{ID: "usr_ben"}}}, true, "A question is open", `data-testid="row-answered"`},
	} {
		card.Approval.Facts, card.Approval.State.Question = try.facts, nil
		if try.open {
			card.Approval.State.Question = &try.facts[len(try.facts)-1]
		}
		page := c.get("/")
		page.want(t, http.StatusOK, try.want)
		page.lacks(t, try.lacks)
	}
}

// TestInboxWithoutSentences: what cannot be read of one call is said in its row, and what
// cannot be read at all leaves the rows without sentences; the inbox is there.
func TestInboxWithoutSentences(t *testing.T) {
	c := start(t, nil)
	c.m.fill(3)
	c.m.cards["apr_001"].Stakes = gate.Stakes{Unreadable: true}
	c.signIn("ada@example.com")
	page := c.get("/")
	page.want(t, http.StatusOK, "tool.000", "tool.001", "tool.002")
	if rows := strings.Split(page.body, `data-row="apr_`); len(rows) != 4 || strings.Count(page.body, "cannot be read") != 1 || !strings.Contains(rows[2], "The arguments of this call cannot be read.") ||
		strings.Count(page.body, `data-testid="row-stakes"`) != 2 {
		t.Errorf("the rows: %q", rows)
	}
	c.m.unsaid = errors.New("no sentences today")
	page = c.get("/")
	page.want(t, http.StatusOK, "tool.000", "tool.001", "tool.002")
	page.lacks(t, `data-testid="row-stakes"`, "cannot be read")
	if _, kind := c.events(t, "/live?seen=x")(); kind != "changed" {
		t.Errorf("the stream says %q", kind)
	}
}

// events reads what a stream sends: the rows that come and go, or "changed".
func (c *client) events(t *testing.T, path string) (next func() (rowsChange, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", c.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	return func() (change rowsChange, kind string) {
		t.Helper()
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "", "event":
				kind = value
			case "data":
				if kind == "rows" {
					if err := json.Unmarshal([]byte(value), &change); err != nil {
						t.Fatal(err)
					}
				}
				return change, kind
			}
			if value == "here" {
				return change, "here"
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return change, ""
	}
}

// TestInboxLive: an open inbox is told of the rows that come, change and go, and of no
// others; where more than rows changes, it is told to load itself.
func TestInboxLive(t *testing.T) {
	c := start(t, nil)
	c.m.fill(60)
	c.signIn("ada@example.com")
	page := c.get("/").body
	_, live, _ := strings.Cut(page, `data-live="`)
	live, _, _ = strings.Cut(live, `"`)
	told := func() string {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		ids := fmt.Sprint(c.m.told)
		c.m.told = nil
		return ids
	}
	told()
	next := c.events(t, strings.ReplaceAll(live, "&amp;", "&"))
	if _, kind := next(); kind != "here" {
		t.Fatalf("a page that is true is told %q", kind)
	}
	if ids := told(); ids != "[]" {
		t.Errorf("sentences are written for %s, which the page has", ids)
	}
	change := func(do func()) (rowsChange, string) {
		t.Helper()
		c.m.mu.Lock()
		do()
		c.m.notify()
		c.m.mu.Unlock()
		for {
			if got, kind := next(); kind != "here" {
				return got, kind
			}
		}
	}
	says := func(got rowsChange) string {
		text := fmt.Sprint(got.Rows, " -", got.Drop)
		for _, put := range got.Put {
			text += " +" + put.After + ">" + put.ID
			if !strings.HasPrefix(put.HTML, `<li data-testid="inbox-row" data-row="`+put.ID+`">`) {
				t.Errorf("%s is %q", put.ID, put.HTML)
			}
		}
		return text
	}
	got, kind := change(func() { c.m.cards["apr_003"].Approval.Revision++ })
	if says(got) != "50 -[] +apr_002>apr_003" || kind != "rows" || got.Say != "60 calls wait for you" || got.Title != "(60) Inbox · Holdpoint" {
		t.Errorf("one that changes: %s %s", kind, says(got))
	}
	if size := len(got.Put[0].HTML) + len(got.Head) + len(got.Pager); size*20 > len(page) {
		t.Errorf("a change of one row takes %d bytes of a page of %d", size, len(page))
	}
	if ids := told(); ids != "[apr_003]" || !strings.Contains(got.Put[0].HTML, `data-testid="row-stakes"`) {
		t.Errorf("sentences are written for %s", ids)
	}
	// The row that goes makes room for another one.
	if got, _ = change(func() { delete(c.m.cards, "apr_007") }); says(got) != "50 -[apr_007] +apr_049>apr_050" || !strings.Contains(got.Head, "59 calls wait for you") {
		t.Errorf("one that goes: %s", says(got))
	}
	// One that is due earlier moves, and takes nobody else's row along.
	if got, _ = change(func() {
		c.m.cards["apr_040"].Approval.Plan.ExpiresAt = epoch.Add(time.Minute)
		c.m.advance(c.m.cards["apr_040"])
	}); says(got) != "50 -[] +>apr_040" {
		t.Errorf("one that moves: %s", says(got))
	}
	// What is on no row of this page changes the numbers only.
	if got, _ = change(func() { delete(c.m.cards, "apr_059") }); says(got) != "50 -[]" || !strings.Contains(got.Head, "58 calls wait for you") {
		t.Errorf("one on another page: %s", says(got))
	}
	if _, kind = change(func() { clear(c.m.cards) }); kind != "changed" {
		t.Errorf("an inbox that becomes empty is told %q", kind)
	}
}

// TestCompressed: a list is compressed for its own pages and for nobody's, never for a
// request that another site makes, and nothing else is: what tells arguments is none.
func TestCompressed(t *testing.T) {
	c := start(t, nil)
	c.m.fill(50)
	c.signIn("ada@example.com")
	if a := c.get("/", "Sec-Fetch-Site", "same-origin", "Accept-Encoding", "gzip"); a.Header.Get("Content-Encoding") != "" || !strings.Contains(a.body, `data-testid="row-stakes"`) {
		t.Error("rows that tell arguments are compressed, or tell none")
	}
	c.m.untold = true
	plain := c.get("/")
	size := 0
	for _, test := range []struct {
		path, site, accepts string
		want                bool
	}{
		{"/", "same-origin", "gzip, deflate, br", true},
		{"/", "none", "br, gzip", true},
		{"/history", "same-origin", "gzip", true},
		{"/", "cross-site", "gzip", false},
		{"/", "same-site", "gzip", false},
		{"/", "", "gzip", false},
		{"/", "same-origin", "br, gzip;q=0", false},
		{"/approvals/apr_001", "same-origin", "gzip", false},
		{"/account", "same-origin", "gzip", false},
	} {
		a := c.get(test.path, "Sec-Fetch-Site", test.site, "Accept-Encoding", test.accepts)
		if got := a.Header.Get("Content-Encoding") == "gzip"; got != test.want || a.StatusCode != http.StatusOK {
			t.Errorf("%+v: %t, %d", test, got, a.StatusCode)
		}
		if test.path != "/" || !test.want {
			continue
		}
		reader, err := gzip.NewReader(strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(reader); err != nil || string(text) != plain.body {
			t.Errorf("%+v: another page than without: %v", test, err)
		}
		if size = len(a.body); size*5 > len(plain.body) {
			t.Errorf("%d bytes of %d", size, len(plain.body))
		}
	}
	if size == 0 {
		t.Error("nothing was compressed")
	}
}
