// Package approval is the state machine of an approval, as pure functions over
// values: a Plan says what must happen and by when, Facts say what people and
// systems contributed, and Advance says where that leaves the approval. It
// never reads a clock, a database or a random source, and a Fact is never
// changed once it exists.
//
//	             ┌─ every requirement satisfied ──► approved ─ redeemed once
//	             │
//	pending ─────┼─ an eligible person denies ────► denied
//	 (stage by   ├─ a deadline passes ────────────► expired
//	  stage)     └─ the requesting side cancels ──► cancelled
//
// Facts are ordered by the database under a lock on the approval, and the
// first decisive one wins: what comes after it is refused, not ignored.
package approval

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
)

// Plan is what must happen before the call may run. It is made once, when the
// approval opens, and never changes.
type Plan struct {
	// OpenedAt is the database's time at which the approval was stored.
	OpenedAt time.Time `json:"opened_at"`
	// ExpiresAt is the overall deadline.
	ExpiresAt time.Time `json:"expires_at"`
	// Requirements are discharged one after the other, in this order.
	Requirements []engine.Requirement `json:"requirements"`
	// Excluded holds the identities of the requesting side: nobody among them
	// may vote (separation of duties).
	Excluded []string `json:"excluded,omitempty"`
}

// Rule says how the approval of the calls that it matches is made up. Empty
// match fields match everything; the first matching rule wins.
type Rule struct {
	// Tool is a tool name, or a prefix when it ends in "*"; case does not count.
	Tool        string `json:"tool,omitempty" yaml:"tool"`
	RiskDomain  string `json:"risk_domain,omitempty" yaml:"risk_domain"`
	Category    string `json:"category,omitempty" yaml:"category"`
	Environment string `json:"environment,omitempty" yaml:"environment"`

	// Role is who may decide. Needed is how many distinct people must agree.
	Role   string `json:"role" yaml:"role"`
	Needed int    `json:"needed" yaml:"needed"`
	// Within is each requirement's own deadline, from its turn on; 0 means only
	// the overall one counts. ExpiresIn is the overall deadline.
	Within    engine.Duration `json:"within,omitempty" yaml:"within"`
	ExpiresIn engine.Duration `json:"expires_in" yaml:"expires_in"`
}

// Routing is an ordered list of rules and the rule for everything else.
type Routing struct {
	Rules   []Rule `json:"rules" yaml:"rules"`
	Default Rule   `json:"default" yaml:"default"`
}

// Bounds of what a rule may ask for.
const (
	MaxNeeded    = 20
	MaxExpiresIn = 90 * 24 * time.Hour
)

// Check returns every mistake in the routing, each naming its rule and field.
func (r Routing) Check() []error {
	var errs []error
	for i, rule := range r.Rules {
		errs = append(errs, rule.check(fmt.Sprintf("rules[%d]", i))...)
	}
	d := r.Default
	if d.Tool+d.RiskDomain+d.Category+d.Environment != "" {
		errs = append(errs, fmt.Errorf("default: it applies to every other call and cannot match on anything"))
	}
	return append(errs, d.check("default")...)
}

func (r Rule) check(where string) []error {
	var errs []error
	if strings.TrimSpace(r.Role) == "" {
		errs = append(errs, fmt.Errorf("%s.role: name the role whose people decide", where))
	}
	if r.Needed < 1 || r.Needed > MaxNeeded {
		errs = append(errs, fmt.Errorf("%s.needed: want 1 to %d people, got %d", where, MaxNeeded, r.Needed))
	}
	if d := time.Duration(r.ExpiresIn); d <= 0 || d > MaxExpiresIn {
		errs = append(errs, fmt.Errorf("%s.expires_in: want more than 0s and at most %s, got %s", where, MaxExpiresIn, d))
	}
	if d := time.Duration(r.Within); d < 0 || d > time.Duration(r.ExpiresIn) {
		errs = append(errs, fmt.Errorf("%s.within: want 0s to expires_in (%s), got %s", where, time.Duration(r.ExpiresIn), d))
	}
	return errs
}

func (r Rule) matches(call engine.Call) bool {
	// Case and surrounding blanks make no other tool of it.
	name, pattern := plainName(call.Tool), plainName(r.Tool)
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		if !strings.HasPrefix(name, prefix) {
			return false
		}
	} else if pattern != "" && pattern != name {
		return false
	}
	return (r.RiskDomain == "" || r.RiskDomain == call.RiskDomain) &&
		(r.Category == "" || r.Category == call.Category) &&
		(r.Environment == "" || r.Environment == call.Environment)
}

func plainName(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// For returns the rule that applies to a call.
func (r Routing) For(call engine.Call) Rule {
	for _, rule := range r.Rules {
		if rule.matches(call) {
			return rule
		}
	}
	return r.Default
}

// Apply completes a decision's requirements by the rule: a requirement without
// a role gets the rule's, a review or human requirement asks for at least the
// rule's number of people, and one without a deadline gets the rule's. Where the
// rule asks for several people, a single confirmation is not enough either:
// such a requirement becomes a review. The result is ordered by kind and shares
// nothing with its argument.
func (r Rule) Apply(requirements []engine.Requirement) []engine.Requirement {
	out := slices.Clone(requirements)
	for i := range out {
		req := &out[i]
		if req.Kind == engine.Answer && r.Needed > 1 {
			req.Kind = engine.Review
		}
		if req.Role == "" {
			req.Role = r.Role
		}
		req.Needed = max(req.Needed, 1)
		if req.Kind == engine.Review || req.Kind == engine.Human {
			req.Needed = max(req.Needed, r.Needed)
		}
		if req.Within == 0 {
			req.Within = r.Within
		}
	}
	slices.SortStableFunc(out, func(a, b engine.Requirement) int { return a.Kind.Order() - b.Kind.Order() })
	return out
}

// deadline is the moment at which stage i ends when its turn came at since.
func (p Plan) deadline(i int, since time.Time) time.Time {
	if within := time.Duration(p.Requirements[i].Within); within > 0 {
		if own := since.Add(within); own.Before(p.ExpiresAt) {
			return own
		}
	}
	return p.ExpiresAt
}
