package web

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/gate"
)

// audited is a console with a log, and somebody signed in.
func audited(t *testing.T, email string, edit func(*Config)) (*client, *fakeLog) {
	t.Helper()
	var l *fakeLog
	c := start(t, func(cfg *Config) {
		l = newFakeLog(t, cfg.Inbox.(*fakeGate))
		cfg.Log, cfg.LogKeys = l, []string{l.key.Public}
		if edit != nil {
			edit(cfg)
		}
	})
	return c.signIn(email), l
}

var (
	markup = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

// words are a page's without its markup.
func (a answer) words() string {
	return strings.TrimSpace(spaces.ReplaceAllString(html.UnescapeString(markup.ReplaceAllString(a.body, " ")), " "))
}

func (a answer) says(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.words(), text) {
			t.Errorf("the page does not say %q:\n%s", text, a.words())
		}
	}
}

func (a answer) silent(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(a.words(), text) {
			t.Errorf("the page says %q:\n%s", text, a.words())
		}
	}
}

func TestWhoMayReadTheLog(t *testing.T) {
	for email, want := range map[string]int{"ada@example.com": 403, "linus@example.com": 403, "aude@example.com": 200, "olga@example.com": 200} {
		c, l := audited(t, email, nil)
		e := l.add(t, engine.Event{Type: engine.Decided, Outcome: engine.Allow, AgentID: "agt_billing", ToolName: "secret.tool"})
		for _, path := range []string{"/audit", "/audit/events/" + e.ID, "/audit/events/" + e.ID + "/document", "/audit/checkpoints"} {
			a := c.get(path)
			a.want(t, want)
			if want == 403 && strings.Contains(a.body, "secret.tool") {
				t.Errorf("%s tells %s what happened", path, email)
			}
		}
		if got := strings.Contains(c.get("/").body, `href="/audit"`); got != (want == 200) {
			t.Errorf("%s: the navigation has the audit log: %v", email, got)
		}
	}
	c := start(t, func(cfg *Config) { cfg.Log = newFakeLog(t, cfg.Inbox.(*fakeGate)) })
	if to := c.get("/audit?agent=a").Header.Get("Location"); to != "/login?next="+url.QueryEscape("/audit?agent=a") {
		t.Errorf("without a session: %q", to)
	}
}

func TestEventsInWords(t *testing.T) {
	c, l := audited(t, "aude@example.com", nil)
	l.sample(t)
	c.get("/audit").says(t,
		"Olga Owner signed in with a password and an authenticator app.",
		"Olga Owner: the agent was registered with trust level basic.",
		"billing-agent called invoices.read, and it was allowed.",
		"billing-agent called payments.transfer, and it was held for approval.", "Large payments need finance and security.", "and 1 more reason",
		"Ada Lovelace approved the call of payments.transfer by billing-agent.",
		"Linus tried to vote and was turned away, for the call of payments.transfer by billing-agent.", "You have none of the roles",
		"The call of payments.transfer by billing-agent was approved: it may run once.",
		"billing-agent took the permission and started the call of payments.transfer.",
		"billing-agent reported the success of the call of payments.transfer.",
		"Somebody tried to sign in or to prove who they are, and was turned away.",
		"billing-agent called web_search, and it was one too many.",
		"12 events in it", "21 Nov 2026, 10:11:00 UTC",
	)
	a := c.get("/audit")
	a.want(t, 200, "RIGHT-TO-LEFT", "&lt;b&gt;call&lt;/b&gt;", `href="/approvals/apr_transfer"`, `href="/audit/events/00000000-0000-4000-8000-000000000001"`)
	if strings.Contains(a.body, "\u202e") {
		t.Error("a direction mark is on the page as it is")
	}
}

