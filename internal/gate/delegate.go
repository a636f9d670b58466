package gate

import (
	"context"
	"errors"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// delegate is a person together with those for whom they stand in. Whoever
// stands in for somebody may decide what that one may decide, and see what has to be
// decided. They do not see what that one sees for another reason: as one of the
// requesting side, an auditor or an administrator.
type delegate struct {
	engine.Person
	chains []store.Chain
}

// delegate looks up for whom the person stands in now.
func (g *core) delegate(ctx context.Context, p engine.Person) (delegate, error) {
	chains, err := g.Store.Delegations.Chains(ctx, p.ID)
	return delegate{p, chains}, err
}

// voterFor is the person as somebody who speaks for the last one of the chain.
func (d delegate) voterFor(chain store.Chain) approval.Voter {
	v := voter(d.Person)
	v.Via = chain.Voter
	return v
}

// standings are the standings that the person has by way of others.
func (d delegate) standings() []store.Eligibility {
	var list []store.Eligibility
	for _, chain := range d.chains {
		s := store.Eligibility{Roles: delegatedRoles(chain), Voices: []string{d.Identity}}
		for _, v := range chain.Voter {
			s.Voices = append(s.Voices, v.Identity)
		}
		if chainIsWhole(chain) && len(s.Roles) > 0 {
			list = append(list, s)
		}
	}
	return list
}

// chainIsWhole reports whether a chain is whole: everybody in it is there.
func chainIsWhole(chain store.Chain) bool {
	return len(chain.Voter) == len(chain.Via) && len(chain.Via) > 0 &&
		!slices.ContainsFunc(chain.Voter, func(v approval.Voter) bool { return !v.Active })
}

// delegatedRoles are the roles that a chain lends: those of its last one.
func delegatedRoles(chain store.Chain) []string {
	if len(chain.Voter) == 0 {
		return nil
	}
	return chain.Voter[len(chain.Voter)-1].Roles
}

// mayRead reports whether the person may see the approval, for themselves or for
// somebody whose say it asks for.
func (d delegate) mayRead(a approval.Approval) bool {
	return mayRead(d.Person, a) || slices.ContainsFunc(d.standings(), func(s store.Eligibility) bool {
		barred := slices.ContainsFunc(s.Voices, func(who string) bool { return slices.Contains(a.Plan.Excluded, who) })
		return !barred && asksFor(a, s.Roles)
	})
}

// asksFor reports whether an approval gives one of the roles a say, at once or later.
func asksFor(a approval.Approval, roles []string) bool {
	has := func(role string) bool { return slices.Contains(roles, role) }
	return has(a.WidenedTo()) || slices.ContainsFunc(a.Plan.Requirements, func(r engine.Requirement) bool {
		return has(r.Role) || slices.ContainsFunc(r.AnyOf, func(g engine.Group) bool { return has(g.Role) }) ||
			slices.ContainsFunc(r.Escalation, func(e engine.Escalation) bool { return has(e.Role) })
	})
}

// mayVote says in whose place the person could approve the approval now, nil for
// their own, or why they cannot.
func (d delegate) mayVote(a approval.Approval, now time.Time) (via []string, err error) {
	own := a.MayVote(voter(d.Person), now)
	if !errors.Is(own, approval.ErrNotEligible) && !errors.Is(own, approval.ErrNotNeeded) {
		return nil, own
	}
	for _, chain := range d.chains {
		err := a.MayVote(d.voterFor(chain), now)
		if err == nil {
			return chain.Via, nil
		}
		if errors.Is(err, approval.ErrAlreadyVoted) {
			own = err
		}
	}
	return nil, own
}

// readFor reads an approval for a person. The error is NoSuchApproval for one that
// is not there and for one that they may not see.
func (g *core) readFor(ctx context.Context, p engine.Person, id string) (store.Record, delegate, error) {
	d, err := g.delegate(ctx, p)
	if err != nil {
		return store.Record{}, d, err
	}
	r, err := g.Store.Approvals.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && !d.mayRead(r.Approval):
		return store.Record{}, d, access.NoSuchApproval
	case err != nil:
		return store.Record{}, d, err
	}
	return r, d, nil
}

// visible refuses what somebody wants of an approval that they may not see. It
// asks for whom they stand in only where that matters.
func visible(c *store.Change, p engine.Person) error {
	if mayRead(p, c.Approval) {
		return nil
	}
	chains, err := c.StandsIn(p.ID)
	if err != nil {
		return err
	}
	if !(delegate{p, chains}).mayRead(c.Approval) {
		return access.NoSuchApproval
	}
	return nil
}
