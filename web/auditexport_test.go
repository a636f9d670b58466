package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/chromium"
)

// fakeExporter writes lines, and can break off behind them.
type fakeExporter struct {
	asked  []auditlog.ExportRequest
	lines  int
	broken error
	// more is waited for before the end; nil for nothing.
	more chan struct{}
}

func (x *fakeExporter) Write(ctx context.Context, w io.Writer, r auditlog.ExportRequest) (auditlog.ExportSummary, error) {
	x.asked = append(x.asked, r)
	if x.lines == 0 && x.broken != nil {
		return auditlog.ExportSummary{}, x.broken
	}
	for range x.lines {
		if _, err := io.WriteString(w, "{}\n"); err != nil {
			return auditlog.ExportSummary{}, err
		}
	}
	if err := r.Flush(); err != nil {
		return auditlog.ExportSummary{}, err
	}
	if x.more != nil {
		select {
		case <-x.more:
		case <-ctx.Done():
			return auditlog.ExportSummary{}, ctx.Err()
		}
	}
	return auditlog.ExportSummary{}, x.broken
}

func exportForm(since, until, format string) url.Values {
	return url.Values{"since": {since}, "until": {until}, "format": {format}}
}

// The page exports what the form says, as a file of its own name, in the name of who
// pressed the button; without script too.
func TestAuditExport(t *testing.T) {
	x := &fakeExporter{lines: 3}
	with := func(c *Config) { c.Exporter = x }
	c := start(t, with).signIn("aude@example.com")
	c.get("/audit/export").want(t, http.StatusOK, "Verify it", "holdpoint audit verify", `<option value="jsonl" selected>`)
	file := c.do("POST", "/audit/export", exportForm("2026-10-01", "2026-10-31", "jsonl"))
	file.want(t, http.StatusOK, "{}\n{}\n{}\n")
	if got := file.Header.Get("Content-Disposition"); got != `attachment; filename="holdpoint-audit-from-2026-10-01-to-2026-10-31.jsonl"` {
		t.Errorf("its name: %s", got)
	}
	r := x.asked[0]
	if r.Format != "jsonl" || r.Actor.ID != "usr_aude" || r.Actor.Channel != "console" || !r.Filter.Since.Equal(time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)) ||
		!r.Filter.Until.Equal(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("asked for %+v", r)
	}
	for want, form := range map[string]url.Values{
		"Choose a format": exportForm("", "", "xml"), "no day": exportForm("never", "", "csv"), "ends before it begins": exportForm("2026-10-02", "2026-10-01", "csv"),
	} {
		c.do("POST", "/audit/export", form).want(t, http.StatusUnprocessableEntity, want)
	}
	x.lines = 0
	for err, status := range map[error]int{
		auditlog.ErrNotWitnessed: http.StatusConflict, auditlog.ErrNoCheckpoint: http.StatusConflict, errors.New("no database"): http.StatusServiceUnavailable,
		&access.Refusal{Kind: access.Forbidden, Code: "x", Detail: "no"}: http.StatusForbidden,
	} {
		x.broken = err
		if a := c.do("POST", "/audit/export", exportForm("", "", "ocsf")); a.StatusCode != status || a.Header.Get("Content-Disposition") != "" {
			t.Errorf("%v: %d, %v", err, a.StatusCode, a.Header)
		}
	}
	asked := len(x.asked)
	other := start(t, with).signIn("ada@example.com")
	other.get("/audit/export").want(t, http.StatusForbidden)
	other.do("POST", "/audit/export", exportForm("", "", "jsonl")).want(t, http.StatusForbidden)
	if len(x.asked) != asked {
		t.Error("somebody who may not has exported")
	}
}

// TestBrowserExport: the page shows how far the export is while it comes, saves it when it
// is whole, and saves nothing that broke off or was cancelled.
func TestBrowserExport(t *testing.T) {
	m := newFakeGate()
	x := &fakeExporter{lines: 1200, more: make(chan struct{})}
	c, err := New(Config{Exporter: x, Inbox: m, History: m, Cards: m, Votes: m, Contributions: m, Requirements: m, Edits: m, CallSessions: m, Outcomes: m, Changes: m, Agents: m.registry, Tools: m.registry, Settings: m.registry, InForce: m.registry.inForce, SignIn: m, Sessions: m, Names: m, Clock: m.now})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	c.Register(mux)
	mux.HandleFunc("GET /as", func(w http.ResponseWriter, r *http.Request) {
		s, _ := c.site.sessions.Get(r, c.site.sessions.name())
		s.Values[personKey{}] = m.people["aude@example.com"]
		if err := s.Save(r, w); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(Guard(mux, GuardConfig{}))
	t.Cleanup(server.Close)
	var b chromium.Browser
	t.Cleanup(b.Close)
	p := page{t, b.Open(t)}
	p.open(server.URL + "/as")
	p.open(server.URL + "/audit/export")
	p.eval(`(() => { window.saved = []; HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download) }; return true })()`)
	press := func() {
		t.Helper()
		p.eval(`(() => { document.querySelector("[data-testid=audit-export] button").click(); return true })()`)
	}
	state := func(want, says string) {
		t.Helper()
		p.until(want, `document.getElementById("export-progress").dataset.state === "`+want+`"`)
		if got := p.eval(`document.querySelector("[data-export-said]").textContent`); !strings.Contains(got, says) {
			t.Errorf("%s: it says %q, and not %q", want, got, says)
		}
	}
	press()
	p.until("progress", `document.querySelector("[data-export-counted]").textContent === "So far: 1,200 lines, 4 kB."`)
	x.more <- struct{}{}
	state("done", "Done: holdpoint-audit.jsonl, 1,200 lines, 4 kB. Its digest is sha256:")
	if got := p.eval(`window.saved.join(" ")`); got != "holdpoint-audit.jsonl" {
		t.Errorf("saved %q", got)
	}
	press()
	p.until("progress", `document.querySelector("[data-export-counted]").textContent.startsWith("So far: 1,200")`)
	p.eval(`(() => { document.querySelector("[data-testid=export-cancel]").click(); return true })()`)
	state("failed", "Cancelled. Nothing was saved.")
	x.broken = errors.New("the database is gone")
	press()
	p.until("progress", `document.querySelector("[data-export-counted]").textContent.startsWith("So far: 1,200")`)
	x.more <- struct{}{}
	state("failed", "Nothing was saved.")
	x.lines, x.broken = 0, auditlog.ErrNotWitnessed
	press()
	state("failed", "Too few witnesses have signed")
	if got := p.eval(`String(window.saved.length)`); got != "1" {
		t.Errorf("%s files were saved", got)
	}
}
