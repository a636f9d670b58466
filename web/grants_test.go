package web

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/grant"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// granting is Grants over a list, for tests. It has one past denial.
type granting struct {
	m       *fakeGate
	list    []gate.Grant
	asked   []gate.GrantRequest
	revoked []string
	waiting []gate.PastCall // fit, and wait
}

func (g *granting) ForPerson(context.Context, engine.Person) ([]gate.Grant, time.Time, error) {
	return g.list, g.m.now(), g.m.broken
}

func (g *granting) refused(r gate.GrantRequest) error {
	c := g.m.cards[r.ApprovalID]
	if err := gate.MayGrant(r.Person, c.Approval, g.m.now()); err != nil {
		return err
	}
	args, err := canon.Parse(c.Arguments)
	if err == nil && !r.Pattern.Match(args) {
		err = &access.Refusal{Kind: access.Invalid, Code: "not_like_it", Detail: "The call that this is made from does not fit what you have written."}
	}
	return err
}

func (g *granting) Propose(_ context.Context, r gate.GrantRequest) (gate.Backtest, error) {
	if err := g.refused(r); err != nil {
		return gate.Backtest{}, err
	}
	at := g.m.now().Add(-26 * time.Hour)
	return gate.Backtest{Looked: 214, Unreadable: 3, Matching: append(g.waiting, []gate.PastCall{
		{ID: "apr_yesterday", Status: approval.Approved, OpenedAt: at},
		{ID: "apr_before", Status: approval.Denied, OpenedAt: at.Add(-30 * time.Hour)},
		{ID: "apr_late", Status: approval.Expired, OpenedAt: at.Add(-50 * time.Hour)},
	}...)}, nil
}

func (g *granting) Save(_ context.Context, r gate.GrantRequest) (gate.Grant, error) {
	if err := g.refused(r); err != nil {
		return gate.Grant{}, err
	}
	if !slices.Contains(r.Acknowledged, "apr_before") {
		return gate.Grant{}, &access.Refusal{Kind: access.Conflict, Code: "denials_not_acknowledged", Detail: "Look at apr_before."}
	}
	g.asked = append(g.asked, r)
	return gate.Grant{}, nil
}

func (g *granting) Revoke(_ context.Context, _ engine.Person, id string, _ access.Initiator, _ *access.Idempotency[access.Done]) error {
	g.revoked = append(g.revoked, id)
	return nil
}

func (g *granting) sample(now time.Time) {
	pattern := grant.Pattern{Matchers: []grant.Matcher{
		{Path: "/amount/value", Op: grant.AtMost, Value: canon.Number(500)},
		{Path: "/to/iban", Op: grant.Equals, Value: canon.String("GB33 BUKB 2020 1555 5555 55")},
		{Path: "/to/name", Op: grant.OneOf, Value: canon.Array(canon.String("Acme Tooling Ltd"), canon.String("<b>Acme</b>"))},
		{Path: "/memo", Op: grant.Prefix, Value: canon.String("Invoice 2026-")},
		{Path: "/urgent", Op: grant.Any},
	}}
	made := func(id, who string, uses int, left time.Duration) gate.Grant {
		return gate.Grant{Pattern: pattern, Grant: store.Grant{
			ID: id, PersonID: who, AgentID: "agt_billing", Tool: "payments.transfer", Environment: "prod", Reason: "Rent and tools, every week", FromApproval: "apr_transfer",
			MaxUses: 10, Uses: uses, CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(left),
		}}
	}
	live := made("gra_live", "usr_ada", 3, 47*time.Minute)
	live.MayRevoke, live.UsedBy, live.Acknowledged = true, []string{"apr_one", "apr_two", "apr_three"}, []string{"apr_before"}
	over := made("gra_over", "usr_grace", 4, 9*time.Hour)
	at := now.Add(-5 * time.Minute)
	over.RevokedAt, over.RevokedBy, over.Pattern = &at, "usr_ada", grant.Pattern{}
	g.list = []gate.Grant{live, made("gra_used", "usr_grace", 10, time.Hour), made("gra_late", "usr_ada", 0, -time.Minute), over}
}

