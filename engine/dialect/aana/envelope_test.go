package aana_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
	"holdpoint/internal/golden"
)

// The answers' wire form is a promise; the golden files are read in review.
func TestEnvelopeGolden(t *testing.T) {
	policy := engine.Decision{Route: engine.Defer, Findings: []engine.Finding{
		{Source: "policy", Code: "over_limit", Route: engine.Defer},
		{Source: "credential", Code: "authorization_state_capped", Route: engine.Accept},
	}}
	tests := []struct {
		name, document string
		decision       engine.Decision
	}{
		{"accept", strings.Replace(benchmarkEvent, `"validated"`, `"confirmed"`, 1), engine.Decision{}},
		{"ask", benchmarkEvent, engine.Decision{}},
		{"stricter_decision", strings.Replace(benchmarkEvent, `"validated"`, `"confirmed"`, 1), policy},
		{"refuse", `{"tool_name":"get_customer","tool_category":"public_read","authorization_state":"user_claimed","risk_domain":"commerce","recommended_route":"refuse",
			"proposed_arguments":{"email":"pat@example.org","apiKey":"x","q\u202e":1,"card_pin":"0000"},
			"evidence_refs":["mail:pat@example.org",{"source_id":"a","contradicts":["b"]},{"source_id":"a"},{"source_id":"n","summary":"password: EXAMPLE-0"}]}`, engine.Decision{}},
		{"invalid", `{"tool_name":"pay","tool_category":"WRITE","authorization_state":"confirmed","evidence_refs":[{}],"proposed_arguments":{"to":"x"},"recommended_route":"ask"}`, engine.Decision{}},
		{"unreadable", `{"tool_name":"pay","tool_name":"pay"}`, engine.Decision{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.MarshalIndent(judge([]byte(tt.document)).Envelope(tt.decision), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			golden.Equal(t, "testdata/envelope_"+tt.name+".json", got)
		})
	}
}

func TestEnvelopeFollowsTheDecision(t *testing.T) {
	accepted := judge([]byte(strings.Replace(benchmarkEvent, `"validated"`, `"confirmed"`, 1)))
	tests := []struct {
		name     string
		decision engine.Decision
		route    engine.Route
		blockers []string
		policy   string
	}{
		{"nothing", engine.Decision{}, engine.Accept, []string{}, "enforcement_accept"},
		{"a note", engine.Decision{Findings: []engine.Finding{{Source: "x", Code: "note"}}}, engine.Accept, []string{}, "enforcement_accept"},
		{"a route without findings", engine.Decision{Route: engine.Ask}, engine.Ask, []string{}, "route_not_accept"},
		{"a finding stricter than the route", engine.Decision{Findings: []engine.Finding{{Source: "x", Code: "stop", Route: engine.Refuse}}}, engine.Refuse, []string{"stop"}, "hard_blockers_present"},
		{"a finding twice", engine.Decision{Route: engine.Ask, Findings: []engine.Finding{{Source: "x", Code: "s", Route: engine.Ask}, {Source: "y", Code: "s", Route: engine.Ask}}}, engine.Ask, []string{"s"}, "hard_blockers_present"},
		{"no route at all", engine.Decision{Route: 77}, engine.Refuse, []string{}, "route_not_accept"},
	}
	for _, tt := range tests {
		e := accepted.Envelope(tt.decision)
		if e.RecommendedAction != tt.route || e.AANARoute != tt.route || !slices.Equal(e.HardBlockers, tt.blockers) || e.ExecutionPolicy.Reason != tt.policy {
			t.Errorf("%s: got %s %s %q %s, want %s %q %s", tt.name, e.RecommendedAction, e.AANARoute, e.HardBlockers, e.ExecutionPolicy.Reason, tt.route, tt.blockers, tt.policy)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	refused := judge([]byte(`[]`))
	if e := refused.Envelope(engine.Decision{Route: engine.Accept}); e.RecommendedAction != engine.Refuse || e.ExecutionPolicy.ExecutionAllowed {
		t.Errorf("a looser decision loosens the answer: %+v", e)
	}
}

func TestInvalidWithoutErrorsStillRefuses(t *testing.T) {
	r := aana.Invalid(canon.Null(), nil)
	if r.Route != engine.Refuse || len(r.ValidationErrors) != 1 {
		t.Errorf("got %s %v", r.Route, r.ValidationErrors)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	var keys, refs []string
	for i := range 2_000 {
		keys = append(keys, fmt.Sprintf(`"k%04d":0`, i))
		refs = append(refs, fmt.Sprintf(`{"source_id":"r%d","contradicts":["x"]}`, i), fmt.Sprintf(`"r%d"`, i/2))
	}
	e := event(t, "edit_note", aana.Write, aana.Confirmed, "hr", engine.Accept, "{"+strings.Join(keys, ",")+"}", refs)
	got := e.Judge(now).Envelope(engine.Decision{}).ArchitectureDecision
	if n, last := len(got.AuditEvent.ProposedArgumentKeys), got.AuditEvent.ProposedArgumentKeys[100]; n != 101 || last != "[and 1900 more]" {
		t.Errorf("keys: got %d, the last %q", n, last)
	}
	if n, last := len(got.EvidenceRefs.Used), got.EvidenceRefs.Used[100]; n != 101 || last != "[and 1900 more]" {
		t.Errorf("references: got %d, the last %q", n, last)
	}
	if got, want := got.EvidenceRefs.Contradictory[101], "contradictory_evidence"; got != want {
		t.Errorf("contradictory: got %q, want %q", got, want)
	}
}

// Our own route is none that is stricter than the final one, of a misclassified read neither.
func TestOwnRouteOfAMisclassifiedRead(t *testing.T) {
	for recommended, want := range map[string][2]engine.Route{ // our own, and the final one
		"accept": {engine.Defer, engine.Defer}, "ask": {engine.Ask, engine.Ask}, "defer": {engine.Defer, engine.Defer}, "refuse": {engine.Defer, engine.Refuse},
	} {
		e := judge([]byte(`{"tool_name":"get_user","tool_category":"public_read","authorization_state":"authenticated","evidence_refs":["x"],"risk_domain":"research",
			"proposed_arguments":{"user_id":"1"},"recommended_route":"` + recommended + `"}`)).Envelope(engine.Decision{})
		if e.AANARoute != want[0] || e.RecommendedAction != want[1] {
			t.Errorf("recommended %s: %s and %s, want %s and %s", recommended, e.AANARoute, e.RecommendedAction, want[0], want[1])
		}
	}
}
