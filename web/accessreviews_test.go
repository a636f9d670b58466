package web

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"holdpoint/engine"
)

// TestAccessReviewPages has olga start a review whose lines ada and olga decide, take a role
// away, and complete it, by the pages' own forms.
func TestAccessReviewPages(t *testing.T) {
	h := startStaff(t, true)
	cem := h.db.Person(engine.Person{Name: "cem", Roles: []string{"reviewer", "lead"}})
	h.byID["cem"] = cem

	h.enter("ada", horse).to(t, "/")
	h.get("/access-reviews").want(t, http.StatusOK, "You have nothing to review")
	h.get("/access-reviews/new").want(t, http.StatusForbidden)
	h.get("/access-reviews/arv_none").want(t, http.StatusNotFound)

	h.enter("olga", horse).to(t, "/")
	h.get("/access-reviews").want(t, http.StatusOK, "There was no access review yet")
	h.get("/access-reviews/new").want(t, http.StatusOK, "Roles that rules ask for", "reviewer")
	form := []string{"title", "Q3 <b>", "due", "2099-01-01T00:00", "reviewer", "ada@example.com", "alternate", "olga@example.com"}
	h.post("/access-reviews/new", form...).want(t, http.StatusUnprocessableEntity, "at most a year", "Q3 &lt;b&gt;")
	due := h.db.Owner().Clock().AddDate(0, 1, 0).UTC().Format("2006-01-02T15:04")
	form[3] = due
	h.post("/access-reviews/new", append(form, "role_reviewers", "lead")...).want(t, http.StatusUnprocessableEntity, "role=e-mail address")
	started := h.post("/access-reviews/new", form...)
	at := started.Header.Get("Location")
	if !strings.HasPrefix(at, "/access-reviews/arv_") {
		t.Fatalf("started: %d %s", started.StatusCode, started.body)
	}
	// Her own is ada's; ada's own is hers.
	mine := h.get(at)
	mine.want(t, http.StatusOK, "The review was started", "0 of 4")
	if n := len(regexp.MustCompile(`name="line"`).FindAllString(mine.body, -1)); n != 1 {
		t.Errorf("olga is asked for %d, want 1", n)
	}
	h.post(at+"/complete").want(t, http.StatusConflict, "4 of 4 accesses are not reviewed")
	h.post(at+"/decide", "decision", "certify").want(t, http.StatusUnprocessableEntity, "Choose the accesses")
	h.post(at+"/decide", "decision", "remove", "line", lineOf(t, mine.body, "Ada")).want(t, http.StatusUnprocessableEntity, "Say why")
	h.post(at+"/decide", "decision", "certify", "line", lineOf(t, mine.body, "Ada")).to(t, at)

	h.enter("ada", horse).to(t, "/")
	h.get("/").want(t, http.StatusOK, "review 3 roles of people")
	hers := h.get(at)
	hers.want(t, http.StatusOK, `<code>admin</code>`, `<code>lead</code>`, `<code>reviewer</code>`)
	h.post(at+"/complete").want(t, http.StatusForbidden)
	h.post(at+"/remove").want(t, http.StatusForbidden)
	for _, role := range []string{"lead", "reviewer"} {
		shown := regexp.MustCompile(`<code>` + role + `</code>(?s:.*?)name="shown" value="(\d+)"`).FindStringSubmatch(hers.body)
		h.post(at+"/decide", "decision", "remove", "comment", "moved to another team", "all", "yes", "shown", shown[1]).to(t, at)
	}
	h.post(at+"/decide", "decision", "certify", "line", lineOf(t, hers.body, "Olga")).to(t, at)
	h.get(at).want(t, http.StatusOK, "You have reviewed everything", "What you said is on record")
	if got := h.roles("cem"); got != "reviewer lead" {
		t.Errorf("before anybody takes them away cem has %q", got)
	}

	h.enter("olga", horse).to(t, "/")
	h.get(at).want(t, http.StatusOK, "Take 2 roles away", "moved to another team", "End it all the same")
	h.post(at+"/remove").to(t, at)
	if got := h.roles("cem"); got != "" {
		t.Errorf("cem has %q", got)
	}
	h.get(at).want(t, http.StatusOK, "Everything was reviewed")
	h.post(at+"/complete").to(t, at)
	h.get(at).want(t, http.StatusOK, "Completed", "sha256:", "Taken away")
	h.get("/access-reviews").want(t, http.StatusOK, "4 of 4", "Completed")
	h.post(at+"/assign", "from", "ada@example.com", "to", "olga@example.com").want(t, http.StatusConflict, "is over")
}

// lineOf is the number of the line of a person, by the page.
func lineOf(t *testing.T, page, person string) string {
	t.Helper()
	found := regexp.MustCompile(`name="line" value="(\d+)"[^>]*> ?<span>` + person + `\b`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no line of %s in %s", person, page)
	}
	return found[1]
}
