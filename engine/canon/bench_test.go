package canon_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine/canon"
)

// kilobyte is an ordinary request of about 1 KB: an event of the Agent Action
// Contract with a few structured evidence references.
const kilobyte = `{
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
	data := []byte(kilobyte)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canon.Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	v := must(b, kilobyte)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = v.AppendCanonical(buf[:0])
	}
}

func BenchmarkDigest(b *testing.B) {
	v := must(b, kilobyte)
	b.ReportAllocs()
	for b.Loop() {
		canon.Digest("refund_payment", v)
	}
}

func BenchmarkParseWorst(b *testing.B) {
	var names strings.Builder
	for i := range canon.MaxMembers {
		fmt.Fprintf(&names, `"key%d":0,`, i)
	}
	cases := map[string]string{
		"members":   "{" + strings.TrimSuffix(names.String(), ",") + "}",
		"zeros":     "[" + strings.Repeat("0,", canon.MaxBytes/2-2) + "0]",
		"empty":     "[" + strings.Repeat("[],", canon.MaxBytes/3-2) + "[]]",
		"nested":    "[" + strings.TrimSuffix(strings.Repeat(`{"a":0},`, canon.MaxBytes/8-1), ",") + "]",
		"digits":    strings.Repeat("9", canon.MaxBytes),
		"escapes":   `"` + strings.Repeat(`\n`, canon.MaxBytes/2-1) + `"`,
		"multibyte": `"` + strings.Repeat("é", canon.MaxBytes/2-1) + `"`,
		"exponents": "[" + strings.TrimSuffix(strings.Repeat("1e131071,", 1000), ",") + "]",
	}
	for name, doc := range cases {
		b.Run(name, func(b *testing.B) {
			data := []byte(doc)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = canon.Parse(data)
			}
		})
	}
}

func must(tb rapid.TB, doc string) canon.Value {
	tb.Helper()
	v, err := canon.Parse([]byte(doc))
	if err != nil {
		tb.Fatalf("Parse(%.80q): %v", doc, err)
	}
	return v
}
