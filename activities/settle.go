// Package activities touches the world on behalf of workflows: one small
// struct for each outside system. Everything here may run twice and must mean
// the same as once. It never decides by itself: what an approval has come to is
// a pure function's answer, written down under the approval's lock.
package activities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/registry"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
	"holdpoint/workflows"
)

// Rejudge judges the sealed document of an approval whose requirements have
// been met, by the rules in force now. It is pure.
type Rejudge interface {
	Again(a approval.Approval, document []byte, now time.Time) (engine.Decision, error)
	// Reopen completes a decision that asks for more than the approval did, by the
	// routing in force now.
	Reopen(a approval.Approval, d engine.Decision) (engine.Decision, approval.Terms)
}

// EventMaker starts an event about an approval.
type EventMaker func(kind engine.EventType, outcome engine.Outcome, a approval.Approval, by engine.Actor) engine.Event

// Settler writes down what approvals have come to.
type Settler struct {
	Store  *store.Store
	Sealer *seal.Sealer
	Judge  Rejudge
	// Behind, when set, reports whether Judge has yet to hear of the rules that are in
	// force. CatchUp makes it look.
	Behind  func(now store.RulesInForce) bool
	CatchUp func(ctx context.Context) error
	Event   EventMaker
	// Validity is how long an approved call may wait for its agent.
	Validity time.Duration
	// NewTokenID makes the id of a new token.
	NewTokenID func() string
	// Grants, when set, returns the votes that standing grants cast for a pending
	// approval, having used those up.
	Grants func(ctx context.Context, c *store.Change) ([]approval.Fact, error)
	// Tell, when set, hands over what people are to be told for the first time. It
	// writes within the change.
	Tell func(ctx context.Context, c *store.Change, due []approval.Notification) error
}

// maxCatchUps is how often rules that change meanwhile are looked at again at once;
// then the activity is tried again a little later.
const maxCatchUps = 3

// system is who settles, as the audit log names it.
var system = engine.Actor{Kind: engine.SystemActor, ID: "settle", Channel: "engine"}

