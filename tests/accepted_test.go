package tests

import (
	"net/http"
	"testing"
)

// accepted is the answer to a call that is over at once.
type accepted struct {
	Approval *approval
	Allowed  bool
}

// TestAcceptedCallHasAToken: who wants it gets a token for an accepted call as
// well, bound to it, redeemed once and reported like one that people approved; a
// repetition of the request gets one for the same permission.
func TestAcceptedCallHasAToken(t *testing.T) {
	d := onShared(t)
	agent, admin := d.agent(t), d.admin(t)
	args := map[string]any{"query": newID("q-")}
	ask := func(headers ...header) (v accepted, a answer) {
		t.Helper()
		e := event("search_docs", "accept", args)
		e["want_token"] = true
		a = agent.propose(e, headers...).want(t, http.StatusOK)
		a.into(t, &v)
		return v, a
	}
	key := header{"Idempotency-Key", newID("k-")}
	first, _ := ask(key)
	if first.Approval == nil || first.Approval.Status != "approved" || first.Approval.Token == "" || len(first.Approval.Requirements) != 0 || first.Approval.NextAction != "none" {
		t.Fatalf("an accepted call with a token: %+v", first.Approval)
	}
	again, replayed := ask(key)
	if again.Approval.ID != first.Approval.ID || again.Approval.Token == "" || replayed.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same request again: %+v", again.Approval)
	}
	if got := agent.get(first.Approval.ID); got.Token == "" || got.Status != "approved" {
		t.Errorf("the approval asked for again: %+v", got)
	}
	agent.redeem(first.Approval.Token, "search_docs", map[string]any{"query": "another"}).want(t, 403, "arguments_mismatch")
	agent.redeem(first.Approval.Token, "search_docs", args).want(t, 200)
	agent.redeem(again.Approval.Token, "search_docs", args).want(t, 409, "token_used")
	agent.do("POST", "/v1/executions", map[string]any{"approval_id": first.Approval.ID, "outcome": "succeeded"}).want(t, 200)

	// By a header, and by the other door.
	var spm accepted
	agent.do("POST", "/v1/tool-calls/check", params("search_docs", args), header{"Prefer", "wait=1, token"}).want(t, http.StatusOK).into(t, &spm)
	if !spm.Allowed || spm.Approval == nil || spm.Approval.Token == "" || spm.Approval.ID == first.Approval.ID {
		t.Errorf("Agent-SPM: %+v", spm.Approval)
	}
	// Who asks for none gets none, and a member of another type is no wish.
	var plain accepted
	agent.propose(event("search_docs", "accept", args)).want(t, http.StatusOK).into(t, &plain)
	if plain.Approval != nil {
		t.Errorf("nobody wanted %+v", plain.Approval)
	}
	odd := event("search_docs", "accept", args)
	odd["want_token"] = "yes"
	agent.propose(odd).want(t, http.StatusUnprocessableEntity, "invalid_body")
	// What waits or is refused is answered as ever.
	waits := event("search_docs", "defer", args)
	waits["want_token"] = true
	held := agent.submit(waits)
	if held.Status != "pending" || held.Token != "" {
		t.Errorf("a call that waits: %+v", held)
	}
	agent.cancel(held.ID).want(t, 200)

	events := admin.events(query("approval_id", first.Approval.ID))
	var story []string
	for _, e := range events {
		story = append(story, e.Type+" "+e.Outcome)
	}
	if len(story) < 4 {
		t.Errorf("on record: %v", story)
	}
}
