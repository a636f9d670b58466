package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/calendar"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/policy"
	"holdpoint/engine/redact"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

const bundleText = `
version: "1"
generated_at: 2026-01-01T00:00:00Z
expires_at: 2099-01-01T00:00:00Z
rules:
  - {id: reads, description: Reading is fine., match: {tool_name: "read_*", environment: "*"}, outcome: ALLOW, constraints: {max_rows: 5}}
  - {id: pay, description: Payments need finance., match: {tool_name: pay, environment: "*"}, outcome: REQUIRE_APPROVAL, approver_role: reviewer,
     constraints: {once: true}, approval: {quorum: 2, expires_in: 30m, escalation: [{after: 10m, role: other}]}}
  - {id: groups, description: Two groups., match: {tool_name: deploy, environment: "*"}, outcome: REQUIRE_HUMAN,
     approval: {groups: [{role: reviewer, needed: 1}, {role: other, needed: 1}]}}
  - {id: ticket, description: A ticket., match: {tool_name: change, environment: "*"}, outcome: REQUIRE_TICKET}
  - {id: step, description: Prove it., match: {tool_name: reset, environment: "*"}, outcome: STEP_UP}
  - {id: trusted, description: Only the trusted., match: {tool_name: admin, environment: "*", trust_level_min: privileged}, outcome: ALLOW}
  - {id: prod-no, description: Not in production., match: {tool_name: env_tool, environment: prod}, outcome: DENY}
  - {id: env-ok, description: Elsewhere., match: {tool_name: env_tool, environment: "*"}, outcome: ALLOW}
defaults: {outcome: DENY}
`

func bundle(t testing.TB, text string) *policy.Bundle {
	t.Helper()
	b, problems := policy.Load([]byte(text), policy.Options{File: "policy.yaml", Now: time.Now()})
	if policy.HasErrors(problems) {
		t.Fatal(problems)
	}
	return b
}

// newPolicyHarness is a harness that judges by bundleText.
func newPolicyHarness(t testing.TB) *harness {
	h := newHarness(t, routing(time.Hour, 1))
	h.rules.Policy = bundle(t, bundleText)
	h.judgeBy(h.rules)
	return h
}

func (h *harness) check(doc string) gate.CheckedAction {
	h.t.Helper()
	checked, wrong, err := h.CheckToolCall(context.Background(), h.agent, parse(h.t, doc), gate.Request{ID: "req", Separate: true}, nil)
	if err != nil || len(wrong) > 0 {
		h.t.Fatalf("%s: %v %v", doc, wrong, err)
	}
	return checked
}

func params(tool, more string) string {
	return fmt.Sprintf(`{"toolName":%q,"toolArgs":%s,"agentId":"anybody"%s}`, tool, args, more)
}

func reasons(list []engine.Reason) (codes []string) {
	for _, r := range list {
		codes = append(codes, r.Code)
	}
	return codes
}

func TestAgentSPMOutcomes(t *testing.T) {
	h := newPolicyHarness(t)
	for tool, want := range map[string]struct {
		outcome engine.Outcome
		reason  string
		kinds   []engine.Kind
	}{
		"read_mail": {engine.Allow, "reads", nil},
		"pay":       {engine.RequireApproval, "pay", []engine.Kind{engine.Review}},
		"deploy":    {engine.RequireHuman, "groups", []engine.Kind{engine.Human, engine.Human}},
		"change":    {engine.RequireTicket, "ticket", []engine.Kind{engine.Ticket}},
		"reset":     {engine.RequireStepUp, "step", []engine.Kind{engine.StepUp}},
		"unknown":   {engine.Deny, "DEFAULT_DENY", nil},
		"admin":     {engine.Deny, "DEFAULT_DENY", nil}, // claims do not count
	} {
		got := h.check(params(tool, `,"trustLevel":"system","roles":["root"]`))
		var kinds []engine.Kind
		if got.Approval != nil {
			for _, r := range got.Approval.Plan.Requirements {
				kinds = append(kinds, r.Kind)
			}
		}
		if got.Decision.Outcome != want.outcome || got.Event.Outcome != want.outcome || !slices.Equal(reasons(got.Decision.Reasons), []string{want.reason}) || !slices.Equal(kinds, want.kinds) {
			t.Errorf("%s: %s, event %s, %v, %v", tool, got.Decision.Outcome, got.Event.Outcome, got.Decision.Reasons, kinds)
		}
		if got.Allowed != (want.outcome == engine.Allow) || got.Event.Timestamp.IsZero() || got.Event.AgentID != "bot" {
			t.Errorf("%s: allowed %v, event %+v", tool, got.Allowed, got.Event)
		}
	}
}

