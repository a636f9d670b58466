package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	holdpoint "holdpoint.example/client"

	"holdpoint/internal/mcpproxy"
)

type mcpProxyCommand struct {
	Run    mcpProxyRun    `cmd:"" default:"withargs" help:"Stand between a host and an MCP server."`
	Accept mcpProxyAccept `cmd:"" help:"Show what a server has changed about its tools, and accept it."`
}

// pinFile names the file of a server's accepted tools.
type pinFile struct {
	Name string `help:"Your name for the server. Its tool t is NAME__t in policies and the registry." placeholder:"NAME"`
	Pins string `help:"File with the server's accepted tools; else NAME.json in holdpoint/mcp-pins of your configuration directory." type:"path" placeholder:"FILE"`
}

func (f pinFile) open() (*mcpproxy.Pins, error) {
	if f.Pins != "" {
		return &mcpproxy.Pins{Path: f.Pins}, nil
	}
	if err := mcpproxy.CheckName(f.Name); err != nil {
		return nil, fmt.Errorf("--name: %w", err)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil, fmt.Errorf("say with --pins where the accepted tools are kept: %w", err)
	}
	return &mcpproxy.Pins{Path: filepath.Join(dir, "holdpoint", "mcp-pins", f.Name+".json")}, nil
}

type mcpProxyRun struct {
	pinFile
	URL         string        `name:"url" help:"The MCP server's address, for one that speaks streamable HTTP, instead of a command." placeholder:"URL"`
	Header      []string      `help:"Header of each request to --url, such as 'Authorization: Bearer $${TOKEN}' with a variable of the environment; may be given several times." sep:"none" placeholder:"HEADER"`
	Data        string        `help:"Data directory of a running “holdpoint dev”, instead of --holdpoint and a key." type:"path" placeholder:"DIR"`
	Holdpoint   string        `env:"HOLDPOINT_URL" help:"Where Holdpoint is." placeholder:"URL"`
	KeyFile     string        `help:"File with the agent's API key; else HOLDPOINT_API_KEY holds the key itself." type:"path" placeholder:"FILE"`
	Agent       string        `help:"The id of the key's agent, as it is registered; else it is learned from the answers." placeholder:"ID"`
	Wait        time.Duration `default:"45s" help:"How long a call is held while people decide. Less than the time after which the host gives up."`
	Constraints bool          `name:"server-keeps-constraints" help:"The server keeps to what a call's _meta has as holdpoint/constraints; else calls under constraints are not run."`
	Filter      bool          `name:"filter-results" help:"Leave out of results what the tool's contract does not let the agent see; a result that cannot be looked at is held back."`
	Server      []string      `arg:"" optional:"" passthrough:"" help:"The MCP server's command, after --." placeholder:"COMMAND"`
}

const mcpProxyHelp = `Stands between a host of the Model Context Protocol and one of its servers. The
host starts this instead of the server. Every call of a tool is proposed to
Holdpoint under the agent's key as NAME__tool, and reaches the server only when
it is accepted, or approved and its token redeemed: with the arguments as they
were approved, once. What became of it is reported. Everything else passes.

A call that waits for people is held for --wait; then the host is told to call
again with the same arguments. A host that has tasks calls it as one and comes
back for the result, also after the proxy was started anew; one that shows links is given the approval's page. When
Holdpoint cannot be asked, nothing runs.

The server's tools are pinned the first time. A tool that is described
otherwise later, or is new, is held back until you accept it.

Examples:
  holdpoint mcp-proxy --name files --data .holdpoint -- npx -y @modelcontextprotocol/server-filesystem /srv/files
  holdpoint mcp-proxy --name crm --url https://crm.example.com/mcp --header 'Authorization: Bearer ${CRM_TOKEN}'
  holdpoint mcp-proxy accept --name files

In a host's configuration (“holdpoint connect mcp” writes it):
  {
    "mcpServers": {
      "files": {
        "command": "holdpoint",
        "args": ["mcp-proxy", "--name", "files", "--", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/files"],
        "env": {"HOLDPOINT_URL": "https://holdpoint.example.com", "HOLDPOINT_API_KEY": "hp_…"}
      }
    }
  }`

// Help is shown by "holdpoint mcp-proxy --help".
func (mcpProxyCommand) Help() string { return mcpProxyHelp }

// Help is shown by "holdpoint mcp-proxy run --help".
func (mcpProxyRun) Help() string { return mcpProxyHelp }

func (m *mcpProxyRun) Run(ctx context.Context, _ *cli) error {
	command := m.Server
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if err := mcpproxy.CheckName(m.Name); err != nil {
		return fmt.Errorf("--name: %w", err)
	}
	if (m.URL == "") == (len(command) == 0) {
		return errors.New("say which server to stand before: its command after --, or its address with --url")
	}
	gate, err := m.gate()
	if err != nil {
		return err
	}
	pins, err := m.open()
	if err != nil {
		return err
	}
	server, err := m.connect(ctx, command)
	if err != nil {
		return err
	}
	host := mcpproxy.Lines(os.Stdin, os.Stdout)
	p, err := mcpproxy.New(mcpproxy.Config{
		Name: m.Name, Gate: gate, Pins: pins, Tasks: strings.TrimSuffix(pins.Path, ".json") + ".tasks", Wait: m.Wait, Data: m.Data, KeepsConstraints: m.Constraints, FilterResults: m.Filter,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}, host, server)
	if err == nil {
		err = p.Run(ctx)
	}
	return errors.Join(err, server.Close())
}

