package tests

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	redeemPath = "/v1/tokens/redeem"
	reportPath = "/v1/executions"
)

// TestPythonClient is the client's own tests, which need no server.
func TestPythonClient(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	runClientTests(t, "../clients/python", "python3", "-B", "-W", "error", "-m", "unittest", "discover", "-s", "tests")
}

// TestPythonClientTypes checks the types that the client promises.
func TestPythonClientTypes(t *testing.T) {
	needs(t, "mypy")
	t.Parallel()
	runClientTests(t, "../clients/python", "mypy", "--cache-dir", t.TempDir())
}

// TestTypescriptClientTests is the client's own tests, of what was built and is in the repository.
func TestTypescriptClientTests(t *testing.T) {
	needs(t, "node")
	t.Parallel()
	runClientTests(t, "../clients/typescript", "node", "--test", "test/life.test.mjs", "test/vectors.test.mjs", "test/adapters.test.mjs")
}

func runClientTests(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, environment("PYTHONPATH=.")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestClientsRunACallOnce: whatever comes between an agent and its server, a tool that
// is guarded by a client runs when its call is permitted, as it was permitted, and
// once at most.
func TestClientsRunACallOnce(t *testing.T) {
	d := onCalled(t)
	for _, language := range []clientLanguage{pythonAgent, typescriptAgent, goAgent(t)} {
		t.Run(language.name, func(t *testing.T) {
			needs(t, language.program)
			for name, story := range map[string]func(*testing.T, *clientAgent){
				"accepted and refused": decidedAtOnce, "approved": approvedAndRun, "edited": editedAndRun, "constrained": constrainedAndRun,
				"denied and expired": notApproved, "stopped": stoppedWhileWaiting, "kill switch": killSwitchAtRedeeming,
				"server down": serverDown, "server wrong": serverWrong, "killed while it waits": killedWhileWaiting,
				"killed before it redeems": killedBeforeRedeeming, "killed after it redeems": killedAfterRedeeming, "killed beside another": killedBesideAnother,
				"killed and called again": killedAndCalledAgain, "killed while it runs": killedWhileRunning, "killed while it reports": killedWhileReporting, "own key": ownKey,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					story(t, newClientAgent(t, d, language))
				})
			}
		})
	}
}

const oneArgument = `{"n":1}`

func decidedAtOnce(t *testing.T, a *clientAgent) {
	if got := a.do("call", "search_docs", oneArgument, "route=accept"); got.Value != "done" {
		t.Errorf("a call that is accepted: %+v", got)
	}
	a.ran(1)
	if got := a.do("call", "search_docs", oneArgument, "route=refuse"); got.Error != "Refused" {
		t.Errorf("a call that is refused: %+v", got)
	}
	a.ran(1)
}

func approvedAndRun(t *testing.T, a *clientAgent) {
	for i, how := range []string{"sync", "async"} {
		tool := newID("clients_")
		p := a.start("call", tool, oneArgument, how)
		opened := a.opened(tool)
		a.d.reviewer(t, 0).approve(opened)
		if got := p.end(); got.Value != "done" {
			t.Errorf("%s: %+v", how, got)
		}
		a.ran(i + 1)
		a.executed(opened.ID, "succeeded")
		if got := a.do("list", tool); len(got.List) != 1 || got.List[0].ID != opened.ID || got.List[0].Digest != got.Digest {
			t.Errorf("the agent's own calls are %+v", got)
		}
	}
	tool := newID("clients_")
	p := a.start("call", tool, `{"fail":true}`)
	opened := a.opened(tool)
	a.d.reviewer(t, 0).approve(opened)
	if got := p.end(); got.Error == "" {
		t.Errorf("a tool that fails: %+v", got)
	}
	a.executed(opened.ID, "failed")
}

func editedAndRun(t *testing.T, a *clientAgent) {
	tool := newID("clients_")
	p := a.start("call", tool, oneArgument)
	edited := a.d.reviewer(t, 1).edit(a.opened(tool), map[string]any{"n": 2}).want(t, 200).approval(t)
	a.d.reviewer(t, 0).approve(edited)
	if got := p.end(); got.Value != "done" {
		t.Errorf("%+v", got)
	}
	if runs := a.runs(); len(runs) != 1 || runs[0].Arguments["n"] != 2.0 {
		t.Errorf("it ran %+v, and 2 was approved", runs)
	}
}

