package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// Edition is a policy, or a set of tool contracts, that is or was in force.
type Edition struct {
	store.Edition

	// Reason is why it was put there: what its author said, or whoever asked nobody; "" where
	// nobody had to say it, or where it is erased.
	Reason string
}

// maxEditions bounds how many are told.
const maxEditions = 200

// Editions are the documents of a kind that are or were in force, the newest first.
func (k *Keeper) Editions(ctx context.Context, kind string) ([]Edition, error) {
	if err := documentKind(kind); err != nil {
		return nil, err
	}
	list, err := k.Store.Rules.Editions(ctx, kind, maxEditions)
	if err != nil {
		return nil, err
	}
	editions := make([]Edition, len(list))
	for i, e := range list {
		editions[i] = Edition{Edition: e, Reason: e.NotAsked}
		if e.ApprovalID == "" || k.Sealer == nil {
			continue
		}
		r, err := k.Store.Approvals.Get(ctx, e.ApprovalID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		document, err := k.Sealer.Open(e.ApprovalID, r.Sealed)
		if err != nil {
			continue // erased
		}
		if c, ok := gate.RuleChangeOf(r.Approval, document); ok {
			editions[i].Reason = c.Reason
		}
	}
	return editions, nil
}

// Difference is the unified difference between two documents, which the digests of their files
// name.
func (k *Keeper) Difference(ctx context.Context, from, to string) (string, error) {
	var bodies [2]store.Document
	for i, digest := range []string{from, to} {
		d, err := k.Store.Rules.Document(ctx, digest)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrUnstorable) || err == nil && store.ByEntries(d.Kind) {
			return "", &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: fmt.Sprintf("There is no policy and no set of tool contracts with the digest %.80q.", digest)}
		}
		if err != nil {
			return "", err
		}
		bodies[i] = d
	}
	if bodies[0].Kind != bodies[1].Kind {
		return "", &access.Refusal{Kind: access.Invalid, Code: "other_kind", Detail: "One is a policy, and the other a set of tool contracts."}
	}
	return difference("from", "to", string(bodies[0].Body), string(bodies[1].Body))
}

// InForce is the file of a kind that is in force, "" for none.
func (k *Keeper) InForce(kind string) string {
	s := k.Status()
	if kind == store.ContractsDocument {
		return string(s.ContractsFile)
	}
	return string(s.PolicyFile)
}

func documentKind(kind string) error {
	if kind != store.PolicyDocument && kind != store.ContractsDocument {
		return &access.Refusal{Kind: access.Invalid, Code: "kind", Detail: fmt.Sprintf("kind: want %s or %s, got %.40q.", store.PolicyDocument, store.ContractsDocument, kind)}
	}
	return nil
}

// refusable are what a door answers a proposal with that cannot be made.
func refusable(err error) error {
	var known *access.Refusal
	var kept *access.Replay
	if err == nil || access.IsUnavailable(err) || errors.As(err, &known) || errors.As(err, &kept) {
		return err
	}
	if errors.Is(err, store.ErrOtherRequest) {
		return access.OtherRequest
	}
	code, kind := "invalid_change", access.Invalid
	switch {
	case errors.Is(err, errNotGuarded):
		code, kind = "not_guarded", access.Conflict
	case errors.Is(err, errInForce):
		code, kind = "in_force", access.Conflict
	case errors.Is(err, ErrOlder):
		code, kind = "older", access.Conflict
	case errors.Is(err, ErrSignatures):
		code, kind = "signatures_missing", access.Conflict
	}
	return &access.Refusal{Kind: kind, Code: code, Detail: err.Error()}
}

// RefusingKeeper is the Keeper for doors: what cannot be proposed is a refusal.
type RefusingKeeper struct{ *Keeper }

// Propose is the Keeper's. The refusals are invalid_change (with a line for each mistake),
// not_guarded, in_force, older, signatures_missing, already_proposed and kind.
func (d RefusingKeeper) Propose(ctx context.Context, p Proposal) (gate.OpenedRuleChange, error) {
	if err := documentKind(p.Kind); err != nil {
		return gate.OpenedRuleChange{}, err
	}
	opened, err := d.Keeper.Propose(ctx, p)
	return opened, refusable(err)
}

// Preview is the Keeper's, with the refusals of Propose.
func (d RefusingKeeper) Preview(ctx context.Context, p Proposal) (gate.RuleChange, error) {
	if err := documentKind(p.Kind); err != nil {
		return gate.RuleChange{}, err
	}
	c, err := d.Keeper.Preview(ctx, p)
	return c, refusable(err)
}

// FileOf names the file of a kind that the settings name, "" for none.
func (d RefusingKeeper) FileOf(kind string) string {
	if kind == store.ContractsDocument {
		return d.ContractsFile
	}
	return d.PolicyFile
}

// Approvers counts who could approve a change that somebody writes: people other than the
// author who have the role now, once for each human being; and how many of them it takes.
func (d RefusingKeeper) Approvers(ctx context.Context, kind string, author engine.Person) (able, needed int, err error) {
	guards, err := d.Store.Rules.Guards(ctx)
	g, takes := guards[kind]
	if err != nil || !takes {
		return 0, 0, err
	}
	everybody, err := d.Store.People.List(ctx)
	counted := map[string]bool{author.Identity: true}
	for _, p := range everybody {
		if !p.Disabled && slices.Contains(p.Roles, g.Rule.Role) && !counted[p.Identity] {
			counted[p.Identity] = true
			able++
		}
	}
	return able, g.Rule.Needed, err
}

// TakesApproval reports whether a change of a kind takes an approval, and whose.
func (d RefusingKeeper) TakesApproval(kind string) (role string, takes bool) {
	g, takes := d.Status().Guards[kind]
	return g.Rule.Role, takes
}
