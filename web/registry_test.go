package web

import (
	"context"
	"errors"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/policy"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/rules"
)

// fakeRegistry is a registry over one snapshot, for tests. What may be registered is
// checked by the real checks.
type fakeRegistry struct {
	known  registry.Snapshot
	acts   []access.Initiator
	in     InForce
	broken error
}

func newFakeRegistry() *fakeRegistry {
	return &fakeRegistry{known: registry.Snapshot{
		Settings: registry.DefaultSettings(), Tools: map[string]registry.Tool{}, Kills: map[string]registry.Kill{},
		Agents: map[string]registry.Agent{"agt_billing": {ID: "agt_billing", Name: "billing-agent", Owner: "linus@example.com", Trust: engine.Basic, Roles: []string{"billing"}}},
	}}
}

func (o *fakeRegistry) inForce() InForce {
	in := o.in
	in.Digest, in.Registered = "sha256:"+strings.Repeat("0f", 32), &o.known
	return in
}

func (o *fakeRegistry) Snapshot(context.Context) (*registry.Snapshot, error) {
	known := o.known
	known.Agents, known.Tools, known.Kills = maps.Clone(o.known.Agents), maps.Clone(o.known.Tools), maps.Clone(o.known.Kills)
	return &known, o.broken
}

func (o *fakeRegistry) act(by access.Initiator, errs []error, do func()) error {
	if len(errs) > 0 {
		return &access.Refusal{Kind: access.Invalid, Code: "invalid_body", Detail: errors.Join(errs...).Error()}
	}
	o.acts = append(o.acts, by)
	do()
	return o.broken
}

func (o *fakeRegistry) RegisterAgent(_ context.Context, by access.Initiator, a registry.Agent, _ *access.Idempotency[access.Done]) error {
	return o.act(by, a.Check(), func() { o.known.Agents[a.ID] = a })
}

func (o *fakeRegistry) RevokeAgent(_ context.Context, by access.Initiator, id string, revoke bool, _ *access.Idempotency[access.Done]) error {
	a := o.known.Agents[id]
	if (a.RevokedAt != nil) == revoke {
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such agent."}
	}
	return o.act(by, nil, func() { a.RevokedAt = when(revoke); o.known.Agents[id] = a })
}

func (o *fakeRegistry) RegisterTool(_ context.Context, by access.Initiator, t registry.Tool, _ *access.Idempotency[access.Done]) error {
	return o.act(by, t.Check(), func() { o.known.Tools[t.Name] = t })
}

func (o *fakeRegistry) RevokeTool(_ context.Context, by access.Initiator, name string, revoke bool, _ *access.Idempotency[access.Done]) error {
	t := o.known.Tools[name]
	return o.act(by, nil, func() { t.RevokedAt = when(revoke); o.known.Tools[name] = t })
}

func (o *fakeRegistry) PutSettings(_ context.Context, by access.Initiator, s registry.Settings, _ *access.Idempotency[access.Done]) error {
	return o.act(by, s.Check(), func() { o.known.Settings = s })
}

func (o *fakeRegistry) ThrowKillSwitch(_ context.Context, by access.Initiator, agent, reason string, _ *access.Idempotency[access.Done]) error {
	if _, on := o.known.Kills[agent]; on {
		return &access.Refusal{Kind: access.Conflict, Code: "already_on", Detail: "This kill switch is on already."}
	}
	return o.act(by, nil, func() {
		o.known.Kills[agent] = registry.Kill{AgentID: agent, Reason: reason, By: by.Actor.ID, At: epoch}
	})
}

func (o *fakeRegistry) ReleaseKillSwitch(_ context.Context, by access.Initiator, agent string, _ *access.Idempotency[access.Done]) error {
	return o.act(by, nil, func() { delete(o.known.Kills, agent) })
}

func when(revoked bool) *time.Time {
	if !revoked {
		return nil
	}
	at := epoch
	return &at
}

