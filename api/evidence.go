package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"holdpoint/internal/evidence"
	"holdpoint/internal/export"
)

func (a *API) auditEvidence(c *call) error {
	r, err := evidenceRequest(c.r.URL.Query())
	if err != nil {
		return err
	}
	name := "evidence-" + r.ApprovalID + ".html"
	if r.ApprovalID == "" {
		name = "evidence-" + r.Since.UTC().Format("20060102T150405Z") + "-" + r.Until.UTC().Format("20060102T150405Z") + ".html"
	}
	out := &streamed{w: c.w, media: "text/html; charset=utf-8", name: name, control: http.NewResponseController(c.w)}
	r.Actor, r.RequestID, r.Flush = c.actor(), RequestID(c.r.Context()), out.Flush
	_, err = a.Evidence.Write(c.r.Context(), out, r)
	switch {
	case err == nil:
		return nil
	case out.begun:
		panic(http.ErrAbortHandler) // it ends in the middle, and proves nothing
	case errors.Is(err, evidence.ErrNotFound):
		return &failure{Status: http.StatusNotFound, Code: "not_found", Detail: "There is no such approval."}
	case errors.Is(err, evidence.ErrTooMuch):
		return &failure{Status: http.StatusBadRequest, Code: "too_much", Detail: fmt.Sprintf("A pack holds at most %d approvals and %d events. Take a shorter period.", evidence.MaxApprovals, evidence.MaxEvents)}
	case errors.Is(err, evidence.ErrRequest):
		return &failure{Status: http.StatusBadRequest, Code: "bad_query", Detail: "Name an approval_id, or a period by since and until."}
	case errors.Is(err, export.ErrNoCheckpoint), errors.Is(err, evidence.ErrStill):
		return &failure{Status: http.StatusServiceUnavailable, Code: "no_checkpoint", Detail: "The audit log does not have what happened last yet. Try again in a moment.", RetryAfter: time.Second}
	}
	return err
}

// evidenceRequest reads a query; what it does not know is a mistake, not nothing.
func evidenceRequest(query url.Values) (r evidence.Request, err error) {
	for name, values := range query {
		switch name {
		case "approval_id":
			r.ApprovalID = values[0]
		case "since":
			r.Since, err = time.Parse(time.RFC3339Nano, values[0])
		case "until":
			r.Until, err = time.Parse(time.RFC3339Nano, values[0])
		default:
			err = errors.New("there is no such filter")
		}
		if err != nil || len(values) > 1 {
			return r, &failure{Status: http.StatusBadRequest, Code: "bad_query", Detail: fmt.Sprintf("The query parameter %q cannot be read.", clipName(name))}
		}
	}
	return r, nil
}
