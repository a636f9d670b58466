package tests

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestBrowserEvidencePack: a reviewer reads a call's card and decides; an auditor
// makes the evidence pack; it opens from disk with the network off, runs and loads
// nothing, prints, and proves itself to the command line; and one changed letter
// does not pass.
func TestBrowserEvidencePack(t *testing.T) {
	d := onBrowsed(t)
	b := openBrowser(t, d.URL)
	b.signIn(d.Reviewers[2])
	evil := `</script><script>window.pwned=1</script><img src=x onerror="window.pwned=2">`
	tool := newID("pack_") + "</script>"
	a := d.agent(t).hold(tool, map[string]any{"memo": evil + "\u202e001", "link": "javascript:window.pwned=3", "amount": 12})
	b.open("/approvals/" + a.ID)
	b.visible(testid("approve"))
	if b.eval(`document.querySelector("[data-testid=evidence]") === null`) != "true" {
		t.Error("a reviewer is offered an evidence pack")
	}
	// What is on the screen is what the log has the digest of.
	if got := b.eval(`document.querySelectorAll(".seen [data-testid=args]").length`); got != "1" {
		t.Errorf("%s of the card's arguments are in what is evidence", got)
	}
	b.write(testid("comment"), "fine by me </script>")
	b.click(testid("approve"))
	b.sees(testid("status"), "approved")
	over := d.agent(t).wait(a.ID)
	d.agent(t).redeem(over.Token, tool, map[string]any{"memo": evil + "\u202e001", "link": "javascript:window.pwned=3", "amount": 12}).want(t, 200)
	b.clean()

	story := d.admin(t).story(a.ID)
	if !slices.Contains(story, "shown REQUIRE_APPROVAL CARD_SHOWN") {
		t.Errorf("the log does not say that the card was shown: %q", story)
	}
	if got := d.reviewer(t, 2).do("GET", "/v1/audit/evidence?approval_id="+a.ID, nil); got.Status != 403 {
		t.Errorf("a reviewer makes an evidence pack: %s", got)
	}
	auditor := openBrowser(t, d.URL)
	auditor.signIn(d.Auditor)
	auditor.open("/approvals/" + a.ID)
	d.logged(t)
	link := auditor.eval(`document.querySelector("[data-testid=evidence]").getAttribute("href")`)
	made := d.as(t, d.Auditor).do("GET", link, nil).want(t, 200)
	if kind := made.Header.Get("Content-Disposition"); !strings.Contains(kind, `attachment; filename="evidence-`+a.ID+`.html"`) {
		t.Errorf("it comes as %q", kind)
	}
	file := filepath.Join(t.TempDir(), "evidence.html")
	if err := os.WriteFile(file, made.Body, 0o644); err != nil {
		t.Fatal(err)
	}

	off := openIn(&whole, t, "file://")
	asked := off.withoutNetwork()
	off.open(file)
	off.sees(testid("chapter")+" h1", tool)
	off.sees(testid("seen"), "card")
	off.sees(testid("said"), "fine by me </script>")
	off.sees(testid("chapter"), "[U+202E RIGHT-TO-LEFT OVERRIDE]001")
	if got := off.eval(`String(window.pwned) + " " + document.querySelectorAll("script:not([type^=application])").length`); got != "undefined 0" {
		t.Errorf("something runs in the pack: %s", got)
	}
	// The card is there as it was on the screen.
	off.eval(`document.querySelector("details.shown").open = true`)
	off.sees("details.shown .seen", `</script><script>window.pwned=1</script><img src=x`)
	// The policy is in the file and not on paper; a card is, where it is open.
	pages := func() int {
		pdf := off.pdf()
		if !bytes.HasPrefix(pdf, []byte("%PDF-")) {
			t.Errorf("it prints as %d bytes", len(pdf))
		}
		return bytes.Count(pdf, []byte("/Type /Page\n"))
	}
	open := pages()
	off.eval(`document.querySelector("details.shown").open = false`)
	if folded := pages(); folded < 1 || folded > 3 || open < folded {
		t.Errorf("it prints on %d pages, and on %d with a card", folded, open)
	}
	if got := asked(); len(got) > 0 {
		t.Errorf("the pack asks for %q", got)
	}
	off.clean()

	key := filepath.Join(d.dir, "log-key.pub")
	output := must(t, nil, "", "audit", "verify", file, "--key", key)
	for _, want := range []string{"the pages are those that were written", "1 comment, ", "the arguments of 1 call are those that a card shows"} {
		if !strings.Contains(output, want) {
			t.Errorf("audit verify does not say %q:\n%s", want, output)
		}
	}
	if err := os.WriteFile(file, bytes.Replace(made.Body, []byte("fine by me"), []byte("fine by ma"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := cli(t, nil, "", "audit", "verify", file, "--key", key); got.code != 1 || !strings.Contains(got.out, "the pages were changed") {
		t.Errorf("a changed pack: exit %d\n%s%s", got.code, got.out, got.err)
	}
	// The same by the command, for a period.
	period := filepath.Join(t.TempDir(), "period.html")
	must(t, nil, "", "audit", "pack", "--data", d.dir, "--since", over.OpenedAt.Add(-time.Second).UTC().Format(time.RFC3339), "--until", time.Now().Add(time.Minute).UTC().Format(time.RFC3339), "-o", period)
	must(t, nil, "", "audit", "verify", period, "--key", key)
	if got := cli(t, nil, "", "audit", "pack", "--data", d.dir, "--approval", "apr_nothing", "-o", filepath.Join(t.TempDir(), "none.html")); got.code == 0 || !strings.Contains(got.err, "no approval") {
		t.Errorf("a pack of nothing: exit %d\n%s", got.code, got.err)
	}
}

// withoutNetwork cuts the tab off, and returns what it asks for nevertheless.
func (b *browser) withoutNetwork() func() []string {
	b.t.Helper()
	var asked []string
	err := chromedp.Listen(b.ctx, func(ev any) {
		if e, ok := ev.(*network.EventRequestWillBeSent); ok && !strings.HasPrefix(e.Request.URL, "file://") {
			b.mu.Lock()
			defer b.mu.Unlock()
			asked = append(asked, e.Request.URL)
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		if _, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{}); err != nil {
			return chromedp.Void{}, err
		}
		_, err := cdp.Call(ctx, target, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: true})
		return chromedp.Void{}, err
	})
	return func() []string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.Clone(asked)
	}
}

// pdf prints the page.
func (b *browser) pdf() []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*seeWithin)
	defer cancel()
	yes := true
	data, err := chromedp.Run(ctx, func(ctx context.Context, target *chromedp.Target) ([]byte, error) {
		printed, err := cdp.Call(ctx, target, page.PrintToPDF, page.PrintToPDFParams{PreferCSSPageSize: &yes, PrintBackground: &yes})
		if err != nil {
			return nil, err
		}
		return printed.Data, nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}
