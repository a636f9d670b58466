package gate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/dialect/threegate"
	"holdpoint/engine/policy"
	"holdpoint/engine/redact"
	"holdpoint/engine/registry"
)

// The dialects: the systems in whose documents calls are proposed.
const (
	DialectAANA      = "aana"      // Agent Action Contract v1
	DialectSPM       = "spm"       // Agent-SPM v0.3
	DialectThreeGate = "threegate" // ThreeGate tool execution requests
	DialectAuthZEN   = "authzen"   // OpenID AuthZEN Authorization API 1.0
	DialectSafeAI    = "safeai"    // SafeAI's methods, which ask and propose nothing
)

// Rules are what a Judge judges by. Environment and Routing are required;
// Registry nil is an empty one.
type Rules struct {
	// Environment is where the calls would run.
	Environment string
	Routing     approval.Routing
	// Policy and Contracts are the documents in force; nil for none.
	Policy    *policy.Bundle
	Contracts *safeai.Set
	// Detector finds secrets and personal data where contracts are configured.
	Detector *redact.Detector
	Registry *registry.Snapshot
	// Unusable says that documents are in force and cannot be read: every call
	// is refused.
	Unusable bool
}

// Judge judges calls by the rules in force. It is a value: the same documents
// at the same time always get the same decisions.
type Judge struct {
	Rules
	named  *registry.Names // by the rules
	body   []byte
	digest string
}

// NewJudge makes a judge of rules. The routing must pass its Check.
func NewJudge(r Rules) (*Judge, error) {
	if r.Registry == nil {
		r.Registry = &registry.Snapshot{Settings: registry.DefaultSettings()}
	}
	if r.Contracts != nil && r.Detector == nil {
		return nil, fmt.Errorf("tool contracts need a detector")
	}
	names := map[string]any{"contract": aana.Version, "environment": r.Environment, "routing": r.Routing}
	if r.Policy != nil {
		names["policy"] = r.Policy.Digest
	}
	if r.Contracts != nil {
		names["tool_contracts"] = r.Contracts.Digest()
	}
	encoded, err := json.Marshal(names)
	if err != nil {
		return nil, fmt.Errorf("encode the policy: %w", err)
	}
	v, err := canon.Parse(encoded)
	if err != nil {
		return nil, fmt.Errorf("read the policy back: %w", err)
	}
	body := v.Canonical()
	sum := sha256.Sum256(body)
	return &Judge{Rules: r, named: namedBy(r), body: body, digest: "sha256:" + hex.EncodeToString(sum[:])}, nil
}

// namedBy are the names of tools that rules go by.
func namedBy(r Rules) *registry.Names {
	names := &registry.Names{}
	names.Add(threegate.ToolName)
	if r.Policy != nil {
		exact, prefixes := r.Policy.Tools()
		for _, name := range exact {
			names.Add(name)
		}
		for _, prefix := range prefixes {
			names.AddPrefix(prefix)
		}
	}
	if r.Contracts != nil {
		for _, name := range r.Contracts.Tools() {
			names.Add(name)
		}
	}
	return names
}

// Digest names everything that decisions depend on beside the call itself and
// what is registered of agents and tools.
func (j *Judge) Digest() string { return j.digest }

// Body is the canonical JSON that Digest is the SHA-256 of: it names the
// environment, the routing, and the policy and contracts by their digests.
func (j *Judge) Body() []byte { return j.body }

