package audit

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/canon"
)

var golden = Record{
	Leaf: 17, ID: "0b0f1c8e-6f0a-4a6e-9d52-3f1a3a6a7b11", At: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC),
	Type: "vote", Outcome: "REQUIRE_APPROVAL", AgentID: "billing-bot", ToolName: "send_money", ApprovalID: "apr_x",
	Body: []byte(`{"event_id":"0b0f1c8e-6f0a-4a6e-9d52-3f1a3a6a7b11","type":"vote","request_id":"req-1","agent_id":"billing-bot","tool_name":"send_money",` +
		`"outcome":"REQUIRE_APPROVAL","reasons":[{"code":"VOTE_APPROVE","message":"Approved by a <reviewer>."}],"safe_payload":{"b":1.50,"a":"\u00e9"},` +
		`"approval_id":"apr_x","actor":{"kind":"human","id":"usr_a","channel":"console"}}`),
}

// TestGolden: these bytes stay for ever; another format is another version.
func TestGolden(t *testing.T) {
	const document = `{"actor":{"channel":"console","id":"usr_a","kind":"human"},"agent_id":"billing-bot","approval_id":"apr_x",` +
		`"event_id":"0b0f1c8e-6f0a-4a6e-9d52-3f1a3a6a7b11","outcome":"REQUIRE_APPROVAL","reasons":[{"code":"VOTE_APPROVE","message":"Approved by a <reviewer>."}],` +
		`"request_id":"req-1","safe_payload":{"a":"é","b":1.5},"seq":18,"timestamp":"2026-01-02T03:04:05.678901Z","tool_name":"send_money","type":"vote"}`
	if got := string(golden.Document()); got != document {
		t.Errorf("document:\n got %s\nwant %s", got, document)
	}
	const entry = `{"digest":"sha256:c647a63ca9f8c974c254160222e8cc97060fa653ab2ee6946fc53a7b95969bf2","seq":18,"time":"2026-01-02T03:04:05.678901Z","v":1}`
	if got := string(golden.Entry()); got != entry {
		t.Errorf("entry:\n got %s\nwant %s", got, entry)
	}
	const leaf = "/tsW8kQjovxeKcUCJRSfuPycnNwVCAkX+yngZnM5r0c="
	if got := LeafHash(golden.Entry()).String(); got != leaf {
		t.Errorf("leaf hash: got %s, want %s", got, leaf)
	}
	broken := golden
	broken.Outcome = "APPROVED"
	const unreadable = `{"agent_id":"billing-bot","approval_id":"apr_x","event_id":"0b0f1c8e-6f0a-4a6e-9d52-3f1a3a6a7b11","outcome":"APPROVED","seq":18,` +
		`"timestamp":"2026-01-02T03:04:05.678901Z","tool_name":"send_money","type":"vote","unreadable":"`
	if got := string(broken.Document()); got != unreadable+base64.StdEncoding.EncodeToString(broken.Body)+`"}` {
		t.Errorf("document of a record that contradicts itself:\n got %s\nwant %s", got, unreadable)
	}
}

