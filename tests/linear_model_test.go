package tests

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The model of one approval for which two of several reviewers have to agree, two
// noes deny it, a question stops the clock for a while, and any reviewer may give
// it more time. It is written down from the design and not taken from the engine.
const (
	linearNeeded = 2
	linearNoes   = 2
	linearPause  = 700 * time.Millisecond
	linearRule   = `    - {tool: "linear_*", role: reviewer, needed: 2, deny: 2, expires_in: 2500ms, pause_for: 700ms, extenders: [reviewer]}` + "\n"
)

// request is what a client asks for: porcupine's input.
type request struct {
	what string // approve, deny, edit, ask, tell, extend, cancel, read
	who  uint   // which reviewer
	// What the client has seen, and what it wants the digest to be.
	digest, becomes string
	version         int
	by              time.Duration
	called          int64
}

// reply is what the client was told: porcupine's output. A reply that never came
// may stand for a request that was done, or will be, or never.
type reply struct {
	unknown bool
	code    string // "" is yes
	at      int64
	seen    *snapshot
}

// snapshot is what an answer shows of an approval.
type snapshot struct {
	status, digest   string
	version, edition int
	given, denied    int
	question         bool
	expires          int64
}

// standing is where the model says that the approval stands. Times and spans that
// no answer has told are known by their bounds.
type standing struct {
	digest           string
	version, edition int
	// Reviewers, one bit each.
	yes, ever, no, editors uint8
	question               bool
	deadline, left, from   bounds // left is of the pause; from is when it began
	span                   bounds // and how long it was to last; zero when none
	end                    string
	settled                bool
	// unplaced is how many answered requests of the history are still to come.
	unplaced int
}

type bounds struct{ lo, hi int64 }

func exactly(v int64) bounds { return bounds{v, v} }

func (b bounds) plus(o bounds) bounds  { return bounds{b.lo + o.lo, b.hi + o.hi} }
func (b bounds) minus(o bounds) bounds { return bounds{b.lo - o.hi, b.hi - o.lo} }
func (b bounds) some() bounds          { return bounds{max(b.lo, 0), max(b.hi, 0)} }

// checkWithin is how long one history may take to check. The work doubles with each
// reply that was lost, and a slow machine loses many.
const checkWithin = 20 * time.Second

// tick is by how much the clocks of a client and of the database may differ: they
// are one clock, read to a microsecond.
const tick = int64(2 * time.Millisecond)

// outcome is one way in which a request may go.
type outcome struct {
	code string
	next standing
	// done says that it was done, or seen, while the approval was pending.
	done bool
	// over says that it is shown as one whose time is up.
	over bool
}

// outcomes are all ways in which a request may go from here, at some moment between
// its call and its reply.
func (s standing) outcomes(d request, replied int64) []outcome {
	var all []outcome
	if s.end == "" {
		if d.called < s.deadline.hi+tick {
			all = append(all, s.inTime(d, replied))
		}
		if replied < s.deadline.lo-tick {
			return all
		}
		if d.what == "read" {
			// It waits for nobody: what was done in time may be written just after it.
			all = append(all, outcome{next: s, over: true})
		}
		s.end = "expired"
	}
	if s.end == "expired" && replied < s.deadline.lo-tick {
		return all // what came before it cannot be later than this
	}
	if !s.settled {
		all = append(all, outcome{code: s.tooLate(d), next: s})
		s.settled = true
	}
	return append(all, outcome{code: s.tooLate(d), next: s})
}

// tooLate is the refusal of a request after the end. What has ended and has not been
// settled yet is still shown as it was.
func (s standing) tooLate(d request) string {
	card := d.what == "approve" || d.what == "deny" || d.what == "edit"
	switch {
	case d.what == "read":
		return ""
	case !s.settled && card && (d.digest != s.digest || d.version != s.version):
		return "stale"
	case s.end == "expired":
		return "expired"
	case s.settled:
		return "already_" + s.end
	}
	return "already_decided"
}

