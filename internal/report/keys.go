package report

import (
	"context"
	"strings"
)

// keys lists the API keys that are good, or were.
func (b *accessBuilder) keys(context.Context) error {
	b.r.Keys = []HeldKey{}
	if len(b.known) == maxReportRows {
		b.gap("There are more than %d API keys: the newest are listed.", maxReportRows)
	}
	for _, k := range b.known {
		h := HeldKey{ID: k.ID, Kind: k.Kind, AgentID: k.AgentID, PersonID: k.PersonID, Label: k.Label, Scopes: k.Scopes, MaxState: k.MaxState, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt}
		if k.LastUsedAt != nil && !k.LastUsedAt.After(b.r.At) {
			h.LastUsedAt = k.LastUsedAt
		}
		created, revoked := k.CreatedAt, k.RevokedAt
		var before, after, made []string
		saysCreated, saysRevoked := false, false
		for _, t := range b.about[k.ID] {
			switch code := t.code(); {
			case !t.done():
				continue
			case code == "KEY_CREATED":
				saysCreated, created, made = true, t.Timestamp, t.Scopes
			case code == "KEY_REVOKED":
				saysRevoked, revoked = true, &t.Timestamp
				continue
			}
			if t.Timestamp.After(b.r.At) && before == nil {
				before = t.ScopesBefore
			}
			if !t.Timestamp.After(b.r.At) && t.Scopes != nil {
				after = t.Scopes
			}
		}
		live := !created.After(b.r.At) && (revoked == nil || revoked.After(b.r.At)) && (k.ExpiresAt == nil || k.ExpiresAt.After(b.r.At))
		if !b.r.Past {
			live = !k.Dead
			if !saysCreated {
				b.gap("The log does not say who created the key %s.", k.ID)
			}
			if after != nil && !sameRoles(after, k.Scopes) {
				b.gap("The log gives the key %s %s, and the database says %s: that was changed past Holdpoint.", k.ID, strings.Join(after, ", "), strings.Join(k.Scopes, ", "))
			}
			if revoked != nil && !saysRevoked {
				b.gap("The log does not say who revoked the key %s.", k.ID)
			}
		} else {
			switch {
			case after != nil:
				h.Scopes = after
			case before != nil:
				h.Scopes = before
			case made == nil:
				h.Unsure = "The log does not say what it was for then; this is what it is for today."
			}
		}
		if live {
			b.r.Keys = append(b.r.Keys, h)
		}
	}
	return nil
}
