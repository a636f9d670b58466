package hook

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
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
