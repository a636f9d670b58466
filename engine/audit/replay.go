package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/passkey"
)

// Replay follows approvals through the events of a log and says where what was
// recorded contradicts the rules: enough votes of people who may, nobody of the
// requesting side, one end, no end before its time, a token spent once and in
// time. It asks engine/approval what the recorded facts come to, and believes
// nothing that the record says of itself.
//
// What it cannot see is whether the record is true where nothing contradicts it:
// whoever writes the log can invent people and their votes, the roles that they
// had when it ended, and whole calls; can leave out a fact together with every
// mention of it; can say that a call which was approved was refused when it was
// judged again; and can let time pass by a clock that is wrong by up to a minute.
// Constraints are not replayed, as the log does not hold their values. Witnesses
// and former checkpoints keep all of that from being done afterwards.
//
// It keeps what is under way: memory grows with the approvals that are open at one
// time, not with the log, except that it keeps some 30 bytes for each call that has
// run and of which nobody has reported, and who is whom for 262,144 accounts. Of the approvals that are over it remembers the
// last 262,144, by which one that begins or ends twice is known.
type Replay struct {
	// Whole says that the events are all that there are, from the first: then an
	// approval that ends without having begun is a contradiction. Otherwise it is
	// not judged.
	Whole bool

	open  map[string]*openApproval
	over  map[string]*approvedCall
	ended recentSet
	// spent are the approvals whose token was spent, by a hash of their id, with one
	// of the call that it was spent for, until it is reported what became of it. The
	// seed is drawn anew each time, so that nobody can write a log that collides.
	spent map[uint64]uint64
	seed  maphash.Seed
	// people are accounts and the identity that the log has told of each, identities
	// those that it has told of at all: an identity is the id of its first account.
	people     map[string]string
	identities map[string]bool
	// keys are people's passkeys, and signers how many facts each has signed.
	keys    passkey.Keys
	signers map[Signer]int
	// unknown is told of the events that are signed by passkeys of which the events do not
	// tell, as they are a part of the log; nil is nobody.
	unknown func(engine.Event)
	Count   ReplayCount
}

// ReplayCount says what a Replay has seen.
type ReplayCount struct {
	Ended     int // approvals whose end was computed again
	Unjudged  int // approvals whose events do not tell enough
	Redeemed  int
	StillOpen int
	// Signed are votes whose signature is good, by Signers passkeys, and SignedUnknown
	// those by passkeys of which the events do not tell, as they are a part of the log.
	Signed, Signers, SignedUnknown int
	// Resets are those that took somebody's passkeys, without a signature.
	Resets int
}

// openApproval is an approval that has not ended.
type openApproval struct {
	agent, tool  string
	opened       time.Time
	began        time.Time // its edition
	digest       string
	requirements []engine.Requirement
	asked        *approval.EditionPayload // nil for approvals that tell too little
	editions     int
	facts        []approval.LoggedFact
	nonces       map[string]bool // of signatures
}

// approvedCall is an approval that was approved, and whose token may still be spent.
type approvedCall struct {
	agent, tool string
	validUntil  time.Time
	digest      string
	judged      bool
}

// slack is how far the clocks of one transaction may lie apart, which reads the
// time more than once.
const slack = time.Minute

// concerns reports whether an event of this type can mean anything to a Replay though
// it names no approval.
func concerns(t engine.EventType) bool {
	return t == engine.Admin || t == engine.Settled || t == engine.Redeemed || t == engine.Executed || approval.FactKindsOf(t) != nil
}

// Event follows one event, in order of seq. It returns what is wrong with it, or
// nil.
func (r *Replay) Event(e engine.Event) error {
	switch {
	case e.Outcome == engine.Deny && e.Type == engine.Settled:
		return fmt.Errorf("an approval ends as %s, and none does", e.Outcome)
	case e.Outcome == engine.Deny:
		return nil // a refusal changes nothing
	case e.Type == engine.Admin:
		r.keys.Part = !r.Whole
		return errors.Join(r.keys.Event(e), r.account(e))
	case e.ApprovalID == "" && concerns(e.Type):
		return fmt.Errorf("an event of type %s names no approval", e.Type)
	case e.ApprovalID == "":
		return nil
	}
	if r.open == nil {
		r.open, r.over, r.spent, r.seed = map[string]*openApproval{}, map[string]*approvedCall{}, map[uint64]uint64{}, maphash.MakeSeed()
	}
	switch e.Type {
	case engine.Decided:
		if len(e.Requirements) > 0 {
			return r.begins(e)
		}
		if p, err := payloadOf(e); err != nil || p.Asked == nil {
			return nil // it names an approval and begins none
		} else if p.Asked.Terms.AcceptedAs == "" || e.Outcome != engine.Allow {
			return fmt.Errorf("approval %s asks for nobody, and its call was not accepted", e.ApprovalID)
		}
		return r.begins(e)
	case engine.Settled:
		return r.ends(e)
	case engine.Redeemed:
		return r.redeemed(e)
	case engine.Executed:
		return r.executed(e)
	default:
		return r.fact(e)
	}
}

