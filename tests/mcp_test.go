package tests

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// modelTool is a tool as a client of the Model Context Protocol sees it.
type modelTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Schema      struct {
		Type     string   `json:"type"`
		Required []string `json:"required"`
	} `json:"inputSchema"`
	Answer struct {
		Type string `json:"type"`
	} `json:"outputSchema"`
	Annotations struct {
		ReadOnly    bool  `json:"readOnlyHint"`
		Destructive *bool `json:"destructiveHint"`
		OpenWorld   *bool `json:"openWorldHint"`
	} `json:"annotations"`
}

// modelAnswer is what a tool answers.
type modelAnswer struct {
	IsError    bool            `json:"isError"`
	Structured json.RawMessage `json:"structuredContent"`
	Content    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
}

// model is a connected client of the Model Context Protocol.
type model interface {
	list(t testing.TB) []modelTool
	call(t testing.TB, tool string, arguments, meta map[string]any) modelAnswer
}

// good fails the test when the tool answered with an error.
func (a modelAnswer) good(t testing.TB) modelAnswer {
	t.Helper()
	if a.IsError {
		t.Fatalf("the tool answers with an error: %s", a.Structured)
	}
	return a
}

// problem fails the test unless the answer is an error of the code, told in
// words and as a document.
func (a modelAnswer) problem(t testing.TB, code string) {
	t.Helper()
	var p struct{ Type, Code, Detail string }
	if err := json.Unmarshal(a.Structured, &p); err != nil || !a.IsError || p.Code != code || p.Detail == "" || p.Type != "urn:holdpoint:problem:"+code {
		t.Fatalf("got isError %t, %s, want the problem %s", a.IsError, a.Structured, code)
	}
	if line := a.line(t); !strings.Contains(line, "Do not run the tool") || !strings.Contains(line, "("+code+")") || !strings.Contains(line, p.Detail) {
		t.Errorf("the line is %q", line)
	}
}

// line is what the answer says to a model that looks at nothing else, followed
// by the same as JSON.
func (a modelAnswer) line(t testing.TB) string {
	t.Helper()
	if len(a.Content) != 2 || a.Content[0].Type != "text" || strings.Contains(a.Content[0].Text, "\n") {
		t.Fatalf("content: %+v", a.Content)
	}
	var text, structured any
	if json.Unmarshal([]byte(a.Content[1].Text), &text) != nil || json.Unmarshal(a.Structured, &structured) != nil {
		t.Fatalf("content: %+v", a.Content)
	}
	if got, want := canonical(t, text), canonical(t, structured); got != want {
		t.Errorf("the text says %s, structuredContent %s", got, want)
	}
	return a.Content[0].Text
}

func canonical(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (a modelAnswer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.Structured, v); err != nil {
		t.Fatalf("%v in %s", err, a.Structured)
	}
}

func (a modelAnswer) approval(t testing.TB) approval {
	t.Helper()
	var v approval
	a.good(t).into(t, &v)
	return v
}

// session is the Go SDK's own client.
type session struct{ *mcp.ClientSession }

func (s session) list(t testing.TB) []modelTool {
	t.Helper()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var tools []modelTool
	if err := json.Unmarshal([]byte(canonical(t, list.Tools)), &tools); err != nil {
		t.Fatal(err)
	}
	return tools
}

func (s session) call(t testing.TB, tool string, arguments, meta map[string]any) modelAnswer {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments, Meta: meta})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	var a modelAnswer
	if err := json.Unmarshal([]byte(canonical(t, result)), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// connect makes the Go SDK's client speak over a transport.
func connect(t testing.TB, transport mcp.Transport, version string) (session, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "tests", Version: "1"}, nil).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return session{}, err
	}
	t.Cleanup(func() { _ = s.Close() })
	return session{s}, nil
}

// keyed puts a key on every request.
type keyed string

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if k != "" {
		r.Header.Set("Authorization", "Bearer "+string(k))
	}
	return transport.RoundTrip(r)
}

