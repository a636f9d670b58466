package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// Replay follows approvals through the events of a log and says where what was
// recorded contradicts the rules: enough votes of people who may, nobody of the
// requesting side, one end, no end before its time, a token spent once and in
// time. It asks engine/approval what the recorded facts come to, and believes
// nothing that the record says of itself.
//
// It keeps what is under way only: memory grows with the approvals that are open
// at one time, not with the log.
type Replay struct {
	// Whole says that the events are all that there are, from the first: then an
	// approval that ends without having begun is a contradiction. Otherwise it is
	// not judged.
	Whole bool

	open  map[string]*followed
	over  map[string]*finished
	Count ReplayCount
}

// ReplayCount says what a Replay has seen.
type ReplayCount struct {
	Ended     int // approvals whose end was computed again
	Unjudged  int // approvals whose events do not tell enough
	Redeemed  int
	StillOpen int
}

// followed is an approval that has not ended.
type followed struct {
	seq          int64
	opened       time.Time
	digest       string
	requirements []byte
	asked        *approval.Asked // nil for approvals that tell too little
	editions     int
	facts        []approval.Logged
}

// finished is an approval that was approved, and may still run.
type finished struct {
	validUntil time.Time
	digest     string
	redeemed   bool
	judged     bool
}

// slack is how far the clocks of one transaction may lie apart, which reads the
// time more than once.
const slack = time.Minute

