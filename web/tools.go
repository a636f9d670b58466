package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/web/views"
)

// Tools is what the pages of tools need of what is registered. Every change is on
// record with who made it.
type Tools interface {
	Registry
	RegisterTool(ctx context.Context, by access.Initiator, t registry.Tool, once *access.Idempotency[access.Done]) error
	RevokeTool(ctx context.Context, by access.Initiator, name string, revoke bool, once *access.Idempotency[access.Done]) error
}

// toolHandler serves the page of a tool.
type toolHandler struct {
	site  *site
	tools Tools
}

func (h *toolHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /admin/tool", h.site.forAdministrators(h.show))
	mux.HandleFunc("POST /admin/tool", h.site.forAdministrators(h.change))
	mux.HandleFunc("POST /admin/tool/registration", h.site.forAdministrators(h.revoke))
}

// show is the page of one tool, or of one to be registered.
func (h *toolHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	known, err := h.tools.Snapshot(r.Context())
	if err != nil {
		return err
	}
	v, err := h.view(p, known, r.URL.Query().Get("name"))
	if err != nil {
		return err
	}
	v.Notice = h.site.flash(w, r)
	return h.site.render(w, r, http.StatusOK, views.ToolPage(v))
}

func (h *toolHandler) view(p engine.Person, known *registry.Snapshot, name string) (views.Tool, error) {
	v := views.Tool{Frame: h.site.frame(p, "Register a tool", "admin"), Form: toolForm(registry.Tool{})}
	if name == "" {
		return v, nil
	}
	t, ok := known.Tools[name]
	if !ok {
		return v, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such tool."}
	}
	v.Title, v.Known, v.ToolRow = "Tool "+views.Visible(name), true, toolRow(t)
	v.Form = toolForm(t)
	v.Form.Seen = fingerprint(t)
	return v, nil
}

func (h *toolHandler) change(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	known, err := h.tools.Snapshot(r.Context())
	if err != nil {
		return err
	}
	e := formValues{form: r.PostForm}
	t := registry.Tool{
		Name: e.text("name"), Version: e.text("version"), Provider: e.text("provider"), ManifestHash: strings.ToLower(e.text("manifest")),
		NeedsManifest: e.checked("needs_manifest"), Verified: e.checked("verified"), MinTrust: e.trust("min_trust"),
		Category: e.text("category"), RiskDomain: e.text("risk_domain"), DataLabels: strings.Fields(e.text("labels")),
		IdentityBound: e.checked("identity_bound"), SideEffects: e.checked("side_effects"), Stakes: e.text("stakes"),
	}
	if text := e.text("input_schema"); text != "" {
		if t.InputSchema = json.RawMessage(text); !json.Valid(t.InputSchema) {
			e.problems = append(e.problems, "Schema of its arguments: it is no JSON.")
		}
	}
	old, there := known.Tools[t.Name]
	if mark := r.PostForm.Get("seen"); there && mark != fingerprint(old) || !there && mark != "" {
		return errChanged
	}
	if err = e.err(); err == nil {
		err = h.tools.RegisterTool(r.Context(), by(p), t, nil)
	}
	if detail, ok := refused(err); ok {
		v, _ := h.view(p, known, "")
		if there {
			v, _ = h.view(p, known, t.Name) // it was there a moment ago, in the same snapshot
		}
		v.Form = toolForm(t)
		v.Form.Manifest, v.Form.MinTrust, v.Form.Schema = e.text("manifest"), e.text("min_trust"), e.text("input_schema")
		v.Form.Seen, v.Form.Failure = r.PostForm.Get("seen"), detail
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.ToolPage(v))
	}
	return h.site.redirectOrFail(w, r, err, "tool", toolURL(t.Name))
}

func (h *toolHandler) revoke(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	name := r.PostForm.Get("name")
	if err := confirmedChange(r.PostForm); err != nil {
		return err
	}
	revoke := r.PostForm.Get("to") == "revoked"
	what := "toolback"
	if revoke {
		what = "toolgone"
	}
	err := h.tools.RevokeTool(r.Context(), by(p), name, revoke, nil)
	return h.site.redirectOrFail(w, r, missingIsChanged(err), what, toolURL(name))
}

// toolForm is the form with what is registered of a tool.
func toolForm(t registry.Tool) views.ToolForm {
	return views.ToolForm{
		Name: t.Name, Version: t.Version, Provider: t.Provider, Manifest: t.ManifestHash, NeedsManifest: t.NeedsManifest, Verified: t.Verified,
		MinTrust: t.MinTrust.String(), Trusts: trustOptions(), Schema: indented(t.InputSchema),
		Category: t.Category, Categories: optionsOf(engine.ToolCategories()), RiskDomain: t.RiskDomain, RiskDomains: optionsOf(engine.RiskDomains()),
		Labels: strings.Join(t.DataLabels, " "), IdentityBound: t.IdentityBound, SideEffects: t.SideEffects, Stakes: t.Stakes,
	}
}

// optionsOf are the names with what people read for them, after "nobody has said".
func optionsOf(names []string) []views.Option {
	options := []views.Option{{Label: "not registered"}}
	for _, name := range names {
		options = append(options, views.Option{Value: name, Label: strings.ReplaceAll(name, "_", " ")})
	}
	return options
}

// toolKind says what a tool is registered as: "write, finance".
func toolKind(t registry.Tool) string {
	var parts []string
	for _, part := range []string{t.Category, t.RiskDomain} {
		if part != "" {
			parts = append(parts, strings.ReplaceAll(part, "_", " "))
		}
	}
	return strings.Join(parts, ", ")
}

func toolURL(name string) string { return "/admin/tool?name=" + url.QueryEscape(name) }

func toolRow(t registry.Tool) views.ToolRow {
	row := views.ToolRow{
		Name: t.Name, URL: toolURL(t.Name), Kind: toolKind(t), Version: t.Version, Provider: t.Provider, MinTrust: t.MinTrust.String(), Verified: t.Verified,
		Manifest: t.ManifestHash, NeedsManifest: t.NeedsManifest, State: views.Status{Code: "active", Word: "Registered"}, RevokedAt: t.RevokedAt,
	}
	if t.RevokedAt != nil {
		row.State = views.Status{Code: "revoked", Word: "Revoked"}
	}
	return row
}

// indented writes JSON for reading; nothing for none.
func indented(text json.RawMessage) string {
	var b bytes.Buffer
	if len(text) == 0 || json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}
