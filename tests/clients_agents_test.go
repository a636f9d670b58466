package tests

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file drives an agent that is written with one of our clients, such as clients/python,
// as a process of its own: through a proxy that can lose what it carries, and that can
// kill the agent at any request.

// clientLanguage is one of the clients, and how its agent for tests is started.
type clientLanguage struct {
	name    string
	program string
	args    []string
}

var (
	pythonAgent     = clientLanguage{"python", "python3", []string{"-B", "../clients/python/tests/agent.py"}}
	typescriptAgent = clientLanguage{"typescript", "node", []string{"../clients/typescript/test/agent.mjs"}}
)

// goAgent is built from a module outside of the repository, as one of somebody else's.
func goAgent(t *testing.T) clientLanguage {
	t.Helper()
	return clientLanguage{"go", buildOutside(t, "agent"), nil}
}

// needs ends a test whose interpreter is not there: as failed where CI says that all is
// there, else as skipped.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed (.ci/run installs it)", program)
	}
	t.Skipf("%s is not installed", program)
}

// clientAgent is the agent of a test: its key, its journal and what it has run.
type clientAgent struct {
	t        *testing.T
	d        *dev
	language clientLanguage
	client   *client
	proxy    *agentProxy
	journal  string
	runsFile string
}

func newClientAgent(t *testing.T, d *dev, language clientLanguage) *clientAgent {
	t.Helper()
	return &clientAgent{
		t: t, d: d, language: language, client: d.agent(t), proxy: newAgentProxy(t, d.URL),
		journal: filepath.Join(t.TempDir(), "journal"), runsFile: filepath.Join(t.TempDir(), "runs"),
	}
}

// apart makes it another agent, and returns its name.
func (a *clientAgent) apart() string {
	a.t.Helper()
	id := newID("agent-")
	a.client = a.client.with(a.d.newKey(a.t, "--agent", id))
	eventually(a.t, settleWithin, "a new agent is known", func() bool {
		return strings.Contains(string(a.client.propose(event("search_docs", "accept", nil)).Body), `"gate_decision":"pass"`)
	})
	return id
}

// agentRun is what one run of the tool wrote down.
type agentRun struct{ Arguments, Constraints map[string]any }

func (a *clientAgent) runs() []agentRun {
	a.t.Helper()
	data, err := os.ReadFile(a.runsFile)
	if err != nil && !os.IsNotExist(err) {
		a.t.Fatal(err)
	}
	var runs []agentRun
	for line := range strings.Lines(string(data)) {
		var r agentRun
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			a.t.Fatalf("%v in %q", err, line)
		}
		runs = append(runs, r)
	}
	return runs
}

// ran fails the test unless the tool has run so often.
func (a *clientAgent) ran(times int) {
	a.t.Helper()
	if got := a.runs(); len(got) != times {
		a.t.Errorf("the tool ran %d times, want %d: %+v", len(got), times, got)
	}
}

// agentSays is a line of the agent's.
type agentSays struct {
	Running                   bool
	Value                     string
	Error, Code, Text, Status string
	Resumed, Settled          []struct{ State, Value, Error, Code string }
	List                      []struct{ ID, Status, Execution, Digest string }
	Digest                    string
}

// agentProcess is a running agent.
type agentProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	errs  *strings.Builder
}

func (a *clientAgent) start(args ...string) *agentProcess {
	a.t.Helper()
	cmd := exec.Command(a.language.program, append(a.language.args[:len(a.language.args):len(a.language.args)], args...)...)
	cmd.Env = environment("HOLDPOINT_URL="+a.proxy.url, "HOLDPOINT_API_KEY="+a.client.key, "RUNS="+a.runsFile,
		"PYTHONPATH=../clients/python")
	if a.journal != "" {
		cmd.Env = append(cmd.Env, "JOURNAL="+a.journal)
	}
	p := &agentProcess{t: a.t, cmd: cmd, errs: &strings.Builder{}}
	cmd.Stderr = p.errs
	_, p.lines = startTalking(a.t, cmd) // an agent that hangs reads from its standard input
	a.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return p
}

// next is the agent's next line.
func (p *agentProcess) next() agentSays {
	p.t.Helper()
	var s agentSays
	if !p.lines.Scan() {
		_ = p.cmd.Wait()
		p.t.Fatalf("the agent ended: %s", p.errs)
	}
	if err := json.Unmarshal(p.lines.Bytes(), &s); err != nil {
		p.t.Fatalf("%v in %s", err, p.lines.Text())
	}
	return s
}

// end is what the agent says at last.
func (p *agentProcess) end() agentSays {
	p.t.Helper()
	s := p.next()
	for s.Running {
		s = p.next()
	}
	if err := p.cmd.Wait(); err != nil || p.errs.Len() > 0 {
		p.t.Fatalf("the agent ended: %v\n%s", err, p.errs)
	}
	return s
}