func (s standing) inTime(d request, replied int64) outcome {
	who, no := uint8(1)<<d.who, func(code string) outcome { return outcome{code: code, next: s} }
	card, person := false, true
	switch d.what {
	case "approve", "deny", "edit":
		card = true
	case "tell", "cancel", "read":
		person = false
	}
	switch {
	case card && (d.digest != s.digest || d.version != s.version):
		return no("stale")
	case person && s.editors&who != 0:
		return no("self_review")
	}
	switch d.what {
	case "approve":
		if s.ever&who != 0 {
			return no("already_voted")
		}
		s.no, s.yes, s.ever = s.no&^who, s.yes|who, s.ever|who
		if bits.OnesCount8(s.yes) == linearNeeded {
			s.end = "approved"
		}
	case "deny":
		if s.no&who != 0 {
			return no("already_voted")
		}
		s.no, s.yes = s.no|who, s.yes&^who
		if bits.OnesCount8(s.no) == linearNoes {
			s.end = "denied"
		}
	case "edit":
		s.digest, s.version, s.edition, s.editors = d.becomes, s.version+1, s.edition+1, s.editors|who
		s.yes, s.ever, s.no = 0, 0, 0
		// An open question ends with the edition in which it was asked; what it has
		// used of the time for which questions may stop the clock stays used.
		s = s.resumed(bounds{d.called, replied})
	case "ask":
		if s.question {
			return no("already_asked")
		}
		s.question = true
		if s.left.hi > 0 {
			s.deadline, s.from, s.span, s.left = s.deadline.plus(s.left), bounds{d.called, replied}, s.left, bounds{}
		}
	case "tell":
		if !s.question {
			return no("nothing_to_answer")
		}
		s = s.resumed(bounds{d.called, replied})
	case "extend":
		s.deadline = s.deadline.plus(exactly(int64(d.by)))
	case "cancel":
		s.end = "cancelled"
	}
	return outcome{next: s, done: true}
}

// resumed is the state once the clock goes on at some moment within at.
func (s standing) resumed(at bounds) standing {
	unused := s.from.plus(s.span).minus(at).some()
	if s.span.hi == 0 {
		unused = bounds{}
	}
	unused.hi, unused.lo = min(unused.hi, s.span.hi), min(unused.lo, s.span.hi)
	s.question, s.deadline, s.left = false, s.deadline.minus(unused), s.left.plus(unused)
	s.from, s.span = bounds{}, bounds{}
	return s
}

// shows reports whether an answer shows what the model says, and what the model
// learns of times from it.
func (o outcome) shows(g *snapshot) (standing, bool) {
	s := o.next
	if g == nil {
		return s, true
	}
	version, status := s.version, "pending"
	if s.settled {
		version, status = version+1, s.end
	}
	if g.version != version || g.status != status || g.digest != s.digest || g.edition != s.edition {
		return s, false
	}
	if s.end != "" || o.over {
		return s, true
	}
	if g.given != bits.OnesCount8(s.yes) || g.denied != bits.OnesCount8(s.no) || g.question != s.question {
		return s, false
	}
	if g.expires < s.deadline.lo-tick || g.expires > s.deadline.hi+tick {
		return s, false
	}
	s.deadline = exactly(g.expires)
	return s, true
}

// next are the states after a request. One whose reply was lost changes something, or
// it comes after all that were answered and changes nothing: anywhere else, doing
// nothing would only multiply the orders that are to be tried.
func next(state, input, output any) []any {
	s, d, r := state.(standing), input.(request), output.(reply)
	if r.unknown && s.unplaced == 0 {
		return []any{s}
	}
	if !r.unknown {
		s.unplaced--
	}
	var all []any
	for _, o := range s.outcomes(d, r.at) {
		if r.unknown {
			if o.done {
				all = append(all, o.next)
			}
		} else if learned, ok := o.shows(r.seen); ok && o.code == r.code {
			all = append(all, learned)
		}
	}
	return all
}

var linearSeed = maphash.MakeSeed()

// linearizable reports whether a history can be one of an approval that begins like
// this, unless finding out takes longer than within.
func linearizable(begins standing, history []porcupine.Operation, within time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	for _, op := range history {
		if !op.Output.(reply).unknown {
			begins.unplaced++
		}
	}
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{begins} }, Step: next,
		Hash:              func(s any) uint64 { return maphash.Comparable(linearSeed, s.(standing)) },
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
	}
	return porcupine.CheckOperationsVerbose(m.ToModel(), history, within)
}

// did is an operation of a history: when it was called, and when it was answered.
func did(client int, d request, r reply) porcupine.Operation {
	until := r.at
	if r.unknown {
		until = math.MaxInt64
	}
	return porcupine.Operation{ClientId: client, Input: d, Call: d.called, Output: r, Return: until}
}

// begun is how an approval stands when it was opened.
func begun(digest string, expires int64) standing {
	return standing{digest: digest, version: 1, edition: 1, deadline: exactly(expires), left: exactly(int64(linearPause))}
}

