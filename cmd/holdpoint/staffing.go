package main

import (
	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// understaffedRule is a rule of the routing, and what there are too few people for.
type understaffedRule struct {
	approval.Rule
	// approve and deny say that too few have the rule's role, nil that enough do.
	approve, deny error
	// widen says that nobody has the role to which it widens.
	widen error
}

// shortage is what the rule lacks of its own role, nil for nothing.
func (s understaffedRule) shortage() error {
	if s.approve == nil || s.Deny > s.Needed {
		return s.deny
	}
	return s.approve
}

// staffing holds the routing against the people that there are: the one rule by which
// serve warns, and doctor finds fault.
func staffing(r approval.Routing, people []engine.Person) []understaffedRule {
	var list []understaffedRule
	for _, rule := range append(r.Rules[:len(r.Rules):len(r.Rules)], r.Default) {
		s := understaffedRule{Rule: rule, approve: approval.Enough(people, rule.Role, rule.Needed), deny: approval.Enough(people, rule.Role, rule.Deny)}
		if rule.IfTooFew != "" {
			s.widen = approval.Enough(people, rule.IfTooFew, 1)
		}
		list = append(list, s)
	}
	return list
}
