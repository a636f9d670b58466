package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/threegate"
	"holdpoint/engine/registry"
	"holdpoint/engine/token"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// CheckedDocument is the gate's answer to a ThreeGate document.
type CheckedDocument struct {
	RequestID string
	// Digest is the SHA-256 of the document's bytes.
	Digest   string
	Decision engine.Decision
	// Approval is set when the draft waits, as it does unless it is refused.
	Approval *approval.Approval
	// Joined says that it waited already when the draft was sent again.
	Joined bool
}

// Violation is one way in which a document breaks the rules.
type Violation = threegate.Violation

// RequestTool takes a ThreeGate draft and opens the approval that a person has
// to give. Violations mean that the document was not judged.
func (g *Gate) RequestTool(ctx context.Context, p access.Principal, document []byte, r Request, once *access.Idempotency[CheckedDocument]) (CheckedDocument, []Violation, error) {
	if err := g.answered(ctx, p, once.Of()); err != nil {
		return CheckedDocument{}, nil, err
	}
	// Whoever is stopped or has had enough costs no reading of documents.
	asks := g.asking(p, DialectThreeGate, threegate.ToolName, r.ID)
	v, err := g.vetoed(ctx, &asks)
	if err != nil {
		return CheckedDocument{}, nil, err
	}
	if v != nil {
		finish := func(o Outcome) CheckedDocument {
			return CheckedDocument{Digest: threegate.Digest(document), Decision: o.Decision}
		}
		o, err := g.refuseVetoed(ctx, p, &asks, v, access.Adapt(once, finish))
		return finish(o), nil, err
	}
	now := g.Store.Clock()
	report, err := g.readDocument(ctx, document, now, threegate.JudgeDraft)
	if err != nil {
		return CheckedDocument{}, nil, err
	}
	if !report.Valid {
		return CheckedDocument{}, report.Violations, nil
	}
	proposal, err := proposeDraft(p.AgentID, threegate.Arguments(document), now)
	if err != nil {
		return CheckedDocument{}, nil, err
	}
	proposal.asked = true
	finish := func(o Outcome) CheckedDocument {
		return CheckedDocument{RequestID: report.Request.RequestID, Digest: threegate.Digest(document), Decision: o.Decision, Approval: o.Approval, Joined: o.Joined}
	}
	o, err := g.submit(ctx, p, &proposal, r, access.Adapt(once, finish))
	if err != nil {
		return CheckedDocument{}, nil, err
	}
	return finish(o), nil, nil
}

// readDocument checks a document. Reading a long one takes a processor a tenth of a
// second: they are read one after the other, so that there is another processor
// for everything else.
func (g *Gate) readDocument(ctx context.Context, document []byte, now time.Time, check func([]byte, time.Time) threegate.Report) (threegate.Report, error) {
	select {
	case g.reading <- struct{}{}:
		defer func() { <-g.reading }()
		return check(document, now), nil
	case <-ctx.Done():
		return threegate.Report{}, &access.Refusal{Kind: access.RateLimited, Code: "too_many_documents", RetryAfter: time.Second, Detail: "Too many documents are being read at the moment."}
	}
}

// ApprovedTool looks at a document that arrives with its approval filled in: it
// is believed only with a token of ours over its digest. Nothing is spent.
func (g *Gate) ApprovedTool(ctx context.Context, p access.Principal, document []byte, raw, requestID string) (CheckedDocument, []Violation, error) {
	turnedAway := func(r *access.Refusal) (CheckedDocument, []Violation, error) {
		return CheckedDocument{}, nil, g.refuse(ctx, r, engine.Event{
			ID: store.NewEventID(), Type: engine.Refusal, RequestID: requestID, AgentID: p.AgentID, SafePayload: []byte(`{}`), Actor: p.Actor(),
		})
	}
	claims, kid, err := g.openToken(ctx, raw)
	if err != nil && !errors.Is(err, token.ErrInvalid) {
		return CheckedDocument{}, nil, err // whether it is ours could not be looked up
	}
	if err != nil {
		return turnedAway(invalidToken)
	}
	report, err := g.readDocument(ctx, document, g.Store.Clock(), threegate.Judge)
	if err != nil {
		return CheckedDocument{}, nil, err
	}
	if !report.Valid {
		return CheckedDocument{}, report.Violations, nil
	}
	var out CheckedDocument
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Refusal, engine.Deny, c.Approval, p.Actor(), requestID)
	}
	_, err = change[access.Done](ctx, g.core, claims.ApprovalID, nil, event, func(c *store.Change) (access.Done, error) {
		if r := g.spendable(c, p, claims, kid); r != nil {
			return access.Done{}, r
		}
		if r := boundTo(c.Approval, claims, threegate.ToolName, threegate.Arguments(document)); r != nil {
			return access.Done{}, r
		}
		out = CheckedDocument{RequestID: report.Request.RequestID, Digest: threegate.Digest(document), Decision: c.Approval.Decision, Approval: &c.Approval}
		e := g.event(engine.ToolContract, engine.Allow, c.Approval, p.Actor(), requestID)
		e.Reasons = []engine.Reason{{Code: "TOOL_REQUEST_APPROVED", Message: "The approved document was presented with its token; nothing was spent."}}
		c.AddEvent(e)
		return access.Done{}, nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return turnedAway(invalidToken)
	}
	if isKilled(err) {
		return turnedAway(killedRefusal)
	}
	return out, nil, err
}

