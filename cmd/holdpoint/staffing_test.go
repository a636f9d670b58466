package main

import (
	"fmt"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

func TestStaffing(t *testing.T) {
	people := []engine.Person{
		{Identity: "ada", Roles: []string{"a"}}, {Identity: "ben", Roles: []string{"a"}}, {Identity: "ben", Roles: []string{"a"}}, {Identity: "gone", Roles: []string{"a", "b"}, Disabled: true},
	}
	for _, tc := range []struct {
		rule approval.Rule
		want string // short, approve, deny, widen
	}{
		{approval.Rule{Role: "a", Needed: 2}, "<nil> <nil> <nil> <nil>"},
		{approval.Rule{Role: "a", Needed: 3}, `people with the role "a": 2, needed: 3 people with the role "a": 2, needed: 3 <nil> <nil>`},
		{approval.Rule{Role: "a", Needed: 2, Deny: 3}, `people with the role "a": 2, needed: 3 <nil> people with the role "a": 2, needed: 3 <nil>`},
		{approval.Rule{Role: "a", Needed: 3, Deny: 4}, `people with the role "a": 2, needed: 4 people with the role "a": 2, needed: 3 people with the role "a": 2, needed: 4 <nil>`},
		{approval.Rule{Role: "b", Needed: 2, Deny: 1}, `people with the role "b": 0, needed: 2 people with the role "b": 0, needed: 2 people with the role "b": 0, needed: 1 <nil>`},
		{approval.Rule{Role: "a", Needed: 1, IfTooFew: "b"}, `<nil> <nil> <nil> people with the role "b": 0, needed: 1`},
		{approval.Rule{Role: "on-call/x", Needed: 9, IfTooFew: "a"}, "<nil> <nil> <nil> <nil>"},
	} {
		for _, r := range []approval.Routing{{Default: tc.rule}, {Rules: []approval.Rule{tc.rule}}} {
			list := staffing(r, people)
			s := list[0]
			if got := fmt.Sprint(s.shortage(), " ", s.approve, " ", s.deny, " ", s.widen); len(list) != len(r.Rules)+1 || got != tc.want {
				t.Errorf("%+v: got %s, want %s", tc.rule, got, tc.want)
			}
		}
	}
}
