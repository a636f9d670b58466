package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine/shellword"
)

// Installed is a hook of ours in a host's settings.
type Installed struct {
	Event   string
	Matcher string // "*" or "" is every tool
	Command string // a line for a shell
	Timeout time.Duration
	// Open says that the host lets the call run where the hook fails, and could be told
	// not to.
	Open bool
}

// commandMark is in the command of every hook of this host that is ours.
func (h *Host) commandMark() string { return " hook " + h.Name }

// Blocks makes of a command a line for a shell that ends with 0 or with 2 and in no
// other way, also where the program is missing or is killed. Where it ends with 2
// something is written to standard error, and standard input is read to its end, both
// because Codex runs the call otherwise.
func Blocks(command []string) string {
	return blocksBefore + shellword.Command(command...) + blocksAfter
}

const (
	blocksBefore = `/bin/sh -c '"$@" || { exec 3<&0; cat <&3 >/dev/null 2>&1 & echo "Holdpoint: the call does not run." >&2; exit 2; }' holdpoint `
	blocksAfter  = ` || exit 2`
)

// reports makes of a command a line for a shell by which the host's user hears that a
// report went wrong, and nothing else happens: the call has run.
func reports(command []string) string { return shellword.Command(command...) + " || exit 1" }

// settingsHook and settingsMatcher are parts of the hosts' settings, which are alike.
type settingsHook struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout,omitempty"` // in the host's unit
	// OnFailure is of newer versions of Claude Code; older ones take no notice.
	OnFailure string `json:"onFailure,omitempty"`
}

type settingsMatcher struct {
	Matcher string            `json:"matcher"`
	Hooks   []json.RawMessage `json:"hooks"`
}

// flatHook is an entry of Cursor's settings. Without a matcher it is for every tool.
type flatHook struct {
	Command    string `json:"command"`
	Timeout    int    `json:"timeout,omitempty"`
	FailClosed bool   `json:"failClosed,omitempty"`
	Matcher    string `json:"matcher,omitempty"`
}

// entry is that of our hook for an event.
func (h *Host) entry(event string, command []string, timeout time.Duration) (json.RawMessage, error) {
	hook := settingsHook{Type: "command", Command: reports(command), Timeout: int(timeout / h.Unit)}
	if event == h.Before {
		hook.Command = Blocks(command)
		if h.blocks {
			hook.OnFailure = "block"
		}
	}
	if h.flat {
		return encode(flatHook{Command: hook.Command, Timeout: hook.Timeout, FailClosed: event == h.Before})
	}
	one, err := encode(hook)
	if err != nil {
		return nil, err
	}
	return encode(settingsMatcher{"*", []json.RawMessage{one}})
}

// Install returns a host's settings with our hooks in them, each as the only one of ours
// for its event, which runs the command. Everything else stays, where there may be more.
func (h *Host) Install(settings []byte, command []string, timeout time.Duration) ([]byte, error) {
	if h.writes != nil {
		return h.writes(command, timeout)
	}
	all := map[string]json.RawMessage{}
	hooks := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(settings)) > 0 {
		if err := json.Unmarshal(settings, &all); err != nil {
			return nil, fmt.Errorf("read the settings: %w", err)
		}
	}
	if raw, ok := all["hooks"]; ok {
		if err := json.Unmarshal(raw, &hooks); err != nil {
			return nil, fmt.Errorf("read the settings' hooks: %w", err)
		}
	}
	for _, event := range h.events() {
		entry, err := h.entry(event, command, timeout)
		if err != nil {
			return nil, err
		}
		var entries []json.RawMessage
		if was, ok := hooks[event]; ok {
			if err := json.Unmarshal(was, &entries); err != nil {
				return nil, fmt.Errorf("read the settings' hooks for %s: %w", event, err)
			}
		}
		others, err := h.withoutOurs(entries)
		if err != nil {
			return nil, err
		}
		if hooks[event], err = encode(append(others, entry)); err != nil {
			return nil, err
		}
	}
	raw, err := encode(hooks)
	if err != nil {
		return nil, err
	}
	all["hooks"] = raw
	if _, says := all["version"]; h.version > 0 && !says {
		all["version"] = json.RawMessage(strconv.Itoa(h.version))
	}
	raw, err = encode(all)
	if err != nil {
		return nil, err
	}
	return indented(raw)
}

func indented(raw json.RawMessage) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, err
	}
	return append(out.Bytes(), '\n'), nil
}

// encode is json.Marshal that leaves &, < and > of commands as they are.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write the settings: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// isOurs reports whether a command is our hook's: "… hook cursor", and not "… hook cursor-lint.sh".
func (h *Host) isOurs(command string) bool { return strings.Contains(command+" ", h.commandMark()+" ") }