func constrainedAndRun(t *testing.T, a *clientAgent) {
	tool := newID("clients_")
	p := a.start("call", tool, oneArgument)
	opened := a.opened(tool)
	vote := ballot(opened, "approve")
	vote["constraints"] = map[string]any{"max_n": 7}
	a.d.reviewer(t, 0).do("POST", approvalPath(opened.ID)+"/votes", vote).want(t, 200)
	if got := p.end(); got.Value != "done" {
		t.Errorf("%+v", got)
	}
	if runs := a.runs(); len(runs) != 1 || runs[0].Constraints["max_n"] != 7.0 {
		t.Errorf("it ran %+v, within 7", runs)
	}
}

func notApproved(t *testing.T, a *clientAgent) {
	tool := newID("clients_")
	p := a.start("call", tool, oneArgument)
	a.d.reviewer(t, 0).vote(a.opened(tool), "deny").want(t, 200)
	if got := p.end(); got.Error != "NotApproved" || got.Status != "denied" {
		t.Errorf("a call that is denied: %+v", got)
	}
	if got := a.do("call", newID("brief_clients_"), oneArgument); got.Error != "NotApproved" || got.Status != "expired" {
		t.Errorf("a call that nobody decides: %+v", got)
	}
	a.ran(0)
}

func stoppedWhileWaiting(t *testing.T, a *clientAgent) {
	tool := newID("clients_")
	if got := a.do("call", tool, oneArgument, "timeout=0.2", "cancel"); got.Error != "Stopped" {
		t.Errorf("a wait with an end: %+v", got)
	}
	if got := a.client.wait(a.opened(tool).ID); got.Status != "cancelled" {
		t.Errorf("it was to be taken back, and is %s", got.Status)
	}
	tool = newID("clients_")
	if got := a.do("call", tool, oneArgument, "timeout=0.2"); got.Error != "Stopped" {
		t.Errorf("a wait with an end: %+v", got)
	}
	opened := a.opened(tool)
	if opened.Status != "pending" {
		t.Errorf("nobody took it back, and it is %s", opened.Status)
	}
	a.d.reviewer(t, 0).approve(opened)
	a.resumed(tool, "waiting", "")
	a.ran(1)
}

// resumed has the agent go on with its one call. want is an error, "" for none.
func (a *clientAgent) resumed(tool, state, want string) {
	a.t.Helper()
	got := a.do("resume", tool).Resumed
	if len(got) != 1 || got[0].State != state || got[0].Error != want || want == "" && got[0].Value != "done" {
		a.t.Fatalf("resumed: %+v, want %s %s", got, state, want)
	}
	if want == "OutcomeUnknown" {
		return
	}
	if again := a.do("resume", tool).Resumed; len(again) != 0 {
		a.t.Errorf("resumed once more: %+v", again)
	}
}

func killSwitchAtRedeeming(t *testing.T, a *clientAgent) {
	tool := newID("clients_")
	admin, id := a.d.admin(t), a.apart()
	thrown := func(on bool) {
		admin.do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": id, "on": on, "reason": "a test"}).want(t, http.StatusOK)
	}
	var once sync.Once
	a.proxy.on(func(r *http.Request, _ func()) bool {
		if r.URL.Path == redeemPath {
			once.Do(func() { thrown(true) })
		}
		return false
	})
	p := a.start("call", tool, oneArgument)
	a.d.reviewer(t, 0).approve(a.opened(tool))
	if got := p.end(); got.Error != "Problem" || got.Code != "kill_switch" {
		t.Errorf("while a kill switch is on: %+v", got)
	}
	if got := a.do("call", tool, `{"n":2}`); got.Error == "" {
		t.Errorf("a call while a kill switch is on: %+v", got)
	}
	a.ran(0)
	thrown(false)
	a.resumed(tool, "redeeming", "")
	a.ran(1)
}

