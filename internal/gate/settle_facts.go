package gate

import (
	"context"
	"fmt"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// maxAlarms is how many facts of one approval are put on record for having no event:
// whoever can write one can write any number.
const maxAlarms = 10

// alarm puts on record, each once, the facts of which no event tells the same. They
// have counted for nothing already (approval.HoldAgainst).
func (s *Settler) alarm(ctx context.Context, c *store.Change) error {
	if len(c.Approval.Unlogged) == 0 {
		return nil
	}
	known, err := c.Alarms()
	if err != nil {
		return err
	}
	for _, f := range c.Approval.Unlogged {
		if known[f.Seq] || len(known) >= maxAlarms {
			continue
		}
		known[f.Seq] = true
		s.Logger.ErrorContext(ctx, "the database has a fact of which no event tells the same: it was written around the programs, and counts for nothing",
			"approval_id", c.Approval.ID, "fact", f.Seq, "kind", f.Kind, "actor_kind", f.Actor.Kind)
		e := s.event(engine.Refusal, engine.Deny, c)
		e.Reasons = []engine.Reason{approval.NotInLog}
		if err := e.SetPayload(f.UnloggedPayload()); err != nil {
			return err
		}
		c.AddEvent(e)
	}
	return nil
}

// support adds what nobody contributes to a pending approval: votes of standing
// grants, and an escalation where nobody who may decide is left.
func (s *Settler) support(ctx context.Context, c *store.Change) error {
	if c.Approval.State.Status != approval.Pending {
		return nil
	}
	votes, err := grantedVotes(ctx, s.Sealer, s.Logger, c)
	if err != nil {
		return err
	}
	for _, f := range votes {
		if approval.Admit(c.Approval.Plan, c.Approval.Facts, f, c.Now) != nil {
			continue
		}
		if err := addFact(s.Sealer, c, f, engine.Voted); err != nil {
			return err
		}
	}
	if c.Approval.State.Status != approval.Pending {
		return nil
	}
	people, err := c.People()
	if err != nil {
		return err
	}
	if approval.Possible(c.Approval.Plan, c.Approval.Facts, people, c.Now) {
		return nil
	}
	// Nobody is left who could decide: others may, at once. It never approves. Where
	// that is not enough, and it is claims that have left too few, still others may.
	f := approval.Fact{Kind: approval.Escalate, Actor: settlerActor}
	if approval.Admit(c.Approval.Plan, c.Approval.Facts, f, c.Now) == nil {
		if err := addFact(s.Sealer, c, f, engine.Escalated); err != nil {
			return err
		}
	}
	if f.Details.Widened = approval.Widening(c.Approval.Plan, c.Approval.Facts, people, c.Now); len(f.Details.Widened) > 0 {
		if err := addFact(s.Sealer, c, f, engine.Escalated); err != nil {
			return err
		}
	}
	if !approval.Possible(c.Approval.Plan, c.Approval.Facts, people, c.Now) {
		return s.notify(ctx, c, []approval.Notification{{
			Key: fmt.Sprintf("nobody/%d/%d", c.Approval.Plan.Edition, c.Approval.State.Stage), Kind: engine.NotifyNobodyEligible, Stage: c.Approval.State.Stage,
		}})
	}
	return nil
}

// addFact adds a fact, and its event.
func addFact(s *seal.Sealer, c *store.Change, f approval.Fact, kind engine.EventType) error {
	if err := c.AddFact(f); err != nil {
		return err
	}
	e := ApprovalEvent(s, kind, c.Approval.Decision.Outcome, c.Approval, f.Actor, "")
	e.Reasons = []engine.Reason{f.Statement().Reason}
	if err := e.SetPayload(lastFact(c).Payload()); err != nil {
		return err
	}
	c.AddEvent(e)
	return nil
}

// reopen begins a new edition of an approval for which the rules in force ask
// for more than it did: what was said of the former counts no more.
func (s *Settler) reopen(c *store.Change, end ending) error {
	if err := c.AddFact(approval.Fact{Kind: approval.Reopen, Actor: settlerActor}); err != nil {
		return err
	}
	fact := lastFact(c)
	d, terms := s.Rules.Reopen(c.Approval, *end.reopen)
	terms.Accountable = c.Approval.Plan.Accountable
	err := c.Amend(store.Amendment{
		Digest: c.Approval.Call.Digest, Decision: d, Requirements: d.Requirements, Excluded: c.Approval.Plan.Excluded, Terms: terms,
	})
	if err != nil {
		return err
	}
	e := s.event(engine.Reopened, d.Outcome, c)
	e.Reasons, e.Requirements = end.reasons, approval.PayloadRequirements(d.Requirements)
	if err := e.SetPayload(fact.EditionPayload(c.Approval.Plan)); err != nil {
		return err
	}
	c.AddEvent(e)
	return nil
}
