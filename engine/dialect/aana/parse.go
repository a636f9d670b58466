package aana

import (
	"fmt"

	"holdpoint/engine"
	"holdpoint/engine/canon"
)

// Parse reads an event by section 1 and normalises its evidence. It returns
// everything that is wrong, in document order, but that the missing fields of
// an object follow its other errors; after maxErrors errors there is one more
// that says so. With errors the Event is the zero Event.
func Parse(v canon.Value) (Event, []ValidationError) {
	var e Event
	var c checker
	c.event(v, &e)
	if len(c.errors) > 0 {
		return Event{}, c.errors
	}
	return e, nil
}

// The fields that an object must have.
var (
	eventFields = []string{
		"tool_name", "tool_category", "authorization_state", "evidence_refs", "risk_domain", "proposed_arguments", "recommended_route",
	}
	evidenceFields  = []string{"source_id"}
	freshnessFields = []string{"status"}
)

func (c *checker) event(v canon.Value, e *Event) {
	root := &place{}
	if !c.isObject(root, v) {
		return
	}
	route := ""
	for name, m := range v.All() {
		at := &place{parent: root, name: name}
		switch name {
		case "tool_name":
			c.visibleText(at, m, &e.ToolName)
		case "tool_category":
			oneOf(c, at, m, categories, &e.Category)
		case "authorization_state":
			oneOf(c, at, m, states, &e.State)
		case "evidence_refs":
			c.evidenceRefs(at, m, &e.Evidence)
		case "risk_domain":
			oneOf(c, at, m, riskDomains, &e.RiskDomain)
		case "proposed_arguments":
			if c.isObject(at, m) {
				e.Arguments = m
			}
		case "recommended_route":
			oneOf(c, at, m, routes, &route)
		case "schema_version":
			oneOf(c, at, m, versions, &e.SchemaVersion)
		case "request_id":
			c.text(at, m, &e.RequestID)
		case "agent_id":
			c.text(at, m, &e.AgentID)
		case "user_intent":
			c.text(at, m, &e.UserIntent)
		case "authorization_subject":
			c.subject(at, m, &e.Subject)
		default:
			c.unknown(root, name)
		}
	}
	c.require(root, v, eventFields)
	recommended, err := engine.ParseRoute(route)
	if err != nil && len(c.errors) == 0 {
		// Unreachable as long as routes holds what ParseRoute reads.
		c.fail(&place{parent: root, name: "recommended_route"}, "It is not a route.")
	}
	e.Recommended = recommended
}

func (c *checker) subject(at *place, v canon.Value, to *Subject) {
	if !c.isObject(at, v) {
		return
	}
	for name, m := range v.All() {
		here := &place{parent: at, name: name}
		switch name {
		case "subject_type":
			oneOf(c, here, m, subjectTypes, &to.Type)
		case "subject_ref":
			c.text(here, m, &to.Ref)
		default:
			c.unknown(at, name)
		}
	}
}

func (c *checker) evidenceRefs(at *place, v canon.Value, to *[]Evidence) {
	switch {
	case v.Kind() != canon.ArrayKind:
		c.fail(at, "It has to be an array.")
		return
	case v.Len() > MaxEvidence:
		c.fail(at, fmt.Sprintf("It may hold at most %d references.", MaxEvidence))
		return
	}
	*to = make([]Evidence, v.Len())
	for i, element := range v.Elements() {
		c.evidence(&place{parent: at, index: i}, element, &(*to)[i])
	}
}

// evidence reads and normalises one reference.
func (c *checker) evidence(at *place, v canon.Value, to *Evidence) {
	switch v.Kind() {
	case canon.StringKind:
		*to = Evidence{Kind: "other", TrustTier: "runtime", Redaction: "redacted", Freshness: "fresh", Provenance: "runtime_quickstart"}
		c.visibleText(at, v, &to.SourceID)
		return
	case canon.ObjectKind:
	case canon.NullKind, canon.BoolKind, canon.NumberKind, canon.ArrayKind:
		c.fail(at, "It has to be a string or an object.")
		return
	}
	*to = Evidence{Kind: "other", TrustTier: "unknown", Redaction: "unknown", Provenance: "runtime"}
	for name, m := range v.All() {
		here := &place{parent: at, name: name}
		switch name {
		case "source_id":
			c.filledText(here, m, &to.SourceID)
		case "kind":
			oneOf(c, here, m, kinds, &to.Kind)
		case "trust_tier":
			oneOf(c, here, m, trustTiers, &to.TrustTier)
		case "redaction_status":
			oneOf(c, here, m, redactionStatuses, &to.Redaction)
		case "summary":
			c.text(here, m, &to.Summary)
		case "retrieved_at":
			to.timed = true
			c.text(here, m, &to.RetrievedAt)
		case "freshness":
			c.freshness(here, m, to)
		case "citation_url":
			c.text(here, m, &to.CitationURL)
		case "retrieval_url":
			c.text(here, m, &to.RetrievalURL)
		case "provenance":
			c.filledText(here, m, &to.Provenance)
		case "supports":
			c.texts(here, m, &to.Supports)
		case "contradicts":
			c.texts(here, m, &to.Contradicts)
		default:
			c.unknown(at, name)
		}
	}
	c.require(at, v, evidenceFields)
	if to.Freshness == "" {
		to.Freshness = "unknown"
		if to.TrustTier == "verified" || to.TrustTier == "runtime" {
			to.Freshness = "fresh"
		}
	}
}

func (c *checker) freshness(at *place, v canon.Value, to *Evidence) {
	if !c.isObject(at, v) {
		return
	}
	unused := ""
	for name, m := range v.All() {
		here := &place{parent: at, name: name}
		switch name {
		case "status":
			oneOf(c, here, m, freshnessStatuses, &to.Freshness)
		case "checked_at":
			to.checked = true
			c.text(here, m, &to.CheckedAt)
		case "max_age_hours", "age_hours":
			if m.Kind() != canon.NumberKind {
				c.fail(here, "It has to be a number.")
			}
		case "source":
			c.text(here, m, &unused)
		default:
			c.unknown(at, name)
		}
	}
	c.require(at, v, freshnessFields)
}