const samplePolicy = `version: "2026.11"
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2026-12-20T00:00:00Z"
defaults:
  outcome: DENY
rules:
  - id: read-anything
    description: Reading is harmless.
    match: {tool_name: "read.*", environment: "*"}
    outcome: ALLOW
  - id: big-payment
    description: Large payments need finance and security.
    match:
      tool_name: [payments.transfer, payments.refund]
      environment: dev
      trust_level_min: basic
    when:
      contains_any: [invoice, "<b>urgent</b>"]
      tool_args_match:
        amount: {gt: 1000, lte: 50000}
        currency: EUR
    outcome: REQUIRE_APPROVAL
    constraints: {max_amount: 50000}
    approval:
      groups:
        - {role: finance-approver, needed: 2}
        - {role: security-approver, needed: 1}
      expires_in: 4h
      escalation:
        - {after: 15m, role: manager}
  - id: contract-signing
    description: Counsel alone, or two reviewers.
    match: {tool_name: contracts.sign, environment: dev}
    outcome: REQUIRE_APPROVAL
    approval:
      any_of:
        - {role: counsel, needed: 1}
        - {role: reviewer, needed: 2}
  - id: never-reached
    description: It is behind its like.
    match: {tool_name: read.file, environment: dev}
    outcome: DENY
`

const sampleContracts = `tool_contracts:
  send_email:
    allowed_request_tags: [personal.pii.email]
    allowed_response_fields: [status, message_id]
    mask_response: true
  web_search:
    allowed_request_tags: []
    allowed_response_fields: [results]
`

// enforce puts a policy and contracts in force.
func (o *fakeRegistry) enforce(t *testing.T, policyFile, contractsFile string) {
	t.Helper()
	b, problems := policy.Load([]byte(policyFile), policy.Options{})
	if b == nil {
		t.Fatal(problems)
	}
	s, wrong := safeai.Load([]byte(contractsFile), "")
	if s == nil {
		t.Fatal(wrong)
	}
	o.in.Status = rules.Status{Policy: b, PolicyFile: []byte(policyFile), Contracts: s, ContractsFile: []byte(contractsFile)}
}

func TestWhoMayOpenWhat(t *testing.T) {
	reads := []string{"/policies", "/agents", "/agents/agt_billing"}
	administers := []string{"/admin", "/admin/tool"}
	posts := []string{
		"/agents/agt_billing", "/agents/agt_billing/registration", "/agents/agt_billing/kill-switch",
		"/admin/kill-switch", "/admin/settings", "/admin/tool", "/admin/tool/registration",
	}
	for email, may := range map[string]struct{ reads, administers bool }{
		"ada@example.com": {}, "aude@example.com": {reads: true}, "olga@example.com": {true, true},
	} {
		c := start(t, nil)
		for _, path := range append(reads, administers...) {
			if to := c.get(path).Header.Get("Location"); to != "/login?next="+url.QueryEscape(path) {
				t.Errorf("%s without a session leads to %q", path, to)
			}
		}
		c.signIn(email)
		status := func(may bool) int {
			if may {
				return http.StatusOK
			}
			return http.StatusForbidden
		}
		for _, path := range reads {
			c.get(path).want(t, status(may.reads))
		}
		for _, path := range administers {
			c.get(path).want(t, status(may.administers))
		}
		if !may.reads {
			c.get("/policies").want(t, http.StatusForbidden, "This page is not open to you", "finance-approver")
			c.do("POST", "/policies", url.Values{"tool": {"x"}}).want(t, http.StatusForbidden)
		}
		inbox := c.get("/").body
		for entry, want := range map[string]bool{`href="/policies"`: may.reads, `href="/agents"`: may.reads, `href="/admin"`: may.administers} {
			if strings.Contains(inbox, entry) != want {
				t.Errorf("%s: navigation with %s: want %v", email, entry, want)
			}
		}
		if may.administers {
			continue
		}
		for _, path := range posts {
			form := url.Values{"switch": {"throw"}, "reason": {"r"}, "confirm": {"STOP"}, "to": {"revoked"}, "name": {"x"}}
			c.do("POST", path, form).want(t, http.StatusForbidden, "This page is for administrators")
		}
		if len(c.m.registry.acts) != 0 {
			t.Errorf("%s did %v", email, c.m.registry.acts)
		}
	}
}

