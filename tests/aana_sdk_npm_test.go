//go:build npm

package tests

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// aanaProgram is a program whose tools are behind one of AANA's own SDKs, unmodified.
type aanaProgram struct {
	t    *testing.T
	in   io.Writer
	out  *bufio.Scanner
	errs *strings.Builder
}

type aanaSays struct {
	Waits, Error string
	Said         json.RawMessage
	Runs         []map[string]any
}

func (a *clientAgent) aana(t *testing.T, command []string, env ...string) *aanaProgram {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = environment(append(env, "HOLDPOINT_URL="+a.proxy.url, "HOLDPOINT_API_KEY="+a.client.key, "RUNS="+a.runsFile)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	in, out := startTalking(t, cmd)
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // one is killed
	})
	return &aanaProgram{t, in, out, &errs}
}

func (p *aanaProgram) tell(order map[string]any) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, canonical(p.t, order)+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *aanaProgram) next() (s aanaSays) {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("it says nothing\n%s", p.errs)
	}
	if err := json.Unmarshal(p.out.Bytes(), &s); err != nil {
		p.t.Fatalf("%v in %s", err, p.out.Text())
	}
	return s
}

func (p *aanaProgram) do(order map[string]any) aanaSays {
	p.t.Helper()
	p.tell(order)
	return p.next()
}

// TestAANAsOwnSDKs drives AANA's SDKs themselves, unmodified, with Holdpoint's address and
// key: what they gate runs once at most, however the call ends. They are in no registry, so
// HOLDPOINT_TEST_AANA names a checkout of AANA.
func TestAANAsOwnSDKs(t *testing.T) {
	checkout := os.Getenv("HOLDPOINT_TEST_AANA")
	if checkout == "" {
		t.Skip("HOLDPOINT_TEST_AANA names no checkout of AANA")
	}
	d := onCalled(t)
	t.Run("python", func(t *testing.T) {
		needs(t, "python3")
		testAANA(t, newClientAgent(t, d, clientLanguage{}), map[string]string{"validate": "validate_tool_precheck", "check": "tool_precheck"},
			[]string{"python3", "-B", "testdata/aana/agent.py"}, "PYTHONPATH="+checkout+":../clients/python")
	})
	t.Run("typescript", func(t *testing.T) {
		dir := t.TempDir()
		runClientTests(t, npmDir, "node_modules/.bin/tsc", "--skipLibCheck", "--module", "es2022", "--moduleResolution", "bundler", "--target", "es2022", "--outDir", dir, filepath.Join(checkout, "sdk", "typescript", "src", "index.ts"))
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		testAANA(t, newClientAgent(t, d, clientLanguage{}), map[string]string{"validate": "validateToolPrecheck", "check": "toolPrecheck"},
			[]string{"node", "testdata/aana/agent.mjs"}, "AANA="+filepath.Join(dir, "index.js"))
	})
}

