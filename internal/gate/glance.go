package gate

import (
	"context"
	"errors"
	"log/slog"

	"holdpoint/engine/approval"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Glance says what a person may be told of a call where there is no page.
type Glance struct {
	Store  *store.Store
	Sealer *seal.Sealer
	Logger *slog.Logger
}

// Glance says how an approval stands, and in one sentence what its call will do; "" is
// the sentence where nobody can tell, and the status where the person may not see it.
// Nothing is recorded: nobody has been shown the arguments.
func (g Glance) Glance(ctx context.Context, personID, approvalID string) (approval.Status, string, error) {
	p, err := g.Store.People.Get(ctx, personID)
	if errors.Is(err, store.ErrNotFound) || err == nil && p.Disabled {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	q := &Queries{core: &core{Config: Config{Store: g.Store, Sealer: g.Sealer, Logger: g.Logger}}}
	d, err := q.delegate(ctx, p)
	if err != nil {
		return "", "", err
	}
	r, err := g.Store.Approvals.Get(ctx, approvalID)
	if errors.Is(err, store.ErrNotFound) || err == nil && !d.mayRead(r.Approval) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	told, err := q.Stakes(ctx, []approval.Approval{r.Approval})
	return r.Approval.Status, told[approvalID].Sentence.String(), err
}
