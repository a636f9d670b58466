package gate

import (
	"context"
	"encoding/json"
	"fmt"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// support adds what comes by itself to a pending approval: votes of standing
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
	// Nobody is left who could decide: others may, at once. It never approves.
	f := approval.Fact{Kind: approval.Escalate, Actor: settlerActor}
	if approval.Admit(c.Approval.Plan, c.Approval.Facts, f, c.Now) == nil {
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
	var err error
	if e.SafePayload, err = factPayload(c); err != nil {
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
	fact := c.Approval.Facts[len(c.Approval.Facts)-1]
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
	if e.SafePayload, err = json.Marshal(fact.EditionPayload(c.Approval.Plan)); err != nil {
		return fmt.Errorf("encode what an event tells: %w", err)
	}
	c.AddEvent(e)
	return nil
}