// Settle locks the approval, asks approval.Advance where its facts have
// brought it, and writes a terminal state and its event in one transaction. It
// is the activity of that name; calling it at any time, any number of times,
// is harmless.
func (s *Settler) Settle(ctx context.Context, in workflows.SettleInput) (workflows.SettleResult, error) {
	var result workflows.SettleResult
	attempt := func() error {
		return s.Store.Approvals.Change(ctx, in.ApprovalID, nil, func(c *store.Change) (any, error, error) {
			var err error
			result, err = s.settle(ctx, c)
			if in.Version < 2 {
				result.CheckTicket, result.Ticket = false, 0 // its workflow would not ask
			}
			return nil, nil, err
		})
	}
	err := attempt()
	for range maxCatchUps {
		if !errors.Is(err, errBehind) {
			break
		}
		// Not within the change: it holds a connection, and there may be no other.
		if err = s.CatchUp(ctx); err == nil {
			err = attempt()
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		// Somebody started a workflow for an approval that there is not.
		return result, temporal.NewNonRetryableApplicationError("no such approval", "not_found", nil)
	}
	if err != nil {
		return result, fmt.Errorf("settle %s: %w", in.ApprovalID, err)
	}
	return result, nil
}

func (s *Settler) settle(ctx context.Context, c *store.Change) (workflows.SettleResult, error) {
	if c.Approval.Status.Terminal() {
		return s.lease(ctx, c)
	}
	if err := s.support(ctx, c); err != nil {
		return workflows.SettleResult{}, err
	}
	if state := c.Approval.State; state.Status == approval.Pending {
		return s.wait(ctx, c)
	}
	if err := s.current(c); err != nil {
		return workflows.SettleResult{}, err
	}
	end, err := s.end(c)
	if errors.Is(err, ErrLater) && c.Now.Before(c.Approval.State.ExpiresAt) {
		return workflows.SettleResult{WakeIn: lookAgain}, nil
	}
	if end.reopen != nil {
		if err := s.reopen(c, end); err != nil {
			return workflows.SettleResult{}, err
		}
		return s.wait(ctx, c)
	}
	constraints, validity, err := s.tightened(c)
	if err != nil && end.status == approval.Approved {
		end = unjudged("Reviewers set constraints that cannot all be kept to.")
	}
	token := ""
	if end.status == approval.Approved {
		token = s.NewTokenID()
	}
	due := append(c.Approval.State.Due, approval.Notification{Key: "decided", Kind: engine.NotifyDecided, Stage: c.Approval.State.Stage})
	if end.status == approval.Approved && c.Approval.State.Owed {
		due = append(due, approval.Notification{Key: "review_owed", Kind: engine.NotifyReviewOwed})
		if err := c.OweReview(); err != nil {
			return workflows.SettleResult{}, err
		}
	}
	ended := c.Approval.Ended(c.Approval.State, c.Now)
	if err := c.Settle(end.status, end.reasons, token, validity, constraints); err != nil {
		return workflows.SettleResult{}, err
	}
	e := s.Event(engine.Settled, end.status.Outcome(), c.Approval, system)
	if end.outcome != "" {
		e.Outcome = end.outcome
	}
	e.Reasons, e.Requirements = end.reasons, approval.ToldRequirements(c.Approval.Plan.Requirements)
	if c.Token != nil {
		ended.ValidUntil = c.Token.ValidUntil
	}
	if e.SafePayload, err = json.Marshal(map[string]any{"ended": ended}); err != nil {
		return workflows.SettleResult{}, fmt.Errorf("encode how %s ended: %w", c.Approval.ID, err)
	}
	c.AddEvent(e)
	return workflows.SettleResult{Over: true}, s.tell(ctx, c, due)
}

// support adds what comes by itself: votes of standing grants, and an escalation
// where nobody who may decide is left.
func (s *Settler) support(ctx context.Context, c *store.Change) error {
	if c.Approval.State.Status != approval.Pending {
		return nil
	}
	if s.Grants != nil && c.Kill == nil {
		votes, err := s.Grants(ctx, c)
		if err != nil {
			return err
		}
		for _, f := range votes {
			if approval.Admit(c.Approval.Plan, c.Approval.Facts, f, c.Now) != nil {
				continue
			}
			if err := c.AddFact(f); err != nil {
				return err
			}
			e := s.Event(engine.Voted, c.Approval.Decision.Outcome, c.Approval, f.Actor)
			e.Reasons = []engine.Reason{{Code: "VOTE_BY_GRANT", Message: "Approved beforehand, by the standing grant " + f.Details.Grant + "."}}
			if e.SafePayload, err = json.Marshal(lastFact(c).Told()); err != nil {
				return fmt.Errorf("encode what an event tells: %w", err)
			}
			c.AddEvent(e)
		}
		if c.Approval.State.Status != approval.Pending {
			return nil
		}
	}
	people, err := c.People()
	if err != nil {
		return err
	}
	if approval.Possible(c.Approval.Plan, c.Approval.Facts, people, c.Now) {
		return nil
	}
	// Nobody is left who could decide: others may, at once. It never approves.
	f := approval.Fact{Kind: approval.Escalate, Actor: system}
	if approval.Admit(c.Approval.Plan, c.Approval.Facts, f, c.Now) == nil {
		if err := c.AddFact(f); err != nil {
			return err
		}
		e := s.Event(engine.Escalated, c.Approval.Decision.Outcome, c.Approval, system)
		e.Reasons = []engine.Reason{{Code: "NOBODY_ELIGIBLE", Message: "Nobody is left who may decide at this stage, so those whom it escalates to may at once."}}
		if e.SafePayload, err = json.Marshal(lastFact(c).Told()); err != nil {
			return fmt.Errorf("encode what an event tells: %w", err)
		}
		c.AddEvent(e)
	}
	if !approval.Possible(c.Approval.Plan, c.Approval.Facts, people, c.Now) {
		return s.tell(ctx, c, []approval.Notification{{
			Key: fmt.Sprintf("nobody/%d/%d", c.Approval.Plan.Edition, c.Approval.State.Stage), Kind: engine.NotifyNobodyEligible, Stage: c.Approval.State.Stage,
		}})
	}
	return nil
}

// wait says when to look at a pending approval again, and tells people what has
// come up.
func (s *Settler) wait(ctx context.Context, c *store.Change) (workflows.SettleResult, error) {
	state := c.Approval.State
	if err := s.tell(ctx, c, state.Due); err != nil {
		return workflows.SettleResult{}, err
	}
	// When somebody's being on call begins or ends, others may decide than before.
	wake := state.Wake
	shift, err := c.NextShift()
	if err != nil {
		return workflows.SettleResult{}, err
	}
	if !shift.IsZero() && shift.Before(wake) {
		wake = shift
	}
	result := workflows.SettleResult{WakeIn: wake.Sub(c.Now)}
	if state.Ticket != nil && state.Checked == nil {
		result.CheckTicket, result.Ticket = true, state.Ticket.Seq
	}
	return result, c.Wake(wake)
}

func (s *Settler) tell(ctx context.Context, c *store.Change, due []approval.Notification) error {
	if s.Tell == nil || len(due) == 0 {
		return nil
	}
	return s.Tell(ctx, c, due)
}

// lease sees to a redeemed call whose agent says nothing: nobody knows whether it
// ran, so a person has to find out, and nothing is tried again.
func (s *Settler) lease(ctx context.Context, c *store.Change) (workflows.SettleResult, error) {
	t := c.Token
	if c.Approval.Execution == approval.Unknown {
		// The agent itself has said so.
		return workflows.SettleResult{Over: true}, s.tell(ctx, c, []approval.Notification{executionUnknown})
	}
	if c.Approval.Execution != approval.Redeemed || t == nil || t.LeaseUntil == nil {
		return workflows.SettleResult{Over: true}, nil
	}
	if left := t.LeaseUntil.Sub(c.Now); left > 0 {
		return workflows.SettleResult{WakeIn: left}, c.Wake(*t.LeaseUntil)
	}
	if err := c.Executed(approval.Unknown); err != nil {
		return workflows.SettleResult{}, err
	}
	e := s.Event(engine.Executed, engine.Allow, c.Approval, system)
	e.Reasons = []engine.Reason{{Code: "EXECUTION_UNKNOWN", Message: "The agent has not said in time what became of the call. A person has to find out."}}
	c.AddEvent(e)
	return workflows.SettleResult{Over: true}, s.tell(ctx, c, []approval.Notification{executionUnknown})
}

// executionUnknown is told once, whoever finds it.
var executionUnknown = approval.Notification{Key: "execution_unknown", Kind: engine.NotifyExecutionUnknown}

// reopen begins a new edition of an approval for which the rules in force ask
// for more than it did: what was said of the former counts no more.
func (s *Settler) reopen(c *store.Change, end ending) error {
	f := approval.Fact{Kind: approval.Reopen, Actor: system}
	if err := c.AddFact(f); err != nil {
		return err
	}
	fact := lastFact(c)
	d, terms := s.Judge.Reopen(c.Approval, *end.reopen)
	terms.Accountable = c.Approval.Plan.Accountable
	err := c.Amend(store.Amendment{
		Digest: c.Approval.Call.Digest, Decision: d, Requirements: d.Requirements, Excluded: c.Approval.Plan.Excluded, Terms: terms,
	})
	if err != nil {
		return err
	}
	e := s.Event(engine.Reopened, d.Outcome, c.Approval, system)
	e.Reasons, e.Requirements = end.reasons, approval.ToldRequirements(d.Requirements)
	if e.SafePayload, err = json.Marshal(fact.ToldWith(c.Approval.Plan)); err != nil {
		return fmt.Errorf("encode what an event tells: %w", err)
	}
	c.AddEvent(e)
	return nil
}

// lastFact is the fact that was added last.
func lastFact(c *store.Change) approval.Fact { return c.Approval.Facts[len(c.Approval.Facts)-1] }

// tightened is what the votes that counted have made of constraints and
// validity; nil where they left the constraints alone.
func (s *Settler) tightened(c *store.Change) (json.RawMessage, time.Duration, error) {
	validity, said := s.Validity, false
	for _, f := range c.Approval.State.Counted {
		if d := time.Duration(f.Details.ValidFor); d > 0 {
			validity = min(validity, d)
		}
		said = said || len(f.Details.Constraints) > 0
	}
	if !said {
		return nil, validity, nil
	}
	constraints, err := approval.Constraints(c.Approval.Decision.Constraints, c.Approval.State.Counted)
	return constraints, validity, err
}

// errBehind says that other rules are in force than this process has heard of.
var errBehind = errors.New("the rules in force have to be looked at first")

// current is errBehind when the approval is to be judged by rules that this process
// has yet to hear of.
func (s *Settler) current(c *store.Change) error {
	if s.Behind == nil || c.Approval.State.Status != approval.Approved || c.Kill != nil {
		return nil
	}
	rules, err := c.Rules()
	if err == nil && s.Behind(rules) {
		err = errBehind
	}
	return err
}

// ErrLater is returned by a Rejudge that has no rules to judge by at the moment:
// what people have approved waits, until its deadline, for rules to be back.
var ErrLater = errors.New("no rules are in force at the moment")

// lookAgain is how soon what waits for rules is looked at again.
const lookAgain = 5 * time.Second

type ending struct {
	status  approval.Status
	reasons []engine.Reason
	outcome engine.Outcome // where it is not the status's own
	// reopen is what the call takes by the rules in force, where that is more than
	// people have given: it does not end yet.
	reopen *engine.Decision
}

// end is the terminal state of an approval whose facts have decided it. What
// people approved is judged again first: approval is not the last word.
//
// ErrLater comes with the end that it has if that cannot wait any longer.
func (s *Settler) end(c *store.Change) (ending, error) {
	state := c.Approval.State
	if state.Status != approval.Approved {
		return ending{status: state.Status, reasons: []engine.Reason{why(c.Approval)}}, nil
	}
	if c.Kill != nil {
		// A yes from before the switch was thrown is none after it.
		code := registry.AgentKill
		if c.Kill.AgentID == "" {
			code = registry.GlobalKill
		}
		return ending{status: approval.Denied, reasons: []engine.Reason{{Code: code, Message: "The call was approved, but a kill switch stops its agent."}}, outcome: engine.KillSwitch}, nil
	}
	// Opening depends on nothing that may be back later, and judging on little
	// (ErrLater): what else fails now fails always, and the approval must end all
	// the same.
	document, err := s.Sealer.Open(c.Approval.ID, c.Sealed)
	if err != nil {
		return unjudged("The sealed arguments cannot be opened, so the call cannot be judged again."), nil
	}
	again, err := s.Judge.Again(c.Approval, document, c.Now)
	if errors.Is(err, ErrLater) {
		return unjudged("There were no rules in force by which the call could have been judged again."), err
	}
	if err != nil {
		return unjudged("The call cannot be judged again."), nil
	}
	return s.judged(c, again), nil
}

// judged is the end of an approved call that has been judged again: the stricter
// of what was asked and what the rules in force ask.
func (s *Settler) judged(c *store.Change, again engine.Decision) ending {
	d, changed := c.Approval.Decision, func(message string, more ...engine.Reason) []engine.Reason {
		return append([]engine.Reason{{Code: "policy_changed", Message: message}}, more...)
	}
	left := engine.Undischarged(d.Findings, c.Approval.Plan.Requirements, again)
	if slices.ContainsFunc(left, func(f engine.Finding) bool { return f.Route == engine.Refuse }) {
		return ending{status: approval.Denied, reasons: changed("The call was approved, but the rules in force refuse it.", engine.Reasons(left)...)}
	}
	d.Requirements = c.Approval.Plan.Requirements
	stricter := d.Stricter(again)
	// What again's rules no longer set stays set: only more than there is counts.
	narrowed, err := approval.Tighten(d.Constraints, again.Constraints)
	if err != nil {
		return ending{status: approval.Denied, reasons: changed("The call was approved under constraints that are not those of the policy any more.")}
	}
	if !sameConstraints(d.Constraints, narrowed) {
		stricter.Constraints = narrowed
		return ending{reasons: changed("The rules in force set other constraints. People have to look at it again."), reopen: &stricter}
	}
	switch {
	case len(left) > 0:
		return ending{reasons: changed("Judged again, the call shows what nobody has approved.", engine.Reasons(left)...), reopen: &stricter}
	case len(engine.Unmet(c.Approval.Plan.Requirements, again)) > 0:
		return ending{reasons: changed("By the rules in force the call needs more than it did."), reopen: &stricter}
	}
	return ending{status: approval.Approved, reasons: []engine.Reason{why(c.Approval)}}
}

// sameConstraints compares two JSON objects, however they are written.
func sameConstraints(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	x, errX := canon.Parse(a)
	y, errY := canon.Parse(b)
	return errX == nil && errY == nil && bytes.Equal(x.Canonical(), y.Canonical())
}

// unjudged is the end of an approved call that cannot be judged again: no.
func unjudged(message string) ending {
	return ending{status: approval.Denied, reasons: []engine.Reason{{Code: "recheck_failed", Message: message}}}
}

// why is the reason code that ends a wait (Agent-SPM), by what was waited for.
func why(a approval.Approval) engine.Reason {
	asked := cmp.Or(a.Decision.Outcome.Kind(), engine.Review)
	switch a.State.Status {
	case approval.Approved:
		if a.State.Broken {
			return engine.Reason{Code: "BREAK_GLASS", Message: "The glass was broken for the call in an emergency."}
		}
		return asked.Traits().Approved
	case approval.Expired:
		return engine.Reason{Code: "TIMEOUT", Message: fmt.Sprintf("The deadline passed while the call waited for its %s.", a.Plan.Requirements[a.State.Stage].Words())}
	case approval.Cancelled:
		return engine.Reason{Code: "CANCELLED", Message: "The requesting side took the call back."}
	case approval.Denied, approval.Pending:
	}
	current := a.Plan.Requirements[a.State.Stage].Kind.Traits()
	if f := a.State.Decisive; f != nil && f.Kind != approval.Vote || current.Giver == engine.Tracker {
		return current.Denied // by who gives it
	}
	if asked.PeopleDecide() {
		return asked.Traits().Denied
	}
	return engine.Review.Traits().Denied
}
