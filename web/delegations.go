package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/httpstatus"
	"holdpoint/web/views"
)

// Delegations is what the console needs for people who are away; admin.Delegations is one.
// Every change is on record. Errors are as Inbox's are.
type Delegations interface {
	// Absences lists the delegations that are in force or to come, as far as the
	// person may see them.
	Absences(ctx context.Context, p engine.Person) (admin.Absences, error)
	// Create lets a deputy decide in somebody's place for a time.
	Create(ctx context.Context, r admin.DelegateRequest) (admin.Delegation, error)
	// Revoke ends a delegation at once.
	Revoke(ctx context.Context, by engine.Person, id, channel, requestID string) error
}

// delegationHandler serves the page on which people say who decides for them while
// they are away.
type delegationHandler struct {
	freshProof // without factors nobody is asked for one

	delegations Delegations
}

func (h *delegationHandler) register(mux *http.ServeMux) {
	anybody := func(engine.Person) bool { return true }
	mux.HandleFunc("GET /away", h.site.onlyFor(anybody, "", h.show))
	mux.HandleFunc("POST /away", h.site.onlyFor(anybody, "", h.delegate))
	mux.HandleFunc("POST /away/{id}/revoke", h.site.onlyFor(anybody, "", h.revoke))
}

func (h *delegationHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	v, err := h.view(r, p)
	if err != nil {
		return err
	}
	v.Notice = h.site.flash(w, r)
	return h.site.render(w, r, http.StatusOK, views.DelegationsPage(v))
}

func (h *delegationHandler) view(r *http.Request, p engine.Person) (views.Delegations, error) {
	known, err := h.delegations.Absences(r.Context(), p)
	if err != nil {
		return views.Delegations{}, err
	}
	v := views.Delegations{Frame: h.site.frame(p, "When I am away", "away"), Mine: awayRows(known.Mine), For: awayRows(known.For), All: awayRows(known.All)}
	v.Form.Zones = zones()
	for _, other := range known.People {
		option := views.Option{Value: other.ID, Label: views.Visible(other.Label())}
		if access.MayAdminister(p) {
			v.Form.Persons = append(v.Form.Persons, option)
		}
		if other.Identity != p.Identity || access.MayAdminister(p) {
			v.Form.People = append(v.Form.People, option)
		}
	}
	v.Form.Person = p.ID
	if h.factors != nil {
		v.Form.Proof, err = h.proof(r, p)
	}
	return v, err
}

func awayRows(list []admin.Absence) []views.DelegationRow {
	rows := make([]views.DelegationRow, 0, len(list))
	for _, a := range list {
		row := views.DelegationRow{
			ID: a.ID, Person: displayName(a.Person), PersonEmail: a.Person.Email, Deputy: displayName(a.Deputy), DeputyEmail: a.Deputy.Email,
			From: a.From, Until: a.Until, Active: a.Active, Reason: a.Reason,
		}
		switch {
		case a.Deputy.Disabled:
			row.Idle = "The deputy’s account is disabled."
		case a.Person.Disabled:
			row.Idle = "The account of who is away is disabled."
		}
		rows = append(rows, row)
	}
	return rows
}

// delegate makes a deputy of somebody as the form says.
func (h *delegationHandler) delegate(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e := formValues{form: r.PostForm}
	zone := e.zone("zone")
	request := admin.DelegateRequest{
		By: p, PersonID: e.text("person"), DeputyID: cmp.Or(e.text("deputy_email"), e.text("deputy")), Reason: e.text("reason"), Channel: "console", RequestID: "web_" + rand.Text(),
		From: e.moment("from", "From", zone), Until: e.moment("until", "Until", zone),
	}
	err := e.err()
	// It gives a say away for up to 90 days, and outlasts the session: whoever finds an open
	// page must not make themselves a deputy.
	var unproved *access.Refusal
	if err == nil && h.factors != nil {
		err = h.prove(r, p)
		errors.As(err, &unproved)
	}
	if errors.Is(err, ErrNoSession) {
		http.Redirect(w, r, signInURL("/away"), http.StatusSeeOther)
		return nil
	}
	if err == nil {
		_, err = h.delegations.Create(r.Context(), request)
	}
	detail, again := refused(err)
	status := http.StatusUnprocessableEntity
	if unproved != nil {
		detail, again, status = unproved.Detail, true, httpstatus.Of(unproved.Kind)
		retryAfter(w, unproved)
	}
	if again {
		v, err := h.view(r, p)
		if err != nil {
			return err
		}
		f := &v.Form
		f.Person, f.Deputy, f.DeputyEmail, f.From, f.Until = cmp.Or(request.PersonID, p.ID), e.text("deputy"), e.text("deputy_email"), e.text("from"), e.text("until")
		f.Zone, f.Reason, f.Failure = e.text("zone"), request.Reason, detail
		if !slices.ContainsFunc(f.Zones, func(o views.Option) bool { return o.Value == f.Zone }) && zone != time.UTC {
			f.Zones = append(f.Zones, views.Option{Value: f.Zone, Label: zone.String()}) // the browser's own
		}
		return h.site.render(w, r, status, views.DelegationsPage(v))
	}
	return h.site.redirectOrFail(w, r, err, "away", "/away")
}

func (h *delegationHandler) revoke(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := h.delegations.Revoke(r.Context(), p, r.PathValue("id"), "console", "web_"+rand.Text())
	return h.site.redirectOrFail(w, r, err, "back", "/away")
}
