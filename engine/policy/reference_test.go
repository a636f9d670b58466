package policy_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine/dialect/spm"
	"holdpoint/engine/policy"
	"holdpoint/engine/policy/pattern"
)

// naive decides straight from the specification's text: no index, nothing
// prepared, over plain Go values. It answers the id of the rule, or "".
func naive(bundle, request map[string]any) string {
	for _, r := range bundle["rules"].([]any) {
		rule := r.(map[string]any)
		when, _ := rule["when"].(map[string]any)
		if naiveMatch(rule["match"].(map[string]any), request) && naiveWhen(when, request) {
			return rule["id"].(string)
		}
	}
	return ""
}

func dig(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func naiveMatch(match, request map[string]any) bool {
	tool, _ := dig(request, "action", "tool_name").(string)
	switch want := match["tool_name"].(type) {
	case string:
		prefix, isPrefix := strings.CutSuffix(want, "*")
		if want != "*" && !(isPrefix && prefix != "" && strings.HasPrefix(tool, prefix)) && want != tool {
			return false
		}
	case []any:
		if !slices.Contains(want, any(tool)) {
			return false
		}
	}
	environment, _ := dig(request, "agent", "environment").(string)
	if e := match["environment"]; e != "*" && e != environment {
		return false
	}
	for name, value := range map[string]any{"agent_type": dig(request, "agent", "agent_type"), "tool_provider": dig(request, "action", "tool_identity", "provider")} {
		switch want := match[name].(type) {
		case string:
			if want != "" && value != want {
				return false
			}
		case []any:
			if value == nil || !slices.Contains(want, value) {
				return false
			}
		}
	}
	levels := []any{"untrusted", "basic", "verified", "privileged", "system"}
	if least := match["trust_level_min"]; least != nil && least != "" {
		level := slices.Index(levels, dig(request, "agent", "trust_level"))
		if level < 0 || level < slices.Index(levels, least) {
			return false
		}
	}
	return naiveAny(match["agent_roles_any"], dig(request, "agent", "roles"))
}

func naiveAny(want, value any) bool {
	list, _ := want.([]any)
	given, _ := value.([]any)
	return len(list) == 0 || slices.ContainsFunc(list, func(v any) bool { return slices.Contains(given, v) })
}

// naiveLeaves is in the order of the generated keys, which are sorted.
func naiveLeaves(v any) []string {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, naiveLeaves(e)...)
		}
		return all
	case map[string]any:
		var keys, all []string
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			all = append(all, naiveLeaves(v[k])...)
		}
		return all
	}
	return []string{fmt.Sprint(v)}
}

func naiveWhen(when, request map[string]any) bool {
	values := naiveLeaves(dig(request, "action", "tool_args"))
	if input, _ := dig(request, "context", "user_input").(string); input != "" {
		values = append([]string{input}, values...)
	}
	contains := func(word any) bool {
		return slices.ContainsFunc(values, func(v string) bool {
			return strings.Contains(strings.ToLower(v), strings.ToLower(word.(string)))
		})
	}
	if words, _ := when["contains_any"].([]any); len(words) > 0 && !slices.ContainsFunc(words, contains) {
		return false
	}
	if words, _ := when["not_contains"].([]any); slices.ContainsFunc(words, contains) {
		return false
	}
	if source, _ := when["matches_regex"].(string); source != "" {
		p, err := pattern.Compile(source)
		if err != nil || !p.Match(strings.Join(values, " ")) {
			return false
		}
	}
	if !naiveAny(when["data_labels_any"], dig(request, "context", "data_labels")) {
		return false
	}
	conditions, _ := when["tool_args_match"].(map[string]any)
	args, _ := dig(request, "action", "tool_args").(map[string]any)
	for key, want := range conditions {
		got, present := args[key]
		if !naiveArgument(want, got, present) {
			return false
		}
	}
	return true
}

