package policy_test

import (
	"testing"

	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
)

// compileMany makes a bundle of more rules than a document may have.
func compileMany(t testing.TB, empty canon.Value, rules []string) *policy.Bundle {
	t.Helper()
	list := make([]canon.Value, len(rules))
	for i := range rules {
		list[i] = parse(t, rules[i])
	}
	members := empty.Members()
	for i := range members {
		if members[i].Name == "rules" {
			members[i].Value = canon.Array(list...)
		}
	}
	b, problems := policy.Compile(canon.Object(members...), policy.Options{Now: now, MaxRules: len(rules)})
	if b == nil {
		t.Fatalf("%v", problems)
	}
	return b
}
