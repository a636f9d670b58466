package web

import (
	"encoding/json"
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/dialect/threegate"
	"holdpoint/internal/gate"
)

const sampleHash = "1c6d4b4f0f1f0cd03b4b7f1ad4a7b3f0a8f0d0d1a2b3c4d5e6f708192a3b4c5d"

const sampleDraft = `---
request_type: tool_request
schema_version: 1
request_id: "TR-20260503-081500Z-water"
created_utc: "2026-05-03T08:15:00Z"
requested_by: "core_draft"
purpose: "Fetch the water levels of today and average them for each station."
language: "python"
network: "allowlist"
network_allowlist: ["levels.example.org"]
cpu_limit: "0.5"
memory_limit_mb: 2048
time_limit_sec: 90
inputs:
  - name: "code/average.py"
    sha256: "` + sampleHash + `"
outputs_expected:
  - path: "averages.csv"
    description: "One row for each station."
constraints:
  - "Read nothing but the station list"
---

## Command

python -u /in/code/average.py --out /out/averages.csv

## Input Files

- /in/code/average.py sha256: ` + sampleHash + `

## Output Expectations

- /out/averages.csv

## Risk Assessment

- Risk level: medium
- Justification: It reads one public host and **changes nothing**.
- Data sensitivity: internal
- Network rationale: The levels are published there.
`

// addToolRequest adds the approval of a tool request.
func (m *fakeGate) addToolRequest(id, draft string) *gate.Card {
	arguments := string(threegate.Arguments([]byte(draft)).Canonical())
	return m.add(id, threegate.ToolName, arguments, func(c *gate.Card) {
		c.Document = []byte(arguments)
		c.Approval.Call.Dialect, c.Approval.Call.RiskDomain, c.Approval.Call.Category = gate.DialectThreeGate, "", "tool_exec"
		c.Approval.Decision.Findings = []engine.Finding{
			{Source: "tool_request", Code: "human_approval_required", Message: "A tool execution request runs only once a person has approved it.", Route: engine.Defer},
			{Source: "policy", Code: "network-needs-security", Message: "What reaches the network needs security as well.", Route: engine.Defer},
		}
		c.Approval.Plan.OpenedAt = time.Date(2026, 5, 3, 9, 0, 0, 0, time.UTC)
		after := []engine.Escalation{{After: engine.Duration(15 * time.Minute), Role: "manager"}}
		c.Approval.Plan.Requirements = []engine.Requirement{
			{Kind: engine.Human, Role: "finance-approver", Needed: 2, Escalation: after}, {Kind: engine.Human, Role: "security-approver", Needed: 1},
		}
		c.Eligible = 3
	})
}

// addAction adds the approval of an Agent-SPM call.
func (m *fakeGate) addAction(id, document string) *gate.Card {
	return m.add(id, "payments.transfer", `{"amount":2500,"currency":"EUR","to":"DE02 1203 0000"}`, func(c *gate.Card) {
		c.Document = []byte(document)
		c.Approval.Call.Dialect, c.Approval.Call.RiskDomain, c.Approval.Call.Category = gate.DialectSPM, "", "tool_call"
		c.Approval.Decision.Findings = []engine.Finding{
			{Source: "policy", Code: "big-payment", Message: "Large payments need finance and security.", Route: engine.Defer},
			{Source: "tool_contract", Code: "tag_not_allowed", Message: "The contract does not allow personal.finance here.", Route: engine.Ask},
		}
	})
}

const sampleAction = `{"toolName":"payments.transfer","toolArgs":{"amount":2500},"agentId":"agt_treasury","owner":"cfo@example.com",
	"trustLevel":"system","roles":["treasurer","admin"],"userInput":"Pay the invoice <b>now</b>\u202e","dataLabels":["personal.finance"],
	"riskHints":["none at all"],"delegationChain":["planner","treasury"],"parentAgentId":"planner","toolIdentity":{"tool_name":"payments.transfer","provider":"mcp"}}`

func TestToolRequestPage(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	card := c.m.addToolRequest("apr_run", sampleDraft)
	page := c.get("/approvals/apr_run")
	page.want(t, http.StatusOK, `data-testid="tool-request"`, "<code>python -u /in/code/average.py --out /out/averages.csv</code>", "levels.example.org",
		"SHA-256 "+sampleHash, "/out/averages.csv", "2,048 MB", "1m30s", "risk-medium", "Read nothing but the station list",
		"**changes nothing**", "policy rule network-needs-security", "tool_request/human_approval_required")
	text := strip(page.body)
	for _, want := range []string{
		"2 of finance-approver and 1 of security-approver; after 15m also manager", "Needs 2 more people with the role finance-approver or manager.", "drafted by a machine",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q:\n%s", want, text)
		}
	}
	// Line by line it is the document, byte for byte, and so are the arguments.
	if got, want := preformatted(t, page.body, "document"), sampleDraft; got != want {
		t.Errorf("the document is shown as %q, want %q", got, want)
	}
	var args struct{ Document string }
	if err := json.Unmarshal([]byte(strings.NewReplacer("\n  ", "", "\n", "").Replace(preformatted(t, page.body, "args"))), &args); err != nil || args.Document != sampleDraft {
		t.Errorf("the arguments are shown as %q (%v)", args.Document, err)
	}
	card.Arguments = nil
	if body := c.get("/approvals/apr_run").body; strings.Contains(body, `data-testid="tool-request"`) {
		t.Error("an erased document is shown")
	}
	// What the rules of today do not take is still shown line by line.
	c.m.addToolRequest("apr_odd", "---\nrequest_type: other\n---\nhid\u200bden\r\n").Approval.State.Stage = 0
	c.get("/approvals/apr_odd").want(t, http.StatusOK, "cannot be read field by field", "ZERO WIDTH SPACE", "CARRIAGE RETURN")
	// What is long is shown in part, until it is asked for.
	c.m.addToolRequest("apr_long", sampleDraft+strings.Repeat("\nmore", 3000)).Long = true
	part := c.get("/approvals/apr_long")
	part.want(t, http.StatusOK, "Not all of it is shown.")
	if n := strings.Count(preformatted(t, part.body, "document"), "\n"); n > previewLines {
		t.Errorf("%d lines are shown", n)
	}
}

