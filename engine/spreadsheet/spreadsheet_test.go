package spreadsheet_test

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/spreadsheet"
	"holdpoint/internal/golden"
)

// samples are realistic events of every type, shared with the other export.
func samples(t testing.TB) []engine.Event {
	t.Helper()
	text, err := os.ReadFile("../ocsf/testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var events []engine.Event
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var e engine.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	if lines.Err() != nil || len(events) < 24 {
		t.Fatalf("%d samples: %v", len(events), lines.Err())
	}
	return events
}

// TestColumns: the columns and their order stay for ever.
func TestColumns(t *testing.T) {
	const want = "seq timestamp event_id type outcome agent_id tool_name approval_id actor_kind actor_id actor_channel request_id " +
		"reason_codes reason_messages policy_digest digest_hmac prev_outcome plugin_source requirements safe_payload"
	if got := strings.Join(spreadsheet.Header(), " "); got != want {
		t.Errorf("the columns are\n%s\nwant\n%s", got, want)
	}
	spreadsheet.Header()[0] = "changed"
	if spreadsheet.Header()[0] != "seq" {
		t.Error("who is given the header can change it")
	}
}

// TestSamples holds the file of all samples against the golden one, and reads
// every event back from it, whole.
func TestSamples(t *testing.T) {
	events := samples(t)
	var file bytes.Buffer
	w := csv.NewWriter(&file)
	if err := spreadsheet.Write(w, spreadsheet.Header()); err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if err := spreadsheet.Write(w, spreadsheet.Row(e)); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	golden.Equal(t, "testdata/events.golden.csv", file.Bytes())
	r := csv.NewReader(&file)
	r.FieldsPerRecord = len(spreadsheet.Header())
	if _, err := r.Read(); err != nil {
		t.Fatal(err)
	}
	for _, want := range events {
		record, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		if got := event(t, record); !reflect.DeepEqual(got, want) {
			t.Errorf("got:  %+v\nwant: %+v", got, want)
		}
	}
	if _, err := r.Read(); err != io.EOF {
		t.Errorf("after the last event: %v", err)
	}
}

// event reads a record back.
func event(t *testing.T, record []string) engine.Event {
	t.Helper()
	cells := map[string]string{}
	for i, name := range spreadsheet.Header() {
		text, err := spreadsheet.Unguard(record[i])
		if err != nil {
			t.Fatal(err)
		}
		cells[name] = text
	}
	read := func(name string, into any) {
		if cells[name] == "" {
			return
		}
		if err := json.Unmarshal([]byte(cells[name]), into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	e := engine.Event{
		ID: cells["event_id"], Type: engine.EventType(cells["type"]), Outcome: engine.Outcome(cells["outcome"]), AgentID: cells["agent_id"],
		ToolName: cells["tool_name"], ApprovalID: cells["approval_id"], RequestID: cells["request_id"], PolicyDigest: cells["policy_digest"],
		DigestHMAC: cells["digest_hmac"], PrevOutcome: engine.Outcome(cells["prev_outcome"]), PluginSource: cells["plugin_source"],
		Actor:       engine.Actor{Kind: engine.ActorKind(cells["actor_kind"]), ID: cells["actor_id"], Channel: cells["actor_channel"]},
		SafePayload: json.RawMessage(cells["safe_payload"]), Reasons: []engine.Reason{},
	}
	read("seq", &e.Seq)
	read("requirements", &e.Requirements)
	var codes, messages []string
	read("reason_codes", &codes)
	read("reason_messages", &messages)
	if len(codes) != len(messages) {
		t.Fatalf("%d codes, %d messages", len(codes), len(messages))
	}
	for i := range codes {
		e.Reasons = append(e.Reasons, engine.Reason{Code: codes[i], Message: messages[i]})
	}
	if cells["timestamp"] != "" {
		at, err := time.Parse(time.RFC3339Nano, cells["timestamp"])
		if err != nil {
			t.Fatal(err)
		}
		e.Timestamp = at
	}
	return e
}

// TestOddEvents: what no log holds still makes a row, with nothing left out.
func TestOddEvents(t *testing.T) {
	row := spreadsheet.Row(engine.Event{Requirements: []engine.Requirement{{Kind: engine.Answer, Form: json.RawMessage(`{"a`)}}})
	want := map[string]string{"reason_codes": "[]", "reason_messages": "[]", "requirements": `[{"kind":"answer","needed":0,"form":"{\"a"}]`}
	for i, name := range spreadsheet.Header() {
		if row[i] != want[name] {
			t.Errorf("%s = %q, want %q", name, row[i], want[name])
		}
	}
	zone := time.FixedZone("", 7200)
	row = spreadsheet.Row(engine.Event{Timestamp: time.Date(2026, 7, 24, 2, 0, 0, 5, zone), Reasons: []engine.Reason{{Code: "<A>", Message: "a & b"}}})
	if row[1] != "2026-07-24T00:00:00.000000005Z" || row[12] != `["<A>"]` || row[13] != `["a & b"]` {
		t.Errorf("got %q", row)
	}
}

func TestWriteFails(t *testing.T) {
	w := csv.NewWriter(io.Discard)
	w.Comma = '"'
	if spreadsheet.Write(w, []string{"a"}) == nil {
		t.Error("written with a separator that cannot be")
	}
}

func BenchmarkWrite(b *testing.B) {
	events := samples(b)
	w := csv.NewWriter(io.Discard)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := spreadsheet.Write(w, spreadsheet.Row(events[i%len(events)])); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
