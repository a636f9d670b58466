package audit

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// TestBundleMarksMissingEvents: what stands for an event that is gone is no entry,
// and the others are as they are without it.
func TestBundleMarksMissingEvents(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	records := make([]Record, 3)
	for i := range records {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		records[i] = Record{
			Leaf: 41 + int64(i), ID: id, At: at, Type: "decision", Outcome: "ALLOW",
			Body: fmt.Appendf(nil, `{"event_id":%q,"type":"decision","outcome":"ALLOW","agent_id":"","tool_name":""}`, id),
		}
	}
	whole, err := ParseBundle(Bundle(records))
	if err != nil || len(whole) != 3 {
		t.Fatalf("ParseBundle = %d entries, %v", len(whole), err)
	}
	records[1] = Record{Leaf: 42, At: time.Unix(0, 0)}
	got, err := ParseBundle(Bundle(records))
	if err != nil || len(got) != 3 {
		t.Fatalf("ParseBundle = %d entries, %v", len(got), err)
	}
	for i, entry := range got {
		e, err := ParseEntry(entry)
		if i == 1 {
			if err == nil || string(entry) != `{"gone":true,"seq":43,"v":1}` {
				t.Errorf("the event that is gone reads as %+v: %s", e, entry)
			}
			continue
		}
		if err != nil || e.Seq != 42+int64(i) || !bytes.Equal(entry, whole[i]) {
			t.Errorf("entry %d = %s, %v; want %s", i, entry, err, whole[i])
		}
	}
	if got := Bundle(nil); len(got) != 0 {
		t.Errorf("the bundle of nothing has %d bytes", len(got))
	}
}

// TestProofText: the text read line by line, as its specification says, proves the
// leaf to x/mod's checker.
func TestProofText(t *testing.T) {
	const size = 300
	grow(t, size, func(g *grown, _ *plain) {
		n := g.tree.Size()
		if n%37 != 0 && n != 1 && n != size {
			return
		}
		root, leaf := g.tree.Root(), n/3
		proof, err := Tiles(g.read).ProveLeaf(n, root, leaf)
		if err != nil {
			t.Fatal(err)
		}
		note := "example.com/log\n…\n\n— example.com/log c2ln\n"
		head, rest, _ := strings.Cut(ProofText(leaf, proof, []byte(note)), "\n\n")
		lines := strings.Split(head, "\n")
		if rest != note || lines[0] != "c2sp.org/tlog-proof@v1" || lines[1] != fmt.Sprintf("index %d", leaf) {
			t.Fatalf("the text is\n%s\n\n%s", head, rest)
		}
		var read tlog.RecordProof
		for _, line := range lines[2:] {
			h, err := base64.StdEncoding.Strict().DecodeString(line)
			if err != nil || len(h) != tlog.HashSize {
				t.Fatalf("%q is no hash: %v", line, err)
			}
			read = append(read, tlog.Hash(h))
		}
		if err := tlog.CheckRecord(read, n, root, leaf, tlog.RecordHash(fmt.Appendf(nil, "leaf %d", leaf))); err != nil {
			t.Errorf("leaf %d of %d: %v", leaf, n, err)
		}
	})
}
