package chromium

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
	b := Browser{Whole: true}
	t.Cleanup(b.Close)
	ctx := b.Open(t)
	if got, err := chromedp.Run(ctx, chromedp.Evaluate[int]("6 * 7")); err != nil || got != 42 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := os.Stat(crashed); err != nil {
		t.Error("it did not crash: nothing was proven")
	}
	if err := os.WriteFile(filepath.Join(dir, names[0]), []byte("#!/bin/sh\nexit 5\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := start(filepath.Join(dir, names[0])); err == nil {
		t.Error("a browser that is not there was started")
	}
}

// TestShared: tests that share a browser see nothing of each other, and have another
// one when it has crashed.
func TestShared(t *testing.T) {
	site := httptest.NewServer(http.NotFoundHandler())
	defer site.Close()
	var b Browser
	t.Cleanup(b.Close)
	look := func() (cookies string) {
		t.Run("", func(t *testing.T) {
			ctx := b.Open(t)
			if err := chromedp.Do(ctx, chromedp.Navigate(site.URL)); err != nil {
				t.Fatal(err)
			}
			got, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.cookie = "mine" + document.cookie.length + "=1", document.cookie + " " + innerWidth`))
			if err != nil {
				t.Fatal(err)
			}
			cookies = got
		})
		return cookies
	}
	for range 2 {
		if got, want := look(), "mine0=1 1280"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := chromedp.FromContext(b.ctx).Browser.Process().Kill(); err != nil {
		t.Fatal(err)
	}
	<-b.ctx.Done()
	if got := look(); got == "" {
		t.Error("there is no other browser")
	}
}
