package gate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/registry"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// ending is what a decided approval comes to.
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
// While there are no rules to judge by, the error is ErrNoRules, and while this process
// lacks the data key of the arguments, errNoKey; the ending is then the one for an approval
// whose deadline has passed meanwhile.
func (s *Settler) end(c *store.Change) (ending, error) {
	state := c.Approval.State
	if state.Status != approval.Approved {
		return ending{status: state.Status, reasons: []engine.Reason{endReason(c.Approval)}}, nil
	}
	if c.Kill != nil {
		// A yes of before the switch was thrown does not count after it.
		code := registry.AgentKill
		if c.Kill.AgentID == "" {
			code = registry.GlobalKill
		}
		return ending{status: approval.Denied, reasons: []engine.Reason{{Code: code, Message: "The call was approved, but a kill switch stops its agent."}}, outcome: engine.KillSwitch}, nil
	}
	if c.Approval.Call.Dialect == DialectChange {
		return s.endChange(c)
	}
	// Opening depends on the data key, which another process may have had first, and judging
	// on little (ErrNoRules): what else fails now fails always, and the approval must end all
	// the same.
	document, err := s.Sealer.Open(c.Approval.ID, c.Sealed)
	if err != nil {
		end := unjudged("The sealed arguments cannot be opened, so the call cannot be judged again.")
		if unknown := (*seal.UnknownKeyError)(nil); errors.As(err, &unknown) {
			return end, fmt.Errorf("%w: %w", errNoKey, err)
		}
		return end, nil
	}
	again, err := s.Rules.Recheck(c.Approval, document, c.Now)
	if errors.Is(err, ErrNoRules) {
		return unjudged("There were no rules in force by which the call could have been judged again."), err
	}
	if err != nil {
		return unjudged("The call cannot be judged again."), nil
	}
	return judged(c, again), nil
}

// judged is the end of an approved call that has been judged again: the stricter
// of what was asked and what the rules in force ask.
func judged(c *store.Change, again engine.Decision) ending {
	d, changed := c.Approval.Decision, func(message string, more ...engine.Reason) []engine.Reason {
		return append([]engine.Reason{{Code: "policy_changed", Message: message}}, more...)
	}
	left := engine.Undischarged(d.Findings, c.Approval.Plan.Requirements, again)
	if slices.ContainsFunc(left, func(f engine.Finding) bool { return f.Route == engine.Refuse }) {
		return ending{status: approval.Denied, reasons: changed("The call was approved, but the rules in force refuse it.", engine.Reasons(left)...)}
	}
	d.Requirements = c.Approval.Plan.Requirements
	stricter := d.Stricter(again)
	// A constraint that the rules of now no longer set stays: they can only add.
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
	return ending{status: approval.Approved, reasons: []engine.Reason{endReason(c.Approval)}}
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

// unjudged is the end of an approved call that cannot be judged again: it is denied.
func unjudged(message string) ending {
	return ending{status: approval.Denied, reasons: []engine.Reason{{Code: "recheck_failed", Message: message}}}
}

// endReason is the reason code that ends a wait (Agent-SPM), by what was waited for.
func endReason(a approval.Approval) engine.Reason {
	if len(a.Plan.Requirements) == 0 {
		if a.State.Status == approval.Approved {
			return engine.Reason{Code: "ACCEPTED", Message: "The call was accepted when it was proposed."}
		}
		return engine.Reason{Code: "nothing_asked", Message: "It asks for nobody, so that nobody can approve it."}
	}
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
	if f := a.State.Decisive; f != nil && f.Kind != approval.Vote || current.Discharger == engine.Tracker {
		return current.Denied // by who gives it
	}
	if asked.PeopleDecide() {
		return asked.Traits().Denied
	}
	return engine.Review.Traits().Denied
}

// tightened is what the votes that counted have made of constraints and
// validity; nil where they left the constraints alone.
func (s *Settler) tightened(c *store.Change) (json.RawMessage, time.Duration, error) {
	validity, narrowed := s.Validity, false
	for _, f := range c.Approval.State.Counted {
		if d := time.Duration(f.Details.ValidFor); d > 0 {
			validity = min(validity, d)
		}
		narrowed = narrowed || len(f.Details.Constraints) > 0
	}
	if !narrowed {
		return nil, validity, nil
	}
	constraints, err := approval.Constraints(c.Approval.Decision.Constraints, c.Approval.State.Counted)
	return constraints, validity, err
}
