package approval

import (
	"errors"
	"slices"
	"testing"
	"time"

	"holdpoint/engine"
)

const hour = engine.Duration(time.Hour)

// long is a plan that waits for a day.
func long(reqs ...engine.Requirement) Plan {
	p := plan(reqs...)
	p.ExpiresAt = start.Add(24 * time.Hour)
	return p
}

// by is a fact of a person of the cast.
func by(seq int64, kind FactKind, who string, at time.Duration) Fact {
	f := yes(seq, who, at)
	f.Kind, f.Comment = kind, "because"
	return f
}

// through is a yes of who, who stands in for others.
func through(seq int64, who string, at time.Duration, via ...string) Fact {
	f := yes(seq, who, at)
	for _, other := range via {
		f.Voter.Via = append(f.Voter.Via, people[other])
	}
	return f
}

func system(seq int64, kind FactKind, at time.Duration) Fact {
	return Fact{Seq: seq, At: start.Add(at), Kind: kind, Actor: engine.Actor{Kind: engine.SystemActor, ID: "system"}}
}

// try admits facts one after the other, each with the error that is wanted, and
// returns where they lead.
func try(t *testing.T, p Plan, facts []Fact, wants ...error) State {
	t.Helper()
	var admitted []Fact
	for i, f := range facts {
		f.Edition = p.Edition
		var want error
		if i < len(wants) {
			want = wants[i]
		}
		err := Admit(p, admitted, f, f.At)
		if !errors.Is(err, want) {
			t.Fatalf("fact %d: got %v, want %v", f.Seq, err, want)
		}
		if err == nil {
			admitted = append(admitted, f)
		}
	}
	return Advance(p, admitted, facts[len(facts)-1].At)
}

func wantStatus(t *testing.T, s State, want Status) {
	t.Helper()
	if s.Status != want {
		t.Errorf("got %s, want %s: %+v", s.Status, want, s.Requirements)
	}
}

// However people stand in for each other, nobody's voice is heard twice.
func TestDelegationLoop(t *testing.T) {
	for _, tc := range []struct {
		name  string
		votes []Fact
		wants []error
		given int
	}{
		{"for each other, A first", []Fact{through(1, "ben", 1, "dina"), through(2, "dina", 2, "ben")}, []error{nil, ErrAlreadyVoted}, 1},
		{"for each other, B first", []Fact{through(1, "dina", 1, "ben"), through(2, "ben", 2, "dina")}, []error{nil, ErrAlreadyVoted}, 1},
		{"back to oneself", []Fact{through(1, "ben", 1, "dina", "ben"), yes(2, "ben", 2), yes(3, "dina", 3)}, []error{nil, ErrAlreadyVoted, ErrAlreadyVoted}, 1},
		{"A→B→C→A", []Fact{through(1, "ben", 1, "dina", "eve", "ben"), through(2, "dina", 2, "eve", "ben", "dina"), through(3, "eve", 3, "ben", "dina", "eve")}, []error{nil, ErrAlreadyVoted, ErrAlreadyVoted}, 1},
		{"the deputy, then the delegator", []Fact{through(1, "chief", 1, "ben"), yes(2, "ben", 2)}, []error{nil, ErrAlreadyVoted}, 1},
		{"the delegator, then the deputy", []Fact{yes(1, "ben", 1), through(2, "chief", 2, "ben")}, []error{nil, ErrAlreadyVoted}, 1},
		{"two deputies of one", []Fact{through(1, "chief", 1, "ben"), through(2, "finn", 2, "ben")}, []error{nil, ErrAlreadyVoted}, 1},
		{"one deputy of two", []Fact{through(1, "chief", 1, "ben"), through(2, "chief", 2, "dina")}, []error{nil, ErrAlreadyVoted}, 1},
		{"by a second account", []Fact{through(1, "ada", 1, "ben"), yes(2, "ada-two", 2)}, []error{nil, ErrAlreadyVoted}, 1},
		{"for the requesting side", []Fact{through(1, "ben", 1, "owner")}, []error{ErrSelfReview}, 0},
		{"the requesting side for another", []Fact{through(1, "owner", 1, "ben")}, []error{ErrSelfReview}, 0},
		{"through the requesting side", []Fact{through(1, "dina", 1, "owner", "ben")}, []error{ErrSelfReview}, 0},
		{"for one who is disabled", []Fact{through(1, "ben", 1, "disabled")}, []error{ErrNotEligible}, 0},
		{"for one without the role", []Fact{through(1, "ben", 1, "chief")}, []error{ErrNotEligible}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := try(t, plan(review(3)), tc.votes, tc.wants...)
			if s.Status != Pending || given(s) != tc.given {
				t.Errorf("%s with %d, want pending with %d", s.Status, given(s), tc.given)
			}
		})
	}
}

