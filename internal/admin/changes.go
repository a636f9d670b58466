package admin

import (
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
func (r Changes) RequireApproval(ctx context.Context, by access.By, kind string, rule approval.Rule) error {
	if err := errors.Join(approval.Routing{Default: rule}.Check()...); err != nil {
		return fmt.Errorf("the rule: %w", err)
	}
	if rule.Needed >= approval.MaxNeeded {
		return fmt.Errorf("the rule: at most %d people are asked: one more is where nobody knows who has written a change", approval.MaxNeeded-1)
	}
	e := by.Event("RULES_GUARDED", "Changes of "+kindWords[kind]+" come into force by an approval only.", "", "")
	if err := e.SetPayload(map[string]any{"kind": kind, "rule": rule}); err != nil {
		return err
	}
	return r.Store.Rules.SetGuard(ctx, store.Guard{Kind: kind, Rule: rule, SetBy: by.Actor.ID}, e)
}

// kindWords name the kinds of rules.
var kindWords = map[string]string{store.PolicyDocument: "the policy", store.ContractsDocument: "the tool contracts"}

// NoApproval has changes of a kind of rules come into force at once again.
func (r Changes) NoApproval(ctx context.Context, by access.By, kind, reason string) error {
	if reason = strings.TrimSpace(reason); reason == "" || len(reason) > access.MaxReason {
		return fmt.Errorf("say why, in at most %d bytes", access.MaxReason)
	}
	e := by.Event("RULES_UNGUARDED", "Changes of "+kindWords[kind]+" come into force at once again.", "", "")
	if err := e.SetPayload(map[string]any{"kind": kind, "reason": reason}); err != nil {
		return err
	}
	err := r.Store.Rules.Unguard(ctx, kind, e)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("changes of %s come into force at once already", kindWords[kind])
	}
	return err
}

// DefaultExpiry is how long a change waits for its approval where nobody says anything else.
const DefaultExpiry = 3 * 24 * time.Hour