// overHTTP connects to /mcp with a key.
func (in *installation) overHTTP(t testing.TB, key, version string) session {
	t.Helper()
	s, err := connect(t, in.endpoint(key), version)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (in *installation) endpoint(key string) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: in.URL + "/mcp", HTTPClient: &http.Client{Transport: keyed(key), Timeout: 70 * time.Second}, MaxRetries: -1}
}

// overStdio connects to a "holdpoint mcp" of its own.
func overStdio(t testing.TB, version string, env []string, args ...string) session {
	t.Helper()
	cmd := exec.Command(binary(t), append([]string{"mcp"}, args...)...)
	cmd.Env = environment(env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	s, err := connect(t, &mcp.CommandTransport{Command: cmd}, version)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return s
}

// TestModelsUseTheGate: the same story over both transports, in the oldest and
// the newest version of the protocol that the SDK's client speaks.
func TestModelsUseTheGate(t *testing.T) {
	d := onHosted(t)
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(d.AgentKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stranger := d.stranger(t)
	for name, m := range map[string]model{
		"stdio, by data directory":      overStdio(t, "", nil, "--data", d.dir),
		"stdio, by address and file":    overStdio(t, "2024-11-05", nil, "--url", d.URL+"/", "--key-file", keyFile),
		"stdio, by variables":           overStdio(t, "2025-11-25", []string{"HOLDPOINT_URL=" + d.URL, "HOLDPOINT_API_KEY=" + d.AgentKey}),
		"streamable HTTP":               d.overHTTP(t, d.AgentKey, ""),
		"streamable HTTP, older client": d.overHTTP(t, d.AgentKey, "2025-06-18"),
	} {
		t.Run(name, func(t *testing.T) { tellModelStory(t, d, stranger, m) })
	}
}

// briefFields is the structured content of aana_pre_tool_check.
var briefFields = []string{
	"aix_score", "audit_event", "authorization_state", "evidence_refs", "execution_allowed", "gate_decision", "hard_blockers", "missing_evidence",
	"recommended_action", "recovery_suggestion", "route",
}

// tellModelStory lets a model do with the tools all that they are for.
func tellModelStory(t *testing.T, d *dev, stranger *client, m model) {
	t.Helper()
	toolsAreDescribed(t, m.list(t))
	check := func(e map[string]any) modelAnswer { return m.call(t, "aana_pre_tool_check", e, nil).good(t) }
	for _, c := range []struct {
		route string
		runs  bool
		says  string
	}{{"accept", true, "Allowed: run the tool now"}, {"refuse", false, "do not run the tool"}} {
		a := check(event("search_docs", c.route, map[string]any{"query": "x"}))
		var got map[string]any
		a.into(t, &got)
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, briefFields) || got["route"] != c.route || got["recommended_action"] != c.route ||
			got["execution_allowed"] != c.runs || (got["gate_decision"] == "pass") != c.runs {
			t.Errorf("%s: %s", c.route, a.Structured)
		}
		if line := a.line(t); !strings.Contains(line, c.says) {
			t.Errorf("%s: the line is %q", c.route, line)
		}
	}
	// What is no event is refused, and that is a decision.
	a := check(map[string]any{"tool_name": "x"})
	if line := a.line(t); !strings.Contains(line, "do not run") || !strings.Contains(line, "tool_category") || !strings.Contains(string(a.Structured), `"execution_allowed":false`) {
		t.Errorf("%q, %s", line, a.Structured)
	}

	// People approve, and the token is good at the door over HTTP.
	arguments := map[string]any{"to": "ops@example.com", "note": "a  b <&> \u00e9", "round": newID("r-")} // what one of them is denied is not asked again
	opened := held(t, check(event("send_note", "defer", arguments)))
	if still := m.call(t, "holdpoint_await", map[string]any{"approval_id": opened.ID, "timeout_seconds": 0}, nil); still.approval(t).Status != "pending" ||
		!strings.Contains(still.line(t), "again") {
		t.Errorf("at once: %s", still.Structured)
	}
	began := time.Now()
	still := m.call(t, "holdpoint_await", map[string]any{"approval_id": opened.ID, "timeout_seconds": 1}, nil).approval(t)
	if took := time.Since(began); still.Status != "pending" || still.Token != "" || took < 900*time.Millisecond || took > healWithin {
		t.Errorf("after %s: %+v", took, still)
	}
	await := func(a approval) <-chan modelAnswer {
		answers := make(chan modelAnswer, 1)
		go func() {
			defer close(answers)
			answers <- m.call(t, "holdpoint_await", map[string]any{"approval_id": a.ID, "timeout_seconds": 50}, nil)
		}()
		return answers
	}
	answers := await(opened)
	d.reviewer(t, 0).approve(opened)
	last := <-answers
	approved := last.approval(t)
	if approved.Status != "approved" || approved.Token == "" || !strings.Contains(last.line(t), "/v1/tokens/redeem") {
		t.Fatalf("approved: %s", last.Structured)
	}
	d.agent(t).redeem(approved.Token, "send_note", arguments).want(t, 200)
	d.agent(t).redeem(approved.Token, "send_note", arguments).want(t, 409, "token_used")
	if spent := m.call(t, "holdpoint_await", map[string]any{"approval_id": opened.ID}, nil); spent.approval(t).Token != "" || !strings.Contains(spent.line(t), "Do not run the tool again") {
		t.Errorf("spent: %s", spent.Structured)
	}

	// A denial says why; half a quorum ends no wait.
	denied := held(t, check(event("pair_note", "defer", map[string]any{"round": newID("r-")})))
	answers = await(denied)
	d.reviewer(t, 0).approve(denied)
	no := ballot(denied, "deny")
	no["kind"], no["comment"] = "wrong_args", "not to them"
	d.reviewer(t, 1).do("POST", approvalPath(denied.ID)+"/votes", no).want(t, 200)
	last = <-answers
	if got := last.approval(t); got.Status != "denied" || got.Denial == nil || got.Denial.Kind != "wrong_args" || got.Token != "" ||
		!strings.Contains(last.line(t), "not to them") {
		t.Errorf("denied: %s", last.Structured)
	}

	// What is not wanted any more is taken back, once.
	unwanted := held(t, check(event("unwanted_note", "defer", nil)))
	if got := m.call(t, "holdpoint_cancel", map[string]any{"approval_id": unwanted.ID}, nil); got.approval(t).Status == "approved" {
		t.Errorf("cancelled: %s", got.Structured)
	}
	if got := m.call(t, "holdpoint_await", map[string]any{"approval_id": unwanted.ID}, nil); got.approval(t).Status != "cancelled" || !strings.Contains(got.line(t), "do not run") {
		t.Errorf("cancelled: %s", got.Structured)
	}
	m.call(t, "holdpoint_cancel", map[string]any{"approval_id": unwanted.ID}, nil).problem(t, "already_cancelled")
	agentSPMToo(t, d, m)
	withoutCode(t, d, m)
	modelMistakes(t, stranger.hold("hidden_note", nil), m)
}

// held is the approval of a call that waits.
func held(t testing.TB, a modelAnswer) approval {
	t.Helper()
	var v struct {
		Runs     bool `json:"execution_allowed"`
		Allowed  bool `json:"allowed"`
		Approval approval
	}
	a.into(t, &v)
	line := a.line(t)
	if v.Runs || v.Allowed || v.Approval.ID == "" || v.Approval.Status != "pending" || !strings.Contains(line, "holdpoint_await") ||
		!strings.Contains(line, v.Approval.ID) || !strings.Contains(line, "do not run the tool") {
		t.Fatalf("a call that waits: %q, %s", line, a.Structured)
	}
	return v.Approval
}

func toolsAreDescribed(t *testing.T, tools []modelTool) {
	t.Helper()
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
		reads, ends := tool.Name == "holdpoint_await", tool.Name == "holdpoint_cancel"
		if len(tool.Description) < 100 || tool.Schema.Type != "object" || tool.Answer.Type != "object" || len(tool.Schema.Required) == 0 || tool.Annotations.ReadOnly != reads ||
			tool.Annotations.OpenWorld == nil || *tool.Annotations.OpenWorld || !reads && (tool.Annotations.Destructive == nil || *tool.Annotations.Destructive != ends) {
			t.Errorf("%+v", tool)
		}
	}
	slices.Sort(names)
	if want := []string{"aana_pre_tool_check", "holdpoint_await", "holdpoint_cancel", "holdpoint_check", "holdpoint_redeem", "holdpoint_report"}; !slices.Equal(names, want) {
		t.Errorf("the tools are %q, want %q", names, want)
	}
}

