package holdpoint

import (
	"bytes"
	"encoding/json"
	"time"
)

// Routes, from loosest to strictest. A route that is none of these executes nothing.
const (
	Accept = "accept" // run it
	Ask    = "ask"    // somebody has to confirm it
	Defer  = "defer"  // a reviewer has to approve it
	Refuse = "refuse" // do not run it
)

// Categories of a tool: what kind of consequence a call has.
const (
	PublicRead  = "public_read"
	PrivateRead = "private_read"
	Write       = "write"
	Unknown     = "unknown"
)

// Authorization states, from weakest to strongest. The server lowers a state
// that is higher than the key may claim.
const (
	None          = "none"
	UserClaimed   = "user_claimed"
	Authenticated = "authenticated"
	Validated     = "validated"
	Confirmed     = "confirmed"
)

// Event is a proposed tool call in the words of the Agent Action Contract v1.
// The fields without omitempty are required: an event that leaves one empty is
// refused, except that nil EvidenceRefs and nil Arguments mean none.
type Event struct {
	ToolName           string `json:"tool_name"`
	ToolCategory       string `json:"tool_category"`
	AuthorizationState string `json:"authorization_state"`
	// EvidenceRefs holds strings or Evidence values.
	EvidenceRefs []any  `json:"evidence_refs"`
	RiskDomain   string `json:"risk_domain"` // devops, finance, hr, legal, security, research, …, unknown
	// Arguments is whatever encoding/json writes as an object. Approval binds
	// to exactly these.
	Arguments any `json:"proposed_arguments"`
	// RecommendedRoute is what the sender itself would do. The stricter of both counts.
	RecommendedRoute string `json:"recommended_route"`

	RequestID  string   `json:"request_id,omitempty"`
	UserIntent string   `json:"user_intent,omitempty"`
	Subject    *Subject `json:"authorization_subject,omitempty"`

	// Separate asks for an approval of its own where the very call waits already, such
	// as for two equal payments that are both meant. It is Holdpoint's own member.
	Separate bool `json:"separate,omitempty"`
	// WantToken asks for an approval, approved, with a token for an accepted call as well. It
	// is Holdpoint's own member.
	WantToken bool `json:"want_token,omitempty"`
}

// Subject is on whose behalf a call is made. A Ref that is the e-mail address
// of a person who signs in to Holdpoint keeps that person from deciding on it.
type Subject struct {
	Type string `json:"subject_type,omitempty"` // user, account, client, service, …
	Ref  string `json:"subject_ref,omitempty"`
}

// Evidence is one reference to what speaks for a call. Only SourceID is required.
type Evidence struct {
	SourceID     string     `json:"source_id"`
	Kind         string     `json:"kind,omitempty"`             // user_message, tool_result, policy, approval, …
	TrustTier    string     `json:"trust_tier,omitempty"`       // verified, runtime, user_claimed, unverified, unknown
	Redaction    string     `json:"redaction_status,omitempty"` // public, redacted, sensitive, unknown
	Summary      string     `json:"summary,omitempty"`
	RetrievedAt  string     `json:"retrieved_at,omitempty"` // RFC 3339
	Freshness    *Freshness `json:"freshness,omitempty"`
	CitationURL  string     `json:"citation_url,omitempty"`
	RetrievalURL string     `json:"retrieval_url,omitempty"`
	Provenance   string     `json:"provenance,omitempty"`
	Supports     []string   `json:"supports,omitempty"`
	Contradicts  []string   `json:"contradicts,omitempty"`
}

// Freshness says how current a piece of evidence is.
type Freshness struct {
	Status    string `json:"status"` // fresh, stale, unknown
	CheckedAt string `json:"checked_at,omitempty"`
}

