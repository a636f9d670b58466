package api_test

import (
	"net/http"
	"strings"
	"testing"

	"holdpoint/api"
)

// An administrator's key sets where an agent is told; the secret is in that answer, and
// in the answer to its repetition.
func TestAgentWebhookIsSet(t *testing.T) {
	h := withAgents(t)
	const path = "/v1/admin/agents/webhook"
	set := func(body string, headers ...string) (a api.AgentWebhookAnswer) {
		t.Helper()
		h.as("ruling", http.MethodPost, path, body, headers...).want(t, 200, "").into(t, &a)
		return a
	}
	body := `{"agent_id":"bot","url":"https://agent.example.com/hooks","format":"cloudevents"}`
	first := set(body, "Idempotency-Key", "k")
	if !strings.HasPrefix(first.Secret, "whsec_") || first.AgentID != "bot" {
		t.Fatalf("got %+v", first)
	}
	if again := set(body, "Idempotency-Key", "k"); again != first {
		t.Errorf("repeated: %+v, first %+v", again, first)
	}
	if other := set(body); other.Secret == first.Secret || other.EndpointID != first.EndpointID {
		t.Errorf("set again: %+v", other)
	}
	if off := set(`{"agent_id":"bot","url":""}`); off.Secret != "" {
		t.Errorf("ended: %+v", off)
	}
	h.as("checking", http.MethodPost, path, body).want(t, 403, "scope_missing")
	h.as("ruling", http.MethodPost, path, `{"agent_id":"nobody","url":"https://agent.example.com"}`).want(t, 404, "not_found")
	h.as("ruling", http.MethodPost, path, `{"agent_id":"bot","url":"https://127.0.0.1/hooks"}`).want(t, 422, "invalid_body")
	h.as("ruling", http.MethodPost, path, `{"agent_id":"bot"}`).want(t, 422, "invalid_body")
	if n := h.count(`SELECT count(*) FROM events WHERE convert_from(body, 'utf8') LIKE '%agent.example.com%' OR convert_from(body, 'utf8') LIKE '%whsec_%'`); n != 0 {
		t.Errorf("%d events have the address or the secret", n)
	}
}
