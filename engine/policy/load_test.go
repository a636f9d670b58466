package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine/policy"
)

// bundleOf is a JSON bundle with these rules, the first of which is in line 5.
func bundleOf(rules ...string) string {
	return "{\n\"version\": \"1.0.0\", \"generated_at\": \"2026-01-01T00:00:00Z\", \"expires_at\": \"2099-01-01T00:00:00Z\",\n" +
		"\"defaults\": {\"outcome\": \"DENY\"},\n\"rules\": [\n" + strings.Join(rules, ",\n") + "\n]}"
}

// ruleOf is an ALLOW rule for every call with these further members of match,
// when and the rule itself.
func ruleOf(id, match, when, more string) string {
	r := `{"id": "` + id + `", "description": "d", "match": {"tool_name": "*", "environment": "*"` + match + `}`
	if when != "" {
		r += `, "when": {` + when + `}`
	}
	if !strings.Contains(more, `"outcome"`) {
		r += `, "outcome": "ALLOW"`
	}
	return r + more + "}"
}

func load(t testing.TB, text string) *policy.Bundle {
	t.Helper()
	b, problems := policy.Load([]byte(text), policy.Options{Now: now})
	if b == nil {
		t.Fatalf("the bundle was refused: %v\n%s", problems, text)
	}
	return b
}