// TestEveryEventHasWords: no type and no outcome is without a sentence.
func TestEveryEventHasWords(t *testing.T) {
	name := func(id string) string { return id }
	for _, kind := range eventTypes {
		for _, o := range outcomes {
			for _, actor := range []engine.ActorKind{engine.HumanActor, engine.AgentActor, engine.ServiceActor, engine.SystemActor, "other"} {
				for _, e := range []engine.Event{
					{Type: kind.kind, Outcome: o.outcome, Actor: engine.Actor{Kind: actor}},
					{Type: kind.kind, Outcome: o.outcome, Actor: engine.Actor{Kind: actor, ID: "x"}, AgentID: "a", ToolName: "t", Reasons: []engine.Reason{{Code: "C", Message: "Because."}}},
				} {
					s := describeEvent(e, name).Sentence
					if len(s) < 10 || !strings.HasSuffix(s, ".") || strings.HasSuffix(s, "..") || strings.Contains(s, "  ") || s[0] >= 'a' && s[0] <= 'z' && e.Actor.ID != "x" && e.AgentID != "a" {
						t.Errorf("%s %s by %q: %q", kind.kind, o.outcome, actor, s)
					}
				}
			}
		}
	}
}

func TestSearch(t *testing.T) {
	c, l := audited(t, "aude@example.com", nil)
	l.sample(t)
	for query, want := range map[string]struct{ has, lacks []string }{
		"?person=Ada+Lovelace":                               {[]string{"Ada Lovelace approved", "Person Ada Lovelace"}, []string{"web_search, and"}},
		"?person=usr_ada":                                    {[]string{"Ada Lovelace approved"}, []string{"web_search, and"}},
		"?person=ada%40example.com":                          {[]string{"Ada Lovelace approved"}, []string{"web_search, and"}},
		"?agent=billing-agent&outcome=RATE_LIMITED":          {[]string{"one too many", "Outcome too many calls", "Remove all"}, []string{"invoices.read, and"}},
		"?type=sign_in":                                      {[]string{"Somebody tried to sign in"}, []string{"web_search, and"}},
		"?tool=invoices.read":                                {[]string{"invoices.read, and it was allowed"}, []string{"web_search, and"}},
		"?approval=apr_transfer&type=vote":                   {[]string{"Ada Lovelace approved", "Linus tried to vote"}, []string{"was approved: it may"}},
		"?since=2026-11-21T10%3A10&until=2026-11-21T10%3A11": {[]string{"tried to sign in", "Before 21 Nov 2026, 10:11:00 UTC"}, []string{"web_search, and", "Ada Lovelace approved"}},
		"?until=2026-11-20":                                  {[]string{"No event fits all filters", "Remove one above"}, nil},
		"?agent=nobody":                                      {[]string{"No event fits all filters", "Agent nobody"}, nil},
		"?type=unheard_of":                                   {[]string{"No event fits all filters", "What unheard_of"}, nil},
	} {
		a := c.get("/audit" + query)
		if a.StatusCode != 200 {
			a = c.get(a.Header.Get("Location")) // the parameters in their order
		}
		a.want(t, 200)
		a.says(t, want.has...)
		a.silent(t, want.lacks...)
	}
	c.get("/audit?since=yesterday").want(t, 400, "This is no time.", `aria-invalid="true"`)
	c.get("/audit?since=2026-11-22&until=2026-11-21").want(t, 400, "This is before the beginning.")
	c.get("/audit?before=x").want(t, 400)
	if to := c.get("/audit?agent=&person=&tool=web_search&since=&nonsense=1").Header.Get("Location"); to != "/audit?tool=web_search" {
		t.Errorf("a form's empty fields lead to %q", to)
	}
	// A chip's way out keeps the others.
	a := c.get("/audit?agent=agt_billing&outcome=DENY")
	a.want(t, 200, `href="/audit?outcome=DENY"`, `href="/audit?agent=agt_billing"`)
}

func TestFindOneThing(t *testing.T) {
	c, l := audited(t, "aude@example.com", nil)
	l.sample(t)
	for asked, want := range map[string]string{
		"00000000-0000-4000-8000-000000000003":     "/audit/events/00000000-0000-4000-8000-000000000003",
		" {00000000-0000-4000-8000-00000000000C} ": "/audit/events/00000000-0000-4000-8000-00000000000c",
		"seq 3":        "/audit/events/00000000-0000-4000-8000-000000000003",
		"SEQ:3":        "/audit/events/00000000-0000-4000-8000-000000000003",
		"#12":          "/audit/events/00000000-0000-4000-8000-00000000000c",
		"apr_transfer": "/audit?approval=apr_transfer", "ada lovelace": "/audit?person=ada+lovelace",
		"billing-agent": "/audit?agent=agt_billing",
	} {
		if to := c.get("/audit?q=" + url.QueryEscape(asked)).Header.Get("Location"); to != want {
			t.Errorf("%q leads to %q, want %q", asked, to, want)
		}
	}
	for _, asked := range []string{"seq 99", "seq 0", "-4", "00000000-0000-4000-8000-0000000000ff", "<script>", strings.Repeat("9", 40)} {
		c.get("/audit?q="+url.QueryEscape(asked)).want(t, 200, "Nothing has this name", html.EscapeString(asked))
	}
}