// TestLeafCoversEveryColumn: whatever is changed of a record changes its leaf.
func TestLeafCoversEveryColumn(t *testing.T) {
	changes := map[string]func(*Record){
		"leaf": func(r *Record) { r.Leaf++ }, "id": func(r *Record) { r.ID = strings.Replace(r.ID, "0", "1", 1) },
		"time": func(r *Record) { r.At = r.At.Add(time.Microsecond) }, "type": func(r *Record) { r.Type = "answer" },
		"outcome": func(r *Record) { r.Outcome = "ALLOW" }, "agent": func(r *Record) { r.AgentID = "" }, "tool": func(r *Record) { r.ToolName += " " },
		"approval": func(r *Record) { r.ApprovalID = "" }, "other approval": func(r *Record) { r.ApprovalID = "apr_y" },
		"body":           func(r *Record) { r.Body = []byte(strings.Replace(string(r.Body), "usr_a", "usr_b", 1)) },
		"body's outcome": func(r *Record) { r.Body = []byte(strings.Replace(string(r.Body), `"REQUIRE_APPROVAL"`, `"ALLOW"`, 1)) },
		"body cut":       func(r *Record) { r.Body = r.Body[:len(r.Body)-1] }, "empty body": func(r *Record) { r.Body = nil },
		"body with a seq":       func(r *Record) { r.Body = []byte(strings.Replace(string(r.Body), `{`, `{"seq":18,`, 1)) },
		"body with a Timestamp": func(r *Record) { r.Body = []byte(strings.Replace(string(r.Body), `{`, `{"Timestamp":"x",`, 1)) },
	}
	seen := map[tlog.Hash]string{LeafHash(golden.Entry()): "nothing"}
	var hasher LeafHasher // one for all: no record leaves anything behind for the next one
	for what, change := range changes {
		r := golden
		change(&r)
		h := LeafHash(r.Entry())
		if got, actor := hasher.Hash(r); got != h || actor != r.Actor() {
			t.Errorf("changing %s: the hasher gives another leaf, or the actor %q", what, actor)
		}
		if other, ok := seen[h]; ok {
			t.Errorf("changing %s gives the leaf of changing %s", what, other)
		}
		seen[h] = what
	}
	// How the same body is written does not matter.
	r := golden
	r.Body = []byte(strings.Replace(string(r.Body), `1.50`, ` 1.5 `, 1))
	if LeafHash(r.Entry()) != LeafHash(golden.Entry()) {
		t.Error("white space has changed the leaf")
	}
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{}`), "x", "y")
	f.Add(golden.Body, "billing-bot", "send_money")
	var hasher LeafHasher
	f.Fuzz(func(t *testing.T, body []byte, agent, tool string) {
		r := golden
		r.Body, r.AgentID, r.ToolName = body, agent, tool
		entry := r.Entry()
		if leaf, actor := hasher.Hash(r); leaf != LeafHash(entry) || actor != r.Actor() {
			t.Errorf("the leaf of %s is another one, or its actor %q", entry, actor)
		}
		got, err := ParseEntry(entry)
		if err != nil || got.Seq != 18 || got.Digest != Digest(r.Document()) || !got.Time.Equal(r.At) {
			t.Errorf("ParseEntry(%s) = %+v, %v", entry, got, err)
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	f.Add(golden.Entry())
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := ParseEntry(data); err == nil && string(NewEntry(e.Seq, e.Time, e.Digest)) != string(data) {
			t.Errorf("%q reads as %+v", data, e)
		}
	})
}

func TestCheckpointSigned(t *testing.T) {
	skey, vkey, err := note.GenerateKey(rand.Reader, "holdpoint.example/log")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	want := Checkpoint{Origin: "holdpoint.example/log", Size: 3, Root: tlog.Hash{1, 2, 3}}
	signed, err := Sign(want, signer)
	if err != nil {
		t.Fatal(err)
	}
	got, err := OpenCheckpoint(signed, verifier)
	if err != nil || got.Text() != want.Text() {
		t.Errorf("OpenCheckpoint = %+v, %v", got, err)
	}
	other := want
	other.Origin = "elsewhere.example/log"
	if _, err := Sign(other, signer); err == nil {
		t.Error("signed for another origin")
	}
	// A note of that key which is another log's checkpoint.
	foreign, err := note.Sign(&note.Note{Text: other.Text()}, signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCheckpoint(foreign, verifier); err == nil {
		t.Error("took another log's checkpoint")
	}
	for i := range signed {
		bad := append([]byte(nil), signed...)
		bad[i] ^= 1
		if c, err := OpenCheckpoint(bad, verifier); err == nil {
			t.Errorf("byte %d changed: %+v", i, c)
		}
	}
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add("example.com/log\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n")
	f.Add("example.com/log\n7\nAQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\nmore\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseCheckpoint(text); err == nil && c.Text() != text {
			t.Errorf("%q reads as %+v", text, c)
		}
	})
}

// TestSplit: however an event's members are ordered, its line and document are in
// their RFC 8785 form.
func TestSplit(t *testing.T) {
	for _, text := range []string{
		`{"a":1,"leaf":"x","m":{"proof":1,"b":[2,"é"]},"proof":[1],"z":null}`, `{"leaf":"x"}`, `{"leaf":"x","proof":[]}`, `{}`,
		`{"z":1,"leaf":"x","a":2}`, `{"é":1,"leaf":"x","z":3,"\u20ac":1,"\ud83d\ude00":2}`, `{"a\"b":1,"a!":2,"leaf":1}`, `{"":1,"a":2,"leaf":3}`,
	} {
		v, err := canon.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		line, document := split(v)
		wantLine, wantDocument := canonically(v)
		if string(line) != string(wantLine) || string(document) != string(wantDocument) {
			t.Errorf("%s: got %s and %s, want %s and %s", text, line, document, wantLine, wantDocument)
		}
	}
}
