package gate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/registry"
	"holdpoint/examples/policies"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// The tools and labels of the random worlds: few, so that rules meet calls.
var (
	doorTools  = []string{"create_transfer", "search_docs", "get_order", "update_note", "nobody_knows_it", "tool-exec"}
	doorLabels = []string{"pii", "public", "internal"}
)

func anyOf[T any](r *rapid.T, name string, of ...T) T { return rapid.SampledFrom(of).Draw(r, name) }

// anyRules are a random policy, registry and routing.
func anyRules(r *rapid.T) gate.Rules {
	outcome := rapid.SampledFrom([]string{"ALLOW", "DENY", "REQUIRE_APPROVAL", "STEP_UP", "REQUIRE_TICKET", "REQUIRE_HUMAN"})
	var rules []any
	for i := range rapid.IntRange(0, 6).Draw(r, "rules") {
		match := map[string]any{"tool_name": anyOf(r, "tool", append([]string{"*"}, doorTools...)...), "environment": anyOf(r, "environment", "*", "*", "prod", "dev")}
		when := map[string]any{}
		switch rapid.IntRange(0, 7).Draw(r, "condition") {
		case 0:
			match["tool_category"] = anyOf(r, "category", engine.ToolCategories()...)
		case 1:
			match["tool_registered"] = rapid.Bool().Draw(r, "registered")
		case 2:
			match["tool_provider"] = anyOf(r, "provider", "mcp", "custom")
		case 3:
			when["data_labels_any"] = []any{anyOf(r, "label", doorLabels...)}
		case 4:
			when["tool_args_match"] = map[string]any{"amount": map[string]any{"gt": rapid.IntRange(0, 100).Draw(r, "limit")}}
		case 5:
			when["contains_any"] = []any{anyOf(r, "word", "delete", "please")}
		case 6:
			when["not_contains"] = []any{anyOf(r, "word", "delete", "please")}
		}
		rules = append(rules, map[string]any{"id": fmt.Sprint("r", i), "description": "d", "match": match, "when": when, "outcome": outcome.Draw(r, "outcome")})
	}
	text, err := json.Marshal(map[string]any{
		"version": "1", "generated_at": "2026-01-01T00:00:00Z", "expires_at": "2036-01-01T00:00:00Z", "rules": append([]any{}, rules...),
		"defaults": map[string]any{"outcome": outcome.Draw(r, "default")},
	})
	if err != nil {
		r.Fatal(err)
	}
	b, problems := policy.Load(text, policy.Options{})
	if b == nil {
		r.Fatal(problems)
	}
	known := &registry.Snapshot{
		Settings: registry.DefaultSettings(), Tools: map[string]registry.Tool{},
		Agents: map[string]registry.Agent{"bot": {ID: "bot", Type: "chat_agent", Trust: engine.Basic}},
	}
	for _, name := range doorTools[:len(doorTools)-1] {
		if rapid.Bool().Draw(r, "known") {
			known.Tools[name] = registry.Tool{
				Name: name, Category: anyOf(r, "category", append([]string{""}, engine.ToolCategories()...)...), RiskDomain: anyOf(r, "domain", "", "finance", "research"),
				IdentityBound: rapid.Bool().Draw(r, "bound"), SideEffects: rapid.Bool().Draw(r, "effects"), Provider: anyOf(r, "provider", "", "custom", "mcp"),
				Verified: rapid.Bool().Draw(r, "verified"), DataLabels: rapid.SliceOfN(rapid.SampledFrom(doorLabels), 0, 2).Draw(r, "labels"),
			}
		}
	}
	return gate.Rules{Environment: "prod", Routing: approval.Routing{Default: approval.Rule{Role: "reviewer", Needed: 1, ExpiresIn: engine.Duration(time.Hour)}}, Policy: b, Registry: known}
}

// doorCall is a call as every door may get it.
type doorCall struct {
	tool string
	args map[string]any
}

func anyCall(r *rapid.T) doorCall {
	args := map[string]any{}
	if rapid.Bool().Draw(r, "with an amount") {
		args["amount"] = rapid.IntRange(0, 100).Draw(r, "amount")
	}
	if rapid.Bool().Draw(r, "with words") {
		args["text"] = anyOf(r, "text", "delete it", "read it", "")
	}
	if rapid.IntRange(0, 3).Draw(r, "with an identity") == 0 {
		args["order_id"] = "7"
	}
	return doorCall{anyOf(r, "tool", doorTools...), args}
}

// event is the call as an Agent Action Contract event with random claims.
func (c doorCall) event(r *rapid.T) map[string]any {
	return map[string]any{
		"tool_name": c.tool, "tool_category": anyOf(r, "claimed category", engine.ToolCategories()...),
		"authorization_state": anyOf(r, "claimed state", "none", "user_claimed", "authenticated", "validated", "confirmed"),
		"evidence_refs":       []any{"doc:1"}, "risk_domain": anyOf(r, "claimed domain", "research", "finance", "public_information"),
		"proposed_arguments": c.args, "recommended_route": anyOf(r, "recommended", "accept", "accept", "ask", "defer"),
		"user_intent":           anyOf(r, "intent", "", "please", "delete"),
		"authorization_subject": map[string]any{"subject_type": "user", "subject_ref": anyOf(r, "subject", "u", "ada@example.com")},
	}
}

