//go:build npm

package tests

import (
	"bufio"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// protected is a program whose tools are behind Agent-SPM's protect() with our plugin.
type protected struct {
	in     io.Writer
	out    *bufio.Scanner
	killed bool
}

type protectedCall struct {
	Ran      bool
	Runs     int
	Decision struct {
		Outcome string
		Reasons []struct{ Code, Message string }
	}
	Problems []string
}

func startProtected(t *testing.T, spm, url, agent, key string) *protected {
	t.Helper()
	cmd := exec.Command("node", "agentspm.mjs", url)
	cmd.Dir, cmd.Env = npmDir, environment("HOLDPOINT_TEST_KEY="+key, "HOLDPOINT_TEST_AGENT="+agent, "AGENT_SPM="+spm)
	var errs strings.Builder
	cmd.Stderr = &errs
	in, out := startTalking(t, cmd)
	p := &protected{in: in, out: out}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); (err != nil) != p.killed || errs.Len() > 0 {
			t.Errorf("the program ended: %v\n%s", err, errs.String())
		}
	})
	return p
}

func (p *protected) call(t *testing.T, order map[string]any) (got protectedCall) {
	t.Helper()
	if _, err := io.WriteString(p.in, canonical(t, order)+"\n"); err != nil {
		t.Fatal(err)
	}
	if !p.out.Scan() {
		t.Fatal("the program says nothing")
	}
	if err := json.Unmarshal(p.out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Problems) > 0 {
		t.Errorf("%v: %v", order, got.Problems)
	}
	return got
}

// Agent-SPM's protect() with our plugin runs what is accepted or approved, once each,
// reports it, and runs nothing in doubt.
func TestAgentSPMPlugin(t *testing.T) { testAgentSPM(t, "") }

