package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/internal/notify"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Settler writes down what approvals have come to. What that is, is the answer of
// a pure function (approval.Advance); the Settler has it judged again, and writes
// state and event in one transaction under the approval's lock.
type Settler struct {
	Store  *store.Store
	Sealer *seal.Sealer
	Rules  CurrentRules
	// Notifier notifies people of what has come up; nil notifies nobody.
	Notifier *notify.Notifier
	// Documents says what may come into force; nil where no rules are put in force.
	Documents Documents
	// Validity is how long an approved call may wait for its agent.
	Validity time.Duration
	Logger   *slog.Logger
}

// CurrentRules are the rules in force, by which what people have approved is judged
// again (rules.Keeper).
type CurrentRules interface {
	// Recheck judges the sealed document of an approval whose requirements have been
	// met. It returns ErrNoRules while there is nothing to judge by.
	Recheck(a approval.Approval, document []byte, now time.Time) (engine.Decision, error)
	// Reopen completes a decision that asks for more than the approval did, by the
	// routing in force.
	Reopen(a approval.Approval, d engine.Decision) (engine.Decision, approval.Terms)
	// Behind reports whether this process has yet to hear of the rules that are in
	// force. CatchUp makes it look.
	Behind(now store.RulesInForce) bool
	CatchUp(ctx context.Context) error
}

// ErrNoRules says that there are no rules to judge by at the moment: what people
// have approved waits, until its deadline, for rules to be back.
var ErrNoRules = errors.New("no rules are in force at the moment")

// errNoKey says that the arguments are sealed with a data key that this process does not
// have, as a new one that another has read first: what people have approved waits, until its
// deadline, for a process that has it.
var errNoKey = errors.New("the arguments are sealed with a data key that is not here")

// Settlement says what settling has found.
type Settlement struct {
	// Over says that nothing is left to settle.
	Over bool
	// WakeIn is how long the next deadline is away, by the database's clock.
	WakeIn time.Duration
	// CheckTicket says that a ticket was attached that nobody has checked yet, and
	// Ticket which fact attached it.
	CheckTicket bool
	Ticket      int64
}

const (
	// maxCatchUps is how often rules and kill switches that change meanwhile are looked at
	// again at once; then settling fails, and is tried again a little later.
	maxCatchUps = 3
	// retryWithout is how soon an approval that waits for rules, or for a data key, is settled again.
	retryWithout = 5 * time.Second
	// saidFor is for how long the log is told of an approval that waits for a data key.
	saidFor = 15 * time.Second
)

// settlerActor is who settles, as the audit log names it.
var settlerActor = engine.Actor{Kind: engine.SystemActor, ID: "settle", Channel: "engine"}

// errBehind says that other rules are in force than this process has heard of.
var errBehind = errors.New("the rules in force have to be looked at first")

// Settle brings an approval to where its facts and the time have brought it. At
// any time, any number of times, it is harmless. For an approval that does not
// exist it returns store.ErrNotFound.
func (s *Settler) Settle(ctx context.Context, id string) (Settlement, error) {
	return s.settleBy(ctx, id, func(settle func(*store.Change) error) error { return s.Store.Approvals.Change(ctx, id, nil, settle) })
}

// SettleDue is Settle for approvals whose moment has come, in one transaction if that is
// possible, else each by itself. It returns what they have come to, without those that somebody
// else settles or has settled since: they are left to them. The error is the last one that an
// approval had, which has come to nothing then; the others are settled all the same.
func (s *Settler) SettleDue(ctx context.Context, ids []string) (map[string]Settlement, error) {
	results := map[string]Settlement{}
	err := s.Store.Approvals.ChangeAllDue(ctx, ids, func(c *store.Change) (err error) {
		results[c.Approval.ID], err = s.settle(ctx, c)
		return err
	})
	if err == nil {
		return results, nil
	}
	clear(results) // nothing of it was committed
	err = nil
	for _, id := range ids {
		one, failed := s.settleBy(ctx, id, func(settle func(*store.Change) error) error { return s.Store.Approvals.ChangeDue(ctx, id, settle) })
		if errors.Is(failed, store.ErrNotDue) {
			continue
		}
		if results[id] = one; failed != nil {
			err = failed
		}
	}
	return results, err
}

