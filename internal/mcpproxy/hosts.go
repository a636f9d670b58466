package mcpproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Wrap puts the proxy before the servers in a host's configuration: those named, or
// all of them, in mcpServers (Claude Desktop, Claude Code, Cursor) or servers (VS
// Code). command is what runs the proxy, up to --name. What has a proxy already
// stays, as does everything else. wrapped names the servers that are changed.
func Wrap(settings []byte, servers, command []string) (after []byte, wrapped []string, err error) {
	var all, entries map[string]json.RawMessage
	if err := json.Unmarshal(settings, &all); err != nil {
		return nil, nil, fmt.Errorf("it is not JSON (comments are not taken): %w", err)
	}
	member := "mcpServers"
	if all[member] == nil {
		member = "servers"
	}
	if json.Unmarshal(all[member], &entries) != nil || len(entries) == 0 {
		return nil, nil, errors.New("it has no servers, in mcpServers or servers")
	}
	if len(servers) == 0 {
		servers = slices.Sorted(maps.Keys(entries))
	}
	for _, name := range servers {
		if entries[name] == nil {
			return nil, nil, fmt.Errorf("it has no server %q", name)
		}
		entry, err := wrapEntry(name, entries[name], command)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		if entry != nil {
			entries[name] = entry
			wrapped = append(wrapped, name)
		}
	}
	if all[member], err = encode(entries); err != nil {
		return nil, nil, err
	}
	raw, err := encode(all)
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, nil, err
	}
	return append(out.Bytes(), '\n'), wrapped, nil
}

// wrapEntry is a server's entry with the proxy before it; nil when it has one.
func wrapEntry(name string, raw json.RawMessage, proxy []string) (json.RawMessage, error) {
	var entry map[string]json.RawMessage
	var is struct {
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		URL     string            `json:"url"`
		Type    string            `json:"type"`
		Headers map[string]string `json:"headers"`
		Env     map[string]string `json:"env"`
	}
	if err := json.Unmarshal(raw, &entry); err != nil {
		return nil, fmt.Errorf("read the entry: %w", err)
	}
	if err := json.Unmarshal(raw, &is); err != nil {
		return nil, fmt.Errorf("read the entry: %w", err)
	}
	// There are other programs of the name mcp-proxy, which ask nobody.
	if len(is.Args) > 0 && is.Args[0] == "mcp-proxy" && (is.Command == proxy[0] || program(is.Command) == "holdpoint") {
		return nil, nil
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	args := append(slices.Clone(proxy[1:]), "--name", name)
	switch {
	case is.Command != "" && is.URL == "":
		args = append(append(args, "--", is.Command), is.Args...)
	case is.URL != "" && is.Command == "" && is.Type != "sse":
		args = append(args, "--url", is.URL)
		// Values may be secrets: they are in the environment, not on a command line.
		if is.Env == nil {
			is.Env = map[string]string{}
		}
		for i, header := range slices.Sorted(maps.Keys(is.Headers)) {
			variable := fmt.Sprintf("MCP_HEADER_%d", i+1)
			is.Env[variable] = is.Headers[header]
			args = append(args, "--header", header+": ${"+variable+"}")
		}
		if len(is.Env) > 0 {
			entry["env"], _ = encode(is.Env) // texts always encode
		}
		delete(entry, "url")
		delete(entry, "headers")
	default:
		return nil, errors.New("it has neither a command nor the address of a server that speaks streamable HTTP")
	}
	var err error
	if entry["command"], err = encode(proxy[0]); err != nil {
		return nil, err
	}
	if entry["args"], err = encode(args); err != nil {
		return nil, err
	}
	if is.Type != "" {
		entry["type"] = json.RawMessage(`"stdio"`)
	}
	return encode(entry)
}

// program is the name of a command's program, whichever system's path it is.
func program(command string) string {
	return strings.TrimSuffix(command[strings.LastIndexAny(command, `/\`)+1:], ".exe")
}

// encode writes JSON for people to read: without escapes for HTML.
func encode(v any) (json.RawMessage, error) {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return json.RawMessage(strings.TrimSpace(out.String())), err
}
