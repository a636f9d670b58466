package api

import (
	"errors"
	"net/http"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/report"
)

// exportWithin bounds how long whoever reads an export may take for a page of it.
const exportWithin = 60 * time.Second

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
	out := &streamed{w: c.w, media: media, name: report.FileName("audit", f.Since, f.Until, ending), control: http.NewResponseController(c.w)}
	if a.Exporter == nil {
		return &failure{Status: http.StatusNotFound, Code: "no_exports", Detail: "This server exports nothing. Export with “holdpoint audit export”."}
	}
	_, err := a.Exporter.Write(c.r.Context(), out, auditlog.ExportRequest{
		Format: format, Filter: f, Size: size, Before: before, Actor: c.actor(), RequestID: RequestID(c.r.Context()), Flush: out.Flush,
	})
	switch {
	case err == nil:
		return nil
	case out.begun:
		// What was sent cannot be taken back: it ends in the middle, so that nobody
		// takes it for the whole.
		panic(http.ErrAbortHandler)
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

// streamed is an answer that is begun with its first byte: until then it can
// still become an error.
type streamed struct {
	w           http.ResponseWriter
	media, name string
	control     *http.ResponseController
	begun       bool
}

func (s *streamed) Write(data []byte) (int, error) {
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", s.media)
		h.Set("Content-Disposition", `attachment; filename="`+s.name+`"`)
		h.Set("Cache-Control", "no-store")
		_ = s.control.SetWriteDeadline(time.Now().Add(exportWithin)) // where it cannot be set, the server's own holds
		s.w.WriteHeader(http.StatusOK)
	}
	return s.w.Write(data)
}

// Flush sends what there is and gives the reader time for the next page.
func (s *streamed) Flush() error {
	if !s.begun {
		return nil
	}
	if err := s.control.Flush(); err != nil {
		return err
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(exportWithin))
	return nil
}

// actor is who asks, for the audit log.
func (c *call) actor() engine.Actor {
	if c.isPerson {
		return engine.Actor{Kind: engine.HumanActor, ID: c.person.ID, Channel: "api"}
	}
	return c.principal.Actor()
}
