//go:build npm

package tests

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdpoint/internal/freeport"
)

// frameworkCase is one agent of testdata/npm/frameworks/drive.mjs, with what its model calls.
type frameworkCase struct {
	Name   string          `json:"name"`
	Calls  []frameworkCall `json:"calls"`
	How    map[string]any  `json:"how"`
	URL    string          `json:"url"`
	Key    string          `json:"key"`
	Forced bool            `json:"forced"` // the framework is told that it is approved
	Wait   map[string]any  `json:"wait,omitempty"`
	Dies   bool            `json:"dies"` // while the tool runs
	agent  *clientAgent
}

type frameworkCall struct {
	ID   string         `json:"id"`
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

// frameworkSays is what came of a case: said is what the model was told.
type frameworkSays struct {
	Name, Said, Failed string
	Parked             bool
}

// saysWaiting is what a client says on standard error of a call that waits.
var saysWaiting = regexp.MustCompile(`(?m)^holdpoint: \S+ waits for .*/approvals/apr_\w+\n`)

// besidesWaits is what else a program said.
func besidesWaits(errs *strings.Builder) string {
	return saysWaiting.ReplaceAllString(errs.String(), "")
}

// frameworkStory is a test of one framework's adapter.
type frameworkStory struct {
	t         *testing.T
	framework string
	dir       string
	cases     map[string]*frameworkCase
}

// TestFrameworks: an agent of each framework is gated by our adapter. A call that waits is
// parked in what the framework keeps of its run, and goes on in another process. A
// tool runs when its call is permitted, as it was permitted, and once at most,
// whatever the framework itself is told.
func TestFrameworks(t *testing.T) {
	d := onHosted(t)
	for _, framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			s := &frameworkStory{t: t, framework: framework, dir: t.TempDir(), cases: map[string]*frameworkCase{}}
			agent, stopped := newClientAgent(t, d, clientLanguage{}), newClientAgent(t, d, clientLanguage{})
			stoppedID := stopped.apart()
			for _, name := range []string{"accept", "refuse", "approve", "edit", "deny", "expire", "forced", "waits", "broken", "outage", "both", "stopped", "killed"} {
				s.add(agent, name)
			}
			s.cases["accept"].Calls[0].Name, s.cases["accept"].How["route"] = "search_docs", "accept"
			s.cases["refuse"].Calls[0].Name, s.cases["refuse"].How["route"] = "search_docs", "refuse"
			s.cases["expire"].Calls[0].Name = newID("soon_")
			s.cases["forced"].Forced, s.cases["forced"].How["timeoutMs"] = true, 200
			s.cases["waits"].Wait = map[string]any{"timeoutMs": 0}
			s.cases["both"].Wait = map[string]any{"timeoutMs": 0}
			s.cases["both"].Calls = append(s.cases["both"].Calls, newFrameworkCall("second"))
			s.cases["stopped"].agent, s.cases["stopped"].Key = stopped, stopped.client.key
			s.cases["killed"].Dies = true

			s.begins()
			opened := s.decided(d)
			kill := func(on bool) {
				d.admin(t).do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": stoppedID, "on": on, "reason": "a test"}).want(t, http.StatusOK)
			}
			kill(true)
			s.goesOn()
			kill(false)
			second := agent.opened(s.cases["both"].Calls[1].Name)
			d.reviewer(t, 0).vote(second, "deny").want(t, http.StatusOK)
			agent.client.wait(second.ID)
			s.goesOnAgain()
			s.ran()
			for name, execution := range map[string]string{
				"approve": "succeeded", "edit": "succeeded", "deny": "none", "expire": "none", "forced": "none", "waits": "none",
				"broken": "failed", "outage": "succeeded", "both": "succeeded", "stopped": "succeeded", "killed": "redeemed",
			} {
				s.cases[name].agent.executed(opened[name].ID, execution)
			}
		})
	}
}

func (s *frameworkStory) add(agent *clientAgent, name string) {
	s.cases[name] = &frameworkCase{
		Name: name, agent: agent, URL: agent.d.URL, Key: agent.client.key,
		Calls: []frameworkCall{newFrameworkCall(name)}, How: map[string]any{"category": "public_read", "riskDomain": "research", "route": "defer"},
	}
}

func newFrameworkCall(name string) frameworkCall {
	return frameworkCall{ID: newID("call_"), Name: newID(name + "_"), Args: map[string]any{"word": name, "n": 1}}
}

// begins runs every case up to where it is parked, if it is, and one without a server.
func (s *frameworkStory) begins() {
	s.t.Helper()
	s.add(s.cases["accept"].agent, "down")
	s.cases["down"].URL, s.cases["down"].How["route"] = noServer(), "accept"
	got := s.drive("begin", "accept", "refuse", "approve", "edit", "deny", "expire", "forced", "waits", "broken", "outage", "both", "stopped", "killed", "down")
	s.said(got, map[string]string{"accept": "ran accept 1", "refuse": "search_docs was refused", "down": "cannot be reached"})
	for name, each := range got {
		if decided := name == "accept" || name == "refuse" || name == "down"; each.Parked == decided {
			s.t.Errorf("begun: %+v", each)
		}
	}
}

