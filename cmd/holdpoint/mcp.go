package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"

	"go.opentelemetry.io/otel/trace"

	"holdpoint/api"
	"holdpoint/api/mcp"
)

type mcpCommand struct {
	Serve mcpServe `cmd:"" default:"withargs" help:"Offer the tools of the API over standard input and output."`
}

type mcpServe struct {
	clientFlags
}

// Help is shown by "holdpoint mcp --help".
func (mcpCommand) Help() string {
	return "Without a further word it is “mcp serve”; “holdpoint mcp serve --help” has its flags.\n\n" + mcpServe{}.Help()
}

// Help is shown by "holdpoint mcp serve --help".
func (mcpServe) Help() string {
	return `Speaks the Model Context Protocol on standard input and output, for hosts that
start their servers as programs. Tools: aana_pre_tool_check, holdpoint_check,
holdpoint_await, holdpoint_cancel, and for hosts without code of their own
holdpoint_redeem and holdpoint_report. Each call is a request to the server under
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

// modelContext is the tools for clients that come over HTTP. They go to the
// API without leaving the program.
func modelContext(handler http.Handler, metrics *api.Metrics, log *slog.Logger, spans trace.Tracer) (http.Handler, error) {
	tools, err := mcp.New(mcp.Config{URL: "http://in-process", Door: mcp.InProcess(api.Observe(handler, log, metrics, spans)), Version: version(), Logger: log})
	if err != nil {
		return nil, err
	}
	return tools.Handler(), nil
}

// version is this program's, as the build says.
func version() string { return thisBuild().Version }
