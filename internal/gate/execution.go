package gate

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/redact"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// ExecutionRequest is what became of a redeemed call.
type ExecutionRequest struct {
	ApprovalID string
	Outcome    approval.Execution // Succeeded, Failed or Unknown
	DurationMS int64
	// Findings are the codes of what the host found wrong with the output.
	Findings []string
	// Output is what the tool answered, to be looked at; nil when it was not sent.
	Output    *canon.Value
	RequestID string
}

// ExecutedCall is a call of which it is known what became of it.
type ExecutedCall struct {
	Approval approval.Approval
	// Output is what of the tool's answer the agent may see; nil when no answer
	// was sent.
	Output *safeai.Filtered
}

// Executed records what the agent says became of the call. It is said once. An
// output that comes with it is looked at and not kept: the event holds what was
// found in it, by kind and number.
func (g *Gate) Executed(ctx context.Context, p access.Principal, r ExecutionRequest, once *access.Idempotency[ExecutedCall]) (ExecutedCall, error) {
	by := p.Actor()
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Executed, engine.Allow, c.Approval, by, r.RequestID)
	}
	payload := map[string]any{"execution": r.Outcome, "duration_ms": r.DurationMS}
	if len(r.Findings) > 0 {
		payload["output_findings"] = words(r.Findings)
	}
	result, err := change(ctx, g.core, r.ApprovalID, once, event, func(c *store.Change) (none ExecutedCall, err error) {
		switch {
		case p.AgentID == "" || c.Approval.Call.AgentID != p.AgentID:
			return none, access.NoSuchApproval
		case c.Approval.Execution == approval.NotRun:
			return none, &access.Refusal{Kind: access.Conflict, Code: "not_redeemed", Detail: "The approval's token has not been redeemed, so nothing can have run."}
		case c.Approval.Execution == approval.Unknown:
			// Its lease is over, and a person is finding out: what it says helps them.
			return none, &access.Refusal{Kind: access.Conflict, Code: "lease_ended", Detail: "The time to report is over, and a person is finding out what became of the call. What you say is on record for them: " + string(r.Outcome) + "."}
		case c.Approval.Execution != approval.Redeemed:
			return none, &access.Refusal{Kind: access.Conflict, Code: "already_reported", Detail: "What became of this call has been reported already."}
		}
		if err := c.Executed(r.Outcome); err != nil {
			return none, err
		}
		e := event(c)
		e.Reasons = []engine.Reason{{Code: "EXECUTION_" + map[approval.Execution]string{
			approval.Succeeded: "SUCCEEDED", approval.Failed: "FAILED",
			approval.Unknown: "UNKNOWN",
		}[r.Outcome], Message: "The agent reported what became of the call."}}
		done := ExecutedCall{Approval: c.Approval}
		if found := g.validateOutput(c.Approval, r, &done, payload); found != nil {
			e.Reasons, e.PluginSource = append(e.Reasons, *found), outputValidator
		}
		if err := e.SetPayload(payload); err != nil {
			return none, err
		}
		c.AddEvent(e)
		return done, nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return ExecutedCall{}, g.refuse(ctx, access.NoSuchApproval, engine.Event{
			ID: store.NewEventID(), Type: engine.Executed, RequestID: r.RequestID,
			ApprovalID: store.LoggableApprovalID(r.ApprovalID), AgentID: p.AgentID, SafePayload: []byte(`{}`), Actor: by,
		})
	}
	if err != nil {
		return ExecutedCall{}, err
	}
	return result, nil
}

// outputValidator is the plugin source of what was found in an output.
const outputValidator = "output_validator"

// validateOutput looks at a tool's answer: it keeps what the tool's contract
// lets the agent see, and says what kinds of data were found in all of it. Where
// no contracts are in force nothing is stripped.
func (g *Gate) validateOutput(a approval.Approval, r ExecutionRequest, done *ExecutedCall, payload map[string]any) *engine.Reason {
	if r.Output == nil {
		return nil
	}
	judge := g.Judge()
	filtered := safeai.Filtered{SafeResponse: *r.Output}
	if judge.Contracts != nil {
		filtered = judge.Contracts.InterceptResponse(a.Call.Tool, *r.Output, judge.Detector)
	}
	done.Output = &filtered
	payload["stripped_fields"], payload["redactions"] = len(filtered.StrippedFields), len(filtered.Redactions)
	var tags []string
	if judge.Detector != nil {
		tags = safeai.Tags(*r.Output, judge.Detector)
		payload["output_tags"] = tags
	}
	if slices.ContainsFunc(tags, redact.Secret) {
		return &engine.Reason{Code: "OUTPUT_HOLDS_SECRET", Message: "The tool's answer holds what looks like a secret."}
	}
	if len(filtered.StrippedFields) > 0 || len(filtered.Redactions) > 0 {
		return &engine.Reason{Code: "OUTPUT_FILTERED", Message: "Parts of the tool's answer are not for the agent, by the tool's contract."}
	}
	return nil
}

