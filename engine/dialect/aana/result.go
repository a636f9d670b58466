package aana

import (
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/canon"
)

// Source is the source of this package's findings.
const Source = "contract"

// Result is what AANA says of one event. It holds no value of an
// argument and no text of evidence.
type Result struct {
	// Route is AANA's final word, and Executes whether it is accept.
	Route    engine.Route
	Executes bool
	// HardBlockers are sorted and without duplicates. They are empty exactly
	// if Executes or if only the recommendation stops the call.
	HardBlockers []string
	// Reasons are the codes that led to Route, in the order of the rules.
	Reasons []string
	// Findings has one finding for every hard blocker, and one for a
	// recommendation to ask or defer; then findings with route Accept, which
	// tell why something is allowed or what is weak in the evidence. The
	// strictest route among them is Route.
	Findings []engine.Finding
	// ValidationErrors is empty unless the event could not be read.
	ValidationErrors []ValidationError
	// Own is the route before the recommendation.
	Own engine.Route

	echo echo
}

// Invalid refuses an event that Parse, or the JSON reader before it, did not
// accept. v is what was read of it and may be null. Of its fields only those
// that are right by themselves are echoed.
func Invalid(v canon.Value, errs []ValidationError) Result {
	r := refused(errs)
	r.echo = echoOf(v)
	return r
}

// refused is the result for an event that cannot be judged.
func refused(errs []ValidationError) Result {
	var j judgement
	j.reason("event_failed_schema_validation")
	j.block("schema_validation_failed", engine.Refuse)
	r := j.result()
	r.Own = engine.Refuse
	r.ValidationErrors = errs
	if len(errs) == 0 {
		r.ValidationErrors = []ValidationError{{Path: "$", Message: "It is not a document that can be read."}}
	}
	return r
}

// ArgumentKeys are the names of the event's arguments as the answer repeats them; see
// ArgumentKeys of the package. They are nil for an event that could not be read.
func (r Result) ArgumentKeys() []string { return r.echo.argumentKeys }

// CheckResult is the result as one check of engine.Evaluate. What AANA
// would ask about needs an answer; what it defers needs one reviewer.
func (r Result) CheckResult() engine.CheckResult {
	return opinion(slices.Clone(r.Findings))
}

// Joined is the findings of several judgements of one call by the contract as one
// opinion: each once, and what the strictest of them asks for.
func Joined(judged ...[]engine.Finding) engine.CheckResult {
	var all []engine.Finding
	for _, findings := range judged {
		for _, f := range findings {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return opinion(all)
}

func opinion(findings []engine.Finding) engine.CheckResult {
	o, route := engine.CheckResult{Findings: findings}, engine.Accept
	for _, f := range findings {
		route = route.Stricter(f.Route)
	}
	switch route {
	case engine.Ask:
		o.Requirements = []engine.Requirement{{Kind: engine.Answer, Needed: 1}}
	case engine.Defer:
		o.Requirements = []engine.Requirement{{Kind: engine.Review, Needed: 1}}
	case engine.Accept, engine.Refuse:
	}
	return o
}

// judgement collects what the rules say. Its route is never set: it follows
// from the findings, so that it cannot differ from them. That is also why an
// accept with a hard blocker cannot be (section 6): a blocker's finding is
// never an accept.
type judgement struct {
	blockers []string
	reasons  []string
	findings []engine.Finding
	notes    []engine.Finding
}

// reason adds a code that explains and by itself decides nothing.
func (j *judgement) reason(code string) { j.reasons = append(j.reasons, code) }

// block adds a hard blocker.
func (j *judgement) block(code string, route engine.Route) {
	j.blockers = append(j.blockers, code)
	j.find(code, route)
}

// find adds a finding that stops the call.
func (j *judgement) find(code string, route engine.Route) {
	j.findings = append(j.findings, finding(code, route))
}

// allow adds the reason for which a rule accepts.
func (j *judgement) allow(code string) { j.note(code) }

// note adds a reason that people read and that stops nothing.
func (j *judgement) note(code string) {
	j.reason(code)
	j.notes = append(j.notes, finding(code, engine.Accept))
}

func finding(code string, route engine.Route) engine.Finding {
	return engine.Finding{Source: Source, Code: code, Message: Message(code), Route: route}
}

// route is the strictest route so far.
func (j *judgement) route() engine.Route {
	route := engine.Accept
	for _, f := range j.findings {
		route = route.Stricter(f.Route)
	}
	return route
}

func (j *judgement) result() Result {
	blockers := append([]string{}, j.blockers...)
	slices.Sort(blockers)
	route := j.route()
	return Result{
		Route:        route,
		Executes:     route == engine.Accept,
		HardBlockers: slices.Compact(blockers),
		Reasons:      j.reasons,
		Findings:     append(j.findings, j.notes...),
	}
}
