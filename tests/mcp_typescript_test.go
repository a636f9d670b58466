//go:build npm

package tests

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// typescript is the official TypeScript SDK's client, in a process of its own
// (testdata/npm). It needs Node and what "npm ci" installs there: that
// is why it has a build tag, and why what is missing is an error.
type typescript struct {
	in  io.Writer
	out *bufio.Scanner
}

const npmDir = "testdata/npm"

func startTypescript(t testing.TB, env []string, args ...string) (*typescript, string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(npmDir, "node_modules", "@modelcontextprotocol", "sdk")); err != nil {
		t.Fatalf("%v\nrun: npm ci --ignore-scripts --prefix tests/%s", err, npmDir)
	}
	cmd := exec.Command("node", append([]string{"client.mjs"}, args...)...)
	cmd.Dir, cmd.Env = npmDir, environment(env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	in, out := startTalking(t, cmd)
	c := &typescript{in: in, out: out}
	first, err := c.next()
	if err != nil || first.Failed != "" {
		_ = cmd.Wait()
		if first.Failed == "" {
			t.Fatalf("%v\n%s", err, errs.String())
		}
		return nil, first.Failed
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil || errs.Len() > 0 {
			t.Errorf("the client ended: %v\n%s", err, errs.String())
		}
	})
	return c, ""
}

type typescriptLine struct {
	Failed    string          `json:"failed"`
	Connected json.RawMessage `json:"connected"`
	Tools     []modelTool     `json:"tools"`
	Result    modelAnswer     `json:"result"`
	Progress  *struct {
		Message string
		Total   float64
	} `json:"progress"`
	Task   string      `json:"task"`
	State  taskState   `json:"state"`
	States []taskState `json:"states"`
	Links  []struct {
		Mode, URL, Message string
		ID                 string `json:"elicitationId"`
	} `json:"links"`
	Over     []string `json:"over"`
	Resource struct {
		Resource string
		Servers  []string `json:"authorization_servers"`
	} `json:"resource"`
}

// taskState is a task as its requestor is shown it.
type taskState struct {
	ID      string `json:"taskId"`
	Status  string `json:"status"`
	Message string `json:"statusMessage"`
}

// task calls a tool as a task, and returns the task's id.
func (c *typescript) task(t testing.TB, tool string, arguments map[string]any) string {
	t.Helper()
	return c.do(t, map[string]any{"do": "task", "tool": tool, "arguments": arguments}).Task
}

// about is a task after that was done with it: await, get or cancel.
func (c *typescript) about(t testing.TB, do, task string) typescriptLine {
	t.Helper()
	return c.do(t, map[string]any{"do": do, "task": task})
}

func (c *typescript) next() (typescriptLine, error) {
	var line typescriptLine
	if !c.out.Scan() {
		return line, io.ErrUnexpectedEOF
	}
	return line, json.Unmarshal(c.out.Bytes(), &line)
}

func (c *typescript) do(t testing.TB, order map[string]any) typescriptLine {
	t.Helper()
	if _, err := io.WriteString(c.in, canonical(t, order)+"\n"); err != nil {
		t.Fatal(err)
	}
	line, err := c.next()
	if err != nil || line.Failed != "" {
		t.Fatalf("%v: %v %s", order["do"], err, line.Failed)
	}
	return line
}

// fails does what the client is to fail at, and is what it says then.
func (c *typescript) fails(t testing.TB, order map[string]any) string {
	t.Helper()
	if _, err := io.WriteString(c.in, canonical(t, order)+"\n"); err != nil {
		t.Fatal(err)
	}
	line, err := c.next()
	if err != nil || line.Failed == "" {
		t.Fatalf("%v: %v %+v", order["do"], err, line)
	}
	return line.Failed
}

func (c *typescript) list(t testing.TB) []modelTool {
	t.Helper()
	return c.do(t, map[string]any{"do": "list"}).Tools
}

func (c *typescript) call(t testing.TB, tool string, arguments, meta map[string]any) modelAnswer {
	t.Helper()
	return c.do(t, map[string]any{"do": "call", "tool": tool, "arguments": arguments, "meta": meta}).Result
}

// isToldOfTheWait waits for a call that nobody decides on before the client has been told
// that it waits.
func (c *typescript) isToldOfTheWait(t *testing.T, d *dev, stdio bool) {
	t.Helper()
	opened := held(t, c.call(t, "aana_pre_tool_check", event("send_note", "defer", map[string]any{"round": newID("r-")}), nil).good(t))
	line := c.do(t, map[string]any{"do": "call", "tool": "holdpoint_await", "arguments": map[string]any{"approval_id": opened.ID, "timeout_seconds": 50}, "progress": true})
	if line.Progress == nil || line.Progress.Total != 50 || !strings.HasSuffix(line.Progress.Message, "/approvals/"+opened.ID) {
		t.Fatalf("before it is decided: %+v", line)
	}
	d.reviewer(t, 0).approve(opened)
	for line.Progress != nil { // it may be told once more
		var err error
		if line, err = c.next(); err != nil || line.Failed != "" {
			t.Fatalf("%v %s", err, line.Failed)
		}
	}
	if got := line.Result.approval(t); got.Status != "approved" {
		t.Errorf("decided: %+v", got)
	}
	c.wasAskedToShow(t, opened, stdio)
}

