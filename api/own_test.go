package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"holdpoint/api"
	"holdpoint/engine"
	"holdpoint/internal/access"
)

// withAgents is a harness with two agents and somebody who may vote.
func withAgents(t testing.TB) *harness {
	t.Helper()
	h := newHarness(t)
	h.addAgents()
	return h
}

// addAgents registers the agents of the test's keys.
func (h *harness) addAgents() {
	h.t.Helper()
	owner := h.db.Person(engine.Person{Name: "owner", Roles: []string{"owner"}})
	h.db.Agent("bot", "bot", owner)
	h.db.Agent("other-bot", "other-bot", owner)
	h.judgeAgain()
}

// as sends a request with a key.
func (h *harness) as(key, method, path, body string, headers ...string) reply {
	h.t.Helper()
	return h.send(method, path, body, append([]string{"Authorization", "Bearer " + key, "Content-Type", "application/json"}, headers...)...)
}

// payment is a call that waits for people.
func payment(tool string, amount int) string {
	return fmt.Sprintf(`{"tool_name":%q,"tool_category":"write","authorization_state":"none","evidence_refs":["x:1"],"risk_domain":"finance","proposed_arguments":{"amount":%d},"recommended_route":"accept"}`, tool, amount)
}

// propose proposes a payment that waits.
func (h *harness) propose(key, tool string, amount int, headers ...string) api.Approval {
	h.t.Helper()
	var answer api.Checked
	h.patiently(func() reply {
		return h.as(key, http.MethodPost, "/v1/pre-tool-check", payment(tool, amount), headers...)
	}).want(h.t, 202, "").into(h.t, &answer)
	return *answer.Approval
}

// vote votes as somebody who may.
func (h *harness) vote(a api.Approval, decision string) {
	h.t.Helper()
	if h.person.ID == "" {
		h.person = h.db.Person(engine.Person{Name: "ada", Roles: []string{"reviewer"}})
	}
	h.person.VerifiedBy, h.person.VerifiedAt = "totp", time.Now()
	h.patiently(func() reply {
		return h.send(http.MethodPost, "/v1/approvals/"+a.ID+"/votes", fmt.Sprintf(`{"decision":%q,"kind":%q,"digest":%q,"version":%d}`,
			decision, map[string]string{"deny": "never"}[decision], a.Digest, a.Version), "Content-Type", "application/json")
	}).want(h.t, 200, "")
}

// patiently asks again, for a minute, while the store is away, where the test cuts its connections.
func (h *harness) patiently(ask func() reply) reply {
	got := ask()
	for deadline := time.Now().Add(time.Minute); h.cut && got.StatusCode == http.StatusServiceUnavailable && time.Now().Before(deadline); {
		got = ask()
	}
	return got
}

func (h *harness) settle(id string) {
	h.t.Helper()
	_, err := h.settler.Settle(context.Background(), id)
	for deadline := time.Now().Add(time.Minute); h.cut && access.IsUnavailable(err) && time.Now().Before(deadline); {
		_, err = h.settler.Settle(context.Background(), id)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestOwnApprovals: an agent that has lost track finds all that it asked for, and
// nothing of another's.
func TestOwnApprovals(t *testing.T) {
	h := withAgents(t)
	var mine []string // the newest first
	for i := range 5 {
		a := h.propose("checking", "pay", i, "Holdpoint-Session", fmt.Sprint("s", i%2))
		mine = slices.Insert(mine, 0, a.ID)
	}
	mine = slices.Insert(mine, 0, h.propose("checking", "refund", 9).ID)
	theirs := h.propose("other", "pay", 0)
	list := func(key, query string) (ids []string, next string) {
		t.Helper()
		var page api.OwnApprovals
		h.as(key, http.MethodGet, "/v1/approvals"+query, "").want(t, 200, "").into(t, &page)
		for _, a := range page.Approvals {
			ids = append(ids, a.ID)
		}
		return ids, page.NextCursor
	}
	if got, next := list("checking", ""); !slices.Equal(got, mine) || next != "" {
		t.Errorf("listed %v, then %q; want %v", got, next, mine)
	}
	if got, _ := list("other", ""); !slices.Equal(got, []string{theirs.ID}) {
		t.Errorf("the other agent's: %v", got)
	}

	// What is opened while somebody turns pages moves nothing.
	page, next := list("checking", "?limit=2")
	h.propose("checking", "later", 1)
	for next != "" {
		var more []string
		more, next = list("checking", "?limit=2&cursor="+url.QueryEscape(next))
		page = append(page, more...)
	}
	if !slices.Equal(page, mine) {
		t.Errorf("page by page: %v, want %v", page, mine)
	}

	approved := h.propose("checking", "approved", 1)
	h.vote(approved, "approve")
	h.settle(approved.ID)
	for query, want := range map[string][]string{
		"?tool_name=refund": {mine[0]}, "?session=s1": {mine[2], mine[4]}, "?session=s1&tool_name=refund": nil,
		"?status=approved": {approved.ID}, "?status=denied": nil, "?status=pending&session=s0&limit=1": {mine[1]},
	} {
		if got, _ := list("checking", query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}

	var one api.Approval
	h.as("checking", http.MethodGet, "/v1/approvals/"+approved.ID, "").want(t, 200, "").into(t, &one)
	var approvedOnes api.OwnApprovals
	h.as("checking", http.MethodGet, "/v1/approvals?status=approved", "").want(t, 200, "").into(t, &approvedOnes)
	if one.Token == "" || approvedOnes.Approvals[0].Token != "" {
		t.Error("a token is for who asks for the one approval, and in no list")
	}

	for _, query := range []string{"?status=open", "?limit=0", "?limit=101", "?limit=x", "?tool_name=a&tool_name=b"} {
		h.as("checking", http.MethodGet, "/v1/approvals"+query, "").want(t, 400, "bad_query")
	}
	h.as("checking", http.MethodGet, "/v1/approvals?cursor=x", "").want(t, 400, "bad_cursor")
	h.as("ruling", http.MethodGet, "/v1/approvals", "").want(t, 403, "not_an_agent")
	h.as("auditing", http.MethodGet, "/v1/approvals", "").want(t, 403, "scope_missing")
	h.get("/v1/approvals").want(t, 401, "unauthenticated")
}
