package web

import (
	"cmp"
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
	"holdpoint/internal/httpstatus"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// APIKeys is what the pages of API keys need; admin.Keys is one. Every change is on
// record with who made it, and is judged by who they are at that moment.
type APIKeys interface {
	// MayBeChanged says that keys can be made and revoked from here.
	MayBeChanged() bool
	// List lists the keys, the newest first, without their secrets.
	List(ctx context.Context) ([]admin.Key, error)
	// Issue returns the text of a new key, which is stored nowhere.
	Issue(ctx context.Context, by access.Initiator, n admin.NewKey) (admin.Key, string, error)
	Withdraw(ctx context.Context, by access.Initiator, id string) error
}

// keyHandler serves the list of API keys, the page of each, and the form that makes one.
type keyHandler struct {
	freshProof
	keys   APIKeys
	agents Registry
}

func (h *keyHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /keys", h.site.forAdministrators(h.list))
	mux.HandleFunc("GET /keys/new", h.site.forAdministrators(h.newForm))
	mux.HandleFunc("POST /keys/new", h.changes(h.issue))
	mux.HandleFunc("GET /keys/{id}", h.site.forAdministrators(h.show))
	mux.HandleFunc("POST /keys/{id}/revoke", h.changes(h.revoke))
}

func keyURL(id string) string { return "/keys/" + url.PathEscape(id) }

var keyKinds = map[string]string{access.AgentKey: "agent", access.RuntimeKey: "runtime", access.AdminKey: "administrator"}

func (h *keyHandler) list(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	all, err := h.keys.List(r.Context())
	if err != nil {
		return err
	}
	q := r.URL.Query()
	v := views.Keys{
		Frame: h.site.frame(p, "API keys", "admin"), Query: strings.TrimSpace(q.Get("q")), Dead: q.Get("dead") == "yes", MayChange: h.keys.MayBeChanged(), Total: len(all),
	}
	v.Notice = h.site.flash(w, r)
	for _, k := range all {
		row := keyRow(k, h.site.clock())
		switch {
		case !row.Matches(v.Query):
		case k.Dead && !v.Dead:
			v.Hidden++
		default:
			if v.Found++; v.Found <= maxPeopleShown {
				v.Rows = append(v.Rows, row)
			}
		}
	}
	return h.site.render(w, r, http.StatusOK, views.KeysPage(v))
}

func keyRow(k admin.Key, now time.Time) views.KeyRow {
	row := views.KeyRow{
		ID: k.ID, URL: keyURL(k.ID), Label: k.Label, Agent: k.AgentID, Kind: keyKinds[k.Kind], Scopes: k.Scopes, MaxState: k.MaxState,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsedAt: k.LastUsedAt, State: views.Status{Code: "active", Word: "Active"},
	}
	switch {
	case k.RevokedAt != nil:
		row.State = views.Status{Code: "revoked", Word: "Revoked"}
	case k.ExpiresAt != nil && !now.Before(*k.ExpiresAt):
		row.State = views.Status{Code: "revoked", Word: "Expired"}
	case k.Dead && k.PersonID != "":
		row.State = views.Status{Code: "revoked", Word: "Void"}
	case k.Dead:
		row.State = views.Status{Code: "revoked", Word: "Agent revoked"}
	case k.ExpiresSoon(now):
		row.State = views.Status{Code: "expiring", Word: "Expires soon"}
	}
	if k.PersonID != "" {
		row.Person, row.PersonURL = cmp.Or(k.PersonName, k.PersonID), personURL(k.PersonID)
	}
	if k.AgentID != "" {
		row.AgentURL = agentURL(k.AgentID)
	}
	return row
}

func (h *keyHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	v, err := h.page(r, p)
	if err != nil {
		return err
	}
	v.Notice = h.site.flash(w, r)
	return h.site.render(w, r, http.StatusOK, views.KeyPageView(v))
}

// page is the page of the key that the address names.
func (h *keyHandler) page(r *http.Request, p engine.Person) (views.KeyPage, error) {
	all, err := h.keys.List(r.Context())
	if err != nil {
		return views.KeyPage{}, err
	}
	i := slices.IndexFunc(all, func(k admin.Key) bool { return k.ID == r.PathValue("id") })
	if i < 0 {
		return views.KeyPage{}, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such API key."}
	}
	v := views.KeyPage{Frame: h.site.frame(p, "API key", "admin"), KeyRow: keyRow(all[i], h.site.clock()), MayChange: h.keys.MayBeChanged()}
	if v.MayChange && v.RevokedAt == nil {
		v.Proof, err = h.proof(r, p)
	}
	return v, err
}

func (h *keyHandler) revoke(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := h.prove(r, p)
	if err == nil {
		err = h.keys.Withdraw(r.Context(), by(p), r.PathValue("id"))
	}
	var refusal *access.Refusal
	if !errors.As(err, &refusal) || refusal.Kind == access.NotFound {
		return h.site.redirectOrFail(w, r, err, "apikeygone", keyURL(r.PathValue("id")))
	}
	if p, err = h.site.sessions.again(r); err != nil {
		return err
	}
	v, err := h.page(r, p)
	if err != nil {
		return err
	}
	v.Failure = refusal.Detail
	retryAfter(w, refusal)
	return h.site.render(w, r, httpstatus.Of(refusal.Kind), views.KeyPageView(v))
}

func (h *keyHandler) newForm(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	form := url.Values{"agent": {r.URL.Query().Get("agent")}, "kind": {access.AgentKey}, "lifetime": {"8760h"}}
	return h.renderNew(w, r, p, http.StatusOK, form, "")
}

// maxSuggested bounds the agents that the form suggests; any other can be written.
const maxSuggested = 500

func (h *keyHandler) renderNew(w http.ResponseWriter, r *http.Request, p engine.Person, status int, form url.Values, failure string) error {
	v := views.NewKey{
		Frame: h.site.frame(p, "Make an API key", "admin"), MayChange: h.keys.MayBeChanged(), Failure: failure,
		Kind: form.Get("kind"), Agent: form.Get("agent"), Label: form.Get("label"), Lifetime: form.Get("lifetime"),
		Kinds: []views.Option{
			{Value: access.AgentKey, Label: "An agent: it proposes calls"},
			{Value: access.RuntimeKey, Label: "An agent’s runtime: it also confirms on a user’s behalf"},
			{Value: access.AdminKey, Label: "An auditor’s program: it reads the audit log"},
		},
		Lifetimes: []views.Option{{Value: "720h", Label: "30 days"}, {Value: "2160h", Label: "90 days"}, {Value: "8760h", Label: "a year"}, {Value: "", Label: "for ever"}},
	}
	known, err := h.agents.Snapshot(r.Context())
	if err != nil {
		return err
	}
	for id, a := range known.Agents {
		if a.RevokedAt == nil {
			v.Agents = append(v.Agents, views.Option{Value: id, Label: views.Visible(a.Name)})
		}
	}
	slices.SortFunc(v.Agents, func(a, b views.Option) int { return strings.Compare(a.Value, b.Value) })
	v.Agents = v.Agents[:min(len(v.Agents), maxSuggested)]
	if v.Proof, err = h.proof(r, p); err != nil {
		return err
	}
	return h.site.render(w, r, status, views.NewKeyPage(v))
}

func (h *keyHandler) issue(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e := formValues{form: r.PostForm}
	n := admin.NewKey{Kind: e.text("kind"), Agent: e.text("agent"), Label: e.text("label"), ExpiresIn: time.Duration(e.duration("lifetime", "Good for"))}
	if n.Kind == access.AdminKey {
		n.Scopes = []string{identity.ScopeAudit} // the only one that is made here
	}
	err := e.err()
	if err == nil {
		err = h.prove(r, p)
	}
	var key admin.Key
	var text string
	if err == nil {
		key, text, err = h.keys.Issue(r.Context(), by(p), n)
	}
	var refusal *access.Refusal
	if errors.As(err, &refusal) {
		if p, err = h.site.sessions.again(r); err != nil {
			return err
		}
		retryAfter(w, refusal)
		return h.renderNew(w, r, p, httpstatus.Of(refusal.Kind), r.PostForm, refusal.Detail)
	}
	if err != nil {
		return err
	}
	return h.site.render(w, r, http.StatusOK, views.KeyMadePage(views.KeyMade{
		Frame: h.site.frame(p, "The new API key", "admin"), KeyRow: keyRow(key, h.site.clock()), Text: text,
	}))
}
