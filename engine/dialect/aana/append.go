package aana

import (
	"encoding/json"
	"strconv"

	"holdpoint/engine"
)

// AppendJSON appends the envelope as encoding/json writes it, without its reflection:
// each call of an agent is answered with one. The error is a route that there is not.
func (e *Envelope) AppendJSON(dst []byte) ([]byte, error) {
	w := writer{dst: dst}
	w.text(`{"contract_version":`, e.ContractVersion)
	w.given(`,"tool_name":`, e.ToolName)
	w.given(`,"tool_category":`, string(e.ToolCategory))
	w.given(`,"authorization_state":`, string(e.AuthorizationState))
	w.given(`,"risk_domain":`, string(e.RiskDomain))
	w.text(`,"gate_decision":`, e.GateDecision)
	w.route(`,"recommended_action":`, e.RecommendedAction)
	w.text(`,"candidate_gate":`, e.CandidateGate)
	w.route(`,"aana_route":`, e.AANARoute)
	w.given(`,"runtime_recommended_route":`, e.RuntimeRecommendedRoute)
	w.list(`,"hard_blockers":`, e.HardBlockers)
	w.list(`,"reasons":`, e.Reasons)
	w.dst = strconv.AppendInt(append(w.dst, `,"evidence_ref_count":`...), int64(e.EvidenceRefCount), 10)
	if len(e.ValidationErrors) > 0 {
		w.encoded(`,"validation_errors":`, e.ValidationErrors)
	}
	w.text(`,"aix":{"aix_version":`, e.AIx.Version)
	w.number(`,"score":`, e.AIx.Score)
	w.number(`,"components":{"P":`, e.AIx.Components.P)
	w.number(`,"F":`, e.AIx.Components.F)
	w.number(`,"C":`, e.AIx.Components.C)
	w.route(`},"decision":`, e.AIx.Decision)
	w.list(`,"hard_blockers":`, e.AIx.HardBlockers)
	a := &e.ArchitectureDecision
	w.route(`},"architecture_decision":{"route":`, a.Route)
	w.text(`,"gate_decision":`, a.GateDecision)
	w.number(`,"aix_score":`, a.AIxScore)
	w.list(`,"hard_blockers":`, a.HardBlockers)
	w.list(`,"missing_evidence":`, a.MissingEvidence)
	w.refs(&a.EvidenceRefs)
	w.given(`,"authorization_state":`, string(a.AuthorizationState))
	w.given(`,"tool_name":`, a.ToolName)
	w.given(`,"tool_category":`, string(a.ToolCategory))
	w.given(`,"risk_domain":`, string(a.RiskDomain))
	w.text(`,"recovery_suggestion":`, a.RecoverySuggestion)
	w.auditEvent(&a.AuditEvent)
	w.text(`},"execution_policy":{"mode":`, e.ExecutionPolicy.Mode)
	w.bool(`,"execution_allowed":`, e.ExecutionPolicy.ExecutionAllowed)
	w.bool(`,"fail_closed":`, e.ExecutionPolicy.FailClosed)
	w.text(`,"reason":`, e.ExecutionPolicy.Reason)
	return append(w.dst, "}}"...), w.err
}

// writer appends members of JSON objects, each with what stands before its value.
type writer struct {
	dst []byte
	err error
}

func (w *writer) auditEvent(e *AuditEvent) {
	w.text(`,"audit_event":{"audit_event_version":`, e.Version)
	w.route(`,"route":`, e.Route)
	w.text(`,"gate_decision":`, e.GateDecision)
	w.text(`,"candidate_gate":`, e.CandidateGate)
	w.number(`,"aix_score":`, e.AIxScore)
	w.list(`,"hard_blockers":`, e.HardBlockers)
	w.list(`,"missing_evidence":`, e.MissingEvidence)
	w.refs(&e.EvidenceRefs)
	w.given(`,"authorization_state":`, string(e.AuthorizationState))
	w.given(`,"tool_name":`, e.ToolName)
	w.given(`,"tool_category":`, string(e.ToolCategory))
	w.given(`,"risk_domain":`, string(e.RiskDomain))
	w.list(`,"proposed_argument_keys":`, e.ProposedArgumentKeys)
	w.bool(`,"raw_payload_logged":`, e.RawPayloadLogged)
	w.dst = append(w.dst, '}')
}

func (w *writer) refs(r *EvidenceRefs) {
	w.list(`,"evidence_refs":{"used":`, r.Used)
	w.list(`,"missing":`, r.Missing)
	w.list(`,"contradictory":`, r.Contradictory)
	w.dst = append(w.dst, '}')
}

func (w *writer) text(before, s string) { w.dst = engine.AppendJSONString(append(w.dst, before...), s) }

func (w *writer) given(before, s string) {
	if s != "" {
		w.text(before, s)
	}
}

func (w *writer) list(before string, list []string) {
	if list == nil {
		w.dst = append(append(w.dst, before...), "null"...)
		return
	}
	w.dst = engine.AppendJSONStrings(append(w.dst, before...), list)
}

// number appends a score: none needs an exponent.
func (w *writer) number(before string, f float64) {
	w.dst = strconv.AppendFloat(append(w.dst, before...), f, 'f', -1, 64)
}

func (w *writer) bool(before string, b bool) {
	w.dst = strconv.AppendBool(append(w.dst, before...), b)
}

func (w *writer) route(before string, r engine.Route) {
	if r > engine.Refuse {
		_, w.err = r.MarshalText() // which says that there is no such route
	}
	w.text(before, r.String())
}

func (w *writer) encoded(before string, v any) {
	encoded, err := json.Marshal(v)
	if err != nil {
		w.err = err
	}
	w.dst = append(append(w.dst, before...), encoded...)
}
