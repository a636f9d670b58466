package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"holdpoint/engine/audit"
	"holdpoint/internal/gate"
)

// TestStoredCardIsPartOfThePage: the card that goes on record is a part of the
// page, byte for byte, and nothing in it belongs to the reader or the moment.
func TestStoredCardIsPartOfThePage(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	hostile := `{"memo":"</div><script>alert(1)</script> ` + "\u202e" + `[x](javascript:alert(2))"}`
	card := c.m.add("apr_1", "pay</div>", hostile, func(c *gate.Card) { c.Salt = strings.Repeat("5a", 32) })
	page := c.get("/approvals/apr_1")
	page.want(t, http.StatusOK)
	if len(c.m.seen) != 1 {
		t.Fatalf("%d cards are on record, want 1", len(c.m.seen))
	}
	who, seen, _ := strings.Cut(c.m.seen[0], " ")
	if who != "usr_ada" || !strings.Contains(page.body, seen) {
		t.Fatalf("what is kept of %s is not on the page:\n%s", who, seen)
	}
	for _, text := range []string{"[U+202E", "&lt;script&gt;", card.Approval.Call.Digest, `data-salt="` + card.Salt + `"`, "pay&lt;/div&gt;", "agt_billing"} {
		if !strings.Contains(seen, text) {
			t.Errorf("the card lacks %q:\n%s", text, seen)
		}
	}
	for _, text := range []string{"<script", "href=", "src=", "<form", "<input", " id=", "countdown", "Ada", "labelledby"} {
		if strings.Contains(seen, text) {
			t.Errorf("the card has %q, which is no evidence or cannot be shown elsewhere:\n%s", text, seen)
		}
	}
	if strings.Count(seen, "<div") != strings.Count(seen, "</div>") {
		t.Errorf("what is opened in the card is not closed in it:\n%s", seen)
	}
	// Somebody else, at another time, is shown the same card.
	c.do("POST", "/logout", nil, "Sec-Fetch-Site", "same-origin")
	c.m.now = func() time.Time { return epoch.Add(time.Second) }
	c.signIn("grace@example.com").get("/approvals/apr_1").want(t, http.StatusOK)
	if len(c.m.seen) != 2 || c.m.seen[1] != "usr_grace "+seen {
		t.Errorf("the card depends on who looks, or when: %q", c.m.seen)
	}
}

// TestOnlyWhatIsShownWholeIsKept: what nobody looks at, and what is cut, is not on
// record as shown.
func TestOnlyWhatIsShownWholeIsKept(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	long := c.m.add("apr_long", "run", `{"text":"`+strings.Repeat(`line\n`, 200)+`"}`, nil)
	long.Long = true
	c.m.add("apr_short", "run", `{}`, nil)
	c.m.add("apr_gone", "run", `{}`, func(c *gate.Card) { c.Arguments = nil })
	for _, step := range []struct {
		path   string
		header []string
		method string
		want   int
	}{
		{"/approvals/apr_long", nil, "GET", 0},
		{"/approvals/apr_gone", nil, "GET", 0},
		{"/approvals/apr_short", []string{"Sec-Purpose", "prefetch"}, "GET", 0},
		{"/approvals/apr_short", []string{"Sec-Fetch-Dest", "image"}, "GET", 0},
		{"/approvals/apr_short", nil, "HEAD", 0},
		{"/approvals/apr_short", nil, "GET", 1},
		{"/approvals/apr_long?full=1", nil, "GET", 1},
	} {
		c.m.seen = nil
		status := http.StatusOK
		if step.header != nil {
			status = http.StatusServiceUnavailable
		}
		got := c.do(step.method, step.path, nil, step.header...)
		got.want(t, status)
		if step.header != nil && strings.Contains(got.body, "seen") {
			t.Errorf("%s %v: the card is sent, and nothing is on record:\n%s", step.path, step.header, got.body)
		}
		if len(c.m.seen) != step.want {
			t.Errorf("%s %s %v: %d cards on record, want %d", step.method, step.path, step.header, len(c.m.seen), step.want)
		}
	}
	if len(c.m.seen) == 1 && !strings.HasSuffix(c.m.seen[0], audit.CardEnd) {
		t.Error("the card has no end")
	}
}
