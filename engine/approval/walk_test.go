package approval

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
)

// visible is everything of a state that somebody can see.
func visible(s State) string {
	seq := func(f *Fact) int64 {
		if f == nil {
			return 0
		}
		return f.Seq
	}
	var counted []int64
	for _, f := range s.Counted {
		counted = append(counted, f.Seq)
	}
	return fmt.Sprint(s.Status, s.At, s.Stage, s.ExpiresAt, s.Requirements, seq(s.Decisive), seq(s.Question), s.PausedUntil, seq(s.Claim),
		seq(s.Ticket), seq(s.Checked), s.Broken, s.Owed, counted, len(s.Due))
}

// walk is an approval as the gate sees it: facts that were admitted, read again
// and again with the standing that people have by then.
type walk struct {
	*rapid.T
	p       Plan
	facts   []Fact
	now     time.Time
	seq     int64
	world   map[string]Voter
	changed bool // somebody's standing has changed since their facts came
}

// TestRandomWalks takes random walks through approvals the way the gate does — admit,
// then append — and holds every step against what must always be true.
func TestRandomWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &walk{T: t, world: maps.Clone(people)}
		w.p = drawPlan(t, rapid.SampledFrom([]time.Time{start, beforeDST}).Draw(t, "opened"))
		w.now = w.p.OpenedAt
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			before := Advance(w.p, w.facts, w.now)
			w.now = w.now.Add(drawPause(t, before, w.now))
			state := Advance(w.p, w.facts, w.now)
			w.check(state)
			if before.Status != Pending && visible(before) != visible(state) {
				t.Fatalf("what has ended became another:\n%s\n%s", visible(before), visible(state))
			}
			switch step := rapid.IntRange(0, 19).Draw(t, "step"); {
			case step == 0 && state.Status == Pending:
				w.standing()
			case step == 1 && state.Status == Pending:
				w.edit(state)
			default:
				w.contribute(state)
			}
		}
		w.check(Advance(w.p, w.facts, w.now))
		w.payloadOf(Advance(w.p, w.facts, w.now))
		w.ends()
	})
}

// standing changes what somebody may do, for what they have said already too.
func (w *walk) standing() {
	who := rapid.SampledFrom(names).Draw(w.T, "whose")
	v := w.world[who]
	if rapid.Bool().Draw(w.T, "role") {
		v.Roles = rapid.SampledFrom([][]string{nil, {"a"}, {"b"}, {"a", "b", BreakGlassRole}}).Draw(w.T, "roles")
	} else {
		v.Active = !v.Active
	}
	w.world[who], w.changed = v, true
	for i := range w.facts {
		w.facts[i].Voter = w.stands(w.facts[i])
	}
}

// stands is how those behind a fact stand by now.
func (w *walk) stands(f Fact) Voter {
	if f.Actor.Kind != engine.HumanActor {
		return Voter{}
	}
	v := w.world[f.Actor.ID]
	for _, who := range f.Via {
		v.Via = append(v.Via, w.world[who])
	}
	return v
}

// edit begins a new edition, in which nothing of the former counts.
func (w *walk) edit(s State) {
	next := drawPlan(w.T, w.p.OpenedAt)
	next.Edition, next.BeganAt, next.ExpiresAt = w.p.Edition+1, w.now, s.ExpiresAt
	w.p = next
	with, without := Advance(w.p, w.facts, w.now), Advance(w.p, nil, w.now)
	if visible(with) != visible(without) {
		w.Fatalf("facts of former editions count:\n%s\n%s", visible(with), visible(without))
	}
}

// erased are the facts as they are once what was said has been erased.
func (w *walk) erased() []Fact {
	facts := slices.Clone(w.facts)
	for i := range facts {
		f := &facts[i]
		if f.Comment != "" {
			f.Comment = "[erased]" // as erase_approval writes it
		}
		f.Details.Digest = ""
		if f.Details.Ticket != nil {
			ticket := *f.Details.Ticket
			ticket.Title, f.Details.Ticket = "", &ticket
		}
	}
	return facts
}