// Proposal is a call on its way through the gate, whatever its dialect.
type Proposal struct {
	Call engine.Call
	// Valid says that the document had its dialect's structure. What is not
	// valid is refused by its own check, and has no arguments.
	Valid     bool
	Arguments canon.Value
	// Document is what was sent, as it was read.
	Document canon.Value

	// policyArguments is what policy sees instead of the arguments, when set.
	policyArguments canon.Value

	// asked says that the vetoes have been asked already.
	asked bool
	// dryRun says that the caller only wants to know: its events say so.
	dryRun bool

	claim  registry.Claim
	labels []string // declared data tags and labels
	input  string   // the user's words
	// event is the Agent Action Contract's, where the call was proposed as one, and
	// result what the contract says of it as it stands; state is the most that the
	// caller may claim of its authorization.
	event  *aana.Event
	result aana.Result
	state  aana.State
	// environment is where the call says that it runs; "" when it does not.
	environment string
	session     string
	// subjects are references to the people on whose behalf the call is made.
	subjects []string
	// barred are further identities that may not decide, and answer for nothing;
	// barredByClaim are those of them whom only a claim has excluded.
	barred, barredByClaim []string
	// own is what the dialect itself says of the call beside the contract, and
	// confirmed what it would say once people have approved it.
	own, confirmed []engine.Check
	safe           []payloadMember // what the event may tell of it
	keys           []string        // what it may tell of the arguments' names, where that is known
	// binding is a keyed digest of what was evaluated; "" by other doors than AuthZEN's.
	binding string
}

// Judgement is a decision, and the part of it that is the policy's own.
type Judgement struct {
	engine.Decision
	// Policy is what the policy alone said; nil when it was not asked.
	Policy *policy.Decision
}

// Judge judges a proposal. What would still stand in the way of a confirmed
// call is shown to people now, instead of turning their approval down
// afterwards.
func (j *Judge) Judge(p *Proposal, now time.Time) Judgement {
	if !p.Valid {
		return Judgement{Decision: engine.Evaluate(p.Call, j.digest, p.own...)}
	}
	shared, said := j.shared(p, now)
	d := engine.Evaluate(p.Call, j.digest, j.checks(p.own, p, "", now, shared)...)
	if j.Policy == nil && d.Route == engine.Accept && j.tool(p).Category == "" {
		d = d.Tighten(unvouched)
	}
	if d.Route.Waits() {
		d = d.Preview(engine.Evaluate(p.Call, j.digest, j.checks(p.confirmed, p, "apr_", now, shared)...))
	}
	return Judgement{Decision: d, Policy: said}
}

// checks are all of a call's: the dialect's own, the contract, and the others.
func (j *Judge) checks(own []engine.Check, p *Proposal, approvalID string, now time.Time, others []engine.Check) []engine.Check {
	all := append(make([]engine.Check, 0, len(own)+1+len(others)), own...)
	return append(append(all, func(engine.Call) engine.CheckResult { return j.contract(p, approvalID, now) }), others...)
}

// shared are the checks of every dialect's call: the tool's contract, the
// policy, and who calls with what tool.
func (j *Judge) shared(p *Proposal, now time.Time) ([]engine.Check, *policy.Decision) {
	checks, said := j.rules(p, now)
	if j.Contracts != nil {
		checks = append(checks, func(c engine.Call) engine.CheckResult {
			return j.Contracts.Check(c, p.Arguments, slices.Concat(p.labels, j.tool(p).DataLabels), j.Detector)
		})
	}
	return checks, said
}

// rules are the shared checks but for the tool's contract.
func (j *Judge) rules(p *Proposal, now time.Time) ([]engine.Check, *policy.Decision) {
	own, said := j.policyOpinion(p, now)
	checks := []engine.Check{always(own), func(engine.Call) engine.CheckResult { return j.known(p, now) }}
	if j.Unusable {
		checks = append(checks, always(unusable))
	}
	return checks, said
}

// Beside judges a call that its tool's contract allows by everything else: what
// SafeAI's interception has to know before it lets a call through.
func (j *Judge) Beside(p *Proposal, now time.Time) engine.Decision {
	rules, _ := j.rules(p, now)
	return engine.Evaluate(p.Call, j.digest, j.checks(nil, p, "", now, rules)...)
}

// stakes is the template of the sentence that says what a call will do: the policy
// rule's, else that of the tool's registration; nil without one.
func (j *Judge) stakes(p *Proposal, said *policy.Decision) *approval.Stakes {
	if said != nil && said.Stakes != "" {
		return &approval.Stakes{Template: said.Stakes, From: "policy rule " + said.Rule}
	}
	if text := j.tool(p).Stakes; text != "" {
		return &approval.Stakes{Template: text, From: "the tool’s registration"}
	}
	return nil
}

