package evidence

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/web/views"
)

// maxNamed is how many people a requirement names, and maxNotified how many
// notifications a chapter lists.
const (
	maxNamed    = 25
	maxNotified = 200
)

// actorName names an actor.
func actorName(names map[string]string, a engine.Actor) string {
	switch {
	case a.Kind == engine.SystemActor:
		return "Holdpoint"
	case names[a.ID] != "":
		return names[a.ID]
	}
	return a.ID
}

// chapter gathers the story of an approval.
func (k *packing) chapter(ctx context.Context, number int, id string) (views.PackChapter, error) {
	r, err := k.read(ctx, id)
	if err != nil {
		return views.PackChapter{}, err
	}
	if r, err = k.compared(ctx, r); err != nil {
		return views.PackChapter{}, err
	}
	a, names := r.Approval, k.names
	v := k.Present(r.card)
	v.Now = r.Now
	c := views.PackChapter{PackRow: row(number, r.Record, v), Approval: v, Ended: a.EndedAt}
	c.Changed = k.changedWords(r.changes)
	c.Ask.Requests = a.Call.RequestID
	for _, identity := range a.Plan.Excluded {
		who := cmp.Or(names[identity], identity)
		if slices.Contains(a.Plan.ByClaim, identity) {
			who += " (says the agent)"
		}
		c.Ask.Side = append(c.Ask.Side, who)
	}
	if r.more {
		c.Notes = append(c.Notes, "It has more events than a chapter tells; the proof has all of them.")
	}
	if r.refused {
		c.Notes = append(c.Notes, "More of it was refused than a chapter tells; the last refusals are told, and the proof has all of them.")
	}
	if r.card.Document == nil {
		c.Notes = append(c.Notes, "The arguments, and the cards that showed them, have been erased. What the log says of them stays.")
	}
	for _, e := range r.events {
		if !k.within(e.Timestamp) {
			c.Notes = append(c.Notes, "Some of it happened outside the period. It is told here, and the proof at the end does not have it: this approval's own pack does.")
			break
		}
	}
	if err := k.judged(ctx, r, &c); err != nil {
		return c, err
	}
	c.Requirements = k.requirements(a, v)
	notified, err := k.Store.Evidence.Notifications(ctx, id, maxNotified)
	if err != nil {
		return c, err
	}
	for _, t := range notified {
		c.Notifications = append(c.Notifications, views.PackNotification{At: t.At, Where: t.Channel + " " + t.Endpoint, Whose: t.Recipient, What: words(t.Kind), Status: statusWords(t.Status)})
	}
	if err := k.seen(ctx, r, names, &c); err != nil {
		return c, err
	}
	c.Contributions = k.contributions(r, names)
	c.Ran = k.ran(r, names, v.Agent)
	for _, e := range r.events {
		line := views.PackEvent{PackPlace: k.place(e), ID: e.ID, Type: words(string(e.Type)), Outcome: string(e.Outcome), Who: actorName(names, e.Actor)}
		for _, why := range e.Reasons {
			line.Reasons = append(line.Reasons, cmp.Or(why.Message, why.Code))
		}
		c.Log = append(c.Log, line)
	}
	return c, nil
}

func (k *packing) place(e logged) views.PackPlace {
	return views.PackPlace{Seq: e.Seq, At: e.Timestamp, Outside: !k.within(e.Timestamp)}
}

// requirements are what the last edition asks for, with those who could give it.
func (k *packing) requirements(a approval.Approval, v views.Approval) []views.PackRequirement {
	var flat []views.Requirement
	for _, s := range v.Stages {
		flat = append(flat, s.Requirements...)
	}
	var list []views.PackRequirement
	for i, req := range a.Plan.Requirements {
		if i >= len(flat) {
			break
		}
		kind := req.Kind.Traits()
		p := views.PackRequirement{Requirement: flat[i], Nobody: kind.NoPeople}
		p.Short = ""
		switch kind.Discharger {
		case engine.Accountable:
			for _, identity := range a.Plan.Accountable {
				p.Could = append(p.Could, cmp.Or(k.names[identity], identity))
			}
		case engine.Reviewers:
			p.Could = k.could(a, req)
		default: // NoPeople says who
		}
		if p.Nobody == "" && len(p.Could) == 0 {
			p.Nobody = "Nobody could give it as roles are now."
		}
		if n := len(p.Could); n > maxNamed {
			p.Could, p.Others = p.Could[:maxNamed], n-maxNamed
		}
		list = append(list, p)
	}
	return list
}

// could names those who have a role that the requirement asks for, at once or
// later, and are not of the requesting side.
func (k *packing) could(a approval.Approval, r engine.Requirement) []string {
	roles := []string{r.Role}
	for _, g := range r.AnyOf {
		roles = append(roles, g.Role)
	}
	for _, e := range r.Escalation {
		roles = append(roles, e.Role)
	}
	roles = append(roles, a.WidenedTo())
	var list []string
	for _, p := range k.people {
		has := slices.ContainsFunc(roles, func(role string) bool { return role != "" && p.Has(role) })
		if r.Role == "" && len(r.AnyOf) == 0 {
			has = slices.ContainsFunc(p.Roles, func(role string) bool { return role != access.AdminRole && role != access.AuditorRole })
		}
		if has && !p.Disabled && !slices.Contains(a.Plan.Excluded, p.Identity) {
			list = append(list, cmp.Or(p.Name, p.Email))
		}
	}
	slices.Sort(list)
	return list
}

