package spm_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/spm"
)

func parse(t testing.TB, text string) canon.Value {
	t.Helper()
	v, err := canon.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}

const fullRequest = `{"request_id":"7f0c2a1e-0000-4000-8000-000000000000","timestamp":"2026-06-01T00:00:00Z",
"agent":{"agent_id":"a","name":"A","owner":"o","environment":"prod","agent_type":"ide_agent","trust_level":"basic","roles":["r"],"capabilities":["c"],"max_delegation_depth":2,
"attestation":{"issuer":"i","issued_at":"2026-01-01","expires_at":"2027-01-01","signature":"s"}},
"action":{"type":"tool_call","tool_name":"t","tool_args":{"x":1},"tool_identity":{"tool_name":"t","version":"1","provider":"mcp","manifest_hash":"h","permissions_required":["p"],"data_access":["d"],"verified":true}},
"context":{"user_input":"u","data_labels":["PII"],"risk_hints":["h"],"trace_id":"tr","session_id":"s","parent_agent_id":"p","delegation_chain":["p","a"],"extra":{"y":1}}}`

func TestParseActionRequest(t *testing.T) {
	a, errs := spm.ParseActionRequest(parse(t, fullRequest))
	if len(errs) > 0 {
		t.Fatalf("%v", errs)
	}
	switch {
	case a.Agent.AgentID != "a" || *a.Agent.TrustLevel != "basic" || *a.Agent.MaxDelegationDepth != 2 || a.Agent.Attestation.Issuer != "i" || *a.Agent.Attestation.Signature != "s":
		t.Errorf("agent: %+v", a.Agent)
	case a.Action.ToolIdentity == nil || *a.Action.ToolIdentity.Provider != "mcp" || !*a.Action.ToolIdentity.Verified || a.Action.ToolIdentity.DataAccess[0] != "d":
		t.Errorf("action: %+v", a.Action)
	case *a.Context.SessionID != "s" || *a.Context.ParentAgentID != "p" || len(a.Context.DelegationChain) != 2 || len(a.Context.Extra) != 1 || a.Context.Extra[0].Name != "extra":
		t.Errorf("context: %+v", a.Context)
	}
	// The strict reader and the lenient one agree on what is right.
	if got, want := a.Policy(), spm.RequestOf(parse(t, fullRequest)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseParams(t *testing.T) {
	a, errs := spm.ParseParams(parse(t, `{"toolName":"t","toolArgs":{},"agentId":"a"}`))
	if len(errs) > 0 || a.Agent.Name != "a" || a.Agent.Owner != "unknown" || a.Agent.Environment != "dev" || a.Action.Type != "tool_call" {
		t.Errorf("got %+v %v, want the defaults", a, errs)
	}
	if a.Agent.TrustLevel != nil || a.Context.UserInput != nil || a.Action.ToolIdentity != nil {
		t.Errorf("got %+v, want nothing that was not said", a)
	}
	a, errs = spm.ParseParams(parse(t, `{"toolName":"t","toolArgs":{"x":1},"agentId":"a","agentName":"A","environment":"prod","owner":"o","actionType":"x","userInput":"u","dataLabels":["l"],"riskHints":["h"],
"sessionId":"s","parentAgentId":"p","agentType":"ty","trustLevel":"system","roles":["r"],"capabilities":["c"],"maxDelegationDepth":0,"attestation":{"issuer":"i","issued_at":"2026-01-01"},
"toolIdentity":{"tool_name":"t","provider":"mcp"},"delegationChain":["a"]}`))
	if len(errs) > 0 || a.Agent.Name != "A" || a.Action.Type != "x" || *a.Agent.MaxDelegationDepth != 0 || *a.Policy().Provider != "mcp" || a.Policy().UserInput != "u" || a.Policy().Roles[0] != "r" {
		t.Errorf("got %+v %v", a, errs)
	}
}

// Every mistake is named by its path, and no value is quoted.
func TestRequestErrors(t *testing.T) {
	edit := func(old, replacement string) string {
		if !strings.Contains(fullRequest, old) {
			t.Fatalf("the request does not hold %s", old)
		}
		return strings.Replace(fullRequest, old, replacement, 1)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"no object", `[]`, ""},
		{"unknown field", edit(`"timestamp"`, `"canary":1,"timestamp"`), "/canary"},
		{"unknown in agent", edit(`"owner"`, `"admin":true,"owner"`), "/agent/admin"},
		{"unknown in action", edit(`"type"`, `"a/b":1,"type"`), "/action/a~1b"},
		{"unknown in identity", edit(`"version"`, `"trusted":1,"version"`), "/action/tool_identity/trusted"},
		{"unknown in attestation", edit(`"issuer"`, `"by":1,"issuer"`), "/agent/attestation/by"},
		{"missing", edit(`"owner":"o",`, ``), "/agent/owner"},
		{"empty", edit(`"tool_name":"t","tool_args"`, `"tool_name":"","tool_args"`), "/action/tool_name"},
		{"null", edit(`"agent_type":"ide_agent"`, `"agent_type":null`), "/agent/agent_type"},
		{"trust", edit(`"basic"`, `"canary"`), "/agent/trust_level"},
		{"trust a number", edit(`"basic"`, `1`), "/agent/trust_level"},
		{"roles", edit(`["r"]`, `"r"`), "/agent/roles"},
		{"role", edit(`["r"]`, `["r",1]`), "/agent/roles/1"},
		{"depth", edit(`"max_delegation_depth":2`, `"max_delegation_depth":-1`), "/agent/max_delegation_depth"},
		{"half a depth", edit(`"max_delegation_depth":2`, `"max_delegation_depth":1.5`), "/agent/max_delegation_depth"},
		{"args", edit(`{"x":1}`, `[1]`), "/action/tool_args"},
		{"verified", edit(`"verified":true`, `"verified":"true"`), "/action/tool_identity/verified"},
		{"time", edit(`"2026-06-01T00:00:00Z"`, `"canary"`), "/timestamp"},
		{"context", edit(`"user_input":"u"`, `"user_input":["u"]`), "/context/user_input"},
		{"chain", edit(`["p","a"]`, `["p",{}]`), "/context/delegation_chain/1"},
	} {
		a, errs := spm.ParseActionRequest(parse(t, tt.text))
		if len(errs) != 1 || errs[0].Path != tt.want || strings.Contains(errs[0].Message, "canary") {
			t.Errorf("%s: got %+v, want %q", tt.name, errs, tt.want)
		}
		if !reflect.DeepEqual(a, spm.Request{}) {
			t.Errorf("%s: got a request with its errors", tt.name)
		}
	}
	_, errs := spm.ParseParams(parse(t, `{"tool_name":"t","toolArgs":null,"agentId":"","agentName":""}`))
	var paths []string
	for _, e := range errs {
		paths = append(paths, e.Path)
	}
	if got, want := strings.Join(paths, " "), "/tool_name /toolArgs /agentId /agentName /toolName"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var keys strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&keys, `,"k%d":1`, i)
	}
	_, errs = spm.ParseParams(parse(t, `{"x":1`+keys.String()+`}`))
	if len(errs) != 101 {
		t.Errorf("got %d errors, want a hundred and one that says that there are more", len(errs))
	}
}

// Parse tells the two forms apart by the action.
func TestParse(t *testing.T) {
	for text, tool := range map[string]string{fullRequest: "t", `{"toolName":"p","toolArgs":{},"agentId":"a"}`: "p"} {
		if r, errs := spm.Parse(parse(t, text)); len(errs) > 0 || r.Action.ToolName != tool {
			t.Errorf("got %+v %v, want a call of %s", r, errs, tool)
		}
	}
}

// The lenient reader takes anything.
func TestRequestOf(t *testing.T) {
	for _, text := range []string{`null`, `5`, `{}`, `{"agent":[],"action":"x","context":null}`, `{"agent":{"roles":"x","trust_level":5}}`} {
		r := spm.RequestOf(parse(t, text))
		if r.Tool != "" || r.Roles != nil || r.TrustLevel != nil {
			t.Errorf("%s: got %+v", text, r)
		}
	}
	r := spm.RequestOf(parse(t, `{"agent":{"agent_type":"","roles":["a",5,"b"]}}`))
	if r.AgentType == nil || len(r.Roles) != 2 {
		t.Errorf("got %+v, want an empty type and two roles", r)
	}
}