// withoutCode is a host that has no code to spend a token with: it names the call once
// more, is permitted it once, and says what became of it.
func withoutCode(t *testing.T, d *dev, m model) {
	t.Helper()
	arguments := map[string]any{"to": "host@example.com", "round": newID("r-")}
	opened := held(t, m.call(t, "aana_pre_tool_check", event("send_note", "defer", arguments), nil).good(t))
	redeem := func(arguments map[string]any) modelAnswer {
		return m.call(t, "holdpoint_redeem", map[string]any{"approval_id": opened.ID, "tool_name": "send_note", "arguments": arguments}, nil)
	}
	report := func() modelAnswer {
		return m.call(t, "holdpoint_report", map[string]any{"approval_id": opened.ID, "outcome": "succeeded", "duration_ms": 3}, nil)
	}
	redeem(arguments).problem(t, "not_approved")
	report().problem(t, "not_redeemed")
	d.reviewer(t, 0).approve(opened)
	if got := m.call(t, "holdpoint_await", map[string]any{"approval_id": opened.ID, "timeout_seconds": 50}, nil).approval(t); got.Status != "approved" {
		t.Fatalf("approved: %+v", got)
	}
	redeem(map[string]any{"to": "other@example.com"}).problem(t, "arguments_mismatch")
	permitted := redeem(arguments).good(t)
	var got struct {
		Run        bool
		ApprovalID string `json:"approval_id"`
		LeaseUntil string `json:"lease_until"`
	}
	permitted.into(t, &got)
	if !got.Run || got.ApprovalID != opened.ID || got.LeaseUntil == "" || strings.Contains(string(permitted.Structured), "eyJ") || !strings.Contains(permitted.line(t), "Run the tool now, once") {
		t.Errorf("permitted: %s", permitted.Structured)
	}
	redeem(arguments).problem(t, "nothing_to_redeem")
	if done := report(); done.approval(t).Status != "approved" || !strings.Contains(string(done.Structured), `"execution":"succeeded"`) || !strings.Contains(done.line(t), "on record that the call succeeded") {
		t.Errorf("reported: %s", done.Structured)
	}
	report().problem(t, "already_reported")
}

