package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
)

// ExpiresSoon is how long before its end a bundle is worth a warning.
const ExpiresSoon = 14 * 24 * time.Hour

// Lint warns of what is allowed and yet probably not meant: rules that can
// never match, because of themselves or of one earlier rule that takes all
// their calls; an ALLOW for everything before other rules; a looser rule that
// takes some calls of stricter ones behind it; asterisks and operators that mean nothing; an end within 14 days of
// Options.Now. Its list is in order of the rules and repeats no warning of
// Load.
//
// What it says never matches never does. It does not see everything that never
// matches: rules that only several earlier ones cover together, regular
// expressions that imply each other or find nothing, labels, roles and
// environments that nobody has, and very long lists of words.
func Lint(b *Bundle) []Problem {
	l := &linter{reporter: &reporter{file: b.file}}
	if !b.judgedAt.IsZero() && b.ExpiresAt.Sub(b.judgedAt) <= ExpiresSoon {
		l.add(Problem{
			Path: "/expires_at", Code: "expires_soon", Warning: true,
			Message: "the bundle expires within 14 days, and then refuses every call", Hint: "generate it anew",
		})
	}
	stricter := make([][]string, len(b.rules)) // behind each rule, which may match the same calls
	for j := range b.rules {
		later := &b.rules[j]
		l.shape(later)
		if reason := later.never(); reason != "" {
			l.warn(later, "never_matches", "it can never match: "+reason, "")
			continue
		}
		if later.Outcome == engine.Allow && later.unconditional() && j+1 < len(b.rules) {
			l.warn(later, "allow_everything", "it allows every call, and the rules behind it never match", "put it last, or narrow it")
		}
		l.against(later, b.rules[:j], stricter)
		l.numbers(b, j)
	}
	for i, behind := range stricter {
		if len(behind) > 0 {
			r := &b.rules[i]
			l.warn(r, "order_matters", fmt.Sprintf("calls that it matches get %s, also where stricter rules behind it match: %s", r.Outcome, some(behind)),
				"put the stricter rules first, unless this is meant")
		}
	}
	return l.list()
}

type linter struct{ *reporter }

func (l *linter) warn(r *rule, code, message, hint string) {
	l.add(Problem{
		Line: r.Line, Column: r.Column, Rule: r.ID, Path: r.path, Code: code, Message: message, Hint: hint, Warning: true,
	})
}

// against compares a rule with those before it.
func (l *linter) against(later *rule, before []rule, stricter [][]string) {
	for i := range before {
		earlier := &before[i]
		if earlier.covers(later) {
			l.warn(later, "shadowed", "it can never match: rule "+quote(earlier.ID)+" before it takes all its calls", "remove it, or put it first")
			return
		}
	}
	for i := range before {
		earlier := &before[i]
		if earlier.Outcome.Route() < later.Outcome.Route() && earlier.never() == "" && earlier.mayOverlap(later) &&
			!later.covers(earlier) { // an exception goes before what it is an exception of
			stricter[i] = append(stricter[i], later.ID)
		}
	}
}

// numbers warns of a rule that compares a number, and that a call with a text in its place
// passes by: to another rule, or to the default, that asks for less or for others.
func (l *linter) numbers(b *Bundle, at int) {
	r := &b.rules[at]
	free := *r // the rule without what it says of numbers
	free.when.args = slices.DeleteFunc(slices.Clone(r.when.args), func(a argument) bool { return a.comparesNumbers() })
	if len(free.when.args) == len(r.when.args) || r.Outcome == engine.Allow || r.tools.every { // not every tool takes a number
		return
	}
	meets, who := Decision{Outcome: b.Default}, "the default"
	for i := at + 1; i < len(b.rules); i++ {
		if next := &b.rules[i]; next.never() == "" && next.covers(&free) {
			meets, who = next.decision, "rule "+quote(next.ID)
			break
		}
	}
	switch asked, wanted := people(meets), people(r.decision); {
	case meets.Outcome.Route() < r.Outcome.Route():
	case meets.Outcome.Route() == r.Outcome.Route() && !slices.Equal(asked, wanted):
	default:
		return
	}
	l.warn(r, "number_only", "a call that gives the number as a text, or not at all, passes it by and meets "+who+" ("+string(meets.Outcome)+"), which asks for less or for others",
		"behind the rules that compare the number, add one for the same tool that does not: DENY, or as much as the strictest asks for")
}

