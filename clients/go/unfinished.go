package holdpoint

import (
	"context"
	"encoding/json"
	"errors"
)

// Unfinished is a call that a former process left behind, or whose wait was stopped. State
// is proposed, waiting or redeeming, which Tool.Resume runs; begun, where it is unknown
// whether it ran; ran, where only the report is missing, which Tool.Resume makes up for.
type Unfinished struct {
	Call       string
	State      string
	Tool       string
	Arguments  json.RawMessage // as proposed
	ApprovalID string

	c     *Client
	entry entry
}

// Unfinished are the calls of the journal that are not over and that this process is not
// busy with, the oldest first.
func (c *Client) Unfinished() ([]*Unfinished, error) {
	if c.Journal == nil {
		return nil, errors.New("without a journal nothing is known of earlier calls")
	}
	entries, err := c.Journal.unfinished()
	if err != nil {
		return nil, err
	}
	list := make([]*Unfinished, 0, len(entries))
	for _, e := range entries {
		arguments, err := argumentsOf(e.body)
		if err != nil {
			return nil, err
		}
		list = append(list, &Unfinished{Call: e.call, State: e.step, Tool: e.tool, Arguments: arguments, ApprovalID: e.approval, c: c, entry: e})
	}
	return list, nil
}

// Settle says what became of a call that had begun.
func (u *Unfinished) Settle(ctx context.Context, outcome Outcome) error {
	if u.State != stepBegun {
		return errors.New("the call has not begun, or its outcome is known")
	}
	return u.c.settle(ctx, u.entry, outcome, 0, true)
}

var errBegun = errors.New("the call has begun: settle it")

// Drop does not go on with a call that has not begun: what waits is taken back. What has
// begun meanwhile, in another process for example, is not dropped, which is an error.
func (u *Unfinished) Drop(ctx context.Context) error {
	j := u.c.Journal
	if err := j.enter(u.Call); err != nil {
		return err
	}
	defer j.leave(u.Call)
	now, err := j.entry(u.Call) // it may be further on than when it was listed
	switch {
	case err != nil:
		return err
	case now.step == stepBegun, now.step == stepRan, now.outcome != "":
		return errBegun
	case now.step == stepOver:
		return nil
	case now.step == stepWaiting:
		if err := u.c.cancelOver(ctx, now.approval); err != nil {
			return err
		}
	}
	// Whoever has the right to run the call may say that it does not run: nobody else can
	// begin it any more.
	by, err := j.begin(u.Call)
	if err != nil {
		return err
	}
	if by == "" {
		return errBegun
	}
	if now, err = j.entry(u.Call); err == nil {
		err = u.c.reportDropped(ctx, now)
	}
	if err != nil {
		return err // begun, as far as anybody knows: it may be settled
	}
	why := "dropped"
	return j.write(line{Call: u.Call, Step: stepOver, By: &by, Why: &why})
}

// reportDropped reports that a call did not run whose token was spent by a redemption of this
// journal. Another program of the agent may have spent it as well, and be running the call.
func (c *Client) reportDropped(ctx context.Context, e entry) error {
	for i := len(e.redeemKeys) - 1; i >= 0; i-- {
		var out redemptionAnswer
		err := c.postUnder(ctx, e.redeemKeys[i], "/v1/tokens/redeem", []byte(e.redeemBodies[i]), nil, &out)
		if err == nil {
			err = out.valid()
		}
		var p *Problem
		switch {
		case err == nil:
			// That nobody takes a report of it any more is as good.
			if err = c.Report(ctx, e.approval, Failed, 0); errors.As(err, &p) && verdictOf(p) != verdictAgain {
				err = nil
			}
			return err
		case !errors.As(err, &p):
			return err
		case p.Code == "token_used":
			continue
		case verdictOf(p) != verdictAgain:
			return nil
		}
		if a, unknown := c.Get(ctx, e.approval); unknown != nil || a.Execution != "none" {
			return err
		}
		return nil
	}
	return nil
}