// decided has people decide on what waits.
func (s *frameworkStory) decided(d *dev) map[string]approval {
	s.t.Helper()
	opened := map[string]approval{}
	for name, c := range s.cases {
		if name == "accept" || name == "refuse" || name == "down" {
			continue
		}
		a := c.agent.opened(c.Calls[0].Name)
		opened[name] = a
		want := "approved"
		switch name {
		case "forced", "waits":
			continue
		case "expire":
			want = "expired"
		case "deny":
			want = "denied"
			vote := ballot(a, "deny")
			vote["kind"], vote["comment"] = "never", "Not this one."
			d.reviewer(s.t, 0).do("POST", approvalPath(a.ID)+"/votes", vote).want(s.t, http.StatusOK)
		case "edit":
			a = d.reviewer(s.t, 1).edit(a, map[string]any{"word": "edit", "n": 2}).want(s.t, http.StatusOK).approval(s.t)
			d.reviewer(s.t, 0).approve(a)
		default:
			d.reviewer(s.t, 0).approve(a)
		}
		if got := c.agent.client.wait(a.ID); got.Status != want {
			s.t.Errorf("%s is %s, want %s", name, got.Status, want)
		}
	}
	return opened
}

// goesOn resumes what is parked, in another process, which is killed at last: one case has
// no server, one a kill switch.
func (s *frameworkStory) goesOn() {
	s.t.Helper()
	outage := s.cases["outage"]
	url := outage.URL
	outage.URL = noServer()
	got := s.drive("resume", "approve", "edit", "deny", "expire", "forced", "waits", "broken", "outage", "both", "stopped", "killed")
	outage.URL = url
	forced := "goes on waiting"
	if s.framework == "langgraph" { // its tool is asked again, and interrupts again
		forced = ""
	}
	s.said(got, map[string]string{
		"approve": "ran approve 1", "edit": "ran edit 2", "deny": `denied (never) "Not this one."`, "expire": "was not approved: expired",
		"forced": forced, "broken": map[string]string{"openai_agents": "error occurred"}[s.framework],
	})
	for _, name := range []string{"waits", "both"} { // of both, one has not been decided
		if each := got[name]; !each.Parked {
			s.t.Errorf("nobody decided: %+v", each)
		}
	}
	for name, want := range map[string]string{"outage": "Unreachable", "stopped": "kill_switch"} {
		if each := got[name]; !strings.Contains(each.Failed+each.Said, want) {
			s.t.Errorf("%s: %+v, want %s", name, each, want)
		}
	}
	if each, ok := got["killed"]; ok {
		s.t.Errorf("it was to be killed: %+v", each)
	}
}

// goesOnAgain resumes what could not go on, and what has run already.
func (s *frameworkStory) goesOnAgain() {
	s.t.Helper()
	s.cases["killed"].Dies = false
	s.said(s.drive("resume", "approve", "edit", "broken", "killed", "outage", "both", "stopped"), map[string]string{
		"approve": "is not run again: it has run, and succeeded", "edit": "is not run again: it has run, and succeeded",
		"broken": "is not run again: it has run, and failed", "killed": "is not run again: it may have run",
		"outage": "ran outage 1", "stopped": "ran stopped 1", "both": "ran both 1; second_",
	})
}

// ran fails the test unless each approved call has run once, and no other.
func (s *frameworkStory) ran() {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "runs"))
	if err != nil {
		s.t.Fatal(err)
	}
	ran := map[string][]int{}
	for line := range strings.Lines(string(data)) {
		var r struct {
			Name string
			N    int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			s.t.Fatal(err)
		}
		ran[r.Name] = append(ran[r.Name], r.N)
	}
	want := map[string][]int{"accept": {1}, "approve": {1}, "edit": {2}, "broken": {1}, "outage": {1}, "both": {1}, "stopped": {1}, "killed": {1}}
	if fmt.Sprint(ran) != fmt.Sprint(want) {
		s.t.Errorf("the tools ran %v, want %v", ran, want)
	}
}

func (s *frameworkStory) said(got map[string]frameworkSays, want map[string]string) {
	s.t.Helper()
	for name, words := range want {
		if each, ok := got[name]; !ok || each.Failed != "" || !strings.Contains(each.Said, words) {
			s.t.Errorf("%s: %+v, want %q", name, each, words)
		}
	}
}

