package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/dialect/aana"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

// EventBody is an Agent Action Contract v1 event, for the documentation; the
// dialect's own strict reader reads it (engine/dialect/aana).
type EventBody struct {
	ToolName             string          `json:"tool_name" minLength:"1" doc:"Exact name of the tool that the agent intends to call."`
	ToolCategory         string          `json:"tool_category" enum:"public_read,private_read,write,unknown" doc:"What kind of consequence the tool has."`
	AuthorizationState   string          `json:"authorization_state" enum:"none,user_claimed,authenticated,validated,confirmed" doc:"Strongest verified authorization; lowered to what the key may claim."`
	EvidenceRefs         []any           `json:"evidence_refs" doc:"Strings, or objects with source_id, kind, trust_tier, redaction_status, summary, freshness, provenance and so on."`
	RiskDomain           string          `json:"risk_domain" enum:"devops,finance,education,hr,legal,pharma,healthcare,commerce,customer_support,security,research,personal_productivity,public_information,unknown"`
	ProposedArguments    json.RawMessage `json:"proposed_arguments" doc:"The arguments, as an object. Approval binds to exactly these."`
	RecommendedRoute     string          `json:"recommended_route" enum:"accept,ask,defer,refuse" doc:"What the runtime itself would do; the stricter of both counts."`
	SchemaVersion        string          `json:"schema_version,omitempty" enum:"aana.agent_tool_precheck.v1"`
	RequestID            string          `json:"request_id,omitempty"`
	AgentID              string          `json:"agent_id,omitempty" doc:"Informative: the agent is the one that the key belongs to."`
	UserIntent           string          `json:"user_intent,omitempty"`
	AuthorizationSubject any             `json:"authorization_subject,omitempty" doc:"{subject_type, subject_ref}."`
	WantToken            bool            `json:"want_token,omitempty" doc:"Ask for a token for an accepted call, too. Holdpoint's own member, which the contract's reader does not see; Prefer: token says the same."`
	Separate             bool            `json:"separate,omitempty" doc:"Ask for an approval of its own where the very call waits already. Holdpoint's own member, too; Prefer: separate says the same."`
}

// Checked is the answer to a proposed call.
type Checked struct {
	aana.Envelope
	Constraints json.RawMessage `json:"constraints,omitempty" doc:"What an accepted call has to keep to, by the policy."`
	Approval    *Approval       `json:"approval,omitempty" doc:"The approval that the call waits for; of an accepted call that wants a token, the one that has it. In a refusal with the reason DENIED_BEFORE: the former approval by which people denied this very call. It has ended, its denial says how, and nobody is asked again."`
	Joined      bool            `json:"joined,omitempty" doc:"True when the very call waited already: approval is that one, and nobody is asked again. separate asks for another."`
	// The rest is there in the answer to a dry run only.
	ShadowMode        bool    `json:"shadow_mode,omitempty" doc:"True in the answer to a dry run, which permits nothing."`
	ExecutionMode     string  `json:"execution_mode,omitempty" enum:"shadow"`
	ShadowObservation *Shadow `json:"shadow_observation,omitempty"`
}

// Shadow is what AANA calls a dry run's observation: what would have become of the call.
type Shadow struct {
	ShadowMode             bool         `json:"shadow_mode"`
	Enforcement            string       `json:"enforcement" enum:"observe_only"`
	WouldGateDecision      string       `json:"would_gate_decision" enum:"pass,fail"`
	WouldRecommendedAction engine.Route `json:"would_recommended_action"`
	WouldRoute             engine.Route `json:"would_route"`
	ProductionEffect       string       `json:"production_effect" enum:"not_blocked"`
}

// ValidatedEvent says whether an event has the contract's structure.
type ValidatedEvent struct {
	Valid         bool                   `json:"valid"`
	Errors        []aana.ValidationError `json:"errors"`
	SchemaVersion string                 `json:"schema_version" enum:"aana.agent_tool_precheck.v1"`
}

// shadowParameter is how AANA's clients ask for a dry run.
const shadowParameter = "shadow_mode"

// exampleEvent is an event, for the documentation.
var exampleEvent = map[string]any{
	"tool_name": "create_transfer", "tool_category": "write", "authorization_state": "authenticated", "evidence_refs": []any{"invoice:42"},
	"risk_domain": "finance", "proposed_arguments": map[string]any{"amount": 120, "to": "DE02"}, "recommended_route": "accept",
}

