package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// RequireApproval has people approve every change of a kind of rules from now on, as the
// rule says. Nobody is bound by it who could have changed the rule: it takes the role that
// owns the database.
func (r Changes) RequireApproval(ctx context.Context, by access.By, kind string, rule approval.Rule, byGroups ...string) error {
	if err := fitRule(rule); err != nil {
		return err
	}
	e, said := guarding(by, kind, rule)
	if len(byGroups) > 0 {
		if kind != store.RolesChange {
			return errors.New("groups give roles only")
		}
		if err := rolesFit(byGroups, nil, true); err != nil {
			return err
		}
		said["by_groups"] = byGroups
	}
	if err := e.SetPayload(said); err != nil {
		return err
	}
	return r.Store.Rules.SetGuard(ctx, store.Guard{Kind: kind, Rule: rule, ByGroups: byGroups, SetBy: by.Actor.ID}, e)
}

// fitRule refuses rules by which no change could be decided.
func fitRule(rule approval.Rule) error {
	if err := errors.Join(approval.Routing{Default: rule}.Check()...); err != nil {
		return fmt.Errorf("the rule: %w", err)
	}
	if rule.Needed >= approval.MaxNeeded {
		return fmt.Errorf("the rule: at most %d people are asked: one more is where nobody knows who has written a change", approval.MaxNeeded-1)
	}
	return nil
}

// guarding is the event of a new rule, and what it tells.
func guarding(by access.By, kind string, rule approval.Rule) (engine.Event, map[string]any) {
	return by.Event("RULES_GUARDED", "Changes of "+store.ChangeWords(kind)+" come into force by an approval only.", "", ""), map[string]any{"kind": kind, "rule": rule}
}

var (
	requiredByCommand = &access.Refusal{Kind: access.Invalid, Code: "by_command", Detail: "Here it is by command that changes have to be approved: “holdpoint changes require”. Whoever runs Holdpoint can allow it in the console: database_people_url."}
	requiredAlready   = &access.Refusal{Kind: access.Conflict, Code: "already_on", Detail: "Such changes have to be approved already. Nothing was changed."}
)

// MayRequire reports whether changes can be made to take an approval from here: by the role that
// may change accounts.
func (r Changes) MayRequire() bool { return People(r).MayBeChanged() }

// Approver is a role, and how many people other than the one who asks have it.
type Approver struct {
	Role   string
	People int
}

// Approvers are the roles that people other than the author have, by name. Accounts of one human
// being count once, and shifts, which change hands, not at all.
func (r Changes) Approvers(ctx context.Context, author engine.Person) ([]Approver, error) {
	everybody, err := r.Store.People.List(ctx)
	if err != nil {
		return nil, err
	}
	who := map[string]map[string]bool{}
	for _, p := range everybody {
		for _, role := range p.Roles {
			if !p.Disabled && p.Identity != author.Identity && !strings.HasPrefix(role, engine.OnCallPrefix) {
				if who[role] == nil {
					who[role] = map[string]bool{}
				}
				who[role][p.Identity] = true
			}
		}
	}
	var list []Approver
	for _, role := range slices.Sorted(maps.Keys(who)) {
		list = append(list, Approver{role, len(who[role])})
	}
	return list, nil
}

// Require has people with the role approve every change of the policy or the tool contracts from
// now on, as an administrator in the console wants it who will write changes. It is
// refused where too few others have the role, and where something is required already: only
// whoever owns the database changes that.
func (r Changes) Require(ctx context.Context, by access.By, author engine.Person, kind, role string, needed int) error {
	refuse := func(code, detail string) error {
		return &access.Refusal{Kind: access.Invalid, Code: code, Detail: detail}
	}
	switch {
	case !r.MayRequire():
		return requiredByCommand
	case kind != store.PolicyDocument && kind != store.ContractsDocument:
		return refuse("unknown_kind", "In the console it is changes of the policy and of the tool contracts that can be made to take an approval. Others are by command: “holdpoint changes require”.")
	}
	approvers, err := r.Approvers(ctx, author)
	if err != nil {
		return err
	}
	able := 0
	for _, a := range approvers {
		if a.Role == role {
			able = a.People
		}
	}
	switch {
	case able == 0:
		return refuse("nobody", "Nobody but you has that role, so nobody could approve what you write. Give it to somebody first, or choose another one.")
	case needed < 1 || needed > able:
		return refuse("nobody", fmt.Sprintf("People besides you with the role %s: %d. Ask for at least one of them, and at most for all.", role, able))
	}
	rule := approval.Rule{Role: role, Needed: needed, ExpiresIn: engine.Duration(DefaultExpiry)}
	if err := fitRule(rule); err != nil {
		return refuse("unfit_role", err.Error())
	}
	e, said := guarding(by, kind, rule)
	if err := e.SetPayload(said); err != nil {
		return err
	}
	err = r.Store.Rules.AddGuard(ctx, store.Guard{Kind: kind, Rule: rule, SetBy: by.Actor.ID}, e)
	if errors.Is(err, store.ErrConflict) {
		return requiredAlready
	}
	if err == nil && r.Refresh != nil {
		r.Refresh(ctx)
	}
	return err
}

// NoApproval has changes of a kind of rules come into force at once again.
func (r Changes) NoApproval(ctx context.Context, by access.By, kind, reason string) error {
	if reason = strings.TrimSpace(reason); reason == "" || len(reason) > access.MaxReason {
		return fmt.Errorf("say why, in at most %d bytes", access.MaxReason)
	}
	e := by.Event("RULES_UNGUARDED", "Changes of "+store.ChangeWords(kind)+" come into force at once again.", "", "")
	if err := e.SetPayload(map[string]any{"kind": kind, "reason": reason}); err != nil {
		return err
	}
	err := r.Store.Rules.Unguard(ctx, kind, e)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("changes of %s come into force at once already", store.ChangeWords(kind))
	}
	return err
}

// DefaultExpiry is how long a change waits for its approval where nobody says anything else.
const DefaultExpiry = 3 * 24 * time.Hour
