//go:build npm

package tests

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
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
	missing    bool // and its status says so
}

// TestBrowserPages opens every page of the console, on a desk and on a phone, light and
// dark: axe-core (testdata/npm) finds nothing against it, nothing is wider than the
// window, and no script or policy complains. With -screens it leaves a picture of each:
//
//	npm ci --ignore-scripts --prefix tests/testdata/npm
//	go test -tags npm ./tests -run TestBrowserPages -screens /tmp/screens
func TestBrowserPages(t *testing.T) {
	ownPrograms(t)
	axe, err := os.ReadFile(filepath.Join(npmDir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatalf("%v\nrun: npm ci --ignore-scripts --prefix tests/%s", err, npmDir)
	}
	only := regexp.MustCompile(*onlyThis)
	d := startDev(t, nil)
	var shown []string
	browsers := map[string]*browser{}
	for _, p := range d.pages(t) {
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
		if p.missing {
			b.complaints = nil
		}
	}
	for _, b := range browsers {
		b.clean()
	}
	if *screens != "" {
		writeIndex(t, shown)
	}
}

// violations is what axe-core has against a page. A page's content policy lets no script
// of others in; the browser's own tools are not bound by it.
func (b *browser) violations(axe []byte) []string {
	b.t.Helper()
	b.eval(`(() => { if (!window.axe) { ` + string(axe) + ` } return ""; })()`)
	b.eval(`(() => { window.axeFound = null; axe.run(document, {resultTypes: ["violations"]}).then(
		r => { window.axeFound = r.violations.map(v => v.id + " (" + v.impact + "): " + v.nodes.map(n => n.target + ": " + n.failureSummary).join("; ").slice(0, 600)) },
		e => { window.axeFound = ["axe failed: " + e] }); return ""; })()`)
	b.until("axe's answer", `window.axeFound !== null`)
	var found []string
	if err := json.Unmarshal([]byte(b.eval(`window.axeFound`)), &found); err != nil {
		b.t.Fatal(err)
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
	var pages []shownPage
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
		{"inbox-no-hit", "/?q=nothing-of-that", ada},
		{"history", "/history", ada},
		{"history-part", "/history?part=me", d.Reviewers[1]},
		{"history-search", "/history?tool=refund_payment&outcome=denied", ada},
		{"together", "/inbox/together?" + url.Values{"id": alike}.Encode(), ada},
		{"ended", "/approvals/" + denied.ID, ada},
		{"account", "/account", ada},
		{"components", "/components", ada},
		{"away", "/away", ada},
		{"grants", "/grants", ada},
		{"edit", "/approvals/" + cards["payment"].ID + "/edit", ada},
		{"card-form", "/approvals/" + cards["payment"].ID + "/questions", ada},
		{"grant-form", "/approvals/" + cards["payment"].ID + "/grant", ada},
		{"policies", "/policies", owner},
		{"policy-propose", "/policies/propose?kind=contracts", owner},
		{"policy-history", "/policies/history", owner},
		{"agents", "/agents", owner},
		{"admin", "/admin", owner},
		{"people", "/people", owner},
		{"person", "/people/" + everybody.People[0].ID, owner},
		{"person-new", "/people/new", owner},
		{"welcome", "/welcome/aaaaaaaaaaaaaaaaaaaaaaaaaa", ada},
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
		{"report-empty", "/audit/reports/break-glass", owner},
		{"erasures", "/audit/erasures", owner},
	} {
		pages = append(pages, shownPage{name: p.name, path: p.path, as: p.as})
	}
	return append(pages, shownPage{name: "not-found", path: "/approvals/apr_none", as: ada, missing: true})
}
