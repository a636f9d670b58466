package web

import (
	"net/http"
	"testing"
)

// TestNextAfterAVote: the card that somebody has voted on leads to what waits for them,
// once, and says when nothing does.
func TestNextAfterAVote(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	first := c.m.add("apr_1", "payments.transfer", `{"amount":1}`, nil)
	c.m.add("apr_2", "<b>secrets.rotate", `{}`, nil)
	c.get("/approvals/apr_1").lacks(t, `data-testid="next"`)
	c.do("POST", "/approvals/apr_1/votes", ballotFor(first, "approve")).want(t, http.StatusSeeOther)
	c.get("/approvals/apr_1").want(t, http.StatusOK, "Your vote is recorded", `href="/approvals/apr_2" autofocus`, "&lt;b&gt;secrets.rotate", "1 call waits")
	c.get("/approvals/apr_1").lacks(t, `data-testid="next"`)
	c.do("POST", "/approvals/apr_2/votes", ballotFor(c.m.cards["apr_2"], "deny")).want(t, http.StatusSeeOther)
	c.get("/approvals/apr_2").want(t, http.StatusOK, "Nothing else waits for you")
}
