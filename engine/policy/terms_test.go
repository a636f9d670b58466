package policy_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/policy"
)

// known are the calendars of these tests.
func known(name string) bool { return name == "office" }

// Every mistake in the terms of an approval has a code, and the place of what is
// wrong.
func TestTermErrors(t *testing.T) {
	for _, tt := range []struct{ name, more, code, says, at string }{
		{"groups and any_of", `, "outcome": "REQUIRE_HUMAN", "approval": {"groups": [{"role":"r","needed":1}], "any_of": [{"role":"q","needed":1},{"role":"r","needed":1}]}`, "approval_contradiction", `in any_of alone`, `[{"role":"q"`},
		{"any_of and quorum", `, "outcome": "REQUIRE_HUMAN", "approval": {"quorum": 2, "any_of": [{"role":"q","needed":1},{"role":"r","needed":1}]}`, "approval_contradiction", `in any_of alone`, `[{"role":"q"`},
		{"any_of and role", `, "approver_role": "s", "outcome": "REQUIRE_HUMAN", "approval": {"any_of": [{"role":"q","needed":1},{"role":"r","needed":1}]}`, "approval_contradiction", `in any_of alone`, `[{"role":"q"`},
		{"any_of one", `, "outcome": "REQUIRE_HUMAN", "approval": {"any_of": [{"role":"q","needed":1}]}`, "approval_groups", `2 to 20 groups (one group is an approver_role and a quorum)`, `[{"role":"q"`},
		{"any_of of the same", `, "outcome": "REQUIRE_HUMAN", "approval": {"any_of": [{"role":"q","needed":1},{"role":"q","needed":2}]}`, "approval_groups", `would always be enough`, `"q","needed":2`},
		{"any_of misspelt", `, "outcome": "REQUIRE_HUMAN", "approval": {"any_of": [{"role":"q","need":1, "needed":1},{"role":"r","needed":2}]}`, "unknown_approval_field", `did you mean "needed"?`, `"need"`},
		{"deny", `, "outcome": "REQUIRE_HUMAN", "approval": {"deny": 0}`, "approval_people", `approval.deny has to be a whole number from 1 to 20`, `0}`},
		{"signed by nobody", `, "outcome": "STEP_UP", "approval": {"signed": true}`, "approval_contradiction", `asks for none (add a quorum`, `true}`},
		{"signed is no text", `, "outcome": "REQUIRE_APPROVAL", "approval": {"signed": "yes"}`, "type", `approval.signed has to be a boolean`, `"yes"}`},
		{"deny by nobody", `, "outcome": "STEP_UP", "approval": {"deny": 2}`, "approval_contradiction", `asks for none (add a quorum`, `2}`},
		{"suggest nobody", `, "outcome": "REQUIRE_TICKET", "approval": {"suggest": ["ada@example.com"]}`, "approval_contradiction", `approval.suggest is about people`, `["ada`},
		{"reminders no array", `, "outcome": "REQUIRE_HUMAN", "approval": {"reminders": "30m"}`, "approval_list", `1 to 20 durations`, `"30m"`},
		{"no reminders", `, "outcome": "REQUIRE_HUMAN", "approval": {"reminders": []}`, "approval_list", `1 to 20 durations`, `[]`},
		{"reminder", `, "outcome": "REQUIRE_HUMAN", "approval": {"reminders": ["30m", "soon"]}`, "approval_duration", `approval.reminders[1]`, `"soon"`},
		{"reminders out of order", `, "outcome": "REQUIRE_HUMAN", "approval": {"reminders": ["30m", "20m"]}`, "approval_times", `in order of time`, `"20m"`},
		{"reminder too late", `, "outcome": "REQUIRE_HUMAN", "approval": {"expires_in": "2h", "reminders": ["30m", "2h"]}`, "approval_times", `before approval.expires_in`, `"2h"]`},
		{"reminder after within", `, "outcome": "REQUIRE_HUMAN", "approval": {"within": "1h", "expires_in": "2h", "reminders": ["30m", "90m"]}`, "approval_times", `before approval.within`, `"90m"`},
		{"calendar", `, "outcome": "REQUIRE_HUMAN", "approval": {"calendar": "moon"}`, "unknown_calendar", `routing.calendars`, `"moon"`},
		{"no calendar", `, "outcome": "REQUIRE_HUMAN", "approval": {"calendar": ""}`, "empty", `approval.calendar must not be empty`, `""`},
		{"calendar no text", `, "outcome": "REQUIRE_HUMAN", "approval": {"calendar": 5}`, "type", `put it in quotes`, `5}`},
		{"suggest a name", `, "outcome": "REQUIRE_HUMAN", "approval": {"suggest": ["Ada <ada@example.com>"]}`, "approval_suggest", `is not an e-mail address`, `"Ada`},
		{"suggest twice", `, "outcome": "REQUIRE_HUMAN", "approval": {"suggest": ["ada@example.com", "Ada@example.com"]}`, "approval_suggest", `is there twice`, `"Ada`},
		{"ticket without one", `, "outcome": "REQUIRE_HUMAN", "approval": {"ticket": {"system": "jira"}}`, "approval_contradiction", `REQUIRE_HUMAN asks for none (use REQUIRE_TICKET`, `{"system"`},
		{"empty ticket", `, "outcome": "REQUIRE_TICKET", "approval": {"ticket": {}}`, "empty", `must not be empty`, `{}}`},
		{"ticket misspelt", `, "outcome": "REQUIRE_TICKET", "approval": {"ticket": {"state": ["Done"]}}`, "unknown_approval_field", `did you mean "states"?`, `"state"`},
		{"ticket states", `, "outcome": "REQUIRE_TICKET", "approval": {"ticket": {"states": "Done"}}`, "approval_list", `1 to 20 names`, `"Done"`},
		{"ticket project twice", `, "outcome": "REQUIRE_TICKET", "approval": {"ticket": {"projects": ["PAY", "pay"]}}`, "approval_list", `there twice`, `"pay"`},
		{"ticket age", `, "outcome": "REQUIRE_TICKET", "approval": {"ticket": {"max_age": "30d"}}`, "approval_duration", `not a duration`, `"30d"`},
		{"ask no object", `, "outcome": "STEP_UP", "approval": {"ask": []}`, "type", `approval.ask has to be an object`, `[]`},
		{"ask of a text", `, "outcome": "STEP_UP", "approval": {"ask": {"type": "string"}}`, "approval_ask", `not the schema of an object`, `{"type"`},
		{"ask for nothing", `, "outcome": "STEP_UP", "approval": {"ask": {"type": "object"}}`, "approval_ask", `asks for nothing`, `{"type"`},
		{"ask from elsewhere", `, "outcome": "STEP_UP", "approval": {"ask": {"type": "object", "properties": {"a": {"$ref": "https://example.com/s"}}}}`, "approval_ask", `leads out of the schema`, `{"type"`},
		{"ask an ALLOW", `, "outcome": "ALLOW", "approval": {"ask": {"properties": {"a": {}}}}`, "approval_without_wait", `waits for nobody`, `{"ask"`},
	} {
		text := bundleOf(ruleOf("a", "", "", tt.more))
		line := strings.Split(text, "\n")[4]
		want := fmt.Sprintf("5:%d %s a", strings.LastIndex(line, tt.at)+1, tt.code)
		b, problems := policy.Load([]byte(text), policy.Options{File: "p.json", Now: now, Calendars: known})
		if b != nil || len(problems) != 1 {
			t.Errorf("%s: got %v, want one problem", tt.name, problems)
			continue
		}
		p := problems[0]
		if got := fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Code, p.Rule); got != want || !strings.Contains(p.String(), tt.says) {
			t.Errorf("%s: got %s: %s, want %s and %q", tt.name, got, p, want, tt.says)
		}
	}
}

