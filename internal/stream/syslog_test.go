package stream

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/audit"
)

const eventID = "6f1d1a3e-5d2f-4c3b-9b7e-0c1d2e3f4a5b"

func record(leaf int64, kind engine.EventType, outcome engine.Outcome, payload string) audit.Record {
	return audit.Record{
		Leaf: leaf, ID: eventID, At: time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC), Type: string(kind), Outcome: string(outcome), AgentID: "bot", ToolName: "pay",
		Body: fmt.Appendf(nil, `{"event_id":%q,"type":%q,"request_id":"r","agent_id":"bot","tool_name":"pay","outcome":%q,"reasons":[],"safe_payload":%s,"actor":{"kind":"agent","id":"bot"}}`,
			eventID, kind, outcome, payload),
	}
}

func message(t testing.TB, r audit.Record, encode Encoder, limit int) Message {
	t.Helper()
	m, err := newMessage(r, encode, limit)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSyslogLine(t *testing.T) {
	m := message(t, record(17, engine.Decided, engine.Deny, `{"text":"line\nbreak \u2028 é"}`), nil, 0)
	got := string(syslogLine(m, "holdpoint.example.com", documentationNumber))
	want := `<108>1 2026-01-02T03:04:05.600000Z holdpoint.example.com holdpoint - decision [holdpoint@32473 seq="18" event_id="` + eventID + `" digest="` + m.Digest + `"] ` +
		`{"actor":{"id":"bot","kind":"agent"},"agent_id":"bot","event_id":"` + eventID + `","outcome":"DENY","reasons":[],"request_id":"r",` +
		`"safe_payload":{"text":"line\nbreak ` + "\u2028" + ` é"},"seq":18,"timestamp":"2026-01-02T03:04:05.6Z","tool_name":"pay","type":"decision"}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p, err := parse(got)
	if err != nil {
		t.Fatal(err)
	}
	if p.facility != 13 || p.severity != 4 || p.app != "holdpoint" || p.proc != "-" || p.kind != "decision" || p.data["holdpoint@32473"]["seq"] != "18" {
		t.Errorf("parsed %+v", p)
	}
	// Whoever receives it can hold it against the log's digest.
	if audit.Digest(p.msg) != p.data["holdpoint@32473"]["digest"] {
		t.Error("MSG is not what the digest is of")
	}
	if bytes.ContainsAny(syslogLine(m, "h", 1), "\r\n") {
		t.Error("a line break")
	}
}

// The strict parser of these tests has to refuse what is wrong, or it shows nothing.
func TestParserIsStrict(t *testing.T) {
	const good = `<108>1 2026-01-02T03:04:05.600000Z h holdpoint - x [a@1 b="c"] m`
	if _, err := parse(good); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"<108>", "<0108>"},
		{"<108>", "<192>"},
		{"<108>", "108 "},
		{">1 ", ">2 "},
		{".600000Z", ".6000000Z"},
		{".600000Z", ""},
		{"2026-01-02T", "2026-01-02 "},
		{"2026-01-02", "2026-13-02"},
		{" h ", "  "},
		{" h ", " " + strings.Repeat("h", 256) + " "},
		{" h ", " hé "},
		{" x ", " " + strings.Repeat("x", 33) + " "},
		{"[a@1", "[a@"},
		{"[a@1", "[a b"},
		{`"c"`, `"c]"`},
		{`"c"`, `"c\n"`},
		{`"c"`, `"c`},
		{`"c"`, "\"\xff\""},
		{`b="c"`, `b="c" b="d"`},
		{`"] m`, `"]m`},
		{`] m`, `][a@1] m`},
		{`[a@1 b="c"] `, ``},
	} {
		if line := strings.Replace(good, change[0], change[1], 1); line == good {
			t.Errorf("%q changes nothing", change)
		} else if _, err := parse(line); err == nil {
			t.Errorf("taken: %s", line)
		}
	}
	for _, text := range []string{"05 hello", "x5 hello", " hello", "6 hello", "5", "123456789 x"} {
		if line, err := readFrame(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("frame %q: %q", text, line)
		}
	}
}

func TestSeverity(t *testing.T) {
	for _, test := range []struct {
		kind    engine.EventType
		outcome engine.Outcome
		want    int
	}{
		{engine.Decided, engine.Allow, 6},
		{engine.Decided, engine.Deny, 4},
		{engine.Decided, engine.KillSwitch, 4},
		{engine.Admin, engine.KillSwitch, 2},
		{engine.Decided, engine.RequireApproval, 5},
		{engine.Settled, engine.Approved, 5},
		{engine.Settled, engine.Timeout, 4},
		{engine.Broken, engine.Approved, 2},
		{engine.Broken, engine.Deny, 4},
		{engine.Admin, engine.Allow, 5},
		{"newer", engine.Allow, 6},
		{"newer", "NEWER", 5},
	} {
		if got := severity(Message{Type: test.kind, Outcome: test.outcome}); got != test.want {
			t.Errorf("%s %s: got %d, want %d", test.kind, test.outcome, got, test.want)
		}
	}
}

// Whatever an event's columns hold, a line is one message, and its parts are what
// they were, as far as a header can show it.
func FuzzSyslogLine(f *testing.F) {
	for _, s := range []string{"", "a", `"`, `\`, `]`, `\"]`, `"] <13>1 - - - - - -`, "\n", "\xff", "é\u2028", "\x00", strings.Repeat("x", 400), "-"} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, id, kind, host string) {
		m := Message{Seq: 1, ID: id, Type: engine.EventType(kind), Digest: id + kind, Body: []byte(`{}`), At: time.Unix(1, 0)}
		line := syslogLine(m, host, documentationNumber)
		if bytes.ContainsAny(line, "\r\n\x00") {
			t.Fatalf("a control character in %q", line)
		}
		got, err := readFrame(bufio.NewReader(bytes.NewReader(frame(line))))
		if err != nil || got != string(line) {
			t.Fatalf("frame: %q, %v", got, err)
		}
		p, err := parse(got)
		if err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if string(p.msg) != "{}" || len(p.data) != 1 || len(p.data["holdpoint@32473"]) != 3 {
			t.Fatalf("%q: %+v", got, p)
		}
		for name, given := range map[string]string{"event_id": id, "digest": id + kind} {
			want := strings.Map(func(r rune) rune {
				if r < ' ' || r >= 0x7F && r < 0xA0 {
					return '\uFFFD'
				}
				return r
			}, given)
			value := p.data["holdpoint@32473"][name]
			if utf8.ValidString(given) && value != want {
				t.Fatalf("%s: got %q, want %q", name, value, want)
			}
			if !utf8.ValidString(value) {
				t.Fatalf("%s: %q", name, value)
			}
		}
	})
}
