package approval

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/calendar"
)

func plan(reqs ...engine.Requirement) Plan {
	return Plan{OpenedAt: start, ExpiresAt: start.Add(time.Minute), Requirements: reqs, Excluded: []string{"owner"}}
}

func review(needed int) engine.Requirement {
	return engine.Requirement{Kind: engine.Review, Role: "a", Needed: needed}
}

func yes(seq int64, who string, at time.Duration) Fact {
	proof := &Proof{Method: "totp", At: start.Add(at)}
	return Fact{Seq: seq, At: start.Add(at), Kind: Vote, Yes: true, Actor: engine.Actor{Kind: engine.HumanActor, ID: who}, Voter: people[who], Details: Details{Proof: proof}}
}

func no(seq int64, who string, at time.Duration) Fact {
	f := yes(seq, who, at)
	f.Yes, f.Denial = false, Never
	return f
}

func TestAdvance(t *testing.T) {
	disabled := yes(1, "ada", time.Second)
	disabled.Voter.Active = false
	for _, tc := range []struct {
		name  string
		plan  Plan
		facts []Fact
		at    time.Duration
		want  Status
		given int
	}{
		{"nothing yet", plan(review(1)), nil, time.Second, Pending, 0},
		{"one of one", plan(review(1)), []Fact{yes(1, "ada", time.Second)}, 2 * time.Second, Approved, 1},
		{"one of two", plan(review(2)), []Fact{yes(1, "ada", time.Second)}, 2 * time.Second, Pending, 1},
		{"two accounts of one human being", plan(review(2)), []Fact{yes(1, "ada", 1), yes(2, "ada-two", 2)}, time.Second, Pending, 1},
		{"two people", plan(review(2)), []Fact{yes(1, "ada", 1), yes(2, "ben", 2)}, time.Second, Approved, 2},
		{"somebody without the role", plan(review(1)), []Fact{yes(1, "cleo", 1)}, time.Second, Pending, 0},
		{"the requesting side", plan(review(1)), []Fact{yes(1, "owner", 1)}, time.Second, Pending, 0},
		{"disabled between vote and quorum", plan(review(2)), []Fact{disabled, yes(2, "ben", 2)}, 3 * time.Second, Pending, 1},
		{"one no ends it", plan(review(2)), []Fact{yes(1, "ada", 1), no(2, "ben", 2), yes(3, "dina", 3)}, time.Second, Denied, 1},
		{"a no after the quorum comes too late", plan(review(1)), []Fact{yes(1, "ada", 1), no(2, "ben", 2)}, time.Second, Approved, 1},
		{"complete before the deadline, looked at after it", plan(review(1)), []Fact{yes(1, "ada", time.Minute-1)}, time.Hour, Approved, 1},
		{"a vote at the deadline", plan(review(1)), []Fact{yes(1, "ada", time.Minute)}, time.Hour, Expired, 0},
		{"at the deadline", plan(review(1)), nil, time.Minute, Expired, 0},
		{"just before the deadline", plan(review(1)), nil, time.Minute - 1, Pending, 0},
		{"nothing is asked for", plan(), nil, 0, Denied, 0},
		{"a ticket has no fact yet that satisfies it", plan(engine.Requirement{Kind: engine.Ticket, Role: "a", Needed: 1}), []Fact{yes(1, "ada", 1)}, time.Second, Pending, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Advance(tc.plan, tc.facts, start.Add(tc.at))
			if got.Status != tc.want || given(got) != tc.given {
				t.Errorf("got %s with %d places filled, want %s with %d", got.Status, given(got), tc.want, tc.given)
			}
		})
	}
}

// A stage's own deadline runs from its turn, and never past the overall one.
func TestStagesHaveTheirOwnDeadlines(t *testing.T) {
	first, second := review(1), engine.Requirement{Kind: engine.Human, Role: "b", Needed: 1, Within: engine.Duration(20 * time.Second)}
	first.Within = engine.Duration(30 * time.Second)
	p := plan(first, second)
	if got, want := Advance(p, nil, start).Wake, start.Add(30*time.Second); !got.Equal(want) {
		t.Errorf("the first stage wakes at %s, want %s", got, want)
	}
	s := Advance(p, []Fact{yes(1, "ada", 10*time.Second)}, start.Add(11*time.Second))
	if want := start.Add(30 * time.Second); s.Stage != 1 || !s.Wake.Equal(want) {
		t.Errorf("stage %d wakes at %s, want stage 1 at %s", s.Stage, s.Wake, want)
	}
	p.Requirements[1].Within = engine.Duration(time.Hour)
	if got := Advance(p, []Fact{yes(1, "ada", 10*time.Second)}, start.Add(11*time.Second)).Wake; !got.Equal(p.ExpiresAt) {
		t.Errorf("wakes at %s, want the overall deadline %s", got, p.ExpiresAt)
	}
	if got := Advance(p, []Fact{yes(1, "ada", 31*time.Second)}, start.Add(40*time.Second)); got.Status != Expired || got.Stage != 0 {
		t.Errorf("got %s in stage %d, want expired in stage 0", got.Status, got.Stage)
	}
}