// A rule's own terms become the approval: how many, who, until when, who else.
func TestRulesMakeUpTheApproval(t *testing.T) {
	h := newPolicyHarness(t)
	got := h.check(params("pay", ""))
	a := got.Approval
	r := a.Plan.Requirements[0]
	if r.Role != "reviewer" || r.Needed != 2 || len(r.Escalation) != 1 || a.Plan.ExpiresAt.Sub(a.Plan.OpenedAt) != 30*time.Minute {
		t.Fatalf("got %+v until %s", r, a.Plan.ExpiresAt.Sub(a.Plan.OpenedAt))
	}
	if got.Decision.ApproverRole != "reviewer" || string(got.Decision.Constraints) != `{"once":true}` {
		t.Errorf("decision %+v", got.Decision)
	}
	if err := h.vote("ada", *a, true); err != nil {
		t.Fatal(err)
	}
	if err := h.vote("ben", *a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	v := h.get(a.ID)
	if v.Approval.Status != approval.Approved || v.Token == "" {
		t.Fatalf("got %s %v", v.Approval.Status, v.Approval.Reasons)
	}
	redeemed, err := h.Redeem(context.Background(), h.agent, gate.RedeemRequest{Token: v.Token, Tool: "pay", Arguments: parse(t, args)}, nil)
	if err != nil || string(parse(t, string(redeemed.Constraints)).Canonical()) != `{"once":true}` {
		t.Errorf("redeemed %+v, %v", redeemed, err)
	}
}

// A person of one group cannot fill a place of the other as well.
func TestGroupsAreDistinctPeople(t *testing.T) {
	h := newPolicyHarness(t)
	a := *h.check(params("deploy", "")).Approval
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	if got := code(h.vote("ben", a, true)); got != "not_needed" {
		t.Errorf("somebody of the wrong group: %q", got)
	}
	if err := h.vote("stranger", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	if got := h.get(a.ID); got.Approval.Status != approval.Approved {
		t.Errorf("got %s %v", got.Approval.Status, got.Approval.Reasons)
	}
}

// A claim of another environment can only make it stricter.
func TestClaimedEnvironmentNeverLoosens(t *testing.T) {
	h := newPolicyHarness(t)
	if got := h.check(params("env_tool", "")); !got.Allowed {
		t.Errorf("here: %+v", got.Decision)
	}
	if got := h.check(params("env_tool", `,"environment":"prod"`)); got.Allowed {
		t.Errorf("said to be production: %+v", got.Decision)
	}
	h.rules.Environment = "prod"
	h.judgeBy(h.rules)
	for _, claim := range []string{"", `,"environment":"dev"`, `,"environment":"*"`} {
		if got := h.check(params("env_tool", claim)); got.Allowed {
			t.Errorf("in production, saying %q: %+v", claim, got.Decision)
		}
	}
}

func TestActionRequestsAreReadStrictly(t *testing.T) {
	h := newPolicyHarness(t)
	full := `{"request_id":"7b1f8c3e-54b4-4b7e-9d0f-0a1b2c3d4e5f","timestamp":"2026-06-01T00:00:00Z","agent":{"agent_id":"x","name":"X","owner":"owner@example.com","environment":"test"},
		"action":{"type":"tool_call","tool_name":"read_mail","tool_args":{}},"context":{"session_id":"s"}}`
	if got := h.check(full); !got.Allowed || got.Event.RequestID != "7b1f8c3e-54b4-4b7e-9d0f-0a1b2c3d4e5f" {
		t.Errorf("got %+v", got)
	}
	for _, doc := range []string{`{}`, `[]`, `{"toolName":"x"}`, `{"toolName":7,"toolArgs":{},"agentId":"a"}`, params("read_mail", `,"trust_level":"system"`), `{"action":{}}`} {
		_, wrong, err := h.CheckToolCall(context.Background(), h.agent, parse(t, doc), gate.Request{}, nil)
		if err != nil || len(wrong) == 0 {
			t.Errorf("%s: %v %v", doc, wrong, err)
		}
	}
	// The owner that a request names is of the requesting side, too.
	a := h.check(params("pay", `,"owner":"ada@example.com","delegationChain":["other-bot","bot"]`)).Approval
	if got := code(h.vote("ada", *a, true)); got != "self_review" {
		t.Errorf("the named owner votes: %q", got)
	}
}

func TestWithoutPolicyNothingIsAllowed(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	h.withoutPolicy = true
	h.judgeBy(gate.Rules{Environment: "test", Routing: routing(time.Hour, 1)})
	if got := h.check(params("read_mail", "")); got.Allowed || reasons(got.Decision.Reasons)[0] != "NO_POLICY" {
		t.Errorf("no policy: %+v", got.Decision)
	}
	h.rules.Policy = bundle(t, bundleText)
	h.rules.Unusable = true
	h.judgeBy(h.rules)
	if got := h.check(params("read_mail", "")); got.Allowed || reasons(got.Decision.Reasons)[0] != "POLICY_UNAVAILABLE" {
		t.Errorf("unusable: %+v", got.Decision)
	}
	checked, err := h.PreToolCheck(context.Background(), h.agent, parse(t, harmless), gate.Request{}, nil)
	if err != nil || checked.Route != engine.Refuse {
		t.Errorf("an event while the rules are unusable: %s %v", checked.Route, err)
	}
}

// The policy judges every dialect's call, and its denial is never lost.
func TestPolicyJudgesEventsToo(t *testing.T) {
	h := newPolicyHarness(t)
	checked, err := h.PreToolCheck(context.Background(), h.agent, parse(t, harmless), gate.Request{}, nil)
	if err != nil || checked.Route != engine.Refuse || !slices.Contains(checked.Envelope.HardBlockers, "DEFAULT_DENY") {
		t.Errorf("got %s %v %v", checked.Route, checked.Envelope.HardBlockers, err)
	}
	// The contract asks for a confirmation, the policy for two reviewers: one approval of both.
	a := h.open(asked)
	if len(a.Plan.Requirements) != 2 || a.Decision.Outcome != engine.RequireApproval {
		t.Errorf("got %+v", a.Plan.Requirements)
	}
}

// What a rule leaves to the settings, how many noes it takes, is no more than was
// asked when the call is judged again; any_of and a calendar arrive at the approval.
func TestTermsOfTheRuleAndOfTheSettings(t *testing.T) {
	r := routing(time.Hour, 1)
	r.Default.Deny = 2
	r.Calendars = map[string]calendar.Calendar{"always": {TimeZone: "UTC", Hours: map[string][]string{}}}
	for _, day := range []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"} {
		r.Calendars["always"].Hours[day] = []string{"00:00-24:00"}
	}
	h := newHarness(t, r)
	h.rules.Policy = bundle(t, `{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2099-01-01T00:00:00Z","defaults":{"outcome":"DENY"},"rules":[
		{"id":"any","description":"","match":{"tool_name":"pay","environment":"*"},"outcome":"REQUIRE_APPROVAL",
		 "approval":{"any_of":[{"role":"reviewer","needed":1},{"role":"other","needed":2}],"within":"10m","calendar":"always","reminders":["1m"],"suggest":["ada@example.com"]}}]}`)
	h.judgeBy(h.rules)
	a := *h.check(params("pay", "")).Approval
	got := a.Plan.Requirements[0]
	if got.Role != "" || len(got.AnyOf) != 2 || got.Deny != 2 || got.Calendar != "always" || len(got.Reminders) != 1 || len(got.Suggested) != 1 {
		t.Errorf("got %+v", got)
	}
	if _, kept := a.Plan.Calendars["always"]; !kept {
		t.Errorf("the plan has the calendars %v", a.Plan.Calendars)
	}
	if err := h.vote("ada", a, true); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	if got := h.get(a.ID); got.Approval.Status != approval.Approved {
		t.Errorf("got %s %v", got.Approval.Status, got.Approval.Reasons)
	}
}

// A policy that has become stricter has the last word.
func TestPolicyChangedWhileWaiting(t *testing.T) {
	h := newPolicyHarness(t)
	a := *h.check(params("pay", "")).Approval
	for _, who := range []string{"ada", "ben"} {
		if err := h.vote(who, a, true); err != nil {
			t.Fatal(err)
		}
	}
	h.rules.Policy = bundle(t, `{"version":"2","generated_at":"2026-01-02T00:00:00Z","expires_at":"2099-01-01T00:00:00Z","rules":[],"defaults":{"outcome":"DENY"}}`)
	h.judgeBy(h.rules)
	h.settle(a.ID)
	if got := h.get(a.ID); got.Approval.Status != approval.Denied || !slices.Equal(reasons(got.Approval.Reasons), []string{"policy_changed", "DEFAULT_DENY"}) {
		t.Errorf("got %s %v", got.Approval.Status, got.Approval.Reasons)
	}
}

// The same rule that asks for more than it did is not satisfied by what was given.
func TestTheSameRuleAsksForMore(t *testing.T) {
	for name, tc := range map[string]struct {
		terms string
		want  approval.Status
	}{
		"the same":                    {`"outcome":"REQUIRE_APPROVAL","approver_role":"reviewer","approval":{"quorum":2}`, approval.Approved},
		"less":                        {`"outcome":"REQUIRE_APPROVAL","approver_role":"reviewer"`, approval.Approved},
		"more people":                 {`"outcome":"REQUIRE_APPROVAL","approver_role":"reviewer","approval":{"quorum":3}`, approval.Pending},
		"another role":                {`"outcome":"REQUIRE_APPROVAL","approver_role":"other","approval":{"quorum":2}`, approval.Pending},
		"people instead of reviewers": {`"outcome":"REQUIRE_HUMAN","approver_role":"reviewer","approval":{"quorum":2}`, approval.Pending},
		"a ticket":                    {`"outcome":"REQUIRE_TICKET"`, approval.Pending},
		"another group":               {`"outcome":"REQUIRE_APPROVAL","approval":{"groups":[{"role":"reviewer","needed":2},{"role":"other","needed":1}]}`, approval.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			h := newPolicyHarness(t)
			a := *h.check(params("pay", "")).Approval
			for _, who := range []string{"ada", "ben"} {
				if err := h.vote(who, a, true); err != nil {
					t.Fatal(err)
				}
			}
			h.rules.Policy = bundle(t, `{"version":"2","generated_at":"2026-01-02T00:00:00Z","expires_at":"2099-01-01T00:00:00Z","defaults":{"outcome":"DENY"},"rules":[
				{"id":"pay","description":"Payments.","match":{"tool_name":"pay","environment":"*"},"constraints":{"once":true},`+tc.terms+`}]}`)
			h.judgeBy(h.rules)
			h.settle(a.ID)
			got := h.get(a.ID)
			if got.Approval.Status != tc.want || tc.want == approval.Pending && (got.Approval.Plan.Edition != 2 || got.Approval.Version != 2 || got.Token != "") {
				t.Errorf("got %s, edition %d, %v", got.Approval.Status, got.Approval.Plan.Edition, got.Approval.Reasons)
			}
		})
	}
}

