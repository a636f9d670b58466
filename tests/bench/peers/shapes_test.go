package peers

import "fmt"

// shape is a policy, a call, and the rule that decides it.
type shape struct {
	name  string
	rules []rule
	tool  string
	want  string
}

const hundred = 100

// shapes is what is measured, 100 rules each.
func shapes() []shape {
	return []shape{
		{"first match", plain(hundred), name(0), "r0"},
		{"last match", plain(hundred), name(hundred - 1), fmt.Sprintf("r%d", hundred-1)},
		{"last match, conditions", conditions(hundred, name), name(hundred - 1), fmt.Sprintf("r%d", hundred-1)},
		{"last match, conditions, every rule for every tool", conditions(hundred, anyTool), name(hundred - 1), fmt.Sprintf("r%d", hundred-1)},
	}
}

func anyTool(int) string { return "*" }

// plain is n rules for a tool each, every other one for an environment.
func plain(n int) []rule {
	rules := make([]rule, n)
	for i := range rules {
		rules[i] = rule{id: fmt.Sprintf("r%d", i), tool: name(i), allow: i%2 == 0}
		if i%2 == 1 {
			rules[i].environment = "prod"
		}
	}
	return rules
}

// conditions is n rules with an argument and a keyword. The argument is as all
// of them want it; only the last one's keyword is there, so that an engine has
// to search for all keywords of the rules that are for the tool.
func conditions(n int, tool func(i int) string) []rule {
	rules := plain(n)
	for i := range rules {
		r := &rules[i]
		r.tool, r.argument, r.above, r.word = tool(i), "amount", 100, fmt.Sprintf("keyword %d", i)
	}
	rules[n-1].word = "photos"
	return rules
}

// elsewhere is n rules for every tool, in an environment that is not the
// call's, but for the last.
func elsewhere(n int) []rule {
	rules := plain(n)
	for i := range rules {
		rules[i].tool, rules[i].environment = "*", "dev"
	}
	rules[n-1].environment = "prod"
	return rules
}
