package approval

import (
	"slices"
	"time"

	"holdpoint/engine"
)

// Asking is whom an approval asks at a moment, for an index of inboxes: a yes of a
// person counts exactly if they have one of Roles, are nobody of Plan.Excluded, have
// not Spoken, and stand in for nobody of one of the Noes in which they have no part
// themselves. It is zero for what asks nobody any more.
type Asking struct {
	Roles  []string   // sorted
	Spoken []string   // identities
	Noes   [][]string // the identities that spoke with each no
	Kind   engine.Kind
	// Due is when the first of the waiting requirements' times is up.
	Due time.Time
	// Claimed is the id of the person who has taken it on; "" for nobody.
	Claimed string
}

// stranger is an identity that nobody has.
const stranger = "\x00"

// Asking is whom the approval asks at now.
func (a Approval) Asking(now time.Time) Asking {
	if a.Status.Terminal() {
		return Asking{}
	}
	m := replay(a.Plan, a.Facts, now)
	if m.Status.Terminal() {
		return Asking{}
	}
	asking := Asking{Kind: m.p.Requirements[m.Stage].Kind, Due: m.Deadline}
	if m.Claim != nil {
		asking.Claimed = m.Claim.Claimant()
	}
	f := factAt(now)
	f.Kind, f.Yes, f.Edition, f.Signed = Vote, true, m.p.Edition, true
	f.Actor.Kind, f.Details.Proof = engine.HumanActor, &Proof{Method: "passkey", At: now}
	for i := m.lo; i < m.hi; i++ {
		r := m.p.Requirements[i]
		roles := append([]string{r.Role}, m.escalatedTo(i, f)...)
		for _, g := range r.AnyOf {
			roles = append(roles, g.Role)
		}
		for _, role := range roles {
			f.Voter = Voter{Identity: stranger, Roles: []string{role}, Active: true}
			if role != "" && !slices.Contains(asking.Roles, role) && m.admit(f) == nil {
				asking.Roles = append(asking.Roles, role)
			}
		}
	}
	slices.Sort(asking.Roles)
	for _, yes := range m.yeses {
		asking.Spoken = append(asking.Spoken, yes.Voter.identities()...)
	}
	for _, no := range m.noes {
		asking.Noes = append(asking.Noes, no.Voter.identities())
	}
	return asking
}