// TestDemotedAdministrator: what a page offered counts for nothing once the role is gone,
// and no other site can use the session.
func TestDemotedAdministrator(t *testing.T) {
	c := start(t, nil).signIn("olga@example.com")
	c.get("/admin").want(t, http.StatusOK)
	form := url.Values{"switch": {"throw"}, "reason": {"r"}, "confirm": {"STOP"}}
	c.do("POST", "/admin/kill-switch", form, "Sec-Fetch-Site", "cross-site").want(t, http.StatusForbidden)
	c.do("POST", "/admin/kill-switch", form, "Sec-Fetch-Site", "").want(t, http.StatusForbidden)
	olga := c.m.people["olga@example.com"]
	olga.Roles = []string{"finance-approver"}
	c.m.people[olga.Email] = olga
	c.do("POST", "/admin/kill-switch", form).want(t, http.StatusForbidden)
	if len(c.m.registry.acts) != 0 {
		t.Errorf("done: %v", c.m.registry.acts)
	}
}

func TestPolicies(t *testing.T) {
	c := start(t, nil).signIn("aude@example.com")
	c.get("/policies").want(t, http.StatusOK, "No policy is in force", "holdpoint policy check")
	c.m.registry.enforce(t, samplePolicy, sampleContracts)
	page := c.get("/policies")
	page.want(t, http.StatusOK, "2026.11", "not signed", c.m.registry.in.Policy.Digest, "sha256:0f0f", "tools that begin with", "read.",
		"payments.transfer", "agents trusted at least", "is more than", "50000", "finance-approver", "security-approver", "REQUIRE_APPROVAL",
		"send_email", "personal.pii.email", "masked where it holds a secret", "can never match", "&lt;b&gt;urgent&lt;/b&gt;", `data-testid="policy-file"`)
	if strings.Contains(page.body, "policy-signers") {
		t.Error("signers are asked for where nobody signs")
	}
	c.m.registry.in.SignedBy, c.m.registry.in.Signatures = []string{"Ada", "<b>Ben"}, &approval.Rule{Role: "owner", Needed: 2}
	if text := strip(c.get("/policies").body); !strings.Contains(text, "Signed by Ada, <b>Ben A policy takes the signatures of 2 people with the role owner here.") {
		t.Errorf("the page does not say who has signed: %s", text)
	}
	if strings.Contains(page.body, "<b>urgent") {
		t.Error("the policy's words are markup")
	}
	found := c.get("/policies?q=finance-approver+50000")
	found.want(t, http.StatusOK, `data-testid="rule-count"`, "payments.transfer", `value="finance-approver 50000"`)
	if text := strip(found.body); !strings.Contains(text, "1 rule of 4 match") {
		t.Errorf("a search for words of one rule shows others:\n%s", text)
	}
	text := strip(page.body)
	for _, want := range []string{
		"the argument amount is more than 1000 and is at most 50000", "the argument currency is EUR", "2 of finance-approver and 1 of security-approver", "either 1 of counsel or 2 of reviewer",
		"after 15m also manager", "in all within 4h", "a call that no rule matches is refused",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q:\n%s", want, text)
		}
	}
	c.m.registry.in.Problem = "policy.yaml:3:1: rule \"x\u202e\": wrong\nand more"
	c.get("/policies").want(t, http.StatusOK, `data-testid="policy-problem"`, "RIGHT-TO-LEFT OVERRIDE", "and more")
	for now, want := range map[string]string{
		"2026-12-10T00:00:00Z": "This policy expires in 10 days", "2026-12-20T00:00:00Z": "This policy has expired", "2026-12-05T00:00:00Z": "",
	} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		c.c.site.clock = func() time.Time { return at }
		body := c.get("/policies").body
		if got := strings.Contains(body, `data-testid="policy-expiry"`); got != (want != "") || !strings.Contains(body, want) {
			t.Errorf("at %s: expiry warned of: %v, want %q", now, got, want)
		}
	}
}