func TestAdmitSaysWhyNot(t *testing.T) {
	p := plan(review(2))
	machine := yes(9, "ada", 1)
	machine.Actor.Kind = engine.ServiceActor
	reply := Fact{Seq: 9, Kind: Reply, Yes: true, Actor: engine.Actor{Kind: engine.ServiceActor}}
	agent := reply
	agent.Actor.Kind = engine.AgentActor
	ask := plan(engine.Requirement{Kind: engine.Answer, Role: "a", Needed: 1})
	for _, tc := range []struct {
		name  string
		plan  Plan
		facts []Fact
		fact  Fact
		at    time.Duration
		want  error
	}{
		{"fine", p, nil, yes(1, "ada", 1), 1, nil},
		{"twice", p, []Fact{yes(1, "ada", 1)}, yes(2, "ada", 2), 2, ErrAlreadyVoted},
		{"twice, by another account", p, []Fact{yes(1, "ada", 1)}, yes(2, "ada-two", 2), 2, ErrAlreadyVoted},
		{"yes and then no", p, []Fact{yes(1, "ada", 1)}, no(2, "ada", 2), 2, nil},
		{"requesting side", p, nil, yes(1, "owner", 1), 1, ErrSelfReview},
		{"requesting side says no", p, nil, no(1, "owner", 1), 1, ErrSelfReview},
		{"no role", p, nil, yes(1, "cleo", 1), 1, ErrNotEligible},
		{"disabled", p, nil, yes(1, "disabled", 1), 1, ErrNotEligible},
		{"a key", p, nil, machine, 1, ErrMachine},
		{"decided", p, []Fact{no(1, "ada", 1)}, yes(2, "ben", 2), 2, ErrDecided},
		{"too late", p, nil, yes(1, "ada", time.Minute), time.Minute, ErrExpired},
		{"nothing was asked", p, nil, reply, 1, ErrNothingToAnswer},
		{"asked, and the runtime answers", ask, nil, reply, 1, nil},
		{"asked, and the agent answers itself", ask, nil, agent, 1, ErrMachine},
		{"cancelled", p, []Fact{{Seq: 1, At: start, Kind: Cancel}}, reply, 1, ErrDecided},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Admit(tc.plan, tc.facts, tc.fact, start.Add(tc.at)); !errors.Is(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// Whoever it escalates to may decide from that moment on, and not before it.
func TestEscalation(t *testing.T) {
	after := engine.Duration(10 * time.Second)
	first := review(1)
	first.Escalation = []engine.Escalation{{After: after, Role: "c"}}
	p := plan(first, engine.Requirement{Kind: engine.Human, Role: "b", Needed: 1, Escalation: []engine.Escalation{{After: after, Role: "c"}}})
	if got := Advance(p, nil, start.Add(time.Second)); !got.Wake.Equal(start.Add(10*time.Second)) || !got.Deadline.Equal(start.Add(time.Minute)) || got.Requirements[0].Escalated != nil {
		t.Errorf("before it escalates: %+v", got)
	}
	if got := Advance(p, nil, start.Add(10*time.Second)); !got.Wake.Equal(got.Deadline) || len(got.Requirements[0].Escalated) != 1 {
		t.Errorf("once it has escalated: %+v", got)
	}
	if err := Admit(p, nil, yes(1, "chief", 9*time.Second), start.Add(9*time.Second)); !errors.Is(err, ErrNotEligible) {
		t.Errorf("too early: %v", err)
	}
	if err := Admit(p, nil, no(1, "chief", 9*time.Second), start.Add(9*time.Second)); !errors.Is(err, ErrNotEligible) {
		t.Errorf("a no too early: %v", err)
	}
	facts := []Fact{yes(1, "chief", 10*time.Second)}
	if err := Admit(p, nil, facts[0], facts[0].At); err != nil {
		t.Errorf("in time: %v", err)
	}
	// The second stage's time begins with its turn, and nobody speaks twice.
	if got := Advance(p, facts, start.Add(11*time.Second)); got.Stage != 1 || !got.Wake.Equal(start.Add(20*time.Second)) {
		t.Errorf("the second stage: %+v", got)
	}
	if err := Admit(p, facts, yes(2, "chief", 30*time.Second), start.Add(30*time.Second)); !errors.Is(err, ErrAlreadyVoted) {
		t.Errorf("one voice for two stages: %v", err)
	}
	if got := Advance(p, append(facts, yes(2, "ben", 12*time.Second)), start.Add(13*time.Second)); got.Status != Approved {
		t.Errorf("both stages: %+v", got)
	}
}

func TestRouting(t *testing.T) {
	hour := engine.Duration(time.Hour)
	r := Routing{
		Rules:   []Rule{{Tool: "root_*", Role: "security", Needed: 2, ExpiresIn: hour}, {RiskDomain: "finance", Role: "finance", Needed: 1, ExpiresIn: hour, Within: engine.Duration(time.Minute)}},
		Default: Rule{Role: "reviewer", Needed: 1, ExpiresIn: hour},
	}
	if errs := r.Check(); errs != nil {
		t.Fatal(errs)
	}
	for tool, want := range map[string]string{"root_rotate": "security", "root_": "security", "Root_x": "security", " ROOT_x ": "security", "root": "finance"} {
		if got := r.For(engine.Call{Tool: tool, RiskDomain: "finance"}).Role; got != want {
			t.Errorf("%s goes to %s, want %s", tool, got, want)
		}
	}
	if got := r.For(engine.Call{Tool: "x"}).Role; got != "reviewer" {
		t.Errorf("everything else goes to %s", got)
	}
	asks := []engine.Requirement{{Kind: engine.Human}, {Kind: engine.Answer}}
	if reqs := r.Rules[0].Apply(asks); reqs[0].Kind != engine.Review || reqs[0].Needed != 2 || reqs[1].Needed != 2 || reqs[1].Role != "security" {
		t.Errorf("two people: %+v", reqs)
	}
	if reqs := r.Default.Apply(asks); reqs[0].Kind != engine.Answer || reqs[0].Needed != 1 || reqs[1].Kind != engine.Human {
		t.Errorf("one person: %+v", reqs)
	}
}

func TestRoutingMistakesAreNamed(t *testing.T) {
	hour := engine.Duration(time.Hour)
	r := Routing{
		Rules:   []Rule{{Role: " ", Needed: 0, ExpiresIn: 0}, {Role: "a", Needed: MaxNeeded + 1, ExpiresIn: hour, Within: 2 * hour}},
		Default: Rule{Tool: "x", Role: "a", Needed: 1, ExpiresIn: engine.Duration(MaxExpiresIn) + 1},
	}
	r.Rules = append(r.Rules, Rule{
		Role: "a", Needed: 1, ExpiresIn: 4 * hour, Within: 2 * hour, Deny: MaxNeeded + 1, Calendar: "moon", PauseFor: -1,
		Reminders: []engine.Duration{hour, hour, 2 * hour}, Suggested: []string{"ada@example.com", "Ada <ada@example.com>"}, Extenders: []string{"admin", ""},
		Escalation: []engine.Escalation{{After: hour, Role: "b"}, {After: 2 * hour}, {After: 5 * hour, Role: "b"}},
	})
	r.Calendars = map[string]calendar.Calendar{"": {TimeZone: "UTC", Hours: map[string][]string{"mon": {"09:00-17:00"}}}, "sun": {TimeZone: "Sun"}}
	var text strings.Builder
	for _, err := range r.Check() {
		text.WriteString(err.Error() + "\n")
	}
	for _, want := range []string{
		"rules[0].role", "rules[0].needed", "rules[0].expires_in", "rules[1].needed", "rules[1].within", "default:", "default.expires_in",
		"rules[2].deny", "rules[2].calendar", "rules[2].pause_for", "rules[2].reminders[1]", "rules[2].reminders[2]", "rules[2].suggested[1]", "rules[2].extenders[1]",
		"rules[2].escalation[1]", "rules[2].escalation[2]", "calendars: a calendar has a name", "calendars.sun.time_zone", "calendars.sun.hours",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s is not named in:\n%s", want, text.String())
		}
	}
}

// What happens to voters after the end does not change how it ended.
func TestAnEndedApprovalStaysAsItWas(t *testing.T) {
	a := Approval{Plan: plan(review(1)), Facts: []Fact{yes(1, "ada", 1)}}
	a.ComputeState(start.Add(time.Second))
	final := a.State.Final()
	a.Status, a.Final = Approved, &final
	a.Facts[0].Voter.Active = false
	a.ComputeState(start.Add(time.Hour))
	if a.State.Status != Approved || a.State.Requirements[0].Given != 1 || a.State.Decisive == nil || a.State.Decisive.Seq != 1 {
		t.Errorf("got %+v", a.State)
	}
}

// What a rule wants of one role it wants of whichever group agrees, and the
// policy's own list stays as it is.
func TestApplyWantsAsManyOfEveryGroup(t *testing.T) {
	asked := []engine.Requirement{{Kind: engine.Review, Needed: 1, AnyOf: []engine.Group{{Role: "a", Needed: 1}, {Role: "b", Needed: 3}}}}
	got := Rule{Role: "c", Needed: 2}.Apply(asked)
	if want := []engine.Group{{Role: "a", Needed: 2}, {Role: "b", Needed: 3}}; !slices.Equal(got[0].AnyOf, want) || got[0].Role != "" {
		t.Errorf("got %+v, want groups %+v and no role", got[0], want)
	}
	if asked[0].AnyOf[0].Needed != 1 {
		t.Error("the argument was changed")
	}
	if left := engine.Unmet(got, engine.Decision{Requirements: asked}); len(left) > 0 {
		t.Errorf("%+v is not enough for %+v", got, left)
	}
}
