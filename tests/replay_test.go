package tests

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ending is what the facts of an approval come to. The deadline is that of what
// was still waited for.
type ending struct {
	status   string // approved, denied, cancelled; "" when nothing ended it
	why      string // it is not approved
	deadline time.Time
	alone    bool // one person broke the glass
}

// walk is an approval as its facts bring it about, by the rules that the design
// gives, written down a second time.
type walk struct {
	a        approvalRow
	overall  time.Time
	since    time.Time
	lo, hi   int // the requirements that are waited for
	shift    time.Duration
	paused   time.Duration
	extended time.Duration
	// open is when a question began to stop the clock, and for how long at most.
	open   time.Time
	openBy time.Duration

	yes, no, broke []factRow
	former         []factRow // the votes that carried turns which are over
	escalated      int64     // the fact by which it was, at once
	widened        factRow   // the fact by which claims were made up for
	ticket         bool
}

// freshFor is how old a proof of who somebody is may be.
const freshFor = 5 * time.Minute

// replay walks the facts of an approval's last edition.
func (a approvalRow) replay(facts []factRow) ending {
	facts = slices.Clone(facts)
	slices.SortFunc(facts, func(x, y factRow) int { return int(x.seq - y.seq) })
	w := walk{a: a, overall: a.expires, since: a.began}
	if w.since.IsZero() {
		w.since = a.opened
	}
	if len(a.requirements) == 0 {
		return ending{why: "nothing is required"}
	}
	w.turn(0, w.since)
	for _, f := range facts {
		if f.edition != 0 && f.edition != a.edition && f.kind != "cancel" {
			continue
		}
		if limit := w.deadline(); !f.at.Before(limit) {
			break
		}
		if end, over := w.take(f); over {
			return end
		}
		for w.lo < len(a.requirements) && w.done() {
			if w.hi == len(a.requirements) {
				return ending{status: "approved"}
			}
			w.turn(w.hi, f.at)
		}
	}
	return ending{why: fmt.Sprintf("requirement %d of %d is not met", w.lo+1, len(a.requirements)), deadline: w.deadline()}
}

// turn makes the next requirements the ones that are waited for: reviews that
// follow each other together, and so decisions of people.
func (w *walk) turn(i int, since time.Time) {
	w.lo, w.hi, w.since, w.shift = i, i+1, since, 0
	w.former = append(w.former, w.yes...)
	kind := w.a.requirements[i].Kind
	for (kind == "review" || kind == "human") && w.hi < len(w.a.requirements) && w.a.requirements[w.hi].Kind == kind {
		w.hi++
	}
	w.yes, w.escalated, w.widened, w.ticket = nil, 0, factRow{}, false
}

func (w *walk) kind() string { return w.a.requirements[w.lo].Kind }

// take lets one fact count, if it does.
func (w *walk) take(f factRow) (ending, bool) {
	switch f.kind {
	case "cancel":
		return ending{status: "cancelled"}, true
	case "vote":
		return w.vote(f)
	case "answer":
		// A person supplies what a form asks for; a program confirms, too.
		supplies := f.actorKind == "human" && w.a.requirements[w.lo].Form != nil && !w.gone(f) &&
			(slices.Contains(w.a.terms.Accountable, f.identity) || slices.Contains(f.roles, w.a.requirements[w.lo].Role) && !slices.Contains(w.a.excluded, f.identity))
		if w.kind() == "answer" && (f.actorKind == "service" || supplies) {
			if !f.yes {
				return ending{status: "denied"}, true
			}
			w.ticket = true
		}
	case "verification":
		if w.kind() != "step_up" || f.actorKind != "human" || w.gone(f) || !slices.Contains(w.a.terms.Accountable, f.identity) {
			break
		}
		if !f.yes {
			return ending{status: "denied"}, true
		}
		w.ticket = f.fresh() && f.details.Proof.Method != "password"
	case "ticket_check":
		w.ticket = w.ticket || w.kind() == "ticket" && f.yes && f.actorKind == "system"
	case "break_glass":
		return w.breakGlass(f)
	case "question":
		left := duration(w.a.terms.PauseFor) - w.paused
		if w.open = f.at; left > 0 {
			w.openBy, w.paused, w.shift, w.overall = left, w.paused+left, w.shift+left, w.overall.Add(left)
		}
	case "information":
		if unused := w.open.Add(w.openBy).Sub(f.at); w.openBy > 0 && unused > 0 {
			w.paused, w.shift, w.overall = w.paused-unused, w.shift-unused, w.overall.Add(-unused)
		}
		w.openBy = 0
	case "extend":
		if slices.ContainsFunc(w.a.terms.Extenders, func(role string) bool { return slices.Contains(f.roles, role) }) && !w.excluded(f) {
			w.extended, w.overall = w.extended+duration(f.details.By), w.overall.Add(duration(f.details.By))
		}
	case "escalate":
		switch {
		case f.actorKind != "system":
		case len(f.details.Widened) == 0:
			w.escalated = f.seq
		case len(w.a.terms.ByClaim) > 0: // nothing else widens
			w.widened = f
		}
	}
	return ending{}, false
}