// kill ends the agent by SIGKILL.
func (p *agentProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // says that it was killed
}

func (a *clientAgent) do(args ...string) agentSays {
	a.t.Helper()
	return a.start(args...).end()
}

// opened is the approval that a call of the tool waits for.
func (a *clientAgent) opened(tool string) (found approval) {
	a.t.Helper()
	eventually(a.t, settleWithin, "the call waits", func() bool {
		var own struct{ Approvals []approval }
		a.client.do("GET", "/v1/approvals?tool_name="+tool, nil).want(a.t, 200).into(a.t, &own)
		if len(own.Approvals) > 0 {
			found = own.Approvals[0]
		}
		return len(own.Approvals) > 0
	})
	return found
}

// executed waits until the server knows what became of a call.
func (a *clientAgent) executed(id, want string) {
	a.t.Helper()
	if got := a.client.get(id).Execution; got != want {
		a.t.Errorf("the execution of %s is %s, want %s", id, got, want)
	}
}

// agentProxy is what an agent takes for the server.
type agentProxy struct {
	url  string
	cut  func() // ends all connections
	mu   sync.Mutex
	hook func(r *http.Request, deliver func()) bool
	says func(w http.ResponseWriter, r *http.Request) bool
}

func newAgentProxy(t *testing.T, to string) *agentProxy {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	carry := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = target.Host },
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p := &agentProxy{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		hook, says := p.hook, p.says
		p.mu.Unlock()
		if says != nil && says(w, r) {
			return
		}
		if hook != nil && hook(r, func() { carry.ServeHTTP(httptest.NewRecorder(), r) }) {
			panic(http.ErrAbortHandler) // no answer
		}
		carry.ServeHTTP(w, r)
	}))
	p.url, p.cut = server.URL, server.CloseClientConnections
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

// on sets what happens to requests: one for which the hook returns true has no answer,
// whether or not it was delivered. nil carries all.
func (p *agentProxy) on(hook func(r *http.Request, deliver func()) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

// instead sets what answers in the place of the server, where it returns true. nil for nothing.
func (p *agentProxy) instead(says func(w http.ResponseWriter, r *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.says = says
}

// wrongAnswers are what may come instead of a server's answer, which is given to those that
// take something of it.
var wrongAnswers = map[string]func(w http.ResponseWriter, r *http.Request, answer string){
	"500": func(w http.ResponseWriter, _ *http.Request, answer string) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, answer)
	},
	"redirect": func(w http.ResponseWriter, r *http.Request, answer string) {
		if r.URL.RawQuery == "moved" { // who follows it gets what permits the call
			_, _ = io.WriteString(w, answer)
			return
		}
		w.Header().Set("Location", r.URL.Path+"?moved")
		w.WriteHeader(http.StatusTemporaryRedirect)
		_, _ = io.WriteString(w, answer)
	},
	"html":  func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, "<p>Please sign in.") },
	"empty": func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, "{}") },
	"none":  func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusNoContent) },
	"half": func(w http.ResponseWriter, _ *http.Request, answer string) {
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)+10))
		_, _ = io.WriteString(w, answer)
		panic(http.ErrAbortHandler)
	},
	"huge": func(w http.ResponseWriter, _ *http.Request, answer string) {
		_, _ = io.WriteString(w, answer[:len(answer)-1]+`,"more":"`+strings.Repeat("x", 20<<20)+`"}`)
	},
}

// followed starts the agent, and waits until it follows its approval: by then its journal
// says that it waits.
func (a *clientAgent) followed(args ...string) *agentProcess {
	a.t.Helper()
	follows := make(chan struct{})
	var once sync.Once
	a.proxy.on(func(r *http.Request, _ func()) bool {
		if strings.HasSuffix(r.URL.Path, "/events") {
			once.Do(func() { close(follows) })
		}
		return false
	})
	p := a.start(args...)
	select {
	case <-follows:
	case <-time.After(settleWithin):
		a.t.Fatal("the agent does not follow its approval")
	}
	return p
}

// killedAt starts the agent and has it killed at its first request to a path, before or
// after the server has got it.
func (a *clientAgent) killedAt(path string, delivered bool, args ...string) (killed <-chan struct{}) {
	a.t.Helper()
	started, done := make(chan *agentProcess, 1), make(chan struct{})
	var once sync.Once
	a.proxy.on(func(r *http.Request, deliver func()) bool {
		if r.URL.Path != path {
			return false
		}
		once.Do(func() {
			if delivered {
				deliver()
			}
			(<-started).kill()
			close(done)
		})
		return true
	})
	started <- a.start(args...)
	return done
}
