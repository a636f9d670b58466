//go:build npm

package tests

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// through is the official TypeScript client before a proxy and a real server.
func (g *gateway) through(server string, args ...string) *typescript {
	g.t.Helper()
	return g.throughBy(g.d.URL, server, args...)
}

// throughBy is through with a proxy that asks the Holdpoint at an address.
func (g *gateway) throughBy(holdpoint, server string, args ...string) *typescript {
	g.t.Helper()
	key := filepath.Join(g.dir, "key")
	if err := os.WriteFile(key, []byte(g.key), 0o600); err != nil {
		g.t.Fatal(err)
	}
	program, err := filepath.Abs(binary(g.t))
	if err != nil {
		g.t.Fatal(err)
	}
	// The client hands its servers little of its environment, and what servers print
	// as errors is theirs.
	command := append([]string{
		"stdio", "sh", "-c", `HOLDPOINT_API_KEY=$(cat "$0"); export HOLDPOINT_API_KEY; exec "$@" 2>/dev/null`, key,
		program, "mcp-proxy", "--name", g.name, "--pins", filepath.Join(g.dir, "pins.json"), "--wait", "0s", "--holdpoint", holdpoint,
		"--", "node", filepath.Join("node_modules", "@modelcontextprotocol", server, "dist", "index.js"),
	}, args...)
	c, refused := startTypescript(g.t, nil, command...)
	if refused != "" {
		g.t.Fatal(refused)
	}
	return c
}

func text(a modelAnswer) string {
	var all strings.Builder
	for _, c := range a.Content {
		all.WriteString(c.Text + "\n")
	}
	return all.String()
}

