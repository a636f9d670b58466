package engine

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An event is written as encoding/json writes it, whatever is in it.
func TestAppendEvent(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z_<>&"\\]{0,8}`), rapid.Just(""), rapid.Just("\xff\u2028"))
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) string { return text.Draw(t, name) }
		e := Event{
			ID: draw("id"), Seq: rapid.Int64().Draw(t, "seq"), Type: EventType(draw("type")), RequestID: draw("request"), AgentID: draw("agent"), ToolName: draw("tool"),
			Outcome: Outcome(draw("outcome")), SafePayload: json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"a":["<b>",1.50]}`, `null`, ` { "a" : 1 } `, "{\"a\":\"\u2028\xff\"}", "{\"a\":\"é\u2030\"}"}).Draw(t, "payload")),
			PluginSource: draw("plugin"), ApprovalID: draw("approval"), Actor: Actor{ActorKind(draw("kind")), draw("actor"), draw("channel")},
			DigestHMAC: draw("digest"), PolicyDigest: draw("policy"), PrevOutcome: Outcome(draw("former")),
		}
		if rapid.Bool().Draw(t, "dated") {
			e.Timestamp = time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
		}
		if rapid.Bool().Draw(t, "with reasons") {
			e.Reasons = make([]Reason, rapid.IntRange(0, 3).Draw(t, "reasons"))
			for i := range e.Reasons {
				e.Reasons[i] = Reason{draw("code"), draw("message")}
			}
		}
		if rapid.Bool().Draw(t, "with requirements") {
			e.Requirements = []Requirement{{Kind: Review, Role: draw("role"), Needed: 2}}
		}
		want, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.AppendJSON([]byte("before"))
		if err != nil || string(got) != "before"+string(want) {
			t.Fatalf("%s, %v, want %s", got, err, want)
		}
	})
}

// What is no JSON in an event is an error, as it is of encoding/json.
func TestAppendEventRefuses(t *testing.T) {
	for _, payload := range []string{`{`, `{}{}`, `x`, ` `} {
		e := Event{SafePayload: json.RawMessage(payload)}
		if got, err := e.AppendJSON(nil); err == nil {
			t.Errorf("%q was written: %s", payload, got)
		}
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	e := Event{
		ID: "5f0e9a9c-6f0f-4a4c-9a51-0c6d2f1b7e11", Type: Decided, RequestID: "req_0123456789", AgentID: "bot", ToolName: "search_docs", Outcome: Allow,
		Reasons:     []Reason{{Code: "route_accept", Message: "The event says that the call may run."}},
		SafePayload: json.RawMessage(`{"argument_count":3,"argument_keys":["filters","limit","query"],"authorization_state":"none","dialect":"aana","evidence_ref_count":2,"risk_domain":"research","route":"accept","tool_category":"public_read"}`),
		Actor:       Actor{Kind: AgentActor, ID: "bot", Channel: "api"}, DigestHMAC: "hmac-sha256:0123", PolicyDigest: "sha256:0123",
	}
	var room []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if room, err = e.AppendJSON(room[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
