package tests

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testPolicy is the policy of the dialects' tests.
func testPolicy(version, reads string) string {
	return `version: "` + version + `"
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2099-01-01T00:00:00Z"
rules:
  - id: docs
    description: Looking into the documentation.
    match: {tool_name: search_docs, environment: "*"}
    outcome: ALLOW
  - id: reads
    description: Reading.
    match: {tool_name: "read_*", environment: "*"}
    outcome: ` + reads + `
    constraints: {max_rows: 10}
  - id: pay
    description: Payments need finance.
    match: {tool_name: pay, environment: "*"}
    when: {tool_args_match: {amount: {gt: 100}}}
    outcome: REQUIRE_APPROVAL
    approver_role: finance-approver
    constraints: {currency: EUR}
    approval: {quorum: 2, expires_in: 20m}
  - id: exec
    description: A tool request has its own approval.
    match: {tool_name: tool-exec, environment: "*"}
    outcome: ALLOW
defaults: {outcome: DENY}
`
}

// toolDraft is a ThreeGate draft that breaks no rule.
const toolDraft = `---
request_type: tool_request
schema_version: 1
request_id: "TR-20260601-120000Z-census"
created_utc: "2026-06-01T12:00:00Z"
requested_by: "core_draft"
approved_by: ""
approved_utc: ""
purpose: "Count the households of each district."
language: "python"
network: "none"
network_allowlist: []
cpu_limit: "1"
memory_limit_mb: 128
time_limit_sec: 20
inputs:
  - name: "census.csv"
    sha256: "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
  - name: "count.py"
    sha256: "fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9"
outputs_expected:
  - path: "districts.csv"
    description: "One row for each district."
constraints:
  - "No network"
---

## Command

python /in/count.py --in /in/census.csv --out /out/districts.csv

## Input Files

- /in/census.csv sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
- /in/count.py sha256: fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9

## Output Expectations

- /out/districts.csv

## Risk Assessment

- Risk level: low
- Justification: It counts rows.
- Data sensitivity: internal
- Network rationale: none
`

