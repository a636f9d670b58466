package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"

	"holdpoint/api"
	"holdpoint/api/mcp"
)

type mcpCommand struct {
	Serve mcpServe `cmd:"" default:"withargs" help:"Offer the tools of the API over standard input and output."`
}

type mcpServe struct {
	Data    string `help:"Data directory of a running “holdpoint dev”, instead of --url and a key." type:"path" placeholder:"DIR"`
	Runtime bool   `help:"With --data: use the runtime's key, which may claim that a user has confirmed; else the agent's."`
	URL     string `name:"url" env:"HOLDPOINT_URL" help:"Where the server is." placeholder:"URL"`
	KeyFile string `help:"File with the API key; else HOLDPOINT_API_KEY holds the key itself." type:"path" placeholder:"FILE"`
}

// Help is shown by "holdpoint mcp --help".
func (mcpCommand) Help() string {
	return "Without a further word it is “mcp serve”; “holdpoint mcp serve --help” has its flags.\n\n" + mcpServe{}.Help()
}

// Help is shown by "holdpoint mcp serve --help".
func (mcpServe) Help() string {
	return `Speaks the Model Context Protocol on standard input and output, for hosts that
start their servers as programs. Tools: aana_pre_tool_check, holdpoint_check,
holdpoint_await, holdpoint_cancel. Each call is a request to the server under
your key. Hosts that speak HTTP need no program: URL/mcp, with the key as
“Authorization: Bearer hp_…”.

In a host's configuration:
  {
    "mcpServers": {
      "holdpoint": {
        "command": "holdpoint",
        "args": ["mcp", "--url", "https://holdpoint.example.com"],
        "env": {"HOLDPOINT_API_KEY": "hp_…"}
      }
    }
  }

To try it:
  holdpoint mcp --data .holdpoint`
}

func (m *mcpServe) Run(ctx context.Context, _ *cli) error {
	address, key, err := m.server()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	door := http.DefaultTransport.(*http.Transport).Clone()
	tools, err := mcp.New(mcp.Config{URL: address, Door: door, Version: version(), Logger: log})
	if err != nil {
		return err
	}
	return tools.Serve(ctx, key, os.Stdin, os.Stdout)
}

// server is where to send requests, and under which key.
func (m *mcpServe) server() (address, key string, err error) {
	if m.Data != "" {
		running, err := readDevFile(m.Data)
		if err != nil {
			return "", "", err
		}
		if m.Runtime {
			return running.URL, running.RuntimeKey, nil
		}
		return running.URL, running.AgentKey, nil
	}
	if m.Runtime {
		return "", "", errors.New("--runtime goes with --data; elsewhere the key itself says what it is")
	}
	u, err := url.Parse(m.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", "", errors.New("say where the server is with --url or HOLDPOINT_URL, such as https://holdpoint.example.com, or name the data directory of a running “holdpoint dev” with --data")
	}
	key = os.Getenv("HOLDPOINT_API_KEY")
	if m.KeyFile != "" {
		data, err := os.ReadFile(m.KeyFile)
		if err != nil {
			return "", "", fmt.Errorf("read the API key: %w", err)
		}
		key = string(data)
	}
	if key = strings.TrimSpace(key); key == "" || strings.ContainsFunc(key, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return "", "", errors.New("give the API key in HOLDPOINT_API_KEY or in a file named by --key-file; it is one word, hp_…")
	}
	return strings.TrimRight(m.URL, "/"), key, nil
}

// modelContext is the tools for clients that come over HTTP. They go to the
// API without leaving the program.
func modelContext(handler http.Handler, metrics *api.Metrics, log *slog.Logger) (http.Handler, error) {
	tools, err := mcp.New(mcp.Config{URL: "http://in-process", Door: mcp.InProcess(api.Observe(handler, log, metrics)), Version: version(), Logger: log})
	if err != nil {
		return nil, err
	}
	return tools.Handler(), nil
}

// version is this program's, as the build says.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
