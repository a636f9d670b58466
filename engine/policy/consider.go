package policy

import (
	"slices"
	"time"
)

// The names by which a rule's trust_claims says which claims it believes.
const (
	claimEnvironment = "environment"
	claimProvider    = "provider"
	claimLabels      = "data_labels"
	claimUserInput   = "user_input"
)

var claimNames = []string{claimEnvironment, claimProvider, claimLabels, claimUserInput}

// Consider says what the bundle makes of a call whose Claims nobody has
// confirmed: the decisions of every rule that decides it if the claims that it
// looks at are true, or if they are not. All of them count together, so that no
// claim, true or false, made or left out, is answered more loosely than the
// same call without it.
//
// Rules are tried in their order. One whose conditions hold whatever is claimed
// ends the list, as it does in Decide; one that depends on a claim is in it, and
// the rules behind it are tried as well. A rule's trust_claims name the claims
// that it takes for true. Without claims the list is Decide's decision alone.
func (b *Bundle) Consider(r *Request, now time.Time) []Decision {
	if r.Claims.none() || b.Expired(now) {
		return []Decision{b.Decide(r, now)}
	}
	v := views{without: search{request: r, effort: maxEffort}, with: search{request: r.with(), effort: maxEffort}}
	var (
		c    candidates
		list []Decision
	)
	b.index.find(r.Tool, &c)
	for i := c.next(); i >= 0; i = c.next() {
		rule := &b.rules[i]
		perhaps, surely := rule.consider(&v)
		switch {
		case perhaps == unknown:
			return append(list, tooLong)
		case surely == yes:
			return append(list, rule.decision)
		case perhaps == yes:
			list = append(list, rule.decision)
		}
	}
	return append(list, b.fallback)
}

// views are a call with and without its claims.
type views struct{ without, with search }

// consider reports whether the rule's conditions hold for some of the claims,
// and whether they do for all of them.
func (r *rule) consider(v *views) (perhaps, surely truth) {
	if !r.registered(v.without.request) {
		return no, no
	}
	perhaps, surely = yes, yes
	for _, c := range []struct {
		claim string
		holds func(*search) truth
	}{
		{claimEnvironment, func(s *search) truth { return truthOf(r.inEnvironment(s.request)) }},
		{claimProvider, func(s *search) truth { return truthOf(r.fromProvider(s.request)) }},
		{claimLabels, func(s *search) truth { return truthOf(r.when.labelled(s.request)) }},
		{claimUserInput, func(s *search) truth {
			if t := r.when.argumentsHold(s); t != yes {
				return t
			}
			return r.when.textHolds(s)
		}},
	} {
		with := c.holds(&v.with)
		without := with
		if !slices.Contains(r.believes, c.claim) {
			without = c.holds(&v.without)
		}
		switch {
		case with == unknown || without == unknown:
			return unknown, unknown
		case with == no && without == no:
			return no, no
		case with != without:
			surely = no
		}
	}
	return perhaps, surely
}
