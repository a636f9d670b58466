package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/engine/dialect/authzen"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

// The Access Request and Approval Profile of AuthZEN.
const (
	accessRequests          = accessPrefix + "requests"
	accessRequestCapability = "urn:openid:authzen:capability:access-request"
	accessRequestError      = "urn:openid:authzen:access-request:error:"
	retrySeconds            = 2
)

// accessRequestCodes are the problems that the profile has types for.
var accessRequestCodes = []string{"not_requestable", "expired_denial", "invalid_denial_binding", "duplicate_request", "unknown_task", "invalid_task_state"}

// Requestable says that access can be asked for after a denial.
type Requestable struct {
	Endpoint  string    `json:"endpoint"`
	ExpiresAt time.Time `json:"expires_at"`
}

// AccessRequestBody asks for access after a denied evaluation.
type AccessRequestBody struct {
	Subject  EntityBody      `json:"subject"`
	Action   ActionBody      `json:"action"`
	Resource EntityBody      `json:"resource"`
	Context  json.RawMessage `json:"context,omitempty" doc:"Not kept: people see the context of the evaluation."`
	Denial   DenialBody      `json:"denial"`
}

// DenialBody names the denied evaluation.
type DenialBody struct {
	EvaluationID string    `json:"evaluation_id" doc:"context.evaluation_id of the decision."`
	ExpiresAt    time.Time `json:"expires_at" doc:"context.access_request.expires_at of the decision. What is on record counts."`
}

// AccessTask is how an access request stands.
type AccessTask struct {
	Task   TaskHandle  `json:"task"`
	Result *TaskResult `json:"result,omitempty" doc:"Of one that is approved."`
}

// TaskHandle is the profile's Task Handle: the approval.
type TaskHandle struct {
	ID             string          `json:"id"`
	Status         approval.Status `json:"status" enum:"pending,approved,denied,expired,cancelled"`
	StatusEndpoint string          `json:"status_endpoint"`
	ExpiresAt      time.Time       `json:"expires_at"`
	Links          TaskLinks       `json:"links"`
}

// TaskLinks are where to go from here.
type TaskLinks struct {
	Review string `json:"review" doc:"The page on which a person decides."`
	Cancel string `json:"cancel,omitempty" doc:"While it is pending."`
}

// TaskResult says how an approval becomes a permission: by evaluating the call again.
type TaskResult struct {
	Mode     string       `json:"mode" enum:"reevaluate"`
	Approval TaskApproval `json:"approval" doc:"Send it as context.approval of the evaluation."`
}

// TaskApproval is the approval that the evaluation presents.
type TaskApproval struct {
	ID            string     `json:"id"`
	ApprovedAt    *time.Time `json:"approved_at,omitempty"`
	ApprovedUntil time.Time  `json:"approved_until"`
}

// CancelTaskBody says why a request is taken back. It is not kept.
type CancelTaskBody struct {
	Reason  string `json:"reason,omitempty" maxLength:"1000"`
	Comment string `json:"comment,omitempty" maxLength:"4000"`
}

// accessRequests are the operations of the Access Request and Approval Profile.
func (a dialectDoor) accessRequests() []operation {
	problems := []int{400, 401, 403, 404, 409, 410, 413, 423, 429, 503}
	example := map[string]any{
		"subject": map[string]any{"type": "user", "id": "alice@example.com"}, "action": map[string]any{"name": "issue_refund", "properties": map[string]any{"amount": 120}},
		"resource": map[string]any{"type": "order", "id": "4711"},
		"denial":   map[string]any{"evaluation_id": "0192b1c4-0000-7000-8000-000000000000.apr_jxitrr2ecdfgdvk6wwjoctbdxt", "expires_at": "2026-11-23T19:00:00Z"},
	}
	return []operation{
		{
			method: "POST", path: accessRequests, summary: "Ask for access after a denial (AuthZEN)", scope: identity.ScopeCheck,
			detail: "AuthZEN Access Request and Approval Profile 1.0, draft of June 2026. The evaluation has asked people already: the task is the approval that it waits for.",
			in:     AccessRequestBody{}, out: AccessTask{}, statuses: []int{201, 202}, problems: problems, repeats: true, example: example, handle: profiled(a.requestAccess),
		},
		{
			method: "GET", path: accessRequests + "/{id}", summary: "Read how an access request stands (AuthZEN)", scope: identity.ScopeApprovals, out: AccessTask{}, statuses: []int{200},
			problems: []int{401, 403, 404, 503}, handle: profiled(a.accessTask),
		},
		{
			method: "POST", path: accessRequests + "/{id}/cancel", summary: "Take an access request back (AuthZEN)", scope: identity.ScopeApprovals, in: CancelTaskBody{}, out: AccessTask{}, statuses: []int{200},
			detail: "The body may be left out.", problems: problems, repeats: true, handle: profiled(a.cancelAccess),
		},
	}
}

