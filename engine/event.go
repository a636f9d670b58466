package engine

import (
	"encoding/json"
	"fmt"
	"time"
)

// ActorKind says what sort of principal did something.
type ActorKind string

// The four kinds of actor (docs/spec/wire.md, "Audit").
const (
	HumanActor   ActorKind = "human"
	AgentActor   ActorKind = "agent"
	ServiceActor ActorKind = "service"
	SystemActor  ActorKind = "system"
)

// Actor is who did something, and through which door. ID is a person's, an
// agent's or a key's id; Channel is "api", "console", "slack", "cli" or "engine".
type Actor struct {
	Kind    ActorKind `json:"kind"`
	ID      string    `json:"id"`
	Channel string    `json:"channel,omitempty"`
}

// EventType says which step of a call's life an event records.
type EventType string

// The event types. An approval has exactly one event of type Settled.
const (
	Decided      EventType = "decision" // the gate judged a call
	ToolContract EventType = "contract" // a tool contract was asked about a request or a response
	Voted        EventType = "vote"     // a person voted
	Answered     EventType = "answer"   // the requesting side answered
	Cancelled    EventType = "cancel"   // the requesting side asked to cancel
	Proved       EventType = "verify"   // the accountable person proved who they are
	Ticketed     EventType = "ticket"   // a ticket was attached, or looked at
	Asked        EventType = "question" // a reviewer asked for more information, or got it
	Shown        EventType = "shown"    // a person was shown the whole of a call's card
	Commented    EventType = "comment"  // somebody commented on an approval
	Claimed      EventType = "claim"    // a reviewer claimed an approval, or released the claim
	Extended     EventType = "extend"   // somebody gave an approval more time
	Escalated    EventType = "escalate" // nobody could decide, so others may
	Edited       EventType = "edit"     // a reviewer changed the arguments
	Reopened     EventType = "reopen"   // the rules have changed, and ask for more
	Broken       EventType = "break_glass"
	Afterward    EventType = "review_afterwards" // somebody looked at what one person broke the glass for
	Granted      EventType = "grant"             // a standing grant was made or revoked
	Notified     EventType = "notification"      // a notification was given up, or sent again
	Settled      EventType = "settled"           // an approval reached its terminal state
	Redeemed     EventType = "redeem"            // a token was spent
	Executed     EventType = "execution"         // the agent reported what happened
	Ungated      EventType = "ungated"           // a call ran without a decision
	Refusal      EventType = "refusal"           // a door turned a request away
	Exported     EventType = "export"            // somebody exports the log, or a part of it
	SignIn       EventType = "sign_in"           // somebody signed in or out, or tried to
	Admin        EventType = "admin"             // people, agents or keys were changed
	Erased       EventType = "erasure"           // what an approval was about, or who a person is, was erased
	Held         EventType = "hold"              // a legal hold was placed or released
)

// EventTypes returns all of them, in the order above.
func EventTypes() []EventType {
	return []EventType{
		Decided, ToolContract, Voted, Answered, Cancelled, Proved, Ticketed, Asked, Shown, Commented, Claimed, Extended, Escalated, Edited, Reopened,
		Broken, Afterward, Granted, Notified, Settled, Redeemed, Executed, Ungated, Refusal, Exported, SignIn, Admin, Erased, Held,
	}
}

// Reason is a code and a sentence, as in Agent-SPM.
type Reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Event is one record of the audit log: the Agent-SPM event shape and what
// docs/spec/wire.md adds to it. No field ever holds a raw argument value. Seq and Timestamp
// are given by the database when the event is appended and are zero before.
type Event struct {
	ID           string          `json:"event_id"` // UUID version 4
	Seq          int64           `json:"seq,omitzero"`
	Timestamp    time.Time       `json:"timestamp,omitzero"`
	Type         EventType       `json:"type"`
	RequestID    string          `json:"request_id"`
	AgentID      string          `json:"agent_id"`
	ToolName     string          `json:"tool_name"`
	Outcome      Outcome         `json:"outcome"`
	Reasons      []Reason        `json:"reasons"`
	SafePayload  json.RawMessage `json:"safe_payload"`
	PluginSource string          `json:"plugin_source,omitempty"`
	ApprovalID   string          `json:"approval_id,omitempty"`
	Actor        Actor           `json:"actor"`
	DigestHMAC   string          `json:"digest_hmac,omitempty"`
	PolicyDigest string          `json:"policy_digest,omitempty"`
	Requirements []Requirement   `json:"requirements,omitempty"`
	PrevOutcome  Outcome         `json:"prev_outcome,omitempty"`
}

// SetPayload makes what v encodes to the event's payload. v holds no argument value.
func (e *Event) SetPayload(v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the payload of an event of type %s: %w", e.Type, err)
	}
	e.SafePayload = payload
	return nil
}

// AddToPayload sets a member of the event's payload, which is an object, or null for none.
func (e *Event) AddToPayload(name string, v any) error {
	var members map[string]json.RawMessage // the others stay as they are, also numbers of more than 53 bits
	if err := json.Unmarshal(e.SafePayload, &members); err != nil {
		return fmt.Errorf("read the payload of an event of type %s: %w", e.Type, err)
	}
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	added, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s in the payload of an event of type %s: %w", name, e.Type, err)
	}
	members[name] = added
	return e.SetPayload(members)
}

// Reasons keeps the codes and messages of findings.
func Reasons(findings []Finding) []Reason {
	reasons := make([]Reason, len(findings))
	for i, f := range findings {
		reasons[i] = Reason{Code: f.Code, Message: f.Message}
	}
	return reasons
}
