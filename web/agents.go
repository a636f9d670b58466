package web

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/web/views"
)

func agentURL(id string) string { return "/agents/" + url.PathEscape(id) }

// Agents is what the pages of agents need of what is registered. Every change is on
// record with who made it. Errors are as Inbox's are.
type Agents interface {
	Registry
	RegisterAgent(ctx context.Context, by access.Initiator, a registry.Agent, once *access.Idempotency[access.Done]) error
	RevokeAgent(ctx context.Context, by access.Initiator, id string, revoke bool, once *access.Idempotency[access.Done]) error
	KillSwitches
}

// agentHandler serves the list of agents and the page of each.
type agentHandler struct {
	site   *site
	agents Agents
}

func (h *agentHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /agents", h.site.forAuditors(h.list))
	mux.HandleFunc("GET /agents/{id}", h.site.forAuditors(h.show))
	mux.HandleFunc("POST /agents/{id}", h.site.forAdministrators(h.change))
	mux.HandleFunc("POST /agents/{id}/registration", h.site.forAdministrators(h.revoke))
	mux.HandleFunc("POST /agents/{id}/kill-switch", h.site.forAdministrators(h.killSwitch))
}

func (h *agentHandler) list(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	known, err := h.agents.Snapshot(r.Context())
	if err != nil {
		return err
	}
	v := views.Agents{Frame: h.site.frame(p, "Agents", "agents"), MayChange: access.MayAdminister(p)}
	for _, id := range slices.Sorted(maps.Keys(known.Agents)) {
		v.Rows = append(v.Rows, agentRow(known, known.Agents[id]))
	}
	return h.site.render(w, r, http.StatusOK, views.AgentsPage(v))
}

func agentRow(known *registry.Snapshot, a registry.Agent) views.AgentRow {
	row := views.AgentRow{
		ID: a.ID, URL: agentURL(a.ID), Name: a.Name, Owner: a.Owner, Type: words(a.Type), Trust: a.Trust.String(), Roles: a.Roles,
		Limits: limitsWords(known.LimitsOf(a.ID)), OwnLimits: a.Limits != nil, State: agentState(known, a),
	}
	return row
}

func agentState(known *registry.Snapshot, a registry.Agent) views.Status {
	_, all := known.Kills[""]
	_, own := known.Kills[a.ID]
	switch {
	case a.RevokedAt != nil:
		return views.Status{Code: "revoked", Word: "Revoked"}
	case own:
		return views.Status{Code: "stopped", Word: "Stopped"}
	case all:
		return views.Status{Code: "stopped", Word: "Stopped with all"}
	}
	return views.Status{Code: "active", Word: "Active"}
}

func (h *agentHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	known, a, err := h.find(r)
	if err != nil {
		return err
	}
	v := h.view(r, p, known, a)
	v.Notice = h.site.flash(w, r)
	return h.site.render(w, r, http.StatusOK, views.AgentPage(v))
}

// find reads the agent that the address names.
func (h *agentHandler) find(r *http.Request) (*registry.Snapshot, registry.Agent, error) {
	known, err := h.agents.Snapshot(r.Context())
	if err != nil {
		return nil, registry.Agent{}, err
	}
	a, ok := known.Agents[r.PathValue("id")]
	if !ok {
		return nil, a, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such agent."}
	}
	return known, a, nil
}