// agentSPMToo proposes a call in the words of Agent-SPM, twice under one key.
func agentSPMToo(t *testing.T, d *dev, m model) {
	t.Helper()
	params := map[string]any{"toolName": "read_notes", "toolArgs": map[string]any{"q": 1}, "agentId": "demo-agent"}
	once := map[string]any{"holdpoint/idempotency_key": newID("once-")}
	first := m.call(t, "holdpoint_check", params, once)
	opened := held(t, first.good(t))
	var got struct {
		Decision struct{ Outcome string }
		Event    auditEvent
	}
	first.into(t, &got)
	if got.Decision.Outcome != "REQUIRE_APPROVAL" || got.Event.ApprovalID != opened.ID || got.Event.AgentID != "demo-agent" || got.Event.Actor.Kind != "agent" {
		t.Errorf("%s", first.Structured)
	}
	if again := m.call(t, "holdpoint_check", params, once); held(t, again.good(t)).ID != opened.ID {
		t.Errorf("the same call under the same key is another approval: %s", again.Structured)
	}
	params["toolName"] = "read_others"
	m.call(t, "holdpoint_check", params, once).problem(t, "idempotency_key_reused")
	m.call(t, "holdpoint_check", params, map[string]any{"holdpoint/idempotency_key": "a b"}).problem(t, "idempotency_key")
	m.call(t, "holdpoint_cancel", map[string]any{"approval_id": opened.ID}, nil).good(t)
	if events := d.admin(t).story(opened.ID); len(events) == 0 || !strings.HasPrefix(events[0], "decision REQUIRE_APPROVAL") {
		t.Errorf("the audit log tells %q", events)
	}
}

