package gate

import (
	"errors"
	"slices"

	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// admitted is the fact as it may be added: for the person themselves, or else for
// somebody for whom they stand in.
func (g *core) admitted(c *store.Change, f approval.Fact) (approval.Fact, error) {
	// A yes that has become void may count again, so there is no second one beside it. It never
	// counts again where the person was disabled, or lost the role, and has got it back since.
	if f.Kind == approval.Vote && f.Yes && slices.ContainsFunc(c.Approval.Facts, func(earlier approval.Fact) bool {
		return earlier.Kind == approval.Vote && earlier.Yes && earlier.Edition == c.Approval.Plan.Edition && earlier.Actor.ID == f.Actor.ID && !earlier.Regained
	}) && c.Approval.State.Status == approval.Pending {
		return f, admission(approval.ErrAlreadyVoted)
	}
	if f.Kind == approval.Vote && f.Yes && slices.ContainsFunc(c.Approval.Unlogged, func(forged approval.Fact) bool {
		return forged.Kind == approval.Vote && forged.Yes && forged.Edition == c.Approval.Plan.Edition && forged.Actor.ID == f.Actor.ID
	}) {
		return f, voteNotInLog
	}
	own := approval.Admit(c.Approval.Plan, c.Approval.Facts, f, c.Now)
	if own == nil {
		return f, nil
	}
	if f.Kind != approval.Vote && f.Kind != approval.Question && f.Kind != approval.Claim ||
		!errors.Is(own, approval.ErrNotEligible) && !errors.Is(own, approval.ErrNotNeeded) {
		return f, admission(own)
	}
	chains, err := c.StandsIn(f.Actor.ID)
	if err != nil {
		return f, err
	}
	var lacking error
	for _, chain := range chains {
		deputy := f
		deputy.Via, deputy.Voter.Via = chain.Via, chain.Voter
		if err := approval.Admit(c.Approval.Plan, c.Approval.Facts, deputy, c.Now); err == nil {
			role := g.lacksFactor(deputy.Voter)
			if role == "" {
				return deputy, nil
			}
			lacking = deputyNeedsFactor(role)
		} else if errors.Is(err, approval.ErrNotFresh) || errors.Is(err, approval.ErrAlreadyVoted) && !errors.Is(own, approval.ErrNotFresh) {
			own = err // as their deputy the person could vote with a fresh proof, or has voted
		}
	}
	if lacking != nil {
		return f, lacking
	}
	return f, admission(own)
}

// lacksFactor names a role of somebody in whose place a person acts that needs a second factor
// which the person does not have, "" for none: what is asked of those who have a role is asked
// of those who decide by it.
func (g *core) lacksFactor(v approval.Voter) string {
	if v.SecondFactor {
		return ""
	}
	for _, other := range v.Via {
		for _, role := range g.SecondFactorRoles {
			if slices.Contains(other.Roles, role) {
				return role
			}
		}
	}
	return ""
}

func deputyNeedsFactor(role string) error {
	return &access.Refusal{Kind: access.Forbidden, Code: "second_factor_needed", Detail: "The role " + role + " of the person for whom you would decide needs a second factor, and you have none yet. Add a passkey or an authenticator app on the page of your account."}
}
