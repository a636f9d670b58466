package policy

import (
	"fmt"
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/source"
)

// reachable makes sure that enough people exist for what the rule asks for, and
// for what it takes to deny it.
func (c *compiler) reachable(n source.Node, r *rule) {
	people := c.options.Reviewers
	if people == nil {
		return
	}
	var asked []engine.Requirement
	for _, req := range r.decision.Requirements() {
		if req.Kind.PeopleDecide() {
			asked = append(asked, req)
		}
	}
	if len(asked) == 0 {
		return
	}
	approval, _ := n.Get("approval")
	switch a := r.decision.Approval; {
	case a != nil && len(a.Groups) > 0:
		c.reachableGroups(approval, a.Groups)
	case a != nil && len(a.AnyOf) > 0:
		c.reachableAnyOf(approval, a.AnyOf)
	default:
		if there := len(people(asked[0].Role)); there < asked[0].Needed {
			c.unreachable(askField(n), asked[0].Needed, asked[0].Role, there)
		}
	}
	at, _ := approval.Get("deny")
	for _, req := range asked {
		// Each requirement has its own people, of whom so many have to say no.
		if there := len(allOf(req, people)); req.Deny > there {
			c.fail(at, "quorum_unreachable", fmt.Sprintf("%d have to say no to deny it, and there are %d who could", req.Deny, there),
				"ask for fewer noes, or give the role to more people")
			return
		}
	}
}

// askField is the field by which a rule asks for people.
func askField(n source.Node) source.Node {
	for _, name := range []string{"approval", "approver_role"} {
		if at, ok := n.Get(name); ok {
			return at
		}
	}
	return n
}

// allOf are the people who have a say in a requirement, each once.
func allOf(req engine.Requirement, people func(role string) []string) []string {
	if len(req.AnyOf) == 0 {
		return people(req.Role)
	}
	var all []string
	for _, g := range req.AnyOf {
		all = append(all, people(g.Role)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// reachableGroups makes sure that different people can fill all places of all
// groups.
func (c *compiler) reachableGroups(approval source.Node, groups []Group) {
	list, _ := approval.Get("groups")
	places, enough := [][]string{}, true
	for i, g := range groups {
		people := c.options.Reviewers(g.Role)
		if len(people) < g.Needed {
			c.unreachable(list.Element(i), g.Needed, g.Role, len(people))
			enough = false
		}
		for range g.Needed {
			places = append(places, people)
		}
	}
	if !enough {
		return
	}
	if filled := fill(places); filled < len(places) {
		c.unreachable(list, len(places), "", filled)
	}
}

// reachableAnyOf makes sure that one of the groups at least can be filled. One
// that cannot be is not meant, and worth a warning.
func (c *compiler) reachableAnyOf(approval source.Node, groups []Group) {
	list, _ := approval.Get("any_of")
	var short []string
	for _, g := range groups {
		if there := len(c.options.Reviewers(g.Role)); there < g.Needed {
			short = append(short, fmt.Sprintf("%d of %d people with the role %s", there, g.Needed, quote(g.Role)))
		}
	}
	if len(short) == len(groups) {
		c.fail(list, "quorum_unreachable", "no group of approval.any_of can be filled: there are "+strings.Join(short, ", "),
			"ask for fewer, or give a role to more people")
		return
	}
	for i, g := range groups {
		if there := len(c.options.Reviewers(g.Role)); there < g.Needed {
			c.warn(list.Element(i), "group_unreachable",
				fmt.Sprintf("the group needs %d people with the role %s, and there are %d; only the others can agree", g.Needed, quote(g.Role), there), "")
		}
	}
}

// fill is how many of the places can be filled by different people, given who
// could fill each: a largest matching, by augmenting paths.
func fill(places [][]string) int {
	taken := map[string]int{} // by whom which place is filled
	var place func(i int, asked map[string]bool) bool
	place = func(i int, asked map[string]bool) bool {
		for _, who := range places[i] {
			if asked[who] {
				continue
			}
			asked[who] = true
			if other, busy := taken[who]; !busy || place(other, asked) {
				taken[who] = i
				return true
			}
		}
		return false
	}
	filled := 0
	for i := range places {
		if place(i, map[string]bool{}) {
			filled++
		}
	}
	return filled
}

func (c *compiler) unreachable(n source.Node, needed int, role string, there int) {
	who := "different people who may review"
	if role != "" {
		who = "people with the role " + quote(role)
	}
	c.fail(n, "quorum_unreachable", fmt.Sprintf("the rule needs %d %s, and there are %d", needed, who, there), "ask for fewer, or give the role to more people")
}
