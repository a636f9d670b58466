package holdpoint

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
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

// Drop does not go on with a call that has not begun: what waits is taken back.
func (u *Unfinished) Drop(ctx context.Context) error {
	switch u.State {
	case stepWaiting:
		if err := u.c.cancelOver(ctx, u.ApprovalID); err != nil {
			return err
		}
	case stepRedeeming:
		var p *Problem
		// That it was not redeemed is as good.
		if err := u.c.Report(ctx, u.ApprovalID, Failed, 0); err != nil && (!errors.As(err, &p) || p.Status != http.StatusConflict) {
			return err
		}
	case stepBegun, stepRan:
		return errors.New("the call has begun: settle it")
	}
	why := "dropped"
	return u.c.Journal.write(line{Call: u.Call, Step: stepOver, Why: &why})
}
