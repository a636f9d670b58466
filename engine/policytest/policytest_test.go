package policytest_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/policytest"
	"holdpoint/engine/source"
	"holdpoint/internal/golden"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const bundle = `version: "1"
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2036-01-01T00:00:00Z"
defaults: {outcome: DENY}
rules:
  - id: large
    description: Large ones need two.
    match: {tool_name: pay, environment: prod, trust_level_min: verified}
    when:
      tool_args_match: {amount: {gt: 500}}
    outcome: REQUIRE_APPROVAL
    approver_role: finance
    approval: {quorum: 2, within: 90m, escalation: [{after: 1h, role: lead}]}
  - id: words
    description: Some words.
    match: {tool_name: pay, environment: "*"}
    when: {contains_any: [urgent]}
    outcome: REQUIRE_HUMAN
  - id: small
    description: Small ones go through.
    match: {tool_name: pay, environment: "*"}
    outcome: ALLOW
    constraints: {max: 500}
  - id: never
    description: Nothing reaches this one.
    match: {tool_name: other, environment: "*"}
    outcome: ALLOW
`

func load(t *testing.T, text string) *policy.Bundle {
	t.Helper()
	b, problems := policy.Load([]byte(text), policy.Options{})
	if b == nil {
		t.Fatal(problems)
	}
	return b
}

// results has a test for each way in which one may fail.
const results = `policy: policy.yaml
now: 2026-11-21T12:00:00Z
defaults:
  environment: prod
  agent: {trust_level: verified, roles: [a]}
  args: {amount: 1000}
tests:
  - name: passes
    call: {tool: pay}
    expect:
      outcome: REQUIRE_APPROVAL
      rule: large
      approver_role: finance
      constraints: null
      approval: {quorum: 2, within: 1h30m, escalation: [{after: 60m, role: lead}]}
  - name: passes by another amount
    call: {tool: pay, args: {amount: 1}}
    expect: {rule: small, constraints: {max: 500.0}, approval: null, approver_role: ""}
  - name: passes by the default
    call: {tool: nothing}
    expect: {rule: default}
  - name: passes by the default, said otherwise
    call: {tool: nothing}
    expect: {rule: ""}
  - name: every field is wrong
    call: {tool: pay}
    expect:
      outcome: DENY
      rule: small
      approver_role: ""
      constraints: {max: 500}
      approval: {quorum: 3, within: 1h, groups: [{role: finance, needed: 1}]}
  - name: the expected rule does not match
    call: {tool: pay, args: {amount: 500}, environment: dev, agent: {trust_level: basic}}
    expect: {rule: large}
  - name: the default is expected
    call: {tool: pay, args: {amount: 1}}
    expect: {outcome: DENY, rule: default}
  - name: there is no such rule
    call: {tool: pay}
    expect: {rule: larger}
  - name: no approval is expected
    call: {tool: pay}
    expect: {approval: null}
  - name: an approval is expected
    call: {tool: pay, args: {amount: 1}}
    expect: {approval: {quorum: 1}}
  - name: a word is not there
    call: {tool: pay, args: {amount: 1}, user_input: please}
    expect: {outcome: REQUIRE_HUMAN, rule: words}
`

func TestRun(t *testing.T) {
	f, problems := policytest.Load([]byte(results), "tests.yaml")
	if f == nil {
		t.Fatal(problems)
	}
	b := load(t, bundle)
	all := f.Run(b, time.Time{})
	var text strings.Builder
	for _, r := range all {
		text.WriteString(r.Text())
		if want := strings.HasPrefix(r.Name, "passes"); r.Passed != want {
			t.Errorf("%s: passed is %v", r.Name, r.Passed)
		}
	}
	c := policytest.Cover(b, all)
	text.WriteString(c.Text("policy.yaml"))
	if c.Percent != 50 || c.Rules != 4 || c.Reached != 2 || c.Unreached[1].ID != "never" {
		t.Errorf("coverage is %+v", c)
	}
	encoded, err := json.MarshalIndent(all[4], "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "testdata/run.txt", text.String()+string(encoded)+"\n")
}

func TestExpired(t *testing.T) {
	f, _ := policytest.Load([]byte("tests: [{name: a, call: {tool: pay}, expect: {rule: small}}]"), "")
	r := f.Run(load(t, bundle), time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC))[0]
	if r.Passed || r.Outcome != "DENY" || len(r.Why) != 1 || !strings.Contains(r.Why[0], "expired") {
		t.Errorf("got %+v", r)
	}
}