// startWith starts a dev whose directory has these files already.
func startWith(t *testing.T, files map[string]string) *dev {
	t.Helper()
	dir := devDir(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return startDev(t, func(o *devOptions) { o.dir = dir })
}

// securityResult is Agent-SPM's SecurityCheckResult, and the approval.
type securityResult struct {
	Allowed  bool
	Decision struct {
		Outcome      string
		Reasons      []reason
		ApproverRole string         `json:"approver_role"`
		Constraints  map[string]any `json:"constraints"`
	}
	Event    auditEvent
	Approval *approval
}

func params(tool string, args map[string]any) map[string]any {
	return map[string]any{"toolName": tool, "toolArgs": args, "agentId": "demo-agent"}
}

// TestDialects takes a call of each of the other systems through the running
// program, from its door to the audit log.
func TestDialects(t *testing.T) {
	ownPrograms(t)
	d := startWith(t, map[string]string{
		"policy.yaml": testPolicy("1", "ALLOW"),
		"contracts.yaml": `tool_contracts:
  read_mail: {allowed_request_tags: [personal.pii], allowed_response_fields: [subject]}
  pay: {allowed_request_tags: [personal.financial, personal.pii.email], allowed_response_fields: [status]}
  search_docs: {allowed_request_tags: [public], allowed_response_fields: [results]}
  tool-exec: {allowed_request_tags: [], allowed_response_fields: []}
  read_files__read: {allowed_request_tags: [public], allowed_response_fields: [content]}
  read_files__pay: {allowed_request_tags: [public], allowed_response_fields: [receipt]}
`,
	})
	agent, admin := d.agent(t), d.admin(t)
	check := func(t *testing.T, body any, status int) securityResult {
		t.Helper()
		var r securityResult
		agent.do("POST", "/v1/tool-calls/check", body).want(t, status).into(t, &r)
		return r
	}

	t.Run("Agent-SPM, at once", func(t *testing.T) {
		r := check(t, params("read_mail", map[string]any{"folder": "in"}), http.StatusOK)
		if !r.Allowed || r.Decision.Outcome != "ALLOW" || r.Decision.Reasons[0].Code != "reads" || r.Decision.Constraints["max_rows"] != 10.0 ||
			r.Event.Outcome != "ALLOW" || r.Event.ToolName != "read_mail" || r.Event.ID == "" || r.Event.Timestamp.IsZero() || r.Approval != nil {
			t.Errorf("got %+v", r)
		}
		if strings.Contains(string(r.Event.Safe), `"in"`) {
			t.Errorf("the event holds an argument: %s", r.Event.Safe)
		}
		if r = check(t, params("pay", map[string]any{"amount": 5}), http.StatusOK); r.Allowed || r.Decision.Outcome != "DENY" || r.Decision.Reasons[0].Code != "DEFAULT_DENY" {
			t.Errorf("got %+v", r)
		}
		logged := admin.events(url.Values{"tool_name": {"read_mail"}})
		if len(logged) != 1 || logged[0].Outcome != "ALLOW" {
			t.Errorf("in the log: %+v", logged)
		}
	})

	t.Run("Agent-SPM, waiting", func(t *testing.T) {
		args := map[string]any{"amount": 250, "to": "mara@example.org"}
		r := check(t, params("pay", args), http.StatusAccepted)
		a := r.Approval
		if r.Allowed || r.Decision.Outcome != "REQUIRE_APPROVAL" || r.Decision.ApproverRole != "finance-approver" || a == nil || a.Requirements[0].Needed != 2 || a.Requirements[0].Role != "finance-approver" {
			t.Fatalf("got %+v", r)
		}
		for i := range 2 {
			d.reviewer(t, i).approve(*a)
		}
		done := agent.wait(a.ID)
		if done.Status != "approved" {
			t.Fatalf("got %+v", done)
		}
		var redeemed struct{ Constraints map[string]any }
		agent.redeem(done.Token, "pay", args).want(t, http.StatusOK).into(t, &redeemed)
		if redeemed.Constraints["currency"] != "EUR" {
			t.Errorf("constraints %v", redeemed.Constraints)
		}
		if claims := verifyToken(t, d.URL, done.Token); claims["constraints"].(map[string]any)["currency"] != "EUR" {
			t.Errorf("claims %v", claims)
		}
		if got, want := admin.story(a.ID), []string{"decision REQUIRE_APPROVAL pay", "vote REQUIRE_APPROVAL VOTE_APPROVE", "vote REQUIRE_APPROVAL VOTE_APPROVE", "settled APPROVED APPROVED", "redeem ALLOW REDEEMED"}; !slices.Equal(got, want) {
			t.Errorf("story %q", got)
		}
	})

	t.Run("Agent-SPM, what is no request", func(t *testing.T) {
		for _, body := range []string{`{}`, `{"toolName":"x","toolArgs":[],"agentId":"a"}`, `{"toolName":"x","toolArgs":{},"agentId":"a","extra":1}`} {
			agent.do("POST", "/v1/tool-calls/check", []byte(body), header{"Content-Type", "application/json"}).want(t, http.StatusUnprocessableEntity, "invalid_body")
		}
		agent.do("POST", "/v1/tool-calls/check", []byte(`{"toolName":"a","toolName":"b"}`), header{"Content-Type", "application/json"}).want(t, http.StatusBadRequest, "malformed_json")
	})

	t.Run("the same key, the same answer", func(t *testing.T) {
		key := header{"Idempotency-Key", newID("k_")}
		first := agent.do("POST", "/v1/tool-calls/check", params("pay", map[string]any{"amount": 300}), key).want(t, http.StatusAccepted)
		again := agent.do("POST", "/v1/tool-calls/check", params("pay", map[string]any{"amount": 300}), key).want(t, http.StatusAccepted)
		if string(first.Body) != string(again.Body) || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s\n%s", first, again)
		}
		agent.do("POST", "/v1/tool-calls/check", params("pay", map[string]any{"amount": 301}), key).want(t, http.StatusUnprocessableEntity, "idempotency_key_reused")
	})

	t.Run("tool contracts", func(t *testing.T) {
		ask := func(method string, body map[string]any) map[string]any {
			t.Helper()
			var out map[string]any
			agent.do("POST", "/v1/tool-contracts/"+method, body).want(t, http.StatusOK).into(t, &out)
			return out
		}
		if got := ask("validate-request", map[string]any{"tool_name": "read_mail", "data_tags": []string{"personal.financial"}}); got["allowed"] != false || got["reason"] != "Tag 'personal.financial' not in allowed_request_tags for read_mail" {
			t.Errorf("got %v", got)
		}
		if got := ask("validate-request", map[string]any{"tool_name": "read_mail"}); got["allowed"] != true {
			t.Errorf("got %v", got)
		}
		got := ask("intercept-request", map[string]any{"tool_name": "read_mail", "payload": map[string]any{"q": "from jo@example.org, card 4111 1111 1111 1111"}, "data_tags": []string{}})
		if q := got["payload"].(map[string]any)["q"].(string); got["action"] != "allow" || !strings.Contains(q, "jo@example.org") || !strings.Contains(q, "[REDACTED:personal.financial.card]") {
			t.Errorf("got %v", got)
		}
		if got := ask("intercept-response", map[string]any{"tool_name": "read_mail", "response": map[string]any{"subject": "s", "body": "b"}}); len(got["safe_response"].(map[string]any)) != 1 {
			t.Errorf("got %v", got)
		}
		// What is asked about is on record, without a value of it.
		var last auditEvent
		eventually(t, settleWithin, "the questions are in the log", func() bool {
			logged := admin.events(url.Values{"tool_name": {"read_mail"}})
			last = logged[len(logged)-1]
			return last.Type == "contract"
		})
		if strings.Contains(string(last.Safe), "jo@") {
			t.Errorf("got %+v %s", last, last.Safe)
		}
		// And the contracts judge calls of every dialect.
		if r := check(t, params("read_secret", none()), http.StatusOK); r.Allowed || r.Decision.Reasons[0].Code != "tool_contract_violation" {
			t.Errorf("an undeclared tool: %+v", r)
		}
		var envelope struct {
			Route    string   `json:"recommended_action"`
			Blockers []string `json:"hard_blockers"`
		}
		agent.propose(event("search_docs", "accept", map[string]any{"q": "who is jo@example.org"})).want(t, http.StatusOK).into(t, &envelope)
		if envelope.Route != "refuse" || !slices.Contains(envelope.Blockers, "tool_contract_violation") {
			t.Errorf("an event with an address for a public search: %+v", envelope)
		}
		agent.propose(event("search_docs", "accept", map[string]any{"q": "tides"})).want(t, http.StatusOK).into(t, &envelope)
		if envelope.Route != "accept" {
			t.Errorf("a harmless event: %+v", envelope)
		}
	})

	t.Run("tool contracts, of what an MCP server answers", func(t *testing.T) {
		g := newGateway(t, d, "unused-")
		g.name, g.flags = "read_files", []string{"--filter-results", "--server-keeps-constraints"} // reads have constraints
		g.register("read", "pay")
		host := g.start(0)
		for tool, says := range map[string]string{"read": "done", "pay": "The tool has answered. Nothing of its answer is for the agent, by the tool's contract."} {
			var text string
			eventually(t, settleWithin, "the tool is known", func() (isError bool) { text, isError = host.says(t, tool, none()); return !isError })
			if strings.TrimSpace(text) != says {
				t.Errorf("%s is answered with %q, want %q", tool, text, says)
			}
			g.wantRuns(1, tool, none())
		}
	})

	t.Run("tool requests", func(t *testing.T) {
		post := func(text string, headers ...header) answer {
			return agent.do("POST", "/v1/tool-requests", []byte(text), append([]header{{"Content-Type", "text/markdown; charset=utf-8"}}, headers...)...)
		}
		var problem struct {
			Violations []struct {
				Rule, Message string
				Line          int
			}
		}
		post(strings.Replace(toolDraft, "python /in", "python /in/x.py; rm /in", 1)).want(t, http.StatusUnprocessableEntity, "invalid_tool_request").into(t, &problem)
		if len(problem.Violations) == 0 || problem.Violations[0].Rule == "" || problem.Violations[0].Line == 0 {
			t.Errorf("got %+v", problem)
		}
		agent.do("POST", "/v1/tool-requests", []byte(toolDraft), header{"Content-Type", "application/json"}).want(t, http.StatusUnsupportedMediaType)
		var asked struct {
			RequestID string `json:"request_id"`
			Digest    string
			Approval  approval
		}
		post(toolDraft).want(t, http.StatusAccepted).into(t, &asked)
		sum := sha256.Sum256([]byte(toolDraft))
		if asked.RequestID != "TR-20260601-120000Z-census" || asked.Digest != "sha256:"+hex.EncodeToString(sum[:]) || asked.Approval.Requirements[0].Kind != "human" {
			t.Fatalf("got %+v", asked)
		}
		reviewer := d.reviewer(t, 0)
		reviewer.approve(asked.Approval)
		done := agent.do("GET", approvalPath(asked.Approval.ID)+"?wait=20", nil)
		var promoted struct {
			approval
			Document string
		}
		eventually(t, settleWithin, "the request is approved", func() bool {
			done = agent.do("GET", approvalPath(asked.Approval.ID)+"?wait=5", nil)
			done.into(t, &promoted)
			return promoted.Status == "approved"
		})
		if !strings.Contains(promoted.Document, d.Reviewers[0].Email) || promoted.Token == "" {
			t.Fatalf("got %s", done)
		}
		post(promoted.Document).want(t, http.StatusUnprocessableEntity, "invalid_tool_request")
		post(promoted.Document, header{"Holdpoint-Token", promoted.Token}).want(t, http.StatusOK)
		post(strings.Replace(promoted.Document, "count.py --in", "count.py -q --in", 1), header{"Holdpoint-Token", promoted.Token}).want(t, http.StatusForbidden, "arguments_mismatch")
		agent.redeem(promoted.Token, "tool-exec", map[string]any{"document": toolDraft}).want(t, http.StatusForbidden, "arguments_mismatch")
		agent.redeem(promoted.Token, "tool-exec", map[string]any{"document": promoted.Document}).want(t, http.StatusOK)
		// Whoever reads along sees no document and no token.
		if seen := reviewer.do("GET", approvalPath(asked.Approval.ID), nil); strings.Contains(string(seen.Body), "resumption_token") || strings.Contains(string(seen.Body), "count.py") {
			t.Errorf("a reviewer reads %s", seen)
		}
	})

	t.Run("a new policy, and a bad one", func(t *testing.T) {
		type inForce struct {
			PolicyVersion string `json:"policy_version"`
			Problem       string
		}
		rules := func() (r inForce) {
			admin.do("GET", "/v1/admin/rules", nil).want(t, http.StatusOK).into(t, &r)
			return r
		}
		file := filepath.Join(d.dir, "policy.yaml")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write(testPolicy("2", "DENY"))
		eventually(t, settleWithin, "version 2 is in force", func() bool { return rules().PolicyVersion == "2" })
		if r := check(t, params("read_mail", none()), http.StatusOK); r.Allowed || r.Decision.Reasons[0].Code != "reads" {
			t.Errorf("by version 2: %+v", r)
		}
		write(testPolicy("3", "PERHAPS"))
		eventually(t, settleWithin, "the mistake is told", func() bool { return strings.Contains(rules().Problem, "policy.yaml:12") })
		if r := check(t, params("read_mail", none()), http.StatusOK); r.Allowed {
			t.Errorf("by a bad policy: %+v", r)
		}
		write(testPolicy("4", "ALLOW"))
		eventually(t, settleWithin, "version 4 is in force", func() bool { return rules().PolicyVersion == "4" && rules().Problem == "" })
	})
}