// contribute tries to add a fact.
func (w *walk) contribute(before State) {
	f := drawFact(w.T, w.p, before, w.now)
	w.seq++
	f.Seq, f.At, f.Edition = w.seq, w.now, w.p.Edition
	f.Voter = w.stands(f)
	err := Admit(w.p, w.facts, f, w.now)
	with := Advance(w.p, append(slices.Clone(w.facts), f), w.now)
	if err != nil {
		if visible(with) != visible(before) {
			w.Fatalf("refused (%v), and yet %+v changes\n%s to\n%s", err, f, visible(before), visible(with))
		}
		if over := errors.Is(err, ErrDecided) || errors.Is(err, ErrExpired); over != (before.Status != Pending) {
			w.Fatalf("an approval that is %s refuses with %v", before.Status, err)
		}
		return
	}
	switch {
	case before.Status != Pending:
		w.Fatalf("a fact was admitted to an approval that is %s", before.Status)
	case visible(with) == visible(before) && f.Kind != Comment:
		w.Fatalf("admitted, and yet it changes nothing: %+v", f)
	case visible(with) != visible(before) && f.Kind == Comment:
		w.Fatalf("a comment changes\n%s to\n%s", visible(before), visible(with))
	case with.Status == Expired && (f.Kind != Vote || f.Yes):
		w.Fatalf("%+v makes it expire", f)
	case with.Status == Approved && !f.Yes && f.Kind != BreakGlass:
		w.Fatalf("approved by %+v", f)
	}
	w.facts = append(w.facts, f)
	w.check(with)
}

func (w *walk) check(s State) {
	if erased := Advance(w.p, w.erased(), w.now); visible(erased) != visible(s) {
		w.Fatalf("with its words erased it is another:\n%s\n%s", visible(erased), visible(s))
	}
	switch s.Status {
	case Pending:
		w.checkPending(s)
	case Expired:
		w.checkExpired(s)
	case Approved:
		w.checkApproved(s)
	case Denied:
		if s.Decisive == nil || s.Decisive.Yes || s.Decisive.Edition != w.p.Edition || s.Decisive.Actor.Kind == engine.AgentActor {
			w.Fatalf("denied by %+v", s.Decisive)
		}
	case Cancelled:
		if s.Decisive == nil || s.Decisive.Kind != Cancel {
			w.Fatalf("cancelled by %+v", s.Decisive)
		}
	}
	for i, r := range s.Requirements {
		if r.Given > r.Needed || r.Needed < 1 {
			w.Fatalf("requirement %d has %d of %d", i, r.Given, r.Needed)
		}
	}
	// Whatever order the rows are read in, and whatever is said of other editions.
	shuffled := rapid.Permutation(w.facts).Draw(w.T, "shuffled")
	if got := Advance(w.p, shuffled, w.now); visible(got) != visible(s) {
		w.Fatalf("the order of reading changes\n%s to\n%s", visible(s), visible(got))
	}
	stale := drawFact(w.T, w.p, s, w.now)
	stale.Seq, stale.At, stale.Edition, stale.Voter = w.seq+1, w.now, w.p.Edition-1, w.stands(stale)
	if got := Advance(w.p, append(slices.Clone(w.facts), stale), w.now); stale.Kind != Cancel && visible(got) != visible(s) {
		w.Fatalf("%+v of a former edition changes\n%s to\n%s", stale, visible(s), visible(got))
	}
}

// checkPending: nothing changes before Wake, something does then, and the end
// comes at the deadline and not before it.
func (w *walk) checkPending(s State) {
	w.checkAsking(s)
	if !s.Wake.After(w.now) || s.Wake.After(s.Deadline) || s.Deadline.After(s.ExpiresAt) {
		w.Fatalf("at %s it wakes at %s, with deadlines at %s and %s", w.now, s.Wake, s.Deadline, s.ExpiresAt)
	}
	if r := s.Requirements[s.Stage]; r.Status != Waiting || r.Given >= r.Needed {
		w.Fatalf("stage %d is %+v", s.Stage, r)
	}
	asleep := time.Duration(rapid.Int64Range(0, int64(s.Wake.Sub(w.now))-1).Draw(w.T, "asleep"))
	for _, at := range []time.Time{w.now.Add(asleep), s.Wake.Add(-1)} {
		if got := Advance(w.p, w.facts, at); visible(got) != visible(s) || !got.Wake.Equal(s.Wake) {
			w.Fatalf("before it wakes at %s\n%s became\n%s at %s", s.Wake, visible(s), visible(got), at)
		}
	}
	if got := Advance(w.p, w.facts, s.Wake); visible(got) == visible(s) {
		w.Fatalf("it wakes at %s for nothing: %s", s.Wake, visible(s))
	}
	if got := Advance(w.p, w.facts, s.Deadline.Add(-1)); got.Status != Pending {
		w.Fatalf("%s before the deadline %s", got.Status, s.Deadline)
	}
	if got := Advance(w.p, w.facts, s.Deadline); got.Status != Expired || !got.At.Equal(s.Deadline) {
		w.Fatalf("%s at %s, with the deadline at %s", got.Status, got.At, s.Deadline)
	}
	if s.ExpiresAt.Before(w.p.ExpiresAt) || s.ExpiresAt.After(w.latest()) {
		w.Fatalf("it may last until %s, beyond %s to %s", s.ExpiresAt, w.p.ExpiresAt, w.latest())
	}
}

