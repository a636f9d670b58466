// Package chromium gives tests a real browser: the installed Chromium or Chrome,
// without a window, with a fresh profile. A machine without one fails these tests;
// it never skips them.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// attempts is how often the browser is started at the most: now and then it crashes
// before it is there, which says nothing of the pages.
const attempts = 3

// names are what the browser is called, here or there.
var names = []string{"chromium", "chromium-browser", "google-chrome"}

// shell is Chromium without all that is around its pages: the same engine, for less than
// half of the processor's time. It shows no notifications, and prints otherwise. This is where
// Debian has it: the command is a script, which would be killed in the browser's place.
const shell = "/usr/lib/chromium/chromium-headless-shell"

// Browser is a browser that tests share. The zero value is one that is not
// running yet; it is no error to close one that never did.
type Browser struct {
	Whole bool // never the shell, where it is installed
	mu    sync.Mutex
	ctx   context.Context
	end   func()
}

// Open returns the context of a blank tab, for chromedp, with cookies and storage of
// its own until the test ends. The browser is started when the first test asks, and
// again when it has crashed. By name it can reach localhost alone.
func (b *Browser) Open(t testing.TB) context.Context {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	path := b.path()
	if path == "" {
		t.Fatal("no browser: install chromium")
	}
	for attempt := 1; ; attempt++ {
		ctx, err := b.tab(t, path)
		if err == nil {
			return ctx
		}
		b.stop()
		if attempt == attempts {
			t.Fatalf("start the browser: %v", err)
		}
		t.Logf("start the browser again: %v", err)
	}
}

// path is the program, "" without one.
func (b *Browser) path() string {
	if !b.Whole {
		if found, err := exec.LookPath(shell); err == nil {
			return found
		}
	}
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	return ""
}

// Close ends the browser.
func (b *Browser) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
}

func (b *Browser) stop() {
	if b.end != nil {
		b.end()
	}
	b.ctx, b.end = nil, nil
}

// first is a context's first step, which starts browser and tab. They end with the
// step's context, so it cannot have one of its own; it is cancelled if they do not come.
func first(ctx context.Context, cancel func()) error {
	late := time.AfterFunc(2*time.Minute, cancel)
	defer late.Stop()
	return chromedp.Do(ctx, chromedp.Navigate("about:blank"))
}

// tab opens a tab, after the browser if there is none.
func (b *Browser) tab(t testing.TB, path string) (context.Context, error) {
	if b.ctx == nil {
		var err error
		if b.ctx, b.end, err = start(path); err != nil {
			return nil, err
		}
	}
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	if err := first(ctx, cancel); err != nil {
		cancel()
		return nil, err
	}
	t.Cleanup(cancel)
	return ctx, nil
}

func start(path string) (context.Context, func(), error) {
	profile, err := os.MkdirTemp("", "holdpoint-browser-")
	if err != nil {
		return nil, nil, err
	}
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
		_ = os.RemoveAll(profile)
	}
	if err := first(ctx, closeTab); err != nil {
		end()
		return nil, nil, err
	}
	return ctx, end, nil
}