func none() map[string]any { return map[string]any{} }

// TestAdministration registers, limits and revokes over HTTP and by command.
func TestAdministration(t *testing.T) {
	ownPrograms(t)
	d := startWith(t, map[string]string{"policy.yaml": testPolicy("1", "ALLOW")})
	agent, admin := d.agent(t), d.admin(t)
	agent.do("GET", "/v1/admin/agents", nil).want(t, http.StatusForbidden, "scope_missing")
	var agents struct {
		Agents []map[string]any
	}
	admin.do("GET", "/v1/admin/agents", nil).want(t, http.StatusOK).into(t, &agents)
	if len(agents.Agents) != 1 || agents.Agents[0]["agent_id"] != "demo-agent" || agents.Agents[0]["trust_level"] != "basic" {
		t.Fatalf("got %v", agents)
	}
	limited := map[string]any{
		"agent_id": "demo-agent", "name": "Demo agent", "owner": d.Owner.Email, "trust_level": "verified", "roles": []string{"mail"}, "capabilities": []string{},
		"needs_attestation": false, "limits": map[string]any{"agent": map[string]any{"calls": 2, "per": "1m"}, "tool": map[string]any{"calls": 0}, "session": map[string]any{"calls": 0}},
	}
	key := header{"Idempotency-Key", newID("k_")}
	first := admin.do("POST", "/v1/admin/agents", limited, key).want(t, http.StatusOK)
	if again := admin.do("POST", "/v1/admin/agents", limited, key).want(t, http.StatusOK); string(first.Body) != string(again.Body) {
		t.Errorf("%s\n%s", first, again)
	}
	with := func(edits map[string]any) map[string]any {
		body := maps.Clone(limited)
		for name, value := range edits {
			if body[name] = value; value == nil {
				delete(body, name)
			}
		}
		return body
	}
	for _, tc := range []struct {
		body any
		code string
	}{
		{with(map[string]any{"trust_level": nil, "Trust_Level": "system"}), "invalid_body"},
		{with(map[string]any{"trust_level": nil}), "invalid_body"},
		{with(map[string]any{"trust_level": "root"}), "invalid_body"},
		{with(map[string]any{"limits": map[string]any{"agents": map[string]any{}}}), "invalid_body"},
		{with(map[string]any{"max_delegation_depth": -1}), "invalid_body"},
		{with(map[string]any{"owner": "no@one.example"}), "by_command"},
		{[]any{}, "invalid_body"},
	} {
		admin.do("POST", "/v1/admin/agents", tc.body).want(t, http.StatusUnprocessableEntity, tc.code)
	}
	// Nothing is released, restored or dropped because something was left out.
	for _, path := range []string{"kill-switches", "agents/revoke", "tools/revoke", "settings", "tools"} {
		admin.do("POST", "/v1/admin/"+path, none()).want(t, http.StatusUnprocessableEntity, "invalid_body")
	}
	admin.do("POST", "/v1/admin/kill-switches", map[string]any{"on": false}).want(t, http.StatusUnprocessableEntity, "invalid_body")
	admin.do("POST", "/v1/admin/agents", with(map[string]any{"agent_id": "nobody", "name": nil, "owner": nil})).want(t, http.StatusNotFound, "not_found")
	if made := must(t, nil, "", "agent", "set", "second", "--data", d.dir, "--owner", d.Owner.Email); !strings.Contains(made, "key create --agent second") {
		t.Errorf("got %s", made)
	}
	for range 2 {
		agent.do("POST", "/v1/tool-calls/check", params("read_x", none())).want(t, http.StatusOK)
	}
	turned := agent.do("POST", "/v1/tool-calls/check", params("read_x", none())).want(t, http.StatusTooManyRequests, "RATE_LIMIT_AGENT")
	if turned.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	agent.propose(event("search_docs", "accept", nil)).want(t, http.StatusTooManyRequests, "RATE_LIMIT_AGENT")
	if limitedEvents := admin.events(url.Values{"outcome": {"RATE_LIMITED"}}); len(limitedEvents) != 2 {
		t.Errorf("%d events of limits", len(limitedEvents))
	}
	// The same by command.
	must(t, nil, "", "agent", "set", "demo-agent", "--data", d.dir, "--default-limits", "--trust", "privileged")
	if listed := must(t, nil, "", "agent", "list", "--data", d.dir); !strings.Contains(listed, "privileged") {
		t.Errorf("got %s", listed)
	}
	eventually(t, settleWithin, "the limits are gone", func() bool {
		return agent.do("POST", "/v1/tool-calls/check", params("read_x", none())).Status == http.StatusOK
	})
	must(t, nil, "", "tool", "set", "read_x", "--data", d.dir, "--provider", "mcp", "--no-verified")
	var denied securityResult
	eventually(t, settleWithin, "the tool is known", func() bool {
		agent.do("POST", "/v1/tool-calls/check", params("read_x", none())).want(t, http.StatusOK).into(t, &denied)
		return !denied.Allowed
	})
	if denied.Decision.Reasons[0].Code != "UNVERIFIED_MCP_TOOL" {
		t.Errorf("got %+v", denied.Decision)
	}
	must(t, nil, "", "agent", "revoke", "demo-agent", "--data", d.dir)
	eventually(t, settleWithin, "the agent is revoked", func() bool {
		agent.do("POST", "/v1/tool-calls/check", params("read_y", none())).want(t, http.StatusOK).into(t, &denied)
		return !denied.Allowed && denied.Decision.Reasons[0].Code == "AGENT_REVOKED"
	})
	must(t, nil, "", "agent", "restore", "demo-agent", "--data", d.dir)
	var settings map[string]any
	if err := json.Unmarshal([]byte(must(t, nil, "", "settings", "--data", d.dir, "--max-delegation", "1")), &settings); err != nil || settings["max_delegation_depth"] != 1.0 {
		t.Errorf("settings %v, %v", settings, err)
	}
	// Every act of administration is on record, with who did it.
	var acts []string
	for _, e := range admin.events(url.Values{}) {
		if e.Type == "admin" && e.Actor.Channel != "cli" && e.Actor.Channel != "engine" {
			acts = append(acts, e.Reasons[0].Code+" "+e.Actor.Channel)
		}
	}
	if !slices.Contains(acts, "AGENT_REGISTERED api") {
		t.Errorf("acts %v", acts)
	}
}
