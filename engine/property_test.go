package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine"
)

func drawCheckResult(t *rapid.T, name string) engine.CheckResult {
	var o engine.CheckResult
	for i := range rapid.IntRange(0, 3).Draw(t, name+" findings") {
		o.Findings = append(o.Findings, engine.Finding{
			Source: name, Code: fmt.Sprint(i), Route: engine.Route(rapid.IntRange(0, 3).Draw(t, "route")), // #nosec G115 -- four routes
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, name+" requirements") {
		kind := rapid.SampledFrom(engine.Kinds()).Draw(t, "kind")
		o.Requirements = append(o.Requirements, engine.Requirement{Kind: kind, Needed: rapid.IntRange(1, 3).Draw(t, "needed")})
	}
	if rapid.Bool().Draw(t, "constrains") {
		o.Constraints = []byte(rapid.SampledFrom([]string{`{"a":1}`, `{"b":2}`}).Draw(t, "constraints"))
	}
	return o
}

func checks(opinions []engine.CheckResult) []engine.Check {
	list := make([]engine.Check, len(opinions))
	for i, o := range opinions {
		list[i] = func(engine.Call) engine.CheckResult { return o }
	}
	return list
}

// discharges is the strictest route that what a decision asks for can discharge.
func discharges(d engine.Decision) (route engine.Route) {
	for _, r := range d.Requirements {
		route = route.Stricter(r.Kind.Traits().Discharges)
	}
	return route
}

// Whatever one more check says, and however it is added, the decision never gets
// looser, nothing that was found is lost, and what waits can be discharged.
func TestMergingOnlyTightens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var opinions []engine.CheckResult
		for i := range rapid.IntRange(1, 4).Draw(t, "checks") {
			opinions = append(opinions, drawCheckResult(t, fmt.Sprint("check", i)))
		}
		more := drawCheckResult(t, "more")
		before := engine.Evaluate(engine.Call{}, "", checks(opinions)...)
		for how, after := range map[string]engine.Decision{
			"as a check":         engine.Evaluate(engine.Call{}, "", checks(append(append([]engine.CheckResult{}, opinions...), more))...),
			"as the first check": engine.Evaluate(engine.Call{}, "", checks(append([]engine.CheckResult{more}, opinions...))...),
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
			if discharge := discharges(after); discharge < after.Route {
				t.Fatalf("%s: %s, and nothing discharges it: %+v", how, after.Route, after.Requirements)
			}
			// One requirement may be as much as those of two checks, never as two of one.
			asking := append(slices.Clone(opinions), more)
			if how == "afterwards" && !before.Route.Waits() {
				asking = asking[len(opinions):] // what was decided without people asks for none of them
			}
			for _, o := range asking {
				if unmet := engine.Unmet(after.Requirements, engine.Decision{Requirements: o.Requirements}); len(unmet) > 0 {
					t.Fatalf("%s: %+v asks for nothing of %+v", how, after.Requirements, unmet)
				}
			}
			if after.Outcome.Route() < after.Route && after.Outcome != engine.RequireStepUp && after.Outcome != engine.RequireTicket {
				t.Fatalf("%s: outcome %s of a call that goes to %s", how, after.Outcome, after.Route)
			}
		}
	})
}

// drawRequirement makes a requirement with any of the terms that can be stricter.
func drawRequirement(t *rapid.T) engine.Requirement {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	people := func() int { return rapid.IntRange(1, 3).Draw(t, "needed") }
	r := engine.Requirement{
		Kind: rapid.SampledFrom(engine.Kinds()).Draw(t, "kind"),
		Role: pick("role", "", "a", "b"), Needed: people(),
	}
	switch r.Kind.Traits().Discharger {
	case engine.Requester:
		r.Form = []byte(pick("form", "", `{"properties":{"a":{}}}`, `{"properties":{"b":{}}}`))
	case engine.Tracker:
		if rapid.Bool().Draw(t, "terms") {
			list := func(what string) []string {
				return rapid.SampledFrom([][]string{nil, {"x"}, {"y"}, {"X", "z"}}).Draw(t, what)
			}
			r.Ticket = &engine.TicketTerms{
				System: pick("system", "", "jira", "linear"), Projects: list("projects"), States: list("states"),
				MaxAge: engine.Duration(rapid.IntRange(0, 2).Draw(t, "age")),
			}
		}
	case engine.Reviewers:
		r.Deny = rapid.IntRange(0, 3).Draw(t, "deny")
		if rapid.Bool().Draw(t, "any of") {
			r.Role, r.Needed, r.AnyOf = "", 1, []engine.Group{{Role: "a", Needed: people()}, {Role: "b", Needed: people()}}
		}
	default:
	}
	return r
}

func drawWaiting(t *rapid.T, name string) engine.Decision {
	o := engine.CheckResult{Findings: []engine.Finding{{Source: name, Route: engine.Ask}}}
	for range rapid.IntRange(1, 3).Draw(t, name) {
		o.Requirements = append(o.Requirements, drawRequirement(t))
	}
	return engine.Evaluate(engine.Call{}, name, func(engine.Call) engine.CheckResult { return o })
}

// The stricter of two decisions asks for all that either does: to satisfy it is to
// satisfy both. Asked again, it asks for nothing more.
func TestStricterAsksForBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, again := drawWaiting(t, "before"), drawWaiting(t, "again")
		got := before.Stricter(again)
		for name, d := range map[string]engine.Decision{"what was asked": before, "what is asked now": again} {
			if left := engine.Unmet(got.Requirements, d); len(left) > 0 {
				t.Fatalf("%s is not asked any more: %+v\nof %+v", name, left, got.Requirements)
			}
		}
		if left := engine.Undischarged(got.Findings, got.Requirements, again); len(left) > 0 {
			t.Fatalf("nothing of %+v discharges %+v", got.Requirements, left)
		}
		if twice := got.Stricter(again); len(twice.Requirements) != len(got.Requirements) {
			t.Fatalf("from %+v to %+v", got.Requirements, twice.Requirements)
		}
	})
}

// A second requirement of the same people asks for them a second time: it does
// not become one with what already stands for another.
func TestStricterKeepsTwoApart(t *testing.T) {
	one := engine.Requirement{Kind: engine.Review, Role: "a", Needed: 1}
	d := engine.Decision{Requirements: []engine.Requirement{one}}
	again := engine.Decision{Requirements: []engine.Requirement{one, one}}
	again.Findings = []engine.Finding{{Source: "s", Route: engine.Ask}}
	got := d.Stricter(again)
	if len(got.Requirements) != 2 || len(engine.Unmet(got.Requirements, again)) > 0 {
		t.Errorf("got %+v, want two", got.Requirements)
	}
}

// What has to be supplied is asked for also where a review is needed besides.
func TestPreviewKeepsForms(t *testing.T) {
	d := engine.Decision{Route: engine.Ask, Requirements: []engine.Requirement{
		{Kind: engine.Answer, Needed: 1}, {Kind: engine.Answer, Needed: 1, Form: []byte(`{}`)},
	}}
	got := d.Preview(engine.Decision{Findings: []engine.Finding{{Source: "s", Code: "c", Route: engine.Defer}}})
	if len(got.Requirements) != 2 || string(got.Requirements[0].Form) != "{}" || got.Requirements[1].Kind != engine.Review {
		t.Errorf("got %+v, want the form and a review", got.Requirements)
	}
}
