package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/authzen"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

// EntityBody is an AuthZEN subject or resource, for the documentation; the dialect's
// own reader reads it (engine/dialect/authzen).
type EntityBody struct {
	Type       string          `json:"type" minLength:"1"`
	ID         string          `json:"id" minLength:"1"`
	Properties json.RawMessage `json:"properties,omitempty" doc:"An object."`
}

// ActionBody is an AuthZEN action.
type ActionBody struct {
	Name       string          `json:"name" minLength:"1" doc:"The exact name of the tool."`
	Properties json.RawMessage `json:"properties,omitempty" doc:"An object: arguments of the call."`
}

// EvaluationBody is an AuthZEN Access Evaluation request. Members that it does not name
// are left out.
type EvaluationBody struct {
	Subject  EntityBody      `json:"subject" doc:"Of type agent it has to be the key's own agent. Any other subject is somebody on whose behalf the call is made."`
	Action   ActionBody      `json:"action"`
	Resource EntityBody      `json:"resource" doc:"What the call is about: its properties, resource_type and resource_id are arguments of the call."`
	Context  json.RawMessage `json:"context,omitempty" doc:"An object. It is shown to people, and nothing is decided by it."`
}

// EvaluationsBody is an AuthZEN Access Evaluations request: what is left out of an
// evaluation is taken from here.
type EvaluationsBody struct {
	Subject     *EntityBody       `json:"subject,omitempty"`
	Action      *ActionBody       `json:"action,omitempty"`
	Resource    *EntityBody       `json:"resource,omitempty"`
	Context     json.RawMessage   `json:"context,omitempty"`
	Evaluations []json.RawMessage `json:"evaluations,omitempty" doc:"At most 50 Access Evaluation requests. Without any, the body is one."`
	Options     json.RawMessage   `json:"options,omitempty" doc:"{evaluations_semantic: execute_all, deny_on_first_deny or permit_on_first_permit}."`
}

// AccessDecision is AuthZEN's Decision.
type AccessDecision struct {
	Decision bool            `json:"decision" doc:"Run the call only when this is true."`
	Context  DecisionContext `json:"context"`
}

// DecisionContext says why, and what to do about it.
type DecisionContext struct {
	EvaluationID string           `json:"evaluation_id,omitempty" doc:"The event that the audit log has of it."`
	EvaluatedAt  *time.Time       `json:"evaluated_at,omitempty"`
	Outcome      engine.Outcome   `json:"outcome,omitempty"`
	Reason       string           `json:"reason,omitempty" doc:"The code of the strictest reason."`
	Reasons      []engine.Reason  `json:"reasons,omitempty"`
	Constraints  json.RawMessage  `json:"constraints,omitempty" doc:"What a permitted call has to keep to, by the policy."`
	Approval     *AccessApproval  `json:"approval,omitempty" doc:"The approval that the call waits for, or by which it is permitted. In a refusal with the reason DENIED_BEFORE: the former approval by which people denied this very call."`
	Joined       bool             `json:"joined,omitempty" doc:"True when the very call waited already: approval is that one, and nobody is asked again."`
	Requestable  *Requestable     `json:"access_request,omitempty" doc:"Where a program of the Access Request and Approval Profile asks for access. People have been asked already."`
	NextAction   string           `json:"next_action,omitempty" enum:"retry,none" doc:"What to do about an approval that was presented and does not permit the call."`
	RetryAfter   int              `json:"retry_after,omitempty" doc:"With retry: in how many seconds."`
	LeaseUntil   *time.Time       `json:"lease_until,omitempty" doc:"Of a call that an approval permits: by when to say what became of it (POST /v1/executions)."`
	Replayed     bool             `json:"replayed,omitempty" doc:"True when the approval was used by this very request before: run the call only if you know that it has not run."`
	RedeemedAt   *time.Time       `json:"redeemed_at,omitempty" doc:"With replayed: when the approval was used."`
	Error        *EvaluationError `json:"error,omitempty" doc:"Of one of several evaluations: why it was not evaluated."`
}

// AccessApproval is an approval, and until when it permits its call.
type AccessApproval struct {
	Approval
	ApprovedUntil *time.Time `json:"approved_until,omitempty"`
}

