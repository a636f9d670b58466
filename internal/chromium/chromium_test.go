package chromium

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestStartedAgain: a browser that crashes when it is started is started again, and
// one that always does is an error.
func TestStartedAgain(t *testing.T) {
	installed := ""
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil && installed == "" {
			installed = found
		}
	}
	dir := t.TempDir()
	crashed := filepath.Join(dir, "crashed")
	script := fmt.Sprintf("#!/bin/sh\nif [ ! -e %s ]; then touch %s; echo crashed; exit 5; fi\nexec %s \"$@\"\n", crashed, crashed, installed)
	if err := os.WriteFile(filepath.Join(dir, names[0]), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ctx := Open(t)
	if got, err := chromedp.Run(ctx, chromedp.Evaluate[int]("6 * 7")); err != nil || got != 42 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := os.Stat(crashed); err != nil {
		t.Error("it did not crash: nothing was proven")
	}
	if err := os.WriteFile(filepath.Join(dir, names[0]), []byte("#!/bin/sh\nexit 5\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, filepath.Join(dir, names[0])); err == nil {
		t.Error("a browser that is not there was started")
	}
}
