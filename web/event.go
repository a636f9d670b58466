package web

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
	"holdpoint/web/views"
)

// Events reads single events of the log.
type Events interface {
	Event(ctx context.Context, id string) (audit.Record, error)
	Standing(ctx context.Context) (auditlog.Status, error)
}

// eventHandler serves the page of one event, and its document.
type eventHandler struct {
	site *site
	log  Events
	keys []string // the log's public keys
}

func (h *eventHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /audit/events/{id}", h.site.forAuditors(h.show))
	mux.HandleFunc("GET /audit/events/{id}/document", h.site.forAuditors(h.document))
}

// show shows one event of the log.
func (h *eventHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	record, err := h.log.Event(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	standing, err := h.log.Standing(r.Context())
	if err != nil {
		return err
	}
	e, ok := logged(record)
	ids := []string{e.Actor.ID, record.AgentID}
	name := h.site.names(r.Context(), ids...)
	document := record.Document()
	v := views.AuditEvent{
		Frame: h.site.frame(p, "Event "+record.ID, "audit"), AuditRow: auditRow(record, name), ID: record.ID, Size: standing.Size,
		Document: views.JSON(document), Exact: string(document), Digest: audit.Digest(document), Keys: h.keys, Server: h.site.address(r),
	}
	if v.Seq > 0 {
		v.Entry = string(record.Entry())
		hash := audit.LeafHash(record.Entry())
		v.LeafHash = base64.StdEncoding.EncodeToString(hash[:])
		v.Title = "Event " + strconv.FormatInt(v.Seq, 10)
	}
	v.Fields = eventFields(record, e, ok, name)
	return h.site.render(w, r, http.StatusOK, views.AuditEventPage(v))
}

// eventFields are the event's own, in words where there are any.
func eventFields(r audit.Record, e engine.Event, ok bool, name func(string) string) []views.AuditField {
	var list []views.AuditField
	add := func(label, value, hint, to string) {
		if value != "" {
			list = append(list, views.AuditField{Label: label, Value: value, Hint: hint, URL: to})
		}
	}
	search := func(filter, value string) string {
		if value == "" {
			return ""
		}
		return auditURL(filter + "=" + url.QueryEscape(value))
	}
	named := func(id string) string {
		if n := name(id); n != id {
			return n
		}
		return ""
	}
	add("What", r.Type, typeWords(r.Type), search("type", r.Type))
	add("Outcome", r.Outcome, outcomeWords(r.Outcome), search("outcome", r.Outcome))
	if ok {
		add("Who", e.Actor.ID, strings.Trim(named(e.Actor.ID)+", "+string(e.Actor.Kind)+channelWords(e.Actor.Channel), ", "), search("person", e.Actor.ID))
		if e.Actor.ID == "" {
			add("Who", string(e.Actor.Kind), strings.TrimPrefix(channelWords(e.Actor.Channel), ", "), "")
		}
	}
	add("Agent", r.AgentID, named(r.AgentID), search("agent", r.AgentID))
	add("Tool", r.ToolName, "", search("tool", r.ToolName))
	if r.ApprovalID != "" {
		add("Approval", r.ApprovalID, "its card", "/approvals/"+url.PathEscape(r.ApprovalID))
		add("", "all its events", "", search("approval", r.ApprovalID))
	}
	if !ok {
		return list
	}
	add("Request", e.RequestID, "", "")
	add("Outcome before", string(e.PrevOutcome), outcomeWords(string(e.PrevOutcome)), "")
	for _, reason := range e.Reasons {
		add("Reason", reason.Code, reason.Message, "")
	}
	for _, req := range e.Requirements {
		add("Requires", string(req.Kind), requirementWords(req.Kind, req.Role), "")
	}
	add("Source", e.PluginSource, "the check that decided it", "")
	add("Digest of the call", e.DigestHMAC, "keyed: the call's arguments cannot be guessed from it", "")
	add("Rules digest", e.PolicyDigest, "of policy, tool contracts and routing together", "")
	return list
}

func channelWords(channel string) string {
	switch channel {
	case "":
		return ""
	case "cli":
		return ", by command line"
	case "console":
		return ", in the console"
	case "api":
		return ", over the API"
	case "slack":
		return ", in Slack"
	}
	return ", " + channel
}

// document is an event's document, byte for byte.
func (h *eventHandler) document(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	record, err := h.log.Event(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="event-`+record.ID+`.json"`)
	_, _ = w.Write(record.Document()) // the reader is gone: there is nobody to tell
	return nil
}