// Every load error has a code of its own, a place and a message that helps.
func TestLoadErrors(t *testing.T) {
	ok := bundleOf(ruleOf("a", "", "", ""))
	edit := func(old, replacement string) string {
		if !strings.Contains(ok, old) {
			t.Fatalf("the bundle does not hold %s", old)
		}
		return strings.Replace(ok, old, replacement, 1)
	}
	long := strings.Repeat("a", 513)
	deep := strings.Repeat("[", 17) + strings.Repeat("]", 17)
	for _, tt := range []struct {
		name, text string
		want       string // line:column code rule
		says       string // part of the message
	}{
		{"not an object", `[]`, "1:1 type", "a bundle has to be an object"},
		{"not JSON", "{\n \"version\" 1}", "2:12 syntax", "colon"},
		{"duplicate key", "{\n\"version\": \"1\",\n \"version\": \"2\"}", "3:2 duplicate_key", "same name"},
		{"too deep for JSON", "{\"a\":" + strings.Repeat("[", 70) + strings.Repeat("]", 70) + "}", "1:69 too_deep", "inside each other"},
		{"no version", edit(`"version": "1.0.0", `, ""), "1:1 missing", `"version" is missing`},
		{"empty version", edit(`"1.0.0"`, `""`), "2:12 empty", "version must not be empty"},
		{"version no text", edit(`"1.0.0"`, `1`), "2:12 type", "has to be a string, it is a number (put it in quotes)"},
		{"no generated_at", edit(`"generated_at": "2026-01-01T00:00:00Z", `, ""), "1:1 missing", "generated_at"},
		{"empty expires_at", edit(`"2099-01-01T00:00:00Z"`, `""`), "2:75 empty", "expires_at must not be empty"},
		{"not a time", edit(`"2099-01-01T00:00:00Z"`, `"tomorrow"`), "2:75 not_a_time", `"tomorrow" is not a time`},
		{"no such day", edit(`"2099-01-01T00:00:00Z"`, `"2099-02-30"`), "2:75 not_a_time", "is not a time"},
		{"dates the wrong way round", edit(`2099-01`, `2025-01`), "2:75 dates", "expires_at is not after generated_at"},
		{"no life at all", edit(`2099-01-01`, `2026-01-01`), "2:75 dates", "not after"},
		{"expired", edit(`2099-01-01`, `2026-06-01`), "2:75 expired", "has expired"},
		{"no defaults", edit(`"defaults": {"outcome": "DENY"},`, ""), "1:1 missing", "defaults"},
		{"defaults no object", edit(`{"outcome": "DENY"},`, "null,"), "3:13 type", "defaults has to be an object, it is null"},
		{"defaults without outcome", edit(`{"outcome": "DENY"},`, "{},"), "3:13 missing", "outcome"},
		{"lower-case default", edit(`"DENY"`, `"deny"`), "3:25 unknown_outcome", "write DENY"},
		{"event outcome", edit(`"ALLOW"`, `"KILL_SWITCH"`), "5:93 unknown_outcome a", "not an outcome that a policy can decide"},
		{"no rules", edit(`"rules"`, `"rulez"`), "4:1 missing", "did you mean \"rules\"?"},
		{"rules no array", "{\"version\":\"1\",\"generated_at\":\"2026\",\"expires_at\":\"2099\",\"defaults\":{\"outcome\":\"DENY\"},\n\"rules\":{}}", "2:9 type", "rules has to be an array"},
		{"rule no object", bundleOf("5"), "5:1 type rules[0]", "a rule has to be an object"},
		{"no id", bundleOf(`{"description":"d","match":{"tool_name":"*","environment":"*"},"outcome":"DENY"}`), "5:1 missing rules[0]", `"id" is missing`},
		{"empty id", bundleOf(ruleOf("", "", "", "")), "5:8 empty rules[0]", "id must not be empty"},
		{"duplicate id", bundleOf(ruleOf("a", "", "", ""), ruleOf("a", "", "", "")), "6:8 duplicate_id a", "the first is in line 5"},
		{"description no text", edit(`"d"`, `null`), "5:28 type a", "description has to be a string, it is null"},
		{"no description", edit(`"description": "d", `, ``), "5:1 missing a", "description"},
		{"match no object", edit(`{"tool_name": "*", "environment": "*"}`, `[]`), "5:42 type a", "match has to be an object, it is an array"},
		{"no tool_name", edit(`"tool_name": "*", `, ``), "5:42 missing a", "tool_name"},
		{"tool_name of numbers", edit(`"tool_name": "*"`, `"tool_name": ["x", 5]`), "5:62 type a", "match.tool_name[1] has to be a string"},
		{"tool_name an object", edit(`"tool_name": "*"`, `"tool_name": {}`), "5:56 type a", "a string or an array of strings"},
		{"environment a list", edit(`"environment": "*"`, `"environment": ["prod"]`), "5:76 type a", "match.environment has to be a string"},
		{"agent_type a number", bundleOf(ruleOf("a", `, "agent_type": 5`, "", "")), "5:95 type a", "match.agent_type"},
		{"roles null", bundleOf(ruleOf("a", `, "agent_roles_any": null`, "", "")), "5:100 type a", "array of strings, it is null"},
		{"roles of numbers", bundleOf(ruleOf("a", `, "agent_roles_any": [1]`, "", "")), "5:101 type a", "agent_roles_any[0]"},
		{"trust level", bundleOf(ruleOf("a", `, "trust_level_min": "verifed"`, "", "")), "5:100 unknown_trust_level a", `did you mean "verified"?`},
		{"trust level of another case", bundleOf(ruleOf("a", `, "trust_level_min": "Basic"`, "", "")), "5:100 unknown_trust_level a", `"basic"`},
		{"dialect", bundleOf(ruleOf("a", `, "dialect": "aana"`, "", "")), "5:92 dialect a", "in whatever system's document"},
		{"category", bundleOf(ruleOf("a", `, "tool_category": ["write", "writes"]`, "", "")), "5:98 unknown_category a", "writes"},
		{"registered a text", bundleOf(ruleOf("a", `, "tool_registered": "yes"`, "", "")), "5:100 type a", "tool_registered has to be a boolean"},
		{"claim", bundleOf(ruleOf("a", "", "", `, "outcome": "DENY", "trust_claims": ["labels"]`)), "5:117 unknown_claim a", "labels"},
		{"when null", bundleOf(strings.Replace(ruleOf("a", "", "x", ""), "{x}", "null", 1)), "5:90 type a", "when has to be an object"},
		{"contains_any no array", bundleOf(ruleOf("a", "", `"contains_any": "x"`, "")), "5:107 type a", "when.contains_any has to be an array of strings"},
		{"not_contains null", bundleOf(ruleOf("a", "", `"not_contains": null`, "")), "5:107 type a", "when.not_contains"},
		{"labels of numbers", bundleOf(ruleOf("a", "", `"data_labels_any": [5]`, "")), "5:111 type a", "when.data_labels_any[0]"},
		{"regex null", bundleOf(ruleOf("a", "", `"matches_regex": null`, "")), "5:108 type a", "when.matches_regex"},
		{"regex too long", bundleOf(ruleOf("a", "", `"matches_regex": "`+long+`"`, "")), "5:108 regex_too_long a", "has 513 characters, at most 512"},
		{"regex not compiling", bundleOf(ruleOf("a", "", `"matches_regex": "a)"`, "")), "5:108 regex_syntax a", "closing parenthesis"},
		{"regex unsafe", bundleOf(ruleOf("a", "", `"matches_regex": "(a+)+"`, "")), "5:108 regex_unsafe a", "unsafe"},
		{"regex too large", bundleOf(ruleOf("a", "", `"matches_regex": "[a-z]{1,1000}x"`, "")), "5:108 regex_too_large a", "repeat less often"},
		{"back-reference", bundleOf(ruleOf("a", "", `"matches_regex": "(a)\\1"`, "")), "5:108 regex_unsupported a", "back-references"},
		{"args no object", bundleOf(ruleOf("a", "", `"tool_args_match": 5`, "")), "5:110 type a", "when.tool_args_match has to be an object"},
		{"unknown operator", bundleOf(ruleOf("a", "", `"tool_args_match": {"n": {"gt": 1, "foo": 1}}`, "")), "5:126 unknown_operator a", `operator "foo"`},
		{"operand a text", bundleOf(ruleOf("a", "", `"tool_args_match": {"n": {"gt": "10"}}`, "")), "5:123 operand_not_a_number a", "gt has to be a number, it is a string"},
		{"approver_role a number", bundleOf(ruleOf("a", "", "", `, "approver_role": 1`)), "5:119 type a", "approver_role"},
		{"constraints a list", bundleOf(ruleOf("a", "", "", `, "constraints": []`)), "5:117 type a", "constraints has to be an object"},
		{"too deep", bundleOf(ruleOf("a", "", "", `, "constraints": {"x": `+deep+`}`)), "5:139 too_deep", "more than 20"},
		{"stakes a number", bundleOf(ruleOf("a", "", "", `, "stakes": 1`)), "5:112 type a", "stakes has to be a string"},
		{"stakes without a field", bundleOf(ruleOf("a", "", "", `, "stakes": "Pay"`)), "5:112 stakes a", "names no argument"},
		{"stakes no template", bundleOf(ruleOf("a", "", "", `, "stakes": "Pay {amount"`)), "5:112 stakes a", "is not closed"},
		{"approval no object", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_APPROVAL", "approval": 2`)), "5:125 type a", "approval has to be an object"},
		{"approval misspelt", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_APPROVAL", "approval": {"qorum": 2}`)), "5:126 unknown_approval_field a", `did you mean "quorum"?`},
		{"quorum", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_APPROVAL", "approval": {"quorum": 21}`)), "5:136 approval_people a", "from 1 to 20"},
		{"half a person", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_APPROVAL", "approval": {"quorum": 1.5}`)), "5:136 approval_people a", "whole number"},
		{"no groups", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_APPROVAL", "approval": {"groups": []}`)), "5:136 approval_groups a", "1 to 20 groups"},
		{"group twice", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_APPROVAL", "approval": {"groups": [{"role":"r","needed":1},{"role":"r","needed":1}]}`)), "5:169 approval_groups a", "two groups have the role"},
		{"too many people", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_APPROVAL", "approval": {"groups": [{"role":"r","needed":11},{"role":"q","needed":10}]}`)), "5:136 approval_groups a", "ask for 21 people"},
		{"groups and quorum", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_APPROVAL", "approval": {"quorum": 1, "groups": [{"role":"r","needed":1}]}`)), "5:149 approval_contradiction a", "not both"},
		{"groups and role", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_APPROVAL", "approver_role": "r", "approval": {"groups": [{"role":"r","needed":1}]}`)), "5:158 approval_contradiction a", "not both"},
		{"duration", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_HUMAN", "approval": {"within": "1 day"}`)), "5:133 approval_duration a", "is not a duration"},
		{"too long", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_HUMAN", "approval": {"within": "2161h"}`)), "5:133 approval_duration a", "90 days"},
		{"within too long", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_HUMAN", "approval": {"within": "2h", "expires_in": "1h"}`)), "5:133 approval_times a", "longer than"},
		{"escalation too late", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_HUMAN", "approval": {"expires_in": "1h", "escalation": [{"after": "2h", "role": "m"}]}`)), "5:168 approval_times a", "after approval.expires_in"},
		{"escalations out of order", bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_HUMAN", "approval": {"escalation": [{"after": "2h", "role": "m"},{"after": "1h", "role": "m"}]}`)), "5:177 approval_times a", "in order of time"},
		{"a misspelt field is one mistake", strings.Replace(bundleOf(ruleOf("a", "", "", "")), `"outcome": "ALLOW"`, `"outcom": "ALLOW"`, 1), "5:82 missing a", `did you mean "outcome"?`},
		{"approval of an ALLOW", bundleOf(ruleOf("a", "", "", `, "approval": {"quorum": 2}`)), "5:114 approval_without_wait a", "waits for nobody"},
	} {
		b, problems := policy.Load([]byte(tt.text), policy.Options{File: "p.json", Now: now})
		var found []string
		for _, p := range problems {
			if !p.Warning {
				found = append(found, strings.TrimSpace(fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Code, p.Rule)))
			}
		}
		if b != nil || !slices.Equal(found, []string{tt.want}) {
			t.Errorf("%s: got %q, want %q\n%v", tt.name, found, tt.want, problems)
			continue
		}
		text := ""
		for _, p := range problems {
			text += p.String() + "\n"
		}
		if !strings.Contains(text, tt.says) {
			t.Errorf("%s: got %s, want it to say %q", tt.name, text, tt.says)
		}
	}
}

// A rule with an error keeps no other error from being reported, and there is
// no bundle without it.
func TestLoadReportsEverything(t *testing.T) {
	b, problems := policy.Load([]byte(bundleOf(
		ruleOf("a", `, "trust_level_min": "x"`, `"contains_any": 1, "matches_regex": "("`, ""), "5",
		ruleOf("c", "", "", ""), ruleOf("d", "", "", `, "outcome": "X"`))), policy.Options{Now: now})
	var codes []string
	for _, p := range problems {
		codes = append(codes, p.Code)
	}
	if want := []string{"unknown_trust_level", "type", "regex_syntax", "type", "unknown_outcome"}; b != nil || !slices.Equal(codes, want) {
		t.Errorf("got %q, want %q", codes, want)
	}
}

func TestProblemString(t *testing.T) {
	p := policy.Problem{File: "p.yaml", Line: 12, Column: 7, Rule: "pay", Message: "it is wrong", Hint: "mend it"}
	if got, want := p.String(), `p.yaml:12:7: rule "pay": it is wrong (mend it)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := (policy.Problem{Message: "no", Warning: true}).String(), "warning: no"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What is ignored is not ignored in silence.
func TestLoadWarnings(t *testing.T) {
	b, problems := policy.Load([]byte(bundleOf(ruleOf("a", `, "agent_type": "", "tool_provider": null, "tool": "x"`, `"contain_any": ["x"]`, `, "approvers": 1`))), policy.Options{Now: now})
	var codes []string
	for _, p := range problems {
		codes = append(codes, p.Code)
		if !p.Warning || p.Line != 5 || p.Column == 0 {
			t.Errorf("got %+v, want a warning with its place", p)
		}
	}
	slices.Sort(codes)
	if want := []string{"empty_condition", "empty_condition", "unknown_field", "unknown_field", "unknown_field"}; b == nil || !slices.Equal(codes, want) {
		t.Errorf("got %q, want %q", codes, want)
	}
}

// The bounds hold before anything costly is done.
func TestHostileBundles(t *testing.T) {
	for name, tt := range map[string]struct{ text, code string }{
		"1 MiB and 1":        {bundleOf() + strings.Repeat(" ", policy.MaxBytes), "too_large"},
		"many rules":         {bundleOf(strings.TrimSuffix(strings.Repeat("5,", 90_000), ",")), "too_many_rules"},
		"too many values":    {bundleOf(strings.TrimSuffix(strings.Repeat("5,", 100_000), ",")), "too_many_values"},
		"many keys":          {`{"a":1` + manyKeys(60_000) + `}`, "too_many_members"},
		"slow regex":         {bundleOf(ruleOf("a", "", `"matches_regex": "[a-z]{1,1000}[a-z]{1,1000}[a-z]{1,1000}"`, "")), "regex_too_large"},
		"nested repetition":  {bundleOf(ruleOf("a", "", `"matches_regex": "(?:(?:(?:a{30}){30}){30}){30}"`, "")), "regex_too_large"},
		"nested repetition2": {bundleOf(ruleOf("a", "", `"matches_regex": "(?:(?:(?:a{900}){900}){900}){900}"`, "")), "regex_too_large"},
		"YAML flow":          {strings.Repeat("[", 1<<19), "too_deep"},
		"YAML braces":        {"a: " + strings.Repeat("{a: ", 1<<17), "too_deep"},
		"YAML dashes":        {strings.Repeat("- ", 1<<18) + "a", "too_deep"},
		"YAML many dashes":   {"rules:\n  " + strings.Repeat("- ", 100) + "a", "too_deep"},
		"YAML keys":          {strings.Repeat("k: v\n", 200_000), "too_many_members"},
		"YAML quoted keys":   {strings.Repeat("\"a\": \"b\"\n", 100_000), "too_many_members"},
		"YAML anchors":       {"a: &a [x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]", "yaml_alias"},
		"YAML quotes":        {"a: \"" + strings.Repeat("x", 1<<19), "syntax"},
	} {
		_, problems := policy.Load([]byte(tt.text), policy.Options{Now: now})
		if len(problems) == 0 || !slices.ContainsFunc(problems, func(p policy.Problem) bool { return p.Code == tt.code }) {
			t.Errorf("%s: got %v, want %s", name, problems[:min(3, len(problems))], tt.code)
		}
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	return b.String()
}

func TestQuorumUnreachable(t *testing.T) {
	people := func(role string) []string {
		return map[string][]string{"": {"ada", "ben", "cleo"}, "finance": {"ada"}, "legal": {"ben", "cleo"}, "law": {"ada", "ben"}, "audit": {"ada"}}[role]
	}
	for _, tt := range []struct {
		name, more, says string
	}{
		{"plain", `, "outcome": "REQUIRE_APPROVAL"`, ""},
		{"quorum of anybody", `, "outcome": "REQUIRE_APPROVAL", "approval": {"quorum": 3}`, ""},
		{"too large", `, "outcome": "REQUIRE_HUMAN", "approval": {"quorum": 4}`, "needs 4 different people who may review, and there are 3"},
		{"role", `, "outcome": "REQUIRE_APPROVAL", "approver_role": "finance", "approval": {"quorum": 2}`, `needs 2 people with the role "finance", and there are 1`},
		{"nobody", `, "outcome": "REQUIRE_APPROVAL", "approver_role": "nobody"`, "there are 0"},
		{"groups", `, "outcome": "REQUIRE_APPROVAL", "approval": {"groups": [{"role": "finance", "needed": 1}, {"role": "legal", "needed": 2}]}`, ""},
		{"group too large", `, "outcome": "REQUIRE_APPROVAL", "approval": {"groups": [{"role": "finance", "needed": 2}]}`, `needs 2 people with the role "finance"`},
		{"one person in two groups", `, "outcome": "REQUIRE_APPROVAL", "approval": {"groups": [{"role": "finance", "needed": 1}, {"role": "audit", "needed": 1}]}`, "needs 2 different people who may review, and there are 1"},
		{"one of two in two groups", `, "outcome": "REQUIRE_APPROVAL", "approval": {"groups": [{"role": "law", "needed": 1}, {"role": "finance", "needed": 1}]}`, ""},
		{"a ticket and people", `, "outcome": "REQUIRE_TICKET", "approval": {"quorum": 20}`, "needs 20 different people"},
		{"a ticket alone", `, "outcome": "REQUIRE_TICKET", "approver_role": "nobody"`, ""},
		{"nobody waits", `, "outcome": "DENY", "approver_role": "nobody"`, ""},
	} {
		b, problems := policy.Load([]byte(bundleOf(ruleOf("a", "", "", tt.more))), policy.Options{Now: now, Reviewers: people})
		switch {
		case tt.says == "" && b == nil:
			t.Errorf("%s: got %v, want no problem", tt.name, problems)
		case tt.says != "" && (b != nil || problems[0].Code != "quorum_unreachable" || !strings.Contains(problems[0].Message, tt.says)):
			t.Errorf("%s: got %v, want it to say %q", tt.name, problems, tt.says)
		}
	}
}

// Times are ISO 8601 as ECMAScript reads it.
func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2099":                          time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
		"2099-03":                       time.Date(2099, 3, 1, 0, 0, 0, 0, time.UTC),
		"2099-03-04":                    time.Date(2099, 3, 4, 0, 0, 0, 0, time.UTC),
		"2099-03-04T05:06":              time.Date(2099, 3, 4, 5, 6, 0, 0, time.UTC),
		"2099-03-04T05:06:07":           time.Date(2099, 3, 4, 5, 6, 7, 0, time.UTC),
		"2099-03-04T05:06:07.5Z":        time.Date(2099, 3, 4, 5, 6, 7, 5e8, time.UTC),
		"2099-03-04T05:06:07.000+02:00": time.Date(2099, 3, 4, 3, 6, 7, 0, time.UTC),
	} {
		b := load(t, strings.Replace(bundleOf(), "2099-01-01T00:00:00Z", text, 1))
		if !b.ExpiresAt.Equal(want) {
			t.Errorf("%s: got %v, want %v", text, b.ExpiresAt, want)
		}
	}
	for _, text := range []string{"99", "2099-1-1", "2099-01-01 00:00:00Z", "2099-01-01T24:30:00Z", "2099-13-01", "4102444800000", "2099-01-01T00:00:00,5Z", " 2099"} {
		if b, _ := policy.Load([]byte(strings.Replace(bundleOf(), "2099-01-01T00:00:00Z", text, 1)), policy.Options{}); b != nil {
			t.Errorf("%q is taken for a time", text)
		}
	}
}