// TestProxyBeforeRealServers: two servers from npm and the official client know
// nothing of the proxy between them.
func TestProxyBeforeRealServers(t *testing.T) {
	d := onHosted(t)

	t.Run("everything", func(t *testing.T) {
		g := newGateway(t, d, "kubectl_get-")
		c := g.through("server-everything", "stdio")
		if tools := c.list(t); len(tools) < 10 {
			t.Errorf("the client sees %+v", tools)
		}
		hello := map[string]any{"message": "hello"}
		if a := c.call(t, "echo", hello, nil); !a.IsError || !strings.Contains(text(a), "UNVERIFIED_MCP_TOOL") {
			t.Errorf("%+v", a)
		}
		g.register("echo", "get-env", "get-structured-content")
		eventually(t, settleWithin, "the tools are known", func() bool {
			return !c.call(t, "get-structured-content", map[string]any{"location": "Chicago"}, nil).IsError // the last one
		})
		if a := c.call(t, "echo", hello, nil); a.IsError || !strings.Contains(text(a), "hello") {
			t.Errorf("%+v", a)
		}
		if a := c.call(t, "get-env", nil, nil); strings.Contains(text(a), "HOLDPOINT") || strings.Contains(text(a), g.key) || !strings.Contains(text(a), "PATH") {
			t.Error("the server has what is Holdpoint's own")
		}
		if a := c.call(t, "get-structured-content", map[string]any{"location": "Chicago"}, nil); a.IsError || len(a.Structured) == 0 {
			t.Errorf("%+v", a)
		}
		if a := g.throughBy("http://127.0.0.1:1", "server-everything", "stdio").call(t, "echo", hello, nil); !a.IsError || strings.Contains(text(a), "Echo") || !strings.Contains(text(a), "Not run") {
			t.Errorf("Holdpoint is away: %+v", a)
		}
	})

	// Killed while the server runs a call as a task: nobody knows what became of it, and it
	// is not run again.
	t.Run("everything, killed", func(t *testing.T) {
		g := newGateway(t, d, "s-")
		const slow = "trigger-long-running-operation"
		g.register(slow)
		c := g.through("server-everything", "stdio")
		takes := map[string]any{"duration": 60, "steps": 120}
		eventually(t, settleWithin, "the tool is known", func() bool { return strings.Contains(text(c.call(t, slow, takes, nil)), "people decide") })
		a := g.waits(slow, 1)
		c.task(t, slow, takes)
		d.reviewer(t, 0).approve(a)
		agent := d.client(t).with(g.key)
		eventually(t, settleWithin, "it runs", func() bool { return agent.get(a.ID).Execution == "redeemed" })
		c.do(t, map[string]any{"do": "kill"})
		c = g.through("server-everything", "stdio")
		if got := c.about(t, "await", c.task(t, slow, takes)); got.State.Status != "failed" || !strings.Contains(got.State.Message, "nobody knows what became of it") {
			t.Errorf("%+v", got)
		}
		g.waits(slow, 1)
	})

	t.Run("expire", func(t *testing.T) {
		g := newGateway(t, d, "brief_")
		files := t.TempDir()
		g.register("create_directory")
		c := g.through("server-filesystem", files)
		path := filepath.Join(files, "new")
		var got typescriptLine
		eventually(t, settleWithin, "the call expires", func() bool {
			got = c.about(t, "await", c.task(t, "create_directory", map[string]any{"path": path}))
			return strings.Contains(text(got.Result), "expired")
		})
		if _, err := os.Stat(path); err == nil || got.State.Status != "failed" || !got.Result.IsError {
			t.Errorf("%+v, %v", got, err)
		}
	})

	t.Run("filesystem", func(t *testing.T) {
		g := newGateway(t, d, "s-")
		files, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		g.register("write_file")
		c := g.through("server-filesystem", files)
		write := func(name, content string) (map[string]any, string) {
			return map[string]any{"path": filepath.Join(files, name), "content": content}, filepath.Join(files, name)
		}
		there := func(path string) string {
			data, _ := os.ReadFile(path) // "" for none
			return string(data)
		}
		agent := d.client(t).with(g.key)

		// Waits, is approved, runs once.
		one, path := write("one", "1")
		eventually(t, settleWithin, "the tool is known", func() bool { return strings.Contains(text(c.call(t, "write_file", one, nil)), "people decide") })
		a := g.waits("write_file", 1)
		d.reviewer(t, 0).approve(a)
		agent.wait(a.ID)
		if there(path) != "" {
			t.Error("it ran before it was called again")
		}
		if got := c.call(t, "write_file", one, nil); got.IsError || there(path) != "1" {
			t.Errorf("%+v", got)
		}
		if got := agent.get(a.ID); got.Execution != "succeeded" {
			t.Errorf("it is on record as %s", got.Execution)
		}

		// Edited: what was approved is written.
		two, path := write("two", "2")
		if got := c.call(t, "write_file", two, nil); !strings.Contains(text(got), "people decide") {
			t.Fatalf("%+v", got)
		}
		edited, other := write("edited", "3")
		b := d.reviewer(t, 0).edit(g.waits("write_file", 2), edited).want(t, http.StatusOK).approval(t)
		d.reviewer(t, 1).approve(b)
		agent.wait(b.ID)
		if got := c.call(t, "write_file", two, nil); got.IsError || there(path) != "" || there(other) != "3" || !strings.Contains(text(got), "A reviewer changed") {
			t.Errorf("%+v", got)
		}

		// Denied: nothing is written.
		four, path := write("four", "4")
		if got := c.call(t, "write_file", four, nil); !strings.Contains(text(got), "people decide") {
			t.Fatalf("%+v", got)
		}
		a = g.waits("write_file", 3)
		d.reviewer(t, 0).vote(a, "deny").want(t, http.StatusOK)
		agent.wait(a.ID)
		if got := c.call(t, "write_file", four, nil); !got.IsError || there(path) != "" || !strings.Contains(text(got), "denied") {
			t.Errorf("%+v", got)
		}

		// What the server says failed is on record as that.
		away := map[string]any{"path": filepath.Join(t.TempDir(), "x"), "content": "5"}
		if got := c.call(t, "write_file", away, nil); !strings.Contains(text(got), "people decide") {
			t.Fatalf("%+v", got)
		}
		a = g.waits("write_file", 4)
		d.reviewer(t, 0).approve(a)
		agent.wait(a.ID)
		if got := c.call(t, "write_file", away, nil); !got.IsError {
			t.Errorf("%+v", got)
		}
		if got := agent.get(a.ID); got.Execution != "failed" {
			t.Errorf("it is on record as %s", got.Execution)
		}

		// As a task: it waits without holding the host, its user is shown where people decide,
		// and it runs by itself when they have.
		six, path := write("six", "6")
		task := c.task(t, "write_file", six)
		a = g.waits("write_file", 5)
		eventually(t, settleWithin, "the host is told where people decide", func() bool {
			now := c.do(t, map[string]any{"do": "tasks"}).States
			return len(now) == 1 && now[0].ID == task && now[0].Status == "working" && strings.HasSuffix(now[0].Message, "/approvals/"+a.ID)
		})
		shown := c.do(t, map[string]any{"do": "links"})
		eventually(t, settleWithin, "the host is asked to show the page", func() bool {
			shown = c.do(t, map[string]any{"do": "links"})
			return len(shown.Links) == 5
		})
		if last := shown.Links[4]; last.Mode != "url" || last.URL != a.Links.Review || last.ID != a.ID {
			t.Errorf("the host is to show %+v", shown.Links)
		}
		if there(path) != "" || agent.get(a.ID).Status != "pending" {
			t.Error("to accept a link decides")
		}
		d.reviewer(t, 0).approve(a)
		if got := c.about(t, "await", task); got.State.Status != "completed" || got.Result.IsError || there(path) != "6" {
			t.Errorf("%+v", got)
		}
		if got := agent.get(a.ID); got.Execution != "succeeded" {
			t.Errorf("it is on record as %s", got.Execution)
		}
		if over := c.do(t, map[string]any{"do": "links"}).Over; len(over) != 5 || over[4] != a.ID {
			t.Errorf("the links that are over: %v", over)
		}

		// Cancelled: the approval goes on waiting. Killed: so does it, and the next proxy goes on
		// with the task when it is asked for, once.
		seven, path := write("seven", "7")
		task = c.task(t, "write_file", seven)
		a = g.waits("write_file", 6)
		if got := c.about(t, "cancel", task); got.State.Status != "cancelled" {
			t.Errorf("%+v", got)
		}
		if got := c.about(t, "await", task); !strings.Contains(text(got.Result), "Not run") || agent.get(a.ID).Status != "pending" {
			t.Errorf("%+v", got)
		}
		task = c.task(t, "write_file", seven)
		c.do(t, map[string]any{"do": "kill"})
		c = g.through("server-filesystem", files)
		d.reviewer(t, 0).approve(a)
		agent.wait(a.ID)
		if there(path) != "" {
			t.Error("the task of a killed proxy goes on without being asked for")
		}
		if got := c.about(t, "result", task); got.Result.IsError || there(path) != "7" {
			t.Errorf("the task of a killed proxy: %+v", got)
		}
		c.do(t, map[string]any{"do": "kill"})
		c = g.through("server-filesystem", files)
		if got := c.about(t, "result", task); !strings.Contains(text(got.Result), "has run, and succeeded") {
			t.Errorf("asked for again, of another proxy: %+v", got)
		}
		if now := c.about(t, "get", task); now.State.Status != "failed" || there(path) != "7" {
			t.Errorf("it is %+v", now)
		}
		g.waits("write_file", 6)

		// Stopped after it was approved.
		eight, path := write("eight", "8")
		if got := c.call(t, "write_file", eight, nil); !strings.Contains(text(got), "people decide") {
			t.Fatalf("%+v", got)
		}
		a = g.waits("write_file", 7)
		d.reviewer(t, 0).approve(a)
		agent.wait(a.ID)
		d.admin(t).do("POST", "/v1/admin/kill-switches", map[string]any{"agent_id": g.agent, "on": true, "reason": "a test"}).want(t, http.StatusOK)
		if got := c.call(t, "write_file", eight, nil); !got.IsError || there(path) != "" || !strings.Contains(text(got), "kill switch") {
			t.Errorf("%+v", got)
		}
	})
}
