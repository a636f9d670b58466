package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// Remembered is how long the denial of a call answers the same call again.
const Remembered = 24 * time.Hour

// NotNowFor is how long a denial "not now" answers the same call again.
const NotNowFor = 15 * time.Minute

// deniedBefore is the approval by which people denied this very call of this
// agent under the rules in force, if that still answers it; nil for none. What
// was denied for want of information may be asked again at once.
func (g *Gate) deniedBefore(ctx context.Context, p *Proposal, d engine.Decision) (*approval.Approval, error) {
	if p.Call.Dialect == DialectThreeGate {
		return nil, nil //nolint:nilnil // no denial is no error
	}
	r, err := g.Store.Approvals.LastDenied(ctx, p.Call.AgentID, p.Call.Digest, Remembered)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // no denial is no error
	}
	if err != nil {
		return nil, err
	}
	f, denied := r.Approval.Denial()
	switch {
	case !denied || r.Approval.Decision.PolicyDigest != d.PolicyDigest || r.Approval.Call.Tool != p.Call.Tool:
		return nil, nil //nolint:nilnil // no denial is no error
	case f.Actor.Kind != engine.HumanActor:
		return nil, nil //nolint:nilnil // a runtime has said it for one of its users, and the next one may want it
	case f.Denial == approval.NeedsInfo:
		return nil, nil //nolint:nilnil // no denial is no error
	case f.Denial == approval.NotNow && r.Now.Sub(r.Approval.EndedAt) >= NotNowFor:
		return nil, nil //nolint:nilnil // no denial is no error
	}
	return &r.Approval, nil
}

// remember answers a call that was denied before with that denial. Nobody is
// asked again.
func (g *Gate) remember(ctx context.Context, p access.Principal, proposal *Proposal, j Judgement, before *approval.Approval, once *access.Idempotency[Outcome]) (Outcome, error) {
	f := engine.Finding{
		Source: "memory", Code: "DENIED_BEFORE", Route: engine.Refuse,
		Message: fmt.Sprintf("People have denied this very call before, as %s. Change it, or wait, before you ask again.", before.ID),
	}
	j.Decision = j.Tighten(engine.CheckResult{Findings: []engine.Finding{f}})
	e := g.decided(p, proposal, j.Decision)
	e.ApprovalID = before.ID
	finish := func(o Outcome) Outcome {
		o.Approval = before
		return o
	}
	o, err := g.store(ctx, j, store.Submission{Event: e}, access.Adapt(once, finish))
	if err != nil {
		return Outcome{}, err
	}
	return finish(o), nil
}
