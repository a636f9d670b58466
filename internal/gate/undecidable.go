package gate

import (
	"context"
	"errors"

	"holdpoint/engine/approval"
	"holdpoint/internal/store"
)

// maxUndecidable is how many pending approvals are looked at, the first by their ids.
const maxUndecidable = 500

// Undecidable lists the pending approvals of which nobody is left who could decide them,
// as people and their roles are now. Administrators have been notified of each.
func Undecidable(ctx context.Context, s *store.Store) ([]string, error) {
	people, err := s.People.List(ctx)
	if err != nil {
		return nil, err
	}
	voters := make([]approval.Voter, len(people))
	for i, p := range people {
		voters[i] = voter(p)
	}
	ids, err := s.Outbox.PendingAfter(ctx, "", maxUndecidable)
	if err != nil {
		return nil, err
	}
	var stuck []string
	for _, id := range ids {
		r, err := s.Approvals.Get(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, err
		case r.Approval.State.Status == approval.Pending && !approval.Possible(r.Approval.Plan, r.Approval.Facts, voters, r.Now):
			stuck = append(stuck, id)
		}
	}
	return stuck, nil
}