// A deputy does not take back what the person has said whom they stand in for.
func TestDeputyDoesNotOverride(t *testing.T) {
	p := plan(review(1))
	p.Requirements[0].Deny = 2
	wantStatus(t, try(t, p, []Fact{no(1, "ben", 1), through(2, "chief", 2, "ben")}, nil, ErrAlreadyVoted), Pending)
	byDeputy := no(1, "chief", 1)
	byDeputy.Voter.Via = []Voter{people["ben"]}
	wantStatus(t, try(t, p, []Fact{byDeputy, yes(2, "ben", 2)}), Approved)
	wantStatus(t, try(t, p, []Fact{byDeputy, through(2, "finn", 2, "ben")}, nil, ErrAlreadyVoted), Pending)
}

// Somebody in both groups fills one place, and who comes first does not matter.
func TestTwoGroups(t *testing.T) {
	both := plan(review(1), engine.Requirement{Kind: engine.Review, Role: "b", Needed: 1})
	anyOf := plan(engine.Requirement{Kind: engine.Review, AnyOf: []engine.Group{{Role: "a", Needed: 2}, {Role: "b", Needed: 3}}})
	for _, tc := range []struct {
		name   string
		plan   Plan
		voters []string
		want   Status
	}{
		{"one in both", both, []string{"ben"}, Pending},
		{"one in both and one of the first", both, []string{"ben", "ada"}, Approved},
		{"one in both and one of the second", both, []string{"ben", "cleo"}, Approved},
		{"one human being by both accounts", both, []string{"ada", "ada-two"}, Pending},
		{"two of the first group of two", anyOf, []string{"ben", "ada"}, Approved},
		{"two of the second of three", anyOf, []string{"cleo", "ben"}, Pending},
		{"enough of none", anyOf, []string{"cleo", "ada"}, Pending},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 2 {
				var votes []Fact
				for i, who := range tc.voters {
					votes = append(votes, yes(int64(i+1), who, time.Duration(i+1)))
				}
				if got := Advance(tc.plan, votes, start.Add(time.Second)); got.Status != tc.want {
					t.Errorf("%v: got %s, want %s", tc.voters, got.Status, tc.want)
				}
				slices.Reverse(tc.voters)
			}
		})
	}
}

// With a new edition, what was said of the former is void, and it takes more.
func TestEditRaisesQuorum(t *testing.T) {
	first := plan(review(2))
	first.Edition = 1
	facts := []Fact{yes(1, "ada", 1)}
	facts[0].Edition = 1
	second := plan(review(3))
	second.Edition, second.BeganAt = 2, start.Add(10*time.Second)
	s := Advance(second, facts, start.Add(11*time.Second))
	if s.Status != Pending || given(s) != 0 || s.Requirements[0].Needed != 3 {
		t.Fatalf("after the edit: %+v", s)
	}
	for i, who := range []string{"ada", "ben", "dina"} {
		wantStatus(t, Advance(second, facts, start.Add(time.Minute-1)), Pending)
		f := yes(int64(i+2), who, time.Duration(12+i)*time.Second)
		f.Edition = 2
		if err := Admit(second, facts, f, f.At); err != nil {
			t.Errorf("%s, of the new edition: %v", who, err)
		}
		facts = append(facts, f)
	}
	wantStatus(t, Advance(second, facts, start.Add(20*time.Second)), Approved)
}

func TestDenyQuorum(t *testing.T) {
	p := long(review(3))
	p.Requirements[0].Deny = 2
	s := try(t, p, []Fact{yes(1, "ada", 1), no(2, "ada", 2), yes(3, "ada", 3), no(4, "ada-two", 4)}, nil, nil, ErrAlreadyVoted, ErrAlreadyVoted)
	if s.Status != Pending || given(s) != 0 || s.Requirements[0].Denied != 1 {
		t.Errorf("yes, then no: %+v", s)
	}
	s = try(t, p, []Fact{no(1, "ada", 1), yes(2, "ada", 2), no(3, "ben", 3)})
	if s.Status != Pending || given(s) != 1 || s.Requirements[0].Denied != 1 {
		t.Errorf("no, then yes: %+v", s)
	}
	wantStatus(t, try(t, p, []Fact{no(1, "ada", 1), no(2, "cleo", 2), no(3, "ben", 3)}, nil, ErrNotEligible), Denied)
}