// Reconcile records what a person found out about a call of which nobody knew
// whether it had run: somebody of the requesting side, or an administrator.
func (g *Contributions) Reconcile(ctx context.Context, s Contribution, outcome approval.Execution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Executed, engine.Allow, c.Approval, s.actor(), s.RequestID)
	}
	result, err := change(ctx, g.core, s.ApprovalID, once, event, func(c *store.Change) (approval.Approval, error) {
		var none approval.Approval
		if err := visible(c, s.Person); err != nil {
			return none, err
		}
		switch {
		case !s.Person.Has(access.AdminRole) && !slices.Contains(c.Approval.Plan.Excluded, s.Person.Identity):
			return none, &access.Refusal{Kind: access.Forbidden, Code: "not_accountable", Detail: "Somebody who answers for the call, or an administrator, finds out what became of it."}
		case c.Approval.Execution != approval.Unknown:
			return none, &access.Refusal{Kind: access.Conflict, Code: "not_unknown", Detail: "It is known what became of this call, or it has not run."}
		case outcome != approval.Succeeded && outcome != approval.Failed:
			return none, &access.Refusal{Kind: access.Invalid, Code: "outcome", Detail: "Say that the call succeeded, or that it failed or never ran."}
		case strings.TrimSpace(s.Comment) == "":
			return none, admission(approval.ErrNoReason)
		}
		if err := bounds(s.Comment); err != nil {
			return none, err
		}
		e := event(c)
		words, err := write(&e, s.Comment)
		if err != nil {
			return none, err
		}
		if err := c.Reconcile(s.Person.ID, outcome, words); err != nil {
			return none, err
		}
		e.Reasons = []engine.Reason{reconciled(outcome)}
		c.AddEvent(e)
		return c.Approval, nil
	})
	return g.resultFor(ctx, s, engine.Executed, result, err)
}

// ReviewBreakGlass records what somebody else says of a call for which one person
// broke the glass.
func (g *Contributions) ReviewBreakGlass(ctx context.Context, s Contribution, justified bool, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Afterward, engine.Allow, c.Approval, s.actor(), s.RequestID)
	}
	result, err := change(ctx, g.core, s.ApprovalID, once, event, func(c *store.Change) (approval.Approval, error) {
		var none approval.Approval
		if !mayRead(s.Person, c.Approval) {
			return none, access.NoSuchApproval
		}
		owed, err := c.BreakGlassReview()
		if err != nil {
			return none, err
		}
		if owed == nil || owed.DoneAt != nil {
			return none, &access.Refusal{Kind: access.Conflict, Code: "nothing_owed", Detail: "Nobody has to look at this call afterwards, or somebody has."}
		}
		if err := mayReviewBreakGlass(s.Person, c.Approval); err != nil {
			return none, err
		}
		if strings.TrimSpace(s.Comment) == "" {
			return none, admission(approval.ErrNoReason)
		}
		if err := bounds(s.Comment); err != nil {
			return none, err
		}
		e := event(c)
		words, err := write(&e, s.Comment)
		if err != nil {
			return none, err
		}
		if err := c.ReviewBreakGlass(s.Person.ID, justified, words); err != nil {
			return none, err
		}
		e.Reasons = ReviewedReasons(justified)
		c.AddEvent(e)
		return c.Approval, nil
	})
	return g.resultFor(ctx, s, engine.Afterward, result, err)
}

// reconciled is the reason of the event that a person found out what became of a call.
func reconciled(outcome approval.Execution) engine.Reason {
	return engine.Reason{Code: "EXECUTION_RECONCILED", Message: "A person found out that the call " + string(outcome) + "."}
}

// ReviewedReasons are those of the event that somebody reviewed a broken glass.
func ReviewedReasons(justified bool) []engine.Reason {
	was := "not justified"
	if justified {
		was = "justified"
	}
	return []engine.Reason{{Code: "REVIEWED_AFTERWARDS", Message: "Somebody else looked at it: breaking the glass was " + was + "."}}
}

// ExecutionTold is what an event of type execution says became of the call; "" for nothing.
func ExecutionTold(e engine.Event) approval.Execution {
	for _, x := range []approval.Execution{approval.Succeeded, approval.Failed, approval.Unknown} {
		if len(e.Reasons) > 0 && (e.Reasons[0].Code == "EXECUTION_"+strings.ToUpper(string(x)) || e.Reasons[0] == reconciled(x)) {
			return x
		}
	}
	return ""
}

// write salts what a person writes, and puts its digest into the event.
func write(e *engine.Event, comment string) (store.SaltedComment, error) {
	w := store.SaltedComment{Comment: comment, Salt: rand.Text()}
	return w, e.SetPayload(approval.CommentPayload{CommentDigest: approval.CommentDigest(w.Salt, w.Comment)})
}

// mayReviewBreakGlass refuses those who broke the glass, and the requesting side.
func mayReviewBreakGlass(p engine.Person, a approval.Approval) error {
	if slices.Contains(a.Plan.Excluded, p.Identity) {
		return admission(approval.ErrSelfReview)
	}
	for _, f := range a.Facts {
		if f.Kind == approval.BreakGlass && f.Voter.Identity == p.Identity {
			return admission(approval.ErrSelfReview)
		}
	}
	return nil
}

// resultFor is the answer to what a person did with an approval.
func (g *Contributions) resultFor(ctx context.Context, s Contribution, kind engine.EventType, result approval.Approval, err error) (approval.Approval, error) {
	if errors.Is(err, store.ErrNotFound) {
		return approval.Approval{}, g.refuse(ctx, access.NoSuchApproval, engine.Event{
			ID: store.NewEventID(), Type: kind, RequestID: s.RequestID, ApprovalID: store.LoggableApprovalID(s.ApprovalID), SafePayload: []byte(`{}`), Actor: s.actor(),
		})
	}
	if err != nil {
		return approval.Approval{}, err
	}
	return result, nil
}