// What the terms say is what the decision asks for, in the order of discharge.
func TestTermsBecomeRequirements(t *testing.T) {
	const times = `"within":"4h","calendar":"office","reminders":["30m","2h"]`
	hours := func(n float64) engine.Duration { return engine.Duration(n * float64(time.Hour)) }
	timed := func(r engine.Requirement) engine.Requirement {
		r.Within, r.Calendar, r.Reminders = hours(4), "office", []engine.Duration{hours(0.5), hours(2)}
		return r
	}
	ask := []byte(`{"properties":{"reason":{"type":"string"}},"required":["reason"],"type":"object"}`)
	answer := timed(engine.Requirement{Kind: engine.Answer, Needed: 1, Form: ask})
	escalation := []engine.Escalation{{After: hours(1), Role: "lead"}}
	for name, tt := range map[string]struct {
		more string
		want []engine.Requirement
	}{
		"any of": {
			`"outcome":"REQUIRE_HUMAN","approval":{"any_of":[{"role":"a","needed":1},{"role":"b","needed":2}],"deny":2,"suggest":["ada@example.com"],"escalation":[{"after":"1h","role":"lead"}],"ask":` + string(ask) + `,` + times + `}`,
			[]engine.Requirement{answer, timed(engine.Requirement{
				Kind: engine.Human, Needed: 1, AnyOf: []engine.Group{{Role: "a", Needed: 1}, {Role: "b", Needed: 2}}, Deny: 2,
				Suggested: []string{"ada@example.com"}, Escalation: escalation,
			})},
		},
		"all of": {
			`"outcome":"REQUIRE_APPROVAL","approval":{"groups":[{"role":"a","needed":1},{"role":"b","needed":2}],"deny":2,` + times + `}`,
			[]engine.Requirement{
				timed(engine.Requirement{Kind: engine.Review, Role: "a", Needed: 1, Deny: 2}), timed(engine.Requirement{Kind: engine.Review, Role: "b", Needed: 2, Deny: 2}),
			},
		},
		"a ticket and people": {
			`"outcome":"REQUIRE_TICKET","approver_role":"a","approval":{"quorum":2,"deny":1,"ticket":{"system":"jira","projects":["PAY"],"states":["Approved","Done"],"max_age":"720h"},"ask":` + string(ask) + `,` + times + `}`,
			[]engine.Requirement{
				answer,
				timed(engine.Requirement{Kind: engine.Ticket, Role: "a", Needed: 1, Ticket: &engine.TicketTerms{
					System: "jira", Projects: []string{"PAY"}, States: []string{"Approved", "Done"}, MaxAge: hours(720),
				}}),
				timed(engine.Requirement{Kind: engine.Review, Role: "a", Needed: 2, Deny: 1}),
			},
		},
		"a proof alone": {
			`"outcome":"STEP_UP","approval":{"ask":` + string(ask) + `,` + times + `}`,
			[]engine.Requirement{answer, timed(engine.Requirement{Kind: engine.StepUp, Needed: 1})},
		},
		"nothing": {`"outcome":"REQUIRE_APPROVAL","approver_role":"a"`, []engine.Requirement{{Kind: engine.Review, Role: "a", Needed: 1}}},
		"no wait": {`"outcome":"DENY"`, nil},
	} {
		b, problems := policy.Load([]byte(bundleOf(ruleOf("r", "", "", ", "+strings.Replace(tt.more, `"outcome":`, `"outcome": `, 1)))), policy.Options{Now: now, Calendars: known})
		if b == nil {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		d := b.Decide(&policy.Request{Tool: "x", Environment: "e"}, now)
		got := d.Requirements()
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got  %+v\nwant %+v", name, got, tt.want)
		}
		if !slices.IsSortedFunc(got, func(a, b engine.Requirement) int { return a.Kind.Order() - b.Kind.Order() }) {
			t.Errorf("%s: not in the order of discharge: %+v", name, got)
		}
		// Nobody can change the bundle by what it gives away.
		for i := range got {
			for _, list := range [][]string{got[i].Suggested, names(got[i].Ticket)} {
				for j := range list {
					list[j] = "changed"
				}
			}
			for j := range got[i].Reminders {
				got[i].Reminders[j] = 0
			}
			if len(got[i].Form) > 0 {
				got[i].Form[0] = 'x'
			}
		}
		if again := b.Decide(&policy.Request{Tool: "x", Environment: "e"}, now).Requirements(); !reflect.DeepEqual(again, tt.want) {
			t.Errorf("%s: the bundle was changed: %+v", name, again)
		}
	}
}