func TestPagesOfTheLog(t *testing.T) {
	c, l := audited(t, "aude@example.com", nil)
	for range 2*auditPage + 10 {
		l.add(t, engine.Event{Type: engine.Decided, Outcome: engine.Allow, AgentID: "agt_billing", ToolName: "t"})
	}
	links := func(a answer, id string) string {
		m := regexp.MustCompile(`href="([^"]*)"[^>]*data-testid="` + id + `"`).FindStringSubmatch(a.body)
		if m == nil {
			return ""
		}
		return html.UnescapeString(m[1])
	}
	seen := map[string]int{}
	rows := regexp.MustCompile(`/audit/events/([0-9a-f-]{36})"`)
	count := func(a answer) (n int) {
		for _, m := range rows.FindAllStringSubmatch(a.body, -1) {
			seen[m[1]]++
			n++
		}
		return n
	}
	page := c.get("/audit?agent=agt_billing")
	var pages []int
	for {
		pages = append(pages, count(page))
		next := links(page, "older")
		if next == "" {
			break
		}
		if !strings.Contains(next, "agent=agt_billing") {
			t.Fatalf("the filter is lost: %s", next)
		}
		page = c.get(next)
	}
	if len(pages) != 3 || pages[2] != 10 || len(seen) != 2*auditPage+10 {
		t.Errorf("pages of %v, %d events", pages, len(seen))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is on %d pages", id, n)
		}
	}
	// And back.
	back := c.get(links(page, "newer"))
	if n := count(back); n != auditPage {
		t.Errorf("the page before has %d events", n)
	}
	if to := c.get(links(back, "newer")).Header.Get("Location"); to != "/audit?agent=agt_billing" {
		t.Errorf("from the second page newer ones lead to %q", to)
	}
	if to := c.get("/audit?after=60&agent=agt_billing").Header.Get("Location"); to != "/audit?agent=agt_billing" {
		t.Errorf("the newest, from before them, lead to %q", to)
	}
}

func TestASearchThatTakesTooLong(t *testing.T) {
	c, l := audited(t, "aude@example.com", nil)
	l.sample(t)
	l.slowAt = 6
	a := c.get("/audit?agent=agt_billing&tool=invoices.read")
	a.want(t, 200, `href="/audit?agent=agt_billing&amp;before=6&amp;tool=invoices.read"`)
	a.says(t, "Nothing found so far", "Searched back to event 6 of", "21 Nov 2026, 10:05:00 UTC", "Search further back")
	l.slowAt = 0
	c.get("/audit?agent=agt_billing&before=6&tool=invoices.read").says(t, "invoices.read, and it was allowed")
}

func TestWhatTheLogLacks(t *testing.T) {
	c, l := audited(t, "aude@example.com", nil)
	c.get("/audit").says(t, "Nothing has happened yet", "Each event gets a place in a log that only grows")
	c.get("/audit/checkpoints").says(t, "The log is empty", "Nothing has been signed yet", "No checkpoint yet")
	l.sample(t)
	// A row that somebody has taken out, and one that somebody has changed.
	l.records[2] = audit.Record{Leaf: 2, At: l.records[2].At}
	l.records[3].Outcome = "ALLOW"
	c.get("/audit").says(t, "The event at this place is gone", "does not agree with itself")
	if to := c.get("/audit?q=seq+3").Header.Get("Location"); to != "/audit?before=4" {
		t.Errorf("the place of an event that is gone leads to %q", to)
	}
	c.get("/audit/events/"+l.records[3].ID).says(t, "does not agree with itself", `"unreadable":`)
	c.get("/audit/events/00000000-0000-4000-8000-0000000000ff").want(t, 404)
	c.get("/audit/events/x").want(t, 404)
	l.waiting = 3
	c.get("/audit").says(t, "3 events have no place in the log yet, the oldest since 10m")
	l.broken = errors.New("no database")
	for _, path := range []string{"/audit", "/audit/checkpoints", "/audit?q=seq+1"} {
		if a := c.get(path); a.StatusCode != http.StatusServiceUnavailable && a.StatusCode != http.StatusInternalServerError {
			t.Errorf("%s without a database: %s", path, a.Status)
		}
	}
}