// Done completes the count.
func (r *Replay) Done() ReplayCount {
	c := r.Count
	c.StillOpen, c.Signers, c.Resets = len(r.open), len(r.signers), r.keys.Resets
	return c
}

type payload struct {
	approval.FactPayload
	Ended *approval.SettledPayload `json:"ended"`
}

func payloadOf(e engine.Event) (payload, error) {
	var p payload
	if err := json.Unmarshal(e.SafePayload, &p); err != nil {
		return p, errors.New("what it tells cannot be read")
	}
	return p, nil
}

// account learns who somebody is who was added.
func (r *Replay) account(e engine.Event) error {
	var p struct{ Subject, Identity string }
	if !slices.ContainsFunc(e.Reasons, func(why engine.Reason) bool { return why.Code == "USER_ADDED" }) || json.Unmarshal(e.SafePayload, &p) != nil || p.Identity == "" {
		return nil // from before the log told whose account it is, or of something else
	}
	return r.is(p.Subject, p.Identity)
}

// is holds against all that the log has told that an account is of this identity.
func (r *Replay) is(account, identity string) error {
	former, known := r.people[account]
	switch {
	case known && former != identity:
		return fmt.Errorf("%s is told to be %s, and is %s", account, identity, former)
	case account != identity && r.identities[account]:
		return fmt.Errorf("%s is told to be %s, and is somebody in their own right", account, identity)
	}
	if known || len(r.people) >= maxRecent {
		return nil
	}
	if r.people == nil {
		r.people, r.identities = map[string]string{}, map[string]bool{}
	}
	r.people[account], r.identities[identity] = identity, true
	return nil
}

// contributors holds the accounts that contributed against those who are told to
// stand behind them.
func (r *Replay) contributors(a *openApproval, end approval.SettledPayload) error {
	return end.Accounts(a.facts, func(seq int64, account, identity string) error {
		if account != identity && slices.Contains(end.Excluded, account) {
			return fmt.Errorf("fact %d is of %s, who belongs to the requesting side, and not of %s", seq, account, identity)
		}
		if err := r.is(account, identity); err != nil {
			return fmt.Errorf("fact %d: %w", seq, err)
		}
		return nil
	})
}

func (r *Replay) begins(e engine.Event) error {
	if r.open[e.ApprovalID] != nil || r.ended.has(e.ApprovalID) {
		return fmt.Errorf("approval %s begins a second time", e.ApprovalID)
	}
	if err := bounded(e); err != nil {
		return err
	}
	p, err := payloadOf(e)
	if err != nil {
		return err
	}
	if err := p.Asked.Check(); err != nil {
		return fmt.Errorf("approval %s: %w", e.ApprovalID, err)
	}
	r.open[e.ApprovalID] = &openApproval{
		agent: e.AgentID, tool: e.ToolName, opened: e.Timestamp, began: e.Timestamp, digest: e.DigestHMAC, requirements: e.Requirements, asked: p.Asked, editions: 1,
	}
	return nil
}

// maxAsked is how many requirements an approval has at most, and how many groups of
// which one is enough, and maxPeople how many people they ask for in all: more than
// any policy and any routing can name.
const (
	maxAsked  = 100
	maxPeople = (approval.MaxNeeded + 5) * approval.MaxNeeded
)

// bounded reports whether an event asks for more than an approval can: computing
// that would take any memory and any time.
func bounded(e engine.Event) error {
	most, groups, people, longest := len(e.Requirements), 0, 0, engine.Duration(0)
	for _, r := range e.Requirements {
		most, groups, longest = max(most, len(r.Escalation), len(r.Reminders)), groups+len(r.AnyOf), max(longest, r.Within)
		for _, later := range r.Escalation {
			longest = max(longest, later.After)
		}
		needed := r.Needed
		for _, g := range r.AnyOf {
			needed = max(needed, g.Needed)
		}
		if needed > approval.MaxNeeded {
			return fmt.Errorf("approval %s asks for %d people, which is more than any approval can", e.ApprovalID, needed)
		}
		people += max(needed, 1)
	}
	if max(most, groups) > maxAsked || people > maxPeople || time.Duration(longest) > approval.MaxExpiresIn {
		return fmt.Errorf("approval %s asks for more than any approval can", e.ApprovalID)
	}
	return nil
}

