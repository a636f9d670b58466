package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"holdpoint/api"
	"holdpoint/engine"
	"holdpoint/internal/identity"
	"holdpoint/internal/passkeytest"
)

// TestSignedVoteOverTheAPI: a signed-in person's program has a vote signed in two
// requests, and a repetition gets the first answer.
func TestSignedVoteOverTheAPI(t *testing.T) {
	h := withAgents(t)
	ctx := t.Context()
	a := h.propose("checking", "pay", 1)
	h.person = h.db.Person(engine.Person{Name: "ada", Roles: []string{"reviewer"}})
	h.person.VerifiedBy, h.person.VerifiedAt = identity.Password, time.Now()
	post := func(path string, body map[string]any, headers ...string) reply {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return h.send(http.MethodPost, "/v1/approvals/"+a.ID+path, string(text), append([]string{"Content-Type", "application/json"}, headers...)...)
	}
	vote := map[string]any{"decision": "approve", "comment": "as agreed", "digest": a.Digest, "version": a.Version}
	post("/votes/challenge", vote).want(t, 403, "no_signing_key")
	var err error
	if h.Contributions.Factors, err = identity.NewFactors(h.Contributions.Store, "https://console.example.com"); err != nil {
		t.Fatal(err)
	}
	factors, key := h.Contributions.Factors, passkeytest.New(t, "console.example.com")
	c, err := factors.BeginPasskey(ctx, h.person)
	if err == nil {
		err = factors.FinishPasskey(ctx, h.person, "laptop", c.ChallengeID, key.Create(c.PublicKey))
	}
	if err != nil {
		t.Fatal(err)
	}
	post("/votes/challenge", map[string]any{"decision": "perhaps"}).want(t, 422, "invalid_body")
	post("/votes/challenge", map[string]any{"decision": "approve", "digest": a.Digest, "version": a.Version + 1}).want(t, 409, "stale")
	sign := func() {
		var asked api.VoteChallenge
		post("/votes/challenge", vote).want(t, 200, "").into(t, &asked)
		vote["challenge"], vote["assertion"] = asked.ChallengeID, json.RawMessage(key.Get(asked.PublicKey))
	}
	sign()
	vote["comment"] = "something else"
	post("/votes", vote).want(t, 409, "signature_invalid")
	vote["comment"] = "as agreed"
	post("/votes", vote).want(t, 403, "verification_failed") // it was good once
	sign()
	once := []string{"Idempotency-Key", "once"}
	post("/votes", vote, once...).want(t, 200, "")
	post("/votes", vote, once...).want(t, 200, "")
	vote["comment"] = "something else"
	post("/votes", vote, once...).want(t, 422, "idempotency_key_reused")
	h.settle(a.ID)
	var got api.Approval
	h.as("checking", http.MethodGet, "/v1/approvals/"+a.ID, "").want(t, 200, "").into(t, &got)
	if got.Status != "approved" {
		t.Errorf("it is %s: %s", got.Status, fmt.Sprint(got.Reasons))
	}
}
