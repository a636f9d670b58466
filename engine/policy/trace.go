package policy

import (
	"slices"
	"strings"
	"time"
)

// StepResult says how a rule met a call.
type StepResult string

// A rule holds, does not hold, or holds for some of what the call claims and not for the
// rest. A rule that could not be tried in bounded time refuses the call.
const (
	HoldsNot     StepResult = "no"
	Holds        StepResult = "yes"
	HoldsClaimed StepResult = "claimed"
	TooLong      StepResult = "too_long"
)

// Trace is how the rules met a call, in the order in which Consider tries them.
type Trace struct {
	// Expired says that no rule was tried, because the bundle had expired.
	Expired bool
	// Steps are the rules that were tried: every one that holds or may hold, and the first
	// maxSteps of those that do not. Omitted counts the others of those.
	Steps   []Step
	Omitted int
	// Elsewhere counts the rules that are about other tools, and Behind those about this tool
	// that were not tried, because one before them had decided.
	Elsewhere, Behind int
	// ByDefault says that the bundle's default decides, alone or beside rules that hold only
	// for what is claimed.
	ByDefault bool
}

// Step is one rule that was tried.
type Step struct {
	Rule
	Held StepResult
	// Conditions are all of the rule's, in the order of Explain. A rule that does not hold has
	// one that does not, or some that hold by a claim and exclude each other.
	Conditions []TracedCondition
}

// TracedCondition is a condition of a rule that was tried. ByClaim says that it depends on
// what the call claims and nobody has confirmed.
type TracedCondition struct {
	Condition
	ByClaim bool
}

// The bounds of a trace: rules that do not hold and are told with their conditions, and
// steps of all explanations together. A trace is read beside a call, and must not make
// people wait for it.
const (
	maxSteps       = 30
	maxTraceEffort = maxEffort / 8
)

// Trace says how Consider comes to its decisions.
func (b *Bundle) Trace(r *Request, now time.Time) Trace {
	if b.Expired(now) {
		return Trace{Expired: true, Elsewhere: len(b.rules)}
	}
	t := Trace{ByDefault: true}
	v := views{without: search{request: r, effort: maxEffort}, with: search{request: r.with(), effort: maxEffort}}
	words := views{without: search{request: r, effort: maxTraceEffort}, with: search{request: v.with.request, effort: maxTraceEffort}}
	var c candidates
	b.index.find(r.Tool, &c)
	tried, missed := 0, 0
	for i := c.next(); i >= 0; i = c.next() {
		if tried++; !t.ByDefault {
			t.Behind++
			continue
		}
		rule := &b.rules[i]
		held := rule.held(&v)
		if held == HoldsNot {
			if missed++; missed > maxSteps {
				t.Omitted++
				continue
			}
		}
		t.Steps = append(t.Steps, Step{Rule: rule.Rule, Held: held, Conditions: rule.traced(&words)})
		t.ByDefault = held == HoldsNot || held == HoldsClaimed
	}
	t.Elsewhere = len(b.rules) - tried
	return t
}

// held is what Consider makes of the rule.
func (r *rule) held(v *views) StepResult {
	perhaps, surely := r.consider(v)
	switch {
	case perhaps == unknown:
		return TooLong
	case surely == yes:
		return Holds
	case perhaps == yes:
		return HoldsClaimed
	}
	return HoldsNot
}

// traced is the rule's conditions, with and without what is claimed.
func (r *rule) traced(v *views) []TracedCondition {
	without := r.explain(&v.without)
	with := without
	if !v.without.request.Claims.none() {
		with = r.explain(&v.with)
	}
	list := make([]TracedCondition, len(with))
	for i, c := range with {
		switch believed := slices.Contains(r.believes, claimOf(c.Name)); {
		case believed || c.Held == without[i].Held:
			list[i].Condition = c
		case c.Held:
			list[i] = TracedCondition{c, true}
		default:
			list[i] = TracedCondition{without[i], true}
		}
	}
	return list
}

// claimOf is the claim that a condition looks at; "" for none.
func claimOf(condition string) string {
	switch {
	case condition == "match.environment":
		return claimEnvironment
	case condition == "match.tool_provider":
		return claimProvider
	case condition == "when.data_labels_any":
		return claimLabels
	case strings.HasPrefix(condition, "when."):
		return claimUserInput
	}
	return ""
}
