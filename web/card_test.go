package web

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"holdpoint/internal/gate"
)

// inOrder fails the test where the page does not have the texts one after the other.
func (a answer) inOrder(t *testing.T, texts ...string) {
	t.Helper()
	var at []int
	for _, text := range texts {
		at = append(at, strings.Index(a.body, text))
	}
	if !slices.IsSorted(at) || at[0] < 0 {
		t.Errorf("%q are at %v", texts, at)
	}
}

// TestACardIsReadFromTheTop: what the call does, what it is in full, why it was held, and
// what the agent says of it. What leads to the decision is there for those who may decide.
func TestACardIsReadFromTheTop(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	c.m.add("apr_1", "refund_payment", `{"amount":1,"to":"Ann"}`, func(c *gate.Card) { c.Former = []byte(`{"amount":2,"to":"Ann"}`) })
	card := c.get("/approvals/apr_1")
	card.want(t, http.StatusOK)
	card.inOrder(t, `class="seen"`, `data-testid="stakes"`, `data-testid="what-changed"`, `data-testid="args"`, "Why it was held", "What you are deciding on", `data-testid="decide-bar"`, `data-testid="approve"`)
	if seen := c.m.seen[0]; strings.Contains(seen, "decide-bar") || !strings.Contains(seen, "what-changed") {
		t.Errorf("what is kept as shown is %s", seen)
	}
	c.m.add("apr_long", "run", `{"text":"`+strings.Repeat(`line\n`, 200)+`"}`, func(c *gate.Card) { c.Long = true })
	c.get("/approvals/apr_long").inOrder(t, `data-testid="decide-bar"`, `<a class="button" href="/approvals/apr_long?full=1">Show everything</a>`, `href="#decide"`, `id="decide"`)
	c.do("POST", "/logout", nil, "Sec-Fetch-Site", "same-origin")
	if c.signIn("linus@example.com"); strings.Contains(c.get("/approvals/apr_1").body, "decide-bar") {
		t.Error("somebody who may not decide is led to a decision")
	}
}
