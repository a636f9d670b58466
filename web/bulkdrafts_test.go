package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"holdpoint/internal/gate"
)

// TestBulkDrafts: what somebody writes about several calls is there again for the same
// ones, and for those of them that are left; about others it is only to copy, and what was
// sent is gone.
func TestBulkDrafts(t *testing.T) {
	c, drafts := startWithDrafts(t)
	ids := refunds(c.m, 4)
	three := ids[:3]
	written := func(words string, ids ...string) url.Values {
		return url.Values{"writer": {"usr_ada"}, "form": {"together"}, "together:comment": {words}, "together:kind": {"never"}, "together:shown": {strings.Join(ids, " ")}}
	}
	c.signIn("ada@example.com")
	c.get(pageFor(ids...)).want(t, http.StatusOK, "data-draft ", `id="signed-out"`, `formaction="/inbox/draft"`)
	c.do("POST", "/inbox/draft", written("<as> agreed", three...), "Sec-Fetch-Dest", "empty").want(t, http.StatusNoContent)
	if got := drafts["usr_ada apr_02 together"].Encode(); len(drafts) != 3 || got != "comment=%3Cas%3E+agreed&kind=never" {
		t.Fatalf("kept %v", drafts)
	}
	inForm := "&lt;as&gt; agreed</textarea>"
	for _, some := range [][]string{three, three[1:]} {
		page := c.get(pageFor(some...))
		page.want(t, http.StatusOK, inForm, "What you had written is here again", `value="never" selected`)
		page.lacks(t, "to copy")
	}
	beside := c.get(pageFor(ids...))
	beside.want(t, http.StatusOK, inForm, "about some of these only, to copy")
	beside.lacks(t, "is here again", `value="never" selected`)
	c.signIn("grace@example.com").get(pageFor(three...)).lacks(t, "agreed")
	c.do("POST", "/inbox/draft", written("stolen", three...), "Sec-Fetch-Dest", "empty").want(t, http.StatusConflict, `"code":"not_yours"`)

	// A form that is wrong, and one that is recorded for some: their words stay.
	c.signIn("ada@example.com")
	form := formFor(c.m, "approve", three...)
	form.Set("comment", strings.Repeat("a", gate.MaxComment+1))
	c.do("POST", bulkPath, form).want(t, http.StatusUnprocessableEntity, "aaa</textarea>")
	c.get(pageFor(three...)).want(t, http.StatusOK, "aaa</textarea>", "is here again")
	form.Set("comment", "fine")
	form.Set("digest:apr_01", "sha256:"+strings.Repeat("0", 64))
	c.do("POST", bulkPath, form).want(t, http.StatusOK, "2 of 3 votes are recorded")
	if got := drafts["usr_ada apr_01 together"].Get("comment"); len(drafts) != 1 || got != "fine" {
		t.Errorf("kept %v", drafts)
	}
	c.do("POST", "/inbox/draft", written("", "apr_01"), "Sec-Fetch-Dest", "empty").want(t, http.StatusNoContent)
	if len(drafts) != 0 {
		t.Errorf("emptied, and kept: %v", drafts)
	}

	// Without a script, by a button; and whatever is no such form.
	form = url.Values{"comment": {"by hand"}, "kind": {"never"}, "shown": {"apr_01 apr_03"}, "id": {"apr_01"}}
	saved := c.do("POST", "/inbox/draft", form)
	if saved.StatusCode != http.StatusSeeOther || saved.Header.Get("Location") != pageFor("apr_01", "apr_03") || len(drafts) != 2 {
		t.Errorf("%s, kept %v", saved.Status, drafts)
	}
	for then, leads := range map[string]string{"inbox": "/", "apr_01": "/approvals/apr_01", "/evil.example": "/approvals/%2Fevil.example", "": pageFor("apr_01", "apr_03")} {
		if to := c.do("POST", "/inbox/draft?then="+url.QueryEscape(then), form).Header.Get("Location"); to != leads {
			t.Errorf("then %q leads to %q", then, to)
		}
	}
	if to := c.do("POST", "/inbox/draft?then=inbox", url.Values{"shown": {"apr_gone"}, "kind": {"never"}}); to.StatusCode != http.StatusSeeOther {
		t.Errorf("a link with nothing to keep: %s", to.Status)
	}
	c.do("POST", "/inbox/draft?then=inbox", url.Values{"comment": {"<lost>"}}).want(t, http.StatusUnprocessableEntity, "&lt;lost&gt;</textarea>")
	c.do("POST", "/inbox/draft", url.Values{"comment": {"x"}}).want(t, http.StatusUnprocessableEntity, "x</textarea>")
	c.do("POST", "/inbox/draft", written("x", make101()...), "Sec-Fetch-Dest", "empty").want(t, http.StatusUnprocessableEntity, `"code":"too_many"`)
	if len(drafts) != 2 || drafts["usr_ada apr_03 together"].Get("comment") != "by hand" {
		t.Errorf("kept %v", drafts)
	}
	c.m.broken = errors.New("away")
	c.do("POST", bulkPath, formFor(c.m, "approve", "apr_01", "apr_03"))
	c.m.broken = nil
	if len(drafts) != 2 {
		t.Errorf("gone without a vote: %v", drafts)
	}
}

func make101() []string {
	ids := make([]string, maxBulk+1)
	for i := range ids {
		ids[i] = "apr_" + strings.Repeat("x", i)
	}
	return ids
}

// TestBulkDraftsOutliveTheSession: a sign-in carries them, from the form that decides
// and from a page whose script has found the session ended.
func TestBulkDraftsOutliveTheSession(t *testing.T) {
	c, drafts := startWithDrafts(t)
	ids := refunds(c.m, 2)
	form := formFor(c.m, "approve", ids...)
	form.Set("writer", "usr_ada")
	for path, form := range map[string]url.Values{
		bulkPath:       form,
		"/inbox/draft": {"writer": {"usr_ada"}, "form": {"together"}, "together:comment": {"as agreed"}, "together:shown": {strings.Join(ids, " ")}},
	} {
		page := c.do("POST", path, form)
		page.want(t, http.StatusUnauthorized, "nothing was decided", "it is there again with the calls")
		fields := hiddenFields(page.body)
		fields.Set("email", "ada@example.com")
		fields.Set("password", "right")
		done := c.do("POST", "/login", fields)
		if to := done.Header.Get("Location"); to != pageFor(ids...) || len(drafts) != 2 || len(c.m.votes) != 0 {
			t.Errorf("%s: led to %q, kept %v", path, to, drafts)
		}
		c.get(pageFor(ids...)).want(t, http.StatusOK, "as agreed</textarea>", "is here again")
		clear(drafts)
		c.do("POST", "/logout", url.Values{})
	}
}
