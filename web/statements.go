package web

import (
	"encoding/json"
	"strings"

	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// agentStatements reads what the agent says about its own call from the document that
// proposed it. All of it is the agent's word. A tool request is shown as a
// whole elsewhere and claims nothing here.
func agentStatements(dialect string, document []byte) views.AgentStatements {
	if len(document) == 0 || dialect == gate.DialectThreeGate || dialect == gate.DialectChange {
		return views.AgentStatements{}
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(document, &doc); err != nil {
		return views.AgentStatements{Unread: true}
	}
	if dialect == gate.DialectSPM {
		return spmStatements(doc)
	}
	if dialect == gate.DialectAuthZEN {
		return authzenStatements(doc)
	}
	c := views.AgentStatements{Intent: text(doc["user_intent"])}
	for _, f := range []struct{ field, name string }{
		{"authorization_state", "Authorization"},
		{"authorization_subject", "On behalf of"},
		{"recommended_route", "Route it proposes"},
	} {
		if value := text(doc[f.field]); value != "" {
			c.Facts = append(c.Facts, views.Field{Name: f.name, Value: value})
		}
	}
	var refs []json.RawMessage
	if json.Unmarshal(doc["evidence_refs"], &refs) != nil && len(doc["evidence_refs"]) > 0 {
		refs = []json.RawMessage{doc["evidence_refs"]}
	}
	for _, ref := range refs {
		c.Evidence = append(c.Evidence, evidence(ref))
	}
	return c
}

// spmStatements reads an Agent-SPM request of either form: CheckToolCallParams
// in one object, or AgentActionRequest with its parts in objects of their own.
func spmStatements(doc map[string]json.RawMessage) views.AgentStatements {
	agent, action, context := doc, doc, doc
	if _, whole := doc["action"]; whole {
		agent, action, context = objectOf(doc["agent"]), objectOf(doc["action"]), objectOf(doc["context"])
	}
	c := views.AgentStatements{Intent: firstOf(context, "userInput", "user_input"), IntentIs: "What it says the user asked for:"}
	add := func(name string, from map[string]json.RawMessage, fields ...string) {
		if value := firstOf(from, fields...); value != "" {
			c.Facts = append(c.Facts, views.Field{Name: name, Value: value})
		}
	}
	add("Calls itself", agent, "agentName", "name")
	add("Its id", agent, "agentId", "agent_id")
	add("Its owner", agent, "owner")
	add("Its type", agent, "agentType", "agent_type")
	add("Its trust level", agent, "trustLevel", "trust_level")
	add("Its roles", agent, "roles")
	add("Its capabilities", agent, "capabilities")
	add("Environment", agent, "environment")
	add("Kind of action", action, "actionType", "type")
	identity := objectOf(action["toolIdentity"])
	if len(identity) == 0 {
		identity = objectOf(action["tool_identity"])
	}
	add("The tool's provider", identity, "provider")
	add("The tool's version", identity, "version")
	add("The tool's manifest", identity, "manifest_hash")
	add("Data labels", context, "dataLabels", "data_labels")
	add("Risk hints", context, "riskHints", "risk_hints")
	add("Delegation chain", context, "delegationChain", "delegation_chain")
	add("Acts for the agent", context, "parentAgentId", "parent_agent_id")
	add("Session", context, "sessionId", "session_id")
	add("Attested by", objectOf(agent["attestation"]), "issuer")
	return c
}

// authzenStatements reads an AuthZEN Access Evaluation request.
func authzenStatements(doc map[string]json.RawMessage) views.AgentStatements {
	var c views.AgentStatements
	add := func(name, value string) {
		if value != "" && value != "{}" {
			c.Facts = append(c.Facts, views.Field{Name: name, Value: value})
		}
	}
	subject := objectOf(doc["subject"])
	add("On behalf of", text(subject["id"]))
	add("What that is", text(subject["type"]))
	add("What it says of it", text(subject["properties"]))
	add("Context", text(doc["context"]))
	return c
}

// objectOf is a JSON object's members, or none for anything else.
func objectOf(raw json.RawMessage) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	return members
}

// firstOf is the first of the fields that says something; an array of texts has
// its entries parted by arrows or commas.
func firstOf(from map[string]json.RawMessage, fields ...string) string {
	for _, field := range fields {
		var entries []string
		if json.Unmarshal(from[field], &entries) == nil && entries != nil {
			joint := ", "
			if strings.HasPrefix(field, "delegation") {
				joint = " → "
			}
			if joined := strings.Join(entries, joint); joined != "" {
				return joined
			}
			continue
		}
		if value := text(from[field]); value != "" {
			return value
		}
	}
	return ""
}

func evidence(ref json.RawMessage) views.Evidence {
	var fields map[string]json.RawMessage
	if json.Unmarshal(ref, &fields) != nil {
		return views.Evidence{Source: text(ref)}
	}
	e := views.Evidence{
		Source: text(fields["source_id"]), Kind: words(text(fields["kind"])), Trust: words(text(fields["trust_tier"])),
		Redaction: text(fields["redaction_status"]), Provenance: text(fields["provenance"]), Summary: text(fields["summary"]),
		Freshness: text(fields["freshness"]),
	}
	var freshness struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(fields["freshness"], &freshness) == nil {
		e.Freshness = freshness.Status
	}
	return e
}

// text is a JSON string's value, or the JSON itself for anything else.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
