package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Installed is a hook of ours in a host's settings.
type Installed struct {
	Event   string
	Matcher string // "*" or "" is every tool
	Command string // a line for a shell
	Timeout int    // seconds; 0 is the host's own
}

// ours is in the command of every hook that is ours.
const ours = " hook claude-code"

// Blocks makes of a command a line for a shell that never ends in any other way than
// with 0 or with 2, also where the program is missing or is killed.
func Blocks(command []string) string {
	quoted := make([]string, len(command))
	for i, word := range command {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ") + " || exit 2"
}

// quote writes a word so that a POSIX shell reads it as one.
func quote(word string) string {
	plain := word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return r > 'z' || !strings.ContainsRune("/._-=:@%+,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if plain {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// claudeCodeHook and claudeCodeMatcher are parts of Claude Code's settings.
type claudeCodeHook struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout,omitempty"`
	// OnFailure is of newer versions; older ones take no notice.
	OnFailure string `json:"onFailure,omitempty"`
}

type claudeCodeMatcher struct {
	Matcher string            `json:"matcher"`
	Hooks   []json.RawMessage `json:"hooks"`
}

// InstallClaudeCode returns Claude Code's settings with our hooks in them, each as the
// only one of ours for its event. Everything else stays.
func InstallClaudeCode(settings []byte, command string, timeout int) ([]byte, error) {
	all := map[string]json.RawMessage{}
	hooks := map[string][]json.RawMessage{}
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
	for _, event := range []string{preToolUse, postToolUse, postToolUseFailure} {
		h := claudeCodeHook{Type: "command", Command: command, Timeout: timeout}
		if event == preToolUse {
			h.OnFailure = "block"
		}
		one, err := encode(h)
		if err != nil {
			return nil, err
		}
		entry, err := encode(claudeCodeMatcher{"*", []json.RawMessage{one}})
		if err != nil {
			return nil, err
		}
		others, err := withoutOurs(hooks[event])
		if err != nil {
			return nil, err
		}
		hooks[event] = append(others, entry)
	}
	raw, err := encode(hooks)
	if err != nil {
		return nil, err
	}
	all["hooks"] = raw
	raw, err = encode(all)
	if err != nil {
		return nil, err
	}
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

// withoutOurs takes our hooks out of the entries of an event, and entries with no others.
func withoutOurs(entries []json.RawMessage) ([]json.RawMessage, error) {
	var kept []json.RawMessage
	for _, raw := range entries {
		var entry map[string]json.RawMessage
		var hooks []json.RawMessage
		if json.Unmarshal(raw, &entry) != nil || json.Unmarshal(entry["hooks"], &hooks) != nil {
			return nil, fmt.Errorf("an entry of the settings' hooks is not what Claude Code reads: %.80s", raw)
		}
		others := slices.DeleteFunc(slices.Clone(hooks), func(raw json.RawMessage) bool {
			var h claudeCodeHook
			return json.Unmarshal(raw, &h) == nil && strings.Contains(h.Command, ours)
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

// HooksRun says why Claude Code would run no hook by these settings; nil if it would.
func HooksRun(settings []byte) error {
	var switches struct {
		Off bool `json:"disableAllHooks"`
	}
	if err := json.Unmarshal(settings, &switches); err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	if switches.Off {
		return errors.New("disableAllHooks is on, so that Claude Code runs no hook: take it out")
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
	rest, found := strings.CutSuffix(line, " || exit 2")
	if !found {
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

// InClaudeCode finds our hooks in Claude Code's settings.
func InClaudeCode(settings []byte) ([]Installed, error) {
	var all struct {
		Hooks map[string][]struct {
			Matcher string           `json:"matcher"`
			Hooks   []claudeCodeHook `json:"hooks"`
		} `json:"hooks"`
	}
	if err := json.Unmarshal(settings, &all); err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	var found []Installed
	for _, event := range []string{preToolUse, postToolUse, postToolUseFailure} {
		for _, entry := range all.Hooks[event] {
			for _, h := range entry.Hooks {
				if strings.Contains(h.Command, ours) {
					found = append(found, Installed{event, entry.Matcher, h.Command, h.Timeout})
				}
			}
		}
	}
	return found, nil
}
