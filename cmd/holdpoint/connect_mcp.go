package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"holdpoint/internal/mcpproxy"
)

type connectMCP struct {
	File      string   `arg:"" type:"path" help:"The host's configuration: claude_desktop_config.json, .mcp.json, .cursor/mcp.json, .vscode/mcp.json."`
	Server    []string `help:"A server in it to put the proxy before; may be given several times. Without one, all of them." placeholder:"NAME"`
	Data      string   `help:"Data directory of a running “holdpoint dev”, instead of --holdpoint and a key." type:"path" placeholder:"DIR"`
	Holdpoint string   `env:"HOLDPOINT_URL" help:"Where Holdpoint is." placeholder:"URL"`
	KeyFile   string   `help:"File with the agent's API key." type:"path" placeholder:"FILE"`
	Program   string   `help:"The holdpoint program that the host runs; by default this one." type:"path" placeholder:"FILE"`
	Write     bool     `help:"Change the file. Without it, what the file would be is printed."`
}

// Help is shown by "holdpoint connect mcp --help".
func (connectMCP) Help() string {
	return `Puts “holdpoint mcp-proxy” before servers that a host's configuration has. Without
--write nothing changes and the new configuration is printed. The former file is
kept beside it, with the ending .before-holdpoint. Start the host again afterwards.

Examples:
  holdpoint connect mcp .mcp.json --data .holdpoint
  holdpoint connect mcp ~/.cursor/mcp.json --server files --holdpoint https://holdpoint.example.com --key-file ~/.holdpoint-key --write`
}

func (m *connectMCP) Run(_ context.Context, _ *cli) error {
	command, err := m.command()
	if err != nil {
		return err
	}
	before, err := os.ReadFile(m.File)
	if err != nil {
		return fmt.Errorf("read the host's configuration: %w", err)
	}
	after, wrapped, err := mcpproxy.Wrap(before, m.Server, command)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", m.File, err)
	case len(wrapped) == 0:
		fmt.Fprintf(terminal, "%s has the proxy already: nothing to do\n", m.File)
		return nil
	case !m.Write:
		_, err := os.Stdout.Write(after)
		return err
	}
	if err := replaceSettings(m.File, before, after, false); err != nil {
		return err
	}
	fmt.Fprintf(terminal, "The proxy stands before %s in %s. Start the host again.\n", strings.Join(wrapped, ", "), m.File)
	return nil
}

// command is what runs the proxy. The key is in a file, and not in the configuration.
func (m *connectMCP) command() ([]string, error) {
	program := m.Program
	if program == "" {
		var err error
		if program, err = lastingProgram(); err != nil {
			return nil, err
		}
	}
	words := []string{program, "mcp-proxy"}
	if m.Data != "" {
		dir, err := filepath.Abs(m.Data)
		return append(words, "--data", dir), err
	}
	if !isAddress(m.Holdpoint) || m.KeyFile == "" {
		return nil, errors.New("say where Holdpoint is with --holdpoint, and where the agent's key is with --key-file; or name the data directory of a running “holdpoint dev” with --data")
	}
	return append(words, "--holdpoint", m.Holdpoint, "--key-file", m.KeyFile), nil
}