// EvaluationError says why one of several requests was not evaluated.
type EvaluationError struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Path    string `json:"path,omitempty" doc:"Where in the evaluation, as a JSON Pointer."`
}

// AccessDecisions are the decisions on several requests; the one of the body itself,
// where it has none.
type AccessDecisions struct {
	Evaluations []AccessDecision `json:"evaluations,omitempty" doc:"In the order of the request. They end with the one that evaluations_semantic stops at."`
	Decision    *bool            `json:"decision,omitempty" doc:"Only without evaluations."`
	Context     *DecisionContext `json:"context,omitempty" doc:"Only without evaluations."`
}

// PDPMetadata is AuthZEN's Policy Decision Point metadata.
type PDPMetadata struct {
	PolicyDecisionPoint string `json:"policy_decision_point"`
	Evaluation          string `json:"access_evaluation_endpoint"`
	Evaluations         string `json:"access_evaluations_endpoint"`
	// The others are of the Access Request and Approval Profile.
	AccessRequest string   `json:"access_request_endpoint"`
	Capabilities  []string `json:"capabilities"`
}

// The addresses of AuthZEN's Authorization API.
const (
	accessPrefix    = "/access/v1/"
	evaluationPath  = accessPrefix + "evaluation"
	evaluationsPath = accessPrefix + "evaluations"
)

// evaluating are the headers of a request that proposes calls here.
var evaluating = []parameter{
	proposing[0], proposing[1], {"Prefer", "separate: an approval of its own where the very call waits already."},
}

// evaluationProblems are the codes of the problems here: AuthZEN knows no 415.
var evaluationProblems = []int{400, 401, 403, 409, 410, 413, 422, 423, 429, 503}

// authzen is the door for OpenID AuthZEN's Authorization API 1.0.
func (a dialectDoor) authzen() []operation {
	example := map[string]any{
		"subject": map[string]any{"type": "user", "id": "alice@example.com"}, "action": map[string]any{"name": "issue_refund", "properties": map[string]any{"amount": 120}},
		"resource": map[string]any{"type": "order", "id": "4711"},
	}
	return append([]operation{
		{
			method: "POST", path: evaluationPath, summary: "Evaluate an access (AuthZEN)", scope: identity.ScopeCheck,
			detail:  "OpenID AuthZEN Authorization API 1.0. The call of the tool action.name is judged as any proposed call is. decision is true only for a call that may run now; where people have to approve it, it is false, and context.approval is what it waits for.",
			headers: evaluating, example: example, in: EvaluationBody{}, out: AccessDecision{}, statuses: []int{200}, problems: evaluationProblems, repeats: true, handle: badRequests(a.evaluate),
		},
		{
			method: "POST", path: evaluationsPath, summary: "Evaluate several accesses (AuthZEN)", scope: identity.ScopeCheck,
			detail:  "Each is judged, and on record, for itself, one after the other. What is wrong with one of them is said in its context.error, and its decision is false.",
			headers: evaluating, in: EvaluationsBody{}, out: AccessDecisions{}, statuses: []int{200}, problems: evaluationProblems, repeats: true, handle: badRequests(a.evaluateAll),
			example: map[string]any{"subject": example["subject"], "action": example["action"], "evaluations": []any{map[string]any{"resource": map[string]any{"type": "order", "id": "4711"}}}},
		},
		{
			method: "GET", path: "/.well-known/authzen-configuration", summary: "What this server offers (AuthZEN)", scope: public, out: PDPMetadata{}, statuses: []int{200},
			handle: a.authzenConfiguration,
		},
	}, a.accessRequests()...)
}

// badRequests answers 400 where this API has 415 and 422 elsewhere, but for an
// Idempotency-Key that belongs to another request.
func badRequests(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		err := handle(c)
		var f *failure
		var refused *access.Refusal
		switch {
		case errors.As(err, &f) && (f.Status == http.StatusUnsupportedMediaType || f.Status == http.StatusUnprocessableEntity):
			bad := *f
			bad.Status = http.StatusBadRequest
			return &bad
		case errors.As(err, &refused) && refused.Kind == access.Invalid && refused != access.OtherRequest:
			bad := *refused
			bad.Kind = access.Malformed
			return &bad
		}
		return err
	}
}