// drive runs a step of these cases in a process of its own.
func (s *frameworkStory) drive(step string, names ...string) map[string]frameworkSays {
	s.t.Helper()
	var cases []*frameworkCase
	dies := false
	for _, name := range names {
		cases = append(cases, s.cases[name])
		dies = dies || step == "resume" && s.cases[name].Dies
	}
	in, err := json.Marshal(cases)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("node", "frameworks/drive.mjs", s.framework, step, s.dir)
	cmd.Dir, cmd.Stdin, cmd.Env = npmDir, strings.NewReader(string(in)), environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	endsBy(s.t, cmd)
	if err := cmd.Wait(); (err != nil) != dies || besidesWaits(&errs) != "" {
		s.t.Fatalf("%s: %v\n%s%s\nrun: npm ci --ignore-scripts --prefix tests/%s", step, err, &out, &errs, npmDir)
	}
	got := map[string]frameworkSays{}
	for line := range strings.Lines(out.String()) {
		var each frameworkSays
		if err := json.Unmarshal([]byte(line), &each); err != nil {
			s.t.Fatalf("%v in %q", err, line)
		}
		got[each.Name] = each
	}
	return got
}

// noServer is an address at which nobody listens.
func noServer() string {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	return server.URL
}

// TestFrameworksExamples runs what the page of frameworks shows, as it is, and compiles what
// the adapters promise to TypeScript.
func TestFrameworksExamples(t *testing.T) {
	d := onHosted(t)
	packages, err := filepath.Abs(npmDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("types", func(t *testing.T) {
		t.Parallel()
		runClientTests(t, npmDir, "node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "frameworks/types.mts")
	})
	for _, framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			agent := newClientAgent(t, d, clientLanguage{})
			agent.apart() // others propose the very call
			cmd := frameworkExample(t, packages, framework, framework, agent)
			var out, errs strings.Builder
			cmd.Stdout = &out
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			endsBy(t, cmd)
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			// What is approved before it has looked does not wait, and it says nothing of it.
			for lines := bufio.NewReader(io.TeeReader(stderr, &errs)); !saysWaiting.MatchString(errs.String()); {
				if _, err := lines.ReadString('\n'); err != nil {
					t.Fatalf("it does not say that people are waited for: %v, %q", err, &errs)
				}
			}
			d.reviewer(t, 0).approve(agent.opened("send_payment&status=pending"))
			_, _ = io.Copy(&errs, stderr) // it ends when the program does
			if err := cmd.Wait(); err != nil || strings.TrimSpace(out.String()) != "paid 12.50 to Paper & Pens Ltd." {
				t.Errorf("%v\n%s%s", err, &out, &errs)
			}
		})
	}
}

// frameworkExample is an example, as it is, with a model that makes its call.
func frameworkExample(t *testing.T, packages, framework, name string, agent *clientAgent, env ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	example, err := os.ReadFile("../clients/typescript/examples/" + name + ".mjs")
	if err != nil {
		t.Fatal(err)
	}
	model := fmt.Sprintf(`import { standIn } from "%s/frameworks/%s.mjs";
export const model = standIn({ id: "%s", name: "send_payment", args: { amount: "12.50", to: "Paper & Pens Ltd." } });
`, packages, framework, newID("call_"))
	for name, text := range map[string]string{"example.mjs": string(example), "model.mjs": model} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "example.mjs")
	cmd.Dir, cmd.Env = dir, environment(append(env, "HOLDPOINT_URL="+agent.d.URL, "HOLDPOINT_API_KEY="+agent.client.key)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// TestFrameworkIsResumedByWebhook: a thread of LangGraph waits without asking, and goes on
// when our webhook comes. One that is not ours resumes nothing.
func TestFrameworkIsResumedByWebhook(t *testing.T) {
	d := onHosted(t)
	packages, err := filepath.Abs(npmDir)
	if err != nil {
		t.Fatal(err)
	}
	agent := newClientAgent(t, d, clientLanguage{})
	id := agent.apart()
	port, err := freeport.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + port.Addr().String()
	told := must(t, nil, "", "agent", "set", id, "--webhook", address, "--data", d.dir)
	secret := regexp.MustCompile(`whsec_\S+`).FindString(told)
	if secret == "" {
		t.Fatalf("no secret in %q", told)
	}
	_, number, _ := strings.Cut(port.Addr().String(), ":")
	cmd := frameworkExample(t, packages, "langgraph", "langgraph_webhook", agent, "HOLDPOINT_WEBHOOK_SECRET="+secret, "PORT="+number)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	endsBy(t, cmd)
	a := agent.opened("send_payment&status=pending")
	forged := fmt.Sprintf(`{"type":"approval.decided","timestamp":"2026-01-01T00:00:00Z","data":{"approval_id":%q,"status":"approved"}}`, a.ID)
	request, err := http.NewRequest(http.MethodPost, address, strings.NewReader(forged))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"webhook-id": "msg_1", "webhook-timestamp": strconv.FormatInt(time.Now().Unix(), 10), "webhook-signature": "v1,AAAA"} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("forged: %s, %v", response.Status, err)
	}
	d.reviewer(t, 0).approve(a)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "paid 12.50 to Paper & Pens Ltd.\n" {
		t.Errorf("%q, %v\n%s", line, err, &errs)
	}
	agent.executed(a.ID, "succeeded")
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if besidesWaits(&errs) != "" {
		t.Errorf("it said %s", &errs)
	}
}
