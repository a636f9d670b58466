package web

import (
	"errors"
	"net/http"
	"slices"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/httpstatus"
	"holdpoint/web/views"
)

// onCallHandler serves the page of who is on call.
type onCallHandler struct {
	freshProof
	onCall OnCall
}

func (h *onCallHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /on-call", h.site.forAdministrators(h.show))
	mux.HandleFunc("POST /on-call", h.changes(h.set))
}

func (h *onCallHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	v, err := h.view(r, p)
	if err != nil {
		return err
	}
	v.Notice = h.site.flash(w, r)
	return h.site.render(w, r, http.StatusOK, views.OnCallPage(v))
}

func (h *onCallHandler) view(r *http.Request, p engine.Person) (views.OnCall, error) {
	v := views.OnCall{Frame: h.site.frame(p, "On call", "admin"), Zones: zones()}
	shifts, err := h.onCall.Shifts(r.Context())
	if err != nil {
		return v, err
	}
	for _, s := range shifts {
		row := views.ShiftRow{Schedule: s.Schedule, Name: s.Name, Email: s.Email, From: s.From, Until: s.Until, State: views.Status{Code: "pending", Word: "To come"}}
		switch {
		case s.Disabled:
			row.State = views.Status{Code: "stopped", Word: "Account disabled"}
		case s.OnCall:
			row.State = views.Status{Code: "active", Word: "On call"}
		}
		v.Rows = append(v.Rows, row)
		if !slices.Contains(v.Schedules, s.Schedule) {
			v.Schedules = append(v.Schedules, s.Schedule)
		}
	}
	v.Proof, err = h.proof(r, p)
	return v, err
}

func (h *onCallHandler) set(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e := formValues{form: r.PostForm}
	zone := e.zone("zone")
	q := admin.OnCallRequest{Schedule: e.text("schedule"), Emails: e.lines("people"), From: e.moment("from", "From", zone), Until: e.moment("until", "Until", zone)}
	err := e.err()
	if err == nil {
		err = h.prove(r, p)
	}
	if err == nil {
		err = h.onCall.Set(r.Context(), by(p), q, nil)
	}
	var refusal *access.Refusal
	if !errors.As(err, &refusal) || refusal.Code == admin.ApprovalRequired && refusal.Successor != "" {
		return h.site.redirectOrFail(w, r, err, "oncall", "/on-call")
	}
	if p, err = h.site.sessions.again(r); err != nil {
		return err
	}
	v, err := h.view(r, p)
	if err != nil {
		return err
	}
	v.Schedule, v.People, v.From, v.Until, v.Zone = e.text("schedule"), e.form.Get("people"), e.text("from"), e.text("until"), e.text("zone")
	v.Failure = refusal.Detail
	retryAfter(w, refusal)
	return h.site.render(w, r, httpstatus.Of(refusal.Kind), views.OnCallPage(v))
}