// action is the call as Agent-SPM's CheckToolCallParams; claims adds random ones.
func (c doorCall) action(r *rapid.T, claims bool) map[string]any {
	doc := map[string]any{"toolName": c.tool, "toolArgs": c.args, "agentId": "bot"}
	if claims {
		doc["environment"] = anyOf(r, "claimed environment", "prod", "dev")
		doc["dataLabels"] = rapid.SliceOfN(rapid.SampledFrom(doorLabels), 0, 3).Draw(r, "claimed labels")
		doc["userInput"] = anyOf(r, "claimed input", "", "please", "delete")
		doc["trustLevel"] = anyOf(r, "claimed trust", engine.TrustLevels()...)
		if rapid.Bool().Draw(r, "claims a provider") {
			doc["toolIdentity"] = map[string]any{"tool_name": c.tool, "provider": anyOf(r, "claimed provider", "custom", "mcp", "built-in")}
		}
	}
	return doc
}

// evaluation is the call as an AuthZEN Access Evaluation request; claims has it made for
// somebody who claims to be anything.
func (c doorCall) evaluation(r *rapid.T, claims bool) map[string]any {
	action, resource := map[string]any{}, map[string]any{}
	for name, value := range c.args {
		if rapid.Bool().Draw(r, "of the resource") {
			resource[name] = value
		} else {
			action[name] = value
		}
	}
	doc := map[string]any{
		"subject": map[string]any{"type": "agent", "id": "bot"}, "action": map[string]any{"name": c.tool, "properties": action},
		"resource": map[string]any{"type": "x", "id": "1", "properties": resource},
	}
	if claims {
		doc["subject"] = map[string]any{
			"type": anyOf(r, "subject", "agent", "Agent", "user", "ai_agent"), "id": anyOf(r, "subject's id", "bot", "other-bot", "ada@example.com"),
			"properties": map[string]any{"roles": []any{"admin"}, "trustLevel": "system", "decision": true},
		}
		doc["context"] = map[string]any{"environment": "dev", "authorization_state": "confirmed", "approval": map[string]any{"id": "apr_x"}, "dataLabels": []any{"public"}}
		doc["roles"], doc["decision"], doc["recommended_route"] = []any{"admin"}, true, "accept"
	}
	return doc
}