func naiveArgument(want, got any, present bool) bool {
	ops, _ := want.(map[string]any)
	isOp := false
	for op, operand := range ops {
		number, isNumber := got.(float64)
		limit, _ := operand.(float64)
		var holds bool
		switch op {
		case "gt":
			holds = isNumber && number > limit
		case "gte":
			holds = isNumber && number >= limit
		case "lt":
			holds = isNumber && number < limit
		case "lte":
			holds = isNumber && number <= limit
		case "eq":
			holds = present && naiveScalar(got) && reflect.DeepEqual(got, operand)
		case "neq":
			holds = !present || !naiveScalar(got) || !reflect.DeepEqual(got, operand)
		default:
			continue
		}
		isOp = true
		if !holds {
			return false
		}
	}
	return isOp || present && reflect.DeepEqual(want, got)
}

func naiveScalar(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return false
	}
	return true
}

var (
	genTool  = rapid.SampledFrom([]any{"*", "a", "b", "a*", "ab*", "ab", "*b", "", []any{"a", "ab"}, []any{"a*"}, []any{}, []any{"b", "b"}})
	genEnv   = rapid.SampledFrom([]any{"*", "prod", "dev"})
	genType  = rapid.SampledFrom([]any{nil, "", "x", "y", []any{"x"}, []any{"x", "y"}, []any{}})
	genTrust = rapid.SampledFrom([]any{"", "untrusted", "basic", "verified", "system"})
	genNames = rapid.SampledFrom([]any{[]any{}, []any{"r"}, []any{"r", "s"}, []any{"q"}, []any{""}})
	genRegex = rapid.SampledFrom([]any{"", "a", "^a", "b$", "a b", "[^a]", `\d+`, "(?=a)a", "x(?!y)", "true"})
	genScal  = rapid.SampledFrom([]any{"a", "B", "a b", "", nil, true, false, 0.0, 1.0, 2.5, "1"})
	genNum   = rapid.SampledFrom([]any{0.0, 1.0, 2.0, 2.5})
	genTest  = rapid.OneOf(genScal, rapid.SampledFrom([]any{
		[]any{},
		[]any{1.0},
		map[string]any{},
		map[string]any{"z": 1.0},
		map[string]any{"eq": "a"},
		map[string]any{"neq": 1.0},
		map[string]any{"eq": []any{1.0}},
		map[string]any{"neq": map[string]any{}},
		map[string]any{"eq": nil},
	}), rapid.Custom(func(t *rapid.T) any {
		m := map[string]any{}
		for range rapid.IntRange(1, 2).Draw(t, "operators") {
			m[rapid.SampledFrom([]string{"gt", "gte", "lt", "lte", "eq", "neq"}).Draw(t, "op")] = genNum.Draw(t, "operand")
		}
		return m
	}))
	genArgs = rapid.Custom(func(t *rapid.T) any {
		m := map[string]any{}
		for _, k := range []string{"k", "l"} {
			if rapid.Bool().Draw(t, "has "+k) {
				m[k] = rapid.OneOf(genScal, rapid.SampledFrom([]any{[]any{}, []any{1.0}, map[string]any{"z": 1.0}, []any{"a", nil, "b"}})).Draw(t, k)
			}
		}
		return m
	})
	genRule = rapid.Custom(func(t *rapid.T) map[string]any {
		match := map[string]any{"tool_name": genTool.Draw(t, "tool"), "environment": genEnv.Draw(t, "env")}
		when := map[string]any{}
		for into, options := range map[*map[string]any]map[string]*rapid.Generator[any]{
			&match: {"agent_type": genType, "tool_provider": genType, "trust_level_min": genTrust, "agent_roles_any": genNames},
			&when: {
				"contains_any": genNames, "not_contains": genNames, "matches_regex": genRegex, "data_labels_any": genNames,
				"tool_args_match": rapid.Custom(func(t *rapid.T) any { return map[string]any{"k": genTest.Draw(t, "test")} }),
			},
		} {
			for _, name := range slices.Sorted(mapKeys(options)) {
				if rapid.IntRange(0, 3).Draw(t, "has "+name) == 0 {
					(*into)[name] = options[name].Draw(t, name)
				}
			}
		}
		outcome := rapid.SampledFrom([]string{"ALLOW", "DENY", "REQUIRE_APPROVAL", "STEP_UP", "REQUIRE_TICKET", "REQUIRE_HUMAN"}).Draw(t, "outcome")
		return map[string]any{"description": "d", "match": match, "when": when, "outcome": outcome}
	})
	genRequest = rapid.Custom(func(t *rapid.T) map[string]any {
		agent := map[string]any{"environment": rapid.SampledFrom([]string{"prod", "dev", "x"}).Draw(t, "env")}
		action := map[string]any{"tool_name": rapid.SampledFrom([]string{"a", "b", "ab", "abc", "*b", "", "*"}).Draw(t, "tool"), "tool_args": genArgs.Draw(t, "args")}
		context := map[string]any{}
		if rapid.Bool().Draw(t, "typed") {
			agent["agent_type"], agent["trust_level"] = "x", rapid.SampledFrom([]string{"basic", "system", "god"}).Draw(t, "trust")
			action["tool_identity"] = map[string]any{"provider": "y"}
		}
		if rapid.Bool().Draw(t, "rich") {
			agent["roles"], context["data_labels"], context["user_input"] = genNames.Draw(t, "roles"), genNames.Draw(t, "labels"), rapid.SampledFrom([]string{"", "A r", "x1"}).Draw(t, "input")
		}
		return map[string]any{"agent": agent, "action": action, "context": context}
	})
)

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func drawBundle(t *rapid.T) map[string]any {
	rules := make([]any, rapid.IntRange(0, 12).Draw(t, "rules"))
	for i := range rules {
		r := genRule.Draw(t, "rule")
		r["id"] = fmt.Sprintf("r%d", i)
		rules[i] = r
	}
	return map[string]any{
		"version": "1", "generated_at": "2026-01-01", "expires_at": "2099-01-01", "rules": rules,
		"defaults": map[string]any{"outcome": rapid.SampledFrom([]string{"ALLOW", "DENY"}).Draw(t, "default")},
	}
}

