package migrations_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdpoint/migrations"
)

var update = flag.Bool("update", false, "add new migrations to those that are released")

// TestReleased: a migration that has been released has run in databases that
// nobody here sees, so its bytes never change. The first ones of the list are those
// of testdata/released.sha256, numbered without a gap; new ones come after them.
func TestReleased(t *testing.T) {
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "released.sha256")
	list, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	released := strings.Split(strings.TrimSpace(string(list)), "\n")
	var lines []string
	for i, name := range names {
		if !strings.HasPrefix(name, fmt.Sprintf("%05d_", i+1)) {
			t.Errorf("%s does not have the number %05d", name, i+1)
		}
		body, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%x  %s", sha256.Sum256(body), name))
	}
	for i, line := range released {
		if i >= len(lines) || lines[i] != line {
			t.Fatalf("a released migration has changed or is gone: %s", line)
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
