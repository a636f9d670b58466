package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

// Approval is Holdpoint's extension rule.approval: how many people of which
// roles have to agree, until when, and what else it takes. A zero field leaves it
// to the settings.
type Approval struct {
	// Quorum is the number of people, 1 to MaxQuorum, or 0. Together with the
	// rule's approver_role they are of that role. It is not set beside Groups.
	Quorum int `json:"quorum,omitempty" yaml:"quorum,omitempty"`
	// Groups are all needed, in any order; nobody counts for two of them.
	Groups []Group `json:"groups,omitempty" yaml:"groups,omitempty"`
	// AnyOf are groups of which one is enough, instead of Quorum and Groups.
	AnyOf []Group `json:"any_of,omitempty" yaml:"any_of,omitempty"`
	// Deny is how many people have to say no, 1 to MaxQuorum, or 0. With Groups it
	// counts for each of them.
	Deny int `json:"deny,omitempty" yaml:"deny,omitempty"`
	// Signed says that only votes count which the voter's own passkey has signed.
	Signed bool `json:"signed,omitempty" yaml:"signed,omitempty"`
	// Within is how long people have, counted from the moment they are asked.
	Within engine.Duration `json:"within,omitempty" yaml:"within,omitempty"`
	// ExpiresIn is how long the whole approval may take.
	ExpiresIn engine.Duration `json:"expires_in,omitempty" yaml:"expires_in,omitempty"`
	// Calendar names the business hours in which Within, Reminders and Escalation
	// count. Those of ExpiresIn are the settings' own.
	Calendar string `json:"calendar,omitempty" yaml:"calendar,omitempty"`
	// Reminders are when those who have not decided yet are reminded, in order.
	Reminders []engine.Duration `json:"reminders,omitempty" yaml:"reminders,omitempty"`
	// Escalation names who else may decide when, in order of time.
	Escalation []Escalation `json:"escalation,omitempty" yaml:"escalation,omitempty"`
	// Suggest lists e-mail addresses of people to ask first. It gives nobody a say.
	Suggest []string `json:"suggest,omitempty" yaml:"suggest,omitempty"`
	// Ticket says what the ticket of a REQUIRE_TICKET has to be, or is nil.
	Ticket *engine.TicketTerms `json:"ticket,omitempty" yaml:"ticket,omitempty"`
	// Ask is the JSON Schema, in canonical form, of what the requesting side has
	// to supply before anybody else is asked, or nil.
	Ask json.RawMessage `json:"ask,omitempty" yaml:"ask,omitempty"`
}

// Group is a number of people of one role.
type Group struct {
	Role   string `json:"role" yaml:"role"`
	Needed int    `json:"needed" yaml:"needed"`
}

// Escalation is a role whose people may decide as well when an approval has
// waited for After.
type Escalation struct {
	After engine.Duration `json:"after" yaml:"after"`
	Role  string          `json:"role" yaml:"role"`
}

// The bounds of an Approval, inclusive.
const (
	// MaxQuorum is the largest number of people that a rule may ask for, in all.
	MaxQuorum = 20
	// MaxExpiresIn is the longest time that an approval may take: 90 days.
	MaxExpiresIn = 90 * 24 * time.Hour
	// MaxEscalations is the largest number of escalations of a rule.
	MaxEscalations = 20
	// MaxList is the largest number of reminders, of suggested people, and of the
	// projects and the states of a ticket.
	MaxList = 20
)

var (
	approvalFields = []string{
		"quorum", "groups", "any_of", "deny", "signed", "within", "expires_in", "calendar", "reminders", "escalation", "suggest", "ticket", "ask",
	}
	groupFields      = []string{"role", "needed"}
	escalationFields = []string{"after", "role"}
)

// Requirements is what the decision asks for before the call may run, in the
// order of discharge: what has to be supplied, the proof or the ticket, and the
// people, who decide together in any order. It is nil unless the outcome waits,
// and shares no list with the bundle.
func (d Decision) Requirements() []engine.Requirement {
	kind := d.Outcome.Kind()
	if kind == "" {
		return nil
	}
	a := d.Approval
	if a == nil {
		return []engine.Requirement{{Kind: kind, Role: d.ApproverRole, Needed: 1}}
	}
	var out []engine.Requirement
	if len(a.Ask) > 0 {
		out = append(out, a.timed(engine.Requirement{Kind: engine.Answer, Needed: 1, Form: slices.Clone(a.Ask)}))
	}
	if !kind.PeopleDecide() {
		first := a.timed(engine.Requirement{Kind: kind, Role: d.ApproverRole, Needed: 1, Escalation: a.escalation()})
		if a.Ticket != nil {
			terms := *a.Ticket
			terms.Projects, terms.States = slices.Clone(terms.Projects), slices.Clone(terms.States)
			first.Ticket = &terms
		}
		out = append(out, first)
		if a.Quorum == 0 && len(a.Groups) == 0 && len(a.AnyOf) == 0 {
			return out
		}
		kind = engine.Review
	}
	people := func(role string, needed int, anyOf []engine.Group) {
		out = append(out, a.timed(engine.Requirement{
			Kind: kind, Role: role, Needed: needed, AnyOf: anyOf, Deny: a.Deny, Signed: a.Signed, Escalation: a.escalation(), Suggested: slices.Clone(a.Suggest),
		}))
	}
	switch {
	case len(a.Groups) > 0:
		for _, g := range a.Groups {
			people(g.Role, g.Needed, nil)
		}
	case len(a.AnyOf) > 0:
		groups := make([]engine.Group, len(a.AnyOf))
		for i, g := range a.AnyOf {
			groups[i] = engine.Group(g)
		}
		people("", 1, groups)
	default:
		people(d.ApproverRole, max(a.Quorum, 1), nil)
	}
	return out
}