var tags = regexp.MustCompile(`<[^>]*>`)

// strip is a page's text with single blanks.
func strip(body string) string {
	return html.UnescapeString(strings.Join(strings.Fields(tags.ReplaceAllString(body, " ")), " "))
}

// TestUnreadTerms: a rule that the file does not tell in words is pointed to; a contract is
// told as it is in force.
func TestUnreadTerms(t *testing.T) {
	c := start(t, nil).signIn("aude@example.com")
	c.m.registry.enforce(t, samplePolicy, "tool_contracts:\n  mail:\n    allowed_request_tags: [personal]\n")
	c.m.registry.in.PolicyFile, c.m.registry.in.ContractsFile = []byte("rules: ["), []byte("tool_contracts: [")
	text := strip(c.get("/policies").body)
	for _, want := range []string{"see line 7 of the file", "mail personal no field"} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q:\n%s", want, text)
		}
	}
}

// TestJSONPolicy: a bundle in JSON is told in the same words.
func TestJSONPolicy(t *testing.T) {
	c := start(t, nil).signIn("aude@example.com")
	c.m.registry.enforce(t, `{"version":"7","generated_at":"2026-01-01T00:00:00Z","expires_at":"2027-12-20T00:00:00Z","defaults":{"outcome":"ALLOW"},
		"rules":[{"id":"only","description":"d","match":{"tool_name":"*","environment":"prod","tool_category":"write"},"when":{"matches_regex":"a+b"},"outcome":"DENY"}]}`, sampleContracts)
	text := strip(c.get("/policies").body)
	for _, want := range []string{"any tool", "in prod", "tools registered as write", "its text matches a+b", "DENY"} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q:\n%s", want, text)
		}
	}
}

func TestTryACall(t *testing.T) {
	c := start(t, nil).signIn("aude@example.com")
	try := func(form url.Values, status int, texts ...string) {
		t.Helper()
		a := c.do("POST", "/policies", form)
		a.want(t, status)
		text := strip(a.body)
		for _, want := range texts {
			if !strings.Contains(text, want) {
				t.Errorf("page lacks %q:\n%s", want, text)
			}
		}
	}
	try(url.Values{"tool": {"x"}}, 422)
	c.m.registry.enforce(t, samplePolicy, sampleContracts)
	c.m.now = func() time.Time { return time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC) }
	c.c.site.clock = c.m.now
	try(url.Values{"tool": {"read.file"}, "arguments": {`{"path":"/etc"}`}, "environment": {"dev"}}, 200, "Decided by the rule read-anything", "read.file in dev may run, unless another check holds it", "too late never-reached")
	whole := `{"toolName":"payments.transfer","toolArgs":{"amount":2000,"currency":"EUR","memo":"invoice 1"},"agentId":"a","trustLevel":"verified"}`
	try(url.Values{"request": {whole}}, 200, "Decided by the rule big-payment", "waits for people to approve it", `The tool "payments.transfer" is not one whose name begins with "read."`)
	try(url.Values{"tool": {"payments.transfer"}, "arguments": {`{"amount":2000}`}}, 200, "No rule matched", "DENY")
	try(url.Values{"tool": {"x"}, "arguments": {`{"a":1,"a":2}`}}, 422, "The arguments are not JSON that Holdpoint reads")
	try(url.Values{"tool": {"x"}, "arguments": {`[1]`}}, 422, "/toolArgs")
	try(url.Values{"tool": {""}}, 422, "Name the tool")
	try(url.Values{"request": {`{"toolName":7}`}}, 422, "/toolName", "/agentId")
	try(url.Values{"request": {strings.Repeat("x", maxForm)}}, 413)
	if len(c.m.registry.acts) != 0 {
		t.Error("trying a call did something")
	}
}

func agentValues(o *fakeRegistry, id string) url.Values {
	a := o.known.Agents[id]
	return url.Values{"seen": {fingerprint(a)}, "trust": {a.Trust.String()}, "roles": {strings.Join(a.Roles, "\r\n")}}
}

