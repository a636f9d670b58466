package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/internal/notify/channel"
	"holdpoint/web/views"
)

// Notifications is what the console needs to say who is told; admin.Endpoints is one.
// Every change is on record with who made it. Errors are as Inbox's are.
type Notifications interface {
	EndpointSettings
	// Add returns what the receiver verifies by, which is not kept where it
	// could be shown again; "" for kinds that have nothing of the sort.
	Add(ctx context.Context, by access.Initiator, e admin.NewEndpoint) (id, shown string, err error)
	Switch(ctx context.Context, by access.Initiator, id string, off bool) error
	RotateSecret(ctx context.Context, by access.Initiator, id, url string, overlap time.Duration) (shown string, err error)
	// Test queues a test; to is where e-mail goes.
	Test(ctx context.Context, by access.Initiator, id, to string) (string, error)
	Resend(ctx context.Context, by access.Initiator, id string) error
}

// deadShown is how many dead letters the page shows.
const deadShown = 100

// notificationHandler serves the page of who is told, and of what could not be sent.
type notificationHandler struct {
	site          *site
	notifications Notifications
}

func (h *notificationHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /notifications", h.site.forAdministrators(h.show))
	mux.HandleFunc("POST /notifications/endpoints", h.site.forAdministrators(h.addEndpoint))
	mux.HandleFunc("POST /notifications/endpoints/{id}/test", h.site.forAdministrators(h.testEndpoint))
	mux.HandleFunc("POST /notifications/endpoints/{id}/secret", h.site.forAdministrators(h.rotateSecret))
	mux.HandleFunc("POST /notifications/endpoints/{id}/switch", h.site.forAdministrators(h.switchEndpoint))
	mux.HandleFunc("POST /notifications/dead/{id}", h.site.forAdministrators(h.resend))
	mux.HandleFunc("GET /notifications/endpoints/{id}", h.site.forAdministrators(h.endpoint))
	mux.HandleFunc("POST /notifications/endpoints/{id}", h.site.forAdministrators(h.changeEndpoint))
}

func (h *notificationHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	v, err := h.view(r.Context(), p)
	if err != nil {
		return err
	}
	v.Notice = h.site.flash(w, r)
	return h.site.render(w, r, http.StatusOK, views.NotificationsPage(v))
}

func (h *notificationHandler) view(ctx context.Context, p engine.Person) (views.Notifications, error) {
	v := views.Notifications{Frame: h.site.frame(p, "Notifications", "admin")}
	endpoints, dead, err := h.notifications.Overview(ctx, deadShown+1)
	if err != nil {
		return v, err
	}
	for _, e := range endpoints {
		v.Endpoints = append(v.Endpoints, endpointRow(e, p))
	}
	if v.MoreDead = len(dead) > deadShown; v.MoreDead {
		dead = dead[:deadShown]
	}
	for _, d := range dead {
		v.Dead = append(v.Dead, views.DeadRow{
			ID: d.ID, URL: "/notifications/dead/" + url.PathEscape(d.ID), Endpoint: d.Endpoint, Recipient: d.Recipient, About: sentenceCase(engine.NotificationKind(d.Kind).Traits().Summary),
			Approval: d.ApprovalID, Attempts: d.Attempts, Reason: d.Reason, At: d.At,
		})
	}
	v.Forms = endpointForms(len(endpoints) == 0)
	return v, nil
}

// endpointForms are the forms that add an endpoint of each kind; first is of nobody being
// told yet.
func endpointForms(first bool) []views.EndpointForm {
	forms := []views.EndpointForm{
		{
			Kind: notify.Email, Label: "E-mail", To: notify.Reviewers, Open: first,
			Hint: "A mail to everybody who could act, or to addresses. It goes by the mail server of the worker's settings (smtp).",
		},
		{Kind: notify.Webhook, Label: "Webhook", Hint: "A signed POST to a program of yours, by the Standard Webhooks specification. You get its secret once, after this."},
		{Kind: notify.Slack, Label: "Slack", Hint: "A message to a channel. Make an incoming webhook in Slack and write its address here. People can decide calls of low danger there, if you choose so."},
		{Kind: notify.Push, Label: "Web push", Hint: "A notification in the browsers, on phones too, of everybody who could act and has switched it on, on the page of their account. It takes the setting push_key."},
	}
	if first {
		forms[0].Name = "The reviewers"
	}
	for i := range forms {
		forms[i].Kinds = ticks[string](nil)
		forms[i].Formats = []views.Option{{Value: "", Label: "Holdpoint’s own form"}, {Value: channel.CloudEvents, Label: "CloudEvents 1.0"}}
		if f := &forms[i]; f.Kind == notify.Push {
			f.Kinds = ticks(notify.PushKinds())
		} else if f.Kind == notify.Slack {
			f.Decides = []views.Option{{Value: "", Label: "Nothing: messages link here"}, {Value: "low", Label: "Calls of low danger"}, {Value: "medium", Label: "Calls of low and medium danger"}}
		}
	}
	return forms
}

