package safeai_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/redact"
)

// detector is compiled once for all tests; it never changes.
var detector = redact.New()

// TestConformance runs the shared cases, which lie beside the repository.
func TestConformance(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "shared", "conformance", "safeai.jsonl")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Logf("ATTENTION: %s is not there; only the package's own cases ran.", path)
		t.Skip("no shared conformance cases")
	}
	n := runCases(t, path)
	t.Logf("%d conformance cases", n)
	if n < 166 {
		t.Errorf("ran %d cases, want at least 166", n)
	}
}

// TestOwnCases runs the cases that this package brings along.
func TestOwnCases(t *testing.T) {
	if n := runCases(t, filepath.Join("testdata", "cases.jsonl")); n < 40 {
		t.Errorf("ran %d cases, want at least 40", n)
	}
}

func runCases(t *testing.T, path string) int {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4*canon.MaxBytes)
	n := 0
	for lines.Scan() {
		var c struct {
			ID       string
			Input    json.RawMessage
			Expected map[string]any
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s, case %d: %v", path, n+1, err)
		}
		n++
		v, err := canon.Parse(c.Input)
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		result, err := safeai.Eval(v, nil, detector)
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		encoded, err := json.Marshal(result)
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		var got map[string]any
		if err := json.Unmarshal(encoded, &got); err != nil {
			t.Fatal(err)
		}
		for key, want := range c.Expected {
			// A note is for readers.
			if has, ok := got[key]; key != "note" && (!ok || !reflect.DeepEqual(has, want)) {
				t.Errorf("%s: %s: got %v, want %v", c.ID, key, got[key], want)
			}
		}
	}
	return n
}
