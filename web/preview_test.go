package web

import (
	"flag"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/policy"
	"holdpoint/engine/registry"
	"holdpoint/internal/gate"
)

var previewAddr = flag.String("preview", "", "serve sample pages on this address (sign in as ada@example.com, password right)")

// TestPreview serves the console with sample data, for looking at it:
//
//	go test ./web -run TestPreview -timeout 0 -preview 127.0.0.1:8099
//
// /as?email=… signs in without a form.
func TestPreview(t *testing.T) {
	if *previewAddr == "" {
		return // nothing is tested here
	}
	m := newFakeGate()
	start := time.Now()
	m.now = time.Now
	shift := start.Sub(epoch)
	at := func(c *gate.Card, within time.Duration) {
		c.Approval.Plan.OpenedAt = c.Approval.Plan.OpenedAt.Add(shift)
		c.Approval.Plan.ExpiresAt = start.Add(within)
		c.Timeline[0].Timestamp = c.Approval.Plan.OpenedAt
	}
	m.add("apr_transfer", "payments.transfer", `{"amount":{"currency":"EUR","value":12500},"api_key":"sk-test-123","from":"DE89 3704 0044 0532 0130 00","memo":"Invoice 2026-1187\nSecond reminder, thanks","notify":["ap@example.com","treasury@example.com"],"to":{"iban":"GB33 BUKB 2020 1555 5555 55","name":"Acme Tooling Ltd"},"urgent":true}`, func(c *gate.Card) {
		at(c, 29*time.Minute)
		c.Document = document("The customer asked me to settle the open invoice today.", "User identity was authenticated for this account.")
		c.Approval.Facts = []approval.Fact{{
			Seq: 1, At: start.Add(-20 * time.Second), Kind: approval.Vote, Yes: true, Comment: "Matches the invoice.",
			Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_grace"}, Voter: approval.Voter{Identity: "grace", Roles: []string{"finance-approver"}, Active: true},
		}}
		c.Timeline = append(c.Timeline, engine.Event{Type: engine.Voted, Timestamp: start.Add(-20 * time.Second), Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_grace"}})
	})
	m.add("apr_deceive", "рayments.transfer", `{"cmd":"rm -rf /tmp/x\u001b[2K\rls","host":"xn--pple-43d.com","memo":"pay `+"\u202e"+`001 EUR`+"\u202c\u200b"+` now\n\n\n\n\n\n\nsecret line","note":"`+"\U000E0072\U000E006D"+`  שלום","to":"раураl.com <script>alert(1)</script>"}`, func(c *gate.Card) {
		at(c, 4*time.Minute)
		c.Document = document("Please approve quickly <b>now</b> [click](javascript:alert(1)) \u202eevil", "It is fine</script><script>alert(2)</script>")
	})
	m.add("apr_long", "db.migrate", `{"sql":"`+strings.Repeat(`ALTER TABLE accounts ADD COLUMN note text;\n`, 300)+`"}`, func(c *gate.Card) {
		at(c, 3*time.Hour)
		c.Long = true
	})
	m.add("apr_mail", "send_email", `{"to":"customer@example.com"}`, func(c *gate.Card) {
		at(c, 70*time.Hour)
		c.Approval.Call.RiskDomain = "customer_support"
		c.Approval.Plan.Requirements[0].Needed = 1
		c.Approval.Decision.Findings = c.Approval.Decision.Findings[:2]
	})
	m.add("apr_again", "issue_refund", `{"amount":"950.00","currency":"EUR","to":"Paper & Pens Ltd.","iban":"DE02120300000000202051"}`, func(c *gate.Card) {
		at(c, 50*time.Minute)
		c.Approval.Call.AgentID = "agt_support_emea_first_line_with_a_long_name"
		c.Same = &gate.SameCall{ID: "old_1", At: start.Add(-14 * time.Minute), Execution: approval.NotRun}
		c.Stakes.Same, c.FirstTime, c.Compared = c.Same, []string{"iban"}, 50
	})
	m.rules = &gate.RuleTrace{Version: "7", Default: engine.RequireApproval, Trace: policy.Trace{ByDefault: true, Steps: []policy.Step{{
		Rule: policy.Rule{ID: "refund-large", Description: "Refunds of more than 500 need two of finance.", Outcome: engine.RequireApproval}, Held: policy.HoldsNot,
		Conditions: []policy.TracedCondition{{Condition: policy.Condition{Held: true, Why: "The tool is meant."}}, {Condition: policy.Condition{NoNumber: true, Why: "The argument \"amount\" is a string, and only a number can be greater than 500."}}},
	}}}}
	ended := func(id, tool string, yes bool, e approval.Execution) {
		m.add(id, tool, `{"id":1}`, func(c *gate.Card) {
			at(c, time.Hour)
			c.Approval.Execution = e
			c.Approval.Plan.Requirements[0].Needed = 1
			c.Approval.Facts = []approval.Fact{{
				Seq: 1, At: start.Add(-10 * time.Second), Kind: approval.Vote, Yes: yes, Denial: approval.WrongArgs, Comment: "See the ticket.",
				Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_ada"}, Voter: approval.Voter{Identity: "ada", Roles: []string{"finance-approver"}, Active: true},
			}}
			c.Timeline = append(c.Timeline, engine.Event{Type: engine.Voted, Timestamp: start.Add(-10 * time.Second), Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_ada"}})
		})
	}
	ended("old_1", "refunds.create", true, approval.Succeeded)
	ended("old_2", "accounts.close", false, approval.NotRun)
	ended("old_3", "payments.transfer", true, approval.Redeemed)
	m.add("old_4", "reports.publish_quarterly_results", `{}`, func(c *gate.Card) { at(c, -time.Second) })
	m.add("old_5", "vendor.update", `{}`, func(c *gate.Card) {
		at(c, time.Hour)
		c.Approval.Facts = []approval.Fact{{Seq: 1, At: start, Kind: approval.Cancel, Actor: engine.Actor{Kind: engine.ServiceActor}}}
	})
	run := m.addToolRequest("apr_run", sampleDraft)
	run.Approval.Plan.OpenedAt = epoch.Add(-time.Minute)
	at(run, 90*time.Minute)
	pay := m.addAction("apr_pay", sampleAction)
	at(pay, 40*time.Minute)
	for _, c := range []*gate.Card{run, pay} {
		c.Approval.Status, c.Approval.EndedAt, c.Timeline = approval.Pending, time.Time{}, c.Timeline[:1]
		m.advance(c)
	}
	previewWaits(m, start, at)
	previewRegistry(t, m.registry, start)
	standing := &granting{m: m}
	standing.sample(start)
	ada := m.people["ada@example.com"]
	ada.VerifiedAt, ada.VerifiedBy = start, "totp" // for five minutes
	m.people[ada.Email] = ada
	l := newFakeLog(t, m)
	previewLog(t, l)
	c, err := New(Config{Log: l, LogKeys: []string{l.key.Public}, Inbox: m, History: m, Cards: m, Votes: m, Contributions: m, Requirements: m, Edits: m, CallSessions: m, Outcomes: m, Changes: m, Agents: m.registry, Tools: m.registry, Settings: m.registry, Reports: sampleReports(), Grants: standing, InForce: m.registry.inForce, SignIn: m, Sessions: m, Names: m, Prover: m})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	c.Register(mux)
	mux.HandleFunc("/", c.NotFound)
	mux.HandleFunc("GET /v1/audit/events/{id}/proof", l.proof)
	mux.HandleFunc("GET /as", func(w http.ResponseWriter, r *http.Request) {
		s, _ := c.site.sessions.Get(r, c.site.sessions.name())
		s.Values[personKey{}] = m.people[r.URL.Query().Get("email")]
		if err := s.Save(r, w); err != nil {
			t.Error(err)
		}
		http.Redirect(w, r, localPath(r.URL.Query().Get("next")), http.StatusSeeOther)
	})
	server := &http.Server{Addr: *previewAddr, Handler: Guard(mux, GuardConfig{}), ReadHeaderTimeout: 5 * time.Second}
	t.Log(server.ListenAndServe())
}

// previewRegistry fills a registry with what a company might have registered.
func previewRegistry(t *testing.T, o *fakeRegistry, now time.Time) {
	contracts := sampleContracts
	example := strings.Replace(samplePolicy, "2026-12-20T00:00:00Z", now.Add(9*24*time.Hour).UTC().Format(time.RFC3339), 1)
	o.enforce(t, strings.Replace(example, "2026-01-01T00:00:00Z", now.Add(-time.Hour).UTC().Format(time.RFC3339), 1), contracts)
	o.in.Problem = "policy.yaml:12:7: rule \"big-payment\": approval.groups ask for 27 people, at most 20 are allowed"
	revoked := now.Add(-72 * time.Hour)
	two := 2
	for _, a := range []registry.Agent{
		{ID: "agt_treasury", Name: "Treasury", Owner: "cfo@example.com", Type: "workflow_agent", Trust: engine.Privileged, Roles: []string{"treasurer", "payments"}, MaxDelegation: &two, Limits: &registry.Limits{Agent: registry.Rate{Calls: 60, Per: engine.Duration(time.Minute)}, Tool: registry.Rate{Calls: 10, Per: engine.Duration(time.Minute)}, Session: registry.Rate{Calls: 200, Per: engine.Duration(8 * time.Hour)}}},
		{ID: "agt_support_emea_first_line_with_a_long_name", Name: "Support, first line", Owner: "support.operations@example.com", Type: "chat_agent", Trust: engine.Verified, Roles: []string{"support"}, Capabilities: []string{"mail", "tickets"}, NeedsAttestation: true},
		{ID: "agt_old", Name: "Old crawler", Trust: engine.Untrusted, RevokedAt: &revoked},
	} {
		o.known.Agents[a.ID] = a
	}
	o.known.Settings.Limits.Agent = registry.Rate{Calls: 120, Per: engine.Duration(time.Minute)}
	o.known.Settings.Issuers = map[string]registry.Key{"idp.example.com": make([]byte, 32)}
	o.known.Kills["agt_support_emea_first_line_with_a_long_name"] = registry.Kill{AgentID: "agt_support_emea_first_line_with_a_long_name", Reason: "answers the same ticket again and again", By: "usr_olga", At: now.Add(-11 * time.Minute)}
	for _, tool := range []registry.Tool{
		{Name: "payments.transfer", Version: "4.2.0", Provider: "built-in", Verified: true, MinTrust: engine.Verified, ManifestHash: strings.Repeat("ab", 32), NeedsManifest: true},
		{Name: "mcp/filesystem.read_file", Provider: "mcp"},
		{Name: "legacy.ftp_upload", Provider: "custom", RevokedAt: &revoked},
	} {
		o.known.Tools[tool.Name] = tool
	}
}

// previewLog has the same day over and over, an event that is gone, and one that
// was changed.
func previewLog(t *testing.T, l *fakeLog) {
	for range 9 {
		l.sample(t)
	}
	l.notes[len(l.notes)-1].Cosignatures = []string{"\u2014 witness.example.org AAAA\n", "\u2014 transparency.example.net AAAA\n"}
	l.records[70] = audit.Record{Leaf: 70, At: l.records[70].At}
	l.records[104].Outcome = "DENY"
}
