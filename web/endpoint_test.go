package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
)

// fakeEndpoints is one endpoint, whose settings can be changed.
type fakeEndpoints struct {
	Notifications
	it  admin.Endpoint
	got []admin.EndpointChange
	// adds is the error of an endpoint that is added.
	adds error
}

func (f *fakeEndpoints) Overview(context.Context, int) ([]admin.Endpoint, []admin.DeadLetter, error) {
	return []admin.Endpoint{f.it}, nil, nil
}

func (f *fakeEndpoints) Change(_ context.Context, _ access.Initiator, id string, c admin.EndpointChange) error {
	c.Settings(&f.it.Settings)
	if errs := f.it.Settings.Check(f.it.Kind); id != f.it.ID || len(errs) > 0 {
		return &access.Refusal{Kind: access.Invalid, Code: "unfit_endpoint", Detail: errs[0].Error()}
	}
	f.got = append(f.got, c)
	return nil
}

func (f *fakeEndpoints) Add(_ context.Context, _ access.Initiator, e admin.NewEndpoint) (id, shown string, err error) {
	return "end_2", "whsec_once", f.adds
}

func (f *fakeEndpoints) RotateSecret(context.Context, access.Initiator, string, string, time.Duration) (string, error) {
	return "whsec_twice", f.adds
}

// TestEndpointSecret: a secret is shown, once, under its endpoint's name; where the endpoint waits for
// its approval, with that.
func TestEndpointSecret(t *testing.T) {
	fake := &fakeEndpoints{it: admin.Endpoint{ID: "end_1", Kind: notify.Webhook, Name: "Desk"}}
	c := start(t, func(cfg *Config) { cfg.Notifications = fake }).signIn("olga@example.com")
	form := url.Values{"kind": {notify.Webhook}, "name": {"Desk <2>"}, "url": {"https://desk.example.com"}}
	c.do("POST", "/notifications/endpoints", form).want(t, http.StatusOK, "The secret of “Desk &lt;2&gt;”", "whsec_once", "The endpoint was added.")
	fake.adds = &access.Refusal{Kind: access.Conflict, Code: admin.ApprovalRequired, Detail: "It is added, and off.", Successor: "apr_7"}
	c.do("POST", "/notifications/endpoints", form).want(t, http.StatusOK, "whsec_once", "It is added, and off.", `href="/approvals/apr_7"`)
	c.do("POST", "/notifications/endpoints/end_1/secret", url.Values{"overlap": {"1h"}}).want(t, http.StatusOK, "The secret of “Desk”", "whsec_twice", `href="/approvals/apr_7"`)
	fake.adds = nil
	c.do("POST", "/notifications/endpoints/end_1/secret", url.Values{}).want(t, http.StatusOK, "whsec_twice", "The endpoint has a new secret.")
}

// TestEndpointPage: an endpoint's page shows its settings, and not its address; what is sent
// replaces all of them, unless somebody has changed them meanwhile.
func TestEndpointPage(t *testing.T) {
	fake := &fakeEndpoints{it: admin.Endpoint{ID: "end_1", Kind: notify.Webhook, Name: "Desk", Settings: notify.Settings{
		Host: "desk.example.com", Roles: []string{"finance"}, Digest: engine.Duration(90 * time.Minute), Kinds: []engine.NotificationKind{engine.EndpointKinds()[1]},
	}}}
	c := start(t, func(cfg *Config) { cfg.Notifications = fake }).signIn("olga@example.com")
	page := c.get("/notifications/endpoints/end_1")
	page.want(t, http.StatusOK, "Desk", ">finance</textarea>", `name="digest" value="1h30m"`, `value="`+string(engine.EndpointKinds()[1])+`" checked`)
	if strings.Contains(page.body, `name="pair"`) || strings.Contains(page.body, `name="name"`) {
		t.Error("what stays can be changed")
	}
	if strings.Contains(page.body, `data-testid="endpoint-waits"`) {
		t.Error("it says that a change waits")
	}
	fake.it.ApprovalID = "apr_9"
	for _, path := range []string{"/notifications", "/notifications/endpoints/end_1"} {
		c.get(path).want(t, http.StatusOK, `data-testid="endpoint-waits"`, `href="/approvals/apr_9"`, "waits for approval")
	}
	c.get("/notifications/endpoints/end_2").want(t, http.StatusNotFound)
	form := hiddenFields(page.body)
	form.Set("digest", "soon")
	c.do("POST", "/notifications/endpoints/end_1", form).want(t, http.StatusUnprocessableEntity, "Gather for: write a time", `value="soon"`)
	form.Set("digest", "1h")
	form["tell"], form["tools"] = []string{"decided"}, []string{"pay*\r\nmail"}
	done := c.do("POST", "/notifications/endpoints/end_1", form)
	if s := fake.it.Settings; done.StatusCode != http.StatusSeeOther || len(fake.got) != 1 || s.Digest != engine.Duration(time.Hour) || len(s.Roles) != 0 ||
		!slices.Equal(s.Tools, []string{"pay*", "mail"}) || len(s.Kinds) != 1 || fake.got[0].URL != "" {
		t.Errorf("%s, %+v", done.Status, s)
	}
	c.do("POST", "/notifications/endpoints/end_1", form).want(t, http.StatusConflict) // of before the change
	c.do("POST", "/notifications/endpoints/end_1", url.Values{"seen": {""}}).want(t, http.StatusConflict)
	if len(fake.got) != 1 {
		t.Error("a form of before was taken")
	}
	c = start(t, func(cfg *Config) { cfg.Notifications = fake }).signIn("ada@example.com")
	c.get("/notifications/endpoints/end_1").want(t, http.StatusForbidden)
}