// profiled gives problems the types that the profile has for them.
func profiled(handle func(*call) error) func(*call) error {
	handle = badRequests(handle)
	return func(c *call) error {
		err := handle(c)
		var refused *access.Refusal
		if !errors.As(err, &refused) {
			return err
		}
		known := *refused
		switch refused.Code {
		case "idempotency_key_reused":
			known.Kind, known.Code = access.Conflict, "duplicate_request"
		case "not_found":
			known.Code = "unknown_task"
		case "already_approved", "already_denied", "already_expired", "already_cancelled", "already_decided", "expired":
			known.Kind, known.Code = access.Conflict, "invalid_task_state"
		}
		return &known
	}
}

// task is an approval as the profile has it.
func (a dialectDoor) task(v gate.View) AccessTask {
	of := v.Approval
	self := a.PublicURL + accessRequests + "/" + url.PathEscape(of.ID)
	t := AccessTask{Task: TaskHandle{
		ID: of.ID, Status: of.Status, StatusEndpoint: self, ExpiresAt: of.Plan.ExpiresAt, Links: TaskLinks{Review: a.PublicURL + "/approvals/" + url.PathEscape(of.ID)},
	}}
	if !of.State.ExpiresAt.IsZero() {
		t.Task.ExpiresAt = of.State.ExpiresAt
	}
	switch of.Status {
	case approval.Pending:
		t.Task.Links.Cancel = self + "/cancel"
	case approval.Approved:
		t.Result = &TaskResult{"reevaluate", TaskApproval{of.ID, given(of.EndedAt), v.ValidUntil}}
	case approval.Denied, approval.Expired, approval.Cancelled:
	}
	return t
}

func (a dialectDoor) taskReply(status int, v gate.View) (access.Reply, error) {
	t := a.task(v)
	header := map[string]string{"Location": t.Task.StatusEndpoint}
	if t.Task.Status == approval.Pending {
		header["Retry-After"] = strconv.Itoa(retrySeconds)
	}
	return jsonReply(status, t, header)
}

func (a dialectDoor) requestAccess(c *call) error {
	document, err := readJSON(c)
	if err != nil {
		return err
	}
	submission, wrong := authzen.ParseSubmission(document)
	if len(wrong) > 0 {
		return notEvaluated(wrong)
	}
	return answer(a.API, c, document, func(once *access.Idempotency[gate.View]) (gate.View, error) {
		return a.Gate.RequestAccess(c.r.Context(), c.principal, submission, RequestID(c.r.Context()), once)
	}, func(v gate.View) (access.Reply, error) {
		if v.Approval.Status.Terminal() {
			return a.taskReply(http.StatusCreated, v)
		}
		return a.taskReply(http.StatusAccepted, v)
	})
}

func (a dialectDoor) accessTask(c *call) error {
	v, err := a.Gate.Queries.ForAgent(c.r.Context(), c.principal, c.r.PathValue("id"))
	if err != nil {
		return err
	}
	reply, err := a.taskReply(http.StatusOK, v)
	if err == nil {
		writeReply(c.w, reply)
	}
	return err
}

func (a dialectDoor) cancelAccess(c *call) error {
	body, err := readOptional(c, &CancelTaskBody{})
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.Cancel(c.r.Context(), c.principal, c.r.PathValue("id"), RequestID(c.r.Context()), once)
	}, func(of approval.Approval) (access.Reply, error) {
		return a.taskReply(http.StatusOK, gate.View{Approval: of})
	})
}

// permittedBefore is the answer to a repetition of an evaluation: by one that an
// approval has permitted, it says that it was permitted before, and when.
func (a dialectDoor) permittedBefore(c *call, kept *access.Replay) error {
	var d AccessDecision
	if err := json.Unmarshal(kept.Reply.Body, &d); err != nil {
		return fmt.Errorf("read the kept answer: %w", err)
	}
	if !d.Decision || d.Context.LeaseUntil == nil || d.Context.Approval == nil {
		return kept
	}
	at, err := a.Gate.RedeemedAt(c.r.Context(), c.principal, d.Context.Approval.ID, RequestID(c.r.Context()))
	if err != nil {
		return err
	}
	d.Context.Replayed, d.Context.RedeemedAt = true, &at
	reply, err := jsonReply(http.StatusOK, d, nil)
	if err != nil {
		return err
	}
	return &access.Replay{Reply: reply}
}
