package policy_test

import (
	"strings"
	"testing"

	"holdpoint/engine/policy"
)

// A tool may be in many lists at once; the first rule in the bundle's order
// decides all the same.
func TestManyPrefixes(t *testing.T) {
	const tool = "abcdefghijklmnopqrst"
	var rules []string
	for i := len(tool); i > 0; i-- {
		id := tool[:i]
		r := ruleOf(id, `,"agent_type":"`+id+`"`, "", "")
		rules = append(rules, strings.Replace(r, `"tool_name": "*"`, `"tool_name": "`+id+`*"`, 1))
	}
	rules = append(rules, ruleOf("all", "", "", ""))
	b := load(t, bundleOf(rules...))
	for i := 1; i <= len(tool); i++ {
		id := tool[:i]
		if d := b.Decide(&policy.Request{Tool: tool, AgentType: &id}, now); d.Rule != id {
			t.Errorf("%s: got rule %q", id, d.Rule)
		}
	}
	if d := b.Decide(&policy.Request{Tool: tool}, now); d.Rule != "all" {
		t.Errorf("got rule %q, want the last", d.Rule)
	}
}
