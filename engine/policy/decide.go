package policy

import (
	"slices"
	"time"

	"holdpoint/engine"
)

// Decide says what the bundle makes of a call. The first rule in the bundle's
// order whose conditions all hold decides, and the default if there is none.
// An expired bundle refuses every call with CodeExpired. A call with so much
// text that a rule cannot be held against it in bounded time is refused with
// CodeTextTooLong: to pass over a DENY rule would let the call through, to
// pass over an ALLOW rule might leave it to a looser one, and to take either
// as matched would be a guess. Rules that fail for another reason, or come
// behind the one that decides, do not look at the text.
//
// Without text conditions Decide allocates nothing.
func (b *Bundle) Decide(r *Request, now time.Time) Decision {
	if b.Expired(now) {
		return expired
	}
	s := search{request: r, effort: maxEffort}
	var c candidates
	b.index.find(r.Tool, &c)
	for i := c.next(); i >= 0; i = c.next() {
		switch b.rules[i].holds(&s) {
		case yes:
			return b.rules[i].decision
		case unknown:
			return tooLong
		case no:
		}
	}
	return b.fallback
}

var (
	expired = Decision{
		Outcome: engine.Deny,
		Reasons: []engine.Reason{{Code: CodeExpired, Message: "The policy bundle has expired; no call is let through until there is a new one."}},
	}
	tooLong = Decision{
		Outcome: engine.Deny,
		Reasons: []engine.Reason{{Code: CodeTextTooLong, Message: "The call holds too much text to be searched by the rules that it has to pass."}},
	}
)

// truth is whether a condition holds.
type truth uint8

const (
	no truth = iota
	yes
	unknown // it would take too long to say
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// holds reports whether all conditions of the rule hold, those on the tool name
// excepted: the index has seen to them. Cheap ones come first.
func (r *rule) holds(s *search) truth {
	if !r.matches(s.request) {
		return no
	}
	w := &r.when
	for i := range w.args {
		if t := w.args[i].holds(s); t != yes {
			return t
		}
	}
	if !overlapOrNone(w.labels, s.request.DataLabels) {
		return no
	}
	if t := w.findsAny(s); t != yes {
		return t
	}
	if t := w.findsNone(s); t != yes {
		return t
	}
	return w.findsPattern(s)
}

// matches is the conditions of match but the tool name.
func (r *rule) matches(q *Request) bool {
	return (r.environment == wildcard || r.environment == q.Environment) &&
		memberOrNone(r.dialects, &q.Dialect) &&
		memberOrNone(r.agentTypes, q.AgentType) &&
		memberOrNone(r.providers, q.Provider) &&
		trusted(r.trust, q.TrustLevel) &&
		overlapOrNone(r.roles, q.Roles)
}

// memberOrNone reports whether the call says one of the names; nil is no
// condition.
func memberOrNone(names []string, said *string) bool {
	return names == nil || said != nil && slices.Contains(names, *said)
}

func trusted(least int, level *string) bool {
	return least < 0 || level != nil && trustOrdinal(*level) >= least
}

// overlapOrNone reports whether the two lists share a text; an empty condition
// is none.
func overlapOrNone(condition, said []string) bool {
	return len(condition) == 0 || slices.ContainsFunc(condition, func(s string) bool { return slices.Contains(said, s) })
}
