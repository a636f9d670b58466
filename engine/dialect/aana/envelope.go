package aana

import (
	"slices"
	"strings"

	"holdpoint/engine"
)

// Envelope is the answer to an event, as section 7 and AANA's result
// envelope describe it. Slices are never null. Fields of the event that could
// not be read are absent. No field holds the value of an argument.
type Envelope struct {
	ContractVersion         string            `json:"contract_version"`
	ToolName                string            `json:"tool_name,omitempty"`
	ToolCategory            Category          `json:"tool_category,omitempty"`
	AuthorizationState      State             `json:"authorization_state,omitempty"`
	RiskDomain              RiskDomain        `json:"risk_domain,omitempty"`
	GateDecision            string            `json:"gate_decision"` // pass or fail
	RecommendedAction       engine.Route      `json:"recommended_action"`
	CandidateGate           string            `json:"candidate_gate"` // pass or fail, by our route alone
	AANARoute               engine.Route      `json:"aana_route"`     // our route, before the recommendation
	RuntimeRecommendedRoute string            `json:"runtime_recommended_route,omitempty"`
	HardBlockers            []string          `json:"hard_blockers"`
	Reasons                 []string          `json:"reasons"`
	EvidenceRefCount        int               `json:"evidence_ref_count"`
	ValidationErrors        []ValidationError `json:"validation_errors,omitempty"`
	AIx                     AIx               `json:"aix"`
	ArchitectureDecision    Architecture      `json:"architecture_decision"`
	ExecutionPolicy         ExecutionPolicy   `json:"execution_policy"`
}

// AIx is AANA's score of a decision, from 0 to 1. It follows from the
// route alone.
type AIx struct {
	Version      string       `json:"aix_version"`
	Score        float64      `json:"score"`
	Components   Components   `json:"components"`
	Decision     engine.Route `json:"decision"`
	HardBlockers []string     `json:"hard_blockers"`
}

// Components are the three parts of an AIx score.
type Components struct {
	P float64 `json:"P"`
	F float64 `json:"F"`
	C float64 `json:"C"`
}

// Architecture is the part of the answer that agents look at.
type Architecture struct {
	Route              engine.Route `json:"route"`
	GateDecision       string       `json:"gate_decision"`
	AIxScore           float64      `json:"aix_score"`
	HardBlockers       []string     `json:"hard_blockers"`
	MissingEvidence    []string     `json:"missing_evidence"`
	EvidenceRefs       EvidenceRefs `json:"evidence_refs"`
	AuthorizationState State        `json:"authorization_state,omitempty"`
	ToolName           string       `json:"tool_name,omitempty"`
	ToolCategory       Category     `json:"tool_category,omitempty"`
	RiskDomain         RiskDomain   `json:"risk_domain,omitempty"`
	RecoverySuggestion string       `json:"recovery_suggestion"`
	AuditEvent         AuditEvent   `json:"audit_event"`
}

// EvidenceRefs names the references of an event by their source_id, or by
// "evidence_ref:" and their place, counted from 1, where that id is not fit to
// be shown.
type EvidenceRefs struct {
	Used          []string `json:"used"`
	Missing       []string `json:"missing"`
	Contradictory []string `json:"contradictory"`
}

// AuditEvent is what may be written to any log: codes, names and counts.
type AuditEvent struct {
	Version              string       `json:"audit_event_version"`
	Route                engine.Route `json:"route"`
	GateDecision         string       `json:"gate_decision"`
	CandidateGate        string       `json:"candidate_gate"`
	AIxScore             float64      `json:"aix_score"`
	HardBlockers         []string     `json:"hard_blockers"`
	MissingEvidence      []string     `json:"missing_evidence"`
	EvidenceRefs         EvidenceRefs `json:"evidence_refs"`
	AuthorizationState   State        `json:"authorization_state,omitempty"`
	ToolName             string       `json:"tool_name,omitempty"`
	ToolCategory         Category     `json:"tool_category,omitempty"`
	RiskDomain           RiskDomain   `json:"risk_domain,omitempty"`
	ProposedArgumentKeys []string     `json:"proposed_argument_keys"`
	RawPayloadLogged     bool         `json:"raw_payload_logged"` // always false
}

// ExecutionPolicy says in one place whether the tool may run.
type ExecutionPolicy struct {
	Mode             string `json:"mode"` // enforce; shadow in the answer to a dry run
	ExecutionAllowed bool   `json:"execution_allowed"`
	FailClosed       bool   `json:"fail_closed"` // always true
	// Reason is schema_or_contract_validation_failed, hard_blockers_present,
	// route_not_accept or enforcement_accept.
	Reason string `json:"reason"`
}

// Brief is the structured content of the MCP tool aana_pre_tool_check.
type Brief struct {
	Route              engine.Route `json:"route"`
	ExecutionAllowed   bool         `json:"execution_allowed"`
	GateDecision       string       `json:"gate_decision"`
	RecommendedAction  engine.Route `json:"recommended_action"`
	AIxScore           float64      `json:"aix_score"`
	HardBlockers       []string     `json:"hard_blockers"`
	MissingEvidence    []string     `json:"missing_evidence"`
	EvidenceRefs       EvidenceRefs `json:"evidence_refs"`
	AuthorizationState State        `json:"authorization_state,omitempty"`
	RecoverySuggestion string       `json:"recovery_suggestion"`
	AuditEvent         AuditEvent   `json:"audit_event"`
}

