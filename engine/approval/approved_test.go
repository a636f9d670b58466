package approval

import (
	"slices"
	"time"

	"holdpoint/engine"
)

// checkApproved counts for itself whether what approved was enough, and by whom.
func (w *walk) checkApproved(s State) {
	f := s.Decisive
	if f == nil || f.Edition != w.p.Edition || !f.At.Equal(s.At) || !f.At.Before(w.latest()) {
		w.Fatalf("approved by %+v", f)
	}
	for i, c := range s.Counted {
		if c.Actor.Kind != engine.HumanActor || !w.eligible(c.Voter) || c.Edition != w.p.Edition {
			w.Fatalf("%+v counted", c)
		}
		for _, other := range s.Counted[:i] {
			if c.Kind == Vote && other.Kind == Vote && shareVoice(c.Voter, other.Voter) {
				w.Fatalf("a voice counted twice: %+v and %+v", other, c)
			}
		}
		if c.Kind == Vote && !w.changed {
			w.checkNotTakenBack(c)
		}
	}
	for i, r := range s.Requirements {
		if done := r.Status == Satisfied && r.Given == r.Needed; !done && (!s.Broken || i < s.Stage && r.Kind != w.p.Requirements[s.Stage].Kind) {
			w.Fatalf("approved with %+v", r)
		}
	}
	w.checkMachines(s)
	if s.Broken {
		w.checkBroken(s)
		return
	}
	// Votes have to fill all places of some choice of groups, each one of them. An
	// answer may have been the machine's.
	var places []engine.Requirement
	for _, r := range w.p.Requirements {
		if r.Kind == engine.Review || r.Kind == engine.Human || r.Kind == engine.Answer && !w.contributed(Reply) {
			places = append(places, r)
		}
	}
	if !w.fillable(places, s.Counted) {
		w.Fatalf("approved by %+v, which is not enough for %+v", s.Counted, places)
	}
}

// eligible: everybody behind a voice is there, and of no requesting side.
func (w *walk) eligible(v Voter) bool {
	for _, one := range append([]Voter{v}, v.Via...) {
		if !one.Active || one.Identity == "" || slices.Contains(w.p.Excluded, one.Identity) {
			return false
		}
	}
	return true
}

// checkNotTakenBack: nobody has said no after their yes.
func (w *walk) checkNotTakenBack(yes Fact) {
	for _, f := range w.facts {
		if f.Kind == Vote && !f.Yes && f.Edition == yes.Edition && f.Seq > yes.Seq && shareVoice(f.Voter, yes.Voter) {
			w.Fatalf("%+v counted, though taken back by %+v", yes, f)
		}
	}
}

// checkMachines: tickets were looked at, and identities proved, where that was asked.
func (w *walk) checkMachines(s State) {
	for i, r := range w.p.Requirements {
		switch {
		case s.Requirements[i].Status != Satisfied:
		case r.Kind == engine.Answer, r.Kind == engine.Review, r.Kind == engine.Human: // votes
		case r.Kind == engine.Ticket && w.contributed(TicketCheck), r.Kind == engine.StepUp && w.contributed(Verification):
		default:
			w.Fatalf("approved without %s", r.Kind)
		}
	}
}

// contributed reports whether there is a good fact of a kind that people's votes
// cannot replace.
func (w *walk) contributed(kind FactKind) bool {
	return slices.ContainsFunc(w.facts, func(f Fact) bool {
		if f.Kind != kind || !f.Yes || f.Edition != w.p.Edition {
			return false
		}
		if kind == Reply {
			return f.Actor.Kind == engine.ServiceActor
		}
		if kind == TicketCheck {
			return f.Actor.Kind == engine.SystemActor && slices.ContainsFunc(w.facts, func(link Fact) bool {
				return link.Kind == TicketLink && link.Seq < f.Seq && link.Edition == f.Edition && link.Details.Ticket.Ref == f.Details.Ticket.Ref
			})
		}
		proof := f.Details.Proof
		return kind == Verification && f.Actor.Kind == engine.HumanActor && f.Voter.Active && slices.Contains(w.p.Accountable, f.Voter.Identity) &&
			(proof.Method == "totp" || proof.Method == "passkey") && f.At.Sub(proof.At) <= 5*time.Minute
	})
}

func (w *walk) checkBroken(s State) {
	who := map[string]bool{}
	for _, f := range s.Counted {
		if f.Kind != BreakGlass {
			continue
		}
		if who[f.Voter.Identity] || len(f.Voter.Via) > 0 || !slices.Contains(f.Voter.Roles, BreakGlassRole) || f.Comment == "" || f.At.Sub(f.Details.Proof.At) > 5*time.Minute {
			w.Fatalf("the glass was broken by %+v", f)
		}
		who[f.Voter.Identity] = true
	}
	alone := s.Decisive.Details.Alone && len(who) == 1
	if s.Decisive.Kind != BreakGlass || s.Owed != alone || len(who) < 2 && !alone {
		w.Fatalf("the glass was broken by %v, alone %t, owed %t", who, alone, s.Owed)
	}
	if kind := w.p.Requirements[s.Stage].Kind; kind == engine.Answer || kind == engine.StepUp {
		w.Fatalf("breaking the glass skipped %s", kind)
	}
}

// fillable tries every choice of groups and every assignment of votes.
func (w *walk) fillable(left []engine.Requirement, votes []Fact) bool {
	if len(left) == 0 {
		return true
	}
	r := left[0]
	groups := r.AnyOf
	if len(groups) == 0 {
		groups = []engine.Group{{Role: r.Role, Needed: r.Needed}}
	}
	return slices.ContainsFunc(groups, func(g engine.Group) bool {
		return w.assign(r, g.Role, g.Needed, 0, votes, func(rest []Fact) bool { return w.fillable(left[1:], rest) })
	})
}

// assign takes needed of the votes from the one at from on for the requirement.
func (w *walk) assign(r engine.Requirement, role string, needed, from int, votes []Fact, then func(rest []Fact) bool) bool {
	if needed == 0 {
		return then(votes)
	}
	for i := from; i < len(votes); i++ {
		if !w.mayCount(r, role, votes[i]) {
			continue
		}
		rest := slices.Delete(slices.Clone(votes), i, i+1)
		if w.assign(r, role, needed-1, i, rest, then) {
			return true
		}
	}
	return false
}

// mayCount: a voice with the role, or with one to which it can have escalated.
func (w *walk) mayCount(r engine.Requirement, role string, f Fact) bool {
	if f.Kind != Vote || !f.Yes {
		return false
	}
	if r.Kind == engine.Human && (f.Details.Grant != "" || f.Details.Proof == nil || f.At.Sub(f.Details.Proof.At) > 5*time.Minute) {
		return false
	}
	roles := f.Voter.Roles
	if n := len(f.Voter.Via); n > 0 {
		roles = f.Voter.Via[n-1].Roles
	}
	if slices.Contains(roles, role) {
		return true
	}
	atOnce := slices.ContainsFunc(w.facts, func(e Fact) bool { return e.Kind == Escalate && e.Seq < f.Seq && e.Edition == f.Edition })
	return slices.ContainsFunc(r.Escalation, func(e engine.Escalation) bool {
		return slices.Contains(roles, e.Role) && (atOnce || !f.At.Before(w.p.began().Add(time.Duration(e.After))))
	})
}
