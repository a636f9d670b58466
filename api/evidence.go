package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"holdpoint/internal/auditlog"
	"holdpoint/internal/download"
	"holdpoint/internal/evidence"
)

func (a auditDoor) auditEvidence(c *call) error {
	var r evidence.Request
	if err := (parameters{"approval_id": anyText(&r.ApprovalID), "since": moment(&r.Since), "until": moment(&r.Until)}).read(c.r.URL.Query()); err != nil {
		return err
	}
	if a.Evidence == nil {
		return &failure{Status: http.StatusNotFound, Code: "no_evidence_packs", Detail: "This server makes no evidence packs. Make one with “holdpoint audit pack”."}
	}
	name := "evidence-" + r.ApprovalID + ".html"
	if r.ApprovalID == "" {
		name = "evidence-" + r.Since.UTC().Format("20060102T150405Z") + "-" + r.Until.UTC().Format("20060102T150405Z") + ".html"
	}
	out := download.New(c.w, "text/html; charset=utf-8", name)
	r.Actor, r.RequestID, r.Flush = c.actor(), RequestID(c.r.Context()), out.Flush
	_, err := a.Evidence.Write(c.r.Context(), out, r)
	switch err = out.End(err); {
	case errors.Is(err, evidence.ErrNotFound):
		return &failure{Status: http.StatusNotFound, Code: "not_found", Detail: "There is no such approval."}
	case errors.Is(err, evidence.ErrTooMuch):
		return &failure{Status: http.StatusBadRequest, Code: "too_much", Detail: fmt.Sprintf("A pack holds at most %d approvals and %d events. Take a shorter period.", evidence.MaxApprovals, evidence.MaxEvents)}
	case errors.Is(err, evidence.ErrRequest):
		return badQuery("Name an approval_id, or a period by since and until, the earlier first.")
	case errors.Is(err, auditlog.ErrNotWitnessed):
		return notWitnessed
	case errors.Is(err, auditlog.ErrNoCheckpoint), errors.Is(err, evidence.ErrStill):
		return &failure{Status: http.StatusServiceUnavailable, Code: "no_checkpoint", Detail: "The audit log does not have what happened last yet. Try again in a moment.", RetryAfter: time.Second}
	}
	return err
}