// While there are no rules, what people have approved waits for them, until its
// deadline.
func TestApprovedWaitsForRules(t *testing.T) {
	h := newPolicyHarness(t)
	a := *h.check(params("pay", "")).Approval
	for _, who := range []string{"ada", "ben"} {
		if err := h.vote(who, a, true); err != nil {
			t.Fatal(err)
		}
	}
	h.settler.Rules = noRules{fixed{h.judge.Load()}}
	if r := h.settle(a.ID); r.Over || r.WakeIn <= 0 {
		t.Errorf("got %+v", r)
	}
	h.judgeBy(h.rules)
	if r := h.settle(a.ID); !r.Over || h.get(a.ID).Approval.Status != approval.Approved {
		t.Errorf("got %+v", r)
	}
}

type noRules struct{ fixed }

func (noRules) Recheck(approval.Approval, []byte, time.Time) (engine.Decision, error) {
	return engine.Decision{}, fmt.Errorf("%w: the policy has expired", gate.ErrNoRules)
}

// What could be taken for another tool is no tool's name; what is too long for
// the log is refused.
func TestNamesAndLengths(t *testing.T) {
	h := newPolicyHarness(t)
	for _, name := range []string{"*", "\uff44elete", "delete\u0301", "\u212aill", " read_mail"} {
		_, _, err := h.CheckToolCall(context.Background(), h.agent, parse(t, `{"toolName":"`+name+`","toolArgs":{},"agentId":"a"}`), gate.Request{}, nil)
		if code(err) != "tool_name_unclear" {
			t.Errorf("%q: %v", name, err)
		}
	}
	long := strings.Repeat("x", 201)
	labels := `["` + strings.Repeat(`a","`, 200) + `a"]`
	for _, more := range []string{`,"sessionId":"` + long + `"`, `,"actionType":"` + long + `"`, `,"environment":"` + long + `"`, `,"dataLabels":` + labels, `,"riskHints":` + labels} {
		if _, wrong, err := h.CheckToolCall(context.Background(), h.agent, parse(t, params("read_mail", more)), gate.Request{}, nil); err != nil || len(wrong) != 1 {
			t.Errorf("%.30s: %v %v", more, wrong, err)
		}
	}
}

