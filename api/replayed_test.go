package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"holdpoint/api"
)

// TestRedeemReplayed: a runner with a fixed key that redeems again is told that it
// has redeemed before, and is refused once an outcome is on record. Other answers
// are repeated as they were.
func TestRedeemReplayed(t *testing.T) {
	h := withAgents(t)
	for i, outcome := range []string{"succeeded", "failed", "unknown"} {
		a := h.propose("checking", "pay", i)
		h.vote(a, "approve")
		h.settle(a.ID)
		h.as("checking", http.MethodGet, "/v1/approvals/"+a.ID, "").want(t, 200, "").into(t, &a)
		body := func(amount int) string {
			return fmt.Sprintf(`{"token":%q,"tool_name":"pay","arguments":{"amount":%d}}`, a.Token, amount)
		}
		redeem := func(key, body string) reply {
			t.Helper()
			return h.as("checking", http.MethodPost, "/v1/tokens/redeem", body, "Idempotency-Key", key)
		}
		wrong, key := fmt.Sprint("wrong-", i), fmt.Sprint("run-", i)
		redeem(wrong, body(99)).want(t, 403, "arguments_mismatch")

		var first, again api.RedeemAnswer
		redeem(key, body(i)).want(t, 200, "").into(t, &first)
		if !first.Redeemed || first.Replayed || first.RedeemedAt != nil {
			t.Errorf("the first answer: %+v", first)
		}
		answer := redeem(key, body(i)).want(t, 200, "")
		answer.into(t, &again)
		if !again.Replayed || again.RedeemedAt == nil || !again.RedeemedAt.Before(again.LeaseUntil) || answer.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("the second answer: %s", answer.body)
		}
		if again.Replayed, again.RedeemedAt = false, nil; fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("beside that it is %+v, and was %+v", again, first)
		}
		redeem("another-"+key, body(i)).want(t, 409, "token_used")

		report := fmt.Sprintf(`{"approval_id":%q,"outcome":%q}`, a.ID, outcome)
		h.as("checking", http.MethodPost, "/v1/executions", report, "Idempotency-Key", "report-"+key).want(t, 200, "")
		redeem(key, body(i)).want(t, 409, "already_reported")
		// All else is answered as before.
		redeem(wrong, body(99)).want(t, 403, "arguments_mismatch")
		redeem("another-"+key, body(i)).want(t, 409, "token_used")
		if again := h.as("checking", http.MethodPost, "/v1/executions", report, "Idempotency-Key", "report-"+key).want(t, 200, ""); again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("the report: %v", again.Header)
		}
	}
	if n := h.count(`SELECT count(*) FROM events WHERE type = 'redeem' AND outcome = 'ALLOW'`); n != 3 {
		t.Errorf("%d redemptions are on record, want 3", n)
	}
	if n := h.count(`SELECT count(*) FROM events WHERE type = 'redeem' AND convert_from(body, 'UTF8') LIKE '%already_reported%'`); n != 3 {
		t.Errorf("%d refusals are on record, want 3", n)
	}
}
