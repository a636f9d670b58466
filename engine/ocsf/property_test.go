package ocsf_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
)

// TestAnyEventIsValid: whatever texts, codes, payloads and combinations come,
// known or not, what is written is valid by the schema.
func TestAnyEventIsValid(t *testing.T) {
	s := schema(t)
	types := engine.EventTypes()
	var codes []string
	for _, e := range samples(t) {
		for _, r := range e.Reasons {
			codes = append(codes, r.Code)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t, types, codes)
		line := encode(t, e)
		o := value(t, line)
		if err := s.Validate(o); err != nil {
			t.Fatalf("%s\n%v", line, err)
		}
		class, activity := fmt.Sprint(o["class_uid"]), fmt.Sprint(o["activity_id"])
		if want := fmt.Sprintf("%s%02s", class, activity); fmt.Sprint(o["type_uid"]) != want {
			t.Fatalf("type_uid %v, want %s", o["type_uid"], want)
		}
		if again := encode(t, e); string(again) != string(line) {
			t.Fatalf("encoded twice:\n%s\n%s", line, again)
		}
	})
}

func drawEvent(t *rapid.T, types []engine.EventType, codes []string) engine.Event {
	text := rapid.OneOf(rapid.Just(""), rapid.String())
	known := []engine.Outcome{
		engine.Allow, engine.Deny, engine.RequireApproval, engine.RequireStepUp, engine.RequireTicket, engine.RequireHuman,
		engine.Approved, engine.Rejected, engine.KillSwitch, engine.RateLimited, engine.Timeout,
	}
	outcome := rapid.OneOf(rapid.SampledFrom(known), rapid.Map(text, func(s string) engine.Outcome { return engine.Outcome(s) }))
	kind := rapid.OneOf(
		rapid.SampledFrom([]engine.ActorKind{engine.HumanActor, engine.AgentActor, engine.ServiceActor, engine.SystemActor}),
		rapid.Map(text, func(s string) engine.ActorKind { return engine.ActorKind(s) }),
	)
	code := rapid.OneOf(rapid.SampledFrom(codes), text, rapid.StringMatching(`[A-Z]{1,8}(_[A-Z]{0,8}){0,3}`), rapid.StringMatching(`[a-z]{1,8}(_[a-z]{1,8}){0,3}`))
	e := engine.Event{
		ID:  rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`).Draw(t, "id"),
		Seq: rapid.Int64Range(0, 1<<53).Draw(t, "seq"),
		Timestamp: time.UnixMicro(rapid.Int64Range(0, 253402300799999999).Draw(t, "time")).In(
			time.FixedZone("", rapid.IntRange(-12, 14).Draw(t, "zone")*3600)),
		Type:      rapid.OneOf(rapid.SampledFrom(types), rapid.Map(text, func(s string) engine.EventType { return engine.EventType(s) })).Draw(t, "type"),
		RequestID: text.Draw(t, "request"), AgentID: text.Draw(t, "agent"), ToolName: text.Draw(t, "tool"), ApprovalID: text.Draw(t, "approval"),
		Outcome: outcome.Draw(t, "outcome"), PrevOutcome: outcome.Draw(t, "previous"), PluginSource: text.Draw(t, "plugin"),
		Actor:      engine.Actor{Kind: kind.Draw(t, "kind"), ID: text.Draw(t, "actor"), Channel: text.Draw(t, "channel")},
		DigestHMAC: text.Draw(t, "hmac"), PolicyDigest: text.Draw(t, "policy"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "reasons") {
		e.Reasons = append(e.Reasons, engine.Reason{Code: code.Draw(t, "code"), Message: text.Draw(t, "message")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "requirements") {
		r := engine.Requirement{
			Kind: rapid.SampledFrom(engine.Kinds()).Draw(t, "requirement"),
			Role: text.Draw(t, "role"), Needed: rapid.IntRange(0, 5).Draw(t, "needed"), Calendar: text.Draw(t, "calendar"),
			Within: engine.Duration(rapid.Int64().Draw(t, "within")), Suggested: []string{text.Draw(t, "suggested")},
			Reminders:  []engine.Duration{engine.Duration(rapid.Int64().Draw(t, "reminder"))},
			AnyOf:      []engine.Group{{Role: text.Draw(t, "group"), Needed: 1}},
			Escalation: []engine.Escalation{{After: engine.Duration(time.Hour), Role: text.Draw(t, "escalation")}},
		}
		if rapid.Bool().Draw(t, "ticket") {
			r.Ticket = &engine.TicketTerms{System: text.Draw(t, "system"), Projects: []string{text.Draw(t, "project")}}
		}
		e.Requirements = append(e.Requirements, r)
	}
	e.SafePayload = drawPayload(t, text)
	return e
}

// drawPayload draws a payload with the members that the encoder looks at, of
// the right type and of others.
func drawPayload(t *rapid.T, text *rapid.Generator[string]) json.RawMessage {
	odd := rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`null`), json.RawMessage(`{}`), json.RawMessage(` [1, "x"] `), json.RawMessage(`7`)})
	if rapid.Bool().Draw(t, "odd payload") {
		return odd.Draw(t, "payload")
	}
	members := map[string]any{}
	for _, name := range []string{"route", "status", "subject", "grant", "notification_id", "endpoint_id", "delegation", "schedule", "means", "document"} {
		switch rapid.IntRange(0, 3).Draw(t, name+" is") {
		case 0:
			members[name] = text.Draw(t, name)
		case 1:
			members[name] = rapid.IntRange(-1000, 1000).Draw(t, name)
		case 2:
			members[name] = []any{nil, true}
		}
	}
	encoded, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}
