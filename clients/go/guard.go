package holdpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrUncertain is for the error that a guarded function returns when it does
// not know whether the call had its effect: wrap it, and the outcome is
// reported as unknown rather than failed.
var ErrUncertain = errors.New("it is not known whether the call had its effect")

// ErrConstraints is returned by Guard for a call that may run under
// constraints only. A guarded function cannot be handed them, so it is not run:
// use Check, Await and Redeem, and keep to what Redemption says.
var ErrConstraints = errors.New("the call may run under constraints that Guard cannot keep")

// ErrEdited is returned by Guard for a call whose arguments a reviewer has
// changed: the guarded function would run it with those that were not approved.
// Use Check, Await and Redeem, and run it with Approval.Edited.Arguments.
var ErrEdited = errors.New("a reviewer has changed the call's arguments, which Guard cannot hand over")

// Refused is why Guard did not run a call: it was refused at once, or Approval
// says how the wait for people ended.
type Refused struct {
	Decision Decision
	Approval *Approval // nil when it was refused at once
}

// Error is one line for a person.
func (r *Refused) Error() string {
	a := r.Approval
	if a == nil {
		codes := r.Decision.HardBlockers
		if len(codes) == 0 {
			codes = r.Decision.Reasons
		}
		text := fmt.Sprintf("%s was refused: %s", r.Decision.ToolName, strings.Join(codes, ", "))
		if len(r.Decision.ValidationErrors) == 0 {
			return text
		}
		var wrong []string // with the proposal itself
		for _, e := range r.Decision.ValidationErrors {
			wrong = append(wrong, e.Path+": "+e.Message)
		}
		return text + " (" + strings.Join(wrong, "; ") + ")"
	}
	text := fmt.Sprintf("%s was not approved: %s", a.ToolName, a.Status)
	if d := a.Denial; d != nil {
		text += " (" + d.Kind + ")"
		if d.Comment != "" {
			text += fmt.Sprintf(" %q", d.Comment)
		}
		return text
	}
	for i, reason := range a.Reasons {
		text += map[bool]string{true: ": ", false: "; "}[i == 0] + reason.Message
	}
	return text
}

// Unreported is returned by Guard when the call has run but its outcome could
// not be reported. Run is what the guarded function returned. Do not run the
// call again because of it.
type Unreported struct {
	ApprovalID string
	Run        error
	Err        error
}

// Error says both.
func (u *Unreported) Error() string {
	if u.Run != nil {
		return fmt.Sprintf("%v (and that could not be reported: %v)", u.Run, u.Err)
	}
	return fmt.Sprintf("the call ran, but that could not be reported: %v", u.Err)
}

// Unwrap gives both.
func (u *Unreported) Unwrap() []error { return []error{u.Run, u.Err} }

// tidyUp is how long Guard may take to cancel or report after ctx has ended.
const tidyUp = 10 * time.Second

// Guard runs a call if, and only if, it is permitted: at once, or after people
// have approved it and the token has been redeemed for exactly e's tool and
// arguments, as they are at that moment. It returns what run returned, or a
// *Refused, or why the call could not be checked, awaited or redeemed; run has
// not been called then. When ctx ends while people are being waited for, the
// call is taken back. A Tool does more: it runs what was edited, keeps to constraints, and
// survives a crash.
//
// After a redeemed run the outcome is reported: succeeded for nil; unknown for
// a panic, for ErrUncertain and for an error of a context; failed for any
// other error. The report of a call that could not be made is an *Unreported.
func (c *Client) Guard(ctx context.Context, e Event, run func(context.Context) error) error {
	d, err := c.Check(ctx, e)
	switch {
	case err != nil:
		return err
	case ShouldExecute(d) && Constrained(d.Constraints):
		return ErrConstraints
	case ShouldExecute(d):
		return run(ctx)
	case d.Approval == nil:
		return &Refused{Decision: d}
	}
	if d.Approval.Status == Pending {
		c.tellWait(*d.Approval)
	}
	a, err := c.Watch(ctx, d.Approval.ID, c.questions())
	if err != nil {
		return errors.Join(err, c.takeBack(ctx, d.Approval.ID))
	}
	if a.Status != Approved {
		return &Refused{Decision: d, Approval: &a}
	}
	if a.Edited != nil {
		return ErrEdited
	}
	if a.Token == "" {
		return noToken(a.ID)
	}
	redeemed, err := c.Redeem(ctx, a.Token, e.ToolName, e.Arguments)
	if err != nil {
		return err
	}
	if Constrained(redeemed.Constraints) {
		return errors.Join(ErrConstraints, c.reportAfter(ctx, a.ID, Failed, 0))
	}
	return c.runRedeemed(ctx, a.ID, run)
}

func noToken(approvalID string) error {
	return fmt.Errorf("%s is approved, but the server gave no token: its time to run is over, or the key is not its agent's", approvalID)
}

// Constrained reports whether constraints, of a decision or of a redemption, hold anything
// that the call has to keep to.
func Constrained(constraints json.RawMessage) bool {
	limits := bytes.TrimSpace(constraints)
	return len(limits) > 0 && string(limits) != "{}" && string(limits) != "null"
}

// runRedeemed runs the call and reports it, even when run panics.
func (c *Client) runRedeemed(ctx context.Context, approvalID string, run func(context.Context) error) (err error) {
	outcome, started := Uncertain, time.Now()
	defer func() {
		if failed := c.reportAfter(ctx, approvalID, outcome, time.Since(started)); failed != nil {
			err = &Unreported{ApprovalID: approvalID, Run: err, Err: failed}
		}
	}()
	err = run(ctx)
	outcome = outcomeOf(err)
	return err
}

func (c *Client) reportAfter(ctx context.Context, approvalID string, outcome Outcome, took time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
	defer cancel()
	return c.Report(ctx, approvalID, outcome, took)
}

// takeBack cancels a call that nobody waits for any more. That it is over by
// itself is as good.
func (c *Client) takeBack(ctx context.Context, approvalID string) error {
	if ctx.Err() == nil {
		return nil // the server would not have us wait; it would not have us cancel either
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
	defer cancel()
	return c.cancelOver(ctx, approvalID)
}

// cancelOver cancels. That the call is over by itself is as good.
func (c *Client) cancelOver(ctx context.Context, approvalID string) error {
	_, err := c.Cancel(ctx, approvalID)
	var p *Problem
	if errors.As(err, &p) && (p.Status == http.StatusConflict || p.Status == http.StatusGone) {
		return nil
	}
	return err
}