func TestChangeAgent(t *testing.T) {
	c := start(t, nil).signIn("olga@example.com")
	o := c.m.registry
	c.get("/agents").want(t, http.StatusOK, "billing-agent", "agt_billing", "linus@example.com", "Active")
	c.get("/agents/none").want(t, http.StatusNotFound)
	form := agentValues(o, "agt_billing")
	form.Set("trust", "verified")
	form.Set("roles", "billing\r\n\r\n  refunds ")
	form.Set("own_limits", "yes")
	form.Set("agent_calls", "60")
	form.Set("agent_per", "1m")
	form.Set("max_delegation", "0")
	res := c.do("POST", "/agents/agt_billing", form)
	res.want(t, http.StatusSeeOther)
	c.get(res.Header.Get("Location")).want(t, http.StatusOK, "registration was changed", "verified", "refunds", "60 calls in 1m", "chains of up to 0")
	if body := c.get("/agents/agt_billing").body; strings.Contains(body, "registration was changed") {
		t.Error("what was done is said twice")
	}
	a := o.known.Agents["agt_billing"]
	if a.Trust != engine.Verified || a.MaxDelegation == nil || *a.MaxDelegation != 0 || a.Limits == nil || a.Limits.Agent.Calls != 60 || len(a.Roles) != 2 {
		t.Errorf("registered: %+v", a)
	}
	if by := o.acts[0]; by.Actor != (engine.Actor{Kind: engine.HumanActor, ID: "usr_olga", Channel: "console"}) || by.RequestID == "" {
		t.Errorf("done by %+v", by)
	}
	// The first page is no longer true.
	c.do("POST", "/agents/agt_billing", form).want(t, http.StatusConflict, "Somebody has changed this")
	form = agentValues(o, "agt_billing")
	form.Set("own_limits", "yes")
	form.Set("agent_calls", "many")
	form.Set("trust", "<b>absolute")
	c.do("POST", "/agents/agt_billing", form).want(t, 422, "write a whole number", "Choose a trust level", `value="many"`)
	form.Set("trust", "basic")
	form.Set("agent_calls", "5")
	c.do("POST", "/agents/agt_billing", form).want(t, 422, "limits.agent.per")
	form.Set("agent_per", "1m")
	form.Set("type", "bill\u202eing")
	c.do("POST", "/agents/agt_billing", form).want(t, 422, "invisible characters")
	if len(o.acts) != 1 {
		t.Errorf("%d acts", len(o.acts))
	}
}

func TestRevokeAgent(t *testing.T) {
	c := start(t, nil).signIn("olga@example.com")
	path := "/agents/agt_billing/registration"
	c.do("POST", path, url.Values{"to": {"revoked"}}).want(t, 422, "tick the box")
	c.do("POST", path, url.Values{"to": {"gone"}, "confirm": {"yes"}}).want(t, 422)
	c.do("POST", path, url.Values{"to": {"revoked"}, "confirm": {"yes"}}).want(t, http.StatusSeeOther)
	c.get("/agents/agt_billing").want(t, http.StatusOK, "was revoked", "Restore the registration")
	c.do("POST", path, url.Values{"to": {"revoked"}, "confirm": {"yes"}}).want(t, http.StatusConflict)
	c.do("POST", path, url.Values{"to": {"restored"}, "confirm": {"yes"}}).want(t, http.StatusSeeOther)
	c.get("/agents").want(t, http.StatusOK, "Active")
}