// A rule may be called "default".
func TestDefaultRule(t *testing.T) {
	b := load(t, strings.Replace(bundle, "id: never", "id: default", 1))
	f, _ := policytest.Load([]byte(`tests:
  - {name: a, call: {tool: other}, expect: {rule: default}}
  - {name: b, call: {tool: nothing}, expect: {rule: ""}}
`), "")
	for _, r := range f.Run(b, now) {
		if !r.Passed {
			t.Error(r.Text())
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	one := func(call, expect string) string {
		return "tests:\n  - name: a\n    call: " + call + "\n    expect: " + expect + "\n"
	}
	good := func(call string) string { return one(call, "{outcome: DENY}") }
	for name, c := range map[string]struct{ text, want string }{
		"no mapping":          {"- a\n", "t.yaml:1:1: a file of tests has to be a mapping, it is array"},
		"no tests":            {"policy: p.yaml\n", `t.yaml:1:1: "tests" is missing`},
		"tests empty":         {"tests: []\n", "t.yaml:1:8: there is no test"},
		"tests no list":       {"tests: {}\n", "t.yaml:1:8: tests has to be a list"},
		"unknown at the top":  {"test: 1\ntests: []\n", `t.yaml:1:1: a file of tests has no "test" (it has defaults, now, policy, tests)`},
		"twice":               {"tests: []\ntests: []\n", `t.yaml:2:1: two members of one object have the same name`},
		"now":                 {"now: tomorrow\n" + good("{tool: a}"), "t.yaml:1:6: now has to be a time"},
		"a name twice":        {good("{tool: a}") + "  - {name: a, call: {tool: a}, expect: {rule: b}}\n", "t.yaml:5:12: another test has the same name"},
		"no call":             {"tests: [{name: a, expect: {rule: b}}]\n", `"call" is missing`},
		"no tool":             {good("{args: {}}"), `t.yaml:3:11: the call has no "tool"`},
		"an empty tool":       {good(`{tool: ""}`), "t.yaml:3:18: tool must not be empty"},
		"unknown in call":     {good("{tool: a, arguments: {}}"), `t.yaml:3:21: call has no "arguments"`},
		"args no mapping":     {good("{tool: a, args: [1]}"), "t.yaml:3:27: args has to be a mapping"},
		"trust level":         {good("{tool: a, agent: {trust_level: high}}"), `"high" is no trust_level (use one of untrusted, basic`},
		"category":            {good("{tool: a, tool_category: read}"), `"read" is no tool category (use one of public_read, private_read, write, unknown)`},
		"roles no list":       {good("{tool: a, agent: {roles: a}}"), "roles has to be a list"},
		"a label no text":     {good("{tool: a, data_labels: [1]}"), "each of data_labels has to be a text, it is number (put it in quotes)"},
		"no expectation":      {one("{tool: a}", "{}"), "t.yaml:4:13: the test expects nothing"},
		"outcome":             {one("{tool: a}", "{outcome: APPROVED}"), `outcome "APPROVED" is not one that a policy can decide`},
		"unknown in expect":   {one("{tool: a}", "{ouctome: DENY}"), `expect has no "ouctome"`},
		"duration":            {one("{tool: a}", "{approval: {within: soon}}"), "within has to be a duration"},
		"unknown in approval": {one("{tool: a}", "{approval: {qorum: 2}}"), `approval has no "qorum"`},
		"escalation":          {one("{tool: a}", "{approval: {escalation: [{after: 1h}]}}"), `"role" is missing`},
		"inexact number":      {good("{tool: a, args: {n: 9007199254740993}}"), "t.yaml:3:31:"},
	} {
		f, problems := policytest.Load([]byte(c.text), "t.yaml")
		var all []string
		for _, p := range problems {
			all = append(all, p.String())
		}
		if f != nil || !strings.Contains(strings.Join(all, "\n"), c.want) {
			t.Errorf("%s: got %q, want %q", name, all, c.want)
		}
	}
}

func TestReadCall(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"as in a test": {`{"tool":"pay","args":{"n":1},"agent":{"roles":["r"]}}`, " pay dev {\"n\":1} [r]"},
		"as a member":  {`{"call":{"tool":"pay","tool_category":"write"},"id":7}`, "write pay dev {} []"},
		"params":       {`{"toolName":"pay","toolArgs":{"n":1},"agentId":"a","environment":"prod"}`, " pay prod {\"n\":1} []"},
		"a request": {`{"request_id":"r","timestamp":"2026-01-01T00:00:00Z","agent":{"agent_id":"a","name":"a","owner":"o","environment":"e"},
			"action":{"type":"t","tool_name":"pay","tool_args":{}},"context":{}}`, " pay e {} []"},
		"no tool":       {`{"args":{}}`, `the call has no "tool"`},
		"no call":       {`[]`, "a call has to be a mapping"},
		"a wrong field": {`{"toolName":"pay","toolArgs":[],"agentId":"a"}`, "/toolArgs: It has to be an object"},
	} {
		v, err := canon.Parse([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		var got string
		r, problems := policytest.ReadCall(source.Of(v))
		if r != nil {
			got = r.ToolCategory + " " + r.Tool + " " + r.Environment + " " + string(r.Args.Canonical()) + " [" + strings.Join(r.Roles, " ") + "]"
		} else {
			got = problems[0].String()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// FuzzLoad: a file is read whole, or every problem has its place; what was read
// runs without a panic.
func FuzzLoad(f *testing.F) {
	f.Add(results)
	f.Add("tests: [{name: a, call: {tool: pay}, expect: {rule: b, approval: {within: 1h}}}]")
	f.Add("now: 2026-11-21T12:00:00Z\ndefaults: {tool: x}\ntests:\n- name: a\n  call: {}\n  expect: {outcome: DENY}\n")
	b, _ := policy.Load([]byte(bundle), policy.Options{})
	f.Fuzz(func(t *testing.T, text string) {
		file, problems := policytest.Load([]byte(text), "t")
		if (file == nil) != (len(problems) > 0) {
			t.Fatalf("file %v, problems %v", file, problems)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Code == "" || p.Message == "" {
				t.Errorf("%+v", p)
			}
		}
		if file != nil {
			for _, r := range file.Run(b, now) {
				if r.Passed != (len(r.Differences) == 0) || r.Text() == "" {
					t.Errorf("%+v", r)
				}
			}
		}
	})
}

// The terms of an approval are compared whatever way their times are written.
func TestTermsOfAnApproval(t *testing.T) {
	b := load(t, `version: "1"
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2036-01-01T00:00:00Z"
defaults: {outcome: DENY}
rules:
  - id: a
    description: A ticket and one of two groups.
    match: {tool_name: pay, environment: "*"}
    outcome: REQUIRE_TICKET
    approval:
      any_of: [{role: r, needed: 1}, {role: q, needed: 2}]
      deny: 2
      calendar: office
      reminders: [90m, 2h]
      suggest: [ada@example.com]
      ticket: {system: jira, states: [Done], max_age: 720h}
      ask: {properties: {reason: {type: string}}, required: [reason]}
`)
	file := func(approval string) string {
		return "tests:\n  - name: a\n    call: {tool: pay}\n    expect: {approval: {" + approval + "}}\n"
	}
	for _, tt := range []struct{ approval, differs string }{
		{`deny: 2, calendar: office, reminders: [1h30m, 120m], suggest: [ada@example.com]`, ""},
		{`any_of: [{role: r, needed: 1}, {role: q, needed: 2}], ticket: {max_age: 43200m, states: [Done], system: jira}`, ""},
		{`ask: {required: [reason], properties: {reason: {type: string}}}`, ""},
		{`reminders: [90m]`, "approval.reminders"},
		{`ticket: {system: jira, states: [Done]}`, "approval.ticket"},
		{`ask: {required: [reason]}`, "approval.ask"},
		{`any_of: [{role: q, needed: 2}, {role: r, needed: 1}]`, "approval.any_of"},
		{`deny: 1`, "approval.deny"},
	} {
		f, problems := policytest.Load([]byte(file(tt.approval)), "t.yaml")
		if f == nil {
			t.Errorf("%s: %v", tt.approval, problems)
			continue
		}
		r := f.Run(b, now)[0]
		if got := len(r.Differences) > 0; got != (tt.differs != "") || got && r.Differences[0].Field != tt.differs {
			t.Errorf("%s: got %+v, want a difference in %q", tt.approval, r.Differences, tt.differs)
		}
	}
	for approval, code := range map[string]string{
		"reminders: 90m": "type", "reminders: [soon]": "not_a_duration", "ticket: {state: [Done]}": "unknown_field", "ticket: {max_age: 30d}": "not_a_duration", "reminder: [1h]": "unknown_field",
	} {
		if f, problems := policytest.Load([]byte(file(approval)), "t.yaml"); f != nil || len(problems) != 1 || problems[0].Code != code {
			t.Errorf("%s: got %v, want %s", approval, problems, code)
		}
	}
}

// A test sees what the gate sees: what is only claimed is tried as true and as false,
// and the strictest counts, unless the rule believes it.
func TestClaimsAreTriedBothWays(t *testing.T) {
	b := load(t, `version: "1"
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2036-01-01T00:00:00Z"
defaults: {outcome: DENY}
rules:
  - {id: public, description: d, match: {tool_name: send, environment: "*"}, when: {data_labels_any: [public]}, outcome: ALLOW}
  - {id: believed, description: d, match: {tool_name: publish, environment: "*"}, when: {data_labels_any: [public]}, trust_claims: [data_labels], outcome: ALLOW}
  - {id: asked, description: d, match: {tool_name: [send, publish], environment: "*"}, outcome: REQUIRE_APPROVAL}
`)
	f, problems := policytest.Load([]byte(`tests:
  - {name: registered, call: {tool: send, data_labels: [public]}, expect: {outcome: ALLOW, rule: public}}
  - {name: claimed, call: {tool: send, claims: {data_labels: [public]}}, expect: {outcome: REQUIRE_APPROVAL, rule: asked}}
  - {name: claimed and believed, call: {tool: publish, claims: {data_labels: [public]}}, expect: {outcome: ALLOW, rule: believed}}
  - {name: not claimed, call: {tool: publish}, expect: {outcome: REQUIRE_APPROVAL}}
`), "claims.yaml")
	if f == nil {
		t.Fatal(problems)
	}
	for _, r := range f.Run(b, now) {
		if len(r.Differences) > 0 {
			t.Errorf("%s: %s", r.Name, r.Text())
		}
	}
	if _, problems := policytest.Load([]byte(`{"tests": [{"name": "x", "call": {"tool": "send", "claims": {"tool": "pay"}}, "expect": {"rule": "x"}}]}`), ""); len(problems) == 0 {
		t.Error("a claim that there is not is read")
	}
	root, _ := source.Read([]byte(`{"tool": "send", "claims": {"provider": "x"}}`), source.Options{})
	if _, problems := policytest.ReadCall(root); len(problems) != 1 || problems[0].Code != "claims_untried" {
		t.Errorf("outside a test: %v", problems)
	}
}