func names(t *engine.TicketTerms) []string {
	if t == nil {
		return nil
	}
	return t.Projects
}

// One group of any_of has to be reachable, and as many noes as it takes.
func TestTermsUnreachable(t *testing.T) {
	people := func(role string) []string {
		return map[string][]string{"": {"ada", "ben", "cleo"}, "finance": {"ada"}, "legal": {"ben", "cleo"}, "law": {"ada", "ben"}}[role]
	}
	const anyOf = `, "outcome": "REQUIRE_APPROVAL", "approval": {"any_of": [{"role": "finance", "needed": %d}, {"role": "legal", "needed": %d}]%s}`
	for _, tt := range []struct{ name, more, code, says string }{
		{"both", fmt.Sprintf(anyOf, 1, 2, ""), "", ""},
		{"one", fmt.Sprintf(anyOf, 2, 2, ""), "group_unreachable", `needs 2 people with the role "finance", and there are 1`},
		{"none", fmt.Sprintf(anyOf, 2, 3, ""), "quorum_unreachable", `1 of 2 people with the role "finance", 2 of 3 people with the role "legal"`},
		{"noes of all groups", fmt.Sprintf(anyOf, 1, 1, `, "deny": 3`), "", ""},
		{"too many noes", fmt.Sprintf(anyOf, 1, 1, `, "deny": 4`), "quorum_unreachable", "4 have to say no to deny it, and there are 3"},
		{"noes of anybody", `, "outcome": "REQUIRE_HUMAN", "approval": {"deny": 4}`, "quorum_unreachable", "there are 3 who could"},
		{"noes of a role", `, "outcome": "REQUIRE_HUMAN", "approver_role": "finance", "approval": {"deny": 2}`, "quorum_unreachable", "there are 1 who could"},
		{"noes of each group", `, "outcome": "REQUIRE_HUMAN", "approval": {"groups": [{"role": "legal", "needed": 1}, {"role": "finance", "needed": 1}], "deny": 2}`, "quorum_unreachable", "there are 1 who could"},
		{"noes beside a ticket", `, "outcome": "REQUIRE_TICKET", "approver_role": "law", "approval": {"quorum": 1, "deny": 2}`, "", ""},
	} {
		b, problems := policy.Load([]byte(bundleOf(ruleOf("a", "", "", tt.more))), policy.Options{Now: now, Reviewers: people})
		if tt.code == "" {
			if len(problems) > 0 {
				t.Errorf("%s: got %v, want no problem", tt.name, problems)
			}
			continue
		}
		if len(problems) != 1 || problems[0].Code != tt.code || !strings.Contains(problems[0].Message, tt.says) || (b != nil) != problems[0].Warning {
			t.Errorf("%s: got %v, want %s: %q", tt.name, problems, tt.code, tt.says)
		}
		if problems[0].Column < 100 {
			t.Errorf("%s: it is at column %d, which is not in the approval", tt.name, problems[0].Column)
		}
	}
}

// A bundle that is read where the settings are not known takes any calendar.
func TestCalendarsAreLookedUpWhereTheyAreKnown(t *testing.T) {
	text := []byte(bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_HUMAN", "approval": {"calendar": "moon"}`)))
	if b, problems := policy.Load(text, policy.Options{}); b == nil || b.Roles() != nil {
		t.Errorf("got %v", problems)
	}
	if b, _ := policy.Load(text, policy.Options{Calendars: known}); b != nil {
		t.Error("a calendar that is not there was accepted")
	}
}

func TestRolesOfAnyOf(t *testing.T) {
	b := load(t, bundleOf(ruleOf("a", "", "", `, "outcome": "REQUIRE_HUMAN", "approval": {"any_of": [{"role":"q","needed":1},{"role":"b","needed":1}], "escalation": [{"after": "1h", "role": "c"}]}`)))
	if got, want := b.Roles(), []string{"b", "c", "q"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
