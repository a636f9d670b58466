package engine_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
)

func drawRequired(t *rapid.T, routed bool) engine.Requirement {
	r := engine.Requirement{
		Kind:   rapid.SampledFrom(engine.Kinds()).Draw(t, "kind"),
		Role:   rapid.SampledFrom([]string{"a", "b"}).Draw(t, "role"),
		Needed: rapid.IntRange(1, 3).Draw(t, "needed"), Deny: rapid.IntRange(0, 3).Draw(t, "deny"),
		Within:   engine.Duration(time.Duration(rapid.IntRange(0, 3).Draw(t, "within")) * time.Hour),
		Calendar: rapid.SampledFrom([]string{"", "", "office", "night"}).Draw(t, "calendar"),
	}
	if !routed && rapid.Bool().Draw(t, "anybody") {
		r.Role = ""
	}
	if rapid.IntRange(0, 4).Draw(t, "groups") == 0 {
		r.Role, r.AnyOf = "", []engine.Group{{Role: "a", Needed: 1}, {Role: "b", Needed: rapid.IntRange(1, 2).Draw(t, "of")}}
	}
	switch r.Kind.Traits().Discharger {
	case engine.Tracker:
		r.Ticket = rapid.SampledFrom([]*engine.TicketTerms{nil, {}, {System: "jira"}, {Projects: []string{"OPS"}}}).Draw(t, "ticket")
	case engine.Requester:
		r.Form = rapid.SampledFrom([]json.RawMessage{nil, nil, json.RawMessage(`{"a":1}`), json.RawMessage(`{"b":1}`)}).Draw(t, "form")
	default:
	}
	return r
}

// drawDecision is one that waits, or accepts where it may.
func drawDecision(t *rapid.T, name string, routed bool) engine.Decision {
	o := engine.CheckResult{ExpiresIn: engine.Duration(time.Duration(rapid.IntRange(0, 3).Draw(t, "expires")) * time.Hour)}
	for range rapid.IntRange(0, 4).Draw(t, name+" findings") {
		o.Findings = append(o.Findings, engine.Finding{
			Source: "check", Code: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "code")), Route: engine.Route(rapid.IntRange(0, 2).Draw(t, "route")), // #nosec G115 -- three routes
		})
	}
	if routed {
		o.Findings = append(o.Findings, engine.Finding{Source: "check", Code: "waits", Route: engine.Ask})
	}
	for range rapid.IntRange(0, 4).Draw(t, name+" requirements") {
		o.Requirements = append(o.Requirements, drawRequired(t, routed))
	}
	return engine.Evaluate(engine.Call{}, name, func(engine.Call) engine.CheckResult { return o })
}

// as is a decision of which only the requirements matter.
func as(requirements []engine.Requirement) engine.Decision {
	return engine.Decision{Requirements: requirements}
}

// TestStricterNeverLoosens: what both asked for is asked for, and once that was
// given the re-check finds nothing left.
func TestStricterNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, again := drawDecision(t, "before", true), drawDecision(t, "again", rapid.Bool().Draw(t, "routed"))
		formerly := slices.Clone(d.Requirements)
		got := d.Stricter(again)
		if !reflect.DeepEqual(formerly, d.Requirements) {
			t.Fatal("the former decision was changed")
		}
		if left := engine.Unmet(got.Requirements, as(d.Requirements)); len(left) > 0 {
			t.Fatalf("no longer required: %+v of %+v", left, got.Requirements)
		}
		if left := engine.Unmet(got.Requirements, again); len(left) > 0 {
			t.Fatalf("still not required: %+v of %+v", left, got.Requirements)
		}
		if left := engine.Undischarged(got.Findings, got.Requirements, again); len(left) > 0 {
			t.Fatalf("still not discharged: %+v", left)
		}
		for _, f := range append(slices.Clone(d.Findings), again.Findings...) {
			if f.Route > engine.Accept && !slices.Contains(got.Findings, f) && !slices.ContainsFunc(got.Findings, func(s engine.Finding) bool {
				return s.Code == f.Code && s.Route > f.Route
			}) {
				t.Fatalf("%+v is lost", f)
			}
		}
		if got.Route < d.Route || got.Route < again.Route || d.ExpiresIn > 0 && got.ExpiresIn > d.ExpiresIn || again.ExpiresIn > 0 && got.ExpiresIn > again.ExpiresIn {
			t.Fatalf("%s within %v, of %s and %s within %v and %v", got.Route, got.ExpiresIn, d.Route, again.Route, d.ExpiresIn, again.ExpiresIn)
		}
		if twice := got.Stricter(again); !reflect.DeepEqual(twice, got) {
			t.Fatalf("a second time\n%+v became\n%+v", got, twice)
		}
		if same := d.Stricter(d); !reflect.DeepEqual(same.Requirements, d.Requirements) {
			t.Fatalf("with itself\n%+v became\n%+v", d.Requirements, same.Requirements)
		}
	})
}

