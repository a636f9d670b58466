package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func parsed(t *testing.T, form string) url.Values {
	t.Helper()
	values, err := url.ParseQuery(form)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestOnCallPage: administrators say who is on call, never themselves, and are refused what
// the API refuses.
func TestOnCallPage(t *testing.T) {
	h := startStaff(t, true)
	h.enter("ada", horse).to(t, "/")
	h.get("/on-call").want(t, http.StatusForbidden)
	h.post("/on-call", "schedule", "night").want(t, http.StatusForbidden)
	h.enter("olga", horse).to(t, "/")
	h.get("/on-call").want(t, http.StatusOK, "Nobody is on call")
	until := time.Now().Add(48 * time.Hour).UTC().Format("2006-01-02T15:04")
	set := func(pairs ...string) answer { return h.post("/on-call", append(pairs, "until", until)...) }
	set("schedule", "Night Run", "people", "ada@example.com").want(t, http.StatusUnprocessableEntity, "begins with a letter or digit", `value="Night Run"`)
	set("schedule", "night", "people", "nobody@example.com").want(t, http.StatusUnprocessableEntity, "no active account", "nobody@example.com")
	h.post("/on-call", "schedule", "night", "people", "ada@example.com").want(t, http.StatusUnprocessableEntity, "has to come after from")
	h.post("/on-call", "schedule", "night", "people", "ada@example.com", "until", "2099-01-01T00:00").want(t, http.StatusUnprocessableEntity, "at most a year")
	set("schedule", "night", "people", "ada@example.com", "from", "tomorrow").want(t, http.StatusUnprocessableEntity, "write a day and a time")
	set("schedule", "night", "people", "ada@example.com\nolga@example.com").want(t, http.StatusForbidden, "Nobody puts themselves on call")
	if strings.Contains(h.roles("ada")+h.roles("olga"), "on-call") {
		t.Fatal("what was refused has an effect")
	}
	set("schedule", "night", "people", "ada@example.com").to(t, "/on-call")
	h.get("/on-call").want(t, http.StatusOK, "Who is on call was changed", "night", "ada@example.com", "On call")
	if got := h.roles("ada"); got != "on-call/night reviewer" && got != "reviewer on-call/night" {
		t.Errorf("ada has %q", got)
	}
	h.post("/on-call", "schedule", "night").to(t, "/on-call")
	h.get("/on-call").want(t, http.StatusOK, "Nobody is on call")
}
