package audit

import (
	"strings"
	"testing"
	"time"
)

// A record as the gate writes one for a call that passes.
func aRecord() Record {
	return Record{
		Leaf: 12345, ID: "5f0e9a9c-6f0f-4a4c-9a51-0c6d2f1b7e11", At: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC), Type: "decision", Outcome: "ALLOW", AgentID: "bot", ToolName: "search_docs",
		Body: []byte(`{"event_id":"5f0e9a9c-6f0f-4a4c-9a51-0c6d2f1b7e11","type":"decision","request_id":"req_0123456789","agent_id":"bot","tool_name":"search_docs","outcome":"ALLOW",` +
			`"reasons":[{"code":"route_accept","message":"The event says that the call may run."}],"safe_payload":{"argument_keys":["filters","limit","query"],"evidence":2,"tool_category":"public_read",` +
			`"authorization_state":"none","risk_domain":"research","recommended_route":"accept","plan":{"digest":"sha256:` + strings.Repeat("ab", 32) + `","size":843}},` +
			`"actor":{"kind":"agent","id":"key_abcdefghijklmnop","channel":"api"},"digest_hmac":"` + strings.Repeat("cd", 32) + `","policy_digest":"sha256:` + strings.Repeat("ef", 32) + `"}`),
	}
}

// BenchmarkLeafHasher gives what a leaf's data costs whoever gives events their places.
func BenchmarkLeafHasher(b *testing.B) {
	var h LeafHasher
	r := aRecord()
	b.SetBytes(int64(len(r.Body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, actor := h.Hash(r); actor == "" {
			b.Fatal("it is empty")
		}
	}
}