// A yes that has carried a turn cannot be taken out of it: nothing approves without it.
func TestTakenBackTooLate(t *testing.T) {
	p := long(engine.Requirement{Kind: engine.Review, Role: "a", Needed: 1, Deny: 2}, engine.Requirement{Kind: engine.Human, Role: "b", Needed: 1, Deny: 2})
	s := try(t, p, []Fact{yes(1, "ada", 1), no(2, "ada", 2), yes(3, "ben", 3)}, nil, nil, ErrDecided)
	wantStatus(t, s, Denied)
}

// What had been met in time and is not any more expires then, not in the past.
func TestTakenBackAfterItsTime(t *testing.T) {
	r := engine.Requirement{Kind: engine.Review, Role: "a", Needed: 1, Deny: 2, Within: engine.Duration(10 * time.Second)}
	p := plan(r, engine.Requirement{Kind: engine.Review, Role: "b", Needed: 1})
	facts := []Fact{yes(1, "ada", time.Second), no(2, "ada", 20*time.Second)}
	wantStatus(t, Advance(p, facts[:1], start.Add(20*time.Second)), Pending)
	if s := Advance(p, facts, start.Add(30*time.Second)); s.Status != Expired || !s.At.Equal(start.Add(20*time.Second)) {
		t.Errorf("%s at %s, want expired at 20s", s.Status, s.At)
	}
}

// The groups that can be filled in time are chosen, not those that lack the fewest.
func TestGroupsThatCanBeFilledInTime(t *testing.T) {
	p := plan(
		engine.Requirement{Kind: engine.Review, AnyOf: []engine.Group{{Role: "a", Needed: 2}, {Role: "x", Needed: 1}}, Within: engine.Duration(10 * time.Second)},
		engine.Requirement{Kind: engine.Review, Role: "b", Needed: 3},
	)
	s := try(t, p, []Fact{yes(1, "ben", 1), yes(2, "dina", 2)})
	if !s.Deadline.Equal(p.ExpiresAt) || s.Requirements[0].Given != 2 {
		t.Errorf("it waits until %s: %+v", s.Deadline, s.Requirements)
	}
}

// Who has spoken before it escalated to them fills no place by that later: others
// still can.
func TestSpokenBeforeItEscalated(t *testing.T) {
	p := plan(engine.Requirement{
		Kind: engine.Review, AnyOf: []engine.Group{{Role: "a", Needed: 2}, {Role: "c", Needed: 2}},
		Escalation: []engine.Escalation{{After: engine.Duration(10 * time.Second), Role: "c"}},
	})
	s := try(t, p, []Fact{yes(1, "ada", 1), yes(2, "chief", 2), yes(3, "ben", 20*time.Second)})
	wantStatus(t, s, Approved)
}

func TestBreakGlass(t *testing.T) {
	alone := func(seq int64, who string) Fact {
		f := by(seq, BreakGlass, who, time.Duration(seq))
		f.Details.Alone = true
		return f
	}
	two := func(seq int64, who string) Fact { return by(seq, BreakGlass, who, time.Duration(seq)) }
	silent, old, deputy := two(1, "eve"), two(1, "eve"), two(1, "eve")
	silent.Comment, old.Details.Proof.At = " ", start.Add(-time.Hour)
	deputy.Voter.Via = []Voter{people["finn"]}
	refusing := plan(review(1))
	refusing.Requirements[0].Deny = 3
	for _, tc := range []struct {
		name  string
		plan  Plan
		facts []Fact
		wants []error
		want  Status
		owed  bool
	}{
		{"one", plan(review(2)), []Fact{two(1, "eve")}, nil, Pending, false},
		{"by two", plan(review(2)), []Fact{two(1, "eve"), two(2, "finn")}, nil, Approved, false},
		{"one twice", plan(review(2)), []Fact{two(1, "eve"), two(2, "eve")}, []error{nil, ErrAlreadyVoted}, Pending, false},
		{"one alone", plan(review(2)), []Fact{alone(1, "finn")}, nil, Approved, true},
		{"one, then the same one alone", plan(review(2)), []Fact{two(1, "eve"), alone(2, "eve")}, nil, Approved, true},
		{"one, then another alone", plan(review(2)), []Fact{two(1, "eve"), alone(2, "finn")}, nil, Approved, false},
		{"one who then says no", refusing, []Fact{two(1, "eve"), no(2, "eve", 2), two(3, "finn")}, nil, Pending, false},
		{"the requesting side", plan(review(2)), []Fact{alone(1, "owner")}, []error{ErrSelfReview}, Pending, false},
		{"without the role", plan(review(2)), []Fact{alone(1, "ben")}, []error{ErrNotEligible}, Pending, false},
		{"for another", plan(review(2)), []Fact{deputy}, []error{ErrNotEligible}, Pending, false},
		{"without a reason", plan(review(2)), []Fact{silent}, []error{ErrNoReason}, Pending, false},
		{"not proved", plan(review(2)), []Fact{old}, []error{ErrNotFresh}, Pending, false},
		{"a proof of identity is not skipped", plan(engine.Requirement{Kind: engine.StepUp, Needed: 1}, review(1)), []Fact{alone(1, "eve")}, []error{ErrNotBreakable}, Pending, false},
		{"a ticket is", plan(engine.Requirement{Kind: engine.Ticket, Needed: 1}, review(1)), []Fact{alone(1, "eve")}, nil, Approved, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := try(t, tc.plan, tc.facts, tc.wants...)
			if s.Status != tc.want || s.Owed != tc.owed || s.Broken != (tc.want == Approved) {
				t.Errorf("%s, broken %t, owed %t; want %s, owed %t", s.Status, s.Broken, s.Owed, tc.want, tc.owed)
			}
		})
	}
}

