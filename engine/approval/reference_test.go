package approval

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
)

// TestMain walks farther than rapid does by itself; its own flag still counts.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "300"); err != nil {
		panic(err)
	}
	m.Run()
}

// reference is quorum as one would explain it: try every choice of groups, and
// every assignment of votes to places.
type reference struct{ p Plan }

// most is how many places of the choice the votes can fill, by trying it all.
func (r reference) most(places []string, votes []Fact) int {
	if len(places) == 0 {
		return 0
	}
	best := r.most(places[1:], votes) // this place stays empty
	for i, f := range votes {
		if slices.Contains(f.Voter.speaker().Roles, places[0]) {
			best = max(best, 1+r.most(places[1:], slices.Delete(slices.Clone(votes), i, i+1)))
		}
	}
	return best
}

// choices are the places of every choice of groups.
func (r reference) choices() [][]string {
	all := [][]string{nil}
	for _, req := range r.p.Requirements {
		groups := req.AnyOf
		if len(groups) == 0 {
			groups = []engine.Group{{Role: req.Role, Needed: req.Needed}}
		}
		var next [][]string
		for _, places := range all {
			for _, g := range groups {
				next = append(next, append(slices.Clone(places), slices.Repeat([]string{g.Role}, g.Needed)...))
			}
		}
		all = next
	}
	return all
}

// enough reports whether the votes fill all places of a choice.
func (r reference) enough(votes []Fact) bool {
	return slices.ContainsFunc(r.choices(), func(places []string) bool { return r.most(places, votes) == len(places) })
}

// useful reports whether the vote brings any choice farther.
func (r reference) useful(votes []Fact, f Fact) bool {
	return slices.ContainsFunc(r.choices(), func(places []string) bool {
		return r.most(places, append(slices.Clone(votes), f)) > r.most(places, votes)
	})
}

// drawQuorum is a plan of one turn with few places.
func drawQuorum(t *rapid.T) Plan {
	p := Plan{OpenedAt: start, ExpiresAt: start.Add(time.Hour), Excluded: []string{"owner"}}
	kind := rapid.SampledFrom([]engine.Kind{engine.Review, engine.Human}).Draw(t, "kind")
	for range rapid.IntRange(1, 3).Draw(t, "requirements") {
		r := engine.Requirement{Kind: kind, Role: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "role"), Needed: rapid.IntRange(1, 2).Draw(t, "needed"), Deny: 7}
		r.Within = rapid.SampledFrom([]engine.Duration{0, engine.Duration(time.Minute)}).Draw(t, "within")
		if often(t, "groups", 4) {
			r.Role, r.AnyOf = "", nil
			for _, role := range rapid.SampledFrom([][]string{{"a", "b"}, {"b", "c"}, {"a", "b", "c"}}).Draw(t, "roles") {
				r.AnyOf = append(r.AnyOf, engine.Group{Role: role, Needed: rapid.IntRange(1, 2).Draw(t, "of")})
			}
		}
		p.Requirements = append(p.Requirements, r)
	}
	return p
}

// drawCrowd is up to six accounts, some of the same human being.
func drawCrowd(t *rapid.T, n int) []Voter {
	var crowd []Voter
	for i := range n {
		v := Voter{Identity: fmt.Sprint("p", i), Active: often(t, "active", 9)}
		if i > 0 && often(t, "second account", 2) {
			v.Identity = crowd[i-1].Identity
		}
		for _, role := range []string{"a", "b", "c"} {
			if rapid.Bool().Draw(t, role) {
				v.Roles = append(v.Roles, role)
			}
		}
		crowd = append(crowd, v)
	}
	return crowd
}

func says(v Voter, seq int, yes bool) Fact {
	at := start.Add(time.Duration(seq) * time.Millisecond)
	return Fact{
		Seq: int64(seq), At: at, Kind: Vote, Yes: yes, Denial: NotNow, Voter: v, Actor: engine.Actor{Kind: engine.HumanActor, ID: v.Identity},
		Details: Details{Proof: &Proof{Method: "passkey", At: at}},
	}
}