// known says who calls, and with what tool.
func (j *Judge) known(p *Proposal, now time.Time) engine.CheckResult {
	o := engine.CheckResult{Findings: j.Registry.Check(p.claim, now)}
	if p.Call.Tool == threegate.ToolName && p.Call.Dialect != DialectThreeGate {
		o.Findings = append(o.Findings, engine.Finding{
			Source: registry.Source, Code: "TOOL_REQUEST_REQUIRED", Route: engine.Refuse,
			Message: "This tool runs documents that are proposed as tool execution requests, and is called in no other way.",
		})
	}
	if _, registered := j.Registry.Registered(p.Call.Tool); !registered {
		if name, alike := j.named.Lookalike(p.Call.Tool); alike {
			o.Findings = append(o.Findings, engine.Finding{
				Source: registry.Source, Code: registry.ToolLookalike, Route: engine.Refuse,
				Message: fmt.Sprintf("The tool is not registered, no rule names it, and its name looks like %q, which a rule names.", name),
			})
		}
	}
	return o
}

// tool is what is registered of the call's tool.
func (j *Judge) tool(p *Proposal) registry.Tool {
	t, _ := j.Registry.Registered(p.Call.Tool)
	return t
}

// asRegistered is the call with what is registered of its tool in place of what it
// claims, so that routing asks the same people whatever it says.
func (j *Judge) asRegistered(c engine.Call) engine.Call {
	t, _ := j.Registry.Registered(c.Tool)
	known := classification(t)
	if known.Category != "" {
		c.Category = string(known.Category)
	}
	if t.RiskDomain != "" {
		c.RiskDomain = t.RiskDomain
	}
	return c
}

// classification is what is registered of a tool in the contract's terms.
func classification(t registry.Tool) aana.Classification {
	return aana.Classification{
		Category: aana.Category(t.Category), RiskDomain: aana.RiskDomain(t.RiskDomain), IdentityBound: t.IdentityBound, SideEffects: t.SideEffects,
	}.Complete()
}

// contract holds the call against the Agent Action Contract: an event as it
// claims to be, and every call as what is registered of its tool. So a claim makes
// nothing looser, and no other system's document does. approvalID is the evidence
// of a call that people have approved, and "" before that.
func (j *Judge) contract(p *Proposal, approvalID string, now time.Time) engine.CheckResult {
	var found [3][]engine.Finding
	results := found[:0]
	known, state := classification(j.tool(p)), p.state
	if approvalID != "" {
		state = aana.Confirmed
	}
	other := false
	if p.event != nil {
		judge := func(e aana.Event) {
			if approvalID != "" {
				e = confirm(e, approvalID)
			}
			results = append(results, e.Findings(now))
		}
		if approvalID == "" {
			results = append(results, p.result.Findings)
		} else {
			judge(*p.event)
		}
		var classified aana.Event
		if classified, other = p.event.Classified(known); other {
			judge(classified)
		}
	}
	if known.Category != "" && p.Call.Dialect != DialectThreeGate {
		// The registry adds its objections only.
		results = append(results, slices.DeleteFunc(aana.Known(p.Call.Tool, p.Arguments, known, state).Findings(now), func(f engine.Finding) bool { return f.Route == engine.Accept }))
	}
	o := aana.Joined(results...)
	if other {
		o.Findings = append(o.Findings, engine.Finding{
			Source: registry.Source, Code: registry.ClaimOverridden, Route: engine.Accept,
			Message: "The tool is registered with another category or risk domain than the call claims; the call was judged by both.",
		})
	}
	return o
}

var noPolicy = engine.CheckResult{Findings: []engine.Finding{{
	Source: policySource, Code: "NO_POLICY", Message: "No policy is in force, so nothing allows this call.", Route: engine.Refuse,
}}}

// unvouched holds a call that nothing but its own words allows: no policy is in
// force, and nobody has registered what its tool does.
var unvouched = engine.CheckResult{
	Findings: []engine.Finding{{
		Source: policySource, Code: "NO_POLICY", Route: engine.Defer,
		Message: "No policy is in force, and the tool is not registered with a category: only the call itself says that it may run.",
	}},
	Requirements: []engine.Requirement{{Kind: engine.Review, Needed: 1}},
}

