package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/authzen"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/identity"
)

// Evaluated is the gate's answer to an AuthZEN Access Evaluation request.
type Evaluated struct {
	Decision engine.Decision
	// Event is what was appended to the audit log.
	Event engine.Event
	// Approval is set when the call waits.
	Approval *approval.Approval
	// Joined says that it waited already when the call was proposed again.
	Joined bool
	// Of a request that presents an approval: until when the approval is good, by when to
	// say what became of the call, and what to do about an approval that does not permit it.
	ApprovedUntil, LeaseUntil time.Time
	NextAction                string
}

// Evaluate judges an AuthZEN Access Evaluation request and returns once the
// decision's event is durable. Field errors mean that it was not judged.
func (g *Gate) Evaluate(ctx context.Context, p access.Principal, doc canon.Value, r Request, once *access.Idempotency[Evaluated]) (Evaluated, []FieldError, error) {
	proposal, wrong := proposeEvaluation(p.AgentID, doc)
	proposal.state = stateOf(p.MaxState)
	if len(wrong) > 0 {
		return Evaluated{}, wrong, nil
	}
	request, _ := authzen.Parse(doc) // it is read without a mistake
	g.bind(&proposal, request)
	if request.Approval() != "" {
		if !slices.Contains(p.Scopes, identity.ScopeRedeem) {
			return Evaluated{}, nil, &access.Refusal{Kind: access.Forbidden, Code: "scope_missing", Detail: "To be permitted by an approval takes a key that has the scope “redeem”."}
		}
		e, err := g.reevaluate(ctx, p, request, &proposal, r, once)
		return e, nil, err
	}
	finish := func(o Outcome) Evaluated {
		return Evaluated{Decision: o.Decision, Event: o.Event, Approval: o.Approval, Joined: o.Joined}
	}
	o, err := g.submit(ctx, p, &proposal, r, access.Adapt(once, finish))
	if err != nil {
		return Evaluated{}, nil, err
	}
	return finish(o), nil, nil
}

// bind binds a proposal to what was evaluated: it joins what waits for the same.
func (g *Gate) bind(p *Proposal, r authzen.Request) {
	p.binding = g.Sealer.Digest(r.Binding())
	p.safe = append(p.safe, payloadMember{"binding", p.binding})
}

// agentSubjects are the types of a subject that is an agent; any other one is somebody
// on whose behalf the call is made.
var agentSubjects = map[string]bool{"agent": true, "ai_agent": true}

// proposeEvaluation reads an AuthZEN Access Evaluation request as a proposal.
func proposeEvaluation(agentID string, doc canon.Value) (Proposal, []FieldError) {
	request, mistakes := authzen.Parse(doc)
	if len(mistakes) > 0 {
		wrong := make([]FieldError, len(mistakes))
		for i, m := range mistakes {
			wrong[i] = FieldError(m)
		}
		return Proposal{}, wrong
	}
	for _, f := range []struct{ path, value string }{
		{"/subject/type", request.Subject.Type}, {"/subject/id", request.Subject.ID}, {"/resource/type", request.Resource.Type},
	} {
		if len(f.value) > maxSubject {
			return Proposal{}, []FieldError{{Path: f.path, Message: fmt.Sprintf("has %d bytes; at most %d are accepted", len(f.value), maxSubject)}}
		}
	}
	p := Proposal{
		Call:  engine.Call{Dialect: DialectAuthZEN, AgentID: agentID, Tool: request.Tool, Digest: canon.Digest(request.Tool, request.Arguments)},
		Valid: true, Arguments: request.Arguments, Document: request.Document, claim: registry.Claim{AgentID: agentID, Tool: request.Tool},
		safe: []payloadMember{{"subject_type", word(request.Subject.Type)}, {"resource_type", word(request.Resource.Type)}},
	}
	switch {
	case !agentSubjects[strings.ToLower(request.Subject.Type)]:
		p.subjects = []string{request.Subject.ID}
	case request.Subject.ID != agentID:
		p.own = []engine.Check{always(otherAgent)}
		p.confirmed = p.own
	}
	return p, nil
}

// maxSubject bounds what a request names its subject, and the kind of its resource, in
// bytes.
const maxSubject = 1000

// otherAgent refuses a call that is proposed for another agent than the key's.
var otherAgent = engine.CheckResult{Findings: []engine.Finding{{
	Source: authzen.Dialect, Code: "SUBJECT_IS_ANOTHER_AGENT", Route: engine.Refuse,
	Message: "The subject is another agent than the one that the key belongs to.",
}}}
