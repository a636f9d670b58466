package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/web/views"
)

// EndpointSettings is what the page of an endpoint needs.
type EndpointSettings interface {
	// Overview lists the endpoints, without what is secret about them, and up to limit
	// notifications that were given up: both as they are at one moment.
	Overview(ctx context.Context, limit int) ([]admin.Endpoint, []admin.DeadLetter, error)
	// Change changes an endpoint's settings, and its address where one is given.
	Change(ctx context.Context, by access.Initiator, id string, c admin.EndpointChange) error
}

// endpointSettings are the settings of an endpoint as a form has them.
func endpointSettings(e *formValues) notify.Settings {
	s := notify.Settings{
		Roles: e.lines("roles"), Tools: e.lines("tools"), Agents: e.lines("agents"), To: e.lines("to"), Own: e.checked("own"),
		Digest: e.duration("digest", "Gather for"), Format: e.text("format"), Decide: e.text("decide"),
	}
	for _, t := range e.form["tell"] {
		s.Kinds = append(s.Kinds, engine.NotificationKind(t))
	}
	return s
}

// endpoint is the page on which an endpoint's settings are changed.
func (h *notificationHandler) endpoint(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e, err := h.find(r)
	if err != nil {
		return err
	}
	return h.site.render(w, r, http.StatusOK, views.EndpointPage(h.endpointView(p, e, e.Settings)))
}

func (h *notificationHandler) find(r *http.Request) (admin.Endpoint, error) {
	all, _, err := h.notifications.Overview(r.Context(), 0)
	if err != nil {
		return admin.Endpoint{}, err
	}
	at := slices.IndexFunc(all, func(e admin.Endpoint) bool { return e.ID == r.PathValue("id") })
	if at < 0 {
		return admin.Endpoint{}, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such endpoint."}
	}
	return all[at], nil
}

// endpointView is the page with these settings in its form.
func (h *notificationHandler) endpointView(p engine.Person, e admin.Endpoint, s notify.Settings) views.EndpointSettings {
	v := views.EndpointSettings{Frame: h.site.frame(p, "Endpoint "+views.Visible(e.Name), "admin"), EndpointRow: endpointRow(e, p), Seen: fingerprint(e.Settings)}
	forms := endpointForms(false)
	v.Form = forms[slices.IndexFunc(forms, func(f views.EndpointForm) bool { return f.Kind == e.Kind })]
	v.Form.Known, v.Form.To, v.Form.Own, v.Form.Format, v.Form.Decide = true, strings.Join(s.To, "\n"), s.Own, s.Format, s.Decide
	v.Form.Roles, v.Form.Tools, v.Form.Agents = strings.Join(s.Roles, "\n"), strings.Join(s.Tools, "\n"), strings.Join(s.Agents, "\n")
	if s.Digest > 0 {
		v.Form.Digest = brief(time.Duration(s.Digest))
	}
	for i, tick := range v.Form.Kinds {
		v.Form.Kinds[i].On = slices.Contains(s.Kinds, engine.NotificationKind(tick.Value))
	}
	return v
}

// changeEndpoint changes an endpoint's settings as a whole, unless somebody has changed
// them since its page was opened.
func (h *notificationHandler) changeEndpoint(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	found, err := h.find(r)
	if err != nil {
		return err
	}
	if r.PostForm.Get("seen") != fingerprint(found.Settings) {
		return errChanged
	}
	e := formValues{form: r.PostForm}
	wanted := endpointSettings(&e)
	if err = e.err(); err == nil {
		err = h.notifications.Change(r.Context(), by(p), found.ID, admin.EndpointChange{
			Settings: func(s *notify.Settings) { *s = wanted }, URL: e.text("url"), Plain: e.checked("plain"), Signing: e.text("signing"),
		})
	}
	if detail, ok := refused(err); ok {
		v := h.endpointView(p, found, wanted)
		v.Form.Digest, v.Form.Plain, v.Form.Failure = e.text("digest"), e.checked("plain"), detail
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.EndpointPage(v))
	}
	return h.site.redirectOrFail(w, r, err, "endpointset", "/notifications")
}
