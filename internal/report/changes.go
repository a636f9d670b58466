package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"holdpoint/engine"
)

// changes lists what changed in the report's period.
func (b *accessBuilder) changes(ctx context.Context) error {
	events, err := b.Store.Reports.ChangesOfAccess(ctx, b.r.Since, b.r.Until, "", maxChanges+1)
	if err != nil {
		return err
	}
	if b.r.More = len(events) > maxChanges; b.r.More {
		events = events[:maxChanges]
	}
	if b.r.Since.Before(b.began) {
		b.gap("The log begins at %s, later than the period of the changes.", stampUTC(b.began))
	}
	b.r.Changes = make([]AccessChange, 0, len(events))
	for _, e := range events {
		t := readAccessChange(e)
		c := AccessChange{
			EventID: e.ID, At: e.Timestamp, Code: t.code(), Refused: !t.done(), By: cmp.Or(b.name(e.Actor.ID), string(e.Actor.Kind)), ByID: e.Actor.ID,
			Channel: e.Actor.Channel, About: b.aboutWhat(t), Detail: b.detail(t), ApprovalID: e.ApprovalID,
		}
		if len(e.Reasons) > 0 {
			c.Message = e.Reasons[0].Message
		}
		b.r.Changes = append(b.r.Changes, c)
	}
	return nil
}

// aboutWhat names whom or what an event is about.
func (b *accessBuilder) aboutWhat(t accessChange) string {
	switch {
	case t.Schedule != "":
		return engine.OnCallPrefix + t.Schedule
	case t.Delegation != "":
		return b.name(t.Person)
	case t.Grant != "":
		return t.Grant
	case t.Person != "":
		return b.name(t.Person)
	case t.Subject != "":
		for _, p := range b.who {
			if p.Email == t.Subject {
				return b.name(p.ID)
			}
		}
		return b.name(t.Subject)
	case t.ToolName != "":
		return t.ToolName
	case t.AgentID != "":
		return t.AgentID
	case strings.HasPrefix(t.code(), "FACTOR_"):
		return b.name(t.Actor.ID) // earlier versions name nobody else
	}
	return ""
}

// detail says what changed.
func (b *accessBuilder) detail(t accessChange) string {
	span := func() string { return "from " + stampUTC(t.From) + " until " + stampUTC(t.Until) }
	switch {
	case t.RolesAfter != nil:
		return fmt.Sprintf("roles: %s → %s", listed(t.RolesBefore), listed(t.RolesAfter))
	case t.Schedule != "" && len(t.People) == 0:
		return "nobody, from " + stampUTC(t.From)
	case t.Schedule != "":
		return strings.Join(b.names(t.People), ", ") + ", " + span()
	case t.Delegation != "":
		return b.name(t.Deputy) + " decides in their place, " + span()
	case t.Grant != "" && t.ExpiresAt != nil:
		return fmt.Sprintf("%s by %s, %d calls, until %s", t.ToolName, t.AgentID, t.Uses, stampUTC(*t.ExpiresAt))
	case t.Scopes != nil && t.ScopesBefore != nil:
		return fmt.Sprintf("for: %s → %s", listed(t.ScopesBefore), listed(t.Scopes))
	case t.Scopes != nil:
		words := []string{"for " + listed(t.Scopes)}
		if t.Agent != "" {
			words = append(words, "agent "+t.Agent)
		}
		if t.MaxState != "" {
			words = append(words, "may claim "+t.MaxState)
		}
		if t.ExpiresAt != nil {
			words = append(words, "until "+stampUTC(*t.ExpiresAt))
		}
		return strings.Join(words, ", ")
	case t.Owner != t.OwnerBefore:
		return fmt.Sprintf("who answers for it: %s → %s", cmp.Or(b.name(t.OwnerBefore), "nobody"), cmp.Or(b.name(t.Owner), "nobody"))
	}
	return ""
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(slices.Values(names)), ", ")
}