func (h *agentHandler) view(r *http.Request, p engine.Person, known *registry.Snapshot, a registry.Agent) views.Agent {
	v := views.Agent{
		Frame: h.site.frame(p, "Agent "+views.Visible(a.Name), "agents"), AgentRow: agentRow(known, a), MayChange: access.MayAdminister(p),
		UngatedURL:   "/audit?" + url.Values{"type": {string(engine.Ungated)}, "agent": {a.ID}}.Encode(),
		Capabilities: a.Capabilities, NeedsAttestation: a.NeedsAttestation, RevokedAt: a.RevokedAt,
		Delegation: strconv.Itoa(known.Settings.MaxDelegation) + ", as the settings say", Form: agentForm(a),
	}
	if a.MaxDelegation != nil {
		v.Delegation = strconv.Itoa(*a.MaxDelegation)
	}
	if !v.OwnLimits {
		v.Form.Limits = limitsForm(known.Settings.Limits)
	}
	if k, on := known.Kills[a.ID]; on {
		v.Kill = kill(k, h.site.names(r.Context(), k.By))
	}
	return v
}

func agentForm(a registry.Agent) views.AgentForm {
	f := views.AgentForm{
		Type: a.Type, Trust: a.Trust.String(), Trusts: trustOptions(), Roles: strings.Join(a.Roles, "\n"),
		Capabilities: strings.Join(a.Capabilities, "\n"), NeedsAttestation: a.NeedsAttestation, OwnLimits: a.Limits != nil, Seen: fingerprint(a),
	}
	if a.MaxDelegation != nil {
		f.MaxDelegation = strconv.Itoa(*a.MaxDelegation)
	}
	if a.Limits != nil {
		f.Limits = limitsForm(*a.Limits)
	}
	return f
}

// change replaces what is registered of an agent by what the form says.
func (h *agentHandler) change(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	known, a, err := h.find(r)
	if err != nil {
		return err
	}
	if r.PostForm.Get("seen") != fingerprint(a) {
		return errChanged
	}
	changed, e := a, formValues{form: r.PostForm}
	changed.Type = e.text("type")
	changed.Trust, changed.Roles, changed.Capabilities = e.trust("trust"), e.lines("roles"), e.lines("capabilities")
	changed.NeedsAttestation, changed.MaxDelegation, changed.Limits = e.checked("needs_attestation"), nil, nil
	if n, there := e.number("max_delegation", "Longest delegation chain"); there {
		changed.MaxDelegation = &n
	}
	if limits := e.limits(); e.checked("own_limits") {
		changed.Limits = &limits
	}
	if err = e.err(); err == nil {
		err = h.agents.RegisterAgent(r.Context(), by(p), changed, nil)
	}
	if detail, ok := refused(err); ok {
		v := h.view(r, p, known, a)
		v.Form = views.AgentForm{
			Type: e.text("type"), Trust: e.text("trust"), Trusts: trustOptions(),
			Roles: e.form.Get("roles"), Capabilities: e.form.Get("capabilities"), NeedsAttestation: e.checked("needs_attestation"),
			MaxDelegation: e.text("max_delegation"), OwnLimits: e.checked("own_limits"), Limits: limitsAgain(e.form), Seen: fingerprint(a),
			Failure: detail,
		}
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.AgentPage(v))
	}
	return h.site.redirectOrFail(w, r, err, "agent", agentURL(a.ID))
}

func (h *agentHandler) revoke(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	id, to := r.PathValue("id"), r.PostForm.Get("to")
	if err := confirmedChange(r.PostForm); err != nil {
		return err
	}
	err := h.agents.RevokeAgent(r.Context(), by(p), id, to == "revoked", nil)
	return h.site.redirectOrFail(w, r, missingIsChanged(err), to, agentURL(id))
}

func (h *agentHandler) killSwitch(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	known, a, err := h.find(r)
	if err != nil {
		return err
	}
	throw, reason, failure := switchForm(r.PostForm, "yes")
	if failure == "" {
		err = turn(r.Context(), h.agents, p, a.ID, reason, throw)
		failure, _ = refused(err)
	}
	if failure != "" {
		v := h.view(r, p, known, a)
		v.Switch.Failure, v.Switch.Reason = failure, reason
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.AgentPage(v))
	}
	what := "released"
	if throw {
		what = "stopped"
	}
	return h.site.redirectOrFail(w, r, err, what, agentURL(a.ID))
}
