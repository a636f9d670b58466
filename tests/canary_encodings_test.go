package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const canaryPolicy = `version: "1"
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2099-01-01T00:00:00Z"
rules:
  - {id: events, description: The contract judges its own., match: {tool_name: [search_docs, carry, glass_canary], environment: "*"}, outcome: ALLOW}
  - {id: reads, description: Reading., match: {tool_name: "read_*", environment: "*"}, outcome: ALLOW}
  - {id: pay, description: Payments., match: {tool_name: pay, environment: "*"}, outcome: REQUIRE_APPROVAL, approver_role: finance-approver}
  - {id: human, description: A person., match: {tool_name: wire, environment: "*"}, outcome: REQUIRE_HUMAN, approver_role: reviewer}
  - {id: change, description: A ticket., match: {tool_name: change, environment: "*"}, outcome: REQUIRE_TICKET}
  - {id: exec, description: A tool request has its own., match: {tool_name: tool-exec, environment: "*"}, outcome: ALLOW}
  - id: ask
    description: It needs a cost center.
    match: {tool_name: order, environment: "*"}
    outcome: REQUIRE_APPROVAL
    approver_role: reviewer
    approval: {ask: {type: object, properties: {cost_center: {type: string, minLength: 4}}, required: [cost_center]}}
defaults: {outcome: DENY}
`

// canaries are what is planted: a secret, which is to be nowhere but encrypted;
// what people said, which is to be where comments are; what callers name things
// by; and the digests of calls, which nobody needs a key to guess by.
type canaries struct {
	secret, comment, named string
	hunts                  map[string]hunt
	digests                hunt
}

func plant() *canaries {
	c := &canaries{hunts: map[string]hunt{}, digests: hunt{exact: map[string][]byte{}, folded: map[string][]byte{}, plain: []byte("no such text")}}
	var core string
	c.secret, core = newCanary()
	c.hunts["secret"] = huntFor(c.secret, core)
	c.comment, core = newCanary()
	c.hunts["said"] = huntFor(c.comment, core)
	_, core = newCanary()
	c.named = "canary-" + core // a header holds no line, and no letter that is not plain
	c.hunts["named"] = huntFor(c.named, core)
	return c
}

// of remembers a call's digest.
func (c *canaries) of(a approval) approval {
	digest := strings.TrimPrefix(a.Digest, "sha256:")
	c.digests.folded[a.ID+"'s digest"] = []byte(digest)
	return a
}

// lawful are the tables in which what people said, names, and digests may be.
var lawful = map[string][]string{
	"said":   {"public.facts", "public.afterwards", "public.reconciliations", "public.standing_grants", "public.delegations"},
	"named":  {"public.approvals", "public.idempotency", "public.rate_sessions"},
	"digest": {"public.approvals", "public.card_views", "public.cards_shown", "public.facts"},
}

// search looks through every table of every database.
func (c *canaries) search(t *testing.T, d *dev, lawful map[string][]string) {
	t.Helper()
	tables, sung := 0, map[string]bool{}
	for _, database := range []string{"holdpoint", "temporal"} {
		for table, data := range dump(t, d.OwnerURL, database) {
			tables++
			for what, h := range c.hunts {
				if found := h.in(data); found != nil && !slices.Contains(lawful[what], table) {
					t.Errorf("table %s of %s holds what is %s: %q", table, database, what, found)
				} else if found != nil {
					sung[what+" in "+table] = true
				}
			}
			if found := c.digests.in(data); found != nil && !slices.Contains(lawful["digest"], table) {
				t.Errorf("table %s of %s holds %q", table, database, found)
			} else if found != nil {
				sung["digest in "+table] = true
			}
		}
	}
	for what, names := range lawful {
		for _, table := range names {
			if !sung[what+" in "+table] && table != "public.rate_sessions" {
				t.Errorf("nothing that is %s is in %s: nothing was proven of it", what, table)
			}
		}
	}
	if tables < 45 {
		t.Errorf("only %d tables were looked at", tables)
	}
}