func TestFreshProofs(t *testing.T) {
	step := plan(engine.Requirement{Kind: engine.StepUp, Needed: 1})
	step.Accountable = []string{"owner"}
	human := plan(engine.Requirement{Kind: engine.Human, Role: "a", Needed: 1})
	for _, tc := range []struct {
		method string
		age    time.Duration
		stepUp error
		human  error
	}{
		{"passkey", FreshFor - time.Millisecond, nil, nil},
		{"totp", FreshFor, nil, nil},
		{"passkey", FreshFor + time.Millisecond, ErrNotFresh, ErrNotFresh},
		{"password", 0, ErrNotFresh, nil},
		{"", 0, ErrNotFresh, ErrNotFresh},
		{"passkey", -time.Hour, ErrNotFresh, ErrNotFresh},
	} {
		proof := &Proof{Method: tc.method, At: start.Add(time.Second - tc.age)}
		proved, vote := by(1, Verification, "owner", time.Second), yes(1, "ada", time.Second)
		proved.Details.Proof, vote.Details.Proof = proof, proof
		try(t, step, []Fact{proved}, tc.stepUp)
		try(t, human, []Fact{vote}, tc.human)
	}
	try(t, step, []Fact{by(1, Verification, "ben", 1)}, ErrNotAccountable)
	unproved, granted := yes(1, "ada", 1), yes(1, "ada", 1)
	unproved.Details.Proof, granted.Details.Grant = nil, "grt_1"
	try(t, human, []Fact{unproved}, ErrNotFresh)
	try(t, human, []Fact{granted}, ErrMachine)
	try(t, plan(review(1)), []Fact{granted})
}

func TestTicketChecks(t *testing.T) {
	ticket := func(f Fact, system, ref string, good bool) Fact {
		f.Details.Ticket, f.Yes = &Ticket{System: system, Ref: ref}, good
		return f
	}
	link := func(seq int64, ref string) Fact {
		return ticket(by(seq, TicketLink, "owner", time.Duration(seq)), "jira", ref, true)
	}
	check := func(seq int64, ref string, good bool) Fact {
		return ticket(system(seq, TicketCheck, time.Duration(seq)), "jira", ref, good)
	}
	one, two := engine.Requirement{Kind: engine.Ticket, Needed: 1}, engine.Requirement{Kind: engine.Ticket, Needed: 1}
	byPerson := ticket(by(2, TicketCheck, "ada", 2), "jira", "A", true)
	other := ticket(system(2, TicketCheck, 2), "servicenow", "A", true)
	for _, tc := range []struct {
		name  string
		plan  Plan
		facts []Fact
		wants []error
		want  Status
	}{
		{"good", plan(one), []Fact{link(1, "A"), check(2, "A", true)}, nil, Approved},
		{"bad, then another", plan(one), []Fact{link(1, "A"), check(2, "A", false), link(3, "B"), check(4, "B", true)}, nil, Approved},
		{"none attached", plan(one), []Fact{check(1, "A", true)}, []error{ErrNoTicketWanted}, Pending},
		{"of another", plan(one), []Fact{link(1, "A"), check(2, "B", true)}, []error{nil, ErrNoTicketWanted}, Pending},
		{"of the one before", plan(one), []Fact{link(1, "A"), link(2, "B"), check(3, "A", true)}, []error{nil, nil, ErrNoTicketWanted}, Pending},
		{"of another system", plan(one), []Fact{link(1, "A"), other}, []error{nil, ErrNoTicketWanted}, Pending},
		{"by a person", plan(one), []Fact{link(1, "A"), byPerson}, []error{nil, ErrNoTicketWanted}, Pending},
		{"looked at twice, for two", plan(one, two), []Fact{link(1, "A"), check(2, "A", true), check(3, "A", true)}, []error{nil, nil, ErrNoTicketWanted}, Pending},
	} {
		t.Run(tc.name, func(t *testing.T) { wantStatus(t, try(t, tc.plan, tc.facts, tc.wants...), tc.want) })
	}
}

