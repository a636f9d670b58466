package threegate_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holdpoint/engine/dialect/threegate"
)

// TestConformance runs the shared cases, which lie beside the repository. What
// they name as broken must be among what is found.
func TestConformance(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "shared", "conformance", "threegate.jsonl")
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Logf("ATTENTION: %s is not there; only the package's own cases ran (TestRules).", path)
		t.Skip("no shared conformance cases")
	}
	if err != nil {
		t.Fatalf("the cases cannot be read: %v", err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	n, other := 0, 0
	for lines.Scan() {
		var c struct {
			ID    string `json:"id"`
			Input struct {
				Document string    `json:"document"`
				Now      time.Time `json:"now"`
			} `json:"input"`
			Expected struct {
				Valid bool     `json:"valid"`
				Rules []string `json:"rules"`
			} `json:"expected"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("case %d: %v", n+1, err)
		}
		n++
		got := threegate.Judge([]byte(c.Input.Document), c.Input.Now)
		if got.Valid != c.Expected.Valid {
			t.Errorf("%s: got valid %v %v, want %v %v", c.ID, got.Valid, got.Violations, c.Expected.Valid, c.Expected.Rules)
		}
		rules := rulesOf(got)
		for _, want := range c.Expected.Rules {
			if !c.Expected.Valid && !slices.Contains(rules, want) {
				other++
				t.Logf("%s: found %v, not %s", c.ID, rules, want)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d cases, %d rule codes differ", n, other)
	if n < 140 {
		t.Errorf("ran %d cases, want at least 140", n)
	}
}

func rulesOf(r threegate.Report) []string {
	var rules []string
	for _, v := range r.Violations {
		if !slices.Contains(rules, v.Rule) {
			rules = append(rules, v.Rule)
		}
	}
	return rules
}
