package store

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdpoint/engine"
	"holdpoint/engine/audit"
)

// TestReaderRecords: the reader's role can append that it exports, and nothing that
// makes the log one that nobody can read, or a pack's pages what they are not.
func TestReaderRecords(t *testing.T) {
	ctx := context.Background()
	url := migrated(t)
	conn := connect(t, url)
	if _, err := conn.Exec(ctx, `SET ROLE holdpoint_reader`); err != nil {
		t.Fatal(err)
	}
	event := func(payload string) (id, body string) {
		id = uuid.NewString()
		data, err := json.Marshal(engine.Event{
			ID: id, Type: engine.Exported, RequestID: "req_1", Outcome: engine.Allow, SafePayload: json.RawMessage(payload),
			Reasons: []engine.Reason{{Code: "EXPORTED", Message: "The audit log was exported."}}, Actor: engine.Actor{Kind: engine.ServiceActor, ID: "root", Channel: "cli"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return id, string(data)
	}
	record := func(id, body string) error {
		_, err := conn.Exec(ctx, `SELECT record_export($1::text::uuid, $2)`, id, []byte(body))
		return err
	}
	id, body := event(`{"after":7,"digest":"sha256:x","events":9007199254740991,"filter":{"since":"2026-01-01T00:00:00Z","tool_name":"<é\u2028>"},"format":"jsonl","size":9}`)
	if err := record(id, body); err != nil {
		t.Fatalf("an export: %v", err)
	}
	var stored []byte
	var at time.Time
	if err := conn.QueryRow(ctx, `SELECT body, appended_at FROM events WHERE event_id = $1::text::uuid`, id).Scan(&stored, &at); err != nil {
		t.Fatal(err)
	}
	of := func(body []byte) string {
		return string(audit.Record{Leaf: 4, ID: id, At: at, Type: "export", Outcome: "ALLOW", Body: body}.Document())
	}
	if got, want := of(stored), of([]byte(body)); got != want || strings.Contains(got, "unreadable") {
		t.Errorf("recorded as %s, want %s", got, want)
	}
	for name, bad := range map[string]func(body string) string{
		"another event's id": func(s string) string { return strings.Replace(s, `"event_id":"`, `"event_id":"0`, 1) },
		"no id":              func(s string) string { return strings.Replace(s, `"event_id"`, `"event_ids"`, 1) },
		"a decision":         func(s string) string { return strings.Replace(s, `"type":"export"`, `"type":"decision"`, 1) },
		"two types": func(s string) string {
			return strings.Replace(s, `"type":"export"`, `"type":"export","type":"decision"`, 1)
		},
		"two types, as jsonb": func(s string) string {
			return strings.Replace(s, `"type":"export"`, `"type":"decision","type":"export"`, 1)
		},
		"two formats": func(s string) string { return strings.Replace(s, `"format":`, `"format":"csv","format":`, 1) },
		"two codes":   func(s string) string { return strings.Replace(s, `"code":`, `"code":"X","code":`, 1) },
		"a type in another case": func(s string) string {
			return strings.Replace(s, `"type":"export"`, `"type":"export","Type":"decision"`, 1)
		},
		"an approval":         func(s string) string { return strings.Replace(s, `"type":`, `"approval_id":"apr_1","type":`, 1) },
		"a place":             func(s string) string { return strings.Replace(s, `"type":`, `"seq":1,"type":`, 1) },
		"a name in two cases": func(s string) string { return strings.Replace(s, `"format":`, `"Format":"csv","format":`, 1) },
		"no whole number":     func(s string) string { return strings.Replace(s, `"size":9`, `"size":9.5`, 1) },
		"a zero with a sign":  func(s string) string { return strings.Replace(s, `"size":9`, `"size":-0`, 1) },
		"a number below zero": func(s string) string { return strings.Replace(s, `"size":9`, `"size":-9`, 1) },
		"a number too large":  func(s string) string { return strings.Replace(s, `"size":9`, `"size":1e400`, 1) },
		"a number too exact":  func(s string) string { return strings.Replace(s, `"size":9`, `"size":9007199254740993`, 1) },
		"reasons of one text": func(s string) string { return strings.Replace(s, `"reasons":[`, `"reasons":["x",`, 1) },
		"no reasons":          func(s string) string { return strings.Replace(s, `"reasons":[`, `"reasons":0,"x":[`, 1) },
		"an actor of numbers": func(s string) string { return strings.Replace(s, `"id":"root"`, `"id":5`, 1) },
		"a pack's pages":      func(s string) string { return strings.Replace(s, `"size":9`, `"pages":"sha256:x"`, 1) },
		"a pack":              func(s string) string { return strings.Replace(s, `"size":9`, `"as":"evidence_pack"`, 1) },
		"depth": func(s string) string {
			return strings.Replace(s, `"size":9`, `"size":`+strings.Repeat("[", 70)+strings.Repeat("]", 70), 1)
		},
		"a list without end": func(s string) string {
			return strings.Replace(s, `"size":9`, `"size":[9`+strings.Repeat(",9", 2000)+`]`, 1)
		},
		"no object": func(string) string { return `["export"]` },
	} {
		id, body := event(`{"format":"jsonl","size":9}`)
		changed := bad(body)
		if changed == body {
			t.Fatalf("%s: nothing was changed", name)
		}
		if err := record(id, changed); err == nil {
			t.Errorf("%s is recorded", name)
		}
	}
}