func (s *Settler) settleBy(ctx context.Context, id string, change func(settle func(*store.Change) error) error) (Settlement, error) {
	var result Settlement
	attempt := func() error {
		settle := func(c *store.Change) (err error) {
			result, err = s.settle(ctx, c)
			return err
		}
		err := change(settle)
		if errors.Is(err, store.ErrEntriesFirst) {
			err = s.Store.Approvals.ChangeEntries(ctx, id, settle)
		}
		return err
	}
	err := attempt()
	for range maxCatchUps {
		if errors.Is(err, errBehind) {
			// Not within the change: it holds a connection, and there may be no other.
			if err = s.Rules.CatchUp(ctx); err != nil {
				break
			}
		} else if !errors.Is(err, store.ErrKilled) {
			break // what was approved as a switch was activated is ended by it, once that is seen
		}
		err = attempt()
	}
	if err != nil {
		return Settlement{}, fmt.Errorf("settle %s: %w", id, err)
	}
	return result, nil
}

func (s *Settler) settle(ctx context.Context, c *store.Change) (Settlement, error) {
	if c.Approval.Status.Terminal() && c.Approval.Call.Dialect == DialectChange {
		return s.scheduled(c)
	}
	if c.Approval.Status.Terminal() {
		return s.lease(ctx, c)
	}
	if err := s.alarm(ctx, c); err != nil {
		return Settlement{}, err
	}
	if err := s.support(ctx, c); err != nil {
		return Settlement{}, err
	}
	if c.Approval.State.Status == approval.Pending {
		return s.wait(ctx, c)
	}
	if err := s.upToDate(c); err != nil {
		return Settlement{}, err
	}
	end, err := s.end(c)
	switch waits := errors.Is(err, ErrNoRules) || errors.Is(err, errNoKey); {
	case waits && c.Now.Before(c.Approval.State.ExpiresAt):
		if errors.Is(err, errNoKey) && c.Now.Sub(c.Approval.State.At) < saidFor {
			s.Logger.ErrorContext(ctx, "an approved call waits for a process that has its data key", "approval_id", c.Approval.ID, "error", err)
		}
		return Settlement{WakeIn: retryWithout}, nil
	case err != nil && !waits:
		return Settlement{}, err
	}
	if end.reopen != nil {
		if err := s.reopen(c, end); err != nil {
			return Settlement{}, err
		}
		return s.wait(ctx, c)
	}
	return s.conclude(ctx, c, end)
}

// upToDate is errBehind when the approval is to be judged by rules that this
// process has yet to hear of.
func (s *Settler) upToDate(c *store.Change) error {
	if c.Approval.State.Status != approval.Approved || c.Kill != nil {
		return nil
	}
	rules, err := c.Rules()
	if err == nil && s.Rules.Behind(rules) {
		err = errBehind
	}
	return err
}

// conclude writes the end of an approval, and its event.
func (s *Settler) conclude(ctx context.Context, c *store.Change, end ending) (Settlement, error) {
	constraints, validity, err := s.tightened(c)
	if err != nil && end.status == approval.Approved {
		end = unjudged("Reviewers set constraints that cannot all be kept to.")
	}
	if end.status == approval.Approved {
		contradiction, err := s.contradiction(c, validity)
		if err != nil {
			return Settlement{}, err
		}
		if contradiction != nil {
			s.Logger.ErrorContext(ctx, "the events of an approval do not come to what the database has of it: it is denied", "approval_id", c.Approval.ID, "error", contradiction)
			end = unjudged("The call was approved by what the database has, and not by what the audit log has of it: " + contradiction.Error() + ".")
		}
	}
	token := ""
	if end.status == approval.Approved {
		token = store.NewID("tok")
	}
	due := append(c.Approval.State.Due, approval.Notification{Key: "decided", Kind: engine.NotifyDecided, Stage: c.Approval.State.Stage})
	if end.status == approval.Approved && c.Approval.State.Owed {
		due = append(due, approval.Notification{Key: "review_owed", Kind: engine.NotifyReviewOwed})
		if err := c.RequireBreakGlassReview(); err != nil {
			return Settlement{}, err
		}
	}
	ended := c.Approval.SettledPayload(c.Approval.State, c.Now)
	if err := c.Settle(end.status, end.reasons, token, validity, constraints); err != nil {
		return Settlement{}, err
	}
	if c.Token != nil {
		ended.ValidUntil = c.Token.ValidUntil
	}
	e, err := s.settled(c, end.status.Outcome(), ended)
	if err != nil {
		return Settlement{}, err
	}
	e.Reasons = end.reasons
	if end.outcome != "" {
		e.Outcome = end.outcome
	}
	c.AddEvent(e)
	if c.Approval.Plan.AcceptedAs != "" {
		due = nil // its caller has the answer, and nobody else was asked
	}
	if c.Approval.Call.Dialect == DialectChange && end.status == approval.Approved {
		result, err := s.begin(c)
		if err == nil {
			err = s.notify(ctx, c, due)
		}
		return result, err
	}
	return Settlement{Over: true}, s.notify(ctx, c, due)
}

