package access

import (
	"encoding/json"
	"net/mail"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/store"
)

// Initiator is who makes a change, or takes something out: a person, a key or the command line.
type Initiator struct {
	Actor     engine.Actor
	RequestID string
	// Key is the person's own key that they act by; "" in the console.
	Key string
	// Unapproved is why nobody is asked who should be: in an emergency, by whoever owns the
	// database.
	Unapproved string
	// Reason is why, for those who have to approve it; "" where none was given.
	Reason string
}

// Initiator is the principal as an initiator.
func (p Principal) Initiator(requestID string) Initiator {
	by := Initiator{Actor: p.Actor(), RequestID: requestID}
	if p.PersonID != "" {
		by.Key = p.KeyID
	}
	return by
}

// PersonInitiator is a signed-in person as an initiator.
func PersonInitiator(p engine.Person, channel, requestID string) Initiator {
	return Initiator{Actor: engine.Actor{Kind: engine.HumanActor, ID: p.ID, Channel: channel}, RequestID: requestID}
}

// MayAdminister reports whether the person may change agents, tools and switches.
func MayAdminister(p engine.Person) bool { return p.Has(AdminRole) && !p.Disabled }

// MayReadRules reports whether the person may see policies, agents and tools.
func MayReadRules(p engine.Person) bool { return ReadsEverything(p) }

// Event records an act of administration.
func (b Initiator) Event(code, message, agentID, tool string) engine.Event {
	e := engine.Event{
		ID: store.NewEventID(), Type: engine.Admin, RequestID: b.RequestID, AgentID: agentID, ToolName: tool, Outcome: engine.Allow,
		Reasons: []engine.Reason{{Code: code, Message: message}}, SafePayload: json.RawMessage(`{}`), Actor: b.Actor,
	}
	if b.Unapproved != "" {
		e.Reasons = append(e.Reasons, engine.Reason{Code: "NOBODY_ASKED", Message: "People should have approved it, and were not asked: " + b.Unapproved})
	}
	if b.Key != "" {
		e.Reasons = append(e.Reasons, engine.Reason{Code: "BY_KEY", Message: "By a key of their own, " + b.Key + "."})
	}
	return e
}

// Roles that read everything, and decide only where a rule asks for them.
const (
	AuditorRole = approval.AuditorRole
	AdminRole   = approval.AdminRole
)

// ReadsEverything reports whether the person may see every approval.
func ReadsEverything(p engine.Person) bool { return p.Has(AuditorRole) || p.Has(AdminRole) }

// ValidEmail reports whether text is one bare e-mail address.
func ValidEmail(text string) bool {
	address, err := mail.ParseAddress(text)
	return err == nil && address.Address == text
}

// Principal is who an API key belongs to.
type Principal struct {
	KeyID    string
	AgentID  string // "" for an admin key
	PersonID string // whose own key it is, an administrator's; "" for nobody's in particular
	Kind     string // agent, runtime or admin
	Scopes   []string
	MaxState string // the highest authorization_state that it may claim
}

// The kinds of key.
const (
	AgentKey   = "agent"
	RuntimeKey = "runtime"
	AdminKey   = "admin"
)

// Actor is the principal as the audit log names it: an agent's own key acts as
// the agent, a person's own as the person, a runtime's or any other as a service.
func (p Principal) Actor() engine.Actor {
	switch {
	case p.Kind == AgentKey:
		return engine.Actor{Kind: engine.AgentActor, ID: p.AgentID, Channel: "api"}
	case p.PersonID != "":
		return engine.Actor{Kind: engine.HumanActor, ID: p.PersonID, Channel: "api"}
	}
	return engine.Actor{Kind: engine.ServiceActor, ID: p.KeyID, Channel: "api"}
}

// MaxReason bounds the reason that somebody gives for an act, in bytes.
const MaxReason = 1000
