package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// Hold has people decide about a change of what is set up, where such changes take an
// approval (admin.Config.Hold). A person who makes it is its author. Of a change that a key or a command
// makes nobody is known to be the author, so one person more decides.
func (k *Keeper) Hold(ctx context.Context, by access.Initiator, h admin.PendingChange) (admin.PendingApproval, error) {
	var none admin.PendingApproval
	guards, err := k.Store.Rules.Guards(ctx)
	if err != nil {
		return none, err
	}
	guard, guarded := guards[h.Kind]
	if !guarded {
		return none, errNotGuarded
	}
	d, err := store.EntriesDocument(h.Kind, h.Entries)
	if err != nil {
		return none, err
	}
	author, err := k.person(ctx, by)
	if err != nil {
		return none, err
	}
	changed, err := difference("now", "proposed", h.Before, h.After)
	if err != nil {
		return none, err
	}
	opened, err := gate.OpenRuleChange(ctx, k.Store, k.Sealer, gate.RuleChangeRequest{
		RuleChange: gate.RuleChange{
			Kind: h.Kind, Document: d.Digest(), Reason: strings.TrimSpace(h.Reason),
			Difference: changed,
		},
		ID: h.ApprovalID, Body: d.Body, KnownAs: d.KnownAs, Author: author, Subjects: h.Subjects, By: by, Guard: guard, Submit: h.Submit,
		Idempotency: access.Adapt(h.Idempotency, heldBy),
		Routing:     k.Routing, Environment: k.Environment, Rules: k.Judge().Digest(),
	})
	if errors.Is(err, gate.AlreadyProposed) {
		return k.heldAlready(ctx, d.Digest())
	}
	return heldBy(opened), err
}

// person is who makes a change; nil where that is no person.
func (k *Keeper) person(ctx context.Context, by access.Initiator) (*engine.Person, error) {
	if by.Actor.Kind != engine.HumanActor {
		return nil, nil
	}
	p, err := k.Store.People.Get(ctx, by.Actor.ID)
	if err != nil {
		return nil, fmt.Errorf("read the author: %w", err)
	}
	return &p, nil
}

func heldBy(opened gate.OpenedRuleChange) admin.PendingApproval {
	return admin.PendingApproval{ApprovalID: opened.ApprovalID, Needed: opened.Needed, Role: opened.Role, ExpiresAt: opened.ExpiresAt}
}

// heldAlready is the approval by which the very same change waits.
func (k *Keeper) heldAlready(ctx context.Context, digest string) (admin.PendingApproval, error) {
	id, _, err := k.Store.Rules.Proposed(ctx, digest, "")
	if err != nil {
		return admin.PendingApproval{}, err
	}
	r, err := k.Store.Approvals.Get(ctx, id)
	if err != nil || len(r.Approval.Plan.Requirements) == 0 {
		return admin.PendingApproval{}, errors.Join(err, gate.AlreadyProposed)
	}
	asked := r.Approval.Plan.Requirements[0]
	return admin.PendingApproval{ApprovalID: id, Needed: asked.Needed, Role: asked.Role, ExpiresAt: r.Approval.Plan.ExpiresAt.UTC()}, nil
}
