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
		program, "mcp-proxy", "--name", g.name, "--pins", filepath.Join(g.dir, "pins.json"), "--wait", "0s", "--holdpoint", g.d.URL,
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
	d := onShared(t)

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
	})
}
