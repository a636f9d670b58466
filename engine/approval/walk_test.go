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

var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// people are the cast of a walk: two accounts of one human being, somebody on
// the requesting side, and people with one role or both.
var people = map[string]Voter{
	"ada":      {Identity: "ada", Roles: []string{"a"}, Active: true},
	"ada-two":  {Identity: "ada", Roles: []string{"a", "b"}, Active: true},
	"ben":      {Identity: "ben", Roles: []string{"a", "b"}, Active: true},
	"cleo":     {Identity: "cleo", Roles: []string{"b"}, Active: true},
	"dina":     {Identity: "dina", Roles: []string{"a", "b"}, Active: true},
	"owner":    {Identity: "owner", Roles: []string{"a", "b"}, Active: true},
	"disabled": {Identity: "gone", Roles: []string{"a", "b"}},
	"nobody":   {Identity: "nobody", Active: true},
	"chief":    {Identity: "chief", Roles: []string{"c"}, Active: true},
}

var names = []string{"ada", "ada-two", "ben", "cleo", "dina", "owner", "disabled", "nobody", "chief"}

func drawPlan(t *rapid.T) Plan {
	p := Plan{OpenedAt: start, ExpiresAt: start.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "expires")) * time.Second), Excluded: []string{"owner"}}
	n := rapid.IntRange(1, 3).Draw(t, "stages")
	for i := range n {
		kind := rapid.SampledFrom([]engine.Kind{engine.Answer, engine.Review, engine.Review, engine.Human}).Draw(t, fmt.Sprintf("kind%d", i))
		p.Requirements = append(p.Requirements, engine.Requirement{
			Kind: kind, Role: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "role"),
			Needed: rapid.IntRange(1, 3).Draw(t, "needed"), Within: engine.Duration(time.Duration(rapid.SampledFrom([]int{0, 0, 5, 10}).Draw(t, "within")) * time.Second),
		})
		if rapid.Bool().Draw(t, "escalates") {
			p.Requirements[i].Escalation = []engine.Escalation{{After: engine.Duration(time.Duration(rapid.IntRange(1, 8).Draw(t, "after")) * time.Second), Role: "c"}}
		}
	}
	slices.SortStableFunc(p.Requirements, func(x, y engine.Requirement) int { return x.Kind.Order() - y.Kind.Order() })
	return p
}

func drawFact(t *rapid.T) Fact {
	who := rapid.SampledFrom(names).Draw(t, "who")
	human := engine.Actor{Kind: engine.HumanActor, ID: who}
	switch rapid.SampledFrom([]string{"yes", "yes", "yes", "yes", "yes", "no", "cancel", "answer", "decline", "machine", "agent"}).Draw(t, "fact") {
	case "yes":
		return Fact{Kind: Vote, Yes: true, Actor: human, Voter: people[who], Details: Details{Proof: &Proof{Method: "totp", At: start.Add(time.Minute)}}}
	case "no":
		return Fact{Kind: Vote, Denial: NotNow, Actor: human, Voter: people[who]}
	case "cancel":
		return Fact{Kind: Cancel, Actor: engine.Actor{Kind: engine.AgentActor, ID: "bot"}}
	case "answer":
		return Fact{Kind: Reply, Yes: true, Actor: engine.Actor{Kind: engine.ServiceActor, ID: "runtime"}}
	case "decline":
		return Fact{Kind: Reply, Denial: Never, Actor: engine.Actor{Kind: engine.ServiceActor, ID: "runtime"}}
	case "machine":
		return Fact{Kind: Vote, Yes: true, Actor: engine.Actor{Kind: engine.ServiceActor, ID: "key"}, Voter: people["ben"]}
	default:
		return Fact{Kind: Reply, Yes: true, Actor: engine.Actor{Kind: engine.AgentActor, ID: "bot"}}
	}
}