var unusable = engine.CheckResult{Findings: []engine.Finding{{
	Source: policySource, Code: "POLICY_UNAVAILABLE", Message: "The rules in force cannot be read, so nothing allows this call.", Route: engine.Refuse,
}}}

// policyRequest is what policy rules look at: of the agent and its tool what is
// registered, the call's arguments, and what the call claims besides.
func (j *Judge) policyRequest(p *Proposal) *policy.Request {
	who, args := j.Registry.Identify(p.claim), p.Arguments
	if p.policyArguments.Kind() == canon.ObjectKind {
		args = p.policyArguments
	}
	tool, registered := j.Registry.Registered(p.Call.Tool)
	// What it points to is beside it.
	said := &struct {
		policy.Request
		agentType, trust, provider string
	}{agentType: who.Type, trust: who.Trust.String(), provider: tool.Provider}
	r := &said.Request
	*r = policy.Request{
		Tool: p.Call.Tool, ToolRegistered: registered, ToolCategory: tool.Category, ToolRiskDomain: tool.RiskDomain, Args: args,
		Environment: j.Environment, AgentType: given(&said.agentType), TrustLevel: &said.trust, Provider: given(&said.provider), Roles: who.Roles,
		DataLabels: tool.DataLabels, Claims: policy.Claims{UserInput: p.input, DataLabels: p.labels},
	}
	if tool.Provider == "" {
		r.Claims.Provider = p.claim.Provider
	}
	if p.environment != j.Environment {
		r.Claims.Environment = p.environment
	}
	return r
}

func given(text *string) *string {
	if *text == "" {
		return nil
	}
	return text
}

const policySource = "policy"

// policyOpinion is what the policy makes of a call, as one check's opinion, and
// its own decision: the strictest of those that hold for some of the claims. It
// knows nothing of the document in which the call was proposed.
func (j *Judge) policyOpinion(p *Proposal, now time.Time) (engine.CheckResult, *policy.Decision) {
	switch {
	case j.Policy == nil && j.Unusable:
		return engine.CheckResult{}, nil
	case j.Policy == nil && p.event != nil:
		return engine.CheckResult{}, nil // the contract judges it; see unvouched
	case j.Policy == nil:
		return noPolicy, nil
	}
	request := j.policyRequest(p)
	var o engine.CheckResult
	var own *policy.Decision
	for _, d := range j.Policy.Consider(request, now) {
		o = combined(o, opinionOf(d))
		if own == nil || d.Outcome.Route() > own.Outcome.Route() {
			own = &d
		}
	}
	if request.Claims.Environment != "" {
		o.Findings = append(o.Findings, engine.Finding{
			Source: registry.Source, Code: registry.ClaimOverridden, Route: engine.Accept,
			Message: fmt.Sprintf("The call names another environment; it was judged for that one and for this gate's, %q.", j.Environment),
		})
	}
	return o, own
}

// opinionOf is one decision of a policy as an opinion.
func opinionOf(d policy.Decision) engine.CheckResult {
	o := engine.CheckResult{Requirements: d.Requirements(), Constraints: d.Constraints}
	for _, reason := range d.Reasons {
		o.Findings = append(o.Findings, engine.Finding{Source: policySource, Code: reason.Code, Message: reason.Message, Route: d.Outcome.Route()})
	}
	if d.Approval != nil {
		o.ExpiresIn = d.Approval.ExpiresIn
	}
	return o
}

// combined is both opinions of one policy in one: nobody is asked twice for what
// one of them covers, and of two ends the sooner one holds.
func combined(a, b engine.CheckResult) engine.CheckResult {
	a.Findings = append(a.Findings, b.Findings...)
	a.Requirements = engine.Combined(a.Requirements, b.Requirements)
	if b.ExpiresIn > 0 && (a.ExpiresIn == 0 || b.ExpiresIn < a.ExpiresIn) {
		a.ExpiresIn = b.ExpiresIn
	}
	switch {
	case a.Constraints == nil:
		a.Constraints = b.Constraints
	case b.Constraints != nil && !bytes.Equal(a.Constraints, b.Constraints):
		a.Findings = append(a.Findings, engine.Finding{
			Source: policySource, Code: "constraints_conflict", Route: engine.Refuse,
			Message: "Two rules that hold for what the call claims set different constraints; they cannot both be carried.",
		})
	}
	return a
}

