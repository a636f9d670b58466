package aana

import (
	"fmt"
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/canon"
)

// Version is AANA's wire name: the only schema_version that an event
// may carry, and the contract_version of every answer.
const Version = "aana.agent_tool_precheck.v1"

// MaxEvidence is the largest number of evidence references of one event.
const MaxEvidence = 10_000

// State is how well the sender's authority for a call is established:
// none < user_claimed < authenticated < validated < confirmed.
type State string

// The five states, from weakest to strongest.
const (
	None          State = "none"
	UserClaimed   State = "user_claimed"
	Authenticated State = "authenticated"
	Validated     State = "validated"
	Confirmed     State = "confirmed"
)

var states = []State{None, UserClaimed, Authenticated, Validated, Confirmed}

// Rank is the state's place in the order, from 0. Anything that is not a state
// ranks as None.
func (s State) Rank() int { return max(slices.Index(states, s), 0) }

// AtLeast reports whether s is other or stronger.
func (s State) AtLeast(other State) bool { return s.Rank() >= other.Rank() }

// ParseState reads a wire name. Any other text is an error that does not quote it.
func ParseState(name string) (State, error) {
	if s := State(name); slices.Contains(states, s) {
		return s, nil
	}
	return None, fmt.Errorf("not an authorization state; it has to be one of %s", list(states))
}

// Category is the consequence class of a tool call.
type Category string

// The four categories.
const (
	PublicRead  Category = "public_read"
	PrivateRead Category = "private_read"
	Write       Category = "write"
	Unknown     Category = "unknown"
)

var categories = named[Category](engine.ToolCategories())

// RiskDomain is the primary risk surface of a tool call: one of the fourteen
// names of AANA.
type RiskDomain string

var riskDomains = named[RiskDomain](engine.RiskDomains())

func named[T ~string](names []string) []T {
	list := make([]T, len(names))
	for i, name := range names {
		list[i] = T(name)
	}
	return list
}

// The remaining closed lists of AANA.
var (
	versions     = []string{Version}
	routes       = []string{"accept", "ask", "defer", "refuse"}
	subjectTypes = []string{"user", "account", "client", "employee", "student", "patient", "case", "service", "unknown"}
	kinds        = []string{
		"user_message", "assistant_message", "tool_result", "policy", "auth_event", "approval",
		"system_state", "audit_record", "other",
	}
	trustTiers        = []string{"verified", "runtime", "user_claimed", "unverified", "unknown"}
	redactionStatuses = []string{"public", "redacted", "sensitive", "unknown"}
	freshnessStatuses = []string{"fresh", "stale", "unknown"}
)

// Event is a proposed tool call as AANA describes it, checked and with
// its evidence normalised. Parse makes it; an Event made otherwise is judged
// by the same rules, and refused when it could not have come from Parse.
type Event struct {
	SchemaVersion string // Version or empty
	RequestID     string
	AgentID       string // what the body says, which is not who the caller is
	UserIntent    string
	Subject       Subject
	ToolName      string
	Category      Category
	State         State // as declared, or as lowered by Capped
	Evidence      []Evidence
	RiskDomain    RiskDomain
	Arguments     canon.Value // an object
	Recommended   engine.Route
}

// Subject is whose authorization the sender checked. Both fields may be empty.
type Subject struct {
	Type string
	Ref  string
}

// Evidence is one normalised evidence reference. Fields that the sender left
// out are empty, but for those that section 1 gives a default.
type Evidence struct {
	SourceID     string
	Kind         string
	TrustTier    string
	Redaction    string
	Summary      string
	RetrievedAt  string // as sent
	Freshness    string // fresh, stale or unknown
	CheckedAt    string // as sent
	CitationURL  string
	RetrievalURL string
	Provenance   string
	Supports     []string
	Contradicts  []string

	// timed and checked say that retrieved_at and checked_at were sent, even if empty.
	timed, checked bool
	// issued marks what the engine itself put there. It is not searched for
	// leaks: an id may look like a card number, and a refusal would be final.
	issued bool
}

// Capped returns the event with its declared state lowered to limit, and
// whether that changed anything. What a caller may declare is a property of
// its credential. A limit that is not a state allows none.
func (e Event) Capped(limit State) (Event, bool) {
	if e.State.Rank() <= limit.Rank() {
		return e, false
	}
	e.State = states[limit.Rank()]
	return e, true
}

// Confirmed returns the event as it stands once people have approved it
// (section 8): its state is confirmed, and its evidence ends with a reference
// of kind approval, issued by the engine, whose source_id is approvalID.
func (e Event) Confirmed(approvalID string) Event {
	e.State = Confirmed
	e.Evidence = append(slices.Clone(e.Evidence), Evidence{
		SourceID: approvalID, Kind: "approval", TrustTier: "verified", Redaction: "redacted",
		Freshness: "fresh", Provenance: "holdpoint", issued: true,
	})
	return e
}
