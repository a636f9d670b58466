package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/httpstatus"
)

// Problem is what every error looks like on the wire (RFC 9457).
type Problem struct {
	Type   string       `json:"type" doc:"urn:holdpoint:problem: and the code."`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Code   string       `json:"code" doc:"Stable name of what went wrong."`
	Detail string       `json:"detail" doc:"What went wrong and what to do about it, for a person."`
	Errors []FieldError `json:"errors,omitempty" doc:"Where, if the request's body was at fault."`
	// Violations is how a tool request breaks its rules.
	Violations []gate.Violation `json:"violations,omitempty" doc:"Which rules a tool request breaks, and in which line."`
	// Successor is the approval to go on with instead.
	Successor string `json:"successor,omitempty" doc:"The approval to go on with: by which people are asked anew, where what the call depends on had changed, or by which a change waits that takes an approval."`
}

// FieldError says which part of a body is wrong.
type FieldError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// failure is an error that this door itself found.
type failure struct {
	Status     int
	Code       string
	Detail     string
	Fields     []FieldError
	Violations []gate.Violation
	Successor  string
	RetryAfter time.Duration
}

func (f *failure) Error() string { return f.Code + ": " + f.Detail }

// failureOf says how an error looks to the caller; nil when nobody listens any more.
func (a *API) failureOf(r *http.Request, err error) *failure {
	var f *failure
	var refusal *access.Refusal
	err = access.FromStore(err)
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &refusal):
		return &failure{Status: httpstatus.Of(refusal.Kind), Code: refusal.Code, Detail: refusal.Detail, RetryAfter: refusal.RetryAfter, Successor: refusal.Successor}
	case errors.Is(r.Context().Err(), context.Canceled):
		return nil
	case access.IsUnavailable(err) || errors.Is(err, context.DeadlineExceeded):
		a.Logger.WarnContext(r.Context(), "the event store is unavailable", "error", err)
		return &failure{
			Status: http.StatusServiceUnavailable, Code: "store_unavailable", RetryAfter: time.Second,
			Detail: "The event store cannot be read or written just now. Nothing has been granted; try again.",
		}
	}
	a.Logger.ErrorContext(r.Context(), "a request failed", "route", r.Pattern, "error", err)
	return &failure{Status: http.StatusInternalServerError, Code: "internal", Detail: "Something went wrong here. Nothing has been granted; the log has the details under this request's id."}
}

// reply is the failure as application/problem+json.
func (f *failure) reply() access.Reply {
	kind := "urn:holdpoint:problem:"
	if slices.Contains(accessRequestCodes, f.Code) {
		kind = accessRequestError
	}
	body, err := json.Marshal(Problem{
		Type: kind + f.Code, Title: http.StatusText(f.Status), Status: f.Status,
		Code: f.Code, Detail: f.Detail, Errors: f.Fields, Violations: f.Violations, Successor: f.Successor,
	})
	if err != nil {
		body = []byte(`{"status":500,"code":"internal"}`) // strings and numbers always encode
	}
	header := map[string]string{"Content-Type": "application/problem+json"}
	if f.RetryAfter > 0 {
		header["Retry-After"] = strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds())))
	}
	if f.Status == http.StatusUnauthorized {
		header["WWW-Authenticate"] = `Bearer realm="holdpoint"`
	}
	return access.Reply{Status: f.Status, Header: header, Body: append(body, '\n')}
}

// jsonReply is a JSON answer.
func jsonReply(status int, body any, header map[string]string) (access.Reply, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return access.Reply{}, fmt.Errorf("encode answer: %w", err)
	}
	return encodedReply(status, encoded, header), nil
}

// encodedReply is an answer whose JSON has been written.
func encodedReply(status int, body []byte, header map[string]string) access.Reply {
	if header == nil {
		header = make(map[string]string, 1)
	}
	header["Content-Type"] = "application/json"
	return access.Reply{Status: status, Header: header, Body: append(body, '\n')}
}

// notKept is for all answers: what they say may be true for a moment only.
var notKept = []string{"no-store"}

func writeReply(w http.ResponseWriter, r access.Reply) {
	h := w.Header()
	for name, value := range r.Header {
		h.Set(name, value)
	}
	h["Cache-Control"] = notKept
	if r.Status >= http.StatusOK && r.Status != http.StatusNoContent && r.Status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(r.Body)))
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // a caller who has gone cannot be told so
}
