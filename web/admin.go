package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
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

// What has to be typed to turn the switch of all agents.
const (
	typeStop    = "STOP"
	typeRelease = "RELEASE"
)

func (c *Console) admin(w http.ResponseWriter, r *http.Request, p engine.Person) {
	known, err := c.cfg.Office.Registry(r.Context())
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	v := c.adminView(r.Context(), p, known)
	v.Notice = c.site.flash(w, r)
	c.site.render(w, r, http.StatusOK, views.AdminPage(v))
}

func (c *Console) adminView(ctx context.Context, p engine.Person, known *registry.Snapshot) views.Admin {
	v := views.Admin{Frame: c.site.frame(p, "Administration", "admin"), Settings: settingsForm(known.Settings), Agents: len(known.Agents)}
	v.Switch.Word = typeStop
	ids := make([]string, 0, len(known.Kills))
	for _, k := range known.Kills {
		ids = append(ids, k.By)
	}
	name := c.site.names(ctx, ids...)
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
		v.Issuers = append(v.Issuers, views.Claim{Name: issuer, Value: base64.StdEncoding.EncodeToString(known.Settings.Issuers[issuer])})
	}
	for _, tool := range slices.Sorted(maps.Keys(known.Tools)) {
		v.Tools = append(v.Tools, toolRow(known.Tools[tool]))
	}
	return v
}

func (c *Console) switchAll(w http.ResponseWriter, r *http.Request, p engine.Person) {
	word := typeRelease
	if r.PostForm.Get("switch") == "throw" {
		word = typeStop
	}
	throw, reason, failure := switchForm(r.PostForm, word)
	var err error
	if failure == "" {
		err = c.turn(r.Context(), p, "", reason, throw)
		failure, _ = refused(err)
	}
	if failure != "" {
		known, err := c.cfg.Office.Registry(r.Context())
		if err != nil {
			c.site.fail(w, r, p, err)
			return
		}
		v := c.adminView(r.Context(), p, known)
		v.Switch.Failure, v.Switch.Reason = failure, reason
		c.site.render(w, r, http.StatusUnprocessableEntity, views.AdminPage(v))
		return
	}
	what := "allgo"
	if throw {
		what = "allstop"
	}
	c.site.redirectOrFail(w, r, p, err, what, "/admin")
}

func settingsForm(s registry.Settings) views.SettingsForm {
	return views.SettingsForm{
		Limits: limitsForm(s.Limits), MaxDelegation: strconv.Itoa(s.MaxDelegation), MinTrust: s.MinTrust.String(), Trusts: trustOptions(),
		OnlyRegistered: s.OnlyRegisteredTools, AllowUnverifiedMCP: s.AllowUnverifiedMCP, Seen: seen(s),
	}
}

// changeSettings replaces the settings but for the issuers, which the page only
// shows.
func (c *Console) changeSettings(w http.ResponseWriter, r *http.Request, p engine.Person) {
	known, err := c.cfg.Office.Registry(r.Context())
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	if r.PostForm.Get("seen") != seen(known.Settings) {
		c.site.fail(w, r, p, errChanged)
		return
	}
	changed, e := known.Settings, entered{form: r.PostForm}
	changed.Limits, changed.MinTrust = e.limits(), e.trust("min_trust")
	changed.OnlyRegisteredTools, changed.AllowUnverifiedMCP = e.ticked("only_registered"), e.ticked("unverified_mcp")
	var there bool
	if changed.MaxDelegation, there = e.number("max_delegation", "Longest delegation chain"); !there && len(e.wrong) == 0 {
		e.wrong = append(e.wrong, "Longest delegation chain: write a whole number; 0 allows no delegation.")
	}
	if err = e.trouble(); err == nil {
		err = c.cfg.Office.PutSettings(r.Context(), by(p), changed, nil)
	}
	if detail, ok := refused(err); ok {
		v := c.adminView(r.Context(), p, known)
		v.Settings = views.SettingsForm{
			Limits: limitsAgain(e.form), MaxDelegation: e.text("max_delegation"), MinTrust: e.text("min_trust"), Trusts: trustOptions(),
			OnlyRegistered: e.ticked("only_registered"), AllowUnverifiedMCP: e.ticked("unverified_mcp"), Seen: seen(known.Settings), Failure: detail,
		}
		c.site.render(w, r, http.StatusUnprocessableEntity, views.AdminPage(v))
		return
	}
	c.site.redirectOrFail(w, r, p, err, "settings", "/admin#settings")
}

func toolURL(name string) string { return "/admin/tool?name=" + url.QueryEscape(name) }