func TestStricter(t *testing.T) {
	review := func(role string, needed, deny int) engine.Requirement {
		return engine.Requirement{Kind: engine.Review, Role: role, Needed: needed, Deny: deny}
	}
	ticket := func(system string) engine.Requirement {
		return engine.Requirement{Kind: engine.Ticket, Needed: 1, Ticket: &engine.TicketTerms{System: system}}
	}
	within := func(r engine.Requirement, hours int, calendar string) engine.Requirement {
		r.Within, r.Calendar = engine.Duration(time.Duration(hours)*time.Hour), calendar
		return r
	}
	human := review("a", 1, 0)
	human.Kind = engine.Human
	type list = []engine.Requirement
	for _, tc := range []struct {
		name               string
		have, again, unmet list
		want               list
	}{
		{"the same", list{review("a", 2, 0)}, list{review("a", 2, 0)}, nil, list{review("a", 2, 0)}},
		{"more people", list{review("a", 1, 0)}, list{review("a", 2, 0)}, list{review("a", 2, 0)}, list{review("a", 2, 0)}},
		{"more people, of any role", list{review("a", 1, 0)}, list{review("", 2, 0)}, list{review("", 2, 0)}, list{review("a", 2, 0)}},
		{"other people", list{review("a", 1, 0)}, list{review("b", 1, 0)}, list{review("b", 1, 0)}, list{review("a", 1, 0), review("b", 1, 0)}},
		{"each stands for one", list{review("a", 1, 0)}, list{review("a", 1, 0), review("a", 2, 0)}, list{review("a", 2, 0)}, list{review("a", 1, 0), review("a", 2, 0)}},
		{"in another order", list{review("a", 2, 0), review("a", 1, 0)}, list{review("a", 1, 0), review("a", 2, 0)}, nil, list{review("a", 2, 0), review("a", 1, 0)}},
		{"a person instead of a review", list{review("a", 2, 0)}, list{human}, list{human}, list{{Kind: engine.Human, Role: "a", Needed: 2}}},
		{"noes that only routing speaks of", list{review("a", 1, 3)}, list{review("a", 1, 0)}, nil, list{review("a", 1, 3)}},
		{"fewer noes", list{review("a", 1, 3)}, list{review("a", 1, 2)}, list{review("a", 1, 2)}, list{review("a", 1, 2)}},
		{"another ticket", list{ticket("jira")}, list{ticket("servicenow")}, list{ticket("servicenow")}, list{ticket("jira"), ticket("servicenow")}},
		{"sooner by the same hours", list{within(review("a", 1, 0), 8, "x")}, list{within(review("a", 2, 0), 4, "x")}, list{within(review("a", 2, 0), 4, "x")}, list{within(review("a", 2, 0), 4, "x")}},
		{"by other hours", list{within(review("a", 1, 0), 8, "x")}, list{within(review("a", 2, 0), 4, "y")}, list{within(review("a", 2, 0), 4, "y")}, list{within(review("a", 2, 0), 8, "x")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := engine.Unmet(tc.have, as(tc.again)); !reflect.DeepEqual(got, tc.unmet) {
				t.Errorf("unmet %+v, want %+v", got, tc.unmet)
			}
			d := engine.Decision{Route: engine.Ask, Requirements: tc.have}
			if got := d.Stricter(as(tc.again)).Requirements; !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestCombined(t *testing.T) {
	review := func(role string, needed int) engine.Requirement {
		return engine.Requirement{Kind: engine.Review, Role: role, Needed: needed}
	}
	answer := engine.Requirement{Kind: engine.Answer, Needed: 1}
	for name, tt := range map[string]struct{ a, b, want []engine.Requirement }{
		"nothing":                {nil, nil, nil},
		"one side only":          {nil, []engine.Requirement{answer}, []engine.Requirement{answer}},
		"anybody and finance":    {[]engine.Requirement{review("", 1)}, []engine.Requirement{review("finance", 2)}, []engine.Requirement{review("finance", 2)}},
		"finance and anybody":    {[]engine.Requirement{review("finance", 2)}, []engine.Requirement{review("", 1)}, []engine.Requirement{review("finance", 2)}},
		"more of the same":       {[]engine.Requirement{review("finance", 1)}, []engine.Requirement{review("finance", 2)}, []engine.Requirement{review("finance", 2)}},
		"two different groups":   {[]engine.Requirement{review("finance", 1)}, []engine.Requirement{review("security", 1)}, []engine.Requirement{review("finance", 1), review("security", 1)}},
		"two places stay two":    {[]engine.Requirement{review("finance", 2)}, []engine.Requirement{review("", 1), review("", 1)}, []engine.Requirement{review("finance", 2), review("", 1)}},
		"an answer and a review": {[]engine.Requirement{answer}, []engine.Requirement{review("finance", 1)}, []engine.Requirement{answer, review("finance", 1)}},
		"two answers":            {[]engine.Requirement{answer}, []engine.Requirement{answer}, []engine.Requirement{answer}},
		"the same answers twice": {[]engine.Requirement{answer}, []engine.Requirement{answer, answer}, []engine.Requirement{answer, answer}},
		"one grows, one stays":   {[]engine.Requirement{review("finance", 1), review("security", 1)}, []engine.Requirement{review("finance", 2)}, []engine.Requirement{review("security", 1), review("finance", 2)}},
	} {
		if got := engine.Combined(tt.a, tt.b); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}
