package approval

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
)

func widened(seq int64, at time.Duration, requirements ...int) Fact {
	return Fact{Seq: seq, At: start.Add(at), Kind: Escalate, Actor: engine.Actor{Kind: engine.SystemActor}, Details: Details{Widened: requirements}}
}

// claiming is a plan that excludes these people by claim, and widens to "c".
func claiming(p Plan, who ...string) Plan {
	p.Excluded = append(slices.Clone(p.Excluded), who...)
	p.ByClaim, p.IfTooFew = who, "c"
	return p
}

// TestClaimsThatLeaveTooFewWiden: whoever is excluded by claim, either enough are left,
// or what they have emptied is widened, or nobody could have decided anyway. Widening
// changes nothing else: as many are needed, and nobody gets a say but the people of the role.
func TestClaimsThatLeaveTooFewWiden(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		p := drawQuorum(t)
		crowd := drawCrowd(t, rapid.IntRange(1, 6).Draw(t, "people"))
		for i := range crowd {
			if often(t, "may be widened to", 3) {
				crowd[i].Roles = append(crowd[i].Roles, "chief")
			}
			if often(t, "is claimed", 4) && !slices.Contains(p.ByClaim, crowd[i].Identity) {
				p.ByClaim = append(p.ByClaim, crowd[i].Identity)
			}
		}
		unclaimed := p
		p.Excluded = append(slices.Clone(p.Excluded), p.ByClaim...)
		if often(t, "routing names somebody", 9) {
			p.IfTooFew = "chief"
		}
		now := start.Add(time.Second)
		got := Widening(p, nil, crowd, now)
		want := p.IfTooFew != "" && Possible(unclaimed, nil, crowd, now) && !Possible(p, nil, crowd, now)
		if (len(got) > 0) != want {
			t.Fatalf("widens %v, want some: %t", got, want)
		}
		if !want {
			seen["not widened"]++
			return
		}
		f := widened(1, time.Second, got...)
		before, after := Advance(p, nil, now), Advance(p, []Fact{f}, now.Add(1))
		if Admit(p, nil, f, now) != nil || Widening(p, []Fact{f}, crowd, now.Add(1)) != nil {
			t.Fatal("it is widened once")
		}
		for i, r := range after.Requirements {
			if r.Needed != before.Requirements[i].Needed || r.Given != 0 || r.Status != before.Requirements[i].Status {
				t.Fatalf("requirement %d was %+v and is %+v", i, before.Requirements[i], r)
			}
			if slices.Contains(r.Escalated, "chief") != slices.Contains(got, i) {
				t.Fatalf("requirement %d is open to %v, and %v are widened", i, r.Escalated, got)
			}
		}
		for _, v := range crowd {
			vote := says(v, 2000, true)
			former, latter := Admit(p, nil, vote, vote.At), Admit(p, []Fact{f}, vote, vote.At)
			switch {
			case slices.Contains(p.Excluded, v.Identity) && !errors.Is(latter, ErrSelfReview):
				t.Fatalf("excluded, and yet %v", latter)
			case !slices.Contains(v.Roles, "chief") && !errors.Is(latter, former):
				t.Fatalf("of another role, and it was %v and is %v", former, latter)
			}
		}
		if Possible(p, []Fact{f}, crowd, now.Add(1)) {
			seen["can be decided again"]++
		} else {
			seen["nobody is left even so"]++
		}
	})
	for _, what := range []string{"not widened", "can be decided again", "nobody is left even so"} {
		if seen[what] == 0 && !t.Failed() {
			t.Errorf("never: %s", what)
		}
	}
}

// Only what claims have emptied is widened: not what stands beside it, nor a turn that is
// over or to come.
func TestOnlyWhatClaimsEmptiedIsWidened(t *testing.T) {
	b := engine.Requirement{Kind: engine.Review, Role: "b", Needed: 1}
	later := engine.Requirement{Kind: engine.Human, Role: "a", Needed: 1}
	p := claiming(plan(review(1), b, later), "ada")
	crowd := []Voter{people["ada"], people["cleo"], people["chief"]}
	if got := Widening(p, nil, crowd, start); !slices.Equal(got, []int{0}) {
		t.Fatalf("widened %v, want the first alone", got)
	}
	facts := []Fact{widened(1, 1, 0), yes(2, "chief", 2), yes(3, "cleo", 3)}
	s := try(t, p, facts)
	wantStatus(t, s, Pending)
	if told := Advance(p, facts[:1], start.Add(2)).Due; told[len(told)-1].Kind != engine.NotifyEscalated {
		t.Errorf("told of %+v", told)
	}
	if s.Stage != 2 || len(s.Requirements[2].Escalated) > 0 {
		t.Errorf("it stands at %d: %+v", s.Stage, s.Requirements)
	}
	if got := Widening(p, facts, crowd, start.Add(4)); !slices.Equal(got, []int{2}) {
		t.Errorf("in the next turn widened %v, want the third", got)
	}
	try(t, p, []Fact{widened(1, 1, 2)}, ErrNotEligible)
	try(t, p, []Fact{widened(1, 1, 0), yes(2, "chief", 2), yes(3, "chief", 3)}, nil, nil, ErrAlreadyVoted)
}