// startGranting is a console with grants in which Ada has just proved who she is.
func startGranting(t *testing.T) (*client, *granting) {
	g := &granting{}
	c := start(t, func(cfg *Config) { cfg.Grants = g })
	g.m = c.m
	ada := c.m.people["ada@example.com"]
	ada.VerifiedAt, ada.VerifiedBy = epoch.Add(-time.Minute), "totp"
	c.m.people["ada@example.com"] = ada
	c.m.add("apr_1", "pay", `{"amount":120,"gross":true,"memo":"a\nb","tags":["x"],"to":"acme <b>"}`, nil)
	return c.signIn("ada@example.com"), g
}

// filled is the form of a page as a browser would send it.
func filled(c *client) url.Values {
	return url.Values{
		"digest": {c.m.cards["apr_1"].Approval.Call.Digest}, "for": {"2h"}, "uses": {"10"}, "reason": {"the rent"}, "step": {"try"},
		"op0": {"at_most"}, "value0": {"200"}, "op1": {"equals"}, "op2": {"any"}, "op3": {"equals"}, "value3": {"x"}, "op4": {"one_of"}, "value4": {"acme <b>\r\nother\r\n"},
	}
}

var seenField = regexp.MustCompile(`name="seen" value="([0-9a-f]+)"`)