func TestToolContractsJudgeEveryCall(t *testing.T) {
	h := newPolicyHarness(t)
	set, problems := safeai.Load([]byte("tool_contracts:\n  read_mail:\n    allowed_request_tags: [personal.pii]\n    allowed_response_fields: [subject]\n"), "contracts.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	h.rules.Contracts, h.rules.Detector = set, redact.New()
	h.judgeBy(h.rules)
	for doc, want := range map[string]bool{
		params("read_mail", ""): true,
		params("read_mail", `,"dataLabels":["personal.pii.email"]`): true,
		params("read_mail", `,"dataLabels":["personal.financial"]`): false,
		params("read_more", ""): false, // declared by policy, by no contract
		`{"toolName":"read_mail","agentId":"a","toolArgs":{"q":"write to jo@example.com"}}`:              true,
		`{"toolName":"read_mail","agentId":"a","toolArgs":{"q":"card 4111 1111 1111 1111"}}`:             false,
		`{"toolName":"read_mail","agentId":"a","toolArgs":{"q":"password=hunter2-and-more-characters"}}`: false,
	} {
		got := h.check(doc)
		if got.Allowed != want {
			t.Errorf("%s: %+v", doc, got.Decision)
		}
		if !want && !slices.Contains(reasons(got.Decision.Reasons), "tool_contract_violation") {
			t.Errorf("%s: reasons %v", doc, got.Decision.Reasons)
		}
	}
	checked, err := h.PreToolCheck(context.Background(), h.agent, parse(t, harmless), gate.Request{}, nil)
	if err != nil || checked.Route != engine.Refuse {
		t.Errorf("an undeclared tool's event: %s %v", checked.Route, err)
	}
	answer, err := h.AskContract(context.Background(), h.agent, gate.ContractQuestion{Method: gate.InterceptResponse, Tool: "read_mail", Payload: parse(t, `{"subject":"s","body":"b"}`)}, "", nil)
	encoded, _ := json.Marshal(answer)
	if err != nil || string(encoded) == "" || !json.Valid(encoded) {
		t.Fatalf("%s %v", encoded, err)
	}
	events, err := h.Events(context.Background(), store.EventFilter{Tool: "read_mail"}, 100)
	if err != nil || events[len(events)-1].Type != engine.ToolContract {
		t.Errorf("last event %+v, %v", events[len(events)-1], err)
	}
}

// A rule is not got round by another spelling of the tool that it names.
func TestRulesNamesAreLookedAlike(t *testing.T) {
	h := newPolicyHarness(t)
	for name, want := range map[string]bool{"pay": false, "Pay": true, "PAY": true, "Tool-Exec": true, "sing": false} {
		if got := h.check(params(name, "")); slices.Contains(reasons(got.Decision.Reasons), registry.ToolLookalike) != want || want && got.Allowed {
			t.Errorf("%s: %+v", name, got.Decision)
		}
	}
}

// What is registered decides, and what is revoked runs no more.
func TestRegistryDecides(t *testing.T) {
	h := newPolicyHarness(t)
	ctx, by := context.Background(), access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "test", Channel: "cli"}}
	if err := h.Registry.RegisterAgent(ctx, by, registry.Agent{ID: "bot", Name: "bot", Owner: "owner@example.com", Trust: engine.Privileged}, nil); err != nil {
		t.Fatal(err)
	}
	if got := h.check(params("admin", `,"trustLevel":"untrusted"`)); !got.Allowed {
		t.Errorf("registered as privileged: %+v", got.Decision)
	}
	a := *h.check(params("pay", "")).Approval
	for _, who := range []string{"ada", "ben"} {
		if err := h.vote(who, a, true); err != nil {
			t.Fatal(err)
		}
	}
	h.settle(a.ID)
	token := h.get(a.ID).Token
	if err := h.Registry.RegisterTool(ctx, by, registry.Tool{Name: "pay", Provider: "mcp", Verified: true, ManifestHash: "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"}, nil); err != nil {
		t.Fatal(err)
	}
	if got := h.check(params("pay", `,"toolIdentity":{"tool_name":"pay","manifest_hash":"00"}`)); !slices.Contains(reasons(got.Decision.Reasons), registry.BadProvenance) {
		t.Errorf("another manifest: %+v", got.Decision)
	}
	if err := h.Registry.RegisterTool(ctx, by, registry.Tool{Name: "read_mail"}, nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"read_mail": false, "read_maıl": true, "read_mai1": true, "read_maiI": true, "read_maik": false} {
		if got := h.check(params(name, "")); slices.Contains(reasons(got.Decision.Reasons), registry.ToolLookalike) != want || want && got.Allowed {
			t.Errorf("%s, where read_mail is registered: %+v", name, got.Decision)
		}
	}
	if err := h.Registry.RevokeTool(ctx, by, "pay", true, nil); err != nil {
		t.Fatal(err)
	}
	if got := code(h.redeem(h.agent, token, "pay", args)); got != "tool_revoked" {
		t.Errorf("redeeming for a revoked tool: %q", got)
	}
	if err := h.Registry.RevokeTool(ctx, by, "pay", false, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Registry.RevokeAgent(ctx, by, "bot", true, nil); err != nil {
		t.Fatal(err)
	}
	if got := code(h.redeem(h.agent, token, "pay", args)); got != "agent_revoked" {
		t.Errorf("redeeming as a revoked agent: %q", got)
	}
	if got := h.check(params("read_mail", "")); got.Allowed || !slices.Equal(reasons(got.Decision.Reasons), []string{registry.AgentRevoked}) {
		t.Errorf("a revoked agent: %+v", got.Decision)
	}
	if err := h.Registry.RevokeAgent(ctx, by, "bot", false, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.redeem(h.agent, token, "pay", args); err != nil {
		t.Errorf("restored: %v", err)
	}
	for err, want := range map[error]string{
		h.Registry.RevokeAgent(ctx, by, "nobody", true, nil):                                        "not_found",
		h.Registry.RegisterAgent(ctx, by, registry.Agent{ID: "x", Name: "x", Owner: "no@one"}, nil): "not_found",
		h.Registry.RegisterAgent(ctx, by, registry.Agent{ID: "bot", Owner: "ada@example.com"}, nil): "by_command",
		h.Registry.RegisterAgent(ctx, by, registry.Agent{ID: "bot", Roles: []string{""}}, nil):      "invalid_body",
		h.Registry.RegisterTool(ctx, by, registry.Tool{Name: "x", ManifestHash: "short"}, nil):      "invalid_body",
		h.Registry.PutSettings(ctx, by, registry.Settings{MaxDelegation: -1}, nil):                  "invalid_body",
	} {
		if code(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