// stranger is an agent of its own, which the gate knows already.
func (in *installation) stranger(t testing.TB) *client {
	t.Helper()
	c := in.client(t).with(in.newKey(t, "--agent", newID("stranger-")))
	eventually(t, settleWithin, "a new agent is known", func() bool {
		return strings.Contains(string(c.propose(event("search_docs", "accept", nil)).Body), `"gate_decision":"pass"`)
	})
	return c
}

// modelMistakes makes every mistake that a model can make. hidden is the
// approval of another agent.
func modelMistakes(t *testing.T, hidden approval, m model) {
	t.Helper()
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		code      string
	}{
		{"holdpoint_await", map[string]any{"approval_id": "apr_" + strings.Repeat("a", 26)}, "not_found"},
		{"holdpoint_await", map[string]any{"approval_id": hidden.ID}, "not_found"},
		{"holdpoint_cancel", map[string]any{"approval_id": hidden.ID}, "not_found"},
		{"holdpoint_await", map[string]any{}, "invalid_body"},
		{"holdpoint_await", nil, "invalid_body"},
		{"holdpoint_await", map[string]any{"approval_id": 7}, "invalid_body"},
		{"holdpoint_await", map[string]any{"approval_id": ".."}, "invalid_body"},
		{"holdpoint_await", map[string]any{"approval_id": "x/../../healthz"}, "invalid_body"},
		{"holdpoint_cancel", map[string]any{"approval_id": "x?y=1#z"}, "invalid_body"},
		{"holdpoint_await", map[string]any{"approval_id": hidden.ID, "timeout_seconds": 51}, "invalid_body"},
		{"holdpoint_await", map[string]any{"approval_id": hidden.ID, "timeout_seconds": -1}, "invalid_body"},
		{"holdpoint_await", map[string]any{"approval_id": hidden.ID, "timeout_seconds": 1.5}, "invalid_body"},
		{"holdpoint_await", map[string]any{"approval_id": hidden.ID, "timeout_seconds": "1"}, "invalid_body"},
		{"holdpoint_cancel", map[string]any{"approval_id": hidden.ID, "force": true}, "invalid_body"},
		{"holdpoint_check", map[string]any{"toolName": "x"}, "invalid_body"},
		{"holdpoint_redeem", map[string]any{"approval_id": hidden.ID, "tool_name": "hidden_note", "arguments": map[string]any{}}, "not_found"},
		{"holdpoint_redeem", map[string]any{"approval_id": hidden.ID, "tool_name": "hidden_note"}, "invalid_body"},
		{"holdpoint_redeem", map[string]any{"approval_id": "../x", "tool_name": "x", "arguments": map[string]any{}}, "invalid_body"},
		{"holdpoint_redeem", map[string]any{"approval_id": hidden.ID, "tool_name": "x", "arguments": map[string]any{}, "token": "t"}, "invalid_body"},
		{"holdpoint_report", map[string]any{"approval_id": hidden.ID, "outcome": "succeeded"}, "not_found"},
		{"holdpoint_report", map[string]any{"approval_id": hidden.ID, "outcome": "fine"}, "invalid_body"},
	} {
		m.call(t, c.tool, c.arguments, nil).problem(t, c.code)
	}
}