// TestWalk takes random walks through approvals the way the gate does — admit,
// then append — and holds every step against what must always be true.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, now := drawPlan(t), start
		var facts []Fact
		ended := State{Status: Pending}
		for i := range rapid.IntRange(1, 25).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Millisecond)
			before := Advance(p, facts, now)
			checkState(t, p, facts, before, now)
			if ended.Status != Pending && (before.Status != ended.Status || !before.At.Equal(ended.At)) {
				t.Fatalf("an approval that was %s at %s became %s at %s", ended.Status, ended.At, before.Status, before.At)
			}
			f := drawFact(t)
			f.Seq, f.At = int64(i+1), now
			err := Admit(p, facts, f, now)
			with := Advance(p, append(slices.Clone(facts), f), now)
			if err != nil {
				// What is not admitted would not have counted.
				if with.Status != before.Status || given(with) != given(before) {
					t.Fatalf("refused (%v), and yet it would have counted: %+v became %+v", err, before, with)
				}
				if before.Status != Pending && !errors.Is(err, ErrDecided) && !errors.Is(err, ErrExpired) {
					t.Fatalf("an approval that is %s refuses with %v", before.Status, err)
				}
			} else {
				if before.Status != Pending {
					t.Fatalf("a fact was admitted to an approval that is %s", before.Status)
				}
				if with.Status == before.Status && given(with) == given(before) {
					t.Fatalf("admitted, and yet it changes nothing: %+v", f)
				}
				facts = append(facts, f)
			}
			ended = Advance(p, facts, now)
			if ended.Status != Pending && before.Status == Pending && now.After(p.ExpiresAt) && ended.Status == Approved {
				t.Fatal("approved after the deadline")
			}
		}
		// Order of arrival is Seq, whatever order the rows are read in.
		shuffled := rapid.Permutation(facts).Draw(t, "shuffled")
		if a, b := Advance(p, facts, now), Advance(p, shuffled, now); a.Status != b.Status || given(a) != given(b) {
			t.Fatalf("the order of reading changes %s to %s", a.Status, b.Status)
		}
		// Exactly one terminal state after the deadline, and for ever.
		late := Advance(p, facts, p.ExpiresAt)
		if late.Status == Pending {
			t.Fatal("pending at its deadline")
		}
		if later := Advance(p, facts, p.ExpiresAt.Add(1000*time.Hour)); later.Status != late.Status || !later.At.Equal(late.At) {
			t.Fatalf("%s became %s by mere waiting", late.Status, later.Status)
		}
	})
}

// given is how many places are filled.
func given(s State) (n int) {
	for _, r := range s.Requirements {
		n += r.Given
	}
	return n
}

func checkState(t *rapid.T, p Plan, facts []Fact, s State, now time.Time) {
	switch s.Status {
	case Pending:
		if !s.Wake.After(now) {
			t.Fatalf("pending at %s with a deadline at %s", now, s.Wake)
		}
		if s.Requirements[s.Stage].Status != Waiting {
			t.Fatalf("stage %d is %s", s.Stage, s.Requirements[s.Stage].Status)
		}
	case Expired:
		if s.At.After(now) {
			t.Fatalf("expired at %s, before its time %s", now, s.At)
		}
	case Approved:
		checkApproved(t, p, facts, s)
	case Denied:
		if s.Decisive == nil || s.Decisive.Yes {
			t.Fatalf("denied by %+v", s.Decisive)
		}
	case Cancelled:
		if s.Decisive == nil || s.Decisive.Kind != Cancel {
			t.Fatalf("cancelled by %+v", s.Decisive)
		}
	}
	for i, r := range s.Requirements {
		if r.Given > r.Needed {
			t.Fatalf("requirement %d has %d of %d", i, r.Given, r.Needed)
		}
	}
}

// hasSay reports whether the voter has a role that the plan asks for from the start.
func hasSay(p Plan, v Voter) bool {
	return slices.ContainsFunc(p.Requirements, func(r engine.Requirement) bool { return slices.Contains(v.Roles, r.Role) })
}

// checkApproved counts for itself: enough distinct, active people with the
// role, none of the requesting side, and nobody's no.
func checkApproved(t *rapid.T, p Plan, facts []Fact, s State) {
	voices, need, answers := map[string]bool{}, 0, false
	for _, f := range facts {
		if f.Kind == Vote && f.Yes && f.Actor.Kind == engine.HumanActor && f.Voter.Active && f.Voter.Identity != "owner" && len(f.Voter.Roles) > 0 {
			voices[f.Voter.Identity] = true
		}
		if f.Kind == Reply && f.Yes && f.Actor.Kind == engine.ServiceActor {
			answers = true
		}
		if f.Kind == Vote && !f.Yes && f.Voter.Active && f.Voter.Identity != "owner" && hasSay(p, f.Voter) {
			t.Fatalf("approved over the no of %s", f.Actor.ID)
		}
		if !f.At.Before(p.ExpiresAt) {
			t.Fatalf("a fact at %s counted after %s", f.At, p.ExpiresAt)
		}
	}
	for _, r := range p.Requirements {
		if r.Kind != engine.Answer || !answers {
			need += r.Needed
		}
	}
	if len(voices) < need {
		t.Fatalf("approved by %d people where %d were needed: %+v", len(voices), need, s)
	}
	for _, r := range s.Requirements {
		if r.Status != Satisfied || r.Given < r.Needed {
			t.Fatalf("approved with %+v", r)
		}
	}
}
