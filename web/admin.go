package web

import (
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/web/views"
)

// Settings is what the page of administration needs of what is registered. Every
// change is on record with who made it.
type Settings interface {
	Registry
	PutSettings(ctx context.Context, by access.Initiator, s registry.Settings, once *access.Idempotency[access.Done]) error
	KillSwitches
}

// adminHandler serves the page of the settings and of the kill switch for all agents.
type adminHandler struct {
	site     *site
	settings Settings
}

func (h *adminHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /admin", h.site.forAdministrators(h.show))
	mux.HandleFunc("POST /admin/kill-switch", h.site.forAdministrators(h.switchAll))
	mux.HandleFunc("POST /admin/settings", h.site.forAdministrators(h.changeSettings))
}

func (h *adminHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	known, err := h.settings.Snapshot(r.Context())
	if err != nil {
		return err
	}
	v := h.view(r.Context(), p, known)
	v.Notice = h.site.flash(w, r)
	return h.site.render(w, r, http.StatusOK, views.AdminPage(v))
}

func (h *adminHandler) view(ctx context.Context, p engine.Person, known *registry.Snapshot) views.Admin {
	v := views.Admin{Frame: h.site.frame(p, "Administration", "admin"), Settings: settingsForm(known.Settings), Agents: len(known.Agents)}
	v.Switch.Word = typeStop
	ids := make([]string, 0, len(known.Kills))
	for _, k := range known.Kills {
		ids = append(ids, k.By)
	}
	name := h.site.names(ctx, ids...)
	for _, agent := range slices.Sorted(maps.Keys(known.Kills)) {
		k := kill(known.Kills[agent], name)
		if agent == "" {
			v.Kill, v.Switch.Word = k, typeRelease
			continue
		}
		k.URL, k.Agent = agentURL(agent), agent
		if a, ok := known.Agents[agent]; ok {
			k.Agent = a.Name
		}
		v.Kills = append(v.Kills, k)
	}
	for _, issuer := range slices.Sorted(maps.Keys(known.Settings.Issuers)) {
		v.Issuers = append(v.Issuers, views.Field{Name: issuer, Value: base64.StdEncoding.EncodeToString(known.Settings.Issuers[issuer])})
	}
	for _, tool := range slices.Sorted(maps.Keys(known.Tools)) {
		v.Tools = append(v.Tools, toolRow(known.Tools[tool]))
	}
	return v
}

func (h *adminHandler) switchAll(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	word := typeRelease
	if r.PostForm.Get("switch") == "throw" {
		word = typeStop
	}
	throw, reason, failure := switchForm(r.PostForm, word)
	var err error
	if failure == "" {
		err = turn(r.Context(), h.settings, p, "", reason, throw)
		failure, _ = refused(err)
	}
	if failure != "" {
		known, err := h.settings.Snapshot(r.Context())
		if err != nil {
			return err
		}
		v := h.view(r.Context(), p, known)
		v.Switch.Failure, v.Switch.Reason = failure, reason
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.AdminPage(v))
	}
	what := "allgo"
	if throw {
		what = "allstop"
	}
	return h.site.redirectOrFail(w, r, err, what, "/admin")
}

func settingsForm(s registry.Settings) views.SettingsForm {
	return views.SettingsForm{
		Limits: limitsForm(s.Limits), MaxDelegation: strconv.Itoa(s.MaxDelegation), MinTrust: s.MinTrust.String(), Trusts: trustOptions(),
		OnlyRegistered: s.OnlyRegisteredTools, AllowUnverifiedMCP: s.AllowUnverifiedMCP, Seen: fingerprint(s),
	}
}

// changeSettings replaces the settings but for the issuers, which the page only
// shows.
func (h *adminHandler) changeSettings(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	known, err := h.settings.Snapshot(r.Context())
	if err != nil {
		return err
	}
	if r.PostForm.Get("seen") != fingerprint(known.Settings) {
		return errChanged
	}
	changed, e := known.Settings, formValues{form: r.PostForm}
	changed.Limits, changed.MinTrust = e.limits(), e.trust("min_trust")
	changed.OnlyRegisteredTools, changed.AllowUnverifiedMCP = e.checked("only_registered"), e.checked("unverified_mcp")
	var there bool
	if changed.MaxDelegation, there = e.number("max_delegation", "Longest delegation chain"); !there && len(e.problems) == 0 {
		e.problems = append(e.problems, "Longest delegation chain: write a whole number; 0 allows no delegation.")
	}
	if err = e.err(); err == nil {
		err = h.settings.PutSettings(r.Context(), by(p), changed, nil)
	}
	if detail, ok := refused(err); ok {
		v := h.view(r.Context(), p, known)
		v.Settings = views.SettingsForm{
			Limits: limitsAgain(e.form), MaxDelegation: e.text("max_delegation"), MinTrust: e.text("min_trust"), Trusts: trustOptions(),
			OnlyRegistered: e.checked("only_registered"), AllowUnverifiedMCP: e.checked("unverified_mcp"), Seen: fingerprint(known.Settings), Failure: detail,
		}
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.AdminPage(v))
	}
	return h.site.redirectOrFail(w, r, err, "settings", "/admin#settings")
}
