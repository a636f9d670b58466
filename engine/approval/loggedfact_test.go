package approval

import (
	"encoding/json"
	"testing"
	"time"

	"holdpoint/engine"
)

// A fact counts for nothing where an event tells of something else than it.
func TestFactAndEventDiffer(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	vote := Fact{
		Seq: 7, At: at, Kind: Vote, Edition: 1, Yes: true, Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_ada", Channel: "console"}, Comment: "fine",
		Details: Details{Salt: "s", Mac: "n.1"},
	}
	opening := engine.Event{Type: engine.Decided, ApprovalID: "apr_1", Outcome: engine.RequireApproval, SafePayload: []byte(`{"asked":{"excluded":[],"terms":{},"keyed_facts":true}}`)}
	yes := func(Fact) bool { return true }
	for name, test := range map[string]struct {
		edit      func(e *engine.Event, p *FactPayload)
		authentic func(Fact) bool
		unkeyed   bool
		counts    bool
	}{
		"the same":                    {authentic: yes, counts: true},
		"the same, without a key":     {counts: true},
		"the same, forged":            {authentic: func(Fact) bool { return false }},
		"of before there were hashes": {authentic: func(Fact) bool { return false }, unkeyed: true, counts: true},
		"another actor":               {edit: func(e *engine.Event, _ *FactPayload) { e.Actor.ID = "usr_ben" }},
		"another door":                {edit: func(e *engine.Event, _ *FactPayload) { e.Actor.Channel = "api" }},
		"another kind":                {edit: func(_ *engine.Event, p *FactPayload) { p.Fact.Kind = Comment }},
		"another type":                {edit: func(e *engine.Event, _ *FactPayload) { e.Type = engine.Commented }},
		"a no":                        {edit: func(_ *engine.Event, p *FactPayload) { p.Fact.Yes, p.Fact.Denial = false, Never }},
		"another edition":             {edit: func(_ *engine.Event, p *FactPayload) { p.Fact.Edition++ }},
		"another time":                {edit: func(_ *engine.Event, p *FactPayload) { p.Fact.At = at.Add(-time.Second) }},
		"another number":              {edit: func(_ *engine.Event, p *FactPayload) { p.Fact.Seq++ }},
		"another comment":             {edit: func(_ *engine.Event, p *FactPayload) { p.Fact.CommentDigest = "sha256:0" }},
		"in another's place":          {edit: func(_ *engine.Event, p *FactPayload) { p.InPlaceOf = []string{"usr_ben"} }},
		"with a proof":                {edit: func(_ *engine.Event, p *FactPayload) { p.Proof = &Proof{Method: "passkey", At: at} }},
		"another hash":                {edit: func(_ *engine.Event, p *FactPayload) { p.Mac = "n.2" }},
		"of another call":             {edit: func(e *engine.Event, _ *FactPayload) { e.ApprovalID = "apr_2" }},
		"a refusal":                   {edit: func(e *engine.Event, _ *FactPayload) { e.Outcome = engine.Deny }},
		"what cannot be read":         {edit: func(_ *engine.Event, p *FactPayload) { p.Fact = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			e, p := engine.Event{Type: engine.Voted, ApprovalID: "apr_1", Outcome: engine.RequireApproval, Actor: vote.Actor}, vote.Payload()
			if test.edit != nil {
				test.edit(&e, &p)
			}
			var err error
			if e.SafePayload, err = json.Marshal(p); err != nil {
				t.Fatal(err)
			}
			events := []engine.Event{opening, e}
			if test.unkeyed {
				events = events[1:]
			}
			a := Approval{ID: "apr_1", Facts: []Fact{vote}}
			a.HoldAgainst(events, test.authentic)
			if counts := len(a.Facts) == 1; counts != test.counts || len(a.Facts)+len(a.Unlogged) != 1 {
				t.Errorf("it counts: %v; %+v", counts, a.Unlogged)
			}
			ended := Approval{ID: "apr_1", Facts: []Fact{vote}, Final: &Final{}}
			ended.HoldAgainst(events, test.authentic)
			if len(ended.Facts) != 1 {
				t.Error("what has ended lost a fact")
			}
		})
	}
}
