package tests

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// taskHost is a host of mcp-proxy that speaks of tasks, line by line, as the protocol has it.
type taskHost struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Scanner
	count int
}

// tasks starts a proxy, and says hello to it.
func (g *gateway) tasks(address string) *taskHost {
	g.t.Helper()
	cmd := exec.Command(binary(g.t), "mcp-proxy", "--name", g.name, "--pins", filepath.Join(g.dir, "pins.json"), "--", g.server)
	cmd.Env = environment("HOLDPOINT_URL="+address, "HOLDPOINT_API_KEY="+g.key, toolServerEnv+"="+g.runs)
	h := &taskHost{t: g.t, cmd: cmd}
	h.in, h.lines = startTalking(g.t, cmd)
	g.t.Cleanup(h.kill)
	if got, ok := h.do("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"h","version":"1"}}`); !ok || !strings.Contains(string(got), `"tasks"`) {
		g.t.Fatalf("it offers %s", got)
	}
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return h
}

func (h *taskHost) send(line string) { _, _ = io.WriteString(h.in, line+"\n") } // it may be killed

// ask sends a request, and returns its id.
func (h *taskHost) ask(method, params string) int {
	h.count++
	h.send(`{"jsonrpc":"2.0","id":` + canonical(h.t, h.count) + `,"method":"` + method + `","params":` + params + `}`)
	return h.count
}

// do is the answer to a request; not ok is an error, or no answer since the proxy has ended.
func (h *taskHost) do(method, params string) (result json.RawMessage, ok bool) {
	h.t.Helper()
	id := h.ask(method, params)
	for h.lines.Scan() {
		var m struct {
			ID     int
			Method string
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(h.lines.Bytes(), &m); err != nil {
			h.t.Fatalf("%v in %s", err, h.lines.Text())
		}
		if m.ID == id && m.Method == "" {
			if m.Error != nil {
				return m.Error, false
			}
			return m.Result, true
		}
	}
	return nil, false
}

func (h *taskHost) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait() // says that it was killed
}

// TestTasksOfKilledProxies: a call as a task, whose proxy is killed at any of its requests or
// while the tool runs, is found by its id by the next proxy, and runs once at most. Where
// nothing had begun it runs; where it had, nobody is told that it has not.
func TestTasksOfKilledProxies(t *testing.T) {
	d := onHosted(t)
	const waitPath = "/v1/approvals/apr_"
	for name, each := range map[string]struct {
		path      string // "" for while the tool runs
		delivered bool
		tool      string
		lost      bool // the host was told no id
		runs      int
		says      string
	}{
		"before it proposes":  {path: "/v1/tool-calls/check", tool: "pay", lost: true, runs: 1},
		"after it proposed":   {path: "/v1/tool-calls/check", delivered: true, tool: "pay", lost: true, runs: 1},
		"while it waits":      {path: waitPath, tool: "pay", runs: 1},
		"before it redeems":   {path: redeemPath, tool: "pay", runs: 1},
		"after it redeemed":   {path: redeemPath, delivered: true, tool: "pay", says: "nobody knows what became of it"},
		"while the tool runs": {tool: "slow", runs: 1, says: "nobody knows what became of it"},
		"before it reports":   {path: reportPath, tool: "pay", runs: 1, says: "nobody knows what became of it"},
		"after it reported":   {path: reportPath, delivered: true, tool: "pay", runs: 1, says: "has run, and succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, d, "s-")
			g.register(each.tool)
			through := newAgentProxy(t, d.URL)
			agent := d.client(t).with(g.key)
			h := g.tasks(through.url)
			if _, ok := h.do("tools/list", `{}`); !ok {
				t.Fatal("it lists no tools")
			}
			eventually(t, settleWithin, "the tool is known", func() bool { // an unknown one is refused at once
				call := map[string]any{"toolName": g.name + "__" + each.tool, "toolArgs": map[string]any{"known": newID("")}, "agentId": g.agent}
				return agent.do("POST", "/v1/tool-calls/check", call).Status == http.StatusAccepted
			})
			opened := func() (a approval) {
				t.Helper()
				eventually(t, settleWithin, "the call waits", func() bool {
					var list struct{ Approvals []approval }
					agent.do("GET", "/v1/approvals?tool_name="+g.name+"__"+each.tool, nil).want(t, http.StatusOK).into(t, &list)
					for _, each := range list.Approvals {
						if strings.HasPrefix(each.RequestID, "mcp-") {
							a = each
						}
					}
					return a.ID != ""
				})
				return a
			}
			killed := make(chan struct{})
			var once sync.Once
			through.on(func(r *http.Request, deliver func()) bool {
				if each.path == "" || !strings.Contains(r.URL.Path, each.path) {
					return false
				}
				once.Do(func() {
					if each.delivered {
						deliver()
					}
					h.kill()
					close(killed)
				})
				return true
			})
			one := map[string]any{"n": 1}
			call := `{"name":"` + each.tool + `","arguments":{"n":1},"task":{}}`
			created, told := h.do("tools/call", call)
			var task struct{ Task struct{ TaskID string } }
			if told == each.lost || told && (json.Unmarshal(created, &task) != nil || task.Task.TaskID == "") {
				t.Fatalf("the task is %s", created)
			}
			if each.path == "" || each.path == redeemPath || each.path == reportPath {
				a := opened()
				d.reviewer(t, 0).approve(a)
			}
			if each.path == "" {
				eventually(t, settleWithin, "it runs", func() bool { return g.ran(each.tool, one) == 1 })
				h.kill()
				close(killed)
			}
			select {
			case <-killed:
			case <-time.After(settleWithin):
				t.Fatal("it was to be killed")
			}
			through.on(nil)

			next := g.tasks(through.url)
			about := `{"taskId":"` + task.Task.TaskID + `"}`
			if each.lost { // the same call, made again
				created, _ = next.do("tools/call", call)
				if json.Unmarshal(created, &task) != nil || task.Task.TaskID == "" {
					t.Fatalf("the task is %s", created)
				}
				about = `{"taskId":"` + task.Task.TaskID + `"}`
			}
			if got, ok := next.do("tasks/get", about); !ok {
				t.Fatalf("the task is not found: %s", got)
			}
			if each.lost || each.path == waitPath {
				d.reviewer(t, 0).approve(opened())
			}
			if strings.HasPrefix(each.says, "nobody knows") { // the call may run elsewhere: its outcome is waited for
				eventually(t, settleWithin, "the task says so", func() bool {
					got, ok := next.do("tasks/get", about)
					return ok && strings.Contains(string(got), `"working"`) && strings.Contains(string(got), "has begun elsewhere")
				})
				agent.do("POST", "/v1/executions", map[string]any{"approval_id": opened().ID, "outcome": "unknown"}).want(t, http.StatusOK)
			}
			result, ok := next.do("tasks/result", about)
			if !ok || !strings.Contains(string(result), each.says) || (each.says != "") != strings.Contains(string(result), `"isError":true`) {
				t.Errorf("its result is %s, want %q", result, each.says)
			}
			g.wantRuns(each.runs, each.tool, one)
			// Asked for again, of another proxy, and made again, it does not run a second time.
			last := g.tasks(through.url)
			if got, ok := last.do("tasks/result", about); !ok || !strings.Contains(string(got), `"isError":true`) {
				t.Errorf("asked for again: %s", got)
			}
			g.wantRuns(each.runs, each.tool, one)
		})
	}
}
