package engine

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func finding(code string, r Route) Finding { return Finding{Source: "test", Code: code, Route: r} }

func says(findings ...Finding) Check {
	return func(Call) CheckResult { return CheckResult{Findings: findings} }
}

func TestEvaluate(t *testing.T) {
	review := Requirement{Kind: Review, Role: "a", Needed: 2}
	ticket := Requirement{Kind: Ticket, Needed: 1}
	for _, tc := range []struct {
		name   string
		checks []Check
		route  Route
		out    Outcome
		kinds  []Kind
	}{
		{"nobody judges", nil, Refuse, Deny, nil},
		{"all is well", []Check{says(finding("ok", Accept))}, Accept, Allow, nil},
		{"the strictest wins", []Check{says(finding("a", Refuse)), says(finding("b", Accept), finding("c", Ask))}, Refuse, Deny, nil},
		{"requirements add up in order of kind", []Check{
			func(Call) CheckResult {
				return CheckResult{Findings: []Finding{finding("a", Defer)}, Requirements: []Requirement{review}}
			},
			func(Call) CheckResult {
				return CheckResult{Findings: []Finding{finding("b", Ask)}, Requirements: []Requirement{ticket}}
			},
		}, Defer, RequireApproval, []Kind{Ticket, Review}},
		{"waiting for nothing becomes a review", []Check{says(finding("a", Ask))}, Ask, RequireApproval, []Kind{Review}},
		{"too weak a requirement gets a review", []Check{func(Call) CheckResult {
			return CheckResult{Findings: []Finding{finding("a", Defer)}, Requirements: []Requirement{ticket}}
		}}, Defer, RequireApproval, []Kind{Ticket, Review}},
		{"a panic is a refusal", []Check{says(finding("ok", Accept)), func(Call) CheckResult { panic("secret") }}, Refuse, Deny, nil},
		{"two sets of constraints", []Check{
			func(Call) CheckResult { return CheckResult{Constraints: json.RawMessage(`{"a":1}`)} },
			func(Call) CheckResult { return CheckResult{Constraints: json.RawMessage(`{"a":2}`)} },
		}, Refuse, Deny, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Evaluate(Call{}, "sha256:p", tc.checks...)
			if got.Route != tc.route || got.Outcome != tc.out || got.PolicyDigest != "sha256:p" {
				t.Errorf("got %s %s, want %s %s", got.Route, got.Outcome, tc.route, tc.out)
			}
			var kinds []Kind
			for _, r := range got.Requirements {
				kinds = append(kinds, r.Kind)
			}
			if len(kinds) != len(tc.kinds) {
				t.Fatalf("requires %v, want %v", kinds, tc.kinds)
			}
			for i := range kinds {
				if kinds[i] != tc.kinds[i] {
					t.Errorf("requires %v, want %v", kinds, tc.kinds)
				}
			}
		})
	}
}

// Adding a check never loosens a decision, and order never changes its route.
func TestMoreChecksAreNeverLooser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		route := rapid.SampledFrom([]Route{Accept, Ask, Defer, Refuse})
		var checks []Check
		for range rapid.IntRange(1, 5).Draw(t, "checks") {
			checks = append(checks, says(finding(rapid.StringMatching(`[a-c]`).Draw(t, "code"), route.Draw(t, "route"))))
		}
		all := Evaluate(Call{}, "", checks...)
		fewer := Evaluate(Call{}, "", checks[:len(checks)-1]...)
		if len(checks) > 1 && all.Route < fewer.Route {
			t.Fatalf("one more check loosens %s to %s", fewer.Route, all.Route)
		}
		if got := Evaluate(Call{}, "", rapid.Permutation(checks).Draw(t, "order")...); got.Route != all.Route {
			t.Fatalf("another order turns %s into %s", all.Route, got.Route)
		}
		if all.Route.Waits() == (len(all.Requirements) == 0) {
			t.Fatalf("%s requires %v", all.Route, all.Requirements)
		}
	})
}