func (w *walk) vote(f factRow) (ending, bool) {
	if f.actorKind != "human" || f.identity == "" || f.unfounded || w.gone(f) || w.excluded(f) {
		return ending{}, false
	}
	same := func(other factRow) bool {
		return slices.ContainsFunc(f.voices(), func(who string) bool { return slices.Contains(other.voices(), who) })
	}
	if f.yes {
		human := w.kind() == "human"
		if w.kind() == "step_up" || w.kind() == "ticket" || slices.ContainsFunc(w.yes, same) || human && (!f.fresh() || f.details.Grant != "") {
			return ending{}, false
		}
		w.no, w.yes = slices.DeleteFunc(w.no, same), append(w.yes, f)
		return ending{}, false
	}
	w.yes, w.broke = slices.DeleteFunc(w.yes, same), slices.DeleteFunc(w.broke, same)
	if slices.ContainsFunc(w.former, same) {
		return ending{status: "denied"}, true // it lacks somebody, and there is no way back
	}
	if !slices.ContainsFunc(w.no, same) {
		w.no = append(w.no, f)
	}
	for i, r := range w.a.requirements {
		noes := 0
		for _, n := range w.no {
			if w.fits(i, n) {
				noes++
			}
		}
		if noes >= max(r.Deny, 1) {
			return ending{status: "denied"}, true
		}
	}
	return ending{}, false
}

func (w *walk) breakGlass(f factRow) (ending, bool) {
	if f.actorKind != "human" || w.gone(f) || w.excluded(f) || !slices.Contains(f.roles, "break-glass") || len(f.via) > 0 || !f.fresh() ||
		strings.TrimSpace(f.comment) == "" || w.kind() == "answer" || w.kind() == "step_up" {
		return ending{}, false
	}
	two := slices.ContainsFunc(w.broke, func(b factRow) bool { return b.identity != f.identity })
	if w.broke = append(w.broke, f); two || f.details.Alone {
		return ending{status: "approved", alone: !two}, true
	}
	return ending{}, false
}

// done reports whether what is waited for is there: different people in all
// places, whichever of several groups they make up.
func (w *walk) done() bool {
	if w.kind() == "step_up" || w.kind() == "ticket" {
		return w.ticket
	}
	return w.kind() == "answer" && w.ticket || w.filled(w.hi)
}

// filled reports whether different people fill all places of the requirements
// from the first that is waited for to the one before until, in order of time.
func (w *walk) filled(until int) bool {
	return w.fill(w.inTime()[:until-w.lo], nil, nil)
}

// inTime are the requirements that are waited for, those that have least time
// first.
func (w *walk) inTime() []int {
	var order []int
	for i := w.lo; i < w.hi; i++ {
		order = append(order, i)
	}
	within := func(i int) time.Duration {
		if d := duration(w.a.requirements[i].Within); d > 0 {
			return d
		}
		return 1 << 62
	}
	slices.SortStableFunc(order, func(x, y int) int { return int(within(x)/time.Microsecond) - int(within(y)/time.Microsecond) })
	return order
}

