package aana_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/aana"
)

// now is the time at which all tests judge.
var now = time.Date(2026, 4, 2, 12, 0, 0, 0, time.UTC)

// conformanceCase is one line of a case file.
type conformanceCase struct {
	ID       string          `json:"id"`
	Input    json.RawMessage `json:"input"`
	Expected struct {
		Route        string   `json:"route"`
		Executes     bool     `json:"executes"`
		HardBlockers []string `json:"hard_blockers"`
	} `json:"expected"`
}

// TestOwnCases runs the cases that this package brings along.
func TestOwnCases(t *testing.T) {
	if n := runCases(t, filepath.Join("testdata", "cases.jsonl")); n < 60 {
		t.Errorf("ran %d cases, want at least 60", n)
	}
}

// TestConformance runs the shared cases, which lie beside the repository.
func TestConformance(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "shared", "conformance", "aana.jsonl")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Logf("ATTENTION: %s is not there; only the package's own cases ran (TestOwnCases).", path)
		t.Skip("no shared conformance cases")
	}
	n := runCases(t, path)
	t.Logf("%d conformance cases", n)
	if n < 2000 {
		t.Errorf("ran %d cases, want at least 2000", n)
	}
}

func runCases(t *testing.T, path string) int {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatalf("the cases cannot be read: %v", err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4*canon.MaxBytes)
	n := 0
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var c conformanceCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s, case %d: %v", path, n+1, err)
		}
		n++
		got := judge(c.Input)
		slices.Sort(c.Expected.HardBlockers)
		if got.Route.String() != c.Expected.Route || got.Executes != c.Expected.Executes || !slices.Equal(got.HardBlockers, c.Expected.HardBlockers) {
			t.Errorf("%s: got %s %v %q, want %s %v %q\n%s", c.ID, got.Route, got.Executes, got.HardBlockers,
				c.Expected.Route, c.Expected.Executes, c.Expected.HardBlockers, c.Input)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// judge takes a document the whole way, as a door does.
func judge(document []byte) aana.Result {
	v, err := canon.Parse(document)
	if err != nil {
		return aana.Invalid(canon.Null(), []aana.ValidationError{{Path: "$", Message: err.Error()}})
	}
	e, errs := aana.Parse(v)
	if len(errs) > 0 {
		return aana.Invalid(v, errs)
	}
	return e.Judge(now)
}
