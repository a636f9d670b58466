package audit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// TestAsksForTooMuch: what an event asks for costs whoever verifies neither memory
// nor time, however much it is.
func TestAsksForTooMuch(t *testing.T) {
	one := engine.Group{Role: "reviewer", Needed: 1}
	for name, asks := range map[string][]engine.Requirement{
		"people":            {review("reviewer", 1<<40)},
		"people of a group": {{Kind: engine.Review, Needed: 1, AnyOf: []engine.Group{one, {Role: "reviewer", Needed: 1 << 40}}}},
		"requirements":      slices.Repeat([]engine.Requirement{review("reviewer", 1)}, 5000),
		"groups":            {{Kind: engine.Review, Needed: 1, AnyOf: slices.Repeat([]engine.Group{one}, 5000)}},
	} {
		for _, first := range []bool{true, false} {
			w := newWorld(t, 4)
			w.edited()
			for i := range w.events {
				if kind := w.events[i].Type; kind == engine.Edited || kind == engine.Settled || first && kind == engine.Decided {
					w.events[i].Requirements = asks
				}
			}
			l := newLog(t, "log.example.com", w.events)
			r := verify(l.verifier(), l.whole())
			if len(r.Problems) == 0 || !strings.Contains(r.Problems[0].Error(), "more than any approval can") {
				t.Errorf("%s, from the beginning %v: found %v", name, first, r.Problems)
			}
		}
	}
}

// TestMostThatIsAsked: the most that any approval can ask for is computed again.
func TestMostThatIsAsked(t *testing.T) {
	w := newWorld(t, 5)
	w.people["usr_one"] = approval.Voter{Identity: "one@example.com", Roles: []string{"reviewer"}, Active: true}
	a := w.ask("pay", time.Hour, approval.Terms{}, slices.Repeat([]engine.Requirement{review("reviewer", approval.MaxNeeded)}, approval.MaxNeeded)...)
	w.say(a, yes("usr_one"))
	w.say(a, no("usr_ben"))
	w.settle(a, "")
	l := newLog(t, "log.example.com", w.events)
	if r := mustBeWell(t, verify(l.verifier(), l.whole())); r.Approvals.Ended != 1 {
		t.Errorf("%d approvals were computed again", r.Approvals.Ended)
	}
}
