package gate

import (
	"context"

	"holdpoint/engine/approval"
	"holdpoint/internal/access"
)

// Accepted reads the approval of a call that was accepted when it was proposed
// and whose caller wanted a token: approved, with its token. Where the process
// that accepted the call ended before it approved it, Accepted approves it; nobody
// is asked.
func (g *Gate) Accepted(ctx context.Context, p access.Principal, id string) (View, error) {
	v, err := g.Queries.ForAgent(ctx, p, id)
	if err != nil || v.Approval.Status != approval.Pending || v.Approval.Plan.AcceptedAs == "" {
		return v, err
	}
	if _, err := g.Settler.Settle(ctx, id); err != nil {
		return View{}, err
	}
	return g.Queries.ForAgent(ctx, p, id)
}
