package api_test

import (
	"net/http"
	"testing"
	"time"

	"holdpoint/api"
)

// TestNotModified: a caller who says that it has seen the approval as it is now is
// told that it has, at once or after the wait, and gets what has changed.
func TestNotModified(t *testing.T) {
	t.Parallel()
	h := withAgents(t)
	a := h.propose("checking", "pay", 1)
	read := func(query string, tags ...string) reply {
		t.Helper()
		var headers []string
		for _, tag := range tags {
			headers = append(headers, "If-None-Match", tag)
		}
		return h.as("checking", http.MethodGet, "/v1/approvals/"+a.ID+query, "", headers...)
	}
	first := read("").want(t, 200, "")
	tag := first.Header.Get("ETag")
	for _, seen := range []string{tag, "W/" + tag, `"r0", ` + tag, "*"} {
		for query, least := range map[string]time.Duration{"": 0, "?wait=1": time.Second} {
			began := time.Now()
			same := read(query, seen).want(t, 304, "")
			if len(same.body) != 0 || same.Header.Get("ETag") != tag || same.Header.Get("Retry-After") == "" || time.Since(began) < least {
				t.Errorf("%q, seen %s: %v %q after %s", query, seen, same.Header, same.body, time.Since(began))
			}
		}
	}
	for _, seen := range []string{`"r0"`, `"x"`, tag[:len(tag)-1] + `0"`} {
		read("", seen).want(t, 200, "")
	}

	// The vote changes it, and so does the end.
	h.vote(a, "approve")
	var voted api.Approval
	changed := read("?wait=50", tag).want(t, 200, "")
	changed.into(t, &voted)
	if voted.Status != "pending" || voted.NextAction != "wait" || voted.Requirements[0].Given != 1 {
		t.Errorf("voted, and not settled: %+v", voted)
	}
	h.settle(a.ID)
	var approved api.Approval
	read("?wait=50", changed.Header.Get("ETag")).want(t, 200, "").into(t, &approved)
	if approved.Status != "approved" || approved.NextAction != "none" || approved.Token == "" {
		t.Errorf("settled: %+v", approved)
	}
}