// fact collects what people and systems have contributed.
func (r *Replay) fact(e engine.Event) error {
	kinds := approval.FactKindsOf(e.Type)
	if kinds == nil {
		return nil // events of other types tell other things, and change nothing
	}
	a := r.open[e.ApprovalID]
	if a == nil {
		switch {
		case r.ended.has(e.ApprovalID):
			return fmt.Errorf("it contributes to approval %s, which has ended", e.ApprovalID)
		case r.Whole:
			return fmt.Errorf("it contributes to approval %s, which is not open", e.ApprovalID)
		}
		return nil
	}
	if a.asked == nil {
		return nil // from before the log recorded enough
	}
	p, err := payloadOf(e)
	switch {
	case err != nil:
		return err
	case p.Fact == nil || !slices.Contains(kinds, p.Fact.Kind):
		return fmt.Errorf("it does not tell what it contributes to approval %s", e.ApprovalID)
	case e.AgentID != a.agent || e.ToolName != a.tool:
		return fmt.Errorf("it is of another agent or tool than approval %s", e.ApprovalID)
	case len(a.facts) > 0 && p.Fact.Seq <= a.facts[len(a.facts)-1].Fact.Seq:
		return fmt.Errorf("fact %d of approval %s comes after fact %d", p.Fact.Seq, e.ApprovalID, a.facts[len(a.facts)-1].Fact.Seq)
	case !closeInTime(p.Fact.At, e.Timestamp):
		return fmt.Errorf("fact %d says that it is of %s, and is not", p.Fact.Seq, Time(p.Fact.At))
	case p.Fact.Edition != a.editions:
		return fmt.Errorf("fact %d is about edition %d of approval %s, which is in edition %d", p.Fact.Seq, p.Fact.Edition, e.ApprovalID, a.editions)
	case (p.Asked != nil) != (p.Fact.Kind == approval.Edit || p.Fact.Kind == approval.Reopen):
		return fmt.Errorf("fact %d of kind %s changes what is asked, or should have", p.Fact.Seq, p.Fact.Kind)
	case e.DigestHMAC != a.digest && p.Fact.Kind != approval.Edit:
		return fmt.Errorf("fact %d is about another call than approval %s", p.Fact.Seq, e.ApprovalID)
	}
	signed, err := r.signed(a, e, p)
	if err != nil {
		return fmt.Errorf("fact %d of approval %s: %w", p.Fact.Seq, e.ApprovalID, err)
	}
	a.facts = append(a.facts, approval.LoggedFact{FactPayload: p.FactPayload, Actor: e.Actor, Signed: signed})
	if p.Asked == nil {
		return nil
	}
	return a.amended(e, p)
}

// amended begins a new edition. It may ask for more than the former, not for less.
func (a *openApproval) amended(e engine.Event, p payload) error {
	if err := bounded(e); err != nil {
		return err
	}
	former := *a
	a.editions++
	a.asked, a.digest, a.began, a.requirements = p.Asked, e.DigestHMAC, e.Timestamp, e.Requirements
	actor := engine.HumanActor
	if p.Fact.Kind == approval.Reopen {
		actor = engine.SystemActor
	}
	latest := former.deadline().Add(time.Duration(former.asked.Terms.PauseFor))
	for _, f := range former.facts {
		if f.Fact.Kind == approval.Extend && f.Fact.Edition == former.editions {
			latest = latest.Add(time.Duration(f.By))
		}
	}
	for _, who := range former.asked.Excluded {
		if !slices.Contains(a.asked.Excluded, who) {
			return fmt.Errorf("edition %d of approval %s lets somebody vote who belonged to the requesting side", a.editions, e.ApprovalID)
		}
	}
	if err := a.asked.Check(); err != nil {
		return fmt.Errorf("edition %d of approval %s: %w", a.editions, e.ApprovalID, err)
	}
	for _, who := range a.asked.Terms.ByClaim {
		if !slices.Contains(former.asked.Terms.ByClaim, who) {
			return fmt.Errorf("in edition %d of approval %s somebody is excluded by claim who was not before", a.editions, e.ApprovalID)
		}
	}
	switch {
	case e.Actor.Kind != actor:
		return fmt.Errorf("fact %d of kind %s is of a %s", p.Fact.Seq, p.Fact.Kind, e.Actor.Kind)
	case len(engine.Unmet(a.requirements, engine.Decision{Requirements: former.requirements})) > 0:
		return fmt.Errorf("edition %d of approval %s asks for less than the one before", a.editions, e.ApprovalID)
	case !slices.Equal(a.asked.Terms.Accountable, former.asked.Terms.Accountable):
		return fmt.Errorf("in edition %d of approval %s others answer for the call than before", a.editions, e.ApprovalID)
	case a.asked.ExpiresIn > 0 && former.asked.ExpiresIn > 0 && a.deadline().After(latest.Add(slack)):
		return fmt.Errorf("edition %d of approval %s has more time than there was", a.editions, e.ApprovalID)
	}
	return nil
}