func serverDown(t *testing.T, a *clientAgent) {
	var down atomic.Bool
	met := make(chan struct{}, 100)
	fails := func(*http.Request, func()) bool {
		if down.Load() {
			select {
			case met <- struct{}{}:
			default:
			}
		}
		return down.Load()
	}
	down.Store(true)
	a.proxy.on(fails)
	if got := a.do("call", "search_docs", oneArgument, "route=accept"); got.Error != "Unreachable" {
		t.Errorf("without a server: %+v", got)
	}
	a.ran(0)
	// It waits through an outage.
	tool := newID("clients_")
	p := a.followed("call", tool, oneArgument)
	opened := a.opened(tool)
	for len(met) > 0 {
		<-met
	}
	a.proxy.on(fails)
	a.proxy.cut()
	<-met
	<-met
	a.d.reviewer(t, 0).approve(opened)
	down.Store(false)
	if got := p.end(); got.Value != "done" {
		t.Errorf("after an outage: %+v", got)
	}
	a.ran(1)
}

// serverWrong: what comes instead of a permission is none, whatever it has of one.
func serverWrong(t *testing.T, a *clientAgent) {
	says := func(path, what, answer string) {
		a.proxy.instead(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == path {
				w.Header().Set("Content-Type", "application/json")
				wrongAnswers[what](w, r, answer)
			}
			return r.URL.Path == path
		})
	}
	const accepted = `{"gate_decision":"pass","recommended_action":"accept","hard_blockers":[],"validation_errors":[],"candidate_gate":"pass","aix":{"score":1}}`
	for what := range wrongAnswers {
		says("/v1/pre-tool-check", what, accepted)
		if got := a.do("call", "search_docs", oneArgument, "route=accept", "key="+newID("wrong-")); got.Error == "" {
			t.Errorf("%s, in the place of a decision: %+v", what, got)
		}
	}
	a.ran(0)
	a.journal = filepath.Join(t.TempDir(), "another")
	tool := newID("clients_")
	says(redeemPath, "empty", "")
	p := a.start("call", tool, oneArgument)
	a.d.reviewer(t, 0).approve(a.opened(tool))
	if got := p.end(); got.Error == "" {
		t.Errorf("an empty redemption: %+v", got)
	}
	for what := range wrongAnswers {
		says(redeemPath, what, `{"redeemed":true,"approval_id":"`+a.opened(tool).ID+`","constraints":{}}`)
		if got := a.do("resume", tool).Resumed; len(got) != 1 || got[0].Error == "" {
			t.Errorf("%s, in the place of a redemption: %+v", what, got)
		}
	}
	a.ran(0)
	a.proxy.instead(nil)
	a.resumed(tool, "redeeming", "")
	a.ran(1)
}

func killedWhileWaiting(t *testing.T, a *clientAgent) {
	tool := newID("clients_")
	p := a.followed("call", tool, oneArgument)
	opened := a.opened(tool)
	p.kill()
	a.d.reviewer(t, 0).approve(opened)
	a.resumed(tool, "waiting", "")
	a.ran(1)
	a.executed(opened.ID, "succeeded")
}

// killedAndCalledAgain: the same call, made again by the next process, goes on with what was
// approved meanwhile, and asks nobody again. Once that is over, an equal call is another.
func killedAndCalledAgain(t *testing.T, a *clientAgent) {
	tool := newID("clients_")
	p := a.followed("call", tool, oneArgument)
	first := a.opened(tool)
	p.kill()
	a.d.reviewer(t, 0).approve(first)
	if got := a.do("call", tool, oneArgument); got.Value != "done" {
		t.Errorf("the same call again: %+v", got)
	}
	a.ran(1)
	a.executed(first.ID, "succeeded")
	if got := a.do("list", tool).List; len(got) != 1 {
		t.Errorf("people were asked %d times: %+v", len(got), got)
	}

	p = a.start("call", tool, oneArgument, "hang")
	second := a.opened(tool + "&status=pending")
	if second.ID == first.ID {
		t.Fatal("an equal call after the first is over is not another")
	}
	a.d.reviewer(t, 0).approve(second)
	if !p.next().Running {
		t.Fatal("it does not run")
	}
	p.kill()
	if got := a.do("call", tool, oneArgument); got.Error != "OutcomeUnknown" {
		t.Errorf("the same call again, that had begun: %+v", got)
	}
	a.ran(2)
	if got := a.do("settle", "failed").Settled; len(got) != 1 || got[0].Error != "" {
		t.Errorf("settled: %+v", got)
	}
	a.executed(second.ID, "failed")
}