// TestAgentSPMItself is the same with Agent-SPM's own protect(). Its packages are in no
// registry, so HOLDPOINT_TEST_AGENT_SPM names a checkout of it.
func TestAgentSPMItself(t *testing.T) {
	checkout := os.Getenv("HOLDPOINT_TEST_AGENT_SPM")
	if checkout == "" {
		t.Skip("HOLDPOINT_TEST_AGENT_SPM names no checkout of Agent-SPM")
	}
	// Its sources as its own build compiles them, and what it takes of a package for ids.
	dir := t.TempDir()
	uuid := filepath.Join(dir, "node_modules", "uuid")
	if err := os.MkdirAll(uuid, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"index.js": `exports.v4 = () => require("node:crypto").randomUUID()`, "index.d.ts": `export function v4(): string`, "package.json": `{"name":"uuid","main":"index.js","types":"index.d.ts"}`,
	} {
		if err := os.WriteFile(filepath.Join(uuid, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "src"), os.DirFS(filepath.Join(checkout, "core", "src"))); err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Abs(filepath.Join(npmDir, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	runClientTests(t, dir, filepath.Join(packages, ".bin", "tsc"), "--strict", "--skipLibCheck", "--esModuleInterop", "--resolveJsonModule", "--module", "commonjs", "--target", "es2020",
		"--typeRoots", filepath.Join(packages, "@types"), "--types", "node", "--outDir", filepath.Join(dir, "dist"), filepath.Join("src", "index.ts"))
	testAgentSPM(t, filepath.Join(dir, "dist", "index.js"))
}

func testAgentSPM(t *testing.T, spm string) {
	d := onCalled(t)
	apart := newClientAgent(t, d, clientLanguage{})
	name := apart.apart()
	p := startProtected(t, spm, d.URL, name, apart.client.key)
	blocked := func(order map[string]any, outcome, code string) {
		t.Helper()
		if got := p.call(t, order); got.Ran || got.Decision.Outcome != outcome || got.Decision.Reasons[0].Code != code {
			t.Errorf("%v: %+v, want %s %s", order, got, outcome, code)
		}
	}
	waiting := func(tool string) string {
		t.Helper()
		var own struct{ Approvals []struct{ ID string } }
		apart.client.do("GET", "/v1/approvals?tool_name="+url.QueryEscape(tool), nil).want(t, 200).into(t, &own)
		if len(own.Approvals) != 1 {
			t.Fatalf("%s has %d approvals", tool, len(own.Approvals))
		}
		return own.Approvals[0].ID
	}
	if got := p.call(t, map[string]any{"tool": "kubectl_get_pods", "args": map[string]any{}}); !got.Ran || got.Runs != 1 {
		t.Errorf("accepted at once: %+v", got)
	}
	if got := p.call(t, map[string]any{"tool": "run_query", "args": map[string]any{"sql": "drop table payments"}}); got.Ran || got.Decision.Outcome != "DENY" {
		t.Errorf("refused at once: %+v", got)
	}
	pay := map[string]any{"tool": "spm_payment", "args": map[string]any{"amount": 12.5, "to": []any{"a", nil}}}
	blocked(pay, "REQUIRE_APPROVAL", "HOLDPOINT_WAITING")
	blocked(pay, "REQUIRE_APPROVAL", "HOLDPOINT_WAITING")
	id := waiting("spm_payment")
	reviewer := d.reviewer(t, 0)
	reviewer.vote(reviewer.get(id), "approve").want(t, 200)
	apart.client.wait(id)
	pay["args"] = map[string]any{"to": []any{"a", nil}, "amount": 12.5}
	if got := p.call(t, pay); !got.Ran || got.Runs != 2 {
		t.Fatalf("the approved call: %+v", got)
	}
	if got := apart.client.get(id); got.Execution != "succeeded" {
		t.Errorf("its execution is %q", got.Execution)
	}

	failing := map[string]any{"tool": "spm_failing", "args": map[string]any{}, "fails": true}
	blocked(failing, "REQUIRE_APPROVAL", "HOLDPOINT_WAITING")
	id = waiting("spm_failing")
	reviewer.vote(reviewer.get(id), "approve").want(t, 200)
	apart.client.wait(id)
	if got := p.call(t, failing); !got.Ran || apart.client.get(id).Execution != "failed" {
		t.Errorf("%+v, its execution is %q", got, apart.client.get(id).Execution)
	}

	denied := map[string]any{"tool": "spm_denied", "args": map[string]any{}}
	blocked(denied, "REQUIRE_APPROVAL", "HOLDPOINT_WAITING")
	id = waiting("spm_denied")
	reviewer.vote(reviewer.get(id), "deny").want(t, 200)
	apart.client.wait(id)
	if got := p.call(t, denied); got.Ran || got.Decision.Outcome != "DENY" || got.Decision.Reasons[0].Code != "HOLDPOINT_DENIED" {
		t.Errorf("%+v", got)
	}
	if got := p.call(t, denied); got.Ran || got.Decision.Outcome == "ALLOW" {
		t.Errorf("proposed again: %+v", got)
	}
	blocked(map[string]any{"tool": "spm_payment", "args": map[string]any{}, "elsewhere": "http://127.0.0.1:1"}, "DENY", "HOLDPOINT_UNAVAILABLE")
	blocked(map[string]any{"tool": "spm_payment", "args": map[string]any{}, "elsewhere": d.URL}, "DENY", "unauthenticated")
	if got := p.call(t, map[string]any{"tool": "", "args": map[string]any{}}); got.Ran {
		t.Errorf("without a tool: %+v", got)
	}

	// Nobody decides in time.
	brief := map[string]any{"tool": newID("brief_"), "args": map[string]any{}}
	eventually(t, settleWithin, "the call expires", func() bool {
		got := p.call(t, brief)
		return !got.Ran && got.Decision.Reasons[0].Code == "HOLDPOINT_EXPIRED"
	})

	// Edited: the plugin cannot change what runs, so nothing does.
	edited := map[string]any{"tool": newID("spm_edited_"), "args": map[string]any{"n": 1}}
	blocked(edited, "REQUIRE_APPROVAL", "HOLDPOINT_WAITING")
	id = waiting(edited["tool"].(string))
	d.reviewer(t, 1).approve(reviewer.edit(reviewer.get(id), map[string]any{"n": 2}).want(t, 200).approval(t))
	apart.client.wait(id)
	blocked(edited, "DENY", "arguments_mismatch")

	// Stopped after it was approved, and killed while it runs: what had begun stays so, and
	// is not run again for the asking.
	last := map[string]any{"tool": newID("spm_last_"), "args": map[string]any{}}
	blocked(last, "REQUIRE_APPROVAL", "HOLDPOINT_WAITING")
	a := apart.opened(last["tool"].(string))
	reviewer.approve(a)
	apart.client.wait(a.ID)
	kill := func(on bool) {
		d.admin(t).do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": name, "on": on, "reason": "a test"}).want(t, 200)
	}
	kill(true)
	blocked(last, "DENY", "kill_switch")
	kill(false)
	second := map[string]any{"tool": newID("spm_last_"), "args": map[string]any{}, "dies": true}
	blocked(second, "REQUIRE_APPROVAL", "HOLDPOINT_WAITING")
	a = apart.opened(second["tool"].(string))
	reviewer.approve(a)
	apart.client.wait(a.ID)
	p.killed = true
	if _, err := io.WriteString(p.in, canonical(t, second)+"\n"); err != nil || p.out.Scan() {
		t.Errorf("it was to be killed: %v, %s", err, p.out.Text())
	}
	p = startProtected(t, spm, d.URL, name, apart.client.key)
	blocked(second, "REQUIRE_APPROVAL", "HOLDPOINT_WAITING")
	if got := apart.client.get(a.ID).Execution; got != "redeemed" {
		t.Errorf("its execution is %q", got)
	}
}
