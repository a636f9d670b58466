package auditlog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/audit"
	"holdpoint/engine/canon"
	"holdpoint/internal/auditlog"
)

// TestResumeFindsTheCut: an export goes on after the last whole event of the file, wherever it
// was cut off.
func TestResumeFindsTheCut(t *testing.T) {
	h := audit.Header{Checkpoint: audit.Checkpoint{Origin: "log.example.com", Size: 3}.Text() + "\n— log.example.com AAAAAAA=\n", Whole: true}
	file := h.Line()
	for seq := range 3 {
		file = append(file, audit.Line(canon.Object(canon.Member{Name: "seq", Value: canon.Number(float64(seq + 1))}), tlog.Hash{}, nil, true)...)
	}
	events := len(file)
	file = append(file, audit.EndLine(h, 3)...)
	lines := bytes.SplitAfter(file, []byte("\n"))
	third := events - len(lines[3])
	for _, c := range []struct {
		what            string
		size            int // of the file
		kept            int
		after, former   int64
		cannotBeResumed bool
	}{
		{"nothing", 0, 0, 0, 0, true},
		{"a piece of the header", 10, 0, 0, 0, true},
		{"the header", len(lines[0]), 0, 0, 0, false},
		{"two events and a piece", events - 3, third, 2, 2, false},
		{"all events", events, events, 3, 3, false},
		{"a piece of the end", events + 5, events, 3, 3, false},
		{"all, and no record of it", len(file), events, 3, 3, false},
	} {
		path := filepath.Join(t.TempDir(), "log.partial")
		if err := os.WriteFile(path, file[:c.size], 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := auditlog.ExportRequest{Format: auditlog.JSONL}
		former, err := auditlog.Resume(f, &r)
		if closed := f.Close(); closed != nil {
			t.Fatal(closed)
		}
		if c.cannotBeResumed != (err != nil) {
			t.Errorf("%s: %v", c.what, err)
		}
		if err != nil {
			continue
		}
		left, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) != c.kept || r.Filter.After != c.after || former != c.former || r.Before != c.former || r.Size != 3 {
			t.Errorf("%s: %d bytes are left, and it goes on after %d, with %d before, to %d", c.what, len(left), r.Filter.After, former, r.Size)
		}
	}
}
