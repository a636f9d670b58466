package audit

import (
	"fmt"
	"runtime"
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
		"people in all":     slices.Repeat([]engine.Requirement{review("reviewer", approval.MaxNeeded)}, 30),
		"requirements":      slices.Repeat([]engine.Requirement{review("reviewer", 1)}, 5000),
		"time":              {{Kind: engine.Review, Role: "reviewer", Needed: 1, Within: 1 << 62}},
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

// TestLargestPlanIsReplayed: the most that any approval can ask for is computed again.
func TestLargestPlanIsReplayed(t *testing.T) {
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

// TestUnreportedCallsTakeLittleMemory: whoever replays keeps little of a call that has run and of
// which nobody says what became of it.
func TestUnreportedCallsTakeLittleMemory(t *testing.T) {
	r := &Replay{}
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the first leaves what pools hold
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const calls = 100_000
	before := inUse()
	for i := range calls {
		// Texts of their own, as each line that is read has.
		e := engine.Event{
			Type: engine.Settled, Outcome: engine.Approved, ApprovalID: fmt.Sprintf("apr_%020d", i), AgentID: strings.Clone("billing-bot"), ToolName: strings.Clone("send_money"),
			DigestHMAC: fmt.Sprintf("%064d", i),
		}
		if err := r.Event(e); err != nil {
			t.Fatal(err)
		}
		e.Type, e.Outcome = engine.Redeemed, engine.Allow
		if err := r.Event(e); err != nil {
			t.Fatal(err)
		}
	}
	if got := (inUse() - before) / calls; got > 120 {
		t.Errorf("%d bytes are kept for each call, of which the list of what is over takes its part", got)
	}
	e := engine.Event{Type: engine.Executed, Outcome: engine.Allow, ApprovalID: fmt.Sprintf("apr_%020d", 7), AgentID: "billing-bot", ToolName: "send_money", DigestHMAC: fmt.Sprintf("%064d", 8)}
	if err := r.Event(e); err == nil || !strings.Contains(err.Error(), "another call") {
		t.Errorf("got %v of another call's report", err)
	}
	e.DigestHMAC = fmt.Sprintf("%064d", 7)
	if err := r.Event(e); err != nil {
		t.Error(err)
	}
	if err := r.Event(e); err == nil || !strings.Contains(err.Error(), "was reported before") {
		t.Errorf("got %v of a second report", err)
	}
	runtime.KeepAlive(r)
}

// TestLinesBeyondTheCheckpoint: lines that go on and on cost nothing once they are more than the
// checkpoint has events.
func TestLinesBeyondTheCheckpoint(t *testing.T) {
	w := newWorld(t, 6)
	w.live(3)
	l := newLog(t, "log.example.com", w.events)
	for name, lines := range map[string][][]byte{"whole": l.whole(), "part": l.export(Filter{}, func(Record) bool { return true })} {
		for what, more := range map[string][]byte{"an event": lines[1], "nothing": []byte("\n"), "no event": []byte("{}\n")} {
			v := l.verifier()
			for _, line := range lines[:len(lines)-1] {
				v.Line([]byte(strings.TrimSuffix(string(line), "\n")))
			}
			if v.Over() {
				t.Fatalf("%s: it is over before its end", name)
			}
			for range 3 {
				v.Line([]byte(strings.TrimSuffix(string(more), "\n")))
			}
			if r := v.Done(); !v.Over() || r.Problems[0].Line != int64(len(lines)) || !strings.Contains(r.Problems[len(r.Problems)-1].What, "there are more events than") {
				t.Errorf("%s, %s: found %v", name, what, r.Problems)
			}
		}
	}
}

// TestOneLine: nothing in an export can look like what verify says itself.
func TestOneLine(t *testing.T) {
	w := newWorld(t, 7)
	w.live(2)
	for i := range w.events {
		w.events[i].ApprovalID = "apr_1\nok   all is well"
	}
	w.events[1].ID = "1\r\nok   all is well"
	l := newLog(t, "log.example.com", w.events)
	lines := l.whole()
	lines[2] = []byte(strings.Replace(string(lines[2]), `"v`, `"w`, 1))
	r := verify(l.verifier(), lines)
	if len(r.Problems) < 2 {
		t.Fatalf("found %v", r.Problems)
	}
	for _, p := range r.Problems {
		if strings.ContainsAny(p.Error(), "\r\n") {
			t.Errorf("%q is more than a line", p.Error())
		}
	}
}
