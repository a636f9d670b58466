package policy

import (
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/source"
	"holdpoint/engine/stakes"
)

// trustLevels is Agent-SPM's levels from the lowest to the highest.
var trustLevels = engine.TrustLevels()

// trustOrdinal is the level's place from 0, or -1.
func trustOrdinal(level string) int { return slices.Index(trustLevels, level) }

// wildcard matches every tool or environment.
const wildcard = "*"

// tools is match.tool_name.
type tools struct {
	every  bool
	prefix bool     // names has one, the beginning of those that match
	names  []string // exact ones else
}

func (t tools) match(tool string) bool {
	switch {
	case t.every:
		return true
	case t.prefix:
		return strings.HasPrefix(tool, t.names[0])
	}
	return slices.Contains(t.names, tool)
}

// rule is one rule, compiled.
type rule struct {
	Rule
	path        string
	tools       tools
	environment string // wildcard is every one
	// nil is no condition; an empty list never matches.
	agentTypes, providers, categories, riskDomains []string

	toolRegistered *bool // nil is no condition
	trust          int   // -1 is no condition
	roles          []string
	when           conditions
	believes       []string // of claimNames
	decision       Decision
}

// rules reads all rules, and makes sure that no id is there twice.
func (c *compiler) rules(root source.Node, b *Bundle) {
	list, ok := c.need(root, "rules")
	if !ok {
		return
	}
	if list.Value.Kind() != canon.ArrayKind {
		c.wrongKind(list, "rules", "an array")
		return
	}
	limit := c.options.MaxRules
	if limit <= 0 {
		limit = MaxRules
	}
	if n := list.Value.Len(); n > limit {
		// No rule is compiled then: that is what the limit is for.
		c.fail(list, "too_many_rules", "the bundle has "+strconv.Itoa(n)+" rules, at most "+strconv.Itoa(limit)+" are allowed", "split it by environment")
		return
	}
	lines := make(map[string]int, list.Value.Len())
	b.rules = make([]rule, 0, list.Value.Len())
	for i := range list.Value.Len() {
		n := list.Element(i)
		c.rule = "rules[" + strconv.Itoa(i) + "]"
		r := c.readRule(n)
		if before, twice := lines[r.ID]; twice && r.ID != "" {
			id, _ := n.Get("id")
			hint := "reasons name the rule by its id, so it has to be unique"
			if before > 0 {
				hint = "the first is in line " + strconv.Itoa(before)
			}
			c.fail(id, "duplicate_id", "another rule has the same id", hint)
		}
		lines[r.ID] = r.Line
		b.rules = append(b.rules, r)
	}
	c.rule = ""
}

// ruleFields is what a rule may hold. What is not in here is ignored, as the
// reference does, but not in silence.
var ruleFields = []string{"id", "description", "match", "when", "trust_claims", "outcome", "approver_role", "constraints", "approval", "stakes"}

// maxRuleName bounds what problems name a rule by.
const maxRuleName = 200

func (c *compiler) readRule(n source.Node) rule {
	at := n.Position()
	r := rule{Rule: Rule{Line: at.Line, Column: at.Column}, path: n.Path, trust: -1}
	if n.Value.Kind() != canon.ObjectKind {
		c.wrongKind(n, "a rule", "an object")
		return r
	}
	if id, ok := n.Get("id"); ok && id.Value.Str() != "" && len(id.Value.Str()) <= maxRuleName {
		c.rule = id.Value.Str()
	}
	if m, ok := c.need(n, "id"); ok {
		if text, ok := c.text(m, "id"); ok && text == "" {
			c.fail(m, "empty", "id must not be empty", "")
		} else if ok {
			r.ID = text
		}
	}
	if m, ok := c.need(n, "description"); ok {
		r.Description, _ = c.text(m, "description")
	}
	if m, ok := c.need(n, "match"); ok {
		c.match(m, &r)
	}
	if m, ok := n.Get("when"); ok {
		c.when(m, &r.when)
	}
	if m, ok := n.Get("trust_claims"); ok {
		r.believes = c.texts(m, "trust_claims")
		c.known(m, "trust_claims", "claim", r.believes, claimNames)
	}
	if m, ok := c.need(n, "outcome"); ok {
		r.Outcome = c.outcome(m, "outcome")
	}
	c.decision(n, &r)
	c.unknown(n, "a rule", ruleFields)
	return r
}

// unknown warns of fields that mean nothing, or something else than meant.
func (c *compiler) unknown(n source.Node, what string, known []string) {
	for m := range n.Members() {
		if slices.Contains(known, m.Name) || c.misspelt[m.Path] {
			continue
		}
		hint := "it changes nothing"
		if near := source.Nearest(m.Name, known); near != "" {
			hint = "did you mean " + strconv.Quote(near) + "?"
		}
		c.report(m.KeyProblem("unknown_field", what+" has no field "+quote(m.Name)+"; it is ignored", hint), true)
	}
}

var matchFields = []string{"tool_name", "environment", "agent_type", "trust_level_min", "agent_roles_any", "tool_provider", "tool_category", "tool_risk_domain", "tool_registered"}