func mustJSON(t rapid.TB, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Decide is the specification: index and prepared conditions change nothing.
// Explain tells the same story, a DENY on top loosens nothing, and no rule
// that Lint calls unreachable is reached.
func TestDecideIsTheSpecification(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bundle := drawBundle(t)
		text := mustJSON(t, bundle)
		b, problems := policy.Load(text, policy.Options{Now: now})
		if b == nil {
			t.Fatalf("%v\n%s", problems, text)
		}
		never := map[string]bool{}
		for _, p := range policy.Lint(b) {
			if p.Code == "never_matches" || p.Code == "shadowed" {
				never[p.Rule] = true
			}
		}
		deny := genRule.Draw(t, "deny")
		deny["id"], deny["outcome"] = "deny", "DENY"
		bundle["rules"] = append([]any{deny}, bundle["rules"].([]any)...)
		stricter, problems := policy.Load(mustJSON(t, bundle), policy.Options{Now: now})
		if stricter == nil {
			t.Fatalf("%v", problems)
		}
		bundle["rules"] = bundle["rules"].([]any)[1:]
		for range 6 {
			request := genRequest.Draw(t, "request")
			r := spm.RequestOf(parseRapid(t, mustJSON(t, request)))
			d := b.Decide(r, now)
			if want := naive(bundle, request); d.Rule != want {
				t.Fatalf("got rule %q, want %q\n%s\n%s", d.Rule, want, text, mustJSON(t, request))
			}
			if never[d.Rule] {
				t.Fatalf("rule %q was said never to match\n%s\n%s", d.Rule, text, mustJSON(t, request))
			}
			e := b.Explain(r, now)
			first := slices.IndexFunc(e.Rules, func(x policy.RuleExplanation) bool { return x.Matched })
			if (first < 0) != (d.Rule == "") || first >= 0 && (e.Rules[first].ID != d.Rule || !e.Rules[first].Decided) {
				t.Fatalf("decided by %q, explained as %+v", d.Rule, e.Rules)
			}
			if got := stricter.Decide(r, now); got.Outcome.Route() < d.Outcome.Route() {
				t.Fatalf("a DENY on top made %s of %s", got.Outcome, d.Outcome)
			}
		}
	})
}
