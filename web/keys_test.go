package web

import (
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/internal/identity"
)

var shownKey = regexp.MustCompile(`hp_[a-z2-7]{26}_[a-z2-7]{26}`)

// keyIDs are the ids of all keys there are, the newest first.
func (h *staff) keyIDs() []string {
	h.t.Helper()
	keys, err := h.db.Owner().Keys.List(h.t.Context(), 100)
	if err != nil {
		h.t.Fatal(err)
	}
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return ids
}

// good reports whether somebody signs in with the key.
func (h *staff) good(text string) bool {
	h.t.Helper()
	_, err := identity.NewKeys(h.t.Context(), h.db.Runtime()).Authenticate(h.t.Context(), text)
	return err == nil
}

// TestKeyPages: administrators see keys without their secrets, make one, which is shown
// once, and revoke one.
func TestKeyPages(t *testing.T) {
	h := startStaff(t, true)
	h.db.Agent("bot", "The bot", h.byID["olga"])
	h.db.Agent("others", "Somebody else’s", h.byID["ada"])
	h.enter("ada", horse).to(t, "/")
	for _, path := range []string{"/keys", "/keys/new", "/keys/key_a"} {
		h.get(path).want(t, http.StatusForbidden, "administrators")
	}
	h.post("/keys/new", "kind", "agent", "agent", "bot").want(t, http.StatusForbidden)

	h.enter("olga", horse).to(t, "/")
	h.get("/admin").want(t, http.StatusOK, `href="/keys"`, `href="/on-call"`)
	h.get("/keys").want(t, http.StatusOK, "No keys yet", "Make a key")
	h.get("/keys/new?agent=bot").want(t, http.StatusOK, `value="bot"`)
	for pair, want := range map[string]string{
		"kind=agent": "belong to an agent", "kind=agent&agent=nobody": "no such agent", "kind=admin&agent=bot": "belongs to none", "kind=agent&agent=others": "for which you answer", "kind=king": "administrator",
		"kind=agent&agent=bot&lifetime=-1h": "at most ten years", "kind=agent&agent=bot&lifetime=soon": "write a time",
		"kind=agent&agent=bot&label=a%0ab": "on one line",
	} {
		a := h.do(http.MethodPost, "/keys/new", parsed(t, pair))
		a.want(t, http.StatusUnprocessableEntity, want, `data-testid="key-new"`)
	}
	if ids := h.keyIDs(); len(ids) != 0 {
		t.Fatalf("what was refused made %v", ids)
	}
	h.db.Exec(`UPDATE agents SET revoked_at = clock_timestamp() WHERE id = 'bot'`)
	h.post("/keys/new", "kind", "agent", "agent", "bot").want(t, http.StatusUnprocessableEntity, "its registration is revoked")
	h.db.Exec(`UPDATE agents SET revoked_at = NULL WHERE id = 'bot'`)
	made := h.post("/keys/new", "kind", "agent", "agent", "bot", "label", "night run", "lifetime", "720h")
	made.want(t, http.StatusOK, "shown only now", "night run")
	if got := made.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("the page with the key may be kept: %q", got)
	}
	text := shownKey.FindString(made.body)
	if !h.good(text) {
		t.Fatalf("%q is no key", text)
	}
	id := h.keyIDs()[0]
	for _, path := range []string{"/keys", "/keys/" + id} {
		page := h.get(path)
		page.want(t, http.StatusOK, "night run", "bot", "Active", "Last used")
		if shownKey.MatchString(page.body) {
			t.Errorf("%s has the key's text", path)
		}
	}
	var told string
	if err := h.db.Connect(h.db.URL).QueryRow(t.Context(), `SELECT string_agg(e::text, ' ') FROM events e`).Scan(&told); err != nil {
		t.Fatal(err)
	}
	says := func(what string) bool { return strings.Contains(told, hex.EncodeToString([]byte(what))) }
	if says(text[len("hp_")+27:]) || says("night run") || !says("KEY_CREATED") || !says(`"actor":{"kind":"human","id":"`+h.byID["olga"].ID) {
		t.Errorf("the log says %s", told)
	}
	audit := h.post("/keys/new", "kind", "admin")
	audit.want(t, http.StatusOK, ">audit</code>", "never")

	h.post("/keys/"+id+"/revoke", "writer", h.byID["ada"].ID).want(t, http.StatusConflict)
	h.post("/keys/"+id+"/revoke").to(t, "/keys/"+id)
	h.get("/keys/"+id).want(t, http.StatusOK, "Revoked", "was revoked")
	h.post("/keys/"+id+"/revoke").want(t, http.StatusNotFound)
	h.post("/keys/key_none/revoke").want(t, http.StatusNotFound)
	h.get("/keys/key_none").want(t, http.StatusNotFound)
	if h.good(text) {
		t.Error("a revoked key signs in")
	}
	if page := h.get("/keys"); strings.Contains(page.body, "night run") || !strings.Contains(page.body, "1 that are revoked or expired") {
		t.Error("the list has a revoked key, or does not say that there is one")
	}
	h.get("/keys?dead=yes&q=NIGHT+bot").want(t, http.StatusOK, "night run", "1 key of 2")
	conn := h.db.Connect(h.db.URL)
	if _, err := conn.Exec(t.Context(), `UPDATE keys SET revoked_at = NULL`); err == nil {
		t.Error("a revoked key comes back")
	}
}

// TestKeysTakeAFreshProof, and an administrator of this very moment.
func TestKeysTakeAFreshProof(t *testing.T) {
	h := startStaff(t, true)
	h.db.Agent("bot", "The bot", h.byID["olga"])
	h.enter("olga", horse).to(t, "/")
	h.post("/keys/new", "kind", "agent", "agent", "bot").want(t, http.StatusOK)
	id := h.keyIDs()[0]
	h.db.Exec(`UPDATE sessions SET verified_at = clock_timestamp() - interval '6 minutes'`)
	h.get("/keys/new").want(t, http.StatusOK, "more than five minutes ago")
	h.post("/keys/new", "kind", "agent", "agent", "bot", "label", "kept").want(t, http.StatusForbidden, "Prove who you are", `value="kept"`)
	h.post("/keys/"+id+"/revoke").want(t, http.StatusForbidden, "Prove who you are")
	h.post("/on-call", "schedule", "night", "people", "ada@example.com", "until", "2036-01-01T00:00").want(t, http.StatusForbidden, "Prove who you are", "ada@example.com")
	h.post("/keys/"+id+"/revoke", "password", horse).to(t, "/keys/"+id)
	if n := len(h.keyIDs()); n != 1 {
		t.Errorf("%d keys", n)
	}
}

// TestKeysByCommand: without a login for accounts the pages only show.
func TestKeysByCommand(t *testing.T) {
	h := startStaff(t, false)
	h.db.Agent("bot", "The bot", engine.Person{})
	h.enter("olga", horse).to(t, "/")
	h.get("/keys").want(t, http.StatusOK, `data-testid="by-command"`)
	h.post("/keys/new", "kind", "agent", "agent", "bot").want(t, http.StatusUnprocessableEntity)
	h.post("/keys/key_a/revoke").want(t, http.StatusNotFound)
	if n := len(h.keyIDs()); n != 0 {
		t.Errorf("%d keys", n)
	}
}