func testAANA(t *testing.T, a *clientAgent, method map[string]string, command []string, env ...string) {
	id := a.apart()
	p := a.aana(t, command, env...)
	reads := map[string]any{"tool_category": "public_read", "authorization_state": "none", "risk_domain": "research"}
	pays := map[string]any{"tool_category": "write", "authorization_state": "authenticated", "risk_domain": "finance", "recommended_route": "defer"}
	order := func(tool string, metadata map[string]any, more ...any) map[string]any {
		o := map[string]any{"tool": tool, "arguments": map[string]any{"n": 1}, "metadata": metadata}
		for i := 0; i < len(more); i += 2 {
			o[more[i].(string)] = more[i+1]
		}
		return o
	}
	// begins has a call wait, and returns its approval.
	begins := func(tool string, more ...any) approval {
		t.Helper()
		s := p.do(order(tool, pays, more...))
		if s.Waits == "" {
			t.Fatalf("%s does not wait: %+v", tool, s)
		}
		return a.client.get(s.Waits)
	}
	ends := func(want string) {
		t.Helper()
		if s := p.next(); s.Error != want {
			t.Errorf("it ends as %q, want %q", s.Error, want)
		}
	}
	ada := a.d.reviewer(t, 0)

	if s := p.do(map[string]any{"tool": "x", "ask": "ready"}); s.Error != "" {
		t.Errorf("ready: %+v", s)
	}
	event := map[string]any{
		"tool_name": "search_docs", "tool_category": "public_read", "authorization_state": "none", "evidence_refs": []any{}, "risk_domain": "research",
		"proposed_arguments": map[string]any{}, "recommended_route": "accept",
	}
	if s := p.do(map[string]any{"tool": "x", "ask": method["validate"], "with": []any{event}}); s.Error != "" || !strings.Contains(string(s.Said), `"valid":true`) && !strings.Contains(string(s.Said), `"valid": true`) {
		t.Errorf("validated: %+v, %s", s, s.Said)
	}
	if s := p.do(order("search_docs", reads)); s.Error != "" || len(s.Runs) != 1 {
		t.Errorf("accepted: %+v", s)
	}
	if s := p.do(order("search_docs", map[string]any{"tool_category": "public_read", "authorization_state": "none", "risk_domain": "research", "recommended_route": "refuse"})); s.Error != "blocked" {
		t.Errorf("refused: %+v", s)
	}
	a.ran(1)
	// A dry run opens nothing, whatever it would have come to.
	dry := newID("aana_")
	event["tool_name"], event["tool_category"], event["risk_domain"], event["recommended_route"], event["authorization_state"] = dry, "write", "finance", "defer", "authenticated"
	if s := p.do(map[string]any{"tool": dry, "ask": method["check"], "with": []any{event}, "shadow": true}); s.Error != "" || strings.Contains(string(s.Said), "apr_") {
		t.Errorf("a dry run: %+v, %s", s, s.Said)
	}

	opened := begins(newID("aana_"))
	ada.approve(opened)
	ends("")
	a.executed(opened.ID, "succeeded")
	opened = begins(newID("aana_"))
	edited := a.d.reviewer(t, 1).edit(opened, map[string]any{"n": 2}).want(t, http.StatusOK).approval(t)
	ada.approve(edited)
	ends("")
	a.executed(opened.ID, "succeeded")
	a.ran(3)
	if runs := a.runs(); runs[2].Arguments["n"] != 2.0 {
		t.Errorf("it ran %v, and 2 was approved", runs[2])
	}

	opened = begins(newID("aana_"))
	ada.vote(opened, "deny").want(t, http.StatusOK)
	ends("denied")
	begins(newID("brief_"))
	ends("expired")

	turn := func(on bool) {
		a.d.admin(t).do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": id, "on": on, "reason": "a test"}).want(t, http.StatusOK)
	}
	var once sync.Once
	a.proxy.on(func(r *http.Request, _ func()) bool {
		if r.URL.Path == redeemPath {
			once.Do(func() { turn(true) })
		}
		return false
	})
	opened = begins(newID("aana_"))
	ada.approve(opened)
	ends("kill_switch")
	if s := p.do(order("search_docs", reads)); s.Error != "blocked" {
		t.Errorf("while a kill switch is on: %+v", s)
	}
	turn(false)
	a.proxy.on(nil)

	// Without a server, and with answers that are none.
	if s := p.do(order("search_docs", reads, "url", noServer())); s.Error != "blocked" {
		t.Errorf("without a server: %+v", s)
	}
	a.proxy.on(func(*http.Request, func()) bool { return true })
	if s := p.do(order("search_docs", reads)); s.Error != "blocked" {
		t.Errorf("without an answer: %+v", s)
	}
	a.proxy.on(nil)
	a.ran(3)

	// Killed while the tool runs: it has run once, and the same call asks anew.
	tool := newID("aana_")
	opened = begins(tool, "dies", true)
	ada.approve(opened)
	if p.out.Scan() {
		t.Errorf("it was to be killed: %s", p.out.Text())
	}
	a.executed(opened.ID, "redeemed")
	p = a.aana(t, command, env...)
	if again := begins(tool); again.ID == opened.ID {
		t.Error("the same approval again")
	}
	a.ran(4)
}
