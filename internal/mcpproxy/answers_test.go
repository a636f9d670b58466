package mcpproxy

import (
	"strings"
	"testing"

	holdpoint "holdpoint.example/client"
)

// TestRegisterQuotesNames: the server names its tools, and people paste the command.
func TestRegisterQuotesNames(t *testing.T) {
	if got := Register(ToolName("files", "read"), "3f", ""); got != "holdpoint tool set files__read --provider mcp --verified --manifest-hash 3f" {
		t.Errorf("got %s", got)
	}
	for _, name := range []string{"x; id", "$(id)", "`id`", "a b", "'; id; '", "x\nid"} {
		if got := Register(ToolName("files", name), "3f", ""); !strings.HasPrefix(got, "holdpoint tool set 'files__") {
			t.Errorf("%q: got %s", name, got)
		}
	}
}

// TestUnverifiedSaysWhatToDo: the command works where it is pasted, and each sentence ends once.
func TestUnverifiedSaysWhatToDo(t *testing.T) {
	w := newHarness(t)
	w.fake.set(func() {
		w.fake.outcome, w.fake.reason = "DENY", holdpoint.Reason{Code: "UNVERIFIED_MCP_TOOL", Message: "Nobody has verified the tool."}
	})
	for data, want := range map[string]string{"": "--manifest-hash ", "/srv/my data/dev": " --data '/srv/my data/dev'"} {
		w.start(func(c *Config) { c.Data = data })
		text := w.refused("pay", args{"n": 1}, want)
		if !strings.Contains(text, "Not allowed: Nobody has verified the tool (UNVERIFIED_MCP_TOOL). The tool was not run") || data == "" && strings.Contains(text, "--data") {
			t.Errorf("it says %s", text)
		}
	}
}

// TestTellsWhatIsAsked: a question that comes while a call is held is told at once, and in the answer.
func TestTellsWhatIsAsked(t *testing.T) {
	w := newHarness(t)
	w.fake.set(func() { w.fake.outcome = "REQUIRE_APPROVAL" })
	w.start(nil)
	answers := w.follow("pay", args{"n": 1})
	if says := <-w.told; says != "Waiting for people to decide: http://review/apr_0" {
		t.Fatalf("progress says %q", says)
	}
	w.fake.set(func() { w.fake.approvals[0].Question = &holdpoint.Question{Text: "Which invoice?"} })
	const asks = `Waiting for people to decide: http://review/apr_0 A reviewer asks: "Which invoice?" The agent's owner answers on that page.`
	for says := ""; says != asks; {
		says = <-w.told
	}
	w.fake.set(func() { w.fake.approvals[0].Status = "approved" })
	if r := <-answers; r == nil || r.IsError {
		t.Errorf("%+v", r)
	}
	a := holdpoint.Approval{ID: "apr_0", Question: &holdpoint.Question{Text: "Which invoice?"}}
	if got := pending(&a).text; !strings.HasSuffix(got, ` A reviewer asks: "Which invoice?" The agent's owner answers on that page.`) {
		t.Errorf("got %s", got)
	}
}