// Event follows one event, in order of seq. It returns what is wrong with it, or
// nil.
func (r *Replay) Event(e engine.Event) error {
	if e.ApprovalID == "" || e.Outcome == engine.Deny {
		return nil // a refusal changes nothing
	}
	if r.open == nil {
		r.open, r.over = map[string]*followed{}, map[string]*finished{}
	}
	switch e.Type {
	case engine.Decided:
		if len(e.Requirements) == 0 {
			return nil // it names an approval and begins none
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
	c.StillOpen = len(r.open)
	return c
}

type payload struct {
	approval.Told
	Ended *approval.Ended `json:"ended"`
}

func told(e engine.Event) (payload, error) {
	var p payload
	if err := json.Unmarshal(e.SafePayload, &p); err != nil {
		return p, errors.New("what it tells cannot be read")
	}
	return p, nil
}

func (r *Replay) begins(e engine.Event) error {
	if r.open[e.ApprovalID] != nil || r.over[e.ApprovalID] != nil {
		return fmt.Errorf("approval %s begins a second time", e.ApprovalID)
	}
	p, err := told(e)
	if err != nil {
		return err
	}
	requirements, err := json.Marshal(e.Requirements)
	if err != nil {
		return err
	}
	r.open[e.ApprovalID] = &followed{seq: e.Seq, opened: e.Timestamp, digest: e.DigestHMAC, requirements: requirements, asked: p.Asked, editions: 1}
	return nil
}

// fact collects what people and systems have contributed.
func (r *Replay) fact(e engine.Event) error {
	p, err := told(e)
	if err != nil || p.Fact == nil {
		return nil //nolint:nilerr // events of other kinds tell other things, and change nothing
	}
	a := r.open[e.ApprovalID]
	if a == nil {
		if r.Whole {
			return fmt.Errorf("it contributes to approval %s, which is not open", e.ApprovalID)
		}
		return nil
	}
	switch {
	case len(a.facts) > 0 && p.Fact.Seq <= a.facts[len(a.facts)-1].Fact.Seq:
		return fmt.Errorf("fact %d of approval %s comes after fact %d", p.Fact.Seq, e.ApprovalID, a.facts[len(a.facts)-1].Fact.Seq)
	case p.Fact.At.After(e.Timestamp.Add(slack)) || p.Fact.At.Before(a.opened.Add(-slack)):
		return fmt.Errorf("fact %d says that it is of %s, and is not", p.Fact.Seq, Time(p.Fact.At))
	case p.Fact.Edition != a.editions:
		return fmt.Errorf("fact %d is about edition %d of approval %s, which is in edition %d", p.Fact.Seq, p.Fact.Edition, e.ApprovalID, a.editions)
	case (p.Asked != nil) != (p.Fact.Kind == approval.Edit || p.Fact.Kind == approval.Reopen):
		return fmt.Errorf("fact %d of kind %s changes what is asked, or should have", p.Fact.Seq, p.Fact.Kind)
	}
	a.facts = append(a.facts, approval.Logged{Told: p.Told, Actor: e.Actor})
	if p.Asked == nil {
		return nil
	}
	a.editions++
	a.asked, a.digest = p.Asked, e.DigestHMAC
	a.requirements, err = json.Marshal(e.Requirements)
	return err
}

func (r *Replay) ends(e engine.Event) error {
	a := r.open[e.ApprovalID]
	if a == nil {
		if r.over[e.ApprovalID] != nil {
			return fmt.Errorf("approval %s ends a second time", e.ApprovalID)
		}
		if r.Whole {
			return fmt.Errorf("approval %s ends and has not begun, or has ended before", e.ApprovalID)
		}
		r.Count.Unjudged++
		return nil
	}
	delete(r.open, e.ApprovalID)
	p, err := told(e)
	if err != nil {
		return err
	}
	done := &finished{digest: a.digest}
	if a.asked == nil || p.Ended == nil {
		if a.asked != nil {
			return fmt.Errorf("the end of approval %s does not tell how it came about", e.ApprovalID)
		}
		r.Count.Unjudged++
	} else {
		if err := a.judge(e, *p.Ended); err != nil {
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
func (a *followed) judge(e engine.Event, end approval.Ended) error {
	requirements, err := json.Marshal(e.Requirements)
	if err != nil {
		return err
	}
	switch {
	case e.DigestHMAC != a.digest:
		return errors.New("it ends as another call than the one that was asked about")
	case !bytes.Equal(requirements, a.requirements):
		return errors.New("it ends by other requirements than it was asked by")
	case !slices.Equal(end.Excluded, a.asked.Excluded):
		return errors.New("it ends with another requesting side than it began with")
	case end.Edition != a.editions:
		return fmt.Errorf("it ends in edition %d, and the log has %d", end.Edition, a.editions)
	case !near(end.OpenedAt, a.opened):
		return errors.New("it says that it began at another time than it did")
	case end.At.After(e.Timestamp.Add(slack)):
		return errors.New("it was computed after it was written")
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
	return nil
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
	if e.Outcome != engine.Allow {
		return nil
	}
	done := r.over[e.ApprovalID]
	switch {
	case done == nil && (r.Whole || r.open[e.ApprovalID] != nil):
		return fmt.Errorf("a token of approval %s is spent, which was not approved", e.ApprovalID)
	case done == nil:
		return nil
	case done.redeemed:
		return fmt.Errorf("the token of approval %s is spent a second time", e.ApprovalID)
	case done.digest != e.DigestHMAC:
		return fmt.Errorf("the token of approval %s is spent for another call than was approved", e.ApprovalID)
	case done.judged && e.Timestamp.After(done.validUntil.Add(slack)):
		return fmt.Errorf("the token of approval %s is spent at %s, and was good until %s", e.ApprovalID, Time(e.Timestamp), Time(done.validUntil))
	}
	done.redeemed = true
	r.Count.Redeemed++
	return nil
}

func (r *Replay) executed(e engine.Event) error {
	done := r.over[e.ApprovalID]
	if done == nil {
		if r.Whole {
			return fmt.Errorf("a call is reported for approval %s, which was not approved", e.ApprovalID)
		}
		return nil
	}
	if !done.redeemed {
		return fmt.Errorf("a call is reported for approval %s, whose token was not spent", e.ApprovalID)
	}
	if !slices.ContainsFunc(e.Reasons, func(why engine.Reason) bool { return why.Code == "EXECUTION_UNKNOWN" }) {
		delete(r.over, e.ApprovalID) // nothing comes after that
	}
	return nil
}

// Forget drops approvals whose tokens cannot be spent any more at a moment.
func (r *Replay) Forget(now time.Time) {
	for id, done := range r.over {
		if !done.redeemed && done.judged && now.After(done.validUntil.Add(2*slack)) {
			delete(r.over, id)
		}
	}
}

func near(a, b time.Time) bool { return a.Sub(b).Abs() <= slack }
