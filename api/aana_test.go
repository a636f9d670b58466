package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"holdpoint/api"
	"holdpoint/engine"
)

// quickstart is a reading call as AANA's Python client writes it.
const quickstart = `{"schema_version": "aana.agent_tool_precheck.v1", "tool_name": "search_docs", "tool_category": "public_read", "authorization_state": "none", ` +
	`"evidence_refs": [{"source_id": "x:1", "kind": "other", "trust_tier": "runtime", "redaction_status": "redacted", "summary": "From the runtime.", "provenance": "runtime_quickstart", ` +
	`"freshness": {"status": "fresh", "source": "runtime_quickstart"}}], "risk_domain": "research", "proposed_arguments": {"query": "x"}, "recommended_route": "accept", "agent_id": "x"}`

// AANA's own clients are told another address and another key, and nothing else.
func TestAANAsClients(t *testing.T) {
	h := withAgents(t)
	for name, headers := range map[string][]string{
		"a bearer":        {"Authorization", "Bearer checking"},
		"AANA's header":   {"X-AANA-Token", "checking"},
		"both, the same":  {"Authorization", "Bearer checking", "X-AANA-Token", "checking"},
		"in any old case": {"x-aana-token", " checking "},
	} {
		t.Run(name, func(t *testing.T) {
			headers = append(headers, "Content-Type", "application/json")
			var answer api.Checked
			h.send(http.MethodPost, "/tool-precheck", quickstart, headers...).want(t, 200, "").into(t, &answer)
			if answer.GateDecision != "pass" || answer.RecommendedAction != engine.Accept || answer.ArchitectureDecision.Route != engine.Accept || answer.ShadowMode {
				t.Errorf("%+v", answer)
			}
			h.send(http.MethodPost, "/tool-precheck", payment("pay_"+name, 1), headers...).want(t, 202, "").into(t, &answer)
			if answer.GateDecision != "fail" || answer.Approval == nil {
				t.Errorf("%+v", answer)
			}
		})
	}
	for name, headers := range map[string][]string{
		"none":       {},
		"a bad one":  {"X-AANA-Token", "nobody"},
		"empty":      {"X-AANA-Token", ""},
		"two of two": {"Authorization", "Bearer checking", "X-AANA-Token", "other"},
		"no bearer":  {"Authorization", "Basic checking", "X-AANA-Token", "checking"},
	} {
		t.Run(name, func(t *testing.T) {
			h.send(http.MethodPost, "/tool-precheck", quickstart, append(headers, "Content-Type", "application/json")...).want(t, 401, "unauthenticated")
		})
	}
	for _, path := range []string{"/ready", "/health"} {
		var health api.Health
		h.get(path).want(t, 200, "").into(t, &health)
		if health.Status != "ok" {
			t.Errorf("%s: %+v", path, health)
		}
	}
}

func TestValidateToolPrecheck(t *testing.T) {
	h := withAgents(t)
	before := h.count(`SELECT count(*) FROM events`)
	var said api.ValidatedEvent
	h.as("checking", http.MethodPost, "/validate-tool-precheck", quickstart).want(t, 200, "").into(t, &said)
	if !said.Valid || said.Errors == nil || len(said.Errors) > 0 || said.SchemaVersion != "aana.agent_tool_precheck.v1" {
		t.Errorf("%+v", said)
	}
	for _, body := range []string{`{}`, `[]`, `null`, `{"tool_name":""}`} {
		h.as("checking", http.MethodPost, "/validate-tool-precheck", body).want(t, 200, "").into(t, &said)
		if said.Valid || len(said.Errors) == 0 {
			t.Errorf("%s: %+v", body, said)
		}
	}
	if n := h.count(`SELECT count(*) FROM events`); n != before {
		t.Errorf("%d events were written", n-before)
	}
	h.as("checking", http.MethodPost, "/validate-tool-precheck", `{`).want(t, 400, "malformed_json")
	h.as("auditing", http.MethodPost, "/validate-tool-precheck", quickstart).want(t, 403, "scope_missing")
}

// A dry run is judged like any other call and recorded as what it is. It opens nothing,
// permits nothing, and joins nothing; the real call after it is asked for as ever.
func TestShadowMode(t *testing.T) {
	h := withAgents(t)
	type recorded struct {
		Payload struct {
			DryRun bool `json:"dry_run"`
		} `json:"safe_payload"`
		Reasons []engine.Reason
	}
	last := func() (e recorded, approvals int64) {
		t.Helper()
		var body []byte
		if err := h.owner.QueryRow(t.Context(), `SELECT body FROM events WHERE type = 'decision' ORDER BY seq DESC LIMIT 1`).Scan(&body); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(body, &e); err != nil {
			t.Fatal(err)
		}
		return e, h.count(`SELECT count(*) FROM approvals`)
	}
	dry := func(path, body string, headers ...string) api.Checked {
		t.Helper()
		var answer api.Checked
		h.as("checking", http.MethodPost, path+"?shadow_mode=true", body, headers...).want(t, 200, "").into(t, &answer)
		if !answer.ShadowMode || answer.ExecutionMode != "shadow" || answer.ExecutionPolicy.Mode != "shadow" || answer.ShadowObservation == nil ||
			answer.ShadowObservation.WouldRoute != answer.RecommendedAction || answer.Approval != nil {
			t.Errorf("%s: %+v", path, answer)
		}
		e, approvals := last()
		if !e.Payload.DryRun || e.Reasons[len(e.Reasons)-1].Code != "DRY_RUN" || approvals != 0 {
			t.Errorf("%s: %+v, %d approvals", path, e, approvals)
		}
		return answer
	}
	for _, path := range []string{"/tool-precheck", "/pre-tool-check", "/v1/pre-tool-check"} {
		if a := dry(path, payment("pay_shadow", 1)); a.GateDecision != "fail" || !a.RecommendedAction.Waits() || a.ExecutionPolicy.ExecutionAllowed {
			t.Errorf("%+v", a)
		}
		if a := dry(path, quickstart, "Prefer", "token"); a.GateDecision != "pass" {
			t.Errorf("%+v", a)
		}
	}
	// One key belongs to one of the two.
	dry("/tool-precheck", payment("pay_shadow", 2), "Idempotency-Key", "k1")
	h.as("checking", http.MethodPost, "/tool-precheck", payment("pay_shadow", 2), "Idempotency-Key", "k1").want(t, 422, "idempotency_key_reused")
	var opened api.Checked
	h.as("checking", http.MethodPost, "/tool-precheck?shadow_mode=false", payment("pay_shadow", 1)).want(t, 202, "").into(t, &opened)
	if e, approvals := last(); opened.ShadowMode || opened.Joined || e.Payload.DryRun || approvals != 1 {
		t.Errorf("%+v, %+v, %d approvals", opened, e, approvals)
	}
	h.as("checking", http.MethodPost, "/tool-precheck?shadow_mode=maybe", quickstart).want(t, 400, "bad_query")
	h.as("checking", http.MethodPost, "/tool-precheck?shadow_mode=true&shadow_mode=false", quickstart).want(t, 400, "bad_query")
}
