package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/policy"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// requiredRoles finds out which roles the rules asked for.
func (b *accessBuilder) requiredRoles(ctx context.Context) error {
	b.required = map[string][]RoleAsked{}
	if b.r.Past {
		return b.pastRules(ctx)
	}
	if b.Judge == nil {
		if err := b.pastRules(ctx); err != nil {
			return err
		}
	} else {
		rules := b.Judge().Rules
		b.rules(rules.Policy, rules.Routing)
		b.source("The roles are those of the policy and routing in force in this process.")
	}
	waiting, err := b.Store.Reports.Awaited(ctx)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		name := "1 waits"
		if w.Approvals != 1 {
			name = fmt.Sprintf("%d wait", w.Approvals)
		}
		b.require(w.Role, RoleAsked{By: "approvals", Name: name, As: w.As, Needed: w.Needed})
	}
	b.source("The roles are also those of the approvals that wait.")
	return nil
}

func (b *accessBuilder) require(role string, a RoleAsked) {
	if role != "" && !slices.Contains(b.required[role], a) {
		b.required[role] = append(b.required[role], a)
	}
}

// rules notes what a policy and a routing ask for. A policy's rule gets at least
// as many people as the routing rule that is the easiest to please, whichever
// applies to a call.
func (b *accessBuilder) rules(p *policy.Bundle, r approval.Routing) {
	least := r.Default.Needed
	for i, rule := range append(slices.Clone(r.Rules), r.Default) {
		name := "default"
		if i < len(r.Rules) {
			name = fmt.Sprintf("rules[%d]", i)
		}
		least = min(least, rule.Needed)
		b.require(rule.Role, RoleAsked{By: "routing", Name: name, As: "decides", Needed: rule.Needed})
		for _, e := range rule.Escalation {
			b.require(e.Role, RoleAsked{By: "routing", Name: name, As: "escalation", Needed: 1})
		}
		for _, role := range rule.Extenders {
			b.require(role, RoleAsked{By: "routing", Name: name, As: "extends", Needed: 1})
		}
		b.require(rule.IfTooFew, RoleAsked{By: "routing", Name: name, As: "if_too_few", Needed: 1})
	}
	if p == nil {
		return
	}
	names := p.Rules()
	for i, requirements := range p.Requirements() {
		for _, q := range requirements {
			if q.Kind.Traits().VotesCount {
				b.require(q.Role, RoleAsked{By: "policy", Name: names[i].ID, As: "decides", Needed: max(q.Needed, least)})
			}
			for _, group := range q.AnyOf {
				b.require(group.Role, RoleAsked{By: "policy", Name: names[i].ID, As: "one_of", Needed: max(group.Needed, least)})
			}
			for _, e := range q.Escalation {
				b.require(e.Role, RoleAsked{By: "policy", Name: names[i].ID, As: "escalation", Needed: 1})
			}
		}
	}
}

// pastRules notes what the rules of the report's moment asked for: the policy
// that the log says was in force, and the routing first used with it.
func (b *accessBuilder) pastRules(ctx context.Context) error {
	var p *policy.Bundle
	known := ""
	events, err := b.Store.Reports.AdminEvents(ctx, "POLICY_ACTIVATED", time.Time{}, b.r.At, 1)
	if err != nil {
		return err
	}
	if len(events) == 0 {
		b.gap("The log has no policy that was in force at that moment.")
	} else {
		t := readAccessChange(events[0])
		known = t.Means
		body, err := b.Store.Rules.DocumentByDigest(ctx, t.Document)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if p, _ = policy.Load(body, policy.Options{}); p == nil {
			b.gap("The policy that was put in force at %s cannot be read any more, so its roles are missing here.", stampUTC(t.Timestamp))
		} else {
			b.source("The policy is version %q, which the log says was put in force at %s.", p.Version, stampUTC(t.Timestamp))
		}
	}
	body, first, err := b.Store.Rules.RulesetOf(ctx, b.r.At, known)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	var rules struct {
		Routing approval.Routing `json:"routing"`
	}
	if err != nil || json.Unmarshal(body, &rules) != nil {
		b.gap("No routing is known that was used at that moment, so its roles are missing here.")
		b.rules(p, approval.Routing{})
		return nil
	}
	b.source("The routing is the newest that was first used by then, at %s. A process's configuration is in no event, so an earlier one may have been in use again.", stampUTC(first))
	b.rules(p, rules.Routing)
	return nil
}

// pastGrants are the standing grants that had been made by the report's moment,
// had not been revoked and were not past their time.
func (b *accessBuilder) pastGrants(ctx context.Context) error {
	events, err := b.Store.Reports.ChangesOfAccess(ctx, b.r.At.Add(-gate.MaxGrant-time.Hour), b.r.At.Add(time.Microsecond), engine.Granted, maxReportRows)
	if err != nil {
		return err
	}
	if len(events) == maxReportRows {
		b.gap("More than %d standing grants were made or revoked in the week before: not all of them are known.", maxReportRows)
	}
	over := map[string]bool{}
	for _, e := range events {
		t := readAccessChange(e)
		switch {
		case t.Grant == "" || !t.done():
		case t.code() == "GRANT_REVOKED":
			over[t.Grant] = true
		case t.code() == "GRANT_MADE" && !over[t.Grant] && t.ExpiresAt != nil && t.ExpiresAt.After(b.r.At):
			b.r.Grants = append(b.r.Grants, HeldGrant{t.Grant, b.name(t.Actor.ID), t.Actor.ID, t.AgentID, t.ToolName, nil, t.Uses, t.Timestamp, t.ExpiresAt.UTC()})
		}
	}
	b.source("Standing grants come from the events that made and revoked them; how far they were used up by then is in the events of the votes.")
	return nil
}
