package floor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestErasedGrows: what is on the list stays there, also behind a line that was cut off.
func TestErasedGrows(t *testing.T) {
	list := ErasedBeside(filepath.Join(t.TempDir(), "floor"))
	if _, err := list.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where there is none: %v", err)
	}
	add := func(want []string, ids ...string) {
		t.Helper()
		if err := list.Add(ids); err != nil {
			t.Fatal(err)
		}
		if got, err := list.Load(); err != nil || !slices.Equal(got, want) {
			t.Errorf("it has %q, %v; want %q", got, err, want)
		}
	}
	add(nil)
	add([]string{"apr_1", "usr_2"}, "apr_1", "usr_2")
	add([]string{"apr_1", "usr_2"}, "apr_1") // another worker was as quick
	f, err := os.OpenFile(list.Path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("apr_cut"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	add([]string{"apr_1", "usr_2", "apr_cut", "apr_3"}, "apr_3")
	for _, bad := range []string{"hello\n", "apr_" + strings.Repeat("x", 70) + "\n"} {
		if err := os.WriteFile(list.Path, []byte("# by hand\n\n"+bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := list.Load(); err == nil || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