// echo sends the caller's own id of the request back, as AuthZEN has it, whatever it
// looks like; ours stays what the log has where theirs is no plain word.
func echo(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Request-Id")
	if id != "" && len(id) <= 256 && !strings.ContainsFunc(id, func(c rune) bool { return c < 0x20 || c > 0x7e }) {
		w.Header().Set("X-Request-Id", id)
	}
}

func (a dialectDoor) authzenConfiguration(c *call) error {
	return writeJSON(c, http.StatusOK, PDPMetadata{
		PolicyDecisionPoint: a.PublicURL, Evaluation: a.PublicURL + evaluationPath, Evaluations: a.PublicURL + evaluationsPath,
		AccessRequest: a.PublicURL + accessRequests, Capabilities: []string{accessRequestCapability},
	})
}

// evaluationRequest reads what a request says beside its body.
func evaluationRequest(c *call) (gate.Request, error) {
	request, err := asked(c)
	request.WantToken = false // a decision has no place for one
	return request, err
}

func (a dialectDoor) evaluate(c *call) error {
	document, err := readJSON(c)
	if err != nil {
		return err
	}
	return a.evaluateOne(c, document)
}

func (a dialectDoor) evaluateOne(c *call, document canon.Value) error {
	request, err := evaluationRequest(c)
	if err != nil {
		return err
	}
	return answer(a.API, c, keyed(document, request), func(once *access.Idempotency[gate.Evaluated]) (gate.Evaluated, error) {
		return a.evaluated(c, document, request, once)
	}, a.decisionReply(c))
}

// evaluated has the gate judge one request.
func (a dialectDoor) evaluated(c *call, document canon.Value, request gate.Request, once *access.Idempotency[gate.Evaluated]) (gate.Evaluated, error) {
	started := time.Now()
	evaluated, wrong, err := a.Gate.Evaluate(c.r.Context(), c.principal, document, request, once)
	if len(wrong) > 0 {
		return evaluated, notEvaluated(wrong)
	}
	if err == nil {
		a.decided(gate.DialectAuthZEN, evaluated.Decision.Route, started)
	}
	if kept := (*access.Replay)(nil); errors.As(err, &kept) && kept.Reply.Status == http.StatusOK {
		err = a.permittedBefore(c, kept)
	}
	return evaluated, err
}

// notEvaluated says what is wrong with a request.
func notEvaluated[E gate.FieldError | authzen.FieldError](wrong []E) *failure {
	f := &failure{Status: http.StatusBadRequest, Code: "invalid_body"}
	for _, w := range wrong {
		f.Fields = append(f.Fields, FieldError(w))
	}
	f.Detail = "The body is no evaluation request: " + f.Fields[0].Path + " " + f.Fields[0].Message + "."
	return f
}

func (a dialectDoor) decisionReply(c *call) func(gate.Evaluated) (access.Reply, error) {
	return func(e gate.Evaluated) (access.Reply, error) { return jsonReply(http.StatusOK, a.decision(c, e), nil) }
}

// decision is the gate's answer in AuthZEN's words.
func (a dialectDoor) decision(c *call, e gate.Evaluated) AccessDecision {
	d := AccessDecision{Decision: e.Decision.Route == engine.Accept, Context: DecisionContext{
		Outcome: e.Decision.Outcome, Reasons: engine.Reasons(e.Decision.Findings), Joined: e.Joined, NextAction: e.NextAction, LeaseUntil: given(e.LeaseUntil),
	}}
	if len(e.Decision.Findings) > 0 {
		d.Context.Reason = e.Decision.Findings[0].Code
	}
	if e.Event.ID != "" {
		d.Context.EvaluationID, d.Context.EvaluatedAt, d.Context.Outcome = gate.EvaluationID(e.Event, e.Approval), &e.Event.Timestamp, e.Event.Outcome
		if len(e.Event.Reasons) > 0 {
			d.Context.Reason = e.Event.Reasons[0].Code // the strictest comes first
		}
	}
	if waiting := a.waiting(c, e.Approval); waiting != nil {
		d.Context.Approval = &AccessApproval{*waiting, given(e.ApprovedUntil)}
		if waiting.Status == approval.Pending {
			d.Context.Requestable = &Requestable{a.PublicURL + accessRequests, e.Approval.Plan.ExpiresAt}
		}
	}
	if d.Decision {
		d.Context.Constraints = e.Decision.Constraints
	}
	if e.NextAction == "retry" {
		d.Context.RetryAfter = retrySeconds
	}
	return d
}

