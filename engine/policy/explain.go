package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine/canon"
)

// Explanation is why a bundle decides what it decides.
type Explanation struct {
	Decision Decision `json:"decision"`
	// Expired is set when no rule was asked.
	Expired bool `json:"expired,omitempty"`
	// Rules is what became of every rule, in order. The first that matched made
	// the decision, unless one before it was too costly to try.
	Rules []RuleExplanation `json:"rules"`
}

// RuleExplanation is how one rule met a call.
type RuleExplanation struct {
	Rule
	Matched bool `json:"matched"`
	// Decided is set on the rule that made the decision: the first that matched.
	Decided bool `json:"decided,omitempty"`
	// Conditions are all of the rule's, held or not, in the order of docs/spec/agent-spm.md.
	Conditions []Condition `json:"conditions"`
}

// Condition is one condition of a rule. Why is a sentence that names keys and
// the rule's own operands, and of the call only its tool, environment, type,
// level, provider and registration, never an argument, an input or a label.
type Condition struct {
	Name string `json:"name"`
	Held bool   `json:"held"`
	// Unknown is set when it would have taken too long to say; Held is false then.
	Unknown bool `json:"unknown,omitempty"`
	// NoNumber is set when it compares numbers, and the argument is none, or is missing from
	// a call of a tool that the rule names.
	NoNumber bool   `json:"no_number,omitempty"`
	Why      string `json:"why"`
}

// Explain says for every rule and condition whether it held. Its Decision is
// Decide's. It costs more than a decision, as every condition is tried, but not
// without bound: it is for people, not for the gate.
func (b *Bundle) Explain(r *Request, now time.Time) Explanation {
	e := Explanation{Decision: b.Decide(r, now), Expired: b.Expired(now), Rules: make([]RuleExplanation, len(b.rules))}
	s := search{request: r, effort: maxExplainEffort}
	for i := range b.rules {
		rule := &b.rules[i]
		x := &e.Rules[i]
		x.Rule = rule.Rule
		x.Conditions = rule.explain(&s)
		x.Matched = !slices.ContainsFunc(x.Conditions, func(c Condition) bool { return !c.Held })
		if rule.ID == e.Decision.Rule { // ids are unique and never empty
			x.Decided, x.Matched = true, true
		}
	}
	return e
}

// maxExplainEffort is the number of steps of a whole explanation. It is more
// than a decision's, as every condition is tried.
const maxExplainEffort = 4 * maxEffort

func (r *rule) explain(s *search) []Condition {
	q := s.request
	var list []Condition
	add := func(name string, held truth, why string) *Condition {
		if held == unknown {
			why = "The call holds too much text to say."
		}
		list = append(list, Condition{Name: name, Held: held == yes, Unknown: held == unknown, Why: why})
		return &list[len(list)-1]
	}
	held := truthOf(r.tools.match(q.Tool))
	add("match.tool_name", held, r.tools.why(q.Tool, held == yes))

	held = truthOf(r.environment == wildcard || r.environment == q.Environment)
	add("match.environment", held, why(held, "The environment", quote(q.Environment), environmentWanted(r.environment)))
	for _, c := range []struct {
		name, subject string
		names         []string
		given         *string
	}{
		{"match.agent_type", "The agent's type", r.agentTypes, q.AgentType},
		{"match.tool_provider", "The tool's provider", r.providers, q.Provider},
		{"match.tool_category", "The tool's registered category", r.categories, optional(q.ToolCategory)},
		{"match.tool_risk_domain", "The tool's registered risk domain", r.riskDomains, optional(q.ToolRiskDomain)},
	} {
		if c.names != nil {
			held = truthOf(memberOrNone(c.names, c.given))
			add(c.name, held, why(held, c.subject, quoteGiven(c.given), oneOf(c.names)))
		}
	}
	if r.toolRegistered != nil {
		held = truthOf(*r.toolRegistered == q.ToolRegistered)
		is := "The tool is registered."
		if !q.ToolRegistered {
			is = "The tool is not registered."
		}
		add("match.tool_registered", held, is)
	}
	if r.trust >= 0 {
		held = truthOf(trusted(r.trust, q.TrustLevel))
		add("match.trust_level_min", held, why(held, "The agent's trust level", quoteGiven(q.TrustLevel), "at least "+trustLevels[r.trust]))
	}
	if len(r.roles) > 0 {
		held = truthOf(overlapOrNone(r.roles, q.Roles))
		add("match.agent_roles_any", held, have(held, "The agent has", "role", r.roles))
	}
	r.when.explain(s, !r.tools.every && !r.tools.prefix, add)
	return list
}

