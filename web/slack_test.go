package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
)

// fakeSlack is a Slack with one link for each person.
type fakeSlack struct {
	on    bool
	links map[string]*admin.LinkedAccount
	codes int
}

func (f *fakeSlack) There(context.Context) (bool, error) { return f.on, nil }

func (f *fakeSlack) Of(_ context.Context, p engine.Person) (*admin.LinkedAccount, error) {
	return f.links[p.ID], nil
}

func (f *fakeSlack) NewCode(context.Context, access.Initiator) (string, error) {
	if !f.on {
		return "", &access.Refusal{Kind: access.Conflict, Code: "slack_unavailable", Detail: "Nothing is decided in Slack here."}
	}
	f.codes++
	return "AAAA-BBBB-CCCC", nil
}

func (f *fakeSlack) Unlink(_ context.Context, by access.Initiator) error {
	if f.links[by.Actor.ID] == nil {
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "No account in Slack is linked."}
	}
	delete(f.links, by.Actor.ID)
	return nil
}

func TestSlackOfTheAccount(t *testing.T) {
	f := &fakeSlack{links: map[string]*admin.LinkedAccount{}}
	c := start(t, func(cfg *Config) { cfg.Slack = f })
	c.signIn("ada@example.com")
	post := func(path string) answer { return c.do(http.MethodPost, path, url.Values{}) }
	if page := c.get("/account"); strings.Contains(page.body, `data-testid="slack"`) {
		t.Error("Slack is shown where nothing is decided there")
	}
	if page := post("/account/slack/code"); page.StatusCode != http.StatusConflict {
		t.Errorf("a code where nothing is decided: %d", page.StatusCode)
	}
	f.on = true
	if page := c.get("/account"); strings.Contains(page.body, "/account/slack/unlink") || !strings.Contains(page.body, "/account/slack/code") {
		t.Error("who has no link can end it, or not make one")
	}
	post("/account/slack/code").want(t, http.StatusOK, "/holdpoint link AAAA-BBBB-CCCC")
	if page := c.get("/account"); strings.Contains(page.body, "AAAA-BBBB") || f.codes != 1 {
		t.Error("the code is shown again")
	}
	f.links["usr_ada"] = &admin.LinkedAccount{Team: "T01", User: "U01", LinkedAt: epoch}
	c.get("/account").want(t, http.StatusOK, "<code>U01</code>", "<code>T01</code>", "Link another account instead")
	f.on = false
	c.get("/account").want(t, http.StatusOK, "End the link", "Nothing is decided in Slack at present")
	if page := post("/account/slack/unlink"); page.StatusCode != http.StatusSeeOther || len(f.links) != 0 {
		t.Errorf("the end: %d", page.StatusCode)
	}
	if page := post("/account/slack/unlink"); page.StatusCode != http.StatusNotFound {
		t.Errorf("ended twice: %d", page.StatusCode)
	}
}