func TestKillSwitchOfAnAgent(t *testing.T) {
	c := start(t, nil)
	card := c.m.add("apr_1", "payments.transfer", `{}`, nil)
	c.signIn("olga@example.com")
	path := "/agents/agt_billing/kill-switch"
	for _, form := range []url.Values{
		{"switch": {"throw"}, "reason": {"it loops"}}, {"switch": {"throw"}, "confirm": {"yes"}, "reason": {"  "}}, {"confirm": {"yes"}, "reason": {"r"}},
	} {
		c.do("POST", path, form).want(t, 422, "role=\"alert\"")
	}
	if len(c.m.registry.acts) != 0 {
		t.Fatalf("done: %v", c.m.registry.acts)
	}
	c.do("POST", path, url.Values{"switch": {"throw"}, "confirm": {"yes"}, "reason": {"it <loops>"}}).want(t, http.StatusSeeOther)
	c.get("/agents/agt_billing").want(t, http.StatusOK, "kill switch is on", "it &lt;loops&gt;", "Olga Owner", "Release the kill switch")
	c.get("/admin").want(t, http.StatusOK, `data-testid="kills"`, "billing-agent")
	c.do("POST", path, url.Values{"switch": {"throw"}, "confirm": {"yes"}, "reason": {"again"}}).want(t, http.StatusConflict, "on already")

	// Its approvals can only be denied.
	c.do("POST", "/logout", url.Values{})
	c.signIn("ada@example.com")
	page := c.get("/approvals/apr_1")
	page.want(t, http.StatusOK, "The kill switch for this agent is on.", `data-testid="deny"`)
	if strings.Contains(page.body, `data-testid="approve"`) || strings.Contains(page.body, `data-testid="all-stopped"`) {
		t.Error("the page of a stopped agent offers to approve, or says that all are stopped")
	}
	c.do("POST", "/approvals/apr_1/votes", ballotFor(card, "approve")).want(t, 423, "A kill switch is on, so your vote was not recorded", `href="/approvals/apr_1"`)
	c.do("POST", "/approvals/apr_1/votes", ballotFor(card, "deny")).want(t, http.StatusSeeOther)

	c.do("POST", "/logout", url.Values{})
	c.signIn("olga@example.com").do("POST", path, url.Values{"switch": {"release"}, "confirm": {"yes"}}).want(t, http.StatusSeeOther)
	c.get("/agents/agt_billing").want(t, http.StatusOK, "kill switch is off", "Active")
}

func TestGlobalKillSwitch(t *testing.T) {
	c := start(t, nil).signIn("olga@example.com")
	c.get("/admin").want(t, http.StatusOK, "Off: calls are judged.", "Type STOP to confirm")
	post := func(form url.Values) answer { return c.do("POST", "/admin/kill-switch", form) }
	post(url.Values{"switch": {"throw"}, "reason": {"incident 4711"}, "confirm": {"yes"}}).want(t, 422, "confirmation is missing", `value="incident 4711"`)
	post(url.Values{"switch": {"throw"}, "reason": {"incident 4711"}, "confirm": {" stop "}}).want(t, http.StatusSeeOther)
	c.get("/admin").want(t, http.StatusOK, "On: everything is stopped.", "incident 4711", "Type RELEASE to confirm", "Olga Owner")
	c.get("/agents").want(t, http.StatusOK, "Stopped with all")
	c.do("POST", "/logout", url.Values{})
	if body := c.get("/login").body; strings.Contains(body, "incident") {
		t.Error("strangers are told of the kill switch")
	}
	c.signIn("ada@example.com")
	for _, path := range []string{"/", "/history", "/approvals/none", "/policies"} {
		if !strings.Contains(c.get(path).body, `data-testid="all-stopped"`) {
			t.Errorf("%s does not say that everything is stopped", path)
		}
	}
	c.do("POST", "/logout", url.Values{})
	c.signIn("olga@example.com")
	post(url.Values{"switch": {"release"}, "confirm": {"STOP"}}).want(t, 422)
	post(url.Values{"switch": {"release"}, "confirm": {"RELEASE"}}).want(t, http.StatusSeeOther)
	c.get("/").want(t, http.StatusOK)
	if strings.Contains(c.get("/").body, `data-testid="all-stopped"`) {
		t.Error("the banner stays")
	}
}