const (
	pass = "pass"
	fail = "fail"

	auditEventVersion = "aana.audit_safe_decision.v1"
)

// scores are the AIx scores by route.
var scores = [...]float64{engine.Accept: 0.95, engine.Ask: 0.72, engine.Defer: 0.45, engine.Refuse: 0.15}

// missingWords mark the hard blockers that say that evidence is missing.
var missingWords = []string{"missing", "evidence", "authorization", "citation", "source"}

// Envelope words the answer. d is the decision of all checks; where it is
// stricter than r the answer follows it, and the codes of the findings that are
// not r's join the reasons, and the hard blockers if they stop the call. A
// looser d changes nothing.
func (r Result) Envelope(d engine.Decision) Envelope {
	route, own := r.Route.Stricter(d.Route), r.Own
	if d.Route > r.Route {
		own = own.Stricter(d.Route)
	}
	blockers, reasons := append(codes{}, r.HardBlockers...), append(codes{}, r.Reasons...)
	for _, f := range d.Findings {
		if f.Source == Source && slices.Contains(r.Findings, f) {
			continue // said already
		}
		reasons.add(f.Code)
		if f.Route != engine.Accept {
			blockers.add(f.Code)
			route, own = route.Stricter(f.Route), own.Stricter(f.Route)
		}
	}
	slices.Sort(blockers)
	// A route that is none of the four is the strictest.
	route, own = min(route, engine.Refuse), min(own, engine.Refuse)

	score := scores[route]
	gate, candidate := verdict(route, blockers), verdict(own, blockers)
	missing := make([]string, 0, len(blockers))
	for _, code := range blockers {
		if containsAny(code, missingWords) {
			missing = append(missing, code)
		}
	}
	refs := r.echo.refs.evidenceRefs(blockers, missing)
	arch := Architecture{
		Route: route, GateDecision: gate, AIxScore: score, HardBlockers: blockers, MissingEvidence: missing, EvidenceRefs: refs,
		AuthorizationState: r.echo.state, ToolName: r.echo.toolName, ToolCategory: r.echo.category, RiskDomain: r.echo.riskDomain,
		RecoverySuggestion: recoveries[route.String()],
		AuditEvent: AuditEvent{
			Version: auditEventVersion, Route: route, GateDecision: gate, CandidateGate: candidate, AIxScore: score,
			HardBlockers: blockers, MissingEvidence: missing, EvidenceRefs: refs, AuthorizationState: r.echo.state,
			ToolName: r.echo.toolName, ToolCategory: r.echo.category, RiskDomain: r.echo.riskDomain,
			ProposedArgumentKeys: append([]string{}, r.echo.argumentKeys...),
		},
	}
	policy := ExecutionPolicy{Mode: "enforce", ExecutionAllowed: gate == pass && len(r.ValidationErrors) == 0, FailClosed: true}
	switch {
	case len(r.ValidationErrors) > 0:
		policy.Reason = "schema_or_contract_validation_failed"
	case len(blockers) > 0:
		policy.Reason = "hard_blockers_present"
	case route != engine.Accept:
		policy.Reason = "route_not_accept"
	default:
		policy.Reason = "enforcement_accept"
	}
	factor := 0.75
	if route == engine.Accept {
		factor = 1
	}
	return Envelope{
		ContractVersion: Version, ToolName: r.echo.toolName, ToolCategory: r.echo.category, AuthorizationState: r.echo.state,
		RiskDomain: r.echo.riskDomain, GateDecision: gate, RecommendedAction: route, CandidateGate: candidate, AANARoute: own,
		RuntimeRecommendedRoute: r.echo.recommended, HardBlockers: blockers, Reasons: reasons, EvidenceRefCount: r.echo.evidenceCount,
		ValidationErrors:     r.ValidationErrors,
		AIx:                  AIx{Version: "0.1", Score: score, Components: Components{P: score, F: factor, C: score}, Decision: route, HardBlockers: blockers},
		ArchitectureDecision: arch,
		ExecutionPolicy:      policy,
	}
}

func verdict(route engine.Route, blockers []string) string {
	if route == engine.Accept && len(blockers) == 0 {
		return pass
	}
	return fail
}

// Brief is the envelope as the MCP tool answers it.
func (e Envelope) Brief() Brief {
	a := e.ArchitectureDecision
	return Brief{
		Route: a.Route, ExecutionAllowed: e.ExecutionPolicy.ExecutionAllowed, GateDecision: e.GateDecision,
		RecommendedAction: e.RecommendedAction, AIxScore: a.AIxScore, HardBlockers: a.HardBlockers, MissingEvidence: a.MissingEvidence,
		EvidenceRefs: a.EvidenceRefs, AuthorizationState: a.AuthorizationState, RecoverySuggestion: a.RecoverySuggestion,
		AuditEvent: a.AuditEvent,
	}
}

// evidenceRefs names the references of the event for the answer.
func (s shownRefs) evidenceRefs(blockers, missing []string) EvidenceRefs {
	contradictory := bounded(s.contradictory)
	for _, code := range blockers {
		if strings.Contains(code, "contradict") {
			contradictory = append(contradictory, code)
		}
	}
	return EvidenceRefs{Used: bounded(s.used), Missing: missing, Contradictory: contradictory}
}
