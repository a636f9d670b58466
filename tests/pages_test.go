//go:build npm

package tests

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"flag"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"golang.org/x/crypto/ssh"
)

var (
	screens  = flag.String("screens", "", "write a picture of every page to this `directory`, and an index.html of them")
	onlyThis = flag.String("pages", "", "open only the pages whose names match this `expression`")
)

// widths are those of the windows in which pages are looked at, in pixels.
var widths = []int{1440, 390}

// shownPage is a page of the console, and who opens it.
type shownPage struct {
	name, path string
	as         person
	refused    bool // and its status says so
	// then leads on from the path to what has no address of its own; nil for nothing.
	then func(b *browser)
}

// noPages are what the console answers a GET with that is no page to look at.
var noPages = map[string]string{
	"/approvals/{id}/arguments": "a file", "/audit/access.csv": "a file", "/audit/events/{id}/document": "a file", "/static/": "files", "/sw.js": "a script",
	"/live": "a stream", "/approvals/{id}/live": "a stream", "/login/sso/{provider}": "leads to the provider", "/login/sso/{provider}/callback": "comes from the provider",
	"/login/sso/{provider}/sign-out": "leads to the provider", "/verify/sso": "leads to the provider",
	"/login/verify": "second-step, which /login leads to",
}

// TestBrowserPages opens every page of the console, on a desk and on a phone, light and
// dark: axe-core (testdata/npm) finds nothing against it, nothing is wider than the
// window, and no script or policy complains. With -screens it leaves a picture of each:
//
//	npm ci --ignore-scripts --prefix tests/testdata/npm
//	go test -tags npm ./tests -run TestBrowserPages -screens /tmp/screens
func TestBrowserPages(t *testing.T) {
	longPrograms(t)
	axe, err := os.ReadFile(filepath.Join(npmDir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatalf("%v\nrun: npm ci --ignore-scripts --prefix tests/%s", err, npmDir)
	}
	only := regexp.MustCompile(*onlyThis)
	d := startDev(t, nil)
	var shown []string
	browsers := map[string]*browser{}
	all := d.pages(t)
	for _, p := range all {
		if !only.MatchString(p.name) {
			continue
		}
		b := browsers[p.as.Email]
		if b == nil {
			b = openBrowser(t, d.URL)
			if p.as.Email != "" {
				b.signIn(p.as)
			}
			browsers[p.as.Email] = b
		}
		b.open(p.path)
		b.until(p.name, loaded)
		if p.then != nil {
			p.then(b)
		}
		for _, width := range widths {
			b.do(chromedp.EmulateViewport(int64(width), 900))
			for _, scheme := range []string{"light", "dark"} {
				b.colours(scheme)
				name := fmt.Sprintf("%s-%d-%s", p.name, width, scheme)
				if got, err := strconv.Atoi(b.eval(`document.documentElement.scrollWidth`)); err != nil || got > width {
					t.Errorf("%s: %s is %d wide (%v)", name, p.path, got, err)
				}
				for _, found := range b.violations(axe) {
					t.Errorf("%s: %s: %s", name, p.path, found)
				}
				if *screens != "" {
					b.picture(filepath.Join(*screens, name+".png"))
					shown = append(shown, name)
				}
			}
		}
		if p.refused {
			b.complaints = nil
		}
	}
	for _, b := range browsers {
		b.clean()
	}
	if *onlyThis == "" {
		eachPageIsShown(t, all)
	}
	if *screens != "" {
		writeIndex(t, shown)
	}
}

// longPrograms is ownPrograms for a test that takes longer than all others: it has its place
// before them, so that it does not begin when everything else has ended.
func longPrograms(t *testing.T) {
	t.Helper()
	select {
	case places <- struct{}{}:
		build()
		t.Cleanup(func() { <-places })
		t.Parallel()
	default:
		ownPrograms(t)
	}
}

// eachPageIsShown looks in the console's sources for the addresses of pages: whoever adds one
// adds it here, too.
func eachPageIsShown(t *testing.T, shown []shownPage) {
	t.Helper()
	files, err := filepath.Glob("../web/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	var source []byte
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	routes := 0
	for _, m := range regexp.MustCompile(`HandleFunc\("GET ([^"]*)"( ?\+ ?(\w+))?`).FindAllStringSubmatch(string(source), -1) {
		route := m[1]
		if name := m[3]; name != "" && route == "" { // a constant
			value := regexp.MustCompile(`\b` + name + `\s*= "([^"]+)"`).FindStringSubmatch(string(source))
			if value == nil {
				t.Errorf("the address %s is nowhere", name)
				continue
			}
			route = value[1]
		} else if name != "" { // one of several
			route += "{form}"
		}
		routes++
		pattern := regexp.MustCompile("^" + regexp.MustCompile(`\\\{[^/]*?\\\}`).ReplaceAllString(regexp.QuoteMeta(strings.TrimSuffix(route, "{$}")), `[^/]+`) + "$")
		if noPages[route] == "" && !slices.ContainsFunc(shown, func(p shownPage) bool { path, _, _ := strings.Cut(p.path, "?"); return pattern.MatchString(path) }) {
			t.Errorf("nobody looks at the page %s", route)
		}
	}
	if routes < 50 {
		t.Errorf("%d addresses were found, which are too few", routes)
	}
}

// axeWithin is how long axe-core may take with a page, on a busy machine.
const axeWithin = 2 * time.Minute

// violations is what axe-core has against a page. A page's content policy lets no script
// of others in; the browser's own tools are not bound by it.
func (b *browser) violations(axe []byte) []string {
	b.t.Helper()
	if b.eval(`"axe" in window`) != "true" {
		b.eval(`(() => { ` + string(axe) + `; return ""; })()`)
	}
	ctx, cancel := context.WithTimeout(b.ctx, axeWithin)
	defer cancel()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(
		v => v.id + " (" + v.impact + "): " + v.nodes.map(n => n.target + ": " + n.failureSummary).join("; ").slice(0, 600)))`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("axe-core: %v", err)
	}
	return found
}

// picture writes what the whole page looks like.
func (b *browser) picture(file string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// writeIndex writes a page of all pictures.
func writeIndex(t *testing.T, names []string) {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("<!doctype html><meta charset=utf-8><title>Screens</title><style>body{font:14px sans-serif}figure{display:inline-block;vertical-align:top;margin:1em}img{width:20em;border:1px solid #888}</style>\n")
	for _, name := range names {
		name := html.EscapeString(name)
		fmt.Fprintf(&b, "<figure><figcaption>%s</figcaption><a href=\"%s.png\"><img src=\"%s.png\" alt=\"\" loading=lazy></a></figure>\n", name, name, name)
	}
	if err := os.WriteFile(filepath.Join(*screens, "index.html"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pictures: %s", len(names), filepath.Join(*screens, "index.html"))
}

// asked is a call for the pages.
func asked(tool, category, domain string, args map[string]any) map[string]any {
	e := event(tool, "defer", args)
	e["tool_category"], e["risk_domain"], e["authorization_state"], e["evidence_refs"] = category, domain, "user_claimed", []any{"ticket:1"}
	return e
}

// pages proposes calls of many kinds and says which pages there are then.
func (d *dev) pages(t *testing.T) []shownPage {
	t.Helper()
	must(t, nil, "", "changes", "require", "contracts", "--role", "policy-owner", "--data", d.dir)
	approver := d.newPerson(t, "--role", "policy-owner")
	agent, ada, ben := d.agent(t), d.Reviewers[0], d.as(t, d.Reviewers[1])
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(newID("signing")), 0o600); err != nil {
		t.Fatal(err)
	}
	added := must(t, nil, "", "notify", "add", "slack", "Small things", "--url", "https://hooks.slack.com/services/x", "--decide", "low", "--signing-secret-file", secret, "--tool", "none", "--data", d.dir)
	var everybody struct{ People []struct{ ID string } }
	d.admin(t).do("GET", "/v1/admin/people", nil).want(t, 200).into(t, &everybody)
	var reviewed struct{ ID string }
	d.admin(t).do("POST", "/v1/admin/access-reviews", map[string]any{
		"title": "Access, third quarter", "due_at": time.Now().AddDate(0, 0, 14), "reviewer": d.Owner.Email, "alternate": ada.Email, "roles": []string{"finance-approver", "admin"},
	}).want(t, 200).into(t, &reviewed)
	cards := map[string]approval{
		"payment": agent.submit(asked("refund_payment", "write", "finance", map[string]any{"amount": "1250.00", "currency": "EUR", "payee": map[string]any{"name": "Paper & Pens Ltd.", "iban": "DE02120300000000202051"}, "order": "A-17"})),
		"mail":    agent.submit(asked("send_email", "write", "customer_support", map[string]any{"to": []any{"ann@example.com", "bob@example.org"}, "subject": "Your refund", "body": "Dear Ann,\nyour refund is on its way.\n\nYours\nPaper & Pens"})),
		"sql":     agent.submit(asked("run_sql", "write", "devops", map[string]any{"database": "prod", "query": "DELETE FROM orders -- old ones\nWHERE created_at < '2020-01-01'"})),
		"shell":   agent.submit(asked("shell", "write", "devops", map[string]any{"command": "rm -rf /var/tmp/cache && systemctl restart app | tee /tmp/out", "host": "web-3"})),
		"diff":    agent.submit(asked("apply_patch", "write", "devops", map[string]any{"repository": "shop", "patch": "--- a/price.go\n+++ b/price.go\n@@ -1,2 +1,2 @@\n package price\n-const vat = 19\n+const vat = 7\n"})),
		"table":   agent.submit(asked("import_rows", "write", "devops", map[string]any{"table": "prices", "rows": []any{map[string]any{"sku": "P-1", "price": 12.5, "currency": "EUR"}, map[string]any{"sku": "P-2", "price": 80, "currency": "EUR"}, map[string]any{"sku": "P-3", "price": 7, "currency": "USD"}}})),
		"deceive": agent.submit(asked("grant_access", "write", "devops", map[string]any{"user": "eve@exаmple.com", "role": "admin", "note": "safe\u202etxt.exe"})),
		"access":  agent.submit(asked("deploy_service", "write", "devops", map[string]any{"service": "checkout", "version": "2.4.1", "environment": "prod"})),
	}
	var alike []string
	for i := range 6 {
		alike = append(alike, agent.submit(asked("refund_payment", "write", "finance", map[string]any{"amount": fmt.Sprintf("%d.50", 20+i), "currency": "EUR", "payee": map[string]any{"name": "Acme GmbH", "iban": "DE02100500000024290661"}, "order": fmt.Sprint("B-", i)})).ID)
	}
	denied := agent.submit(asked("refund_payment", "write", "finance", map[string]any{"amount": "9000.00", "currency": "EUR", "payee": map[string]any{"name": "Nobody", "iban": "DE02120300000000202051"}, "order": "C-1"}))
	ben.vote(denied, "deny").want(t, 200)
	agent.propose(event("search_docs", "accept", map[string]any{"query": "opening hours"}))
	agent.propose(event("drop_database", "refuse", map[string]any{"database": "prod"}))

	owner := d.Owner
	var change struct {
		ID string `json:"approval_id"`
	}
	d.admin(t).do("POST", "/v1/admin/changes", map[string]any{"kind": "contracts", "reason": "Refunds name their order.", "text": "tool_contracts:\n  refund_payment:\n    allowed_request_tags: []\n    allowed_response_fields: [refund_id, status, amount]\n"}).want(t, http.StatusOK).into(t, &change)
	d.asksForValues(t, ada)
	supplied, ofSession := agent.checked("order", map[string]any{"item": "desk", "pieces": 3}, header{"Holdpoint-Session", "month-end"}), "/sessions/demo-agent/month-end"
	later := agent.submit(asked("send_email", "write", "customer_support", map[string]any{"to": []any{"cyd@example.com"}, "subject": "Later", "body": "There is time."}))
	d.reviewer(t, 0).do("POST", "/approvals/"+later.ID+"/snooze", url.Values{"for": {"30m"}}).want(t, http.StatusSeeOther)
	linked := must(t, nil, "", "user", "invite", "newcomer@example.com", "--role", "reviewer", "--data", d.dir)
	welcome := regexp.MustCompile(`/welcome/\S+`).FindString(linked)
	events := d.admin(t).events(url.Values{"approval_id": {denied.ID}})
	if welcome == "" || len(events) == 0 {
		t.Fatalf("a link is %q, and there are %d events", linked, len(events))
	}
	// fill writes into a page's fields, presses a button and waits for what comes.
	fill := func(fields map[string]string, button, comes string) func(*browser) {
		return func(b *browser) {
			for field, text := range fields {
				b.put(field, text)
			}
			b.click(button)
			b.visible(comes)
		}
	}
	fillAfter := func(link string, fields map[string]string, button, comes string) func(*browser) {
		return func(b *browser) { b.click(link); fill(fields, button, comes)(b) }
	}
	pages := []shownPage{ // the owner has proved who they are just now
		{name: "key-made", path: "/keys/new", as: owner, then: fill(map[string]string{"[name=agent]": "demo-agent", "[name=label]": "billing"}, testid("key-new")+" .primary", testid("key-made"))},
		{name: "person-link", path: "/people/new", as: owner, then: fill(map[string]string{"[name=email]": "gus@example.com"}, testid("person-new")+" .primary", testid("person-link"))},
		{name: "authenticator", path: "/account", as: owner, then: fill(nil, `form[action="/account/totp"] button`, testid("totp-secret"))},
		{name: "policy-look", path: "/policies/propose?kind=contracts", as: owner, then: fill(map[string]string{
			"textarea": "tool_contracts:\n  send_email:\n    allowed_request_tags: []\n    allowed_response_fields: [message_id]\n", "[name=reason]": "Mails tell their id.",
		}, "button[value=look]", testid("seen-change"))},
		{name: "edit-look", path: "/approvals/" + cards["payment"].ID, as: ada, then: fillAfter(testid("edit"), map[string]string{`[name="argument:amount"]`: "1200.00", testid("reason"): "The invoice says so."}, testid("review-edit"), testid("save-edit"))},
		{name: "together-done", path: "/inbox/together?" + url.Values{"id": alike[3:]}.Encode(), as: ada, then: fill(nil, testid("approve"), testid("results"))},
		{name: "card-change", path: "/approvals/" + change.ID, as: approver},
		{name: "inbox-empty", path: "/", as: d.newPerson(t, "--role", "gardener")},
		{name: "second-step", path: "/login", then: fill(map[string]string{"[name=email]": d.Reviewers[fay].Email, "[name=password]": d.Reviewers[fay].Password}, "main button[type=submit]", "input[name=code]")},
	}
	for _, name := range slices.Sorted(maps.Keys(cards)) {
		pages = append(pages, shownPage{name: "card-" + name, path: "/approvals/" + cards[name].ID, as: ada})
	}
	for _, p := range []struct {
		name, path string
		as         person
	}{
		{"sign-in", "/login", person{}},
		{"inbox", "/", ada},
		{"inbox-groups", "/?group=alike", ada},
		{"inbox-search", "/?q=refund", ada},
		{"inbox-group", "/?agent=demo-agent&asked=review&roles=finance-approver&tool=refund_payment", ada},
		{"inbox-no-hit", "/?q=nothing-of-that", ada},
		{"history", "/history", ada},
		{"history-part", "/history?part=me", d.Reviewers[1]},
		{"history-search", "/history?tool=refund_payment&outcome=denied", ada},
		{"inbox-snoozed", "/?snoozed=1", ada},
		{"together", "/inbox/together?" + url.Values{"id": alike[:3]}.Encode(), ada},
		{"session", ofSession, ada},
		{"answer", "/approvals/" + supplied.ID + "/answer", ada},
		{"verify", "/verify", ada},
		{"passed-on-form", "/approvals/" + cards["payment"].ID + "/pass-on", ada},
		{"ended", "/approvals/" + denied.ID, ada},
		{"account", "/account", ada},
		{"components", "/components", ada},
		{"away", "/away", ada},
		{"grants", "/grants", ada},
		{"edit", "/approvals/" + cards["payment"].ID + "/edit", ada},
		{"card-form", "/approvals/" + cards["payment"].ID + "/questions", ada},
		{"grant-form", "/approvals/" + cards["payment"].ID + "/grant", ada},
		{"policies", "/policies", owner},
		{"policies-search", "/policies?q=refund", owner},
		{"policy-by-file", "/policies/propose?kind=policy", owner},
		{"policy-propose", "/policies/propose?kind=contracts", owner},
		{"policy-history", "/policies/history", owner},
		{"agents", "/agents", owner},
		{"agent", "/agents/demo-agent", owner},
		{"admin", "/admin", owner},
		{"people", "/people", owner},
		{"person", "/people/" + everybody.People[0].ID, owner},
		{"person-new", "/people/new", owner},
		{"welcome", welcome, person{}},
		{"welcome-over", "/welcome/aaaaaaaaaaaaaaaaaaaaaaaaaa", ada},
		{"keys", "/keys", owner},
		{"key-new", "/keys/new", owner},
		{"key", "/keys/key_" + d.AgentKey[len("hp_"):][:26], owner},
		{"on-call", "/on-call", owner},
		{"access-reviews", "/access-reviews", owner},
		{"access-review", "/access-reviews/" + reviewed.ID, owner},
		{"access-review-new", "/access-reviews/new", owner},
		{"tool", "/admin/tool?name=send_payment", owner},
		{"notifications", "/notifications", owner},
		{"endpoint", "/notifications/endpoints/" + regexp.MustCompile(`end_[0-9a-z]+`).FindString(added), owner},
		{"audit", "/audit", owner},
		{"event", "/audit/events/" + events[0].ID, owner},
		{"checkpoints", "/audit/checkpoints", owner},
		{"access", "/audit/access", owner},
		{"reviewers", "/audit/reviewers", owner},
		{"claims", "/audit/claims", owner},
		{"statistics", "/audit/statistics", owner},
		{"export", "/audit/export", owner},
		{"reports", "/audit/reports", owner},
		{"report-roles", "/audit/reports/roles", owner},
		{"report-approvals", "/audit/reports/approvals", owner},
		{"report-duties", "/audit/reports/duties", owner},
		{"report-amounts", "/audit/reports/amounts", owner},
		{"report-access", "/audit/reports/access", owner},
		{"report-reviewers", "/audit/reports/reviewers", owner},
		{"report-policies", "/audit/reports/policies", owner},
		{"report-empty", "/audit/reports/break-glass", owner},
		{"erasures", "/audit/erasures", owner},
	} {
		pages = append(pages, shownPage{name: p.name, path: p.path, as: p.as})
	}
	return append(pages,
		shownPage{name: "documentation", path: "/docs"},
		shownPage{name: "forbidden", path: "/admin", as: ada, refused: true},
		shownPage{name: "not-found", path: "/approvals/apr_none", as: ada, refused: true},
	)
}

// asksForValues adds a rule to the policy of a dev, which somebody signs: orders lack their cost center.
func (d *dev) asksForValues(t *testing.T, signer person) {
	t.Helper()
	file := filepath.Join(d.dir, "policy.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(regexp.MustCompile(`(?m)^version: .*$`).ReplaceAllString(string(text), `version: "with-orders"`), "\nrules:\n")
	if !found {
		t.Fatalf("the policy has no rules: %s", text)
	}
	rule := `
rules:
  - id: orders
    description: An order names its cost center.
    match: {tool_name: order, environment: "*"}
    outcome: REQUIRE_APPROVAL
    approver_role: reviewer
    approval: {ask: {type: object, properties: {cost_center: {type: string, title: Cost center, minLength: 4}}, required: [cost_center]}}
`
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	key, unsigned := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "policy.yaml")
	for path, data := range map[string][]byte{key: pem.EncodeToMemory(block), key + ".pub": ssh.MarshalAuthorizedKey(public), unsigned: []byte(before + rule + after)} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must(t, nil, "", "policy", "signer", "add", signer.Email, "--key", key+".pub", "--data", d.dir)
	must(t, nil, "", "policy", "sign", unsigned, "--key", key, "--environment", "dev", "-o", file)
	eventually(t, settleWithin, "the policy in force", func() bool {
		return strings.Contains(string(d.admin(t).do("GET", "/v1/admin/rules", nil).Body), `"with-orders"`)
	})
}
