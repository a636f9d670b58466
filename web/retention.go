package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/web/views"
)

// Retention is what the console needs to tell what was erased and what is held;
// admin.Retention is one. Errors are as Inbox's are.
type Retention interface {
	LegalHolds
	Erasures
}

// LegalHolds keeps what it covers from being erased.
type LegalHolds interface {
	Holds(ctx context.Context) ([]admin.Hold, error)
	PlaceHold(ctx context.Context, by access.Initiator, q admin.HoldRequest, once *access.Idempotency[admin.Hold]) (admin.Hold, error)
	ReleaseHold(ctx context.Context, by access.Initiator, id string, once *access.Idempotency[access.Done]) error
}

// Erasures says what was erased and what is going to be.
type Erasures interface {
	// Erasures lists up to limit erasures, the newest first, from a cursor on.
	Erasures(ctx context.Context, cursor string, limit int) ([]admin.Erasure, string, error)
	// NextDue lists up to limit ended approvals that have not been erased, the one
	// that ended first first.
	NextDue(ctx context.Context, limit int) ([]admin.Due, error)
	Minimum(ctx context.Context) (admin.RetentionMinimum, error)
}

// How much the page shows.
const (
	erasuresShown = 100
	dueShown      = 20
)

const erasuresURL = "/audit/erasures"

// retentionHandler serves the page of erasures and holds.
type retentionHandler struct {
	site     *site
	holds    LegalHolds
	erasures Erasures
	keepFor  time.Duration // how long approvals are kept after their end; 0 for ever
}

func (h *retentionHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /audit/erasures", h.site.forAuditors(h.show))
	mux.HandleFunc("POST /audit/holds", h.site.forAdministrators(h.placeHold))
	mux.HandleFunc("POST /audit/holds/{id}/release", h.site.forAdministrators(h.releaseHold))
}

func (h *retentionHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	v, err := h.view(r.Context(), p, r.URL.Query().Get("cursor"))
	if err != nil {
		return err
	}
	v.Notice = h.site.flash(w, r)
	return h.site.render(w, r, http.StatusOK, views.ErasuresPage(v))
}

func (h *retentionHandler) view(ctx context.Context, p engine.Person, cursor string) (views.Erasures, error) {
	v := views.Erasures{Frame: h.site.frame(p, "Erasures and holds", "audit"), MayHold: access.MayAdminister(p), First: cursor == "", Keeps: "for good: nothing is erased by age"}
	if h.keepFor > 0 {
		v.Keeps = "for " + brief(h.keepFor) + " after its end"
	}
	minimum, err := h.erasures.Minimum(ctx)
	if err != nil {
		return v, err
	}
	v.Minimum = brief(minimum.Shortest)
	done, next, err := h.erasures.Erasures(ctx, cursor, erasuresShown)
	if err != nil {
		return v, err
	}
	v.Next = next
	holds, err := h.holds.Holds(ctx)
	if err != nil {
		return v, err
	}
	due, err := h.erasures.NextDue(ctx, dueShown)
	if err != nil {
		return v, err
	}
	name := h.site.names(ctx, idsOf(done, holds, due)...)
	for _, e := range done {
		v.Rows = append(v.Rows, erasureRow(e, name))
	}
	for _, h := range holds {
		v.Holds = append(v.Holds, holdRow(h, name))
	}
	for _, d := range due {
		v.Due = append(v.Due, h.dueRow(d, minimum.Shortest, name))
	}
	return v, nil
}

func idsOf(done []admin.Erasure, holds []admin.Hold, due []admin.Due) []string {
	var ids []string
	for _, e := range done {
		ids = append(ids, e.By, e.Subject, e.AgentID)
	}
	for _, h := range holds {
		ids = append(ids, h.By, h.ReleasedBy, h.Subject)
	}
	for _, d := range due {
		ids = append(ids, d.AgentID)
	}
	return ids
}

func erasureRow(e admin.Erasure, name func(string) string) views.ErasureRow {
	row := views.ErasureRow{ID: e.ID, Subject: e.Subject, What: name(e.Subject), By: name(e.By), Reason: e.Reason, Rule: "asked for", At: e.At}
	if e.Covers == admin.CoversApproval {
		row.What, row.URL = e.Tool+" of "+name(e.AgentID), "/approvals/"+url.PathEscape(e.Subject)
	}
	if e.ByAge {
		row.Rule = "older than " + brief(e.Older)
	}
	for _, part := range e.Parts {
		row.Parts = append(row.Parts, words(part))
	}
	return row
}

func holdRow(h admin.Hold, name func(string) string) views.HoldRow {
	row := views.HoldRow{
		ID: h.ID, Covers: h.Covers, Subject: h.Subject, What: name(h.Subject), Reason: h.Reason, By: name(h.By), At: h.At, ReleasedAt: h.ReleasedAt, ReleasedBy: name(h.ReleasedBy),
		URL: "/audit/holds/" + url.PathEscape(h.ID) + "/release", State: views.Status{Code: "stopped", Word: "Holds"},
	}
	if h.Covers == admin.CoversEverything {
		row.What = "everything"
	}
	if h.ReleasedAt != nil {
		row.State = views.Status{Code: "active", Word: "Released"}
	}
	return row
}

// dueRow says when something is erased by age, and what keeps it until then or
// longer.
func (h *retentionHandler) dueRow(d admin.Due, minimum time.Duration, name func(string) string) views.DueRow {
	row := views.DueRow{ID: d.ID, URL: "/approvals/" + url.PathEscape(d.ID), Tool: d.Tool, Agent: name(d.AgentID), EndedAt: d.EndedAt}
	if h.keepFor > 0 {
		row.At = d.EndedAt.Add(max(h.keepFor, minimum))
	}
	if d.Why != "" && d.Why != "recent" {
		row.NotErasable = admin.NotErasableText(admin.CoversApproval, d.Why)
	}
	return row
}

func (h *retentionHandler) placeHold(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	q := admin.HoldRequest{Covers: r.PostForm.Get("covers"), Subject: strings.TrimSpace(r.PostForm.Get("subject")), Reason: strings.TrimSpace(r.PostForm.Get("reason"))}
	_, err := h.holds.PlaceHold(r.Context(), by(p), q, nil)
	detail, ok := refused(err)
	if gone, isGone := nothingToHold(err); isGone {
		detail, ok = gone, true
	}
	if ok {
		v, err := h.view(r.Context(), p, "")
		if err != nil {
			return err
		}
		v.Form = views.HoldForm{Covers: q.Covers, Subject: q.Subject, Reason: q.Reason, Failure: detail}
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.ErasuresPage(v))
	}
	return h.site.redirectOrFail(w, r, err, "held", erasuresURL+"#holds-h")
}

func (h *retentionHandler) releaseHold(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if r.PostForm.Get("confirm") != "yes" {
		return invalid("not_confirmed", "Nothing was changed: tick the box to confirm it.")
	}
	return h.site.redirectOrFail(w, r, missingIsChanged(h.holds.ReleaseHold(r.Context(), by(p), r.PathValue("id"), nil)), "unheld", erasuresURL+"#holds-h")
}

// nothingToHold is the refusal of a hold on what there is not.
func nothingToHold(err error) (string, bool) {
	var refusal *access.Refusal
	if errors.As(err, &refusal) && refusal.Kind == access.NotFound {
		return refusal.Detail, true
	}
	return "", false
}