// preformatted is the text of a code block.
func preformatted(t *testing.T, body, testid string) string {
	t.Helper()
	_, rest, found := strings.Cut(body, `data-testid="`+testid+`">`)
	block, _, _ := strings.Cut(rest, "</pre>")
	if !found {
		t.Fatalf("no %s in:\n%s", testid, body)
	}
	return html.UnescapeString(tags.ReplaceAllString(block, ""))
}

func TestActionClaims(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.addAction("apr_pay", sampleAction)
	page := c.get("/approvals/apr_pay")
	page.want(t, http.StatusOK, "Untrusted: written by the agent", "&lt;b&gt;now&lt;/b&gt;", "RIGHT-TO-LEFT OVERRIDE", "planner → treasury",
		"treasurer, admin", "none at all", "policy rule big-payment", "tool_contract/tag_not_allowed")
	if at, args := strings.Index(page.body, "What the agent says"), strings.Index(page.body, "Exact arguments"); at < args {
		t.Error("the agent's words stand before the arguments")
	}
	whole := `{"request_id":"r","timestamp":"t","agent":{"agent_id":"a","name":"Shiny","owner":"o","environment":"prod","attestation":{"issuer":"idp"}},
		"action":{"type":"tool_call","tool_name":"payments.transfer","tool_args":{},"tool_identity":{"provider":"mcp","version":"3"}},
		"context":{"user_input":"please","data_labels":["x","y"],"delegation_chain":[]}}`
	v := agentStatements(gate.DialectSPM, []byte(whole))
	values := map[string]string{}
	for _, f := range v.Facts {
		values[f.Name] = f.Value
	}
	if v.Intent != "please" || values["Calls itself"] != "Shiny" || values["The tool's provider"] != "mcp" || values["Data labels"] != "x, y" || values["Attested by"] != "idp" || values["Delegation chain"] != "" {
		t.Errorf("claims: %+v", v)
	}
	v = agentStatements(gate.DialectAuthZEN, []byte(`{"subject":{"type":"user","id":"alice","properties":{}},"action":{"name":"pay"},"context":{"time":"now"}}`))
	if len(v.Facts) != 3 || v.Facts[0].Value != "alice" || v.Facts[1].Value != "user" || v.Facts[2].Value != `{"time":"now"}` {
		t.Errorf("of an AuthZEN request: %+v", v)
	}
	if v := agentStatements(gate.DialectSPM, []byte(`[]`)); !v.Unread {
		t.Error("what cannot be read is not said to be unreadable")
	}
}

// TestNotForReviewers: what no reviewer can give is said to be so.
func TestNotForReviewers(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_ticket", "db.migrate", `{}`, func(card *gate.Card) {
		card.Approval.Plan.Requirements = []engine.Requirement{{Kind: engine.Ticket, Needed: 1}, {Kind: engine.Review, Role: "finance-approver", Needed: 1}}
	})
	c.get("/approvals/apr_ticket").want(t, http.StatusOK, "Waits for a ticket that covers the call.", "This call needs a ticket", "a ticket, then 1 of finance-approver")
	c.get("/approvals/apr_ticket").lacks(t, "No ticket system")
	c.m.cards["apr_ticket"].Trackers = nil
	c.get("/approvals/apr_ticket").want(t, http.StatusOK, "No ticket system is configured here")
	c.get("/approvals/apr_ticket").lacks(t, `data-testid="ticket-ref"`)
	c.m.add("apr_step", "db.migrate", `{}`, func(card *gate.Card) {
		card.Approval.Plan.Requirements = []engine.Requirement{{Kind: engine.StepUp, Role: "ops", Needed: 1}}
	})
	c.get("/approvals/apr_step").want(t, http.StatusOK, "Waits for whoever answers for the call to prove who they are.", "No reviewer decides this step")
}

// TestEscalated: who may decide by now is said, and who will.
func TestEscalated(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_1", "db.migrate", `{}`, func(card *gate.Card) {
		card.Approval.Plan.OpenedAt = epoch.Add(-20 * time.Minute)
		card.Approval.Plan.Requirements[0].Escalation = []engine.Escalation{
			{After: engine.Duration(15 * time.Minute), Role: "manager"}, {After: engine.Duration(time.Hour), Role: "director"},
		}
	})
	c.get("/approvals/apr_1").want(t, http.StatusOK, "by now also manager, after 1h also director", "with the role finance-approver or manager")
}

func TestApprovedToolRequest(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	card := c.m.addToolRequest("apr_run", sampleDraft)
	card.Approval.Plan.Requirements = card.Approval.Plan.Requirements[:1]
	card.Approval.Plan.Requirements[0].Needed = 1
	c.do("POST", "/approvals/apr_run/votes", ballotFor(card, "approve")).want(t, http.StatusSeeOther)
	if card.Approval.Status != approval.Approved {
		t.Fatalf("status %s", card.Approval.Status)
	}
	c.get("/approvals/apr_run").want(t, http.StatusOK, "Approved by Ada Lovelace")
}
