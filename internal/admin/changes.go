package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// RequireApproval has people approve every change of a kind of rules from now on, as the
// rule says. Nobody is bound by it who could have changed the rule: it takes the role that
// owns the database.
func (r Changes) RequireApproval(ctx context.Context, by access.Initiator, kind string, rule approval.Rule, byGroups ...string) error {
	if err := errors.Join(approval.Routing{Default: rule}.Check()...); err != nil {
		return fmt.Errorf("the rule: %w", err)
	}
	if rule.Needed >= approval.MaxNeeded {
		return fmt.Errorf("the rule: at most %d people are asked: one more is where nobody knows who has written a change", approval.MaxNeeded-1)
	}
	e := by.Event("RULES_GUARDED", "Changes of "+ChangeWords(kind)+" come into force by an approval only.", "", "")
	said := map[string]any{"kind": kind, "rule": rule}
	if len(byGroups) > 0 {
		if kind != store.RolesChange {
			return errors.New("groups give roles only")
		}
		if err := rolesFit(byGroups, anyRoles); err != nil {
			return err
		}
		said["by_groups"] = byGroups
	}
	if err := e.SetPayload(said); err != nil {
		return err
	}
	return r.Store.Rules.SetGuard(ctx, store.Guard{Kind: kind, Rule: rule, ByGroups: byGroups, SetBy: by.Actor.ID}, e)
}

// RequireOperatorKey has commands name a person's own key from now on. It takes the role that
// owns the database, which is not bound by it: it tells the log who used that role.
func (r Changes) RequireOperatorKey(ctx context.Context, by access.Initiator) error {
	if by.Key == "" {
		return &access.Refusal{Kind: access.Invalid, Code: "key_of_nobody", Detail: "The key is nobody's in particular. Demand it with a person's own, so that somebody has one."}
	}
	rule := approval.Rule{Role: access.AdminRole}
	e := by.Event("RULES_GUARDED", "Commands name an operator's own key.", "", "")
	if err := e.SetPayload(map[string]any{"kind": store.OperatorKeyRule, "role": rule.Role}); err != nil {
		return err
	}
	return r.Store.Rules.SetGuard(ctx, store.Guard{Kind: store.OperatorKeyRule, Rule: rule, SetBy: by.Actor.ID}, e)
}

// ChangeWords name a kind of changes.
func ChangeWords(kind string) string {
	return cmp.Or(store.ChangeWords(kind), kind)
}

// NoApproval has changes of a kind of rules come into force at once again.
func (r Changes) NoApproval(ctx context.Context, by access.Initiator, kind, reason string) error {
	if reason = strings.TrimSpace(reason); reason == "" || len(reason) > access.MaxReason {
		return fmt.Errorf("say why, in at most %d bytes", access.MaxReason)
	}
	message, already := "Changes of "+ChangeWords(kind)+" come into force at once again.", "changes of "+ChangeWords(kind)+" come into force at once already"
	switch kind {
	case store.OperatorKeyRule:
		message, already = "Commands need no operator's key again.", "commands need no operator's key already"
	case store.SignaturesRule:
		message, already = "Policies come into force without the signatures of people again.", "policies come into force without the signatures of people already"
	}
	e := by.Event("RULES_UNGUARDED", message, "", "")
	if err := e.SetPayload(map[string]any{"kind": kind, "reason": reason}); err != nil {
		return err
	}
	err := r.Store.Rules.Unguard(ctx, kind, e)
	if errors.Is(err, store.ErrNotFound) {
		return errors.New(already)
	}
	return err
}

// DefaultExpiry is how long a change waits for its approval where nobody says anything else.
const DefaultExpiry = 3 * 24 * time.Hour
