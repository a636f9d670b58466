// Package chromium gives tests a real browser: the installed Chromium or Chrome,
// without a window, with a fresh profile. A machine without one fails these tests;
// it never skips them.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// attempts is how often the browser is started at the most: now and then it crashes
// before it is there, which says nothing of the pages.
const attempts = 3

// names are what the browser is called, here or there.
var names = []string{"chromium", "chromium-browser", "google-chrome"}

// Open starts the browser and returns the context of a blank tab of it, for chromedp.
// The browser ends with the test. By name it can reach localhost alone.
func Open(t testing.TB) context.Context {
	t.Helper()
	var path string
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("no browser: install chromium")
	}
	for attempt := 1; ; attempt++ {
		ctx, err := start(t, path)
		if err == nil {
			return ctx
		}
		if attempt == attempts {
			t.Fatalf("start the browser: %v", err)
		}
		t.Logf("start the browser again: %v", err)
	}
}

func start(t testing.TB, path string) (context.Context, error) {
	profile, err := os.MkdirTemp("", "holdpoint-browser-")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(time.Minute),
		// Nothing but the program under test can be reached by name.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost"),
	}
	for _, flag := range []string{
		"disable-background-networking", "disable-quic", "disable-component-update", "disable-sync", "disable-default-apps",
		"disable-extensions", "disable-dev-shm-usage", "no-pings", "disable-domain-reliability",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(allocated)
	end := func() {
		last, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_ = chromedp.Cancel(last) // asks it to go; stop makes it
		closeTab()
		stop()
	}
	// The first step starts the browser, which ends with this step's context.
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		end()
		return nil, err
	}
	t.Cleanup(end)
	return ctx, nil
}