func TestGrantIsTriedThenMade(t *testing.T) {
	c, g := startGranting(t)
	c.get("/approvals/apr_1/grant").want(t, 409, "There is more to read first")
	c.get("/approvals/apr_1").want(t, 200)
	c.get("/approvals/apr_1/grant").want(t, 200, `name="op4"`, `&#34;acme &lt;b&gt;&#34;`, `>at most …<`, `<option value="equals" selected>`, "See what it would have let pass")
	form := filled(c)
	tried := c.do("POST", "/approvals/apr_1/grant", form)
	tried.want(t, 200, "3 are like that", "1 approved, 1 denied, 1 ran out of time", `value="apr_before"`, "Make the grant", `>200</textarea>`)
	form.Set("step", "save")
	c.do("POST", "/approvals/apr_1/grant", form).want(t, 409, "You have changed it since")
	form.Set("seen", seenField.FindStringSubmatch(tried.body)[1])
	c.do("POST", "/approvals/apr_1/grant", form).want(t, 409, "People have denied calls", "Make the grant")
	form.Set("acknowledged", "apr_before")
	changed := url.Values{}
	maps.Copy(changed, form)
	changed.Set("value0", "2000")
	c.do("POST", "/approvals/apr_1/grant", changed).want(t, 409, "You have changed it since")
	if len(g.asked) > 0 {
		t.Fatal("it was made before it could be")
	}
	saved := c.do("POST", "/approvals/apr_1/grant", form)
	saved.want(t, http.StatusSeeOther)
	if saved.Header.Get("Location") != "/grants" || len(g.asked) != 1 {
		t.Fatalf("led to %q", saved.Header.Get("Location"))
	}
	r := g.asked[0]
	if r.For != 2*time.Hour || r.Uses != 10 || r.Comment != "the rent" || r.Channel != "console" || r.Person.ID != "usr_ada" {
		t.Errorf("asked for %+v", r)
	}
	want := `{"arrays":["/tags"],"matchers":[{"op":"at_most","path":"/amount","value":200},{"op":"equals","path":"/gross","value":true},{"op":"any","path":"/memo"},` +
		`{"op":"equals","path":"/tags/0","value":"x"},{"op":"one_of","path":"/to","value":["acme <b>","other"]}]}`
	if got := string(r.Pattern.Document().Canonical()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	c.get("/grants").want(t, 200, "The standing grant was made", "choose <strong>Approve calls like this…")
}

// Of a call with many arguments each is a line, until it may be something else.
func TestGrantFormOfALargeCallIsShort(t *testing.T) {
	c, _ := startGranting(t)
	args, form := map[string]any{}, url.Values{}
	for i := range 9 {
		args[string(rune('a'+i))] = i
		form.Set("op"+strconv.Itoa(i), "equals")
		form.Set("value"+strconv.Itoa(i), strconv.Itoa(i))
	}
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	c.m.add("apr_large", "pay", string(text), nil)
	c.get("/approvals/apr_large").want(t, 200)
	lines := func(a answer) int { return strings.Count(a.body, `data-testid="leaf-line"`) }
	page := c.get("/approvals/apr_large/grant")
	if page.want(t, 200, "A closed line has to be exactly as shown"); lines(page) != 9 || strings.Count(page.body, `<select name="op`) != 9 {
		t.Errorf("%d lines of 9", lines(page))
	}
	for name, value := range map[string]string{"digest": c.m.cards["apr_large"].Approval.Call.Digest, "for": "2h", "uses": "10", "reason": "the rent", "step": "try", "op3": "at_most", "value5": "77"} {
		form.Set(name, value)
	}
	tried := c.do("POST", "/approvals/apr_large/grant", form)
	if tried.want(t, 422, "f: “exactly this”"); lines(tried) != 7 {
		t.Errorf("%d lines are closed, want all but the changed and the mistaken one", lines(tried))
	}
	c.get("/approvals/apr_1").want(t, 200)
	if small := c.get("/approvals/apr_1/grant"); lines(small) != 0 {
		t.Error("a short form has lines")
	}
}

func TestGrantFormMistakes(t *testing.T) {
	c, g := startGranting(t)
	c.get("/approvals/apr_1").want(t, 200)
	for name, test := range map[string]struct {
		field, value, want string
		status             int
	}{
		"no operation":        {"op0", "", "amount: choose what it has to be", 422},
		"not of this kind":    {"op0", "prefix", "amount: choose what it has to be", 422},
		"no number":           {"value0", "1e", "amount: write a number", 422},
		"text for a number":   {"value0", `"200"`, "amount: write a number", 422},
		"two numbers":         {"value0", "1\n2", "amount: write a number", 422},
		"changed but exact":   {"value3", "y", "tags › 0: “exactly this”", 422},
		"none of":             {"value4", "\r\n", "to: write one a line", 422},
		"not the call itself": {"value0", "100", "does not fit what you have written", 422},
		"no uses":             {"uses", "", "Calls that may pass: write", 422},
		"no time":             {"for", "soon", "It lasts: write a time", 422},
	} {
		form := filled(c)
		form.Set(test.field, test.value)
		form.Set("step", "save")
		a := c.do("POST", "/approvals/apr_1/grant", form)
		if form.Get("seen") == "" && a.StatusCode == 409 { // tried anew, as the page was not asked first
			form.Set("step", "try")
			a = c.do("POST", "/approvals/apr_1/grant", form)
		}
		if a.StatusCode != test.status || !strings.Contains(a.body, test.want) {
			t.Errorf("%s: %d\n%s", name, a.StatusCode, a.body)
		}
	}
	if len(g.asked) > 0 {
		t.Errorf("made: %+v", g.asked)
	}
}

func TestWhoSeesTheGrantForm(t *testing.T) {
	c, _ := startGranting(t)
	c.get("/approvals/apr_none/grant").want(t, 404)
	c.m.cards["apr_1"].Long = true
	c.get("/approvals/apr_1").want(t, 200)
	c.get("/approvals/apr_1/grant").want(t, 409, "There is more to read first")
	c.get("/approvals/apr_1?full=1").want(t, 200)
	c.get("/approvals/apr_1/grant").want(t, 200)
	c.m.cards["apr_1"].Long, c.m.cards["apr_1"].Arguments = false, nil
	c.get("/approvals/apr_1/grant").want(t, 409, "have been erased")
	c.m.cards["apr_1"].Arguments = []byte(`{"ids":[` + strings.Repeat("1,", 100) + `1]}`)
	c.get("/approvals/apr_1/grant").want(t, 409, "101 parts")
	c.m.cards["apr_1"].Arguments = []byte(`{"a":1}`)
	c.m.cards["apr_1"].Approval.Plan.Requirements[0].Kind = engine.Human
	c.get("/approvals/apr_1/grant").want(t, 409, "nobody can do so beforehand")
	c.m.cards["apr_1"].Approval.Plan.Requirements[0].Kind = engine.Review
	c.get("/approvals/apr_1/grant").want(t, 200)
	ada := c.m.people["ada@example.com"]
	ada.VerifiedAt = epoch.Add(-time.Hour)
	c.m.people["ada@example.com"] = ada
	c.get("/approvals/apr_1/grant").want(t, 200, `href="/verify?next=%2Fapprovals%2Fapr_1%2Fgrant"`)
	form := url.Values{"digest": {c.m.cards["apr_1"].Approval.Call.Digest}, "for": {"2h"}, "uses": {"10"}, "reason": {"r"}, "step": {"try"}, "op0": {"at_most"}, "value0": {"7"}}
	c.do("POST", "/approvals/apr_1/grant", form).want(t, 403, "Prove who you are", `>7</textarea>`)
	c.get("/approvals/apr_1/grant", "Cookie", "").want(t, 200)
	other, _ := startGranting(t)
	other.signIn("linus@example.com").get("/approvals/apr_1/grant").want(t, 403)
	start(t, nil).signIn("ada@example.com").get("/grants").want(t, 404)
}

func TestGrantsPage(t *testing.T) {
	c, g := startGranting(t)
	g.sample(epoch)
	page := c.get("/grants")
	page.want(t, 200, "Live", "Used up", "Past its time", "Revoked", "3 of 10", "cannot be read", "&lt;b&gt;Acme", `href="/approvals/apr_two"`, "begins with", "by Ada Lovelace")
	if n := strings.Count(page.body, `data-testid="revoke-grant"`); n != 1 {
		t.Errorf("%d can be revoked", n)
	}
	if strings.Contains(page.body, "<b>Acme") {
		t.Error("a value is markup")
	}
	c.do("POST", "/grants/gra_live/revoke", url.Values{}).want(t, http.StatusSeeOther)
	if len(g.revoked) != 1 || g.revoked[0] != "gra_live" {
		t.Errorf("revoked %q", g.revoked)
	}
	c.get("/grants").want(t, 200, "The standing grant was revoked")
}

// TestGrantsAreListedWithoutSecrets: by what leads to a value, by its looks, and inside of
// it. What is none is shown.
func TestGrantsAreListedWithoutSecrets(t *testing.T) {
	c, g := startGranting(t)
	g.sample(epoch)
	args, err := canon.Parse([]byte(`{"env":[{"name":"API_KEY","value":"kw7Fq2Lm9Xz4Rt8Vb3Nc6Pd1"},{"name":"LEVEL","value":"verbose"}],"password":"hunter3x"}`))
	if err != nil {
		t.Fatal(err)
	}
	g.list[0].Pattern = grant.Pattern{Matchers: []grant.Matcher{
		{Path: "/login/password", Op: grant.Equals, Value: canon.String("hunter2x")},
		{Path: "/credentials/0/of", Op: grant.OneOf, Value: canon.Array(canon.String("opensesame"), canon.String("swordfish"))},
		{Path: "/note", Op: grant.Prefix, Value: canon.String("use ghp_16C7e42F292c6912E7710c838347Ae178B4a now")},
		{Path: "/config", Op: grant.Equals, Value: args},
		{Path: "/header/name", Op: grant.Equals, Value: canon.String("Authorization")},
		{Path: "/header/value", Op: grant.Equals, Value: canon.String("open the door")},
		{Path: "/memo", Op: grant.Prefix, Value: canon.String("Invoice 2026-")},
		{Path: "/max_tokens", Op: grant.AtMost, Value: canon.Number(4096)},
		{Path: "/twice", Op: grant.Equals, Value: canon.String("first of two")},
		{Path: "/Twice", Op: grant.Equals, Value: canon.String("second of two")},
	}}
	page := c.get("/grants")
	page.want(t, 200, "••••••••", "Invoice 2026-", "verbose", "API_KEY", "password", "4096", "second of two")
	page.lacks(t, "hunter2x", "hunter3x", "opensesame", "swordfish", "ghp_", "kw7F", "open the door")
}

// TestGrantLeadsToWhatWaits: calls that fit a new grant and wait already are offered to be
// decided together; one alone on its own card.
func TestGrantLeadsToWhatWaits(t *testing.T) {
	c, g := startGranting(t)
	for _, id := range []string{"apr_2", "apr_3"} {
		c.m.add(id, "pay", `{"amount":120,"gross":true,"memo":"a\nb","tags":["x"],"to":"acme"}`, nil)
		g.waiting = append(g.waiting, gate.PastCall{ID: id, Status: approval.Pending})
	}
	c.get("/approvals/apr_1").want(t, http.StatusOK)
	form := filled(c)
	form["acknowledged"] = []string{"apr_before"}
	tried := c.do("POST", "/approvals/apr_1/grant", form)
	form.Set("step", "save")
	form.Set("seen", seenField.FindStringSubmatch(tried.body)[1])
	made := c.do("POST", "/approvals/apr_1/grant", form)
	if got := made.Header.Get("Location"); made.StatusCode != http.StatusSeeOther || got != bulkURL([]string{"apr_2", "apr_3"}) {
		t.Fatalf("%s, to %q", made.Status, got)
	}
	c.get(made.Header.Get("Location")).want(t, http.StatusOK, "What fits it and waits already is here", "2 calls of ")
}