// fill tries every way to put different people in the places: slow, and plain.
func (w *walk) fill(requirements []int, places [][2]any, used []int) bool {
	if len(places) == 0 {
		if len(requirements) == 0 {
			return true
		}
		r := w.a.requirements[requirements[0]]
		groups := r.AnyOf
		if len(groups) == 0 {
			groups = []group{{r.Role, r.Needed}}
		}
		for _, g := range groups {
			var more [][2]any
			for range g.Needed {
				more = append(more, [2]any{requirements[0], g.Role})
			}
			if w.fill(requirements[1:], more, used) {
				return true
			}
		}
		return false
	}
	for k, f := range w.yes {
		role := places[0][1].(string)
		if slices.Contains(used, k) || !w.has(places[0][0].(int), role, f) {
			continue
		}
		if w.fill(requirements, places[1:], append(slices.Clone(used), k)) {
			return true
		}
	}
	return false
}

// has reports whether the voter has the role, or one to which the requirement was
// escalated by the time of the vote.
func (w *walk) has(i int, role string, f factRow) bool {
	roles := f.roles
	if len(f.via) > 0 {
		roles = f.speaker
	}
	if slices.Contains(roles, role) {
		return true
	}
	for _, e := range w.a.requirements[i].Escalation {
		due := w.a.requirements[i].Calendar != "" || !f.at.Before(w.since.Add(duration(e.After)))
		if slices.Contains(roles, e.Role) && (due || w.escalated > 0 && f.seq > w.escalated) {
			return true
		}
	}
	return w.widened.seq > 0 && f.seq > w.widened.seq && slices.Contains(w.widened.details.Widened, i) && slices.Contains(roles, w.a.terms.IfTooFew)
}

// fits reports whether the person has a say in requirement i.
func (w *walk) fits(i int, f factRow) bool {
	r := w.a.requirements[i]
	if r.Kind == "step_up" || r.Kind == "ticket" {
		return false
	}
	for _, g := range append([]group{{r.Role, r.Needed}}, r.AnyOf...) {
		if g.Role != "" && (w.has(i, g.Role, f) && i >= w.lo && i < w.hi || slices.Contains(append(slices.Clone(f.roles), f.speaker...), g.Role)) {
			return true
		}
	}
	return false
}

// deadline is when the first of the requirements that nobody has met is over.
// What counts in business hours only is not over before the whole is.
func (w *walk) deadline() time.Time {
	at := w.overall
	for k, i := range w.inTime() {
		r := w.a.requirements[i]
		within := duration(r.Within)
		if within == 0 || r.Calendar != "" || w.filled(w.lo+k+1) {
			continue
		}
		if due := w.since.Add(within + w.extended + w.shift); due.Before(at) {
			at = due
		}
	}
	return at
}

// gone reports whether the person was disabled before the approval ended.
func (w *walk) gone(f factRow) bool {
	return !f.disabled.IsZero() && (w.a.ended.IsZero() || f.disabled.Before(w.a.ended))
}

// excluded reports whether anybody behind the fact belongs to the requesting side.
func (w *walk) excluded(f factRow) bool {
	return slices.ContainsFunc(f.voices(), func(who string) bool { return slices.Contains(w.a.excluded, who) })
}

// voices are the people who speak with the fact.
func (f factRow) voices() []string { return append([]string{f.identity}, f.via...) }

// fresh reports whether the person had just proved who they are.
func (f factRow) fresh() bool {
	p := f.details.Proof
	return p != nil && p.Method != "" && f.at.Sub(p.At) <= freshFor
}

// duration reads what the database writes; "" is none.
func duration(text string) time.Duration {
	d, _ := time.ParseDuration(text) // "" and nonsense are none
	return d
}
