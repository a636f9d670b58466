package hook

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// opencodePlugin is the plugin that stands for settings: opencode has no others for hooks.
//
//go:embed opencode.js
var opencodePlugin []byte

const opencodeBefore, opencodeAfter, opencodeFailed = "tool.execute.before", "tool.execute.after", "tool.execute.error"

// opencodeLines is what the plugin is told, in the place of HOLDPOINT.
type opencodeLines struct {
	Before  string `json:"before"`
	After   string `json:"after"`
	Timeout int64  `json:"timeout"` // in milliseconds
}

var errNotAsWritten = errors.New("it is not as “holdpoint connect opencode” writes it, so that it is not known what it does: write it anew")

// opencodeWrites is the plugin that runs the command before and after each call.
func opencodeWrites(command []string, timeout time.Duration) ([]byte, error) {
	return opencodeFile(opencodeLines{Blocks(command), reports(command), timeout.Milliseconds()})
}

func opencodeFile(lines opencodeLines) ([]byte, error) {
	told, err := encode(lines)
	if err != nil {
		return nil, err
	}
	return bytes.Replace(opencodePlugin, []byte("HOLDPOINT"), told, 1), nil
}

// opencodeReads finds our hooks in a plugin, every byte of which has to be as we write it:
// code is not read otherwise.
func opencodeReads(plugin []byte) ([]Installed, error) {
	if len(bytes.TrimSpace(plugin)) == 0 {
		return nil, nil
	}
	before, after, _ := bytes.Cut(opencodePlugin, []byte("HOLDPOINT"))
	told, begins := bytes.CutPrefix(plugin, before)
	told, ends := bytes.CutSuffix(told, after)
	var lines opencodeLines
	if !begins || !ends || json.Unmarshal(told, &lines) != nil {
		return nil, errNotAsWritten
	}
	same, err := opencodeFile(lines)
	if err != nil {
		return nil, fmt.Errorf("read the plugin: %w", err)
	}
	if !bytes.Equal(same, plugin) {
		return nil, errNotAsWritten
	}
	timeout := time.Duration(lines.Timeout) * time.Millisecond
	return []Installed{
		{Event: opencodeBefore, Command: lines.Before, Timeout: timeout},
		{Event: opencodeAfter, Command: lines.After, Timeout: timeout},
		{Event: opencodeFailed, Command: lines.After, Timeout: timeout},
	}, nil
}

// OpenCodeNeeds returns settings of the machine's by which opencode loads the plugin in a
// file, and has no model without it: started without plugins, or with one that cannot be
// loaded, it runs nothing. Nothing but the plugin enables another provider again, since
// these settings come after all others.
func OpenCodeNeeds(settings []byte, plugin string) ([]byte, error) {
	all := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(settings)) > 0 {
		if err := json.Unmarshal(settings, &all); err != nil {
			return nil, fmt.Errorf("read the settings: %w", err)
		}
	}
	var plugins []json.RawMessage
	if was, ok := all["plugin"]; ok {
		if err := json.Unmarshal(was, &plugins); err != nil {
			return nil, fmt.Errorf("read the settings' plugin: %w", err)
		}
	}
	if was, ok := all["enabled_providers"]; ok && !onlyByPlugin(was) {
		return nil, errors.New("enabled_providers is set there, and it is what makes opencode need the plugin: take it out, and set it for each user")
	}
	own, err := encode("file://" + plugin)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(plugins, func(raw json.RawMessage) bool { return bytes.Equal(raw, own) }) {
		plugins = append(plugins, own)
	}
	if all["plugin"], err = encode(plugins); err != nil {
		return nil, err
	}
	all["enabled_providers"] = json.RawMessage(`["holdpoint"]`)
	raw, err := encode(all)
	if err != nil {
		return nil, err
	}
	return indented(raw)
}

// OpenCodeHas reports whether settings are such that opencode needs the plugin in a file.
func OpenCodeHas(settings []byte, plugin string) bool {
	var all struct {
		Plugin    []json.RawMessage `json:"plugin"`
		Providers json.RawMessage   `json:"enabled_providers"`
	}
	own, err := encode("file://" + plugin)
	return err == nil && json.Unmarshal(settings, &all) == nil && onlyByPlugin(all.Providers) &&
		slices.ContainsFunc(all.Plugin, func(raw json.RawMessage) bool { return bytes.Equal(raw, own) })
}

func onlyByPlugin(providers json.RawMessage) bool {
	var names []string
	return json.Unmarshal(providers, &names) == nil && len(names) == 1 && names[0] == "holdpoint"
}
