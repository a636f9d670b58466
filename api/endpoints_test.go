package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/api"
	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/internal/store"
)

// An administrator's key reads and changes endpoints, and no answer has what is secret about one.
// Where endpoints take an approval, one that is on is not changed by a key either.
func TestEndpointsAreChanged(t *testing.T) {
	h := withAgents(t)
	const path = "/v1/admin/endpoints"
	by := access.Initiator{Reason: "for a test"}
	by.Actor.ID = "usr_test"
	id, _, err := h.Endpoints.Add(t.Context(), by, admin.NewEndpoint{Kind: notify.Webhook, Name: "Desk", URL: "https://desk.example.com/secret-place", Settings: notify.Settings{Roles: []string{"finance"}}})
	if err != nil {
		t.Fatal(err)
	}
	now := func() (e api.Endpoint) {
		t.Helper()
		h.as("ruling", http.MethodGet, path+"/"+id, "").want(t, 200, "").into(t, &e)
		return e
	}
	var all api.Endpoints
	h.as("ruling", http.MethodGet, path, "").want(t, 200, "").into(t, &all)
	if e := now(); len(all.Endpoints) != 1 || all.Endpoints[0].ID != id || !e.On || e.Name != "Desk" || e.Settings.Host != "desk.example.com" || !slices.Equal(e.Settings.Roles, []string{"finance"}) || e.ApprovalID != "" {
		t.Fatalf("got %+v, %+v", all, e)
	}
	change := func(body string, headers ...string) reply {
		return h.as("ruling", http.MethodPost, path+"/"+id, body, headers...)
	}
	events := func() int64 {
		return h.count(`SELECT count(*) FROM events WHERE event_code(body) = 'ENDPOINT_CHANGED'`)
	}
	const body = `{"tools":["pay*"],"tells":["decided"],"digest":"15m","url":"https://other.example.com/secret-too"}`
	for range 2 {
		change(body, "Idempotency-Key", "k").want(t, 200, "")
	}
	if e := now(); events() != 1 || e.Settings.Host != "other.example.com" || !slices.Equal(e.Settings.Tools, []string{"pay*"}) || !slices.Equal(e.Settings.Roles, []string{"finance"}) || e.Settings.Digest == 0 {
		t.Errorf("%d events, %+v", events(), e)
	}
	change(`{"roles":[],"digest":"0s"}`).want(t, 200, "")
	if e := now(); len(e.Settings.Roles) != 0 || e.Settings.Digest != 0 || len(e.Settings.Kinds) != 1 {
		t.Errorf("got %+v", e)
	}
	for _, wrong := range []string{`{"tells":["nothing.such"]}`, `{"format":"xml"}`, `{"url":"https://127.0.0.1/x"}`, `{"url":"http://desk.example.com"}`, `{"digest":"soon"}`, `{"name":"x"}`, `{"tells":"decided"}`, `[]`} {
		change(wrong).want(t, 422, "")
	}
	h.as("ruling", http.MethodPost, path+"/end_none", `{}`).want(t, 404, "not_found")
	h.as("ruling", http.MethodGet, path+"/end_none", "").want(t, 404, "not_found")
	h.as("checking", http.MethodGet, path, "").want(t, 403, "scope_missing")
	h.as("checking", http.MethodPost, path+"/"+id, `{}`).want(t, 403, "scope_missing")

	rule := approval.Rule{Role: "admin", Needed: 1, ExpiresIn: engine.Duration(time.Hour)}
	if err := admin.New(admin.Config{Store: h.db.Owner()}).Changes.RequireApproval(t.Context(), by, store.EndpointsChange, rule); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h.as("ruling", http.MethodPost, path+"/"+id+"/disable", `{}`).want(t, 200, "")
	}
	h.as("ruling", http.MethodPost, path+"/"+id+"/enable", `{"reason":"again"}`).want(t, 409, admin.ApprovalRequired)
	change(`{"tools":["mail"]}`).want(t, 200, "") // of one that is off
	if e := now(); e.On || e.DisabledAt == nil || !slices.Equal(e.Settings.Tools, []string{"mail"}) {
		t.Errorf("got %+v", e)
	}
	if n := h.count(`SELECT count(*) FROM events WHERE convert_from(body, 'utf8') LIKE '%secret-%'`); n != 0 || strings.Contains(string(h.as("ruling", http.MethodGet, path, "").body), "secret-") {
		t.Errorf("%d events have an address", n)
	}
}