// TestLinearModel: the checker takes a history that can be, and refuses others.
func TestLinearModel(t *testing.T) {
	const ms = int64(time.Millisecond)
	pending := func(more snapshot) *snapshot {
		more.status, more.digest, more.version, more.edition, more.expires = "pending", "d1", 1, 1, 1000*ms
		return &more
	}
	op := func(what string, who uint, call, ret int64, code string, seen *snapshot) porcupine.Operation {
		return did(int(who), request{what: what, who: who, digest: "d1", version: 1, called: call * ms, by: time.Second, becomes: "d2"}, reply{code: code, at: ret * ms, seen: seen})
	}
	lost := func(what string, who uint, call int64) porcupine.Operation {
		return did(int(who), request{what: what, who: who, digest: "d1", version: 1, called: call * ms, becomes: "d2"}, reply{unknown: true, at: 5000 * ms})
	}
	over := func(status string) *snapshot { return &snapshot{status: status, digest: "d1", version: 2, edition: 1} }
	edited := snapshot{status: "pending", digest: "d2", version: 2, edition: 2, expires: 1000 * ms}
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"two agree":                    {[]porcupine.Operation{op("approve", 0, 1, 2, "", pending(snapshot{given: 1})), op("approve", 1, 3, 4, "", nil), op("read", 5, 5, 6, "", over("approved"))}, true},
		"two at once":                  {[]porcupine.Operation{op("approve", 0, 1, 9, "", nil), op("approve", 1, 1, 9, "", nil), op("approve", 2, 1, 9, "already_decided", nil)}, true},
		"one is enough":                {[]porcupine.Operation{op("approve", 0, 1, 2, "", nil), op("read", 5, 5, 6, "", over("approved"))}, false},
		"one votes twice":              {[]porcupine.Operation{op("approve", 0, 1, 2, "", nil), op("approve", 0, 3, 4, "", nil)}, false},
		"one's second vote is refused": {[]porcupine.Operation{op("approve", 0, 1, 2, "", nil), op("approve", 0, 3, 4, "already_voted", nil)}, true},
		"a vote is lost":               {[]porcupine.Operation{op("approve", 0, 1, 2, "", nil), op("read", 5, 5, 6, "", pending(snapshot{}))}, false},
		"a vote that nobody cast":      {[]porcupine.Operation{op("read", 5, 5, 6, "", pending(snapshot{given: 1}))}, false},
		"a vote without an answer":     {[]porcupine.Operation{lost("approve", 0, 1), op("read", 5, 5, 6, "", pending(snapshot{given: 1}))}, true},
		"a vote that came later":       {[]porcupine.Operation{lost("approve", 0, 1), op("read", 5, 5, 6, "", pending(snapshot{})), op("read", 5, 7, 8, "", pending(snapshot{given: 1}))}, true},
		"a vote that went again":       {[]porcupine.Operation{lost("approve", 0, 1), op("read", 5, 5, 6, "", pending(snapshot{given: 1})), op("read", 5, 7, 8, "", pending(snapshot{}))}, false},
		"two ends":                     {[]porcupine.Operation{op("cancel", 5, 1, 2, "", nil), op("read", 5, 3, 4, "", over("cancelled")), op("read", 5, 5, 6, "", over("denied"))}, false},
		"an end that is undone":        {[]porcupine.Operation{op("cancel", 5, 1, 2, "", nil), op("read", 5, 3, 4, "", over("cancelled")), op("read", 5, 5, 6, "", pending(snapshot{}))}, false},
		"over, and an edit of before": {[]porcupine.Operation{
			op("ask", 0, 1, 2, "", nil), op("edit", 1, 1690, 1710, "", &snapshot{status: "pending", digest: "d2", version: 2, edition: 2, expires: 1700 * ms}),
			op("read", 5, 1705, 1708, "", pending(snapshot{expires: 1700 * ms})), op("read", 5, 1711, 1712, "", &snapshot{status: "expired", digest: "d2", version: 3, edition: 2}),
		}, true},
		"not over, and an edit after it": {[]porcupine.Operation{
			op("ask", 0, 1, 2, "", nil), op("edit", 1, 1600, 1710, "", &snapshot{status: "pending", digest: "d2", version: 2, edition: 2, expires: 1700 * ms}),
			op("read", 5, 1605, 1608, "", pending(snapshot{expires: 1700 * ms})),
		}, false},
		"after the end":                  {[]porcupine.Operation{op("cancel", 5, 1, 2, "", nil), op("approve", 0, 3, 4, "", nil)}, false},
		"refused after the end":          {[]porcupine.Operation{op("cancel", 5, 1, 2, "", nil), op("approve", 0, 3, 4, "already_cancelled", nil)}, true},
		"expired":                        {[]porcupine.Operation{op("approve", 0, 990, 1010, "expired", nil), op("read", 5, 1100, 1101, "", over("expired"))}, true},
		"expired too early":              {[]porcupine.Operation{op("read", 5, 900, 901, "", over("expired"))}, false},
		"a vote too late":                {[]porcupine.Operation{op("approve", 0, 1100, 1101, "", nil)}, false},
		"in time, and told so late":      {[]porcupine.Operation{op("approve", 0, 990, 1500, "", nil)}, true},
		"more time":                      {[]porcupine.Operation{op("extend", 0, 1, 2, "", nil), op("approve", 1, 1100, 1101, "", nil)}, true},
		"a pause":                        {[]porcupine.Operation{op("ask", 0, 1, 2, "", nil), op("approve", 1, 1600, 1601, "", nil)}, true},
		"a pause that was over":          {[]porcupine.Operation{op("ask", 0, 100, 101, "", nil), op("tell", 5, 200, 201, "", nil), op("approve", 1, 1200, 1201, "", nil)}, false},
		"a pause, and what is left":      {[]porcupine.Operation{op("ask", 0, 100, 101, "", nil), op("tell", 5, 200, 201, "", nil), op("ask", 0, 300, 301, "", nil), op("approve", 1, 1600, 1601, "", nil)}, true},
		"two questions":                  {[]porcupine.Operation{op("ask", 0, 1, 2, "", nil), op("ask", 1, 3, 4, "", nil)}, false},
		"an answer to nothing":           {[]porcupine.Operation{op("tell", 5, 1, 2, "", nil)}, false},
		"a vote on what was changed":     {[]porcupine.Operation{op("edit", 0, 1, 2, "", &edited), op("approve", 1, 3, 4, "", nil)}, false},
		"a stale vote":                   {[]porcupine.Operation{op("edit", 0, 1, 2, "", &edited), op("approve", 1, 3, 4, "stale", nil)}, true},
		"votes that outlive the edition": {[]porcupine.Operation{op("approve", 1, 1, 2, "", nil), op("edit", 0, 3, 4, "", &snapshot{status: "pending", digest: "d2", version: 2, edition: 2, given: 1, expires: 1000 * ms})}, false},
		"an editor's own vote":           {[]porcupine.Operation{op("edit", 0, 1, 2, "", &edited), did(0, request{what: "approve", digest: "d2", version: 2, called: 3 * ms}, reply{at: 4 * ms})}, false},
		"one no of two":                  {[]porcupine.Operation{op("deny", 0, 1, 2, "", nil), op("read", 5, 3, 4, "", over("denied"))}, false},
	} {
		got, _ := linearizable(begun("d1", 1000*ms), c.history, checkWithin)
		if want := map[bool]porcupine.CheckResult{true: porcupine.Ok, false: porcupine.Illegal}[c.want]; got != want {
			t.Errorf("%s: it is %s, want %s", name, got, want)
		}
	}
}