func TestSettings(t *testing.T) {
	c := start(t, nil).signIn("olga@example.com")
	o := c.m.registry
	o.known.Settings.Issuers = map[string]registry.Key{"idp.example": make([]byte, 32)}
	c.get("/admin").want(t, http.StatusOK, "idp.example", "AAAAAAAA")
	form := url.Values{
		"seen": {fingerprint(o.known.Settings)}, "max_delegation": {"2"}, "min_trust": {"basic"}, "only_registered": {"yes"},
		"tool_calls": {"10"}, "tool_per": {"30s"}, "session_per": {"8h"},
	}
	c.do("POST", "/admin/settings", form).want(t, http.StatusSeeOther)
	got := o.known.Settings
	if got.MaxDelegation != 2 || got.MinTrust != engine.Basic || !got.OnlyRegisteredTools || got.AllowUnverifiedMCP || got.Limits.Tool.Calls != 10 || len(got.Issuers) != 1 {
		t.Errorf("settings: %+v", got)
	}
	c.get("/admin").want(t, http.StatusOK, "settings for all agents were changed", `value="30s"`, `value="8h"`)
	c.do("POST", "/admin/settings", form).want(t, http.StatusConflict)
	form.Set("seen", fingerprint(o.known.Settings))
	form.Set("max_delegation", "")
	form.Set("session_per", "soon")
	c.do("POST", "/admin/settings", form).want(t, 422, "such as 30s", `value="soon"`)
	form.Set("session_per", "")
	c.do("POST", "/admin/settings", form).want(t, 422, "0 allows no delegation")
	form.Set("max_delegation", "101")
	c.do("POST", "/admin/settings", form).want(t, 422, "max_delegation_depth")
}

func TestTools(t *testing.T) {
	c := start(t, nil).signIn("olga@example.com")
	c.get("/admin").want(t, http.StatusOK, "No tool is registered")
	c.get("/admin/tool?name=none").want(t, http.StatusNotFound)
	name := "mcp/files&more?<b>"
	form := url.Values{"name": {name}, "provider": {"mcp"}, "min_trust": {"verified"}, "needs_manifest": {"yes"}, "manifest": {strings.Repeat("AB", 32)}}
	res := c.do("POST", "/admin/tool", form)
	res.want(t, http.StatusSeeOther)
	c.get(res.Header.Get("Location")).want(t, http.StatusOK, "mcp/files&amp;more?&lt;b&gt;", strings.Repeat("ab", 32), "registration was changed")
	c.do("POST", "/admin/tool", form).want(t, http.StatusConflict) // it is there by now
	form.Set("seen", fingerprint(c.m.registry.known.Tools[name]))
	form.Set("stakes", "Pay {")
	c.do("POST", "/admin/tool", form).want(t, 422, "stakes: a brace is not closed", `value="Pay {"`)
	form.Set("stakes", "[high] Pay {amount|money:currency} to {*payee}")
	c.do("POST", "/admin/tool", form).want(t, 303)
	c.get("/admin/tool?name="+url.QueryEscape(name)).want(t, 200, `value="[high] Pay {amount|money:currency} to {*payee}"`)
	form.Set("seen", fingerprint(c.m.registry.known.Tools[name]))
	form.Set("manifest", "")
	c.do("POST", "/admin/tool", form).want(t, 422, "manifest_hash")
	form.Del("needs_manifest")
	form.Set("verified", "yes")
	c.do("POST", "/admin/tool", form).want(t, http.StatusSeeOther)
	c.get("/admin").want(t, http.StatusOK, "verified", "mcp/files&amp;more?&lt;b&gt;")
	c.do("POST", "/admin/tool/registration", url.Values{"name": {name}, "to": {"revoked"}, "confirm": {"yes"}}).want(t, http.StatusSeeOther)
	c.get(toolURL(name)).want(t, http.StatusOK, "Calls of it are refused now", "Restore the registration")
	if c.m.registry.known.Tools[name].RevokedAt == nil {
		t.Error("not revoked")
	}
	c.do("POST", "/admin/tool", url.Values{"name": {""}, "min_trust": {"basic"}}).want(t, 422, "tool_name: is missing")
}

func TestAdministrationOutage(t *testing.T) {
	c := start(t, nil).signIn("olga@example.com")
	c.m.registry.broken = errors.New("no database")
	for _, path := range []string{"/agents", "/agents/agt_billing", "/admin", "/admin/tool"} {
		c.get(path).want(t, http.StatusServiceUnavailable, "Nothing was decided")
	}
}
