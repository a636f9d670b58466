package policy

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

var (
	approvalFields   = []string{"quorum", "groups", "within", "expires_in", "escalation"}
	groupFields      = []string{"role", "needed"}
	escalationFields = []string{"after", "role"}
)

// approval reads Holdpoint's own rule.approval. What it does not know is an
// error: a misspelt quorum would otherwise be no quorum.
func (c *compiler) approval(n source.Node, r *rule) *Approval {
	a := &Approval{}
	if !c.closed(n, "approval", approvalFields) {
		return a
	}
	if m, ok := n.Get("quorum"); ok {
		a.Quorum = c.people(m, "approval.quorum")
	}
	if m, ok := n.Get("groups"); ok {
		a.Groups = c.groups(m)
	}
	if m, ok := n.Get("within"); ok {
		a.Within = c.duration(m, "approval.within")
	}
	if m, ok := n.Get("expires_in"); ok {
		a.ExpiresIn = c.duration(m, "approval.expires_in")
	}
	if m, ok := n.Get("escalation"); ok {
		a.Escalation = c.escalations(m, a)
	}
	if m, _ := n.Get("within"); a.Within > 0 && a.ExpiresIn > 0 && a.Within > a.ExpiresIn {
		c.fail(m, "approval_times", "approval.within is longer than approval.expires_in", "")
	}
	if m, _ := n.Get("groups"); len(a.Groups) > 0 {
		total := 0
		for _, g := range a.Groups {
			total += g.Needed
		}
		if total > MaxQuorum {
			c.fail(m, "approval_groups", fmt.Sprintf("approval.groups ask for %d people, at most %d are allowed", total, MaxQuorum), "")
		}
		if a.Quorum > 0 || r.decision.ApproverRole != "" {
			c.fail(m, "approval_contradiction", "approval.groups stand beside a quorum or an approver_role", "name the roles in groups, or one role in approver_role, not both")
		}
	}
	if r.Outcome == engine.Allow || r.Outcome == engine.Deny {
		c.fail(n, "approval_without_wait", "the outcome "+string(r.Outcome)+" waits for nobody, and cannot have an approval", "remove it, or use REQUIRE_APPROVAL")
	}
	return a
}

// closed reports whether n is an object, and every field of it that is not
// known as an error.
func (c *compiler) closed(n source.Node, what string, known []string) bool {
	if n.Value.Kind() != canon.ObjectKind {
		c.wrongKind(n, what, "an object")
		return false
	}
	for m := range n.Members() {
		if slices.Contains(known, m.Name) {
			continue
		}
		hint := ""
		if near := nearest(m.Name, known); near != "" {
			hint = "did you mean " + strconv.Quote(near) + "?"
		}
		c.report(m.KeyProblem("unknown_approval_field", what+" has no field "+quote(m.Name), hint), false)
	}
	return true
}

func (c *compiler) people(n source.Node, name string) int {
	f := n.Value.Float()
	if n.Value.Kind() != canon.NumberKind || f < 1 || f > MaxQuorum || f != float64(int(f)) {
		c.fail(n, "approval_people", name+" has to be a whole number from 1 to "+strconv.Itoa(MaxQuorum), "")
		return 0
	}
	return int(f)
}

func (c *compiler) duration(n source.Node, name string) engine.Duration {
	const hint = `write it as "30m", "4h" or "1h30m"`
	text, ok := c.text(n, name)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		c.fail(n, "approval_duration", name+" "+quote(text)+" is not a duration", hint)
	case d < time.Second || d > MaxExpiresIn:
		c.fail(n, "approval_duration", name+" has to be from one second to 90 days", hint)
	default:
		return engine.Duration(d)
	}
	return 0
}

func (c *compiler) role(n source.Node, name string) string {
	text, ok := c.text(n, name)
	if ok && text == "" {
		c.fail(n, "empty", name+" must not be empty", "")
	}
	return text
}

func (c *compiler) groups(n source.Node) []Group {
	if n.Value.Kind() != canon.ArrayKind || n.Value.Len() == 0 || n.Value.Len() > MaxQuorum {
		c.fail(n, "approval_groups", "approval.groups has to be an array of 1 to "+strconv.Itoa(MaxQuorum)+" groups", "")
		return nil
	}
	seen := map[string]bool{}
	groups := make([]Group, n.Value.Len())
	for i := range groups {
		e, g := n.Element(i), &groups[i]
		if !c.closed(e, "a group", groupFields) {
			continue
		}
		if m, ok := c.need(e, "role"); ok {
			if g.Role = c.role(m, "a group's role"); seen[g.Role] && g.Role != "" {
				c.fail(m, "approval_groups", "two groups have the role "+quote(g.Role), "add up what they need")
			}
			seen[g.Role] = true
		}
		if m, ok := c.need(e, "needed"); ok {
			g.Needed = c.people(m, "a group's needed")
		}
	}
	return groups
}

func (c *compiler) escalations(n source.Node, a *Approval) []Escalation {
	if n.Value.Kind() != canon.ArrayKind || n.Value.Len() > MaxEscalations {
		c.fail(n, "approval_escalation", "approval.escalation has to be an array of at most "+strconv.Itoa(MaxEscalations)+" steps", "")
		return nil
	}
	steps := make([]Escalation, n.Value.Len())
	last := engine.Duration(0)
	for i := range steps {
		e, s := n.Element(i), &steps[i]
		if !c.closed(e, "an escalation", escalationFields) {
			continue
		}
		if m, ok := c.need(e, "role"); ok {
			s.Role = c.role(m, "an escalation's role")
		}
		m, ok := c.need(e, "after")
		if !ok {
			continue
		}
		s.After = c.duration(m, "an escalation's after")
		switch {
		case s.After == 0:
		case a.ExpiresIn > 0 && s.After > a.ExpiresIn:
			c.fail(m, "approval_times", "an escalation comes after approval.expires_in", "")
		case s.After <= last:
			c.fail(m, "approval_times", "escalations have to be in order of time", "")
		}
		last = max(last, s.After)
	}
	return steps
}

// reachable makes sure that enough people exist for what the rule asks for.
func (c *compiler) reachable(n source.Node, r *rule) {
	people := c.options.Reviewers
	asked := r.Outcome == engine.RequireApproval || r.Outcome == engine.RequireHuman ||
		r.Outcome.Route().Waits() && r.decision.Approval != nil && (r.decision.Approval.Quorum > 0 || len(r.decision.Approval.Groups) > 0)
	if people == nil || !asked {
		return
	}
	needed, role := 1, r.decision.ApproverRole
	if a := r.decision.Approval; a != nil {
		needed = max(a.Quorum, 1)
		if len(a.Groups) > 0 {
			c.reachableGroups(n, a.Groups)
			return
		}
	}
	if there := len(people(role)); there < needed {
		at, ok := n.Get("approval")
		if !ok {
			if at, ok = n.Get("approver_role"); !ok {
				at = n
			}
		}
		c.unreachable(at, needed, role, there)
	}
}

// reachableGroups makes sure that different people can fill all places of all
// groups.
func (c *compiler) reachableGroups(n source.Node, groups []Group) {
	approval, _ := n.Get("approval")
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