func TestOneEvent(t *testing.T) {
	c, l := audited(t, "aude@example.com", nil)
	l.sample(t)
	r := l.records[3]
	a := c.get("/audit/events/" + r.ID)
	a.want(t, 200, `data-proof="/v1/audit/events/`+r.ID+`/proof"`, html.EscapeString(string(r.Document())), audit.Digest(r.Document()), `href="/approvals/apr_transfer"`, "verify.js")
	a.says(t, "Event 4", "billing-agent called payments.transfer, and it was held for approval.", "A third reason.", "4 of 12",
		"The event before", "The event after", l.key.Public, "holdpoint audit verify")
	document := c.get("/audit/events/" + r.ID + "/document")
	if document.body != string(r.Document()) || !strings.HasPrefix(document.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the document to download is %q", document.body)
	}
	// One that has no place yet cannot be checked.
	l.records[3].Leaf = -1
	a = c.get("/audit/events/" + r.ID)
	a.says(t, "Event without a place yet", "nothing to check")
	if strings.Contains(a.body, "data-proof") {
		t.Error("there is a proof of nothing")
	}
}

func TestCheckpoints(t *testing.T) {
	var floor []byte
	c, l := audited(t, "aude@example.com", func(cfg *Config) {
		cfg.Floor = func(context.Context) ([]byte, error) { return floor, nil }
	})
	for range checkpointsPage + 7 {
		l.add(t, engine.Event{Type: engine.Decided, Outcome: engine.Allow, AgentID: "agt_billing", ToolName: "t"})
	}
	last := &l.notes[len(l.notes)-1]
	last.Cosignatures = []string{"\u2014 witness.example.org AAAA\n"}
	a := c.get("/audit/checkpoints")
	a.says(t, "Up to date", "Nothing is kept outside the database yet", "witness.example.org", l.key.Public, logOrigin, "holdpoint audit verify")
	a.want(t, 200, `href="/audit/checkpoints?below=8"`)
	c.get("/audit/checkpoints?below=8").says(t, "Newest")
	if n := strings.Count(c.get("/audit/checkpoints?below=8").body, `class="seq"`); n != 7 {
		t.Errorf("the last page has %d checkpoints", n)
	}
	c.get("/audit/checkpoints?below=x").want(t, 400)
	for what, f := range map[string]struct {
		note []byte
		says string
	}{
		"the same": {last.Note, "A checkpoint of 57 events is kept outside the database, and the log is not behind it."},
		"older":    {l.notes[3].Note, "A checkpoint of 4 events"},
		"nonsense": {[]byte("nonsense"), "is no checkpoint"},
		"newer":    {sign(t, l, 99, last.Root), "The log is behind what is kept outside the database"},
		"another":  {sign(t, l, 57, l.notes[0].Root), "has another root"},
	} {
		floor = f.note
		if page := c.get("/audit/checkpoints"); !strings.Contains(page.words(), f.says) {
			t.Errorf("%s: does not say %q:\n%s", what, f.says, page.words())
		}
	}
}

// TestFloorOfALogThatGoesOn: a log that has grown since the page began is not behind
// what is kept of it.
func TestFloorOfALogThatGoesOn(t *testing.T) {
	var c *client
	var l *fakeLog
	c, l = audited(t, "aude@example.com", func(cfg *Config) {
		cfg.Floor = func(context.Context) ([]byte, error) {
			l.add(t, engine.Event{Type: engine.Decided, Outcome: engine.Allow, AgentID: "agt_billing", ToolName: "t"})
			return l.notes[len(l.notes)-1].Note, nil
		}
	})
	c.get("/audit/checkpoints").says(t, "A checkpoint of 1 event is kept outside the database, and the log is not behind it.")
}