// TestQuorumIsAsTheReferenceSays: every vote is admitted exactly if it brings any
// choice farther, it approves exactly if all places of one are filled, and the
// order of the votes makes no difference to that.
func TestQuorumIsAsTheReferenceSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawQuorum(t)
		ref := reference{p}
		crowd := drawCrowd(t, rapid.IntRange(1, 6).Draw(t, "people"))
		for i := range crowd {
			for j := range i {
				if often(t, "stands in", 1) && crowd[j].Via == nil && crowd[j].Identity != crowd[i].Identity {
					crowd[i].Via = []Voter{crowd[j]}
				}
			}
		}
		var facts []Fact
		for i, v := range crowd {
			f := says(v, i+1, true)
			fresh := !slices.ContainsFunc(facts, func(other Fact) bool { return shareVoice(other.Voter, v) })
			want := fresh && v.eligible(p) && ref.useful(facts, f) && !ref.enough(facts)
			if got := Admit(p, facts, f, f.At) == nil; got != want {
				t.Fatalf("%v after %v: admitted %t, want %t", v, facts, got, want)
			}
			if want {
				facts = append(facts, f)
			}
			if got, want := Advance(p, facts, f.At).Status == Approved, ref.enough(facts); got != want {
				t.Fatalf("%v: approved %t, want %t", facts, got, want)
			}
		}
		// One voice each, in whatever order: those that were not needed as well.
		var votes []Fact
		for i, v := range crowd {
			if v.Active && !slices.ContainsFunc(votes, func(other Fact) bool { return shareVoice(other.Voter, v) }) && v.eligible(p) {
				votes = append(votes, says(v, i+1, true))
			}
		}
		votes = rapid.Permutation(votes).Draw(t, "order")
		for i := range votes {
			votes[i] = says(votes[i].Voter, i+1, true)
		}
		if got, want := Advance(p, votes, start.Add(time.Second)).Status == Approved, ref.enough(votes); got != want {
			t.Fatalf("%v in this order: approved %t, want %t", votes, got, want)
		}
	})
}

// TestPossibleIsAsTheReferenceSays: it is possible exactly if some of the people
// could still complete it, by any of their accounts, and then they can.
func TestPossibleIsAsTheReferenceSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawQuorum(t)
		ref := reference{p}
		crowd := drawCrowd(t, 6)
		var facts []Fact
		for i := range rapid.IntRange(0, 5).Draw(t, "said") {
			f := says(rapid.SampledFrom(crowd).Draw(t, "who"), i+1, often(t, "yes", 6))
			if often(t, "for another", 1) {
				f.Voter.Via = []Voter{rapid.SampledFrom(crowd).Draw(t, "whom")}
			}
			if Admit(p, facts, f, f.At) == nil {
				facts = append(facts, f)
			}
		}
		now := start.Add(time.Second)
		if Advance(p, facts, now).Status != Pending {
			t.Skip("it is over already")
		}
		want := false
		for chosen := range 1 << len(crowd) {
			also, ok := slices.Clone(facts), true
			for i, v := range crowd {
				if chosen&(1<<i) == 0 {
					continue
				}
				f := says(v, 2000+i, true)
				if Admit(p, also, f, f.At) != nil {
					ok = false
					break
				}
				also = append(also, f)
			}
			if ok && Advance(p, also, start.Add(time.Minute-1)).Status == Approved {
				want = true
				// The last yes of everybody who has not said no since.
				var yes []Fact
				for _, f := range also {
					yes = slices.DeleteFunc(yes, func(y Fact) bool { return !f.Yes && shareVoice(y.Voter, f.Voter) })
					if f.Yes {
						yes = append(yes, f)
					}
				}
				if !ref.enough(yes) {
					t.Fatalf("%v complete it, and by the reference do not", yes)
				}
				break
			}
		}
		if got := Possible(p, facts, crowd, now); got != want {
			t.Fatalf("after %v: possible %t, want %t", facts, got, want)
		}
	})
}