func toolRow(t registry.Tool) views.ToolRow {
	row := views.ToolRow{
		Name: t.Name, URL: toolURL(t.Name), Version: t.Version, Provider: t.Provider, MinTrust: t.MinTrust.String(), Verified: t.Verified,
		Manifest: t.ManifestHash, NeedsManifest: t.NeedsManifest, State: views.Status{Code: "active", Word: "Registered"}, RevokedAt: t.RevokedAt,
	}
	if t.RevokedAt != nil {
		row.State = views.Status{Code: "revoked", Word: "Revoked"}
	}
	return row
}

// tool is the page of one tool, or of one to be registered.
func (c *Console) tool(w http.ResponseWriter, r *http.Request, p engine.Person) {
	known, err := c.cfg.Office.Registry(r.Context())
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	v, err := c.toolView(p, known, r.URL.Query().Get("name"))
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	v.Notice = c.site.flash(w, r)
	c.site.render(w, r, http.StatusOK, views.ToolPage(v))
}

func (c *Console) toolView(p engine.Person, known *registry.Snapshot, name string) (views.Tool, error) {
	v := views.Tool{Frame: c.site.frame(p, "Register a tool", "admin"), Form: views.ToolForm{Trusts: trustOptions(), MinTrust: engine.Untrusted.String()}}
	if name == "" {
		return v, nil
	}
	t, ok := known.Tools[name]
	if !ok {
		return v, &gate.Refusal{Status: http.StatusNotFound, Code: "not_found", Detail: "There is no such tool."}
	}
	v.Title, v.Known, v.ToolRow = "Tool "+views.Visible(name), true, toolRow(t)
	v.Form = views.ToolForm{
		Name: t.Name, Version: t.Version, Provider: t.Provider, Manifest: t.ManifestHash, NeedsManifest: t.NeedsManifest,
		Verified: t.Verified, MinTrust: t.MinTrust.String(), Trusts: trustOptions(), Seen: seen(t), Schema: indented(t.InputSchema),
	}
	return v, nil
}

// indented writes JSON for reading; nothing for none.
func indented(text json.RawMessage) string {
	var b bytes.Buffer
	if len(text) == 0 || json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}

func (c *Console) changeTool(w http.ResponseWriter, r *http.Request, p engine.Person) {
	known, err := c.cfg.Office.Registry(r.Context())
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	e := entered{form: r.PostForm}
	t := registry.Tool{
		Name: e.text("name"), Version: e.text("version"), Provider: e.text("provider"), ManifestHash: strings.ToLower(e.text("manifest")),
		NeedsManifest: e.ticked("needs_manifest"), Verified: e.ticked("verified"), MinTrust: e.trust("min_trust"),
	}
	if text := e.text("input_schema"); text != "" {
		if t.InputSchema = json.RawMessage(text); !json.Valid(t.InputSchema) {
			e.wrong = append(e.wrong, "Schema of its arguments: it is no JSON.")
		}
	}
	old, there := known.Tools[t.Name]
	if mark := r.PostForm.Get("seen"); there && mark != seen(old) || !there && mark != "" {
		c.site.fail(w, r, p, errChanged)
		return
	}
	if err = e.trouble(); err == nil {
		err = c.cfg.Office.RegisterTool(r.Context(), by(p), t, nil)
	}
	if detail, ok := refused(err); ok {
		v, _ := c.toolView(p, known, "")
		if there {
			v, _ = c.toolView(p, known, t.Name) // it was there a moment ago, in the same snapshot
		}
		v.Form = views.ToolForm{
			Name: t.Name, Version: t.Version, Provider: t.Provider, Manifest: e.text("manifest"), NeedsManifest: t.NeedsManifest,
			Verified: t.Verified, MinTrust: e.text("min_trust"), Trusts: trustOptions(), Seen: r.PostForm.Get("seen"), Failure: detail,
			Schema: e.text("input_schema"),
		}
		c.site.render(w, r, http.StatusUnprocessableEntity, views.ToolPage(v))
		return
	}
	c.site.redirectOrFail(w, r, p, err, "tool", toolURL(t.Name))
}

func (c *Console) revokeTool(w http.ResponseWriter, r *http.Request, p engine.Person) {
	name := r.PostForm.Get("name")
	if err := confirmedChange(r.PostForm); err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	revoke := r.PostForm.Get("to") == "revoked"
	what := "toolback"
	if revoke {
		what = "toolgone"
	}
	err := c.cfg.Office.RevokeTool(r.Context(), by(p), name, revoke, nil)
	c.site.redirectOrFail(w, r, p, already(err), what, toolURL(name))
}
