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
	if !r.inEnvironment(s.request) || !r.fromProvider(s.request) || !r.registered(s.request) {
		return no
	}
	if t := r.when.argumentsHold(s); t != yes {
		return t
	}
	if !r.when.labelled(s.request) {
		return no
	}
	return r.when.textHolds(s)
}

func (r *rule) inEnvironment(q *Request) bool {
	return r.environment == wildcard || r.environment == q.Environment
}

func (r *rule) fromProvider(q *Request) bool { return memberOrNone(r.providers, q.Provider) }

// registered is the conditions on what is registered of agent and tool.
func (r *rule) registered(q *Request) bool {
	return (r.toolRegistered == nil || *r.toolRegistered == q.ToolRegistered) &&
		memberOrNone(r.categories, &q.ToolCategory) &&
		memberOrNone(r.riskDomains, &q.ToolRiskDomain) &&
		memberOrNone(r.agentTypes, q.AgentType) &&
		trusted(r.trust, q.TrustLevel) &&
		overlapOrNone(r.roles, q.Roles)
}

func (w *conditions) argumentsHold(s *search) truth {
	for i := range w.args {
		if t := w.args[i].holds(s); t != yes {
			return t
		}
	}
	return yes
}

func (w *conditions) labelled(q *Request) bool { return overlapOrNone(w.labels, q.DataLabels) }

// textHolds is the conditions on the searched text.
func (w *conditions) textHolds(s *search) truth {
	if t := w.findsAny(s); t != yes {
		return t
	}
	if t := w.findsNone(s); t != yes {
		return t
	}
	return w.findsPattern(s)
}

// memberOrNone reports whether the call says one of the names; nil is no
// condition.
func memberOrNone(names []string, given *string) bool {
	return names == nil || given != nil && *given != "" && slices.Contains(names, *given)
}

func trusted(least int, level *string) bool {
	return least < 0 || level != nil && trustOrdinal(*level) >= least
}

// overlapOrNone reports whether the two lists share a text; an empty condition
// is none.
func overlapOrNone(condition, given []string) bool {
	return len(condition) == 0 || slices.ContainsFunc(condition, func(s string) bool { return slices.Contains(given, s) })
}
