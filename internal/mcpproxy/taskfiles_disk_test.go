package mcpproxy

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Old files of tasks go, and nothing else that lies in their directory.
func TestOldTasksAreTidiedAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := time.Now().Add(-longestTTL - time.Hour)
	for _, name := range []string{"ABC234", "ABC235" + beginning, unfinished + "1", "notes.txt", "abc", "x" + beginning} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ABC236"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openTaskFiles(dir, "hp_key"); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, f := range files {
		left = append(left, f.Name())
	}
	if want := []string{"ABC236", "abc", "notes.txt", "x" + beginning}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}