func TestUndischarged(t *testing.T) {
	review, answer := []Requirement{{Kind: Review}}, []Requirement{{Kind: Answer}}
	shown := []Finding{finding("stale", Defer), finding("confirm", Ask)}
	for _, tc := range []struct {
		name string
		reqs []Requirement
		now  []Finding
		left int
	}{
		{"accept", review, []Finding{finding("ok", Accept)}, 0},
		{"what was shown", review, []Finding{finding("stale", Defer), finding("confirm", Ask)}, 0},
		{"something new", review, []Finding{finding("other", Ask)}, 1},
		{"something stricter", review, []Finding{finding("confirm", Defer)}, 1},
		{"the same code of another source", review, []Finding{{Source: "other", Code: "stale", Route: Defer}}, 1},
		{"an answer cannot discharge a deferral", answer, []Finding{finding("stale", Defer)}, 1},
		{"an answer discharges a question", answer, []Finding{finding("confirm", Ask)}, 0},
		{"nothing discharges a refusal", review, []Finding{finding("leak", Refuse)}, 1},
		{"no requirement discharges nothing", nil, []Finding{finding("confirm", Ask)}, 1},
	} {
		if got := Undischarged(append(shown, finding("leak", Refuse)), tc.reqs, Decision{Findings: tc.now}); len(got) != tc.left {
			t.Errorf("%s: %v is left, want %d findings", tc.name, got, tc.left)
		}
	}
}

// After Preview, the previewed re-check always passes, unless it refuses.
func TestPreviewedRechecksPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) Decision {
			var findings []Finding
			for range rapid.IntRange(0, 4).Draw(t, label) {
				findings = append(findings, finding(rapid.StringMatching(`[a-d]`).Draw(t, "code"), rapid.SampledFrom([]Route{Accept, Ask, Ask, Defer, Refuse}).Draw(t, "route")))
			}
			return Evaluate(Call{}, "", says(findings...), func(Call) CheckResult { return CheckResult{Requirements: []Requirement{{Kind: Answer, Needed: 1}}} })
		}
		first, again := draw("first"), draw("again")
		if !first.Route.Waits() {
			return
		}
		d := first.Preview(again)
		if d.Route < first.Route {
			t.Fatalf("foresight loosens %s to %s", first.Route, d.Route)
		}
		if left := Undischarged(d.Findings, d.Requirements, again); (len(left) > 0) != (d.Route == Refuse) {
			t.Fatalf("%s, and %v is left", d.Route, left)
		}
	})
}

func TestRoutesReadBack(t *testing.T) {
	for r := Accept; r <= Refuse; r++ {
		got, err := ParseRoute(r.String())
		if err != nil || got != r {
			t.Errorf("ParseRoute(%q) = %v, %v", r, got, err)
		}
	}
	if _, err := Route(9).MarshalText(); err == nil {
		t.Error("a route that there is not was written")
	}
	if r, err := ParseRoute("Accept"); err == nil || r != Refuse {
		t.Errorf("ParseRoute(Accept) = %v, %v; want refuse and an error", r, err)
	}
}

// TestAddToPayload: what is added stands beside what was there, which stays as it is written.
func TestAddToPayload(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":9007199254740993,"z":1.50}`: `{"a":9007199254740993,"n":["x"],"z":1.50}`,
		`null`:                            `{"n":["x"]}`,
		`{"n":1}`:                         `{"n":["x"]}`,
	} {
		e := Event{SafePayload: []byte(text)}
		if err := e.AddToPayload("n", []string{"x"}); err != nil || string(e.SafePayload) != want {
			t.Errorf("%s: %s, %v, want %s", text, e.SafePayload, err, want)
		}
	}
	if err := (&Event{SafePayload: []byte(`[]`)}).AddToPayload("n", 1); err == nil {
		t.Error("a payload that is no object takes a member")
	}
}