// TestEverythingIsOffered: each type and each outcome can be searched by, in words,
// and once.
func TestEverythingIsOffered(t *testing.T) {
	var kinds []engine.EventType
	for _, kind := range eventTypes {
		kinds = append(kinds, kind.kind)
	}
	for _, kind := range engine.EventTypes() {
		if typeWords(string(kind)) == "" {
			t.Errorf("nobody can search for %q", kind)
		}
	}
	for _, o := range engine.Outcomes() {
		if outcomeWords(string(o)) == "" {
			t.Errorf("nobody can search for %q", o)
		}
	}
	if slices.Sort(kinds); len(slices.Compact(kinds)) != len(eventTypes) || len(eventTypes) != len(engine.EventTypes()) || len(outcomes) != len(engine.Outcomes()) {
		t.Errorf("%d types and %d outcomes are offered, for %d and %d", len(eventTypes), len(outcomes), len(engine.EventTypes()), len(engine.Outcomes()))
	}
}

func sign(t *testing.T, l *fakeLog, size int64, root [32]byte) []byte {
	t.Helper()
	note, err := audit.Sign(audit.Checkpoint{Origin: logOrigin, Size: size, Root: root}, l.key)
	if err != nil {
		t.Fatal(err)
	}
	return note
}

// TestWhoReadsBeginsAtTheLog: no call waits for an auditor. Whoever wants another page gets it.
func TestWhoReadsBeginsAtTheLog(t *testing.T) {
	c, _ := audited(t, "ada@example.com", nil)
	for _, test := range []struct{ email, next, want string }{{"aude@example.com", "", "/audit"}, {"aude@example.com", "/history", "/history"}, {"ada@example.com", "", "/"}} {
		c.do("POST", "/login", url.Values{"email": {test.email}, "password": {"right"}, "next": {test.next}}).to(t, test.want)
	}
}