// TestCanariesInEveryEncoding: secrets, comments and names are planted in every
// place of every dialect, and looked for everywhere in every encoding; then all
// is erased, and looked for again.
func TestCanariesInEveryEncoding(t *testing.T) {
	ownPrograms(t)
	c := plant()
	k := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		title, _ := json.Marshal(c.comment)
		fmt.Fprintf(w, `{"ref": %q, "title": %s, "project": "OPS", "state": "ready", "closed": false, "created_at": "2026-01-02T15:04:05Z"}`, strings.TrimPrefix(r.URL.Path, "/"), title)
	}))
	defer k.Close()
	dir := devDir(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"policy.yaml": canaryPolicy, "token": trackerToken,
		"settings.yaml": `execution_lease: 1s
routing:
  rules: [{tool: "glass_*", role: security-approver, needed: 2, expires_in: 1h}]
  default: {role: reviewer, needed: 1, expires_in: 1h}
tickets:
  - {name: ops, kind: http, base_url: "` + k.URL + `", token_file: "` + dir + `/token", projects: [OPS], allow_private: [127.0.0.1/32], allow_http: true}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := startDev(t, func(o *devOptions) { o.dir = dir; o.args = []string{"--log-level", "debug"} })
	leaver := d.newPerson(t, "--name", "Wilhelmina Quackenbusch", "--role", "reviewer")
	ids := c.everywhere(t, d, leaver)

	for name, a := range map[string]answer{
		"metrics": d.admin(t).do("GET", "/metrics", nil), "audit": d.admin(t).do("GET", "/v1/audit/events?limit=1000", nil),
		"export": d.wholeLog(t, "jsonl"), "csv": d.wholeLog(t, "csv"), "ocsf": d.wholeLog(t, "ocsf"),
		"grants": d.admin(t).do("GET", "/v1/admin/rules", nil), "openapi": d.client(t).do("GET", "/openapi.json", nil), "ready": d.client(t).do("GET", "/readyz", nil),
	} {
		for what, h := range c.hunts {
			if found := h.in(a.Body); found != nil {
				t.Errorf("%s answers with what is %s: %q", name, what, found)
			}
		}
		if found := c.digests.in(a.Body); found != nil {
			t.Errorf("%s answers with %q", name, found)
		}
	}
	for _, e := range d.admin(t).events(url.Values{"limit": {"1000"}}) {
		if text := canonical(t, e); c.hunts["secret"].in([]byte(text)) != nil {
			t.Errorf("the event %s", text)
		}
	}
	c.search(t, d, lawful)
	log := []byte(d.program.text())
	for what, h := range c.hunts {
		if found := h.in(log); found != nil {
			t.Errorf("the log holds what is %s: %q", what, found)
		}
	}
	if found := c.digests.in(log); found != nil || !bytes.Contains(log, []byte("level=DEBUG")) {
		t.Errorf("the log holds %q", found)
	}

	// And then all of it is erased: what ended, and somebody who leaves.
	must(t, nil, "", "retention", "set-floor", "0s", "--data", d.dir)
	grants(t, d)
	admin := d.admin(t)
	for _, id := range ids {
		body := map[string]any{"approval_id": id, "reason": "request 4711"}
		eventually(t, settleWithin, id+" can be erased", func() bool {
			a := admin.do("POST", "/v1/admin/erasures", body)
			if a.Status != 200 && a.code() != "kept_running" && a.code() != "kept_spendable" {
				t.Fatalf("erase %s: %s", id, a)
			}
			return a.Status == 200
		})
		admin.do("POST", "/v1/admin/erasures", body).want(t, 409, "already_erased")
	}
	for _, p := range append(slices.Clone(d.Reviewers), leaver) {
		must(t, nil, "", "erase", "person", p.Email, "--reason", "request 4712", "--yes", "--data", d.dir)
	}
	// What only the person was known by is in no table any more, and in no event.
	c.hunts["leaver's address"] = huntFor(leaver.Email, strings.TrimSuffix(leaver.Email, "@example.com"))
	c.hunts["leaver's name"] = huntFor("Wilhelmina Quackenbusch", "Quackenbusch")
	c.search(t, d, map[string][]string{"named": {"public.idempotency", "public.rate_sessions"}})
	for _, id := range ids {
		page := d.as(t, d.Auditor).do("GET", "/approvals/"+id, nil).want(t, 200)
		if !bytes.Contains(page.Body, []byte(`data-testid="erased"`)) {
			t.Errorf("the page of %s does not say that it is erased", id)
		}
		if seen := d.agent(t).get(id); seen.Status == "pending" || seen.Digest != "" {
			t.Errorf("the agent reads %+v", seen)
		}
	}
	c.afterwards(t, d, ids)
}

// afterwards looks at what tells of the erasures, and at the files.
func (c *canaries) afterwards(t *testing.T, d *dev, ids []string) {
	t.Helper()
	var list struct {
		Erasures []struct{ Subject, Rule, Reason, By, EventID string }
	}
	d.admin(t).do("GET", "/v1/audit/erasures?limit=1000", nil).want(t, 200).into(t, &list)
	if len(list.Erasures) != len(ids)+len(d.Reviewers)+1 {
		t.Errorf("%d erasures are listed", len(list.Erasures))
	}
	page := string(d.as(t, d.Auditor).do("GET", "/audit/erasures", nil).want(t, 200).Body)
	for _, id := range ids {
		if !strings.Contains(page, id) {
			t.Errorf("the report does not name %s", id)
		}
	}
	for _, id := range ids {
		var pack answer
		eventually(t, settleWithin, "a pack of "+id, func() bool {
			pack = d.admin(t).do("GET", "/v1/audit/evidence?approval_id="+id, nil)
			return pack.code() != "no_checkpoint"
		})
		if !bytes.Contains(pack.want(t, 200).Body, []byte("have been erased")) {
			t.Errorf("the pack of %s does not say that it is erased", id)
		}
		for what, h := range c.hunts {
			if found := h.in(pack.Body); found != nil {
				t.Errorf("the pack of %s holds what is %s: %q", id, what, found)
			}
		}
	}
	events := 0
	for _, e := range d.admin(t).events(url.Values{"limit": {"1000"}}) {
		if e.Type == "erasure" && e.Outcome == "ALLOW" {
			events++
		}
	}
	if events != len(list.Erasures) {
		t.Errorf("%d events tell of %d erasures", events, len(list.Erasures))
	}
	d.check(t)
	d.cleanFiles(t, c.hunts["secret"].in)
}

// wholeLog is the log in a format.
func (d *dev) wholeLog(t *testing.T, format string) answer {
	t.Helper()
	a := d.admin(t).do("GET", "/v1/audit/export?format="+format, nil).want(t, 200)
	if n := bytes.Count(a.Body, []byte("\n")); n < 100 {
		t.Errorf("%s has %d lines: nothing was proven of it", format, n)
	}
	return a
}

// grants revokes every standing grant.
func grants(t *testing.T, d *dev) {
	t.Helper()
	var list struct {
		Grants []struct{ ID string }
	}
	d.admin(t).do("GET", "/v1/grants", nil).want(t, 200).into(t, &list)
	if len(list.Grants) == 0 {
		t.Error("no grant was made")
	}
	for _, g := range list.Grants {
		d.admin(t).do("POST", "/v1/grants/"+g.ID+"/revoke", nil).want(t, 200)
	}
}

// everywhere plants the canaries wherever something can stand, and sees every
// approval to its end. It returns their ids.
func (c *canaries) everywhere(t *testing.T, d *dev, leaver person) (ids []string) {
	t.Helper()
	agent, runtime, admin := d.agent(t), d.runtime(t), d.admin(t)
	args := func(n int) map[string]any {
		return map[string]any{"n": n, "plain": c.secret, "nested": map[string]any{"list": []any{c.secret, "x"}}, c.secret: "a name, too", "text": "words around " + c.secret + " it"}
	}
	headers := []header{{"Holdpoint-Session", c.named}, {"Holdpoint-Preconditions", canonical(t, map[string]any{"etag": c.named})}, {"User-Agent", c.named}, {"Referer", "http://x/" + c.named}, {"X-Forwarded-For", c.named}, {"Accept-Language", c.named}}
	keep := func(a approval) approval { ids = append(ids, a.ID); return c.of(a) }
	n := 0
	next := func() map[string]any { n++; return args(n) }

	// Agent Action Contract: everything in its document that is free.
	e := event("carry", "defer", next())
	e["user_intent"], e["authorization_subject"] = c.secret, map[string]any{"subject_type": "user", "subject_ref": c.secret}
	e["evidence_refs"] = []any{map[string]any{"source_id": "crm", "kind": "user_message", "trust_tier": "verified", "redaction_status": "redacted", "summary": c.secret}}
	first := keep(agent.submit(e, append(headers, header{"Idempotency-Key", c.named})...))
	agent.propose(event("search_docs", "accept", next()), headers...).want(t, 200)
	agent.propose(event("search_docs", "refuse", next()), headers...).want(t, 200)

	// A whole conversation about it.
	reviewer, second := d.reviewer(t, ada), d.as(t, leaver)
	reviewer.do("GET", "/approvals/"+first.ID, nil).want(t, 200)
	reviewer.act(first.ID, "comments", map[string]any{"comment": c.comment}).want(t, 200)
	second.act(first.ID, "comments", map[string]any{"comment": c.comment}).want(t, 200)
	reviewer.act(first.ID, "questions", map[string]any{"comment": c.comment}).want(t, 200)
	agent.act(first.ID, "answers", map[string]any{"information": c.comment}).want(t, 200)
	changed := next()
	changed[c.secret+" in a new name"], changed["plain"] = 1, c.secret+" changed"
	edited := keep(d.reviewer(t, ben).act(first.ID, "edits", seen(agent.get(first.ID), map[string]any{"arguments": changed, "comment": c.comment})).want(t, 200).approval(t))
	ids = ids[:len(ids)-1] // the same one
	second.act(edited.ID, "votes", seen(edited, map[string]any{"decision": "approve", "comment": c.comment})).want(t, 200)
	token := agent.wait(edited.ID).Token
	agent.redeem(token, "carry", next()).want(t, 403, "arguments_mismatch")
	now := map[string]string{"etag": c.named}
	lease := func(token, tool string, args any) { // longer than the settings', for who reports
		t.Helper()
		agent.do("POST", "/v1/tokens/redeem", map[string]any{"token": token, "tool_name": tool, "arguments": args, "preconditions": now, "lease_seconds": 600}).want(t, 200)
	}
	lease(token, "carry", changed)
	agent.do("POST", "/v1/executions", map[string]any{"approval_id": first.ID, "outcome": "succeeded", "findings": []any{c.secret}, "output": map[string]any{"out": c.secret, c.secret: 1}}, headers...).want(t, 200)

	// A form, from the runtime and from a person.
	form := keep(agent.checked("order", next(), headers...))
	runtime.act(form.ID, "answers", map[string]any{"confirmed": true, "values": map[string]any{"cost_center": 4711, "more": c.secret}, "comment": c.comment}).want(t, 422, "values_invalid")
	runtime.act(form.ID, "answers", map[string]any{"confirmed": true, "values": map[string]any{"cost_center": c.secret}, "comment": c.comment}).want(t, 200)
	reviewer.do("GET", "/approvals/"+form.ID, nil).want(t, 200)
	reviewer.act(form.ID, "votes", seen(form, map[string]any{"decision": "deny", "kind": "never", "comment": c.comment})).want(t, 200)
	supplied := keep(agent.checked("order", next(), headers...))
	reviewer.do("POST", "/approvals/"+supplied.ID+"/answer", url.Values{"digest": {supplied.Digest}, "version": {fmt.Sprint(supplied.Version)}, "argument:cost_center": {c.secret}}).want(t, 303)
	agent.cancel(supplied.ID).want(t, 200)

	// A ticket: its title, and references that are none.
	ticketed := keep(agent.checked("change", next(), headers...))
	agent.act(ticketed.ID, "ticket", map[string]any{"ticket": c.secret}).want(t, 422)
	agent.act(ticketed.ID, "ticket", map[string]any{"ticket": "OPS-1", "system": c.secret}).want(t, 422)
	agent.act(ticketed.ID, "ticket", map[string]any{"ticket": "OPS-1"}).want(t, 200)
	ran := agent.wait(ticketed.ID)
	agent.redeem(ran.Token, "change", nil, headers...)
	ticketArgs := args(n)
	agent.spend(ran.Token, "change", ticketArgs, now).want(t, 200)
	// Nobody says what became of it: a person finds out.
	eventually(t, settleWithin, "nobody knows what became of it", func() bool { return agent.get(ticketed.ID).Execution == "unknown" })
	d.reviewer(t, cleo).act(ticketed.ID, "reconciliation", map[string]any{"outcome": "failed", "comment": c.comment})
	d.as(t, d.Owner).act(ticketed.ID, "reconciliation", map[string]any{"outcome": "failed", "comment": c.comment})

	// An emergency, and what is said of it.
	glass := keep(agent.hold("glass_canary", next(), headers...))
	d.reviewer(t, dina).do("GET", "/approvals/"+glass.ID, nil).want(t, 200)
	d.reviewer(t, dina).act(glass.ID, "break-glass", seen(glass, map[string]any{"comment": c.comment, "alone": true})).want(t, 200)
	broken := agent.wait(glass.ID)
	d.reviewer(t, ada).act(glass.ID, "afterwards", map[string]any{"justified": true, "comment": c.comment}).want(t, 200)
	lease(broken.Token, "glass_canary", args(n))
	agent.do("POST", "/v1/executions", map[string]any{"approval_id": glass.ID, "outcome": "failed"}).want(t, 200)

	// Agent-SPM, with everything that it knows of a call.
	spm := params("pay", next())
	for field, value := range map[string]any{
		"userId": c.secret, "sessionId": c.named, "environment": "production", "dataTags": []any{c.secret}, "context": map[string]any{"x": c.secret}, "delegationChain": []any{c.secret}, "metadata": map[string]any{"y": c.secret},
	} {
		one := params("pay", args(n))
		one[field] = value
		var checked struct{ Approval *approval }
		if a := agent.do("POST", "/v1/tool-calls/check", one, headers...); a.Status == 202 {
			a.into(t, &checked)
			agent.cancel(keep(*checked.Approval).ID).want(t, 200)
		}
	}
	agent.do("POST", "/v1/tool-calls/check", params("read_x", next()), headers...).want(t, 200)
	agent.do("POST", "/v1/tool-calls/check", params("unknown", next()), headers...).want(t, 200)
	var paid struct{ Approval approval }
	agent.do("POST", "/v1/tool-calls/check", spm, headers...).want(t, 202).into(t, &paid)
	pay := keep(paid.Approval)
	human := keep(agent.checked("wire", next(), headers...))
	agent.cancel(human.ID).want(t, 200)

	// A standing grant, whose matchers hold arguments.
	reviewer.do("GET", "/approvals/"+pay.ID, nil).want(t, 200)
	c.grant(t, d, pay)
	agent.cancel(pay.ID).want(t, 200)
	reviewer.do("POST", "/away", url.Values{"deputy": {reviewer.idOf(leaver.Email)}, "until": {time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04")}, "reason": {c.comment}}).want(t, 303)

	// Tool contracts.
	for _, method := range []string{"validate-request", "intercept-request", "intercept-response"} {
		agent.do("POST", "/v1/tool-contracts/"+method, map[string]any{"tool_name": "read_x", "data_tags": []any{c.secret}, "payload": args(n), "response": args(n)}, headers...)
		agent.do("POST", "/v1/tool-contracts/"+method, map[string]any{"tool_name": "read_x", "data_tags": []any{}, "payload": args(n)}, headers...)
		agent.do("POST", "/v1/tool-contracts/"+method, map[string]any{"tool_name": "read_x", "data_tags": []any{}, "response": args(n)}, headers...)
	}

	// ThreeGate: text and front matter.
	for _, draft := range []string{
		strings.Replace(toolDraft, "It counts rows.", "It counts "+c.secret, 1), strings.Replace(toolDraft, `purpose: "Count`, `purpose: "`+strings.ReplaceAll(c.secret, `"`, "")+` Count`, 1), toolDraft + c.secret, c.secret,
	} {
		var asked struct{ Approval approval }
		a := agent.do("POST", "/v1/tool-requests", []byte(draft), append(headers, header{"Content-Type", "text/markdown; charset=utf-8"})...)
		if a.Status == 202 {
			a.into(t, &asked)
			agent.cancel(keep(asked.Approval).ID).want(t, 200)
		}
	}

	// Models.
	mcp := agent.do("POST", "/mcp", message(1, "aana_pre_tool_check", event("carry", "defer", next())), append(headers, acceptsBoth)...).want(t, 200)
	if id := regexp.MustCompile(`apr_[a-z0-9]{26}`).FindString(string(mcp.Body)); id != "" {
		keep(agent.get(id))
		agent.cancel(id).want(t, 200)
	}
	agent.do("POST", "/mcp", message(2, c.secret, args(n)), acceptsBoth)

	// What is refused at the doors: bodies, addresses, keys, passwords.
	for _, body := range []string{`{"a":"` + c.secret, `{"` + c.secret + `":1,"` + c.secret + `":2}`, `"` + c.secret + `"`, c.secret, `{"proposed_arguments":{"a":"` + c.secret + `\u0000"}}`} {
		for _, path := range []string{checkPath, "/v1/tool-calls/check", "/v1/tokens/redeem", "/v1/executions", "/mcp", "/v1/tool-requests", approvalPath(first.ID) + "/answers"} {
			agent.do("POST", path, []byte(body), headers...)
		}
	}
	in := url.PathEscape(c.secret)
	for _, path := range []string{"/" + in, "/v1/" + in, "/v1/approvals/" + in, "/approvals/" + in, "/history?cursor=" + in, "/v1/audit/events?cursor=" + in, "/v1/audit/events?" + in + "=1", "/agents/" + in, "/login?next=" + in, "/sessions/demo-agent/" + in} {
		agent.do("GET", path, nil, headers...)
		reviewer.do("GET", path, nil)
		admin.do("GET", path, nil)
		agent.do("POST", path, map[string]any{"x": c.secret})
	}
	d.client(t).with("hp_"+strings.Repeat("c", 10)+"_"+strings.ReplaceAll(in, "%", "")).do("GET", "/v1/audit/events", nil)
	for _, p := range []person{{Email: "x" + c.secret + "@example.com", Password: "x"}, {Email: d.Owner.Email, Password: c.secret}} {
		d.client(t).do("POST", "/login", url.Values{"email": {p.Email}, "password": {p.Password}})
	}
	agent.redeem(c.secret, "carry", args(n)).want(t, 401, "token_invalid")
	agent.redeem("a."+in+".c", c.secret, args(n)).want(t, 401)
	return ids
}

