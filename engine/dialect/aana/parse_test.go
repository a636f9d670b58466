package aana_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
)

func read(tb interface{ Fatalf(string, ...any) }, doc string) canon.Value {
	v, err := canon.Parse([]byte(doc))
	if err != nil {
		tb.Fatalf("canon.Parse(%.200s): %v", doc, err)
	}
	return v
}

func TestParseNormalises(t *testing.T) {
	e, errs := aana.Parse(read(t, `{
		"tool_name":"pay","tool_category":"write","authorization_state":"validated","risk_domain":"finance",
		"proposed_arguments":{"b":1,"a":2},"recommended_route":"ask","schema_version":"aana.agent_tool_precheck.v1",
		"request_id":"r","agent_id":"a","user_intent":"i","authorization_subject":{"subject_type":"user","subject_ref":"u"},
		"evidence_refs":["s",{"source_id":"o"},{"source_id":"v","trust_tier":"verified"},
			{"source_id":"f","trust_tier":"runtime","kind":"policy","redaction_status":"public","summary":"","provenance":"p",
			 "freshness":{"status":"unknown","checked_at":"c","source":"x"},"retrieved_at":"t","citation_url":"cu","retrieval_url":"ru",
			 "supports":["1"],"contradicts":["2","3"]}]}`))
	if len(errs) > 0 {
		t.Fatalf("Parse: %v", errs)
	}
	if e.ToolName != "pay" || e.Category != aana.Write || e.State != aana.Validated || e.RiskDomain != "finance" ||
		e.Recommended != engine.Ask || e.SchemaVersion != aana.Version || e.RequestID != "r" || e.AgentID != "a" ||
		e.UserIntent != "i" || e.Subject != (aana.Subject{Type: "user", Ref: "u"}) || string(e.Arguments.Canonical()) != `{"a":2,"b":1}` {
		t.Errorf("Parse: got %+v", e)
	}
	var got []string
	for _, r := range e.Evidence {
		got = append(got, strings.Join([]string{
			r.SourceID, r.Kind, r.TrustTier, r.Redaction, r.Freshness, r.Provenance,
			r.RetrievedAt, r.CheckedAt, r.CitationURL, r.RetrievalURL, fmt.Sprint(r.Supports, r.Contradicts),
		}, " "))
	}
	want := []string{
		"s other runtime redacted fresh runtime_quickstart     [] []",
		"o other unknown unknown unknown runtime     [] []",
		"v other verified unknown fresh runtime     [] []",
		"f policy runtime public unknown p t c cu ru [1] [2 3]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("evidence:\ngot  %q\nwant %q", got, want)
	}
}

func TestParseReportsEverything(t *testing.T) {
	v := read(t, `{"tool_name":" ","tool_category":"WRITE","evidence_refs":["",{"kind":"memo","x y":1,"freshness":{"age_hours":"1"}},3,{"source_id":"","supports":[1]}],
		"proposed_arguments":[],"recommended_route":null,"shadow_mode":true,"`+strings.Repeat("k", 41)+`":1,"token=EXAMPLE-000":2,
		"authorization_subject":{"subject_type":"alien","extra":1}}`)
	_, errs := aana.Parse(v)
	var got []string
	for _, e := range errs {
		got = append(got, e.Path)
	}
	want := []string{
		"$.tool_name", "$.tool_category", "$.evidence_refs[0]", "$.evidence_refs[1].kind", "$.evidence_refs[1].*",
		"$.evidence_refs[1].freshness.age_hours", "$.evidence_refs[1].freshness.status", "$.evidence_refs[1].source_id",
		"$.evidence_refs[2]", "$.evidence_refs[3].source_id", "$.evidence_refs[3].supports[0]", "$.proposed_arguments",
		"$.recommended_route", "$.shadow_mode", "$.*", "$.*", "$.authorization_subject.subject_type", "$.authorization_subject.extra",
		"$.authorization_state", "$.risk_domain",
	}
	if !slices.Equal(got, want) {
		t.Errorf("paths:\ngot  %q\nwant %q", got, want)
	}
	for _, e := range errs {
		if !strings.HasSuffix(e.Message, ".") || strings.Contains(e.Message, "alien") || strings.Contains(e.Message, "memo") {
			t.Errorf("%s: message %q", e.Path, e.Message)
		}
	}
}

func TestParseBoundsItsErrors(t *testing.T) {
	_, errs := aana.Parse(read(t, `{"evidence_refs":[`+strings.Repeat("0,", 9_000)+`0]}`))
	if got, want := len(errs), 101; got != want {
		t.Errorf("got %d errors, want %d", got, want)
	}
	_, errs = aana.Parse(read(t, `{"evidence_refs":[`+strings.Repeat(`"a",`, aana.MaxEvidence)+`"a"]}`))
	if got, want := errs[0].Path, "$.evidence_refs"; got != want {
		t.Errorf("too many references: got an error at %s, want %s", got, want)
	}
}

func TestStates(t *testing.T) {
	order := []aana.State{aana.None, aana.UserClaimed, aana.Authenticated, aana.Validated, aana.Confirmed}
	for i, s := range order {
		if got, err := aana.ParseState(string(s)); got != s || err != nil {
			t.Errorf("ParseState(%s): got %s, %v", s, got, err)
		}
		for j, other := range order {
			if got, want := s.AtLeast(other), i >= j; got != want {
				t.Errorf("%s.AtLeast(%s): got %v, want %v", s, other, got, want)
			}
			e, lowered := aana.Event{State: s}.Capped(other)
			if want := order[min(i, j)]; e.State != want || lowered != (i > j) {
				t.Errorf("%s capped at %s: got %s %v, want %s %v", s, other, e.State, lowered, want, i > j)
			}
		}
	}
	for _, name := range []string{"", "CONFIRMED", " none", "root"} {
		if s, err := aana.ParseState(name); err == nil || s != aana.None {
			t.Errorf("ParseState(%q): got %s, %v", name, s, err)
		}
	}
	if e, lowered := (aana.Event{State: aana.Confirmed}).Capped("root"); e.State != aana.None || !lowered {
		t.Errorf("capped at no state: got %s %v", e.State, lowered)
	}
}

func TestConfirmedChangesACopy(t *testing.T) {
	before := aana.Event{State: aana.None, Evidence: make([]aana.Evidence, 1, 5)}
	after := before.Confirmed("apr_1")
	if before.State != aana.None || before.Evidence[:2][1].SourceID != "" {
		t.Error("Confirmed changed its receiver")
	}
	got := after.Evidence[1]
	if after.State != aana.Confirmed || got.SourceID != "apr_1" || got.Kind != "approval" || got.TrustTier != "verified" ||
		got.Redaction != "redacted" || got.Freshness != "fresh" {
		t.Errorf("Confirmed: got %s, %+v", after.State, got)
	}
}
