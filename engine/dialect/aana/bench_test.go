package aana_test

import (
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
)

// benchmarkEvent is an ordinary event of about 1 KB.
const benchmarkEvent = `{
  "schema_version": "aana.agent_tool_precheck.v1",
  "request_id": "req-20260401-000731",
  "agent_id": "agent-billing-7",
  "tool_name": "refund_payment",
  "tool_category": "write",
  "authorization_state": "validated",
  "evidence_refs": [
    {"source_id": "session.9f2", "kind": "auth_event", "trust_tier": "verified", "redaction_status": "redacted",
     "summary": "Signed in with a passkey.", "freshness": {"status": "fresh"}, "provenance": "connector"},
    {"source_id": "ledger.payment.881", "kind": "tool_result", "trust_tier": "verified", "redaction_status": "redacted",
     "summary": "The payment belongs to this shop.", "retrieved_at": "2026-04-01T09:30:00Z", "provenance": "connector"}
  ],
  "risk_domain": "finance",
  "proposed_arguments": {"payment": "pay_881", "amount": 129.95, "currency": "EUR", "reason": "Damaged on arrival, customer sent photos.",
    "lines": [{"sku": "A-100", "quantity": 1}, {"sku": "B-205", "quantity": 2}], "notify": true},
  "recommended_route": "accept"
}`

func BenchmarkParse(b *testing.B) {
	v := read(b, benchmarkEvent)
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := aana.Parse(v); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	e, _ := aana.Parse(read(b, benchmarkEvent))
	b.ReportAllocs()
	for b.Loop() {
		e.Judge(now)
	}
}

func BenchmarkEnvelope(b *testing.B) {
	r := judge([]byte(benchmarkEvent))
	d := engine.Decision{Route: r.Route, Findings: r.Findings}
	b.ReportAllocs()
	for b.Loop() {
		r.Envelope(d)
	}
}

// The largest and most hostile events are read and judged quickly. Quadratic
// work would take minutes.
func TestJudgeIsLinear(t *testing.T) {
	wrap := func(name, args, refs string) string {
		return `{"tool_name":"` + name + `","tool_category":"public_read","authorization_state":"none","risk_domain":"hr","recommended_route":"accept","proposed_arguments":` +
			args + `,"evidence_refs":[` + refs + `]}`
	}
	ref := func(summary string) string {
		n := (canon.MaxBytes - 400) / len(summary)
		return `{"source_id":"x","redaction_status":"public","summary":"` + strings.Repeat(summary, n) + `"}`
	}
	docs := map[string]string{
		"arguments": wrap("get_user", `{"q":"`+strings.Repeat("researchable ", 80_000)+`"}`, ""),
		"name":      wrap(strings.Repeat("user", 250_000), `{}`, ""),
		"refs":      wrap("get_user", `{}`, strings.TrimSuffix(strings.Repeat(`{"source_id":"x","summary":"a summary of this reference, which says little","trust_tier":"verified"},`, 9_900), ",")),
		"keys":      wrap("get_user", `{"q":[`+strings.TrimSuffix(strings.Repeat(`{"a":"b"},`, 49_000), ",")+`]}`, ""),
	}
	for _, s := range []string{
		"sk-", "sk-a ", "AKIA", "AKIA ", "AKIA0", ":", "token:", "token : ", "token=\\t", "-", "1-1", "123-45-", "1 ", "12345678901234567 ",
		"123456789012 ", "1a", "@", "a@", "a.", "a@a.", "a@b.c.", "+", "+1", "+1 ", "202-555-", "(202) 555 ", "é", "٤", "missing ", "not match ",
	} {
		docs["leak "+s] = wrap("get_user", `{}`, ref(s))
	}
	for name, doc := range docs {
		v, err := canon.Parse([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		start := time.Now()
		e, errs := aana.Parse(v)
		if len(errs) > 0 {
			t.Fatalf("%s: %v", name, errs)
		}
		e.Judge(now)
		took := time.Since(start)
		t.Logf("%-20q %v", name, took)
		if took > 10*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}
