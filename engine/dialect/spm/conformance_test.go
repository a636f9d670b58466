package spm_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/spm"
)

// now is the time at which tests judge.
var now = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// TestConformance runs the shared cases, which lie beside the repository.
func TestConformance(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "shared", "conformance", "spm.jsonl")
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Logf("ATTENTION: %s is not there; only the package's own cases ran.", path)
		t.Skip("no shared conformance cases")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4*canon.MaxBytes)
	n := 0
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		n++
		runCase(t, lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d conformance cases", n)
	if n < 800 {
		t.Errorf("ran %d cases, want at least 800", n)
	}
}

// runCase compares one case as conformance/README says.
func runCase(t *testing.T, line []byte) {
	t.Helper()
	var c struct {
		ID       string          `json:"id"`
		Input    json.RawMessage `json:"input"`
		Expected map[string]any  `json:"expected"`
	}
	if err := json.Unmarshal(line, &c); err != nil {
		t.Fatal(err)
	}
	result, err := spm.Eval(c.Input, now)
	if err != nil {
		t.Errorf("%s: %v", c.ID, err)
		return
	}
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if c.Expected["load_error"] == true && got["load_error"] != nil {
		return
	}
	if !reflect.DeepEqual(got, c.Expected) {
		t.Errorf("%s: got %s, want %v\n%s", c.ID, text, c.Expected, c.Input)
	}
}