// TestLiesAreLies: a lost reply may stand for the request that another end would need.
func TestLiesAreLies(t *testing.T) {
	history := func(lost ...string) (h []porcupine.Operation) {
		for i, what := range lost {
			h = append(h, did(i, request{what: what}, reply{unknown: true}))
		}
		return append(h, did(9, request{what: "read"}, reply{seen: &snapshot{status: "expired"}}))
	}
	for want, h := range map[string][]porcupine.Operation{
		"denied": history("approve"), "cancelled": history("deny", "approve"), "approved": history("deny", "cancel"), "": history("deny", "cancel", "approve"),
	} {
		if got := neverReached(h, "expired"); got != want {
			t.Errorf("the end that cannot be is %q, want %q", got, want)
		}
	}
}

// doctored are histories like the one that was recorded, but for one lie.
func doctored(history []porcupine.Operation) map[string][]porcupine.Operation {
	lies := map[string][]porcupine.Operation{}
	lie := func(name string, i int, change func(*reply)) {
		h := slices.Clone(history)
		r := h[i].Output.(reply)
		if r.seen != nil {
			copied := *r.seen
			r.seen = &copied
		}
		change(&r)
		h[i].Output = r
		lies[name] = h
	}
	for i, op := range history {
		r := op.Output.(reply)
		if r.seen != nil && r.seen.status != "pending" {
			if end := neverReached(history, r.seen.status); end != "" {
				lie("another end", i, func(r *reply) { r.seen.status = end })
			}
			lie("another digest", i, func(r *reply) { r.seen.digest = "sha256:0" })
			lie("an edition more", i, func(r *reply) { r.seen.edition++ })
		}
	}
	return lies
}

// neverReached is an end to which no request of the history can have led: what would
// lead to it was answered each time, and with another end than this. It is "" when
// replies of all kinds were lost. That it expired is never told as a lie, for a
// deadline may well have passed before what a lost reply stands for.
func neverReached(history []porcupine.Operation, ended string) string {
	for _, end := range [][2]string{{"denied", "deny"}, {"cancelled", "cancel"}, {"approved", "approve"}} {
		lost := func(op porcupine.Operation) bool {
			return op.Input.(request).what == end[1] && op.Output.(reply).unknown
		}
		if end[0] != ended && !slices.ContainsFunc(history, lost) {
			return end[0]
		}
	}
	return ""
}