// deadline is the overall one, without extensions and pauses of this edition.
func (a *openApproval) deadline() time.Time { return a.began.Add(time.Duration(a.asked.ExpiresIn)) }

func (r *Replay) ends(e engine.Event) error {
	a := r.open[e.ApprovalID]
	if a == nil {
		if r.ended.has(e.ApprovalID) {
			return fmt.Errorf("approval %s ends a second time", e.ApprovalID)
		}
		r.ended.add(e.ApprovalID)
		if r.Whole {
			return fmt.Errorf("approval %s ends and has not begun", e.ApprovalID)
		}
		r.Count.Unjudged++
		if e.Outcome == engine.Approved {
			r.over[e.ApprovalID] = &approvedCall{agent: e.AgentID, tool: e.ToolName, digest: e.DigestHMAC}
		}
		return nil
	}
	delete(r.open, e.ApprovalID)
	r.ended.add(e.ApprovalID)
	done := &approvedCall{agent: a.agent, tool: a.tool, digest: a.digest}
	if a.asked == nil {
		r.Count.Unjudged++
		done.digest = e.DigestHMAC // an edit may have changed it
	} else {
		p, err := payloadOf(e)
		if err != nil {
			return err
		}
		if p.Ended == nil {
			return fmt.Errorf("the end of approval %s does not tell how it came about", e.ApprovalID)
		}
		err = a.judge(e, *p.Ended)
		if err == nil {
			err = r.contributors(a, *p.Ended)
		}
		if err != nil {
			return fmt.Errorf("approval %s: %w", e.ApprovalID, err)
		}
		r.Count.Ended++
		done.judged, done.validUntil = true, p.Ended.ValidUntil
	}
	if e.Outcome == engine.Approved {
		r.over[e.ApprovalID] = done
	}
	return nil
}

// judge holds the end of an approval against its facts.
func (a *openApproval) judge(e engine.Event, end approval.SettledPayload) error {
	switch {
	case e.DigestHMAC != a.digest || e.AgentID != a.agent || e.ToolName != a.tool:
		return errors.New("it ends as another call than the one that was asked about")
	case !same(e.Requirements, a.requirements):
		return errors.New("it ends by other requirements than it was asked by")
	case !slices.Equal(end.Excluded, a.asked.Excluded):
		return errors.New("it ends with another requesting side than it began with")
	case !same(end.Terms, a.asked.Terms):
		return errors.New("it ends by other terms than it was asked by")
	case end.Edition != a.editions:
		return fmt.Errorf("it ends in edition %d, and the log has %d", end.Edition, a.editions)
	case !closeInTime(end.OpenedAt, a.opened) || end.BeganAt.IsZero() && a.editions > 1 || !end.BeganAt.IsZero() && !closeInTime(end.BeganAt, a.began):
		return errors.New("it says that it began at another time than it did")
	case a.asked.ExpiresIn > 0 && !closeInTime(end.ExpiresAt, a.deadline()):
		return errors.New("it ends with another deadline than it began with")
	case !closeInTime(end.At, e.Timestamp):
		return errors.New("it was not computed when it was written")
	}
	state, err := end.Replay(e.Requirements, a.facts)
	if err != nil {
		return err
	}
	if state.Status != end.Reached {
		return fmt.Errorf("it says that its facts have made it %s, and they have made it %s", end.Reached, state.Status)
	}
	if !follows(e, state.Status) {
		return fmt.Errorf("it ends as %s, and its facts have made it %s", e.Outcome, state.Status)
	}
	if (e.Outcome == engine.Approved) != !end.ValidUntil.IsZero() {
		return errors.New("it has a token and is not approved, or the other way round")
	}
	for _, f := range state.Counted {
		if d := time.Duration(f.Details.ValidFor); d > 0 && end.ValidUntil.After(end.At.Add(d+slack)) {
			return fmt.Errorf("its token is good until %s, and fact %d has made it good for %s", Time(end.ValidUntil), f.Seq, d)
		}
	}
	return nil
}