// given is a time that there is; nil for none.
func given(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// evaluateAll evaluates one request after the other. Under an Idempotency-Key each has
// its own answer on record: a repetition goes on where the first one was cut off.
func (a dialectDoor) evaluateAll(c *call) error {
	document, err := readJSON(c)
	if err != nil {
		return err
	}
	batch, wrong := authzen.Split(document)
	if len(wrong) > 0 {
		return notEvaluated(wrong)
	}
	if len(batch.Items) == 0 {
		return a.evaluateOne(c, document)
	}
	request, err := evaluationRequest(c)
	if err != nil {
		return err
	}
	repeat, err := a.request(c, keyed(document, request))
	if err != nil {
		return err
	}
	answers := struct {
		Evaluations []json.RawMessage `json:"evaluations"`
	}{}
	for i, item := range batch.Items {
		decision, err := a.evaluateItem(c, item, request, repeat, i)
		if err != nil {
			return err
		}
		var said struct{ Decision bool }
		if err := json.Unmarshal(decision, &said); err != nil {
			return fmt.Errorf("read decision %d: %w", i, err)
		}
		answers.Evaluations = append(answers.Evaluations, decision)
		if batch.Semantic.Ends(said.Decision) {
			break
		}
	}
	return writeJSON(c, http.StatusOK, answers)
}

// evaluateItem is the decision on one of several requests, as JSON. An error is one of
// all of them: the store cannot be written, or the key was used for something else.
func (a dialectDoor) evaluateItem(c *call, item canon.Value, request gate.Request, repeat *access.Request, i int) (json.RawMessage, error) {
	if repeat != nil {
		own := *repeat
		own.Key = fmt.Sprintf("%s %d", repeat.Key, i) // no caller's key has a blank
		repeat = &own
	}
	reply, err := replyOnce(a.API, c, repeat, func(once *access.Idempotency[gate.Evaluated]) (gate.Evaluated, error) {
		if authzen.PresentsApproval(item) {
			return gate.Evaluated{}, &failure{
				Status: http.StatusBadRequest, Code: "approval_alone", Detail: "An approval is presented by a request of its own, at " + evaluationPath + ".",
				Fields: []FieldError{{Path: "/context/approval", Message: "is not taken among several evaluations"}},
			}
		}
		return a.evaluated(c, item, request, once)
	}, a.decisionReply(c))
	var replay *access.Replay
	if errors.As(err, &replay) {
		reply, err = replay.Reply, nil
	}
	if errors.Is(err, access.OtherRequest) {
		return nil, err
	}
	if err != nil {
		f := a.failureOf(c.r, err)
		if f == nil || f.Status >= http.StatusInternalServerError {
			return nil, err
		}
		var ours *failure
		if errors.As(err, &ours) {
			// What the gate has refused is on record; what this door turns away is put there.
			if err := a.recordRefusal(c.r.Context(), c.principal, f.Code, "One of several evaluations could not be read.", map[string]any{"route": c.r.Pattern, "status": f.Status}); err != nil {
				return nil, err
			}
		}
		reply = f.reply()
	}
	if reply.Status == http.StatusOK {
		return reply.Body, nil
	}
	var p Problem
	if err := json.Unmarshal(reply.Body, &p); err != nil {
		return nil, fmt.Errorf("read the problem of evaluation %d: %w", i, err)
	}
	failed := EvaluationError{Status: p.Status, Code: p.Code, Message: p.Detail}
	if len(p.Errors) > 0 {
		failed.Path = p.Errors[0].Path
	}
	return json.Marshal(AccessDecision{Context: DecisionContext{Reason: p.Code, Error: &failed}})
}
