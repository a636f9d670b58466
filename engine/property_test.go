package engine_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine"
)

func drawOpinion(t *rapid.T, name string) engine.Opinion {
	var o engine.Opinion
	for i := range rapid.IntRange(0, 3).Draw(t, name+" findings") {
		o.Findings = append(o.Findings, engine.Finding{
			Source: name, Code: fmt.Sprint(i), Route: engine.Route(rapid.IntRange(0, 3).Draw(t, "route")), // #nosec G115 -- four routes
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, name+" requirements") {
		kind := rapid.SampledFrom([]engine.Kind{engine.Answer, engine.StepUp, engine.Ticket, engine.Review, engine.Human}).Draw(t, "kind")
		o.Requirements = append(o.Requirements, engine.Requirement{Kind: kind, Needed: rapid.IntRange(1, 3).Draw(t, "needed")})
	}
	if rapid.Bool().Draw(t, "constrains") {
		o.Constraints = []byte(rapid.SampledFrom([]string{`{"a":1}`, `{"b":2}`}).Draw(t, "constraints"))
	}
	return o
}

func checks(opinions []engine.Opinion) []engine.Check {
	list := make([]engine.Check, len(opinions))
	for i, o := range opinions {
		list[i] = func(engine.Call) engine.Opinion { return o }
	}
	return list
}

// strength orders what can happen to a call: what it takes to let it run.
func strength(d engine.Decision) (discharge engine.Route, needed int) {
	for _, r := range d.Requirements {
		discharge = discharge.Stricter(r.Kind.Discharges())
		needed += r.Needed
	}
	return discharge, needed
}

// Whatever one more check says, and however it is added, the decision never gets
// looser, nothing that was found is lost, and what waits can be discharged.
func TestMergingOnlyTightens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var opinions []engine.Opinion
		for i := range rapid.IntRange(1, 4).Draw(t, "checks") {
			opinions = append(opinions, drawOpinion(t, fmt.Sprint("check", i)))
		}
		more := drawOpinion(t, "more")
		before := engine.Evaluate(engine.Call{}, "", checks(opinions)...)
		for how, after := range map[string]engine.Decision{
			"as a check":         engine.Evaluate(engine.Call{}, "", checks(append(append([]engine.Opinion{}, opinions...), more))...),
			"as the first check": engine.Evaluate(engine.Call{}, "", checks(append([]engine.Opinion{more}, opinions...))...),
			"afterwards":         before.Tighten(more),
		} {
			if after.Route < before.Route {
				t.Fatalf("%s: from %s to %s", how, before.Route, after.Route)
			}
			if len(after.Findings) < len(before.Findings)+len(more.Findings) {
				t.Fatalf("%s: findings were lost", how)
			}
			if !after.Route.Waits() {
				if len(after.Requirements) > 0 {
					t.Fatalf("%s: %s with requirements", how, after.Route)
				}
				continue
			}
			discharge, needed := strength(after)
			if discharge < after.Route {
				t.Fatalf("%s: %s, and nothing discharges it: %+v", how, after.Route, after.Requirements)
			}
			if _, formerly := strength(before); before.Route.Waits() && needed < formerly {
				t.Fatalf("%s: fewer people than before: %d, %d", how, needed, formerly)
			}
			if after.Outcome.Route() < after.Route && after.Outcome != engine.RequireStepUp && after.Outcome != engine.RequireTicket {
				t.Fatalf("%s: outcome %s of a call that goes to %s", how, after.Outcome, after.Route)
			}
		}
	})
}