// timed is a requirement with the terms that count its time.
func (a *Approval) timed(r engine.Requirement) engine.Requirement {
	r.Within, r.Calendar, r.Reminders = a.Within, a.Calendar, slices.Clone(a.Reminders)
	return r
}

func (a *Approval) escalation() []engine.Escalation {
	var steps []engine.Escalation
	for _, e := range a.Escalation {
		steps = append(steps, engine.Escalation(e))
	}
	return steps
}

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
		a.Groups = c.groups(m, "approval.groups", 1, "add up what they need")
	}
	if m, ok := n.Get("any_of"); ok {
		a.AnyOf = c.groups(m, "approval.any_of", 2, "the one that needs fewer would always be enough")
	}
	if m, ok := n.Get("deny"); ok {
		a.Deny = c.people(m, "approval.deny")
	}
	if m, ok := n.Get("signed"); ok {
		if m.Value.Kind() != canon.BoolKind {
			c.wrongKind(m, "approval.signed", "a boolean")
		}
		a.Signed = m.Value.Bool()
	}
	if m, ok := n.Get("within"); ok {
		a.Within = c.duration(m, "approval.within")
	}
	if m, ok := n.Get("expires_in"); ok {
		a.ExpiresIn = c.duration(m, "approval.expires_in")
	}
	if m, ok := n.Get("calendar"); ok {
		a.Calendar = c.calendar(m)
	}
	if m, ok := n.Get("reminders"); ok {
		a.Reminders = c.reminders(m, a)
	}
	if m, ok := n.Get("escalation"); ok {
		a.Escalation = c.escalations(m, a)
	}
	if m, ok := n.Get("suggest"); ok {
		a.Suggest = c.suggested(m)
	}
	if m, ok := n.Get("ticket"); ok {
		a.Ticket = c.ticket(m)
	}
	if m, ok := n.Get("ask"); ok {
		a.Ask = c.ask(m)
	}
	c.contradictions(n, a, r)
	return a
}

// contradictions reports terms that do not go together.
func (c *compiler) contradictions(n source.Node, a *Approval, r *rule) {
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
	if m, _ := n.Get("any_of"); len(a.AnyOf) > 0 && (len(a.Groups) > 0 || a.Quorum > 0 || r.decision.ApproverRole != "") {
		c.fail(m, "approval_contradiction", "approval.any_of stands beside groups, a quorum or an approver_role", "name the roles and how many in any_of alone")
	}
	switch r.Outcome {
	case engine.Allow, engine.Deny:
		c.fail(n, "approval_without_wait", "the outcome "+string(r.Outcome)+" waits for nobody, and cannot have an approval", "remove it, or use REQUIRE_APPROVAL")
		return
	case engine.RequireStepUp, engine.RequireTicket:
		if a.Quorum > 0 || len(a.Groups) > 0 || len(a.AnyOf) > 0 {
			break
		}
		for _, name := range []string{"deny", "signed", "suggest"} {
			if m, ok := n.Get(name); ok {
				c.fail(m, "approval_contradiction", "approval."+name+" is about people who decide, and the rule asks for none", "add a quorum, groups or any_of, or use REQUIRE_APPROVAL")
			}
		}
	default:
	}
	if m, ok := n.Get("ticket"); ok && r.Outcome != engine.RequireTicket && r.Outcome != "" {
		c.fail(m, "approval_contradiction", "approval.ticket says what a ticket has to be, and the outcome "+string(r.Outcome)+" asks for none", "use REQUIRE_TICKET; with a quorum, groups or any_of it asks people as well")
	}
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
		if near := source.Nearest(m.Name, known); near != "" {
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

// named reads a name that must not be empty.
func (c *compiler) named(n source.Node, name string) string {
	text, ok := c.text(n, name)
	if ok && text == "" {
		c.fail(n, "empty", name+" must not be empty", "")
	}
	return text
}

// groups reads a list of at least so many groups.
func (c *compiler) groups(n source.Node, name string, least int, twice string) []Group {
	if n.Value.Kind() != canon.ArrayKind || n.Value.Len() < least || n.Value.Len() > MaxQuorum {
		hint := ""
		if n.Value.Kind() == canon.ArrayKind && n.Value.Len() == 1 {
			hint = "one group is an approver_role and a quorum"
		}
		c.fail(n, "approval_groups", fmt.Sprintf("%s has to be an array of %d to %d groups", name, least, MaxQuorum), hint)
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
			if g.Role = c.named(m, "a group's role"); seen[g.Role] && g.Role != "" {
				c.fail(m, "approval_groups", "two groups have the role "+quote(g.Role), twice)
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
			s.Role = c.named(m, "an escalation's role")
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