// Decision is the answer to an Event: the parts of the contract's result
// envelope that a caller acts on.
type Decision struct {
	ContractVersion   string       `json:"contract_version"`
	ToolName          string       `json:"tool_name"`
	GateDecision      string       `json:"gate_decision"`      // pass or fail
	RecommendedAction string       `json:"recommended_action"` // the final route
	HardBlockers      []string     `json:"hard_blockers"`      // codes of what stops the call
	Reasons           []string     `json:"reasons"`
	ValidationErrors  []FieldError `json:"validation_errors"`
	AIx               struct {
		Score        float64  `json:"score"`
		HardBlockers []string `json:"hard_blockers"`
	} `json:"aix"`
	ArchitectureDecision struct {
		Route              string   `json:"route"`
		MissingEvidence    []string `json:"missing_evidence"`
		RecoverySuggestion string   `json:"recovery_suggestion"`
	} `json:"architecture_decision"`
	ExecutionPolicy struct {
		ExecutionAllowed bool   `json:"execution_allowed"`
		Mode             string `json:"mode"` // enforce; shadow of a dry run
		Reason           string `json:"reason"`
	} `json:"execution_policy"`
	// Constraints is a JSON object that an accepted call has to keep to; empty
	// for none.
	Constraints json.RawMessage `json:"constraints"`
	// Approval is set when the call waits for people.
	Approval *Approval `json:"approval"`
	// Joined says that the very call waited already: Approval is that one.
	Joined bool `json:"joined"`
	// ShadowMode says that this answers a dry run, which permits nothing, whatever
	// else is in it.
	ShadowMode bool `json:"shadow_mode"`
}

// ShouldExecute reports whether the call may run at once: the contract's six
// conditions, that the server says so in as many words, that nothing waits, and
// that it was no dry run. A list that is absent does not count as empty, so the
// zero Decision executes nothing.
func ShouldExecute(d Decision) bool {
	empty := func(list []string) bool { return list != nil && len(list) == 0 }
	return d.GateDecision == "pass" &&
		d.RecommendedAction == Accept &&
		d.ArchitectureDecision.Route == Accept &&
		empty(d.HardBlockers) &&
		empty(d.AIx.HardBlockers) &&
		len(d.ValidationErrors) == 0 &&
		d.ExecutionPolicy.ExecutionAllowed &&
		d.ExecutionPolicy.Mode != "shadow" &&
		!d.ShadowMode &&
		d.Approval == nil &&
		isLimits(d.Constraints)
}

// isLimits reports whether constraints are an object, or none.
func isLimits(constraints json.RawMessage) bool {
	limits := bytes.TrimSpace(constraints)
	return len(limits) == 0 || limits[0] == '{' || string(limits) == "null"
}

// Status is where an approval stands.
type Status string

// The five states; all but Pending are final.
const (
	Pending   Status = "pending"
	Approved  Status = "approved"
	Denied    Status = "denied"
	Expired   Status = "expired"
	Cancelled Status = "cancelled"
)

// Final reports whether nothing can change the status any more. A status that
// this client does not know is not final.
func (s Status) Final() bool {
	switch s {
	case Approved, Denied, Expired, Cancelled:
		return true
	case Pending:
	}
	return false
}