// gate is the Holdpoint server that decides, and the key under which it is asked.
func (m *mcpProxyRun) gate() (*mcpproxy.Gate, error) {
	if m.Data == "" && m.Holdpoint == "" {
		return nil, errors.New("say where Holdpoint is with --holdpoint or HOLDPOINT_URL, or name the data directory of a running “holdpoint dev” with --data")
	}
	where := clientFlags{Data: m.Data, URL: m.Holdpoint, KeyFile: m.KeyFile}
	address, key, err := where.server()
	if err != nil {
		return nil, err
	}
	return &mcpproxy.Gate{Client: &holdpoint.Client{URL: address, Key: key}, Agent: m.Agent}, nil
}

func (m *mcpProxyRun) connect(ctx context.Context, command []string) (sdk.Connection, error) {
	if m.URL == "" {
		if len(m.Header) > 0 {
			return nil, errors.New("--header goes with --url")
		}
		server, err := mcpproxy.Command(command[0], command[1:], os.Stderr)
		if err != nil {
			return nil, fmt.Errorf("start the server: %w", err)
		}
		return server, nil
	}
	if !isAddress(m.URL) {
		return nil, errors.New("--url is no address such as https://crm.example.com/mcp")
	}
	header := http.Header{}
	for _, text := range m.Header {
		name, value, ok := strings.Cut(text, ":")
		var missing error
		value = os.Expand(strings.TrimSpace(value), func(variable string) string {
			got, there := os.LookupEnv(variable)
			if !there {
				missing = fmt.Errorf("--header: %s is not in the environment", variable)
			}
			return got
		})
		if !ok || missing != nil {
			return nil, errors.Join(errors.New("--header is NAME: VALUE"), missing)
		}
		header[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))] = []string{value}
	}
	return mcpproxy.Remote(ctx, m.URL, header)
}

type mcpProxyAccept struct {
	pinFile
	Tool     []string `arg:"" optional:"" help:"Tools whose held description to accept; without one they are only shown."`
	All      bool     `help:"Accept all that is held."`
	Commands bool     `help:"Print nothing but the commands that register the tools that are accepted, for a shell. Look at the tools before."`
	Data     string   `help:"Data directory of a running “holdpoint dev” for those commands to work on." placeholder:"DIR"`
}

// Help is shown by "holdpoint mcp-proxy accept --help".
func (mcpProxyAccept) Help() string {
	return `Shows the pinned tools of a server, and what it says otherwise now. Read that: a
description is an instruction to the model. What you name is accepted, and calls
of it are possible again at once; proxies that run need no restart. For each tool
the command is shown that registers it as it is now.

Examples:
  holdpoint mcp-proxy accept --name files
  holdpoint mcp-proxy accept --name files write_file
  holdpoint mcp-proxy accept --pins /etc/holdpoint/files.json --all
  holdpoint mcp-proxy accept --name files --commands --data .holdpoint | sh`
}

func (m *mcpProxyAccept) Run(_ context.Context, _ *cli) error {
	file, err := m.open()
	if err != nil {
		return err
	}
	pins, err := file.List()
	if err != nil {
		return err
	}
	for _, name := range m.Tool {
		if !slices.ContainsFunc(pins, func(p mcpproxy.Pin) bool { return p.Name == name && p.Held != "" }) {
			return fmt.Errorf("%s: nothing of it is held", name)
		}
	}
	server := orText(m.Name, "NAME")
	if m.Commands {
		return m.commands(server, pins)
	}
	for _, pin := range pins {
		name := strings.ReplaceAll(pin.Name, "\n", `\n`) // it is the server's: a line of its own would pass for ours
		switch {
		case pin.Held == "":
			fmt.Fprintf(terminal, "%s  accepted\n  is:  %s\n", name, pin.Accepted)
		case pin.Accepted == "":
			fmt.Fprintf(terminal, "%s  HELD: it is new\n  now: %s\n", name, pin.Held)
		default:
			fmt.Fprintf(terminal, "%s  HELD: it has changed\n  was: %s\n  now: %s\n", name, pin.Accepted, pin.Held)
		}
		if pin.Held != "" && (m.All || slices.Contains(m.Tool, pin.Name)) {
			if err := file.Accept(pin); err != nil {
				return err
			}
			fmt.Fprintf(terminal, "  accepted now\n")
		}
		fmt.Fprintf(terminal, "  %s\n", m.register(server, pin))
	}
	return nil
}

// register is the command that registers a tool as it is now.
func (m *mcpProxyAccept) register(server string, pin mcpproxy.Pin) string {
	return mcpproxy.Register(mcpproxy.ToolName(server, pin.Name), pin.Sum, m.Data)
}

// commands prints the commands for a shell, of tools that are accepted and have a name that is
// text on one line. The names are the server's, so each is one quoted word.
func (m *mcpProxyAccept) commands(server string, pins []mcpproxy.Pin) error {
	switch {
	case m.Name == "":
		return errors.New("--commands: say with --name what the tools are called here")
	case m.All || len(m.Tool) > 0:
		return errors.New("--commands prints, and accepts nothing: accept first")
	}
	for _, pin := range pins {
		switch {
		case pin.Held != "":
			fmt.Fprintf(terminalError, "left out: %q is held\n", pin.Name)
		case strings.ContainsFunc(pin.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
			fmt.Fprintf(terminalError, "left out: the name %q has characters that are not shown\n", pin.Name)
		default:
			fmt.Fprintln(terminal, m.register(server, pin))
		}
	}
	return nil
}
