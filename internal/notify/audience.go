package notify

import (
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/store"
)

// adminRole is the role of those who can do something about what nobody else can.
const adminRole = "admin"

// audience finds out whom something concerns, asking the store once for all that
// is told at one time.
type audience struct {
	change *store.Change
	loaded bool
	people []engine.Person
	// could are those who could act on the approval now.
	could []engine.Person
}

// addresses lists where a notification goes at an endpoint: mail addresses, push
// subscriptions, or "" where the endpoint itself is the only one.
func (u *audience) addresses(kind string, s Settings, what approval.Notification) ([]string, error) {
	if kind == Push {
		return u.browsers(what)
	}
	if kind != Email {
		return []string{""}, nil
	}
	var list []string
	add := func(address string) {
		if address != "" && !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	if !slices.Contains(s.To, Reviewers) && !s.Own {
		return s.To, nil
	}
	if err := u.load(); err != nil {
		return nil, err
	}
	for _, to := range s.To {
		switch {
		case to == Reviewers:
			for _, p := range u.recipients(what) {
				add(p.Email)
			}
		case !s.Own || u.part(to):
			add(to)
		}
	}
	return list, nil
}

// browsers lists the push subscriptions of those who are told.
func (u *audience) browsers(what approval.Notification) ([]string, error) {
	if err := u.load(); err != nil {
		return nil, err
	}
	var ids []string
	for _, p := range u.recipients(what) {
		ids = append(ids, p.ID)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return u.change.PushSubscriptions(ids)
}

func (u *audience) load() error {
	if u.loaded {
		return nil
	}
	u.loaded = true
	var err error
	if u.people, err = u.change.Everybody(); err != nil {
		return err
	}
	deputies, err := u.change.Deputies()
	if err != nil {
		return err
	}
	a := u.change.Approval
	for _, p := range u.people {
		voter := approval.Voter{Identity: p.Identity, Roles: p.Roles, Active: !p.Disabled}
		may := u.proves(p) || a.MayVote(voter, u.change.Now) == nil
		if !may && deputies[p.ID] {
			chains, err := u.change.StandsIn(p.ID)
			if err != nil {
				return err
			}
			may = slices.ContainsFunc(chains, func(chain store.Chain) bool {
				voter.Via = chain.Voter
				return a.MayVote(voter, u.change.Now) == nil
			})
		}
		if may {
			u.could = append(u.could, p)
		}
	}
	return nil
}

// proves reports whether the person could prove who they are, where that is what
// the approval waits for.
func (u *audience) proves(p engine.Person) bool {
	a := u.change.Approval
	return !a.Status.Terminal() && a.State.Stage < len(a.Plan.Requirements) && a.Plan.Requirements[a.State.Stage].Kind.Traits().Discharger == engine.Accountable &&
		slices.Contains(a.Plan.Accountable, p.Identity)
}

// recipients lists the people who are told when reviewers are: those who could do
// something about it.
func (u *audience) recipients(what approval.Notification) []engine.Person {
	administers := func(p engine.Person) bool { return p.Has(adminRole) }
	switch what.Kind {
	case engine.NotifyOpened, engine.NotifyStage, engine.NotifyEdited:
		first := u.suggested(what.Stage)
		if slices.ContainsFunc(u.could, first) {
			return filter(u.could, first)
		}
		return u.could
	case engine.NotifyReminder, engine.NotifyEscalated, engine.NotifyInfoGiven:
		first := u.suggested(what.Stage)
		return append(filter(u.could, first), filter(u.could, func(p engine.Person) bool { return !first(p) })...)
	case engine.NotifyPassedOn:
		return filter(u.could, func(p engine.Person) bool { return u.has(p, what) })
	case engine.NotifyInfoRequested:
		return filter(u.people, u.answers)
	case engine.NotifyDecided:
		return filter(u.people, func(p engine.Person) bool { return u.answers(p) || u.took(p) })
	case engine.NotifyNobodyEligible:
		return filter(u.people, administers)
	case engine.NotifyBreakGlass:
		return append(u.eligible(what), filter(u.people, administers)...)
	case engine.NotifyExecutionUnknown:
		return filter(u.people, func(p engine.Person) bool { return administers(p) || u.answers(p) })
	case engine.NotifyReviewOwed:
		may := u.eligible(what)
		if len(may) == 0 {
			return filter(u.people, func(p engine.Person) bool { return administers(p) && !u.brokeGlass(p) })
		}
		return may
	case engine.NotifyDigest, engine.NotifyTest, engine.NotifyAccessReview: // about no approval
	}
	return nil
}

// suggested tells whom the requirement at a stage suggests to ask first.
func (u *audience) suggested(stage int) func(engine.Person) bool {
	var list []string
	for i, r := range u.change.Approval.Plan.Requirements {
		if i == stage || u.change.Approval.State.Requirements[i].Status == approval.Waiting {
			list = append(list, r.Suggested...)
		}
	}
	return func(p engine.Person) bool { return slices.Contains(list, p.Email) }
}

// eligible lists those who have a role that the approval asks for, are not of the
// requesting side and did not break the glass themselves.
func (u *audience) eligible(what approval.Notification) []engine.Person {
	a := u.change.Approval
	asked := roles(a, what)
	return filter(u.people, func(p engine.Person) bool {
		return slices.ContainsFunc(asked, p.Has) && !slices.Contains(a.Plan.Excluded, p.Identity) && !u.brokeGlass(p)
	})
}

// answers reports whether the person answers for the call.
func (u *audience) answers(p engine.Person) bool {
	return slices.Contains(u.change.Approval.Plan.Accountable, p.Identity)
}

// has reports whether the person has the approval by the very claim that is told of.
func (u *audience) has(p engine.Person, what approval.Notification) bool {
	claim := u.change.Approval.State.Claim
	return claim != nil && claim.Claimant() == p.ID && what.Key == claim.PassedOnKey()
}

// took reports whether the person took part.
func (u *audience) took(p engine.Person) bool {
	return slices.ContainsFunc(u.change.Approval.Facts, func(f approval.Fact) bool { return f.Actor.Kind == engine.HumanActor && f.Actor.ID == p.ID })
}

func (u *audience) brokeGlass(p engine.Person) bool {
	return slices.ContainsFunc(u.change.Approval.Facts, func(f approval.Fact) bool { return f.Kind == approval.BreakGlass && f.Voter.Identity == p.Identity })
}

// part reports whether the person with the address has anything to do with it.
func (u *audience) part(address string) bool {
	mine := func(p engine.Person) bool { return p.Email == address }
	return slices.ContainsFunc(u.could, mine) ||
		slices.ContainsFunc(u.people, func(p engine.Person) bool { return mine(p) && (u.took(p) || u.answers(p)) })
}

func filter(people []engine.Person, keep func(engine.Person) bool) []engine.Person {
	var list []engine.Person
	for _, p := range people {
		if keep(p) {
			list = append(list, p)
		}
	}
	return list
}