func (c *compiler) match(n source.Node, r *rule) {
	if n.Value.Kind() != canon.ObjectKind {
		c.wrongKind(n, "match", "an object")
		return
	}
	if m, ok := c.need(n, "tool_name"); ok {
		c.toolName(m, &r.tools)
	}
	if m, ok := c.need(n, "environment"); ok {
		r.environment, _ = c.text(m, "match.environment")
	}
	r.agentTypes = c.membership(n, "agent_type")
	r.providers = c.membership(n, "tool_provider")
	if r.categories = c.membership(n, "tool_category"); r.categories != nil {
		m, _ := n.Get("tool_category")
		c.known(m, "match.tool_category", "category", r.categories, engine.ToolCategories())
	}
	r.riskDomains = c.membership(n, "tool_risk_domain")
	if m, ok := n.Get("tool_registered"); ok {
		if m.Value.Kind() != canon.BoolKind {
			c.wrongKind(m, "match.tool_registered", "a boolean")
		} else {
			registered := m.Value.Bool()
			r.toolRegistered = &registered
		}
	}
	if m, ok := n.Get("dialect"); ok {
		c.fail(m, "dialect", "match.dialect is no condition: a call is judged alike, in whatever system's document it is proposed",
			"match the tool instead, by tool_name or by what is registered of it: tool_category, tool_risk_domain, tool_registered")
	}
	if m, ok := n.Get("agent_roles_any"); ok {
		r.roles = c.texts(m, "match.agent_roles_any")
	}
	if m, ok := n.Get("trust_level_min"); ok && !c.emptyCondition(m, "trust_level_min") {
		if text, ok := c.text(m, "match.trust_level_min"); ok {
			if r.trust = trustOrdinal(text); r.trust < 0 {
				hint := "use one of " + strings.Join(trustLevels, ", ")
				if near := source.Nearest(text, trustLevels); near != "" {
					hint = "did you mean " + strconv.Quote(near) + "?"
				}
				c.fail(m, "unknown_trust_level", "match.trust_level_min "+quote(text)+" is not a trust level", hint)
			}
		}
	}
	c.unknown(n, "match", append([]string{"dialect"}, matchFields...))
}

func (c *compiler) toolName(n source.Node, t *tools) {
	switch n.Value.Kind() {
	case canon.StringKind:
		name := n.Value.Str()
		switch {
		case name == wildcard:
			t.every = true
		case len(name) > 1 && strings.HasSuffix(name, wildcard):
			t.prefix, t.names = true, []string{strings.TrimSuffix(name, wildcard)}
		default:
			t.names = []string{name}
		}
	case canon.ArrayKind:
		t.names = c.texts(n, "match.tool_name")
	default:
		c.wrongKind(n, "match.tool_name", "a string or an array of strings")
	}
}

// membership reads a condition that is one name or several. Like the
// reference it takes null and "" for no condition, which is worth a warning.
func (c *compiler) membership(n source.Node, name string) []string {
	m, ok := n.Get(name)
	if !ok || c.emptyCondition(m, name) {
		return nil
	}
	switch m.Value.Kind() {
	case canon.StringKind:
		return []string{m.Value.Str()}
	case canon.ArrayKind:
		list := c.texts(m, "match."+name)
		return list
	default:
		c.wrongKind(m, "match."+name, "a string or an array of strings")
		return nil
	}
}

func (c *compiler) emptyCondition(n source.Node, name string) bool {
	empty := n.Value.IsNull() || n.Value.Kind() == canon.StringKind && n.Value.Str() == ""
	if empty {
		c.warn(n, "empty_condition", "match."+name+" is empty, which is no condition", "remove it")
	}
	return empty
}

// known reports the names that are not among those that there are.
func (c *compiler) known(n source.Node, field, what string, names, there []string) {
	for _, name := range names {
		if !slices.Contains(there, name) {
			c.fail(n, "unknown_"+what, field+" "+quote(name)+" is not a "+what, "use "+strings.Join(there, ", "))
		}
	}
}

// decision prepares what the rule answers.
func (c *compiler) decision(n source.Node, r *rule) {
	d := &r.decision
	d.Outcome, d.Rule = r.Outcome, r.ID
	d.Reasons = []engine.Reason{{Code: r.ID, Message: r.Description}}
	if m, ok := n.Get("approver_role"); ok && !m.Value.IsNull() {
		d.ApproverRole, _ = c.text(m, "approver_role")
	}
	if m, ok := n.Get("constraints"); ok && !m.Value.IsNull() {
		if m.Value.Kind() != canon.ObjectKind {
			c.wrongKind(m, "constraints", "an object")
		} else {
			d.Constraints = m.Value.Canonical()
		}
	}
	if m, ok := n.Get("approval"); ok {
		d.Approval = c.approval(m, r)
	}
	if m, ok := n.Get("stakes"); ok {
		if text, ok := c.text(m, "stakes"); ok {
			if err := stakes.Check(text); err != nil {
				c.fail(m, "stakes", "stakes is no template of a sentence: "+err.Error(), "write, say, Pay {amount|money:currency} to {*payee}")
			}
			d.Stakes = text
		}
	}
	c.reachable(n, r)
}
