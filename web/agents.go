package web

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

func agentURL(id string) string { return "/agents/" + url.PathEscape(id) }

func (c *Console) agents(w http.ResponseWriter, r *http.Request, p engine.Person) {
	known, err := c.cfg.Office.Registry(r.Context())
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	v := views.Agents{Frame: c.site.frame(p, "Agents", "agents"), MayChange: gate.MayAdminister(p)}
	for _, id := range slices.Sorted(maps.Keys(known.Agents)) {
		v.Rows = append(v.Rows, agentRow(known, known.Agents[id]))
	}
	c.site.render(w, r, http.StatusOK, views.AgentsPage(v))
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

func (c *Console) agent(w http.ResponseWriter, r *http.Request, p engine.Person) {
	known, a, err := c.registered(r)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	v := c.agentView(r, p, known, a)
	v.Notice = c.site.flash(w, r)
	c.site.render(w, r, http.StatusOK, views.AgentPage(v))
}

// registered reads the agent that the address names.
func (c *Console) registered(r *http.Request) (*registry.Snapshot, registry.Agent, error) {
	known, err := c.cfg.Office.Registry(r.Context())
	if err != nil {
		return nil, registry.Agent{}, err
	}
	a, ok := known.Agents[r.PathValue("id")]
	if !ok {
		return nil, a, &gate.Refusal{Status: http.StatusNotFound, Code: "not_found", Detail: "There is no such agent."}
	}
	return known, a, nil
}

func (c *Console) agentView(r *http.Request, p engine.Person, known *registry.Snapshot, a registry.Agent) views.Agent {
	v := views.Agent{
		Frame: c.site.frame(p, "Agent "+views.Visible(a.Name), "agents"), AgentRow: agentRow(known, a), MayChange: gate.MayAdminister(p),
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
		v.Kill = kill(k, c.site.names(r.Context(), k.By))
	}
	return v
}

func agentForm(a registry.Agent) views.AgentForm {
	f := views.AgentForm{
		Type: a.Type, Trust: a.Trust.String(), Trusts: trustOptions(), Roles: strings.Join(a.Roles, "\n"),
		Capabilities: strings.Join(a.Capabilities, "\n"), NeedsAttestation: a.NeedsAttestation, OwnLimits: a.Limits != nil, Seen: seen(a),
	}
	if a.MaxDelegation != nil {
		f.MaxDelegation = strconv.Itoa(*a.MaxDelegation)
	}
	if a.Limits != nil {
		f.Limits = limitsForm(*a.Limits)
	}
	return f
}

// changeAgent replaces what is registered of an agent by what the form says.
func (c *Console) changeAgent(w http.ResponseWriter, r *http.Request, p engine.Person) {
	known, a, err := c.registered(r)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	if r.PostForm.Get("seen") != seen(a) {
		c.site.fail(w, r, p, errChanged)
		return
	}
	changed, e := a, entered{form: r.PostForm}
	changed.Type = e.text("type")
	changed.Trust, changed.Roles, changed.Capabilities = e.trust("trust"), e.lines("roles"), e.lines("capabilities")
	changed.NeedsAttestation, changed.MaxDelegation, changed.Limits = e.ticked("needs_attestation"), nil, nil
	if n, there := e.number("max_delegation", "Longest delegation chain"); there {
		changed.MaxDelegation = &n
	}
	if limits := e.limits(); e.ticked("own_limits") {
		changed.Limits = &limits
	}
	if err = e.trouble(); err == nil {
		err = c.cfg.Office.RegisterAgent(r.Context(), by(p), changed, nil)
	}
	if detail, ok := refused(err); ok {
		v := c.agentView(r, p, known, a)
		v.Form = views.AgentForm{
			Type: e.text("type"), Trust: e.text("trust"), Trusts: trustOptions(),
			Roles: e.form.Get("roles"), Capabilities: e.form.Get("capabilities"), NeedsAttestation: e.ticked("needs_attestation"),
			MaxDelegation: e.text("max_delegation"), OwnLimits: e.ticked("own_limits"), Limits: limitsAgain(e.form), Seen: seen(a),
			Failure: detail,
		}
		c.site.render(w, r, http.StatusUnprocessableEntity, views.AgentPage(v))
		return
	}
	c.site.redirectOrFail(w, r, p, err, "agent", agentURL(a.ID))
}

func (c *Console) revokeAgent(w http.ResponseWriter, r *http.Request, p engine.Person) {
	id, to := r.PathValue("id"), r.PostForm.Get("to")
	if err := confirmedChange(r.PostForm); err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	err := c.cfg.Office.RevokeAgent(r.Context(), by(p), id, to == "revoked", nil)
	c.site.redirectOrFail(w, r, p, already(err), to, agentURL(id))
}

// confirmedChange makes sure that a form that revokes or restores says which,
// and that the second step was taken.
func confirmedChange(form url.Values) error {
	if to := form.Get("to"); to != "revoked" && to != "restored" {
		return invalid("incomplete_form", "The form said neither revoke nor restore.")
	}
	if form.Get("confirm") != "yes" {
		return invalid("not_confirmed", "Nothing was changed: tick the box to confirm it.")
	}
	return nil
}

// already words the refusal of a change that somebody else has made meanwhile.
func already(err error) error {
	var refusal *gate.Refusal
	if errors.As(err, &refusal) && refusal.Status == http.StatusNotFound {
		return errChanged
	}
	return err
}

func (c *Console) switchAgent(w http.ResponseWriter, r *http.Request, p engine.Person) {
	known, a, err := c.registered(r)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	throw, reason, failure := switchForm(r.PostForm, "yes")
	if failure == "" {
		err = c.turn(r.Context(), p, a.ID, reason, throw)
		failure, _ = refused(err)
	}
	if failure != "" {
		v := c.agentView(r, p, known, a)
		v.Switch.Failure, v.Switch.Reason = failure, reason
		c.site.render(w, r, http.StatusUnprocessableEntity, views.AgentPage(v))
		return
	}
	what := "released"
	if throw {
		what = "stopped"
	}
	c.site.redirectOrFail(w, r, p, err, what, agentURL(a.ID))
}