// settled is the event of an approval's end.
func (s *Settler) settled(c *store.Change, outcome engine.Outcome, ended approval.SettledPayload) (e engine.Event, err error) {
	e = s.event(engine.Settled, outcome, c)
	e.Requirements = approval.PayloadRequirements(c.Approval.Plan.Requirements)
	err = e.SetPayload(map[string]any{"ended": ended})
	return e, err
}

// contradiction is what a verifier of the log would say if the approval ended
// approved: that its events ask for something else, say, or do not have a vote. It is
// nil for what is in order.
func (s *Settler) contradiction(c *store.Change, validity time.Duration) (contradiction, err error) {
	ended := c.Approval.SettledPayload(c.Approval.State, c.Now)
	ended.ValidUntil = c.Now.Add(validity)
	end, err := s.settled(c, engine.Approved, ended)
	if err != nil {
		return nil, err
	}
	events, err := c.Events(end)
	if err != nil {
		return nil, err
	}
	return audit.Contradiction(events), nil
}

// wait says when to look at a pending approval again, and notifies people of what
// has come up.
func (s *Settler) wait(ctx context.Context, c *store.Change) (Settlement, error) {
	state := c.Approval.State
	if err := s.notify(ctx, c, state.Due); err != nil {
		return Settlement{}, err
	}
	// When somebody's being on call begins or ends, others may decide than before.
	wake := state.Wake
	shift, err := c.NextShift()
	if err != nil {
		return Settlement{}, err
	}
	if !shift.IsZero() && shift.Before(wake) {
		wake = shift
	}
	result := Settlement{WakeIn: wake.Sub(c.Now)}
	if state.Ticket != nil && state.Checked == nil {
		result.CheckTicket, result.Ticket = true, state.Ticket.Seq
	}
	return result, c.Wake(wake)
}

// lease sees to a redeemed call whose agent says nothing: nobody knows whether it
// ran, so a person has to find out, and nothing is tried again.
func (s *Settler) lease(ctx context.Context, c *store.Change) (Settlement, error) {
	t := c.Token
	if c.Approval.Execution == approval.Unknown {
		// The agent itself has said so.
		return Settlement{Over: true}, s.notify(ctx, c, executionUnknown)
	}
	if c.Approval.Execution != approval.Redeemed || t == nil || t.LeaseUntil == nil {
		return Settlement{Over: true}, nil
	}
	if left := t.LeaseUntil.Sub(c.Now); left > 0 {
		return Settlement{WakeIn: left}, c.Wake(*t.LeaseUntil)
	}
	if err := c.Executed(approval.Unknown); err != nil {
		return Settlement{}, err
	}
	e := s.event(engine.Executed, engine.Allow, c)
	e.Reasons = []engine.Reason{{Code: "EXECUTION_UNKNOWN", Message: "The agent has not said in time what became of the call. A person has to find out."}}
	c.AddEvent(e)
	return Settlement{Over: true}, s.notify(ctx, c, executionUnknown)
}

// executionUnknown is told once, whoever finds it.
var executionUnknown = []approval.Notification{{Key: "execution_unknown", Kind: engine.NotifyExecutionUnknown}}

func (s *Settler) notify(ctx context.Context, c *store.Change, due []approval.Notification) error {
	if s.Notifier == nil || len(due) == 0 {
		return nil
	}
	return s.Notifier.Notify(ctx, c, due)
}

// event starts an event about the approval that is being settled.
func (s *Settler) event(kind engine.EventType, outcome engine.Outcome, c *store.Change) engine.Event {
	return ApprovalEvent(s.Sealer, kind, outcome, c.Approval, settlerActor, "")
}