// people are whom a decision asks, and how many of each.
func people(d Decision) []string {
	var list []string
	for _, r := range d.Requirements() {
		list = append(list, fmt.Sprint(r.Kind, r.Role, r.Needed, r.AnyOf))
	}
	return list
}

// some names the first of many rules.
func some(ids []string) string {
	const most = 3
	quoted := make([]string, 0, most)
	for _, id := range ids[:min(len(ids), most)] {
		quoted = append(quoted, quote(id))
	}
	text := strings.Join(quoted, ", ")
	if more := len(ids) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// shape warns of what looks like something else than it is.
func (l *linter) shape(r *rule) {
	if !r.tools.every {
		for _, name := range r.tools.names {
			if strings.Contains(name, wildcard) {
				l.warn(r, "literal_asterisk", "the asterisk in match.tool_name "+quote(name)+" stands for itself",
					"only a single name may end in one: for several, use several rules")
				break
			}
		}
	}
	if len(r.when.labels) > 0 && !slices.Contains(r.believes, claimLabels) {
		message := "a call that leaves its labels out passes the rule by: they are the agent's word"
		if r.Outcome == engine.Allow {
			message = "it allows nothing for labels that only the agent claims"
		}
		l.warn(r, "label_claimed", message, "register the tool's labels, match something else, or say trust_claims: [data_labels]")
	}
	for i := range r.when.args {
		a := &r.when.args[i]
		if len(a.tests) > 0 || a.value.Kind() != canon.ObjectKind {
			continue
		}
		l.warn(r, "no_operator", "tool_args_match["+quote(a.key)+"] holds no operator, so the argument has to equal the whole object",
			"the operators are "+strings.Join(operatorNames, ", "))
	}
}

func (r *rule) unconditional() bool {
	w := &r.when
	return r.tools.every && r.environment == wildcard && r.agentTypes == nil && r.providers == nil &&
		r.categories == nil && r.riskDomains == nil && r.toolRegistered == nil &&
		r.trust < 0 && len(r.roles) == 0 && len(w.labels) == 0 && len(w.containsAny) == 0 && len(w.notContains) == 0 &&
		w.pattern == nil && len(w.args) == 0
}

// never is why the rule can match no call at all, or "".
func (r *rule) never() string {
	switch {
	case !r.tools.every && len(r.tools.names) == 0:
		return "match.tool_name is an empty array"
	case r.agentTypes != nil && len(r.agentTypes) == 0:
		return "match.agent_type is an empty array"
	case r.providers != nil && len(r.providers) == 0:
		return "match.tool_provider is an empty array"
	case r.categories != nil && len(r.categories) == 0:
		return "match.tool_category is an empty array"
	case r.riskDomains != nil && len(r.riskDomains) == 0:
		return "match.tool_risk_domain is an empty array"
	case (len(r.categories) > 0 || len(r.riskDomains) > 0) && r.toolRegistered != nil && !*r.toolRegistered:
		return "a tool that is not registered has no registered category and risk domain"
	case r.when.contradictsItself():
		return "every word of when.contains_any is one that when.not_contains forbids"
	}
	for i := range r.when.args {
		if a := &r.when.args[i]; a.contradictsItself() {
			return "the conditions on the argument " + quote(a.key) + " contradict each other"
		}
	}
	return ""
}

// maxPairs bounds the comparisons of two lists of words.
const maxPairs = 10_000

func (w *conditions) contradictsItself() bool {
	if len(w.containsAny) == 0 || len(w.notContains) == 0 || len(w.containsAny)*len(w.notContains) > maxPairs {
		return false
	}
	// To find a word is to find every part of it.
	return all(w.containsAny, func(word string) bool {
		return slices.ContainsFunc(w.notContains, func(part string) bool { return strings.Contains(word, part) })
	})
}

func all[S any](list []S, holds func(S) bool) bool {
	return !slices.ContainsFunc(list, func(s S) bool { return !holds(s) })
}

// pinned is the one value that the argument has to have, if the rule says so
// and it is neither array nor object.
func (a *argument) pinned() (canon.Value, bool) {
	candidate, found := a.value, len(a.tests) == 0
	for _, t := range a.tests {
		if t.op == "eq" {
			candidate, found = t.operand, true
			break
		}
	}
	return candidate, found && candidate.Kind() != canon.ArrayKind && candidate.Kind() != canon.ObjectKind
}

func (a *argument) contradictsItself() bool {
	if len(a.tests) == 0 {
		return false
	}
	if slices.ContainsFunc(a.tests, func(t comparison) bool {
		return t.op == "eq" && (t.operand.Kind() == canon.ArrayKind || t.operand.Kind() == canon.ObjectKind)
	}) {
		return true // no array or object is strictly equal to another one
	}
	if v, ok := a.pinned(); ok {
		return !all(a.tests, func(t comparison) bool { return t.holds(v, true) })
	}
	for _, low := range a.tests {
		for _, high := range a.tests {
			x, y := low.operand.Float(), high.operand.Float()
			switch low.op + " " + high.op {
			case "gt lt", "gt lte", "gte lt":
				if x >= y {
					return true
				}
			case "gte lte":
				if x > y {
					return true
				}
			}
		}
	}
	return false
}

// covers reports that every call that later matches, r matches as well.
func (r *rule) covers(later *rule) bool {
	w, v := &r.when, &later.when
	return r.tools.covers(later.tools) &&
		(r.environment == wildcard || r.environment == later.environment) &&
		namesCover(r.categories, later.categories) && namesCover(r.riskDomains, later.riskDomains) && r.coversRegistered(later) &&
		namesCover(r.agentTypes, later.agentTypes) && namesCover(r.providers, later.providers) &&
		later.trust >= r.trust &&
		anyCovers(r.roles, later.roles) && anyCovers(w.labels, v.labels) &&
		(w.pattern == nil || w.source == v.source) &&
		wordsCover(w, v) && argumentsCover(w.args, v.args)
}

// coversRegistered reports that every tool that later matches is registered as r
// wants it. What has a registered category is registered.
func (r *rule) coversRegistered(later *rule) bool {
	switch {
	case r.toolRegistered == nil:
		return true
	case later.toolRegistered != nil:
		return *r.toolRegistered == *later.toolRegistered
	}
	return *r.toolRegistered && (len(later.categories) > 0 || len(later.riskDomains) > 0)
}

func (t tools) covers(later tools) bool {
	switch {
	case t.every:
		return true
	case later.every || len(t.names)*len(later.names) > maxPairs:
		return false
	case t.prefix:
		return all(later.names, func(name string) bool { return strings.HasPrefix(name, t.names[0]) })
	case later.prefix:
		return false
	}
	return subset(later.names, t.names)
}

func subset(part, whole []string) bool {
	return len(part)*len(whole) <= maxPairs && all(part, func(s string) bool { return slices.Contains(whole, s) })
}

func namesCover(names, later []string) bool {
	return names == nil || later != nil && subset(later, names)
}

func anyCovers(names, later []string) bool {
	return len(names) == 0 || len(later) > 0 && subset(later, names)
}

func wordsCover(w, later *conditions) bool {
	if len(w.containsAny)*len(later.containsAny) > maxPairs || len(w.notContains)*len(later.notContains) > maxPairs {
		return false
	}
	found := len(w.containsAny) == 0 || len(later.containsAny) > 0 && all(later.containsAny, func(word string) bool {
		return slices.ContainsFunc(w.containsAny, func(part string) bool { return strings.Contains(word, part) })
	})
	return found && all(w.notContains, func(word string) bool {
		return slices.ContainsFunc(later.notContains, func(part string) bool { return strings.Contains(word, part) })
	})
}

func argumentsCover(args, later []argument) bool {
	if len(args)*len(later) > maxPairs {
		return false
	}
	return all(args, func(a argument) bool {
		return slices.ContainsFunc(later, func(b argument) bool { return b.key == a.key && a.coversArgument(b) })
	})
}

// coversArgument reports that what b lets through, a does.
func (a *argument) coversArgument(b argument) bool {
	if len(a.tests) == 0 {
		same := canonicalEqual(a.value, b.value)
		v, pinned := b.pinned()
		return len(b.tests) == 0 && same || pinned && canonicalEqual(a.value, v)
	}
	if v, pinned := b.pinned(); pinned {
		return all(a.tests, func(t comparison) bool { return t.holds(v, true) })
	}
	return all(a.tests, func(t comparison) bool {
		return slices.ContainsFunc(b.tests, func(u comparison) bool { return u.implies(t) })
	})
}

func canonicalEqual(a, b canon.Value) bool { return string(a.Canonical()) == string(b.Canonical()) }

// implies reports that a number, or anything, for which u holds, t holds too.
func (u comparison) implies(t comparison) bool {
	if u.op == t.op && canonicalEqual(u.operand, t.operand) {
		return true
	}
	if !operators[u.op] || !operators[t.op] && t.op != "neq" {
		return false
	}
	x, y := u.operand.Float(), t.operand.Float()
	if t.op == "neq" {
		if t.operand.Kind() != canon.NumberKind {
			return true // a number is never that
		}
		return u.op == "gt" && x >= y || u.op == "gte" && x > y || u.op == "lt" && x <= y || u.op == "lte" && x < y
	}
	switch u.op + " " + t.op {
	case "gt gt", "gt gte", "gte gte":
		return x >= y
	case "gte gt":
		return x > y
	case "lt lt", "lt lte", "lte lte":
		return x <= y
	case "lte lt":
		return x < y
	}
	return false
}

// mayOverlap reports that nothing in match keeps a call from matching both
// rules, and neither looks at different arguments: a hint, not a proof.
func (r *rule) mayOverlap(later *rule) bool {
	if later.unconditional() || r.environment != wildcard && later.environment != wildcard && r.environment != later.environment {
		return false
	}
	return r.tools.mayOverlap(later.tools) &&
		namesOverlap(r.categories, later.categories) && namesOverlap(r.riskDomains, later.riskDomains) &&
		(r.toolRegistered == nil || later.toolRegistered == nil || *r.toolRegistered == *later.toolRegistered) &&
		namesOverlap(r.agentTypes, later.agentTypes) && namesOverlap(r.providers, later.providers) &&
		!argumentsExclude(r.when.args, later.when.args)
}

func (t tools) mayOverlap(later tools) bool {
	if t.every || later.every {
		return true
	}
	if len(t.names)*len(later.names) > maxPairs {
		return false
	}
	return slices.ContainsFunc(t.names, func(a string) bool {
		return slices.ContainsFunc(later.names, func(b string) bool {
			return a == b || t.prefix && strings.HasPrefix(b, a) || later.prefix && strings.HasPrefix(a, b)
		})
	})
}

func namesOverlap(a, b []string) bool {
	return a == nil || b == nil || slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// argumentsExclude reports that some argument cannot please both rules.
func argumentsExclude(a, b []argument) bool {
	if len(a)*len(b) > maxPairs {
		return false
	}
	for i := range a {
		for j := range b {
			if a[i].key != b[j].key {
				continue
			}
			both := argument{key: a[i].key, tests: slices.Concat(a[i].asTests(), b[j].asTests())}
			if both.contradictsItself() {
				return true
			}
		}
	}
	return false
}

// asTests writes an argument as operators. An array or object is left out.
func (a *argument) asTests() []comparison {
	if len(a.tests) > 0 {
		return a.tests
	}
	if v, ok := a.pinned(); ok {
		return []comparison{{op: "eq", operand: v}}
	}
	return nil
}
