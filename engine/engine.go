// Package engine holds Holdpoint's words — call, finding, route, requirement,
// decision, event — and Evaluate, which turns the opinions of independent
// checks into one decision. Everything in it is a pure function of its
// arguments: it never reads a clock, the network, a file or a random source,
// and it never imports its own subpackages.
package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Call is a proposed tool call, already read strictly and reduced to its
// canonical form.
type Call struct {
	// Dialect names the system whose document proposed the call: "aana",
	// "spm", "threegate" or "authzen"; or "change", for a change of the rules, which
	// people propose.
	Dialect string
	// RequestID is the caller's own name for the request; it may be empty.
	RequestID string
	// AgentID is the agent that the credential belongs to, never what a body claims.
	AgentID string
	// Tool is the exact tool name.
	Tool string
	// RiskDomain and Category are the dialect's classification; they may be empty.
	RiskDomain string
	Category   string
	// Environment is where the call would run ("dev", "prod"); it is the token's audience.
	Environment string
	// Digest is canon.Digest over {tool, arguments}: "sha256:" and 64 hex digits.
	Digest string
}

// Finding is one check's opinion of one aspect of a call.
type Finding struct {
	// Source names the check: "contract", "credential", …
	Source string `json:"source"`
	// Code is stable and machine-readable.
	Code string `json:"code"`
	// Message is one sentence for a person. It never quotes an argument value.
	Message string `json:"message"`
	// Route is the loosest route that this finding permits.
	Route Route `json:"route"`
}

// Requirement is something that must happen before a call may run. Its times
// are counted from the moment at which its turn comes, in the hours of its
// Calendar where it names one.
type Requirement struct {
	Kind   Kind     `json:"kind"`
	Role   string   `json:"role,omitempty"`
	Needed int      `json:"needed"`
	Within Duration `json:"within,omitempty"`
	// Signed says that only votes count which the voter's own passkey has signed.
	Signed bool `json:"signed,omitempty"`
	// AnyOf lists groups of which one has to agree, instead of Role and Needed.
	AnyOf []Group `json:"any_of,omitempty"`
	// Deny is how many people have to say no; 0 means that the first no ends it.
	Deny int `json:"deny,omitempty"`
	// Escalation names who else may decide when a requirement has waited.
	Escalation []Escalation `json:"escalation,omitempty"`
	// Reminders are when those who have not decided yet are reminded.
	Reminders []Duration `json:"reminders,omitempty"`
	// Suggested lists the e-mail addresses of people to ask first. It gives nobody
	// a say.
	Suggested []string `json:"suggested,omitempty"`
	// Calendar names the business hours in which Within, Escalation and Reminders
	// count; "" means that every hour counts.
	Calendar string `json:"calendar,omitempty"`
	// Ticket says what a ticket has to be; nil leaves it to its connector.
	Ticket *TicketTerms `json:"ticket,omitempty"`
	// Form is the JSON Schema of what the requesting side has to supply with its
	// answer; nil when a yes is enough.
	Form json.RawMessage `json:"form,omitempty"`
}

// Words says what is asked for: "review by finance-approver".
func (r Requirement) Words() string {
	t := r.Kind.Traits()
	roles := r.Role
	for i, g := range r.AnyOf {
		if i > 0 {
			roles += " or "
		}
		roles += g.Role
	}
	if roles == "" || !t.VotesCount {
		return t.Noun
	}
	return t.Noun + " by " + roles
}

// Group is so many distinct people with a role.
type Group struct {
	Role   string `json:"role"`
	Needed int    `json:"needed"`
}

// TicketTerms says what a ticket has to be. Empty fields leave it to the
// connector's own settings.
type TicketTerms struct {
	// System names the connector; "" means any.
	System   string   `json:"system,omitempty"`
	Projects []string `json:"projects,omitempty"`
	States   []string `json:"states,omitempty"`
	MaxAge   Duration `json:"max_age,omitempty"`
}

// Escalation lets the people of Role decide as well, once a requirement has
// waited for After.
type Escalation struct {
	After Duration `json:"after"`
	Role  string   `json:"role"`
}

// Duration is a time.Duration that configuration, database and audit log write
// as Go does: "30m0s", "250ms".
type Duration time.Duration

// MarshalText writes the duration as time.Duration.String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// CheckResult is everything that one check says of a call.
type CheckResult struct {
	Findings     []Finding
	Requirements []Requirement
	// Constraints, when set, is a JSON object that the approval and the token carry along.
	Constraints json.RawMessage
	// ExpiresIn, when set, bounds how long the approval may take in all.
	ExpiresIn Duration
}

// Check judges a call. It is a pure function; a check that panics is taken to
// have refused.
type Check func(Call) CheckResult

// Decision is what all checks together say of a call.
type Decision struct {
	Route        Route           `json:"route"`
	Outcome      Outcome         `json:"outcome"`
	Findings     []Finding       `json:"findings"`
	Requirements []Requirement   `json:"requirements,omitempty"`
	Constraints  json.RawMessage `json:"constraints,omitempty"`
	ExpiresIn    Duration        `json:"expires_in,omitempty"`
	PolicyDigest string          `json:"policy_digest"`
}

