package aana

import (
	"cmp"

	"holdpoint/engine/canon"
)

// Classification is what is known of a tool, whatever its calls say of it. ""
// and false say nothing.
type Classification struct {
	Category   Category
	RiskDomain RiskDomain
	// IdentityBound tools read what belongs to one person or account.
	IdentityBound bool
	// SideEffects are had by tools that change something.
	SideEffects bool
}

// Complete is the classification with a category that fits the rest, "" when
// nothing is known of it: what has side effects is a write, and what is bound to
// an identity no public read.
func (c Classification) Complete() Classification {
	switch {
	case c.SideEffects && c.Category != Unknown:
		c.Category = Write
	case c.IdentityBound && (c.Category == PublicRead || c.Category == ""):
		c.Category = PrivateRead
	}
	return c
}

// Classified returns the event with what is known of its tool in place of what it
// claims, and whether that is another event. Both count: a claim may be the
// stricter one.
func (e Event) Classified(c Classification) (Event, bool) {
	c, claimed := c.Complete(), e
	if c.Category != "" {
		e.Category = c.Category
	}
	if c.RiskDomain != "" {
		e.RiskDomain = c.RiskDomain
	}
	return e, e.Category != claimed.Category || e.RiskDomain != claimed.RiskDomain
}

// Known is the event of a call that was proposed in another system's document:
// it claims what is known of its tool and, of its authorization, all that its
// sender might. The category must be known.
func Known(tool string, arguments canon.Value, c Classification, state State) Event {
	c = c.Complete()
	c.RiskDomain = cmp.Or(c.RiskDomain, "unknown")
	return Event{
		ToolName: tool, Category: c.Category, RiskDomain: c.RiskDomain, State: state, Arguments: arguments,
		// The contract wants evidence of what an event claims, and this one claims nothing.
		Evidence: []Evidence{{SourceID: "registry", Kind: "other", TrustTier: "verified", Redaction: "redacted", Freshness: "fresh", Provenance: "holdpoint", issued: true}},
	}
}