// proposeDraft reads a sealed draft as a proposal.
func proposeDraft(agentID string, doc canon.Value, now time.Time) (Proposal, error) {
	text, ok := doc.Get("document")
	if !ok || text.Kind() != canon.StringKind {
		return Proposal{}, errors.New("the sealed document is no tool request")
	}
	document := []byte(text.Str())
	report := threegate.JudgeDraft(document, now)
	p := Proposal{
		Call:     engine.Call{Dialect: DialectThreeGate, AgentID: agentID, Tool: threegate.ToolName, Category: "tool_exec", Digest: threegate.Digest(document)},
		Document: doc, claim: registry.Claim{AgentID: agentID, Tool: threegate.ToolName},
	}
	if !report.Valid {
		p.own = []engine.Check{always(engine.CheckResult{Findings: []engine.Finding{{
			Source: "tool_request", Code: "tool_request_invalid", Route: engine.Refuse,
			Message: fmt.Sprintf("The document breaks rule %s.", report.Violations[0].Rule),
		}}})}
		return p, nil
	}
	r := report.Request
	p.Valid, p.Arguments, p.Call.RequestID, p.input = true, doc, r.RequestID, r.Purpose
	p.policyArguments = canon.Object(
		canon.Member{Name: "language", Value: canon.String(r.Language)}, canon.Member{Name: "network", Value: canon.String(r.Network)},
		canon.Member{Name: "program", Value: canon.String(r.Command.Program)}, canon.Member{Name: "command", Value: canon.String(r.Command.Line)},
		canon.Member{Name: "risk_level", Value: canon.String(r.Risk.Level)}, canon.Member{Name: "data_sensitivity", Value: canon.String(r.Risk.DataSensitivity)},
		canon.Member{Name: "memory_limit_mb", Value: number(r.MemoryLimitMB)}, canon.Member{Name: "time_limit_sec", Value: number(r.TimeLimitSec)},
		canon.Member{Name: "document", Value: text},
	)
	p.safe = []payloadMember{
		{"language", r.Language},
		{"network", r.Network},
		{"risk_level", r.Risk.Level},
		{"data_sensitivity", r.Risk.DataSensitivity},
		{"input_count", len(r.Inputs)},
		{"output_count", len(r.OutputsExpected)},
	}
	p.own = []engine.Check{always(engine.CheckResult{
		Findings: []engine.Finding{{
			Source: "tool_request", Code: "human_approval_required", Route: engine.Defer,
			Message: "A tool execution request runs only once a person has approved it.",
		}},
		Requirements: []engine.Requirement{{Kind: engine.Human, Needed: 1}},
	})}
	p.confirmed = p.own
	return p, nil
}

func number(n int) canon.Value { return canon.Number(float64(n)) }

// promoted is the approved draft with its approver and time filled in: the
// document that may run. What came of the decisive vote decides both, so that
// it is the same document whenever it is asked for.
func (g *Queries) promoted(ctx context.Context, a approval.Approval, sealed []byte) ([]byte, error) {
	doc, err := canon.Parse(sealed)
	if err != nil {
		return nil, fmt.Errorf("read the sealed document of %s: %w", a.ID, err)
	}
	text, _ := doc.Get("document")
	decisive := a.State.Decisive
	if decisive == nil {
		return nil, fmt.Errorf("nobody approved %s", a.ID)
	}
	person, err := g.Store.People.Get(ctx, decisive.Actor.ID)
	if err != nil {
		return nil, fmt.Errorf("read who approved %s: %w", a.ID, err)
	}
	document, err := threegate.Promote([]byte(text.Str()), person.Email, decisive.At)
	if err != nil {
		// An address with a quote in it cannot be written there; the id always can.
		document, err = threegate.Promote([]byte(text.Str()), person.ID, decisive.At)
	}
	return document, err
}

// boundTo refuses a call that is not the one that was approved. A tool request
// is bound twice: the promoted document to the token, and the draft in it to
// the approval.
func boundTo(a approval.Approval, claims token.Claims, tool string, arguments canon.Value) *access.Refusal {
	mismatch := &access.Refusal{Kind: access.Forbidden, Code: "arguments_mismatch", Detail: "These are not the tool and arguments that were approved. The token is still good for those."}
	if a.Call.Dialect != DialectThreeGate {
		if claims.Digest != a.Call.Digest {
			return invalidToken
		}
		if canon.Digest(tool, arguments) != a.Call.Digest {
			return mismatch
		}
		return nil
	}
	text, _ := arguments.Get("document")
	draft, err := threegate.Demote([]byte(text.Str()))
	if err != nil || tool != threegate.ToolName || arguments.Len() != 1 || threegate.Digest(draft) != a.Call.Digest || threegate.Digest([]byte(text.Str())) != claims.Digest {
		return &access.Refusal{Kind: access.Forbidden, Code: "arguments_mismatch", Detail: "This is not the promoted document that was approved: send it as arguments.document, byte for byte, with the tool name " + threegate.ToolName + "."}
	}
	return nil
}