// sentenceCase begins a phrase with a capital.
func sentenceCase(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func ticks[K ~string](on []K) []views.Tick {
	var list []views.Tick
	for _, t := range engine.EndpointKinds() {
		list = append(list, views.Tick{Value: string(t), Label: sentenceCase(t.Traits().Summary), On: slices.Contains(on, K(t))})
	}
	return list
}

var endpointKinds = map[string]string{notify.Webhook: "Webhook", notify.Email: "E-mail", notify.Slack: "Slack", notify.Push: "Web push"}

func endpointRow(e admin.Endpoint, p engine.Person) views.EndpointRow {
	s := e.Settings
	row := views.EndpointRow{
		ID: e.ID, URL: "/notifications/endpoints/" + url.PathEscape(e.ID), Name: e.Name, Kind: endpointKinds[e.Kind], Where: []string{s.Host}, On: e.DisabledAt == nil,
		State: views.Status{Code: "active", Word: "On"}, Waiting: e.Waiting, Sent: e.Sent, Dead: e.Dead, LastAt: e.LastAt,
		Rotates: e.Kind != notify.Email && e.Kind != notify.Push, Tests: e.Kind != notify.Push, NewURL: e.Kind == notify.Slack,
	}
	if e.Kind == notify.Email {
		row.Where, row.NeedsTo, row.TestTo = s.To, true, p.Email
	}
	if e.Kind == notify.Push {
		row.Where = nil // people say where
	}
	if row.Decides = s.Decide; s.Decide != "" {
		row.Presses, row.Commands = "/v1/slack/interactions/"+e.ID, "/v1/slack/commands/"+e.ID
	}
	if e.ApprovalID != "" {
		row.Change = cardURL(e.ApprovalID)
	}
	if !row.On {
		row.State = views.Status{Code: "revoked", Word: "Off"}
	}
	if s.Format == channel.CloudEvents {
		row.About = append(row.About, "as CloudEvents")
	}
	if s.Digest > 0 {
		row.Digest = brief(time.Duration(s.Digest))
	}
	for _, t := range s.Kinds {
		row.Events = append(row.Events, t.Traits().Summary)
	}
	for _, only := range []struct {
		what string
		list []string
	}{{"roles ", s.Roles}, {"tools ", s.Tools}, {"agents ", s.Agents}} {
		if len(only.list) > 0 {
			row.About = append(row.About, only.what+strings.Join(only.list, ", "))
		}
	}
	if s.Own {
		row.About = append(row.About, "only what is the addressee's own")
	}
	return row
}

func (h *notificationHandler) addEndpoint(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e := formValues{form: r.PostForm}
	given := admin.NewEndpoint{
		Kind: e.text("kind"), Name: e.text("name"), URL: e.text("url"), Plain: e.checked("plain"), Ed25519: e.checked("pair"), Signing: e.text("signing"),
		Settings: endpointSettings(&e),
	}
	var shown string
	err := e.err()
	if err == nil {
		var id string
		id, shown, err = h.notifications.Add(r.Context(), by(p), given)
		if refusal := (*access.Refusal)(nil); id != "" && shown != "" && errors.As(err, &refusal) && refusal.Successor != "" {
			return h.showSecret(w, r, p, shown, given.Name, refusal.Detail, cardURL(refusal.Successor))
		}
	}
	if detail, ok := refused(err); ok {
		return h.showFormAgain(w, r, p, e, detail)
	}
	if err == nil && shown != "" {
		return h.showSecret(w, r, p, shown, given.Name, "The endpoint was added.", "")
	}
	return h.site.redirectOrFail(w, r, err, "endpoint", "/notifications")
}

// showFormAgain shows the form again, with what was entered but for the address,
// which is a secret.
func (h *notificationHandler) showFormAgain(w http.ResponseWriter, r *http.Request, p engine.Person, e formValues, detail string) error {
	v, err := h.view(r.Context(), p)
	if err != nil {
		return err
	}
	for i := range v.Forms {
		f := &v.Forms[i]
		if f.Open = f.Kind == e.text("kind"); !f.Open {
			continue
		}
		f.Name, f.To, f.Roles, f.Tools, f.Agents, f.Digest = e.text("name"), e.form.Get("to"), e.form.Get("roles"), e.form.Get("tools"), e.form.Get("agents"), e.text("digest")
		f.Own, f.Plain, f.Pair, f.Format, f.Decide, f.Kinds, f.Failure = e.checked("own"), e.checked("plain"), e.checked("pair"), e.text("format"), e.text("decide"), ticks(e.form["tell"]), detail
	}
	return h.site.render(w, r, http.StatusUnprocessableEntity, views.NotificationsPage(v))
}

// showSecret shows a secret, this once: it is in no address and no cookie. waits is the address of the
// approval that its endpoint waits for, "" for none.
func (h *notificationHandler) showSecret(w http.ResponseWriter, r *http.Request, p engine.Person, secret, name, notice, waits string) error {
	v, err := h.view(r.Context(), p)
	if err != nil {
		// The secret must not be lost with the list.
		v = views.Notifications{Frame: h.site.frame(p, "Notifications", "admin")}
	}
	v.Secret, v.SecretOf, v.SecretWaits, v.Notice = secret, name, waits, notice
	return h.site.render(w, r, http.StatusOK, views.NotificationsPage(v))
}

// showRefusal shows beside the endpoint why something was not done, or a page
// of its own.
func (h *notificationHandler) showRefusal(w http.ResponseWriter, r *http.Request, p engine.Person, err error) error {
	detail, ok := refused(err)
	v, failed := h.view(r.Context(), p)
	if !ok || failed != nil {
		return err
	}
	for i := range v.Endpoints {
		if v.Endpoints[i].ID == r.PathValue("id") {
			v.Endpoints[i].Open, v.Endpoints[i].Failure = true, detail
		}
	}
	return h.site.render(w, r, http.StatusUnprocessableEntity, views.NotificationsPage(v))
}

func (h *notificationHandler) testEndpoint(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if _, err := h.notifications.Test(r.Context(), by(p), r.PathValue("id"), strings.TrimSpace(r.PostForm.Get("to"))); err != nil {
		return h.showRefusal(w, r, p, err)
	}
	h.site.redirectWithFlash(w, r, "tested", "/notifications")
	return nil
}

func (h *notificationHandler) rotateSecret(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	id := r.PathValue("id")
	overlap := time.Duration(0)
	var err error
	if text := r.PostForm.Get("overlap"); text != "" {
		if overlap, err = time.ParseDuration(text); err != nil {
			err = invalid("overlap", "The form said no time for the former secret.")
		}
	}
	var shown string
	if err == nil {
		shown, err = h.notifications.RotateSecret(r.Context(), by(p), id, strings.TrimSpace(r.PostForm.Get("url")), overlap)
	}
	refusal := (*access.Refusal)(nil)
	switch {
	case shown != "" && errors.As(err, &refusal) && refusal.Successor != "":
		return h.showSecret(w, r, p, shown, h.endpointName(r.Context(), id), refusal.Detail, cardURL(refusal.Successor))
	case errors.As(err, &refusal) && refusal.Successor != "":
		return h.site.redirectOrFail(w, r, err, "rotated", "/notifications")
	case err != nil:
		return h.showRefusal(w, r, p, err)
	case shown == "":
		h.site.redirectWithFlash(w, r, "rotated", "/notifications")
		return nil
	}
	return h.showSecret(w, r, p, shown, h.endpointName(r.Context(), id), "The endpoint has a new secret.", "")
}

func (h *notificationHandler) endpointName(ctx context.Context, id string) string {
	endpoints, _, err := h.notifications.Overview(ctx, 0)
	if err != nil {
		return id
	}
	for _, e := range endpoints {
		if e.ID == id {
			return e.Name
		}
	}
	return id
}

func (h *notificationHandler) switchEndpoint(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	to := r.PostForm.Get("to")
	if to != "off" && to != "on" {
		return invalid("incomplete_form", "The form said neither on nor off.")
	}
	err := h.notifications.Switch(r.Context(), by(p), r.PathValue("id"), to == "off")
	return h.site.redirectOrFail(w, r, err, "endpoint"+to, "/notifications")
}

func (h *notificationHandler) resend(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := h.notifications.Resend(r.Context(), by(p), r.PathValue("id"))
	return h.site.redirectOrFail(w, r, err, "resent", "/notifications#dead")
}
