package logtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
)

// entry is the leaf data of the event, made from the format's description alone
// (package audit), and who the event names as its actor.
func (x index) entry() (entry []byte, actor string, err error) {
	at := x.EventAt.UTC().Format("2006-01-02T15:04:05.999999Z")
	if x.EventAt.Nanosecond()%int(time.Microsecond) != 0 {
		return nil, "", errors.New("its time has nanoseconds")
	}
	document := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(x.Body))
	err = decoder.Decode(&document)
	if by, ok := document["actor"].(map[string]any); ok {
		actor, _ = by["id"].(string)
	}
	if _, more := decoder.Token(); err != nil || !errors.Is(more, io.EOF) || !x.agrees(document) {
		// What agrees with its columns is all that the programs write.
		document = map[string]any{
			"event_id": x.ID, "type": x.EventType, "outcome": x.EventOutcome, "agent_id": x.EventAgent, "tool_name": x.EventTool,
			"approval_id": x.EventApproval, "unreadable": base64.StdEncoding.EncodeToString(x.Body),
		}
	}
	document["timestamp"], document["seq"] = at, float64(x.Leaf+1)
	var text bytes.Buffer
	if err := write(&text, document); err != nil {
		return nil, "", err
	}
	return fmt.Appendf(nil, `{"digest":"sha256:%x","seq":%d,"time":"%s","v":1}`, sha256.Sum256(text.Bytes()), x.Leaf+1, at), actor, nil
}

func (x index) agrees(document map[string]any) bool {
	_, seq := document["seq"]
	_, timestamp := document["timestamp"]
	approval, _ := document["approval_id"].(string)
	return !seq && !timestamp && approval == x.EventApproval && document["event_id"] == x.ID && document["type"] == x.EventType &&
		document["outcome"] == x.EventOutcome && document["agent_id"] == x.EventAgent && document["tool_name"] == x.EventTool
}

// write writes a value's RFC 8785 form: members in order of their names' UTF-16,
// numbers as ECMAScript writes them, only what has to be escaped escaped.
func write(w *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case map[string]any:
		names := slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		w.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				w.WriteByte(',')
			}
			quote(w, name)
			w.WriteByte(':')
			if err := write(w, v[name]); err != nil {
				return err
			}
		}
		w.WriteByte('}')
	case []any:
		w.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				w.WriteByte(',')
			}
			if err := write(w, item); err != nil {
				return err
			}
		}
		w.WriteByte(']')
	case string:
		quote(w, v)
	default: // nil, a bool or a number: Go writes them as ECMAScript does
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		w.Write(text)
	}
	return nil
}

func quote(w *bytes.Buffer, s string) {
	w.WriteByte('"')
	for _, r := range s {
		if at := strings.IndexRune("\b\t\n\f\r\"\\", r); at >= 0 {
			w.WriteString([]string{`\b`, `\t`, `\n`, `\f`, `\r`, `\"`, `\\`}[at])
		} else if r < ' ' {
			fmt.Fprintf(w, `\u%04x`, r)
		} else {
			w.WriteRune(r)
		}
	}
	w.WriteByte('"')
}
