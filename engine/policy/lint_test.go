package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine/policy"
)

func TestLint(t *testing.T) {
	rule := func(id, tool, more, when, outcome string) string {
		return strings.Replace(ruleOf(id, more, when, `, "outcome": "`+outcome+`"`), `"tool_name": "*"`, `"tool_name": `+tool, 1)
	}
	one := func(when string) []string { return []string{rule("a", `"x"`, "", when, "DENY")} }
	two := func(first, second string) []string {
		return []string{rule("a", `"x"`, "", first, "DENY"), rule("b", `"x"`, "", second, "DENY")}
	}
	number := func(id, outcome string) string {
		return rule(id, `"x"`, "", `"tool_args_match":{"n":{"gt":5}}`, outcome)
	}
	for _, tt := range []struct {
		name  string
		rules []string
		want  []string
	}{
		{"clean", []string{rule("a", `"x"`, "", "", "DENY"), rule("b", `"y"`, "", "", "ALLOW")}, nil},
		{"no tool", []string{rule("a", `[]`, "", "", "DENY")}, []string{"a never_matches"}},
		{"no type", []string{rule("a", `"x"`, `,"agent_type":[]`, "", "DENY")}, []string{"a never_matches"}},
		{"no category", []string{rule("a", `"x"`, `,"tool_category":[]`, "", "DENY")}, []string{"a never_matches"}},
		{"a category of what is not registered", []string{rule("a", `"x"`, `,"tool_category":"write","tool_registered":false`, "", "DENY")}, []string{"a never_matches"}},
		{"registered before a category", []string{rule("a", `"x"`, `,"tool_registered":true`, "", "DENY"), rule("b", `"x"`, `,"tool_category":"write"`, "", "DENY")}, []string{"b shadowed"}},
		{"a label that may be left out", []string{rule("a", `"x"`, "", `"data_labels_any":["pii"]`, "DENY")}, []string{"a label_claimed"}},
		{"a label that is believed", []string{strings.Replace(rule("a", `"x"`, "", `"data_labels_any":["pii"]`, "DENY"), `"outcome"`, `"trust_claims":["data_labels"],"outcome"`, 1)}, nil},
		{"contradiction", one(`"tool_args_match":{"n":{"gt":5,"lt":3}}`), []string{"a never_matches"}},
		{"touching", one(`"tool_args_match":{"n":{"gte":5,"lte":5}}`), nil},
		{"touching, open", one(`"tool_args_match":{"n":{"gte":5,"lt":5}}`), []string{"a never_matches"}},
		{"eq out of range", one(`"tool_args_match":{"n":{"eq":5,"gt":5}}`), []string{"a never_matches"}},
		{"eq an array", one(`"tool_args_match":{"n":{"eq":[1]}}`), []string{"a never_matches"}},
		{"words against words", one(`"contains_any":["Export all","export"],"not_contains":["EXPORT"]`), []string{"a never_matches"}},
		{"some word left", one(`"contains_any":["export","dump"],"not_contains":["export"]`), nil},
		{"same rule", two("", ""), []string{"b shadowed"}},
		{"narrower", two(`"contains_any":["a"]`, `"contains_any":["bab"],"matches_regex":"x"`), []string{"b shadowed"}},
		{"wider", two(`"contains_any":["bab"]`, `"contains_any":["a"]`), nil},
		{"number narrower", two(`"tool_args_match":{"n":{"gt":5}}`, `"tool_args_match":{"n":{"gte":6,"lt":9}}`), []string{"b shadowed"}},
		{"number at the border", two(`"tool_args_match":{"n":{"gt":5}}`, `"tool_args_match":{"n":{"gte":5}}`), nil},
		{"value in range", two(`"tool_args_match":{"n":{"gt":5}}`, `"tool_args_match":{"n":6}`), []string{"b shadowed"}},
		{"neq and missing", two(`"tool_args_match":{"n":{"neq":1}}`, `"tool_args_match":{"n":{"gt":1}}`), []string{"b shadowed"}},
		{"other regex", two(`"matches_regex":"a"`, `"matches_regex":"aa"`), nil},
		{"same regex", two(`"matches_regex":"a"`, `"matches_regex":"a","data_labels_any":["x"]`), []string{"b label_claimed", "b shadowed"}},
		{"forbidden part", two(`"not_contains":["ab"]`, `"not_contains":["a"]`), []string{"b shadowed"}},
		{"prefix", []string{rule("a", `"x*"`, "", "", "DENY"), rule("b", `["xa","xb"]`, "", "", "DENY"), rule("c", `"xy*"`, "", "", "DENY")}, []string{"b shadowed", "c shadowed"}},
		{"trust", []string{rule("a", `"x"`, `,"trust_level_min":"basic"`, "", "DENY"), rule("b", `"x"`, `,"trust_level_min":"system"`, "", "DENY"), rule("c", `"x"`, "", "", "DENY")}, []string{"b shadowed"}},
		{"roles", []string{rule("a", `"x"`, `,"agent_roles_any":["r","s"]`, "", "DENY"), rule("b", `"x"`, `,"agent_roles_any":["s"]`, "", "DENY"), rule("c", `"x"`, `,"agent_roles_any":["s","t"]`, "", "DENY")}, []string{"b shadowed"}},
		{"allow everything", []string{rule("a", `"*"`, "", "", "ALLOW"), rule("b", `"x"`, "", "", "DENY")}, []string{"a allow_everything", "b shadowed"}},
		{"allow the rest", []string{rule("b", `"x"`, "", "", "DENY"), rule("a", `"*"`, "", "", "ALLOW")}, nil},
		{"looser first", []string{rule("a", `"x*"`, "", `"contains_any":["a"]`, "ALLOW"), rule("b", `"xy"`, "", "", "DENY")}, []string{"a order_matters"}},
		{"tiers do not overlap", []string{rule("a", `"x"`, "", `"tool_args_match":{"n":{"lte":100}}`, "ALLOW"), rule("b", `"x"`, "", `"tool_args_match":{"n":{"gt":100}}`, "DENY")}, nil},
		{"an exception, then the rule", []string{rule("a", `"x"`, "", `"contains_any":["a"]`, "ALLOW"), rule("b", `"x"`, "", "", "DENY")}, nil},
		{"a text passes the number by", []string{number("a", "DENY"), rule("b", `"x*"`, "", "", "ALLOW")}, []string{"a number_only"}},
		{"to a rule for some of them", []string{number("a", "DENY"), rule("b", `"x"`, "", `"contains_any":["a"]`, "DENY"), rule("c", `"*"`, "", "", "ALLOW")}, []string{"a number_only"}},
		{"to what asks others", []string{strings.Replace(number("a", "REQUIRE_APPROVAL"), `"outcome"`, `"approver_role":"r","outcome"`, 1), rule("b", `"x"`, "", "", "REQUIRE_APPROVAL")}, []string{"a number_only"}},
		{"to what asks the same", []string{number("a", "REQUIRE_APPROVAL"), rule("b", `"x"`, "", "", "REQUIRE_APPROVAL")}, nil},
		{"to a refusal", []string{number("a", "REQUIRE_APPROVAL"), rule("b", `"x"`, "", "", "DENY"), rule("c", `"*"`, "", "", "ALLOW")}, nil},
		{"to the default, a refusal", []string{number("a", "REQUIRE_APPROVAL")}, nil},
		{"what a number allows", []string{number("a", "ALLOW")}, nil},
		{"asterisk in a list", []string{rule("a", `["x*"]`, "", "", "DENY")}, []string{"a literal_asterisk"}},
		{"asterisk in front", []string{rule("a", `"*x"`, "", "", "DENY")}, []string{"a literal_asterisk"}},
		{"operator of another language", one(`"tool_args_match":{"n":{"$gt":5}}`), []string{"a no_operator"}},
	} {
		var got []string
		for _, p := range policy.Lint(load(t, bundleOf(tt.rules...))) {
			got = append(got, p.Rule+" "+p.Code)
			if !p.Warning || p.Line < 5 || p.Path == "" || p.Message == "" {
				t.Errorf("%s: got %+v, want a warning with its place", tt.name, p)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	soon := strings.Replace(bundleOf(), "2099-01-01", "2026-06-15", 1)
	if got := policy.Lint(load(t, soon)); len(got) != 1 || got[0].Code != "expires_soon" {
		t.Errorf("got %v, want expires_soon", got)
	}
	if b, _ := policy.Load([]byte(soon), policy.Options{}); len(policy.Lint(b)) != 0 {
		t.Error("without a time the end is judged")
	}
	// A rule whose order matters is told of once, however many are behind it.
	var rules []string
	for i := range 30 {
		rules = append(rules, rule(fmt.Sprint("a", i), `"x"`, "", fmt.Sprintf(`"contains_any":["w%d."]`, i), []string{"ALLOW", "DENY"}[i%2]))
	}
	if got := policy.Lint(load(t, bundleOf(rules...))); len(got) != 15 || !strings.Contains(got[0].Message, `"a1", "a3", "a5" and 12 more`) {
		t.Errorf("got %d overlaps, %v", len(got), got)
	}
}
