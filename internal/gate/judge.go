package gate

import (
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
	"holdpoint/engine/policy"
	"holdpoint/engine/redact"
	"holdpoint/engine/registry"
)

// The dialects: the systems in whose documents calls are proposed.
const (
	DialectAANA      = "aana"      // Agent Action Contract v1
	DialectSPM       = "spm"       // Agent-SPM v0.3
	DialectThreeGate = "threegate" // ThreeGate tool execution requests
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
	return &Judge{Rules: r, body: body, digest: "sha256:" + hex.EncodeToString(sum[:])}, nil
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

	claim  registry.Claim
	tags   []string // declared data tags and labels
	labels []string // those that policy looks at
	input  string   // the user's words
	// environment is where the call says that it runs; "" when it does not.
	environment string
	session     string
	// subjects are references to the people on whose behalf the call is made.
	subjects []string
	// barred are further identities that may not decide, and answer for nothing.
	barred []string
	// own is what the dialect itself says of the call, and confirmed what it
	// would say once people have approved it.
	own, confirmed []engine.Check
	safe           map[string]any // what the event may tell of it
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
func (j *Judge) Judge(p Proposal, now time.Time) Judgement {
	if !p.Valid {
		return Judgement{Decision: engine.Evaluate(p.Call, j.digest, p.own...)}
	}
	shared, said := j.shared(p, now)
	d := engine.Evaluate(p.Call, j.digest, append(slices.Clone(p.own), shared...)...)
	if d.Route.Waits() {
		d = d.Preview(engine.Evaluate(p.Call, j.digest, append(slices.Clone(p.confirmed), shared...)...))
	}
	return Judgement{Decision: d, Policy: said}
}

// shared are the checks of every dialect's call: the tool's contract, the
// policy, and who calls with what tool.
func (j *Judge) shared(p Proposal, now time.Time) ([]engine.Check, *policy.Decision) {
	var checks []engine.Check
	known := func(engine.Call) engine.Opinion { return engine.Opinion{Findings: j.Registry.Check(p.claim, now)} }
	if j.Unusable {
		checks = append(checks, always(unusable))
	}
	if j.Contracts != nil {
		checks = append(checks, func(c engine.Call) engine.Opinion {
			return j.Contracts.Opinion(c, p.Arguments, p.tags, j.Detector)
		})
	}
	if j.Policy == nil {
		if p.Call.Dialect == DialectSPM && !j.Unusable {
			checks = append(checks, always(noPolicy))
		}
		return append(checks, known), nil
	}
	// The gate's own environment is the one that counts. A call that says that
	// it runs elsewhere is judged by both: its word can only make it stricter.
	own := j.Policy.Decide(j.policyRequest(p, j.Environment), now)
	checks = append(checks, func(engine.Call) engine.Opinion { return policyOpinion(own, p.Call.Dialect) })
	if p.environment != "" && p.environment != j.Environment {
		claimed := j.Policy.Decide(j.policyRequest(p, p.environment), now)
		checks = append(checks, func(engine.Call) engine.Opinion {
			o := policyOpinion(claimed, p.Call.Dialect)
			if claimed.Rule == own.Rule {
				// The same rule says the same again, and asks for nobody twice.
				o.Findings, o.Requirements = nil, nil
			}
			o.Findings = append(o.Findings, engine.Finding{
				Source: registry.Source, Code: registry.ClaimOverridden, Route: engine.Accept,
				Message: fmt.Sprintf("The call names another environment; it was judged for that one and for this gate's, %q.", j.Environment),
			})
			return o
		})
	}
	return append(checks, known), &own
}

var noPolicy = engine.Opinion{Findings: []engine.Finding{{
	Source: policySource, Code: "NO_POLICY", Message: "No policy is in force, so nothing allows this call.", Route: engine.Refuse,
}}}

var unusable = engine.Opinion{Findings: []engine.Finding{{
	Source: policySource, Code: "POLICY_UNAVAILABLE", Message: "The rules in force cannot be read, so nothing allows this call.", Route: engine.Refuse,
}}}

// policyRequest is what policy rules look at: of the agent what is registered,
// of the call what it says.
func (j *Judge) policyRequest(p Proposal, environment string) *policy.Request {
	who := j.Registry.Identify(p.claim)
	trust, args := who.Trust.String(), p.Arguments
	if p.policyArguments.Kind() == canon.ObjectKind {
		args = p.policyArguments
	}
	return &policy.Request{
		Dialect: p.Call.Dialect, Tool: p.Call.Tool, Args: args, Environment: environment, AgentType: given(who.Type),
		TrustLevel: &trust, Provider: given(who.Provider), Roles: who.Roles, UserInput: p.input, DataLabels: p.labels,
	}
}

func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

const policySource = "policy"

// policyOpinion is a policy's decision as one check's opinion.
func policyOpinion(d policy.Decision, dialect string) engine.Opinion {
	o := engine.Opinion{Requirements: d.Requirements(), Constraints: d.Constraints}
	for _, reason := range d.Reasons {
		// The other dialects explain their own acceptance; that no rule objects is no
		// news there.
		if d.Outcome == engine.Allow && d.Rule == "" && dialect != DialectSPM {
			continue
		}
		o.Findings = append(o.Findings, engine.Finding{Source: policySource, Code: reason.Code, Message: reason.Message, Route: d.Outcome.Route()})
	}
	if d.Approval != nil {
		o.ExpiresIn = d.Approval.ExpiresIn
	}
	return o
}

// Recheck judges the sealed document of an approval whose requirements have been
// met, as its dialect has it once people have approved the call.
func (j *Judge) Recheck(a approval.Approval, document []byte, now time.Time) (engine.Decision, error) {
	doc, err := canon.Parse(document)
	if err != nil {
		return engine.Decision{}, fmt.Errorf("read the sealed document of %s again: %w", a.ID, err)
	}
	p, err := propose(a.Call.Dialect, doc, a.Call.AgentID, a.ID, now)
	if err != nil {
		return engine.Decision{}, fmt.Errorf("judge %s again: %w", a.ID, err)
	}
	if !p.Valid {
		return engine.Evaluate(a.Call, j.digest, p.own...), nil
	}
	if p.Call.Digest != a.Call.Digest {
		return engine.Decision{}, fmt.Errorf("judge again: the sealed document of %s is not the call that was approved", a.ID)
	}
	shared, _ := j.shared(p, now)
	d, rule := engine.Evaluate(a.Call, j.digest, append(p.confirmed, shared...)...), j.Routing.For(a.Call)
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
	return d, j.Routing.Terms(rule, d.Requirements, a.Plan.Accountable)
}

// propose reads a sealed document of a dialect as the proposal that it was.
func propose(dialect string, doc canon.Value, agentID, approvalID string, now time.Time) (Proposal, error) {
	return proposeCapped(dialect, doc, agentID, approvalID, string(aana.Confirmed), now)
}

// proposeCapped is propose with what the document claims lowered to limit.
func proposeCapped(dialect string, doc canon.Value, agentID, approvalID, limit string, now time.Time) (Proposal, error) {
	switch dialect {
	case DialectAANA:
		state, err := aana.ParseState(limit)
		if err != nil {
			state = aana.None
		}
		p, _ := proposeEvent(agentID, state, approvalID, doc, now)
		return p, nil
	case DialectSPM:
		p, wrong := proposeAction(agentID, doc)
		if len(wrong) > 0 {
			return p, fmt.Errorf("the sealed document is no request any more: %s %s", wrong[0].Path, wrong[0].Message)
		}
		return p, nil
	case DialectThreeGate:
		return proposeDraft(agentID, doc, now)
	}
	return Proposal{}, fmt.Errorf("unknown dialect %q", dialect)
}

func always(o engine.Opinion) engine.Check { return func(engine.Call) engine.Opinion { return o } }
