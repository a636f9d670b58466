package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
)

// preToolCheck is aana_pre_tool_check (docs/spec/agent-action-contract.md, section 7).
func (t *Tools) preToolCheck(ctx context.Context, r request) (result, error) {
	a, err := t.ask(ctx, r, http.MethodPost, "/v1/pre-tool-check", r.arguments, 0)
	if err != nil {
		return result{}, err
	}
	var checked struct {
		aana.Envelope
		Approval json.RawMessage `json:"approval"`
	}
	if err := json.Unmarshal(a.body, &checked); err != nil {
		return result{}, fmt.Errorf("read the decision: %w", err)
	}
	waiting, err := approvalOf(checked.Approval)
	if err != nil {
		return result{}, err
	}
	structured := struct {
		aana.Brief
		Approval json.RawMessage `json:"approval,omitempty"`
	}{checked.Brief(), checked.Approval}
	return result{sayDecision(checked.Envelope, waiting), structured}, nil
}

// check is holdpoint_check.
func (t *Tools) check(ctx context.Context, r request) (result, error) {
	a, err := t.ask(ctx, r, http.MethodPost, "/v1/tool-calls/check", r.arguments, 0)
	if err != nil {
		return result{}, err
	}
	var checked verdict
	if err := json.Unmarshal(a.body, &checked); err != nil {
		return result{}, fmt.Errorf("read the decision: %w", err)
	}
	waiting, err := approvalOf(checked.Approval)
	if err != nil {
		return result{}, err
	}
	return result{checked.say(waiting), json.RawMessage(a.body)}, nil
}

// await is holdpoint_await: it reads the approval until it is decided, or until
// the time is over.
func (t *Tools) await(ctx context.Context, r request) (result, error) {
	id, wait, err := waitArguments(r.arguments)
	if err != nil {
		return result{}, err
	}
	until := time.Now().Add(wait)
	path := "/v1/approvals/" + id
	a, err := t.ask(ctx, r, http.MethodGet, path, nil, 0)
	if err != nil {
		return result{}, err
	}
	waiting, err := approvalOf(a.body)
	if err != nil {
		return result{}, err
	}
	defer func() {
		if waiting != nil && waiting.Status != "pending" {
			r.caller.shown(ctx, r.session, waiting.ID)
		}
	}()
	if waiting.Status == "pending" && wait > 0 {
		r.caller.show(r.session, waiting)
	}
	tell, stop := r.tellWaiting(ctx, waiting, wait)
	defer stop()
	for left := time.Until(until); waiting.Status == "pending" && left > 0 && r.caller.waiting.Err() == nil; left = time.Until(until) {
		next, err := t.hold(ctx, r, path, left, a.header.Get("ETag"))
		if err != nil && ctx.Err() == nil && r.caller.waiting.Err() != nil {
			break // nobody will wait any more: it is answered as it was last seen
		}
		if err != nil {
			return result{}, err
		}
		if len(next.body) == 0 {
			break // not modified: the time is over, or the server is stopping
		}
		unchanged := next.header.Get("ETag") == a.header.Get("ETag")
		a = next
		if waiting, err = approvalOf(a.body); err != nil {
			return result{}, err
		}
		if waiting.Status == "pending" {
			tell(waiting)
		}
		if unchanged {
			break // likewise, of a server that sends it again
		}
	}
	return result{waiting.say(), json.RawMessage(a.body)}, nil
}

// hold reads the approval once it is no longer what the tag stands for.
func (t *Tools) hold(ctx context.Context, r request, path string, left time.Duration, seen string) (answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.caller.waiting, cancel)()
	seconds := int(math.Ceil(left.Seconds()))
	return t.ask(ctx, r, http.MethodGet, path+"?wait="+strconv.Itoa(seconds), nil, left, "If-None-Match", seen)
}

// cancel is holdpoint_cancel.
func (t *Tools) cancel(ctx context.Context, r request) (result, error) {
	v, err := members(r.arguments, "approval_id")
	if err != nil {
		return result{}, err
	}
	id, err := idOf(v)
	if err != nil {
		return result{}, err
	}
	a, err := t.ask(ctx, r, http.MethodPost, "/v1/approvals/"+id+"/cancel", []byte(`{}`), 0)
	if err != nil {
		return result{}, err
	}
	taken, err := approvalOf(a.body)
	if err != nil {
		return result{}, err
	}
	return result{taken.say(), json.RawMessage(a.body)}, nil
}

func waitArguments(arguments []byte) (id string, wait time.Duration, err error) {
	v, err := members(arguments, "approval_id", "timeout_seconds")
	if err != nil {
		return "", 0, err
	}
	if id, err = idOf(v); err != nil {
		return "", 0, err
	}
	seconds := float64(usualWait)
	if given, ok := v.Get("timeout_seconds"); ok {
		seconds = given.Float()
		if given.Kind() != canon.NumberKind || seconds < 0 || seconds > longestWait || seconds != math.Trunc(seconds) {
			return "", 0, invalid("timeout_seconds is a whole number from 0 to %d.", longestWait)
		}
	}
	return id, time.Duration(seconds) * time.Second, nil
}

// members reads arguments that may have these members and no others.
func members(arguments []byte, names ...string) (canon.Value, error) {
	v, err := canon.Parse(arguments)
	if err != nil || v.Kind() != canon.ObjectKind {
		return v, invalid("The arguments must be an object.")
	}
	for _, m := range v.Members() {
		if !slices.Contains(names, m.Name) {
			return v, invalid("There is no such argument; this tool takes %s.", names)
		}
	}
	return v, nil
}

// idOf reads approval_id. What is no plain word can be no id, and must not
// become part of an address.
func idOf(v canon.Value) (string, error) {
	given, _ := v.Get("approval_id")
	id := given.Str()
	if !plainID(id) {
		return "", invalid("approval_id must be the id of an approval, as the check answered it.")
	}
	return id, nil
}

func plainID(id string) bool {
	for _, c := range id {
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
		if !plain {
			return false
		}
	}
	return id != "" && len(id) <= 64
}

func invalid(format string, args ...any) error {
	return newProblem(http.StatusUnprocessableEntity, "invalid_body", fmt.Sprintf(format, args...))
}
