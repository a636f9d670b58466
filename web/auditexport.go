package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/fair"
	"holdpoint/internal/report"
	"holdpoint/web/views"
)

// Exporter writes exports of the audit log; *auditlog.Exporter is one. Each is on record
// before its first byte.
type Exporter interface {
	Write(ctx context.Context, w io.Writer, r auditlog.ExportRequest) (auditlog.ExportSummary, error)
}

// exportHandler serves the page from which auditors take the audit log.
type exportHandler struct {
	site     *site
	exporter Exporter
	keys     []string // the log's, as far as this process knows them
	underWay *fair.Limit
}

// mostExports is how many exports a person may have under way at once: each takes a
// processor for as long as it lasts, which is the gate's as well.
const mostExports = 2

func (h *exportHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /audit/export", h.site.forAuditors(h.show))
	mux.HandleFunc("POST /audit/export", h.site.forAuditors(h.export))
}

// exportFormats are the formats, the one that proves itself first, with what their files
// are called and are.
var exportFormats = []struct{ format, ending, media, label string }{
	{auditlog.JSONL, "jsonl", "application/jsonl", "JSON Lines, which prove themselves"},
	{"csv", "csv", "text/csv; charset=utf-8", "CSV, for spreadsheets"},
	{"ocsf", "ocsf.jsonl", "application/jsonl", "OCSF, for SIEMs"},
}

func (h *exportHandler) view(r *http.Request, p engine.Person, form url.Values) views.AuditExport {
	v := views.AuditExport{Frame: h.site.frame(p, "Export the audit log", "audit"), Since: form.Get("since"), Until: form.Get("until"), Format: form.Get("format"), Server: h.site.address(r), Keys: h.keys}
	for _, f := range exportFormats {
		v.Formats = append(v.Formats, views.Option{Value: f.format, Label: f.label})
	}
	return v
}

func (h *exportHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	return h.site.render(w, r, http.StatusOK, views.AuditExportPage(h.view(r, p, r.URL.Query())))
}

// export sends the log, or a period of it, as a file.
func (h *exportHandler) export(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	refuse := func(status int, why string) error {
		v := h.view(r, p, r.PostForm)
		v.Failure = why
		return h.site.render(w, r, status, views.AuditExportPage(v))
	}
	at := slices.IndexFunc(exportFormats, func(f struct{ format, ending, media, label string }) bool {
		return f.format == r.PostForm.Get("format")
	})
	since, goodSince := parseTime(r.PostForm.Get("since"), false)
	until, goodUntil := parseTime(r.PostForm.Get("until"), true)
	switch {
	case at < 0:
		return refuse(http.StatusUnprocessableEntity, "Choose a format.")
	case !goodSince || !goodUntil:
		return refuse(http.StatusUnprocessableEntity, "This is no day. Write it as 2026-11-21, in UTC.")
	case !since.IsZero() && !until.IsZero() && !since.Before(until):
		return refuse(http.StatusUnprocessableEntity, "The period ends before it begins.")
	}
	f := exportFormats[at]
	filter := auditlog.EventFilter{Since: since, Until: until}
	if err := filter.Check(); err != nil {
		return refuse(http.StatusUnprocessableEntity, "Nothing is exported: "+err.Error()+".")
	}
	leave, free := h.underWay.Enter(p.ID)
	if !free {
		return refuse(http.StatusTooManyRequests, fmt.Sprintf("%d exports of yours are under way already. Begin the next one when one of them has ended.", mostExports))
	}
	defer leave()
	file := newDownload(w, r, f.media, report.FileName("audit", since, until, f.ending))
	record := by(p)
	_, err := h.exporter.Write(r.Context(), file, auditlog.ExportRequest{
		Format: f.format, Filter: filter, Actor: record.Actor, RequestID: record.RequestID, Flush: file.Flush,
	})
	switch err = file.End(err); {
	case errors.Is(err, auditlog.ErrNotWitnessed):
		return refuse(http.StatusConflict, "Too few witnesses have signed the audit log as it is now, so nothing was exported. They may not answer: the worker says why.")
	case errors.Is(err, auditlog.ErrNoCheckpoint):
		return &access.Refusal{Kind: access.Conflict, Code: "no_checkpoint", Detail: "The audit log has no checkpoint yet. Try again in a moment."}
	}
	return err
}