// A plan that asks for nobody is a mistake, and nothing satisfies it by itself.
func TestPlanWithoutPeople(t *testing.T) {
	for _, r := range []engine.Requirement{
		review(0), {Kind: engine.StepUp}, {Kind: engine.Ticket}, {Kind: engine.Review, AnyOf: []engine.Group{{Role: "a"}}},
	} {
		wantStatus(t, try(t, plan(r), []Fact{by(1, Comment, "ada", 1)}), Pending)
	}
}

// Whoever approves supplies none of what an answer has to supply.
func TestVoteSuppliesNoAnswer(t *testing.T) {
	p := plan(engine.Requirement{Kind: engine.Answer, Role: "a", Needed: 1, Form: []byte(`{"type":"object"}`)})
	try(t, p, []Fact{yes(1, "ada", 1)}, ErrNotEligible)
	wantStatus(t, try(t, p, []Fact{{Seq: 1, At: start, Kind: Reply, Yes: true, Actor: engine.Actor{Kind: engine.ServiceActor}}}), Approved)
}

// What was passed on stays with the colleague until they give it back or somebody claims it.
func TestPassedOn(t *testing.T) {
	p := long(review(1))
	pass, again := by(1, Claim, "ada", 0), by(2, Claim, "ada", 2*claimFor)
	pass.Details.For, again.Details.For = "ben", "ben"
	s := try(t, p, []Fact{pass})
	if s.Claim == nil || s.Claim.Claimant() != "ben" || !slices.ContainsFunc(s.Due, func(n Notification) bool {
		return n.Kind == engine.NotifyPassedOn && n.Key == pass.PassedOnKey()
	}) {
		t.Fatalf("passed on: %+v", s)
	}
	if s := try(t, p, []Fact{pass, again}, nil, ErrAlreadyVoted); s.Claim == nil {
		t.Error("it lapses")
	}
	try(t, p, []Fact{pass, by(2, Unclaim, "ada", 1)}, nil, ErrNotClaimed)
	if s := try(t, p, []Fact{pass, by(2, Unclaim, "ben", 1)}); s.Claim != nil {
		t.Errorf("given back: %+v", s.Claim)
	}
	if s := try(t, p, []Fact{pass, by(2, Claim, "ada", 1)}); s.Claim == nil || s.Claim.Claimant() != "ada" {
		t.Errorf("claimed by another: %+v", s.Claim)
	}
}

func TestClaimsLapse(t *testing.T) {
	p := long(review(1))
	claim, late := by(1, Claim, "ada", 0), by(2, Unclaim, "ada", claimFor)
	if s := try(t, p, []Fact{claim}); s.Claim == nil || !s.Wake.Equal(start.Add(claimFor)) {
		t.Errorf("claimed: %+v", s)
	}
	try(t, p, []Fact{claim, late}, nil, ErrNotClaimed)
	try(t, p, []Fact{claim, by(2, Unclaim, "ben", 1), by(3, Claim, "ada", 2), by(4, Claim, "ben", 3)}, nil, ErrNotClaimed, ErrAlreadyVoted, nil)
}

// One human being with two accounts may choose by which of them to speak.
func TestPossibleByEitherAccount(t *testing.T) {
	p := plan(engine.Requirement{Kind: engine.Review, Role: "b", Needed: 1})
	for _, order := range [][]Voter{{people["ada"], people["ada-two"]}, {people["ada-two"], people["ada"]}} {
		if !Possible(p, nil, order, start) {
			t.Errorf("%v could decide", order)
		}
	}
	if Possible(p, nil, []Voter{people["owner"], people["disabled"], people["nobody"]}, start) {
		t.Error("nobody of these could decide")
	}
	p.Requirements[0].Needed, p.Requirements[0].Deny = 2, 2
	if Possible(p, []Fact{yes(1, "ben", 1), no(2, "ben", 2)}, []Voter{people["ben"], people["cleo"]}, start.Add(3)) {
		t.Error("a yes that was taken back cannot be given again")
	}
}
