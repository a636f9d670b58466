package peers

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"holdpoint/engine/policy"
)

// background is the context of every decision: none is ever given up.
var background = context.Background()

// decider is an engine with its rules.
type decider interface {
	// read is a call in JSON as a program has it.
	read(body []byte) (any, error)
	// prepare makes the engine's own values of what was read.
	prepare(read any) (any, error)
	// decide is the id of the first rule that matches, or "".
	decide(prepared any) (string, error)
}

// peer is what all peers have: the rules, and how a call gets to them.
type peer struct {
	rules    []rule
	searches bool // a rule has a keyword
}

func newPeer(rules []rule) peer {
	return peer{rules, slices.ContainsFunc(rules, func(r rule) bool { return r.word != "" })}
}

// read is the standard library's.
func (peer) read(body []byte) (any, error) {
	var c call
	return &c, json.Unmarshal(body, &c)
}

// text is the input that keywords are searched in.
func (p peer) text(c *call) string {
	if !p.searches {
		return ""
	}
	return c.text()
}

// engines is all that are compared, ours first.
var engines = []struct {
	name string
	load func(tb testing.TB, rules []rule) decider
}{
	{"holdpoint", newHoldpoint},
	{"OPA, chain of else", newOPAChain},
	{"OPA, least of a set", newOPASet},
	{"cedar-go", newCedar},
	{"cel-go", newCEL},
}

// prepared is the call as the engine decides it.
func prepared(tb testing.TB, d decider, body []byte) any {
	tb.Helper()
	read, err := d.read(body)
	if err != nil {
		tb.Fatal(err)
	}
	prepared, err := d.prepare(read)
	if err != nil {
		tb.Fatal(err)
	}
	return prepared
}

func decide(tb testing.TB, d decider, body []byte) string {
	tb.Helper()
	id, err := d.decide(prepared(tb, d, body))
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// TestSameDecisions holds every engine against the plain meaning of the rules.
func TestSameDecisions(t *testing.T) {
	const sets, calls, n = 4, 200, 100
	decided, none := map[string]bool{}, 0
	for set := range uint64(sets) {
		rules := mixed(set, n)
		outcomes := map[string]string{"": "DENY"}
		for i := range rules {
			outcomes[rules[i].id] = rules[i].outcome()
		}
		var loaded []decider
		for _, e := range engines {
			loaded = append(loaded, e.load(t, rules))
		}
		for i := range uint64(calls) {
			body := random(set*calls+i, n/5).json(t)
			c, err := peer{}.read(body)
			if err != nil {
				t.Fatal(err)
			}
			want := first(rules, c.(*call))
			for k, e := range engines {
				if got := decide(t, loaded[k], body); got != want {
					t.Errorf("%s, rules %d: got rule %q, want %q, for %s", e.name, set, got, want, body)
				}
			}
			if got := loaded[0].(holdpoint).bundle.Decide(prepared(t, loaded[0], body).(*policy.Request), now).Outcome; string(got) != outcomes[want] {
				t.Errorf("rules %d: got %s, want %s, for %s", set, got, outcomes[want], body)
			}
			if decided[want] = true; want == "" {
				none++
			}
		}
	}
	// Calls that all end alike would show nothing.
	if len(decided) < n/2 || none < calls/10 || none > sets*calls/2 {
		t.Errorf("%d rules decided, and %d of %d calls met none", len(decided), none, sets*calls)
	}
	t.Logf("%d different rules decided; %d of %d calls met none", len(decided), none, sets*calls)
}

// TestShapes sees to it that what is measured is what it says.
func TestShapes(t *testing.T) {
	for _, s := range shapes() {
		for _, e := range engines {
			if got := decide(t, e.load(t, s.rules), kilobyte(s.tool).json(t)); got != s.want {
				t.Errorf("%s, %s: got rule %q, want %q", s.name, e.name, got, s.want)
			}
		}
	}
}