// withoutOurs takes our hooks out of the entries of an event, and entries with no others.
func (h *Host) withoutOurs(entries []json.RawMessage) ([]json.RawMessage, error) {
	var kept []json.RawMessage
	for _, raw := range entries {
		if h.flat {
			var hook flatHook
			if err := json.Unmarshal(raw, &hook); err != nil {
				return nil, fmt.Errorf("an entry of the settings' hooks is not what %s reads: %.80s", h.Title, raw)
			}
			if !h.isOurs(hook.Command) {
				kept = append(kept, raw)
			}
			continue
		}
		var entry map[string]json.RawMessage
		var hooks []json.RawMessage
		if json.Unmarshal(raw, &entry) != nil || json.Unmarshal(entry["hooks"], &hooks) != nil {
			return nil, fmt.Errorf("an entry of the settings' hooks is not what %s reads: %.80s", h.Title, raw)
		}
		others := slices.DeleteFunc(slices.Clone(hooks), func(raw json.RawMessage) bool {
			var hook settingsHook
			return json.Unmarshal(raw, &hook) == nil && h.isOurs(hook.Command)
		})
		switch {
		case len(others) == len(hooks):
			kept = append(kept, raw)
		case len(others) > 0:
			list, err := encode(others)
			if err != nil {
				return nil, err
			}
			entry["hooks"] = list
			changed, err := encode(entry)
			if err != nil {
				return nil, err
			}
			kept = append(kept, changed)
		}
	}
	return kept, nil
}

func (h *Host) events() []string { return append([]string{h.Before}, h.After...) }

// HooksRun says why the host would run no hook of ours by these settings; nil if it
// would.
func (h *Host) HooksRun(settings []byte) error {
	if h.reads != nil {
		return nil
	}
	var switches struct {
		Off    bool `json:"disableAllHooks"` // Claude Code, Copilot CLI
		Config struct {
			Enabled  *bool    `json:"enabled"`
			Disabled []string `json:"disabled"`
		} `json:"hooksConfig"` // Gemini CLI
	}
	if err := json.Unmarshal(settings, &switches); err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	switch {
	case (h == ClaudeCode || h == CopilotCLI) && switches.Off:
		return fmt.Errorf("disableAllHooks is on, so that %s runs no hook: take it out", h.Title)
	case h == GeminiCLI && switches.Config.Enabled != nil && !*switches.Config.Enabled:
		return errors.New("hooksConfig.enabled is off, so that Gemini CLI runs no hook: take it out")
	case h == GeminiCLI && slices.ContainsFunc(switches.Config.Disabled, func(name string) bool { return strings.Contains(name, h.commandMark()) }):
		return errors.New("hooksConfig.disabled names the hook, so that Gemini CLI does not run it: take it out")
	}
	return nil
}

// OnlyManagedHooks reports whether these settings of the machine let no other hooks run.
func OnlyManagedHooks(settings []byte) bool {
	var switches struct {
		Managed bool `json:"allowManagedHooksOnly"`
	}
	return json.Unmarshal(settings, &switches) == nil && switches.Managed
}

// Words are those of a line that Blocks has made; ok is false for any other line.
func Words(line string) (words []string, ok bool) {
	rest, begins := strings.CutPrefix(line, blocksBefore)
	rest, ends := strings.CutSuffix(rest, blocksAfter)
	if !begins || !ends {
		return nil, false
	}
	var word strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\'':
			quoted, begun = !quoted, true
		case !quoted && c == '\\' && i+1 < len(rest):
			i++
			word.WriteByte(rest[i])
		case !quoted && c == ' ':
			if begun || word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteByte(c)
		}
	}
	if begun || word.Len() > 0 {
		words = append(words, word.String())
	}
	return words, !quoted && Blocks(words) == line
}

// Hooks finds our hooks in a host's settings.
func (h *Host) Hooks(settings []byte) ([]Installed, error) {
	if h.reads != nil {
		return h.reads(settings)
	}
	var all struct {
		Hooks map[string]json.RawMessage `json:"hooks"`
	}
	if err := json.Unmarshal(settings, &all); err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	var found []Installed
	for _, event := range h.events() {
		var entries []struct {
			flatHook
			Hooks []settingsHook `json:"hooks"`
		}
		if raw, ok := all.Hooks[event]; ok {
			if err := json.Unmarshal(raw, &entries); err != nil {
				return nil, fmt.Errorf("read the settings' hooks for %s: %w", event, err)
			}
		}
		for _, entry := range entries {
			hooks := entry.Hooks
			if h.flat {
				hooks = []settingsHook{{Command: entry.Command, Timeout: entry.Timeout}}
			}
			for _, hook := range hooks {
				if h.isOurs(hook.Command) {
					open := h.flat && event == h.Before && !entry.FailClosed
					found = append(found, Installed{event, entry.Matcher, hook.Command, time.Duration(hook.Timeout) * h.Unit, open})
				}
			}
		}
	}
	return found, nil
}