// checkAsking: whom it asks by Asking is whose yes is admitted, for everybody.
func (w *walk) checkAsking(s State) {
	a := Approval{Plan: w.p, Facts: w.facts, Status: Pending}
	asking := a.Asking(w.now)
	if !asking.Due.Equal(s.Deadline) || asking.Kind != s.Requirements[s.Stage].Kind || (asking.Claimed != "") != (s.Claim != nil) {
		w.Fatalf("%+v is not of %+v", asking, s)
	}
	for _, v := range w.world {
		has := func(list []string) bool { return slices.Contains(list, v.Identity) }
		counts := v.Active && slices.ContainsFunc(v.Roles, func(role string) bool { return slices.Contains(asking.Roles, role) }) && !has(w.p.Excluded) && !has(asking.Spoken)
		if err := a.MayVote(v, w.now); counts != (err == nil) {
			w.Fatalf("%+v asks %+v: %t, and it is %v", asking, v, counts, err)
		}
		// The same of everybody in whose place they may speak.
		for _, other := range w.world {
			if other.Identity == v.Identity || other.Identity == "" {
				continue
			}
			deputy := v
			deputy.Via = []Voter{other}
			both := func(list []string) bool { return has(list) || slices.Contains(list, other.Identity) }
			counts := v.Active && other.Active && slices.ContainsFunc(other.Roles, func(role string) bool { return slices.Contains(asking.Roles, role) }) &&
				!both(w.p.Excluded) && !both(asking.Spoken) && !slices.ContainsFunc(asking.Noes, func(no []string) bool { return both(no) && !has(no) })
			if err := a.MayVote(deputy, w.now); counts != (err == nil) {
				w.Fatalf("%+v asks %+v: %t, and it is %v", asking, deputy, counts, err)
			}
		}
	}
}

// latest is the latest end that there can be.
func (w *walk) latest() time.Time {
	at := w.p.ExpiresAt.Add(time.Duration(w.p.PauseFor))
	for _, f := range w.facts {
		if f.Kind == Extend && f.Edition == w.p.Edition {
			at = at.Add(time.Duration(f.Details.By))
		}
	}
	return at
}

func (w *walk) checkExpired(s State) {
	if s.At.After(w.now) || s.At.After(w.latest()) || s.Decisive != nil {
		w.Fatalf("expired at %s by %v, looked at %s, at the latest %s", s.At, s.Decisive, w.now, w.latest())
	}
	first := w.p.ExpiresAt
	for _, r := range w.p.Requirements {
		if at := w.p.began().Add(time.Duration(r.Within)); r.Within > 0 && at.Before(first) {
			first = at
		}
	}
	if s.At.Before(first) {
		w.Fatalf("expired at %s, and nothing's time is up before %s", s.At, first)
	}
}

// ends: exactly one terminal state once the last deadline has passed, for ever.
func (w *walk) ends() {
	late := Advance(w.p, w.facts, w.latest())
	if late.Status == Pending {
		w.Fatal("pending after the last deadline")
	}
	w.now = w.latest().Add(10000 * time.Hour)
	if later := Advance(w.p, w.facts, w.now); visible(later) != visible(late) {
		w.Fatalf("by mere waiting\n%s became\n%s", visible(late), visible(later))
	}
	f := drawFact(w.T, w.p, late, w.now)
	f.Seq, f.At, f.Edition, f.Voter = w.seq+1, w.now, w.p.Edition, w.stands(f)
	if later := Advance(w.p, append(slices.Clone(w.facts), f), w.now); visible(later) != visible(late) {
		w.Fatalf("%+v afterwards changes\n%s to\n%s", f, visible(late), visible(later))
	}
}
