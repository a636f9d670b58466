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
		{approval.Rule{Role: "a", Needed: 3}, "2 of 3 people have the role 2 of 3 people have the role <nil> <nil>"},
		{approval.Rule{Role: "a", Needed: 2, Deny: 3}, "2 of 3 people have the role <nil> 2 of 3 people have the role <nil>"},
		{approval.Rule{Role: "a", Needed: 3, Deny: 4}, "2 of 4 people have the role 2 of 3 people have the role 2 of 4 people have the role <nil>"},
		{approval.Rule{Role: "b", Needed: 2, Deny: 1}, "0 of 2 people have the role 0 of 2 people have the role 0 of 1 people have the role <nil>"},
		{approval.Rule{Role: "a", Needed: 1, IfTooFew: "b"}, "<nil> <nil> <nil> 0 of 1 people have the role"},
		{approval.Rule{Role: "on-call/x", Needed: 9, IfTooFew: "a"}, "<nil> <nil> <nil> <nil>"},
	} {
		for _, r := range []approval.Routing{{Default: tc.rule}, {Rules: []approval.Rule{tc.rule}}} {
			list := staffing(r, people)
			s := list[0]
			if got := fmt.Sprint(s.short(), " ", s.approve, " ", s.deny, " ", s.widen); len(list) != len(r.Rules)+1 || got != tc.want {
				t.Errorf("%+v: got %s, want %s", tc.rule, got, tc.want)
			}
		}
	}
}