func killedBeforeRedeeming(t *testing.T, a *clientAgent) { killedAtRedeeming(t, a, false) }
func killedAfterRedeeming(t *testing.T, a *clientAgent)  { killedAtRedeeming(t, a, true) }

func killedAtRedeeming(t *testing.T, a *clientAgent, delivered bool) {
	tool := newID("clients_")
	killed := a.killedAt(redeemPath, delivered, "call", tool, oneArgument)
	opened := a.opened(tool)
	a.d.reviewer(t, 0).approve(opened)
	<-killed
	a.ran(0)
	a.executed(opened.ID, map[bool]string{true: "redeemed", false: "none"}[delivered])
	a.proxy.on(nil)
	a.resumed(tool, "redeeming", "")
	a.ran(1)
	a.executed(opened.ID, "succeeded")
}

// killedBesideAnother: of two processes with one journal, both of which redeem, the one that
// has the token spent is killed before it runs the call. It goes on, once, although the last
// redemption of the journal is the other's.
func killedBesideAnother(t *testing.T, a *clientAgent) {
	tool := newID("clients_")
	killed := a.killedAt(redeemPath, true, "call", tool, oneArgument)
	opened := a.opened(tool)
	a.d.reviewer(t, 0).approve(opened)
	<-killed
	a.proxy.on(nil)
	var last map[string]any
	for line := range strings.Lines(fileText(a.journal)) {
		if strings.Contains(line, `"redeeming"`) {
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Fatal(err)
			}
		}
	}
	last["key"] = newID("other")
	f, err := os.OpenFile(a.journal, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("\n" + canonical(t, last) + "\n")
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if got := a.do("call", tool, oneArgument); got.Value != "done" {
		t.Errorf("the same call again: %+v", got)
	}
	a.ran(1)
	a.executed(opened.ID, "succeeded")
}

func killedWhileRunning(t *testing.T, a *clientAgent) {
	tool := newID("clients_")
	p := a.start("call", tool, oneArgument, "hang")
	opened := a.opened(tool)
	a.d.reviewer(t, 0).approve(opened)
	if !p.next().Running {
		t.Fatal("it does not run")
	}
	p.kill()
	a.resumed(tool, "begun", "OutcomeUnknown")
	a.ran(1)
	a.executed(opened.ID, "redeemed")
	if got := a.do("settle", "succeeded").Settled; len(got) != 1 || got[0].Error != "" {
		t.Errorf("settled: %+v", got)
	}
	a.executed(opened.ID, "succeeded")
	if again := a.do("resume", tool).Resumed; len(again) != 0 {
		t.Errorf("resumed once more: %+v", again)
	}
	a.ran(1)
}

func killedWhileReporting(t *testing.T, a *clientAgent) {
	for i, delivered := range []bool{false, true} {
		tool := newID("clients_")
		killed := a.killedAt(reportPath, delivered, "call", tool, oneArgument)
		opened := a.opened(tool)
		a.d.reviewer(t, 0).approve(opened)
		<-killed
		a.proxy.on(nil)
		a.resumed(tool, "ran", "AlreadyDone")
		a.ran(i + 1)
		a.executed(opened.ID, "succeeded")
	}
}

func ownKey(t *testing.T, a *clientAgent) {
	for i, journal := range []string{a.journal, ""} {
		a.journal = journal
		key := "key=" + newID("invoice-")
		if got := a.do("call", "search_docs", oneArgument, "route=accept", key); got.Value != "done" {
			t.Errorf("the first call: %+v", got)
		}
		if got := a.do("call", "search_docs", oneArgument, "route=accept", key); got.Error != "AlreadyDone" {
			t.Errorf("the second call under one key: %+v", got)
		}
		if got := a.do("call", "search_docs", `{"n":2}`, "route=accept", key); got.Error == "" || !strings.Contains(got.Error+got.Code, "JournalError") && got.Code != "idempotency_key_reused" {
			t.Errorf("another call under the key: %+v", got)
		}
		a.ran(i + 1)
	}
}