// same compares what two events tell, as they tell it.
func same(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// follows reports whether an approval may end with this outcome whose facts have
// come to this. What people approved may be refused when it is judged again, and
// nothing else may differ.
func follows(e engine.Event, s approval.Status) bool {
	switch s {
	case approval.Approved:
		again := slices.ContainsFunc(e.Reasons, func(why engine.Reason) bool { return why.Code == "policy_changed" || why.Code == "recheck_failed" })
		return e.Outcome == engine.Approved || e.Outcome == engine.KillSwitch || e.Outcome == engine.Rejected && again
	case approval.Denied, approval.Cancelled:
		return e.Outcome == engine.Rejected
	case approval.Expired:
		return e.Outcome == engine.Timeout
	case approval.Pending:
	}
	return false
}

func (r *Replay) redeemed(e engine.Event) error {
	done, id := r.over[e.ApprovalID], maphash.String(r.seed, e.ApprovalID)
	_, spent := r.spent[id]
	switch {
	case e.Outcome != engine.Allow:
		return fmt.Errorf("a token is spent with the outcome %s, which there is not", e.Outcome)
	case spent:
		return fmt.Errorf("the token of approval %s is spent a second time", e.ApprovalID)
	case done == nil && r.knows(e.ApprovalID):
		return fmt.Errorf("a token of approval %s is spent, which was not approved, has run or is long over", e.ApprovalID)
	case done == nil:
		return nil
	case done.digest != e.DigestHMAC || done.agent != e.AgentID || done.tool != e.ToolName:
		return fmt.Errorf("the token of approval %s is spent for another call than was approved", e.ApprovalID)
	case done.judged && e.Timestamp.After(done.validUntil.Add(slack)):
		return fmt.Errorf("the token of approval %s is spent at %s, and was good until %s", e.ApprovalID, Time(e.Timestamp), Time(done.validUntil))
	}
	delete(r.over, e.ApprovalID)
	r.spent[id] = r.call(e)
	r.Count.Redeemed++
	return nil
}

func (r *Replay) executed(e engine.Event) error {
	id := maphash.String(r.seed, e.ApprovalID)
	switch call, spent := r.spent[id]; {
	case spent && call != r.call(e):
		return fmt.Errorf("another call is reported for approval %s than was approved", e.ApprovalID)
	case !spent && r.over[e.ApprovalID] != nil:
		return fmt.Errorf("a call is reported for approval %s, whose token was not spent", e.ApprovalID)
	case !spent && r.knows(e.ApprovalID):
		return fmt.Errorf("a call is reported for approval %s, which was not approved or was reported before", e.ApprovalID)
	}
	if !slices.ContainsFunc(e.Reasons, func(why engine.Reason) bool { return why.Code == "EXECUTION_UNKNOWN" }) {
		delete(r.spent, id) // nothing comes after that
	}
	return nil
}

// call is a hash of the call that an event is about.
func (r *Replay) call(e engine.Event) uint64 {
	return maphash.Comparable(r.seed, [...]string{e.AgentID, e.ToolName, e.DigestHMAC})
}

// knows reports whether the events must have told of an approval, had it been
// approved.
func (r *Replay) knows(id string) bool { return r.Whole || r.open[id] != nil || r.ended.has(id) }

// Forget drops approvals whose tokens cannot be spent any more at a moment.
func (r *Replay) Forget(now time.Time) {
	for id, done := range r.over {
		if done.judged && now.After(done.validUntil.Add(2*slack)) {
			delete(r.over, id)
		}
	}
}

func closeInTime(a, b time.Time) bool { return a.Sub(b).Abs() <= slack }

// maxRecent is how many approvals that are over are remembered: some MiB.
const maxRecent = 1 << 18

// recentSet is a set of the texts that were added last.
type recentSet struct {
	known map[uint64]struct{}
	order []uint64
	next  int
}

func sum(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // it cannot fail
	return h.Sum64()
}

func (m *recentSet) has(s string) bool {
	_, known := m.known[sum(s)]
	return known
}

func (m *recentSet) add(s string) {
	if m.known == nil {
		m.known = map[uint64]struct{}{}
	}
	h := sum(s)
	if _, known := m.known[h]; known {
		return
	}
	if len(m.order) < maxRecent {
		m.order = append(m.order, h)
	} else {
		delete(m.known, m.order[m.next])
		m.order[m.next] = h
		m.next = (m.next + 1) % maxRecent
	}
	m.known[h] = struct{}{}
}
