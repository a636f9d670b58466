package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"holdpoint/engine/canon"
)

// permission is the answer of holdpoint_redeem: there is none that does not permit.
type permission struct {
	Run         bool            `json:"run"`
	ApprovalID  string          `json:"approval_id"`
	Constraints json.RawMessage `json:"constraints"`
	LeaseUntil  string          `json:"lease_until"`
}

// redeem is holdpoint_redeem: it spends the token of an approval on the very call that
// the host is about to run, and shows the token to nobody. A repetition is refused,
// whatever key it has: what is permitted is permitted once.
func (t *Tools) redeem(ctx context.Context, r request) (result, error) {
	v, err := members(r.arguments, "approval_id", "tool_name", "arguments", "lease_seconds", "preconditions")
	if err != nil {
		return result{}, err
	}
	id, err := idOf(v)
	if err != nil {
		return result{}, err
	}
	name, _ := v.Get("tool_name")
	arguments, _ := v.Get("arguments")
	if name.Str() == "" || arguments.Kind() != canon.ObjectKind {
		return result{}, invalid("tool_name must be the tool's name, and arguments an object: the call as it is about to run.")
	}
	r.once = ""
	a, err := t.ask(ctx, r, http.MethodGet, "/v1/approvals/"+id, nil, 0)
	if err != nil {
		return result{}, err
	}
	w, err := approvalOf(a.body)
	switch {
	case err != nil:
		return result{}, err
	case w == nil:
		return result{}, errors.New("the server answers with no approval")
	case w.Status != "approved":
		return result{}, newProblem(http.StatusConflict, "not_approved", fmt.Sprintf("The approval is %s, so its call may not run. Read it with %s.", w.Status, awaitTool))
	case w.Token == "":
		return result{}, newProblem(http.StatusConflict, "nothing_to_redeem", fmt.Sprintf("It was approved, and there is nothing to spend (execution: %s): its time is over, the call has begun before, or the key is not its agent's.", w.Execution))
	}
	spend := []canon.Member{{Name: "token", Value: canon.String(w.Token)}}
	for _, m := range v.Members() {
		if m.Name != "approval_id" {
			spend = append(spend, m)
		}
	}
	if a, err = t.ask(ctx, r, http.MethodPost, "/v1/tokens/redeem", canon.Object(spend...).Canonical(), 0); err != nil {
		return result{}, err
	}
	var spent struct {
		permission
		Redeemed bool `json:"redeemed"`
		Replayed bool `json:"replayed"`
	}
	if err := json.Unmarshal(a.body, &spent); err != nil {
		return result{}, fmt.Errorf("read the redemption: %w", err)
	}
	if !spent.Redeemed || spent.Replayed || spent.ApprovalID != id {
		return result{}, errors.New("the answer to a redemption does not say that this one is redeemed")
	}
	limits, err := canon.Parse(spent.Constraints)
	if err != nil || limits.Kind() != canon.ObjectKind {
		return result{}, errors.New("the constraints of a redemption are no object")
	}
	spent.Run = true
	say := "Run the tool now, once, with exactly these arguments"
	if limits.Len() > 0 {
		say += ", keeping to constraints"
	}
	return result{say + fmt.Sprintf("; then say what became of it with %s.", reportTool), spent.permission}, nil
}

// report is holdpoint_report: what became of a call after it was redeemed.
func (t *Tools) report(ctx context.Context, r request) (result, error) {
	a, err := t.ask(ctx, r, http.MethodPost, "/v1/executions", r.arguments, 0)
	if err != nil {
		return result{}, err
	}
	w, err := approvalOf(a.body)
	if err != nil {
		return result{}, err
	}
	if w == nil {
		return result{}, errors.New("the server answers with no approval")
	}
	became := w.Execution
	if became == "unknown" {
		became = "may or may not have had its effect"
	}
	return result{fmt.Sprintf("It is on record that the call %s (%s). Do not run it again.", became, w.ID), json.RawMessage(a.body)}, nil
}