// Who else may decide is not the agent's to choose: without the claims that have emptied
// it, nothing is widened, by whomever.
func TestWideningTakesAClaim(t *testing.T) {
	crowd := []Voter{people["ada"], people["owner"], people["chief"]}
	registered := plan(review(1))
	registered.Excluded, registered.IfTooFew = []string{"ada", "owner"}, "c"
	person := widened(1, 1, 0)
	person.Actor = engine.Actor{Kind: engine.HumanActor, ID: "ada"}
	for name, tc := range map[string]struct {
		p Plan
		f Fact
	}{
		"registered":       {registered, widened(1, 1, 0)},
		"nobody named":     {func() Plan { p := claiming(plan(review(1)), "ada"); p.IfTooFew = ""; return p }(), widened(1, 1, 0)},
		"by a person":      {claiming(plan(review(1)), "ada"), person},
		"no such":          {claiming(plan(review(1)), "ada"), widened(1, 1, 7)},
		"of an answer":     {claiming(plan(engine.Requirement{Kind: engine.Answer, Role: "a", Needed: 1}), "ada"), widened(1, 1, 0)},
		"too few as it is": {claiming(plan(review(2)), "ada"), widened(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			try(t, tc.p, []Fact{tc.f}, ErrNotEligible)
			if name != "by a person" && name != "no such" {
				if got := Widening(tc.p, nil, crowd, start); got != nil {
					t.Errorf("widened %v", got)
				}
			}
		})
	}
}

// The rule's own escalation comes first, and widening adds to it.
func TestWideningComesAfterEscalation(t *testing.T) {
	r := review(2)
	r.Escalation = []engine.Escalation{{After: engine.Duration(30 * time.Second), Role: "b"}}
	p := claiming(plan(r), "ada", "dina")
	crowd := []Voter{people["ada"], people["dina"], people["cleo"], people["chief"]}
	now := Fact{Seq: 1, At: start.Add(1), Kind: Escalate, Actor: engine.Actor{Kind: engine.SystemActor}}
	try(t, p, []Fact{now, widened(2, 2, 0), yes(3, "cleo", 3), yes(4, "chief", 4)})
	if got := Widening(p, []Fact{now}, crowd, start.Add(2)); !slices.Equal(got, []int{0}) {
		t.Errorf("widened %v", got)
	}
	wantStatus(t, try(t, p, []Fact{now, widened(2, 2, 0), yes(3, "cleo", 3), yes(4, "chief", 4)}), Approved)
	// Widened first, it can still be escalated.
	wantStatus(t, try(t, p, []Fact{widened(1, 1, 0), {Seq: 2, At: start.Add(2), Kind: Escalate, Actor: now.Actor}, yes(3, "cleo", 3), no(4, "chief", 4)}), Denied)
}

func TestTermsNameWhomClaimsExclude(t *testing.T) {
	r := Routing{Rules: []Rule{{Tool: "pay", Role: "a", Needed: 1, IfTooFew: "lead"}, {Tool: "read", Role: "a"}}, Default: Rule{Role: "a", IfTooFew: "admin"}}
	for _, tc := range []struct {
		tool    string
		claimed []string
		want    string
	}{{"pay", []string{"ada"}, "[ada] lead"}, {"read", []string{"ada"}, "[ada] admin"}, {"other", []string{"ada"}, "[ada] admin"}, {"pay", nil, "[] "}} {
		terms := r.Terms(r.For(engine.Call{Tool: tc.tool}), nil, nil, tc.claimed)
		if got := fmt.Sprint(terms.ByClaim, " ", terms.IfTooFew); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.tool, got, tc.want)
		}
	}
}

// What an edition says of claims cannot contradict itself, nor grow.
func TestEditionsCheckWhomTheyExclude(t *testing.T) {
	fine := claiming(plan(review(1)), "ada").EditionPayload()
	other, accountable := *fine, *fine
	other.Excluded = []string{"owner"}
	accountable.Terms.Accountable = []string{"ada"}
	if err := errors.Join(fine.Check(), (*EditionPayload)(nil).Check()); err != nil {
		t.Error(err)
	}
	for _, e := range []EditionPayload{other, accountable} {
		if e.Check() == nil {
			t.Errorf("%+v contradicts itself", e)
		}
	}
}