// Approval is a call that waits, or has waited, for people.
type Approval struct {
	ID           string        `json:"id"`
	Status       Status        `json:"status"`
	Version      int           `json:"version"`
	AgentID      string        `json:"agent_id"`
	ToolName     string        `json:"tool_name"`
	RequestID    string        `json:"request_id"`
	OpenedAt     time.Time     `json:"opened_at"`
	ExpiresAt    time.Time     `json:"expires_at"`
	EndedAt      time.Time     `json:"ended_at"` // zero while pending
	Digest       string        `json:"digest"`   // of tool and arguments
	PolicyDigest string        `json:"policy_digest"`
	Requirements []Requirement `json:"requirements"`
	Reasons      []Reason      `json:"reasons"`     // why it waits, or why it ended
	NextAction   string        `json:"next_action"` // wait, answer, attach_ticket, verify, none
	Execution    string        `json:"execution"`   // none, redeemed, succeeded, failed, unknown
	Denial       *Denial       `json:"denial"`      // set when a person or runtime said no
	Ticket       *Ticket       `json:"ticket"`      // the one that was attached last; nil for none
	Edition      int           `json:"edition"`     // counts the calls that it has been about
	// Edited is set when a reviewer has changed the arguments: those are what is
	// approved, and what the token is good for.
	Edited *Edited `json:"edited"`
	// Question is what a reviewer wants to know: answer it with Inform.
	Question *Question `json:"question"`
	// Preconditions are what has to be unchanged when the call runs.
	Preconditions map[string]string `json:"preconditions"`
	// Successor is the approval that was opened in this one's place; "" for none.
	Successor string `json:"successor"`
	Links     Links  `json:"links"`
	// Token permits the call to run once. It is set only once the approval is
	// approved, and only for the agent whose call it is. Keep it out of logs.
	Token string `json:"resumption_token"`
	// Document comes with the token of a tool request: the promoted document
	// that the token is good for.
	Document string `json:"document"`
}

// Edited is what a reviewer has made of the arguments.
type Edited struct {
	Arguments json.RawMessage `json:"arguments"`
	Changed   []string        `json:"changed"` // names of the arguments that are different
	Comment   string          `json:"comment"` // why
	At        time.Time       `json:"at"`
}

// Question is what a reviewer wants to know before deciding.
type Question struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// Requirement is one thing that has to happen before the call may run.
type Requirement struct {
	Kind      string    `json:"kind"` // one of those of docs/approvals.md
	Role      string    `json:"role"` // whose people may do it
	Needed    int       `json:"needed"`
	Given     int       `json:"given"`
	Status    string    `json:"status"` // queued, waiting, satisfied, closed
	Signed    bool      `json:"signed"` // only votes count that the voter's passkey has signed
	ExpiresAt time.Time `json:"expires_at"`
}

// Ticket is a ticket that was attached, and what its tracker says of it. Title,
// State and URL are empty unless it covers the call.
type Ticket struct {
	System  string `json:"system"`
	Ref     string `json:"ref"`
	Title   string `json:"title"`
	State   string `json:"state"`
	URL     string `json:"url"`
	Code    string `json:"code"` // why it does not cover the call: ticket_closed, ticket_too_new, …
	Message string `json:"message"`
	Checked bool   `json:"checked"` // the tracker has answered
}

// Reason is a stable code and a sentence.
type Reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Denial says what kind of no it was.
type Denial struct {
	Kind       string `json:"kind"` // wrong_args, not_now, never, needs_info
	Retryable  bool   `json:"retryable"`
	RetryAfter int    `json:"retry_after"` // seconds
	Comment    string `json:"comment"`
}

// Links are where to go from here.
type Links struct {
	Self   string `json:"self"`
	Review string `json:"review"` // the page on which a person decides
	Events string `json:"events"`
	Cancel string `json:"cancel"`
}

// Redemption is a spent token: the call may run now, once.
type Redemption struct {
	ApprovalID string `json:"approval_id"`
	// Constraints is a JSON object that the call must keep to; {} when nothing.
	Constraints json.RawMessage `json:"constraints"`
	// LeaseUntil is by when to report what became of the call; afterwards a person
	// has to find out.
	LeaseUntil time.Time `json:"lease_until"`
	// Replayed says that the server had answered this request before, and RedeemedAt
	// when the token was spent. A Client repeats only requests whose answer it did
	// not get, under a key that is new for each call of Redeem, so that the call may
	// still run now.
	Replayed   bool      `json:"replayed"`
	RedeemedAt time.Time `json:"redeemed_at"`
}

// Outcome is what became of a call after its token was redeemed.
type Outcome string

// The three outcomes. Uncertain is the honest answer when a call may or may
// not have had its effect.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
	Uncertain Outcome = "unknown"
)