func value(t interface{ Fatal(...any) }, doc any) canon.Value {
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	v, err := canon.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// ofPolicy are the policy's findings of a decision.
func ofPolicy(d engine.Decision) []engine.Finding {
	return slices.DeleteFunc(slices.Clone(d.Findings), func(f engine.Finding) bool { return f.Source != "policy" })
}

// Whatever the policy and the registry are: no claim, and no door, makes the
// answer to a call looser than it is without them.
func TestClaimsAndDoorsLoosenNothing(t *testing.T) {
	now := time.Now()
	rapid.Check(t, func(r *rapid.T) {
		judge, err := gate.NewJudge(anyRules(r))
		if err != nil {
			r.Fatal(err)
		}
		for range 20 {
			c := anyCall(r)
			p := access.Principal{KeyID: "k", AgentID: "bot", Kind: access.AgentKey, MaxState: anyOf(r, "limit", "none", "authenticated", "confirmed")}
			plain, wrong := gate.JudgeAction(judge, p, value(r, c.action(r, false)), now)
			if len(wrong) > 0 {
				r.Fatal(wrong)
			}
			claiming, wrong := gate.JudgeAction(judge, p, value(r, c.action(r, true)), now)
			if len(wrong) > 0 {
				r.Fatal(wrong)
			}
			_, event := gate.JudgeEvent(judge, p, value(r, c.event(r)), now)
			evaluated, arguments, wrong := gate.JudgeEvaluation(judge, p, value(r, c.evaluation(r, true)), now)
			if len(wrong) > 0 {
				r.Fatal(wrong)
			}
			for _, again := range []map[string]any{c.evaluation(r, true), c.evaluation(r, false)} {
				// Which part names an argument changes nothing.
				if _, other, wrong := gate.JudgeEvaluation(judge, p, value(r, again), now); len(wrong) > 0 || canon.Digest("", other) != canon.Digest("", arguments) {
					r.Fatalf("%s and %s, %v", arguments.Canonical(), other.Canonical(), wrong)
				}
			}
			// The same call by another door: what names the resource is two more arguments.
			named := c
			named.args = maps.Clone(c.args)
			named.args["resource_type"], named.args["resource_id"] = "x", "1"
			same, wrong := gate.JudgeAction(judge, p, value(r, named.action(r, false)), now)
			if len(wrong) > 0 || evaluated.Route < same.Route {
				r.Fatalf("AuthZEN answers %s to %+v, Agent-SPM %s", evaluated.Route, named, same.Route)
			}
			tags := rapid.SliceOfN(rapid.SampledFrom(doorLabels), 0, 2).Draw(r, "tags")
			intercepted := gate.JudgeInterception(judge, p, c.tool, value(r, c.args), tags, now)
			for door, d := range map[string]engine.Decision{"Agent-SPM with claims": claiming.Decision, "Agent Action Contract": event.Decision, "SafeAI": intercepted, "AuthZEN": evaluated.Decision} {
				if d.Route < plain.Route {
					r.Fatalf("%s answers %s to %+v, it is %s without claims\n%+v\n%+v", door, d.Route, c, plain.Route, d.Findings, plain.Findings)
				}
				for _, f := range ofPolicy(plain.Decision) {
					if !slices.Contains(d.Findings, f) {
						r.Fatalf("%s: the policy does not say %+v: %+v", door, f, d.Findings)
					}
				}
			}
			if len(tags) == 0 && intercepted.Route != plain.Route {
				r.Fatalf("SafeAI answers %s, Agent-SPM %s to %+v", intercepted.Route, plain.Route, c)
			}
		}
	})
}

// The policies that ship hold or refuse what is expensive, and every tool that
// nobody has registered and that claims to be harmless, by every door.
func TestShippedPoliciesCannotBeGotRound(t *testing.T) {
	now := time.Now()
	dev, err := policies.Dev(now)
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string]registry.Tool{}
	for _, tool := range policies.Tools() {
		tools[tool.Name] = tool
	}
	shipped := map[string][]byte{"dev": dev}
	for _, name := range policies.Names() {
		if shipped[name], err = policies.FS.ReadFile(name + "/policy.yaml"); err != nil {
			t.Fatal(err)
		}
	}
	if shipped["deploy"], err = os.ReadFile("../../deploy/rules/policy.yaml"); err != nil {
		t.Fatal(err)
	}
	for name, text := range shipped {
		b, problems := policy.Load(text, policy.Options{})
		if b == nil {
			t.Fatalf("%s: %v", name, problems)
		}
		judge, err := gate.NewJudge(gate.Rules{
			Environment: "prod", Routing: routing(time.Hour, 1), Policy: b,
			Registry: &registry.Snapshot{Settings: registry.DefaultSettings(), Tools: tools, Agents: map[string]registry.Agent{"bot": {ID: "bot", Trust: engine.Privileged, Roles: []string{"sre"}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(r *rapid.T) {
			c := anyOf(r, "call",
				doorCall{"create_transfer", map[string]any{"amount": 50_000, "currency": "EUR"}}, doorCall{"issue_refund", map[string]any{"amount": 1200}},
				doorCall{"harmless_look_up", map[string]any{"q": "x"}}, doorCall{"read_secret", map[string]any{"name": "x"}},
				doorCall{"delete_account", map[string]any{"id": "7"}}, doorCall{"tool-exec", map[string]any{"document": "x"}},
				doorCall{"Create_Transfer", map[string]any{"amount": 50_000}}, doorCall{"create_transfer ", map[string]any{"amount": 50_000}},
			)
			p := access.Principal{KeyID: "k", AgentID: "bot", Kind: access.RuntimeKey, MaxState: "confirmed"}
			_, event := gate.JudgeEvent(judge, p, value(r, c.event(r)), now)
			action, _ := gate.JudgeAction(judge, p, value(r, c.action(r, true)), now)
			intercepted := gate.JudgeInterception(judge, p, c.tool, value(r, c.args), nil, now)
			evaluated, _, _ := gate.JudgeEvaluation(judge, p, value(r, c.evaluation(r, true)), now)
			for door, d := range map[string]engine.Decision{"Agent Action Contract": event.Decision, "Agent-SPM": action.Decision, "SafeAI": intercepted, "AuthZEN": evaluated.Decision} {
				if d.Route == engine.Accept {
					r.Fatalf("%s, %s: %+v is accepted: %+v", name, door, c, d.Findings)
				}
			}
		})
	}
}

// The answer to an event tells what the registered category has found, and the
// contract asks once, whatever it was judged as.
func TestRegisteredCategoryIsInTheAnswer(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	if err := h.Registry.RegisterTool(t.Context(), operator, registry.Tool{Name: "update_note", Category: "write", SideEffects: true}, nil); err != nil {
		t.Fatal(err)
	}
	h.judgeBy(h.rules)
	claim := `{"tool_name":"update_note","tool_category":"public_read","authorization_state":"none","evidence_refs":["doc:1"],"risk_domain":"research","proposed_arguments":{},"recommended_route":"accept"}`
	got, err := h.PreToolCheck(t.Context(), h.agent, parse(t, claim), gate.Request{}, nil)
	if err != nil || got.Route != engine.Defer || !slices.Contains(got.Envelope.HardBlockers, "write_missing_authorization") || !slices.Contains(got.Envelope.Reasons, registry.ClaimOverridden) {
		t.Fatalf("%+v, %v", got, err)
	}
	if asked := got.Approval.Plan.Requirements; len(asked) != 1 || asked[0].Kind != engine.Review {
		t.Errorf("it asks for %+v", asked)
	}
	if got.Approval.Call.Category != "write" {
		t.Errorf("routing and card see the category %q", got.Approval.Call.Category)
	}
}
