package api

import (
	"errors"
	"net/http"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/download"
	"holdpoint/internal/report"
)

var notWitnessed = &failure{
	Status: http.StatusConflict, Code: "not_witnessed_yet", RetryAfter: 5 * time.Second,
	Detail: "Too few witnesses have signed the audit log as it is now, so nothing was exported. They may not answer: the worker says why.",
}

func (a auditDoor) auditExport(c *call) error {
	var (
		f            auditlog.EventFilter
		format       = auditlog.JSONL
		size, before int64
	)
	p := filtering(&f)
	p["format"], p["size"], p["before"] = oneOf(&format, "jsonl", "csv", "ocsf"), whole(&size, 1, 0), whole(&before, 1, 0)
	// An export has everything that the filter asks for, in the order of the log.
	if err := p.read(c.r.URL.Query()); err != nil {
		return err
	}
	if err := f.Check(); err != nil {
		return badQuery("Nothing is exported: " + err.Error() + ".")
	}
	media := map[string]string{auditlog.JSONL: "application/jsonl", "csv": "text/csv; charset=utf-8", "ocsf": "application/jsonl"}[format]
	ending := map[string]string{auditlog.JSONL: "jsonl", "csv": "csv", "ocsf": "ocsf.jsonl"}[format]
	out := download.New(c.w, media, report.FileName("audit", f.Since, f.Until, ending))
	if a.Exporter == nil {
		return &failure{Status: http.StatusNotFound, Code: "no_exports", Detail: "This server exports nothing. Export with “holdpoint audit export”."}
	}
	_, err := a.Exporter.Write(c.r.Context(), out, auditlog.ExportRequest{
		Format: format, Filter: f, Size: size, Before: before, Actor: c.actor(), RequestID: RequestID(c.r.Context()), Flush: out.Flush,
	})
	switch err = out.End(err); {
	case errors.Is(err, auditlog.ErrFormat):
		return badQuery("format is jsonl, csv or ocsf.")
	case errors.Is(err, auditlog.ErrNotWitnessed):
		return notWitnessed
	case errors.Is(err, auditlog.ErrNoCheckpoint) && size > 0:
		return &failure{Status: http.StatusNotFound, Code: "no_checkpoint", Detail: "No checkpoint of this size is kept. /v1/audit/checkpoints lists those that are."}
	case errors.Is(err, auditlog.ErrNoCheckpoint):
		return &failure{Status: http.StatusServiceUnavailable, Code: "no_checkpoint", Detail: "The audit log has no such checkpoint yet. Try again in a moment.", RetryAfter: time.Second}
	}
	return err
}

// actor is who asks, for the audit log.
func (c *call) actor() engine.Actor {
	if c.isPerson {
		return engine.Actor{Kind: engine.HumanActor, ID: c.person.ID, Channel: "api"}
	}
	return c.principal.Actor()
}