// seen fills in who was shown which card, and the cards.
func (k *packing) seen(ctx context.Context, r record, names map[string]string, c *views.PackChapter) error {
	there := map[string]bool{}
	for _, e := range r.shownCards() {
		c.Shown = append(c.Shown, views.PackShown{PackPlace: k.place(e), Who: actorName(names, e.Actor), Digest: e.payload.Card})
		if there[e.payload.Card] {
			continue
		}
		there[e.payload.Card] = true
		card, err := k.openCard(ctx, r.Approval.ID, e.payload.Card)
		entry := views.PackCard{Digest: e.payload.Card, HTML: string(card)}
		if errors.Is(err, errOther) {
			k.changed++
		}
		if err != nil {
			if entry.Why, err = unshownReason(err); err != nil {
				return err
			}
		}
		c.Cards = append(c.Cards, entry)
	}
	return nil
}

// contributions tells every fact.
func (k *packing) contributions(r record, names map[string]string) []views.PackContribution {
	facts := slices.Clone(r.Approval.Facts)
	slices.SortFunc(facts, func(a, b approval.Fact) int { return int(a.Seq - b.Seq) })
	events, behind := r.factEvents(), map[int64]approval.VoterRecord{}
	if end := r.endEvent(); end != nil {
		for _, b := range end.payload.Ended.Behind {
			for _, seq := range b.Facts {
				behind[seq] = b.VoterRecord
			}
		}
	}
	var list []views.PackContribution
	for _, f := range facts {
		e, logged := events[f.Seq]
		s := views.PackContribution{PackPlace: views.PackPlace{At: f.At, Outside: !logged || !k.within(e.Timestamp)}, Who: actorName(names, f.Actor)}
		if logged {
			s.Seq = e.Seq
		}
		if len(f.Via) > 0 {
			s.For = cmp.Or(names[f.Via[len(f.Via)-1]], f.Via[len(f.Via)-1])
		}
		s.What, s.Kind = factWords(f)
		s.Detail = detailWords(f)
		if v, ok := behind[f.Seq]; ok && len(v.Roles) > 0 {
			s.Detail = append(s.Detail, "Roles when it ended: "+strings.Join(v.Roles, ", ")+map[bool]string{false: "; the account was disabled by then"}[v.Active])
		}
		if f.Edition != r.Approval.Plan.Edition && (f.Kind == approval.Vote || f.Kind == approval.BreakGlass || f.Kind == approval.Reply || f.Kind == approval.Verification) {
			s.Void = "It counts no more: the call, or what was asked for it, changed afterwards."
		}
		s.PackRemark = k.shown(comment(f, e))
		if decides(f) {
			s.Decides, s.Card = true, e.payload.Card
		}
		list = append(list, s)
	}
	return list
}

// shown is what people wrote, for the page.
func (k *packing) shown(r remark) views.PackRemark {
	if r.changed() {
		k.changed++
	}
	m := views.PackRemark{Comment: r.Comment, CommentDigest: r.Digest, Erased: r.Erased, Changed: r.changed()}
	if r.Good {
		m.Salt = r.Salt
	}
	return m
}

// decides reports whether a fact is a person's word on the call, before which they
// may have looked at its card.
func decides(f approval.Fact) bool {
	switch f.Kind { //nolint:exhaustive // the others decide nothing
	case approval.Vote, approval.BreakGlass, approval.Verification, approval.Reply:
		return f.Actor.Kind == engine.HumanActor && f.Details.Grant == ""
	}
	return false
}

// ran tells what came after the approval.
func (k *packing) ran(r record, names map[string]string, agent string) []views.PackLine {
	var list []views.PackLine
	a := r.Approval
	say := func(at time.Time, who, what string, m remark) {
		list = append(list, views.PackLine{At: at, Who: who, What: what, PackRemark: k.shown(m)})
	}
	add := func(at time.Time, who, what string) { say(at, who, what, remark{}) }
	found, review := r.later()
	if t := r.Token; t != nil {
		add(a.EndedAt, "Holdpoint", "made a permission to run it once ("+t.JTI+"), good until "+formatTime(t.ValidUntil)+".")
	}
	for _, e := range r.events {
		if e.Outcome == engine.Deny {
			continue
		}
		switch e.Type { //nolint:exhaustive // the others are told elsewhere
		case engine.Redeemed:
			add(e.Timestamp, agent, "took the permission and started the call.")
		case engine.Executed:
			switch e.Actor.Kind {
			case engine.AgentActor, engine.ServiceActor:
				add(e.Timestamp, agent, "reported: "+reported(e.Event))
			case engine.SystemActor:
				add(e.Timestamp, "Holdpoint", "heard nothing in time: nobody knew then whether it had run.")
			case engine.HumanActor: // comes with what they wrote
			}
		}
	}
	if t := r.Token; t != nil && t.StaleAt != nil {
		add(*t.StaleAt, "Holdpoint", "found that the call did not fit the world any more; it can never run.")
	}
	if x := r.card.Reconciled; x != nil {
		say(x.At, cmp.Or(names[x.PersonID], x.PersonID), "found out that the call "+outcomeWords(x.Outcome)+".", found)
	}
	if w := r.card.BreakGlassReview; w != nil {
		if w.DoneAt == nil {
			add(w.DueSince, "Holdpoint", "asks for somebody to look at it afterwards, because one person broke the glass; nobody has yet.")
		} else {
			what := "says that breaking the glass was justified."
			if !w.Justified {
				what = "says that breaking the glass was not justified."
			}
			say(*w.DoneAt, cmp.Or(names[w.PersonID], w.PersonID), what, review)
		}
	}
	return list
}