// wasAskedToShow looks at what the client was to show its user of an approval that is over:
// its page, once, unless it is asked nothing, as over HTTP. What the user answered has not
// decided it.
func (c *typescript) wasAskedToShow(t *testing.T, a approval, asked bool) {
	t.Helper()
	if !asked {
		if got := c.do(t, map[string]any{"do": "links"}).Links; len(got) != 0 {
			t.Errorf("the client was to show %+v", got)
		}
		return
	}
	eventually(t, seeWithin, "what was to be shown is over", func() bool {
		return slices.Contains(c.do(t, map[string]any{"do": "links"}).Over, a.ID)
	})
	shown := 0
	for _, l := range c.do(t, map[string]any{"do": "links"}).Links {
		if l.ID == a.ID && l.Mode == "url" && l.URL == a.Links.Review {
			shown++
		}
	}
	if shown != 1 {
		t.Errorf("the page of %s was to be shown %d times", a.ID, shown)
	}
}

// waitsAsATask waits for people without holding a call open, and gets no token by that.
func (c *typescript) waitsAsATask(t *testing.T, d *dev, stdio bool) {
	t.Helper()
	arguments := map[string]any{"round": newID("r-")}
	opened := held(t, c.call(t, "aana_pre_tool_check", event("send_note", "defer", arguments), nil).good(t))
	task := c.task(t, "holdpoint_await", map[string]any{"approval_id": opened.ID})
	now := c.about(t, "get", task).State
	if task != opened.ID || now.Status != "working" || !strings.HasSuffix(now.Message, "/approvals/"+opened.ID) {
		t.Errorf("task %s of %s: %+v", task, opened.ID, now)
	}
	if all := c.do(t, map[string]any{"do": "tasks"}).States; !slices.Contains(all, now) {
		t.Errorf("the task is not among %+v", all)
	}
	if says := c.fails(t, map[string]any{"do": "get", "task": "apr_none"}); !strings.Contains(says, "-32602") {
		t.Errorf("a task that there is not: %s", says)
	}
	if says := c.fails(t, map[string]any{"do": "task", "tool": "holdpoint_cancel", "arguments": map[string]any{"approval_id": opened.ID}}); !strings.Contains(says, "-32601") {
		t.Errorf("another tool as a task: %s", says)
	}
	d.reviewer(t, 0).approve(opened)
	done := c.about(t, "await", task)
	if a := done.Result.approval(t); done.State.Status != "completed" || a.Status != "approved" || strings.Contains(string(done.Result.Structured)+text(done.Result), "resumption_token") || a.Token != "" {
		t.Fatalf("decided: %+v %s", done.State, done.Result.Structured)
	}
	c.wasAskedToShow(t, opened, stdio)
	if line := done.Result.line(t); !strings.Contains(line, "holdpoint_redeem") {
		t.Errorf("the line is %q", line)
	}
	c.call(t, "holdpoint_redeem", map[string]any{"approval_id": opened.ID, "tool_name": "send_note", "arguments": arguments}, nil).good(t)
}

// TestTypescriptClient tells the same story with a client that shares no line
// with the server, over both transports.
func TestTypescriptClient(t *testing.T) {
	d := onHosted(t)
	stranger := d.stranger(t)
	program, err := filepath.Abs(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ env, args []string }{
		"stdio": {nil, []string{"stdio", program, "mcp", "--data", d.dir}},
		"http":  {[]string{"HOLDPOINT_TEST_KEY=" + d.AgentKey}, []string{"http", d.URL + "/mcp"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, refused := startTypescript(t, c.env, c.args...)
			if refused != "" {
				t.Fatal(refused)
			}
			tellModelStory(t, d, stranger, m)
			m.isToldOfTheWait(t, d, name == "stdio")
			m.waitsAsATask(t, d, name == "stdio")
			if name == "http" {
				if got := m.do(t, map[string]any{"do": "discover"}).Resource; got.Resource != d.URL+"/mcp" || got.Servers != nil {
					t.Errorf("the metadata of the server: %+v", got)
				}
			}
		})
	}
	if _, refused := startTypescript(t, []string{"HOLDPOINT_TEST_KEY=hp_wrong"}, "http", d.URL+"/mcp"); !strings.Contains(refused, "unauthenticated") {
		t.Errorf("with an unknown key: %q", refused)
	}
}
