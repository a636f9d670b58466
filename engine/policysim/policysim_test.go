package policysim_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
	"holdpoint/engine/policy"
	"holdpoint/engine/policysim"
	"holdpoint/internal/golden"
)

func TestVerdictOf(t *testing.T) {
	for want, d := range map[string]policy.Decision{
		"DENY (default): ":                  {Outcome: engine.Deny},
		`ALLOW (a): constraints {"max":1}`:  {Outcome: engine.Allow, Rule: "a", Constraints: []byte(`{"max":1}`)},
		"REQUIRE_APPROVAL (a): review by 1": {Outcome: engine.RequireApproval, Rule: "a"},
		"REQUIRE_HUMAN (a): human by 2 × r within 1h0m0s; expires in 4h0m0s": {
			Outcome: engine.RequireHuman, Rule: "a", ApproverRole: "r",
			Approval: &policy.Approval{Quorum: 2, Within: hours(1), ExpiresIn: hours(4)},
		},
		"REQUIRE_APPROVAL (a): review by 1 × r, after 2h0m0s also s; review by 2 × q, after 2h0m0s also s": {
			Outcome: engine.RequireApproval, Rule: "a", Approval: &policy.Approval{
				Groups:     []policy.Group{{Role: "r", Needed: 1}, {Role: "q", Needed: 2}},
				Escalation: []policy.Escalation{{After: hours(2), Role: "s"}},
			},
		},
		`REQUIRE_HUMAN (a): answer with {"properties":{"x":{}}} in the hours of office, reminded after 1h0m0s, 2h0m0s; human by 1 × r or 2 × q in the hours of office, denied by 2, reminded after 1h0m0s, 2h0m0s, suggested to ada@example.com`: {
			Outcome: engine.RequireHuman, Rule: "a", Approval: &policy.Approval{
				AnyOf: []policy.Group{{Role: "r", Needed: 1}, {Role: "q", Needed: 2}}, Deny: 2, Calendar: "office",
				Reminders: []engine.Duration{hours(1), hours(2)}, Suggest: []string{"ada@example.com"}, Ask: []byte(`{"properties":{"x":{}}}`),
			},
		},
		"REQUIRE_TICKET (a): ticket × r, of jira, in PAY or FIN, that is Approved, not older than 720h0m0s": {
			Outcome: engine.RequireTicket, Rule: "a", ApproverRole: "r", Approval: &policy.Approval{
				Ticket: &engine.TicketTerms{System: "jira", Projects: []string{"PAY", "FIN"}, States: []string{"Approved"}, MaxAge: hours(720)},
			},
		},
		"REQUIRE_TICKET (a): ticket × r":    {Outcome: engine.RequireTicket, Rule: "a", ApproverRole: "r"},
		"STEP_UP (a): step_up; review by 2": {Outcome: engine.RequireStepUp, Rule: "a", Approval: &policy.Approval{Quorum: 2}},
	} {
		if v := policysim.VerdictOf(d); v.String()+": "+v.Terms != want {
			t.Errorf("got  %s: %s\nwant %s", v, v.Terms, want)
		}
	}
}

func hours(n int) engine.Duration { return engine.Duration(time.Duration(n) * time.Hour) }

func verdict(o engine.Outcome, rule, terms string) policysim.Verdict {
	return policysim.Verdict{Outcome: o, Rule: rule, Terms: terms}
}

func TestCompare(t *testing.T) {
	two, one := verdict(engine.RequireApproval, "large", "review by 2"), verdict(engine.RequireApproval, "large", "review by 1")
	allow, deny, ticket := verdict(engine.Allow, "small", ""), verdict(engine.Deny, "", ""), verdict(engine.RequireTicket, "t", "ticket")
	denied := &policysim.Denial{By: "usr_1", Name: "Ada Archer", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Kind: "never"}
	nameless := &policysim.Denial{By: "usr_2", At: denied.At}
	next := 0
	c := func(old *policysim.Verdict, now policysim.Verdict, d *policysim.Denial, then, route engine.Route) policysim.Case {
		next++
		return policysim.Case{ID: fmt.Sprint("apr_", next), Tool: "pay", Old: old, New: now, Denial: d, Then: then, Now: route}
	}
	none := verdict("", "", "")
	reviewed := c(&two, ticket, denied, engine.Defer, engine.Ask)
	reviewed.Reviewed = true
	cases := []policysim.Case{
		c(&two, two, denied, engine.Defer, engine.Defer),    // 2: as before
		c(&two, one, denied, engine.Defer, engine.Defer),    // 3: still asks
		c(&two, allow, denied, engine.Defer, engine.Accept), // 4: passes
		c(&two, allow, denied, engine.Defer, engine.Ask),    // 5: something else asks, nobody reviews
		c(&two, allow, denied, engine.Defer, engine.Defer),  // 6: something else has it reviewed
		c(&two, allow, nil, engine.Defer, engine.Accept),
		c(&two, deny, nil, engine.Defer, engine.Refuse),
		c(&none, deny, nil, engine.Ask, engine.Refuse),
		c(nil, two, nil, engine.Defer, engine.Defer),
		c(&two, ticket, nameless, engine.Defer, engine.Ask),
		c(&ticket, ticket, denied, engine.Ask, engine.Ask), // nothing new
		reviewed,
	}
	r := policysim.Compare(cases, []string{"apr_5", "apr_99"})
	if r.Calls != 12 || r.Same != 2 || r.Open() != 2 {
		t.Errorf("calls %d, same %d, open %d", r.Calls, r.Same, r.Open())
	}
	golden.Equal(t, "testdata/report.txt", r.Text())
}

// Every case is counted once, and every past denial that is let through is named.
func TestCompareCounts(t *testing.T) {
	outcomes := []engine.Outcome{"", engine.Allow, engine.Deny, engine.RequireApproval, engine.RequireTicket}
	routes := []engine.Route{engine.Accept, engine.Ask, engine.Defer, engine.Refuse}
	rapid.Check(t, func(t *rapid.T) {
		var cases []policysim.Case
		passing := 0
		for i := range rapid.IntRange(0, 30).Draw(t, "n") {
			c := policysim.Case{
				ID: fmt.Sprint(i), Tool: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tool"),
				New:  policysim.Verdict{Outcome: rapid.SampledFrom(outcomes).Draw(t, "new")},
				Then: rapid.SampledFrom(routes).Draw(t, "then"), Now: rapid.SampledFrom(routes).Draw(t, "now"),
			}
			if rapid.Bool().Draw(t, "compared") {
				c.Old = &policysim.Verdict{Outcome: rapid.SampledFrom(outcomes).Draw(t, "old")}
			}
			if rapid.Bool().Draw(t, "denied") {
				c.Denial = &policysim.Denial{By: "usr_1"}
				if c.Now == engine.Accept && c.Then > c.Now || c.Now == engine.Ask && c.Then > c.Now {
					passing++
				}
			}
			cases = append(cases, c)
		}
		r := policysim.Compare(cases, nil)
		sum := r.Same
		for _, c := range r.Changes {
			sum += c.Count
			if len(c.Examples) == 0 || len(c.Examples) > c.Count {
				t.Fatalf("%+v", c)
			}
		}
		if sum != len(cases) || len(r.Passing) != passing || r.Open() != passing {
			t.Fatalf("%d of %d counted; %d of %d denials named", sum, len(cases), len(r.Passing), passing)
		}
	})
}