func (w *conditions) explain(s *search, named bool, add func(name string, held truth, why string) *Condition) {
	if len(w.containsAny) > 0 {
		held := w.findsAny(s)
		add("when.contains_any", held, have(held, "The searched text holds", "word", w.containsAny))
	}
	if len(w.notContains) > 0 {
		held := w.findsNone(s)
		text := "The searched text holds none of the words " + names(w.notContains) + "."
		if held == no {
			text = "The searched text holds one of the words " + names(w.notContains) + "."
		}
		add("when.not_contains", held, text)
	}
	if w.pattern != nil {
		held := w.findsPattern(s)
		text := "The searched text matches the expression."
		if held == no {
			text = "The searched text does not match the expression."
		}
		add("when.matches_regex", held, text)
	}
	if len(w.labels) > 0 {
		held := truthOf(overlapOrNone(w.labels, s.request.DataLabels))
		add("when.data_labels_any", held, have(held, "The call has", "label", w.labels))
	}
	for i := range w.args {
		a := &w.args[i]
		held := a.holds(s)
		add("when.tool_args_match["+quote(a.key)+"]", held, a.why(s.request, held == yes)).NoNumber = held == no && a.comparesNumbers() && a.noNumber(s.request, named)
	}
}

func (t tools) why(tool string, held bool) string {
	if t.every {
		return "Every tool is meant."
	}
	is := "is not"
	if held {
		is = "is"
	}
	switch {
	case len(t.names) == 0:
		return "The rule names no tool at all."
	case t.prefix:
		return fmt.Sprintf("The tool %s %s one whose name begins with %s.", quote(tool), is, quote(t.names[0]))
	case len(t.names) == 1:
		return fmt.Sprintf("The tool %s %s %s.", quote(tool), is, quote(t.names[0]))
	}
	return fmt.Sprintf("The tool %s %s one of %s.", quote(tool), is, names(t.names))
}

func environmentWanted(environment string) string {
	if environment == wildcard {
		return "any"
	}
	return quote(environment)
}

// why is the sentence for a condition on one name that the call says.
func why(held truth, subject, given, wanted string) string {
	switch {
	case wanted == "any":
		return subject + " may be any."
	case held == yes:
		return subject + " is " + given + ", as wanted: " + wanted + "."
	}
	return subject + " is " + given + "; wanted is " + wanted + "."
}

// optional is a text that may be missing.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func quoteGiven(s *string) string {
	if s == nil {
		return "not said"
	}
	return quote(*s)
}

func oneOf(list []string) string {
	switch len(list) {
	case 0:
		return "one of an empty list, which nothing is"
	case 1:
		return quote(list[0])
	}
	return "one of " + names(list)
}

// have is the sentence for a condition on a list of names.
func have(held truth, subject, thing string, list []string) string {
	if held == yes {
		return subject + " one of the " + thing + "s " + names(list) + "."
	}
	return subject + " none of the " + thing + "s " + names(list) + "."
}

// maxNames bounds the names in a sentence.
const maxNames = 5

func names(list []string) string {
	var b strings.Builder
	for i, name := range list {
		if i == maxNames {
			b.WriteString(" and " + strconv.Itoa(len(list)-maxNames) + " more")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(name))
	}
	return b.String()
}

// why is the sentence for one key of tool_args_match. Of the argument it tells
// its kind at most.
func (a *argument) why(q *Request, held bool) string {
	subject := "The argument " + quote(a.key)
	value, present := q.Args.Get(a.key)
	var wanted string
	if len(a.tests) > 0 {
		parts := make([]string, len(a.tests))
		for i, t := range a.tests {
			parts[i] = operatorWords[t.op] + " " + operand(t.operand)
		}
		wanted = strings.Join(parts, " and ")
	} else {
		wanted = "equal to " + operand(a.value)
	}
	switch {
	case held && present:
		return subject + " is " + wanted + "."
	case held:
		return subject + " is missing, and what is missing is " + wanted + "."
	case !present:
		return subject + " is missing; it has to be " + wanted + "."
	case !a.isNumber(q) && a.comparesNumbers():
		return subject + " is " + article(value.Kind()) + ", and only a number can be " + wanted + "."
	}
	return subject + " is not " + wanted + "."
}

// noNumber reports that the argument is there and no number, or that it is missing where the
// rule names the tool: what any tool may be called with says nothing of this one.
func (a *argument) noNumber(q *Request, named bool) bool {
	_, present := q.Args.Get(a.key)
	return !a.isNumber(q) && (present || named)
}

func (a *argument) isNumber(q *Request) bool {
	value, present := q.Args.Get(a.key)
	return present && value.Kind() == canon.NumberKind
}

func (a *argument) comparesNumbers() bool {
	return slices.ContainsFunc(a.tests, func(t comparison) bool { return operators[t.op] })
}

var operatorWords = map[string]string{
	"gt": "greater than", "gte": "at least", "lt": "less than", "lte": "at most", "eq": "equal to", "neq": "not equal to",
}

// operand shows what the rule itself says.
func operand(v canon.Value) string {
	switch v.Kind() {
	case canon.StringKind:
		return quote(v.Str())
	case canon.ArrayKind, canon.ObjectKind:
		return "the rule's " + v.Kind().String() + " of " + strconv.Itoa(v.Len())
	default:
		return string(v.Canonical())
	}
}