// Recheck judges the sealed document of an approval whose requirements have been
// met, as its dialect has it once people have approved the call.
func (j *Judge) Recheck(a approval.Approval, document []byte, now time.Time) (engine.Decision, error) {
	doc, err := canon.Parse(document)
	if err != nil {
		return engine.Decision{}, fmt.Errorf("read the sealed document of %s again: %w", a.ID, err)
	}
	p, err := propose(a.Call.Dialect, doc, a.Call.AgentID, now)
	accepted := a.Plan.AcceptedAs != ""
	if accepted {
		p, err = proposeCapped(a.Call.Dialect, doc, a.Call.AgentID, a.Plan.AcceptedAs, now)
	}
	if err != nil {
		return engine.Decision{}, fmt.Errorf("judge %s again: %w", a.ID, err)
	}
	if !p.Valid {
		return engine.Evaluate(a.Call, j.digest, p.own...), nil
	}
	if p.Call.Digest != a.Call.Digest {
		return engine.Decision{}, fmt.Errorf("judge again: the sealed document of %s is not the call that was approved", a.ID)
	}
	if accepted {
		// Nobody has approved it: it has to be accepted as it stands, as it was.
		return j.Judge(&p, now).Decision, nil
	}
	shared, _ := j.shared(&p, now)
	d, rule := engine.Evaluate(a.Call, j.digest, j.checks(p.confirmed, &p, a.ID, now, shared)...), j.Routing.For(a.Call)
	for i := range d.Requirements {
		// What the policy leaves to the settings it does not ask to be stricter.
		if r := &d.Requirements[i]; r.Deny == 0 && r.Kind.PeopleDecide() {
			r.Deny = rule.Deny
		}
	}
	return d, nil
}

// Reopen completes a decision that asks for more than the approval did, by the
// routing in force.
func (j *Judge) Reopen(a approval.Approval, d engine.Decision) (engine.Decision, approval.Terms) {
	rule := j.Routing.For(a.Call)
	d = d.Require(rule.Apply(d.Requirements))
	terms := j.Routing.Terms(rule, d.Requirements, a.Plan.Accountable, a.Plan.ByClaim)
	terms.Stakes = a.Plan.Stakes // the call is the same, and so is what is said of it
	return d, terms
}

// propose reads a sealed document of a dialect as the proposal that it was.
func propose(dialect string, doc canon.Value, agentID string, now time.Time) (Proposal, error) {
	return proposeCapped(dialect, doc, agentID, string(aana.Confirmed), now)
}

// proposeCapped is propose with what the document claims lowered to limit.
func proposeCapped(dialect string, doc canon.Value, agentID, limit string, now time.Time) (Proposal, error) {
	state := stateOf(limit)
	switch dialect {
	case DialectAANA:
		return proposeEvent(agentID, state, doc, now), nil
	case DialectSPM:
		p, wrong := proposeAction(agentID, doc)
		p.state = state
		if len(wrong) > 0 {
			return p, fmt.Errorf("the sealed document is no request any more: %s %s", wrong[0].Path, wrong[0].Message)
		}
		return p, nil
	case DialectThreeGate:
		return proposeDraft(agentID, doc, now)
	case DialectChange:
		_, p, err := ruleChange(doc)
		return p, err
	case DialectAuthZEN:
		p, wrong := proposeEvaluation(agentID, doc)
		p.state = state
		if len(wrong) > 0 {
			return p, fmt.Errorf("the sealed document is no request any more: %s %s", wrong[0].Path, wrong[0].Message)
		}
		return p, nil
	}
	return Proposal{}, fmt.Errorf("unknown dialect %q", dialect)
}

func always(o engine.CheckResult) engine.Check {
	return func(engine.Call) engine.CheckResult { return o }
}

// stateOf is the state that a limit names; one that names none allows none.
func stateOf(limit string) aana.State {
	state, err := aana.ParseState(limit)
	if err != nil {
		return aana.None
	}
	return state
}