func TestTimelineLeadsToTheLog(t *testing.T) {
	for email, want := range map[string]bool{"aude@example.com": true, "ada@example.com": false} {
		c, _ := audited(t, email, nil)
		card := c.m.add("apr_1", "payments.transfer", `{}`, func(card *gate.Card) { card.Timeline[0].ID = "00000000-0000-4000-8000-000000000004" })
		if a := c.get("/approvals/" + card.Approval.ID); strings.Contains(a.body, `href="/audit/events/00000000-0000-4000-8000-000000000004"`) != want {
			t.Errorf("%s: the timeline leads to the log: want %v", email, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-21 14:30": "2026-11-21T14:30:00Z", "2026-11-21T14:30": "2026-11-21T14:30:00Z", "2026-11-21 14:30:05 UTC": "2026-11-21T14:30:05Z",
		"2026-11-21T14:30:05.5Z": "2026-11-21T14:30:05.5Z", "2026-11-21": "2026-11-22T00:00:00Z", "21.11.2026": "", "2026-13-01": "", "now": "",
	} {
		got, ok := parseTime(text, true)
		if s := got.Format(time.RFC3339Nano); ok != (want != "") || ok && s != want {
			t.Errorf("%q: got %s, %v, want %q", text, s, ok, want)
		}
	}
}

// TestAdministrationIsAboutTheAgent: what is done to an agent is not told as done by it.
func TestAdministrationIsAboutTheAgent(t *testing.T) {
	name := func(id string) string { return id }
	key, root := engine.Actor{Kind: engine.ServiceActor, ID: "key_1", Channel: "api"}, engine.Actor{Kind: engine.ServiceActor, ID: "root", Channel: "cli"}
	for _, test := range []struct {
		e    engine.Event
		want string
	}{
		{engine.Event{Type: engine.Admin, Actor: key, AgentID: "bot"}, "The key key_1"},
		{engine.Event{Type: engine.Erased, Actor: key, AgentID: "bot"}, "The key key_1"},
		{engine.Event{Type: engine.Erased, Actor: root, AgentID: "bot"}, "The command line"},
		{engine.Event{Type: engine.Answered, Actor: key, AgentID: "bot"}, "The runtime of bot"},
		{engine.Event{Type: engine.Refusal, Actor: key, AgentID: "bot"}, "A key of bot"},
		{engine.Event{Type: engine.Refusal, Actor: key}, "The key key_1"},
		{engine.Event{Type: engine.Refusal, Actor: engine.Actor{Kind: engine.ServiceActor, Channel: "api"}}, "Somebody"},
		{engine.Event{Type: engine.Admin, Actor: engine.Actor{Kind: engine.ServiceActor, ID: "serve", Channel: "engine"}}, "The program serve"},
		{engine.Event{Type: engine.Admin, Actor: engine.Actor{Kind: engine.ServiceActor, ID: "sso:okta", Channel: "console"}}, "The provider of single sign-on okta"},
	} {
		if got := eventActor(test.e, name); got != test.want {
			t.Errorf("%s by %q: got %q, want %q", test.e.Type, test.e.Actor.ID, got, test.want)
		}
	}
	moments := timeline(gate.Card{Timeline: []engine.Event{
		{Type: engine.Erased, Outcome: engine.Deny, Actor: key}, {Type: engine.Erased, Outcome: engine.Allow, Actor: root}, {Type: engine.Held, Outcome: engine.Allow, Actor: key},
	}}, "The bot", name)
	for i, want := range []string{"The key key_1", "The command line", "The key key_1"} {
		if moments[i].Who != want {
			t.Errorf("moment %d is told as %q, want %q", i, moments[i].Who, want)
		}
	}
}

// TestReadingInWords: who looks and who exports is told as what they did.
func TestReadingInWords(t *testing.T) {
	name := func(id string) string { return id }
	ada := engine.Actor{Kind: engine.HumanActor, ID: "Ada"}
	for code, e := range map[string]engine.Event{
		"CARD_SHOWN":   {Type: engine.Shown, Outcome: engine.RequireApproval, Actor: ada, AgentID: "bot", ToolName: "pay", Reasons: []engine.Reason{{Code: "CARD_SHOWN", Message: "A person was shown the card."}}},
		"EXPORT_BEGUN": {Type: engine.Exported, Outcome: engine.Allow, Actor: ada, Reasons: []engine.Reason{{Code: "EXPORT_BEGUN", Message: "Somebody exports the audit log."}}},
		"EXPORTED":     {Type: engine.Exported, Outcome: engine.Allow, Actor: ada, Reasons: []engine.Reason{{Code: "EXPORTED", Message: "The audit log was exported."}}},
		"a pack":       {Type: engine.Exported, Outcome: engine.Allow, Actor: ada, Reasons: []engine.Reason{{Code: "EXPORTED", Message: "The audit log was exported."}}, SafePayload: []byte(`{"as":"evidence_pack"}`)},
	} {
		want := map[string]string{
			"a pack": "Ada made an evidence pack.", "CARD_SHOWN": "Ada was shown all of the call of pay by bot.", "EXPORT_BEGUN": "Ada began to export the audit log.", "EXPORTED": "Ada exported the audit log.",
		}[code]
		if got := describeEvent(e, name); got.Sentence != want || code == "CARD_SHOWN" && len(got.Because) > 0 {
			t.Errorf("%s: got %+v, want %q", code, got, want)
		}
	}
	added := engine.Event{Type: engine.Admin, Outcome: engine.Allow, Actor: ada, Reasons: []engine.Reason{{Code: "USER_ADDED", Message: "A person was added."}}, SafePayload: []byte(`{"person":"Gus"}`)}
	if got, want := describeEvent(added, name).Sentence, "Ada: a person was added (Gus)."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a name hides is shown where names are offered, too.
func TestOfferedNamesHideNothing(t *testing.T) {
	v := searchFilters{agents: map[string]string{"bot": "B\u202eot\u200b"}, people: []engine.Person{{Email: "eve@example.com", Name: "E\u202eve\u200b"}}}.lists()
	for _, o := range append(v.Agents, v.People...) {
		if strings.ContainsAny(o.Label, "\u202e\u200b") || !strings.Contains(o.Label, "U+202E") {
			t.Errorf("%s is offered as %+q", o.Value, o.Label)
		}
	}
}
