package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/canon"
	"holdpoint/internal/gate"
)

// errMoving: an approval was written to each time that it was read.
var errMoving = errors.New("it is being written to again and again; try once more")

// maxReads is how often an approval is read that seems to have been changed.
const maxReads = 10

// compared is the record, with what the database tells otherwise than the log does. What
// happened between two reads is no change of the record: only what is the same before and after
// everything has its place in the log is held against it.
func (k *packing) compared(ctx context.Context, r record) (record, error) {
	if r.changes = k.compare(r); len(r.changes) == 0 {
		return r, nil
	}
	for range maxReads {
		before := r.Approval.Revision
		placed, err := k.Store.Log.CatchUp(ctx, catchUp)
		if err != nil {
			return r, err
		}
		if !placed {
			return r, ErrStill
		}
		if r, err = k.read(ctx, r.Approval.ID); err != nil {
			return r, err
		}
		after, err := k.Store.Approvals.Get(ctx, r.Approval.ID)
		if err != nil {
			return r, err
		}
		if r.changes = k.compare(r); len(r.changes) == 0 || before == r.Approval.Revision && before == after.Approval.Revision {
			return r, nil
		}
	}
	return r, errMoving
}

// compare lists what the pages tell of an approval otherwise than the log does, but for what
// people wrote. Approvals from before the log told what was asked are not compared.
func (k *packing) compare(r record) (changed []audit.Item) {
	asked := r.askedEvent()
	if asked == nil {
		return nil
	}
	a := r.Approval
	say := func(kind string, fact int64) {
		changed = append(changed, audit.Item{Kind: kind, ApprovalID: a.ID, Fact: fact, Changed: true})
	}
	if asked.AgentID != a.Call.AgentID || asked.ToolName != a.Call.Tool {
		say(audit.ItemCall, 0)
	}
	for _, fact := range r.changedFacts() {
		say(audit.ItemFact, fact)
	}
	if r.more {
		return changed // what came last may not be among the events
	}
	if !samePlan(a.Plan, *asked) {
		say(audit.ItemAsked, 0)
	}
	if a.ErasedAt.IsZero() && (asked.DigestHMAC != k.Sealer.Digest(a.Call.Digest) || !isCall(r.card.Arguments, a.Call)) {
		say(audit.ItemArguments, 0)
	}
	if !r.endsAsLogged() {
		say(audit.ItemEnd, 0)
	}
	if !r.ranAsLogged() {
		say(audit.ItemRan, 0)
	}
	return changed
}

// askedEvent is the event that began the last edition; nil where none tells what it asks.
func (r record) askedEvent() *logged {
	for i := len(r.events) - 1; i >= 0; i-- {
		if e := &r.events[i]; e.Outcome != engine.Deny && e.payload.Asked != nil {
			return e
		}
	}
	return nil
}

// changedFacts are the numbers of the facts that are in the database or in the log alone, or are
// others there.
func (r record) changedFacts() (changed []int64) {
	events := r.factEvents()
	for _, f := range r.Approval.Facts {
		if e, ok := events[f.Seq]; !ok && !r.more || ok && f.Differs(e.Event) {
			changed = append(changed, f.Seq)
		}
		delete(events, f.Seq)
	}
	return append(changed, slices.Sorted(maps.Keys(events))...) // the database has these no more
}

// samePlan reports whether an edition asks for what the event tells that began it.
func samePlan(p approval.Plan, e logged) bool {
	is, was := *p.EditionPayload(), *e.payload.Asked
	is.KeyedFacts, was.KeyedFacts = false, false
	is.ExpiresIn, was.ExpiresIn = 0, 0 // the end tells of times
	return same(is, was) && same(approval.PayloadRequirements(p.Requirements), approval.PayloadRequirements(e.Requirements))
}

// same compares what two records tell, as they tell it.
func same(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// isCall reports whether arguments are those of the call that its digest names.
func isCall(arguments []byte, c engine.Call) bool {
	if arguments == nil {
		return true
	}
	v, err := canon.Parse(arguments)
	return err == nil && canon.Digest(c.Tool, v) == c.Digest
}

// endsAsLogged reports whether the approval has ended as its event tells, and when and why.
func (r record) endsAsLogged() bool {
	a, end := r.Approval, r.endEvent()
	if end == nil || a.Status == approval.Pending {
		return end == nil && a.Status == approval.Pending
	}
	told := end.payload.Ended
	switch {
	case a.Status.Outcome() != end.Outcome && !(a.Status == approval.Denied && end.Outcome == engine.KillSwitch):
		return false
	case a.Decision.PolicyDigest != end.PolicyDigest || !slices.Equal(a.Reasons, end.Reasons):
		return false
	case !a.Plan.OpenedAt.Equal(told.OpenedAt) || !a.Plan.ExpiresAt.Equal(told.ExpiresAt) || !a.Plan.BeganAt.Equal(told.BeganAt) || a.Plan.Edition != told.Edition:
		return false
	case a.EndedAt.Sub(end.Timestamp).Abs() > time.Minute:
		return false // the database gives both times, in one transaction
	}
	return r.Token == nil || r.Token.ValidUntil.Equal(told.ValidUntil)
}

// ranAsLogged reports whether became of the call what its events tell, by whom.
func (r record) ranAsLogged() bool {
	ran := approval.NotRun
	var found, review *logged
	for i := range r.events {
		e := &r.events[i]
		switch {
		case e.Outcome == engine.Deny:
		case e.Type == engine.Redeemed:
			ran = approval.Redeemed
		case e.Type == engine.Executed:
			ran = gate.ExecutionTold(e.Event)
			if e.Actor.Kind == engine.HumanActor {
				found = e
			}
		case e.Type == engine.Afterward:
			review = e
		}
	}
	if ran != r.Approval.Execution {
		return false
	}
	if x := r.card.Reconciled; (x != nil) != (found != nil) || x != nil && (x.PersonID != found.Actor.ID || x.Outcome != ran) {
		return false
	}
	w := r.card.BreakGlassReview
	done := w != nil && w.DoneAt != nil
	return done == (review != nil) && (!done || w.PersonID == review.Actor.ID && slices.Equal(review.Reasons, gate.ReviewedReasons(w.Justified)))
}