// aana is the door for the Agent Action Contract. Its further addresses are those that
// AANA's own clients ask.
func (a dialectDoor) aana() []operation {
	check := operation{
		method: "POST", path: "/v1/pre-tool-check", summary: "Propose a tool call", scope: identity.ScopeCheck,
		detail: "Judges an Agent Action Contract v1 event. 200: decided at once — run the call only when gate_decision is pass and recommended_action accept. 202: it waits for people; follow approval. With shadow_mode=true it is a dry run: the call is judged and recorded as one, nothing is opened, and nothing that the answer says permits the call.",
		query:  []parameter{{shadowParameter, "true for a dry run; false when left out."}}, headers: proposing, example: exampleEvent,
		in: EventBody{}, out: Checked{}, statuses: []int{200, 202}, problems: []int{400, 401, 403, 413, 415, 422, 429, 503}, repeats: true, handle: a.preToolCheck,
	}
	operations := []operation{check}
	for _, path := range []string{"/pre-tool-check", "/tool-precheck"} {
		alias := check
		alias.path, alias.summary = path, "Propose a tool call (alias)"
		operations = append(operations, alias)
	}
	return append(operations, operation{
		method: "POST", path: "/validate-tool-precheck", summary: "Is it an Agent Action Contract event", scope: identity.ScopeCheck,
		detail:  "Says what is wrong with the structure of an event. It is not judged, and nothing is recorded.",
		example: exampleEvent, in: EventBody{}, out: ValidatedEvent{}, statuses: []int{200}, problems: []int{400, 401, 403, 413, 415, 429, 503}, handle: a.validateEvent,
	})
}

func (a dialectDoor) validateEvent(c *call) error {
	document, err := readJSON(c)
	if err != nil {
		return err
	}
	_, wrong := aana.Parse(document)
	return writeJSON(c, http.StatusOK, ValidatedEvent{Valid: len(wrong) == 0, Errors: append([]aana.ValidationError{}, wrong...), SchemaVersion: aana.Version})
}

// asksForShadow reports whether the request asks for a dry run.
func asksForShadow(r *http.Request) (dry bool, err error) {
	if r.URL.RawQuery == "" {
		return false, nil // as nearly always
	}
	err = parameters{shadowParameter: func(value string) error {
		switch strings.ToLower(value) {
		case "true", "1", "yes", "on":
			dry = true
		case "false", "0", "no", "off", "":
		default:
			return errors.New("true or false")
		}
		return nil
	}}.read(r.URL.Query())
	return dry, err
}

// shadowed marks the answer to a dry run as one, in AANA's words.
func shadowed(answer Checked) Checked {
	answer.ShadowMode, answer.ExecutionMode, answer.ExecutionPolicy.Mode = true, "shadow", "shadow"
	answer.ShadowObservation = &Shadow{
		ShadowMode: true, Enforcement: "observe_only", WouldGateDecision: answer.GateDecision, WouldRecommendedAction: answer.RecommendedAction,
		WouldRoute: answer.ArchitectureDecision.Route, ProductionEffect: "not_blocked",
	}
	return answer
}

// envelopeReply is the answer to a call that is decided at once, and nothing to be said
// beside the envelope: nearly all of them, so it is written without reflection, and into
// room where that is enough.
func envelopeReply(e aana.Envelope, room []byte) (access.Reply, error) {
	body, err := e.AppendJSON(room)
	if err != nil {
		return access.Reply{}, fmt.Errorf("encode answer: %w", err)
	}
	return access.Reply{Status: http.StatusOK, Header: asJSON, Body: append(body, '\n')}, nil
}

// asJSON is the header of these answers. Nobody changes it.
var asJSON = map[string]string{"Content-Type": "application/json"}

// answers are what answers were written into that nobody needs any more.
var answers = sync.Pool{New: func() any { return new([3072]byte) }}

func (a dialectDoor) preToolCheck(c *call) error {
	started := time.Now()
	dry, err := asksForShadow(c.r)
	if err != nil {
		return err
	}
	body, document, request, err := proposed(c)
	if err != nil {
		return err
	}
	if request.DryRun = dry; dry {
		request.WantToken = false // a dry run permits nothing
	}
	var room []byte
	if c.r.Header["Idempotency-Key"] == nil { // else the answer is kept
		used, _ := answers.Get().(*[3072]byte)
		defer answers.Put(used)
		room = used[:0]
	}
	render := func(checked gate.Checked) (access.Reply, error) {
		if checked.Constraints == nil && checked.Approval == nil && !dry {
			return envelopeReply(checked.Envelope, room)
		}
		answer := Checked{Envelope: checked.Envelope, Constraints: checked.Constraints, Approval: a.waiting(c, checked.Approval), Joined: checked.Joined}
		if dry {
			answer = shadowed(answer)
		}
		return decidedReply(answer, answer.Approval)
	}
	return checked(a.API, c, body, request, func(once *access.Idempotency[gate.Checked]) (gate.Checked, error) {
		checked, err := a.Gate.PreToolCheck(c.r.Context(), c.principal, document, request, once)
		if err == nil {
			a.decided(gate.DialectAANA, checked.Route, started)
		}
		return checked, err
	}, render)
}
