package store

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRangesAskTheClockOnce: clock_timestamp() is another moment for each row, so no index
// finds what lies before or after it, and everything is read. In a subquery it is asked once.
func TestRangesAskTheClockOnce(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 50 {
		t.Fatal(len(files), err)
	}
	bare := regexp.MustCompile(`\b(wake_at|due_at|ended_at|opened_at|created_at|remind_at|last_at|at)\s*[<>]=?\s*clock_timestamp\(\)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range bare.FindAllString(string(text), -1) {
			if !strings.HasSuffix(file, "_test.go") {
				t.Errorf("%s: %s: want (SELECT clock_timestamp())", file, found)
			}
		}
	}
}