// grant makes a standing grant as the form of a card does.
func (c *canaries) grant(t *testing.T, d *dev, a approval) {
	t.Helper()
	reviewer := d.reviewer(t, ada)
	path := "/approvals/" + a.ID + "/grant"
	reviewer.do("GET", "/approvals/"+a.ID, nil).want(t, 200)
	page := string(reviewer.do("GET", path, nil).want(t, 200).Body)
	form := url.Values{"digest": {a.Digest}, "for": {"2h"}, "uses": {"3"}, "reason": {c.comment}, "step": {"try"}}
	for _, field := range regexp.MustCompile(`name="op([0-9]+)"`).FindAllStringSubmatch(page, -1) {
		form.Set("op"+field[1], "equals")
	}
	for _, field := range regexp.MustCompile(`name="(value[0-9]+)"[^>]*>([^<]*)</textarea>`).FindAllStringSubmatch(page, -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	tried := string(reviewer.do("POST", path, form).want(t, 200).Body)
	seen := regexp.MustCompile(`name="seen" value="([0-9a-f]+)"`).FindStringSubmatch(tried)
	if seen == nil {
		t.Fatalf("the grant cannot be tried: %s", tried)
	}
	form.Set("step", "save")
	form.Set("seen", seen[1])
	reviewer.do("POST", path, form).want(t, 303)
}