// Evaluate runs every check and merges what they say: no check short-circuits
// another, the strictest finding's route wins, requirements add up in order of
// kind, but nobody is asked twice for what another check's requirement covers, and
// findings keep the order of the checks. A waiting route that comes
// with no requirement strong enough to discharge it gets a review by one
// person, so that nothing ever waits for nothing. Without any check the call
// is refused.
func Evaluate(call Call, policyDigest string, checks ...Check) Decision {
	d := Decision{PolicyDigest: policyDigest}
	if len(checks) == 0 {
		d.Findings = []Finding{{Source: "engine", Code: "no_checks", Message: "Nothing is configured to judge this call.", Route: Refuse}}
	}
	for _, check := range checks {
		d.add(guarded(check, call))
	}
	return d.conclude()
}

// StrictestFirst are the findings, with what decided before what was merely noticed.
func (d Decision) StrictestFirst() []Finding {
	sorted := slices.Clone(d.Findings)
	slices.SortStableFunc(sorted, func(a, b Finding) int { return int(b.Route) - int(a.Route) })
	return sorted
}

// Tighten adds one more opinion to a decision that has been made, which can
// only make it stricter.
func (d Decision) Tighten(o CheckResult) Decision {
	d.Findings, d.Requirements = slices.Clone(d.Findings), slices.Clone(d.Requirements)
	d.add(o)
	return d.conclude()
}

// add takes in what one check says.
func (d *Decision) add(o CheckResult) {
	for _, f := range o.Findings {
		if d.Findings == nil {
			d.Findings = make([]Finding, 0, 8) // as few as there nearly always are
		}
		if !slices.Contains(d.Findings, f) { // two checks may say the same
			d.Findings = append(d.Findings, f)
		}
	}
	d.Requirements = Combined(d.Requirements, o.Requirements)
	if o.ExpiresIn > 0 && (d.ExpiresIn == 0 || o.ExpiresIn < d.ExpiresIn) {
		d.ExpiresIn = o.ExpiresIn
	}
	if o.Constraints == nil {
		return
	}
	if d.Constraints != nil && !bytes.Equal(d.Constraints, o.Constraints) {
		d.Findings = append(d.Findings, Finding{
			Source: "engine", Code: "constraints_conflict",
			Message: "Two checks set constraints for this call; they cannot both be carried.", Route: Refuse,
		})
	}
	d.Constraints = o.Constraints
}

// conclude makes route, requirements and outcome of the findings.
func (d Decision) conclude() Decision {
	for _, f := range d.Findings {
		d.Route = d.Route.Stricter(f.Route)
	}
	if !d.Route.Waits() {
		d.Requirements, d.ExpiresIn = nil, 0
		d.Outcome = Allow
		if d.Route != Accept {
			d.Outcome = Deny
		}
		return d
	}
	slices.SortStableFunc(d.Requirements, func(a, b Requirement) int { return a.Kind.Order() - b.Kind.Order() })
	if !slices.ContainsFunc(d.Requirements, func(r Requirement) bool { return r.Kind.Traits().Discharges >= d.Route }) {
		d.Requirements = append(d.Requirements, Requirement{Kind: Review, Needed: 1})
	}
	d.Outcome = d.Requirements[len(d.Requirements)-1].Kind.Traits().Outcome
	return d
}

// guarded runs one check and turns a panic into a refusal. The panic's value is
// not shown: it may quote an argument.
func guarded(check Check, call Call) (o CheckResult) {
	defer func() {
		if r := recover(); r != nil {
			o = CheckResult{Findings: []Finding{{
				Source: "engine", Code: "check_failed",
				Message: fmt.Sprintf("A check failed while judging the call (%T).", r), Route: Refuse,
			}}}
		}
	}()
	return check(call)
}

// Require replaces a waiting decision's requirements by a completed list of
// them, in order of kind, and names the outcome after the strictest.
func (d Decision) Require(requirements []Requirement) Decision {
	if !d.Route.Waits() || len(requirements) == 0 {
		return d
	}
	d.Requirements = requirements
	d.Outcome = requirements[len(requirements)-1].Kind.Traits().Outcome
	return d
}

// Preview adds to a waiting decision what the re-check after the approval would
// object to: the findings of again that are not among its own, and a review
// instead of an answer if no other requirement discharges them. If the re-check
// would refuse the call, the decision refuses it now.
func (d Decision) Preview(again Decision) Decision {
	left := Undischarged(d.Findings, d.Requirements, again)
	if len(left) == 0 {
		return d
	}
	d.Findings = append(slices.Clone(d.Findings), left...)
	strictest := d.Route
	for _, f := range left {
		strictest = strictest.Stricter(f.Route)
	}
	if strictest == Refuse {
		d.Route, d.Outcome, d.Requirements, d.ExpiresIn = Refuse, Deny, nil, 0
		return d
	}
	if !slices.ContainsFunc(d.Requirements, func(r Requirement) bool { return r.Kind.Traits().Discharges >= strictest }) {
		// A review says all that a confirmation would: nobody is asked for both.
		// What has to be supplied a review does not supply.
		d.Requirements = slices.DeleteFunc(slices.Clone(d.Requirements), func(r Requirement) bool { return r.Kind.Confirms() && len(r.Form) == 0 })
		d.Requirements = append(d.Requirements, Requirement{Kind: Review, Needed: 1})
		d.Outcome = Review.Traits().Outcome
	}
	return d
}
