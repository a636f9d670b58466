package tests

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/emersion/go-smtp"
)

// postbox is a mail server that keeps what it takes.
type postbox struct {
	mu    sync.Mutex
	mails []mail
}

type mail struct{ to, text string }

func (p *postbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &mailing{box: p}, nil }

// at is what has come for an address.
func (p *postbox) at(address string) (texts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.mails {
		if m.to == address {
			texts = append(texts, m.text)
		}
	}
	return texts
}

type mailing struct {
	box *postbox
	to  string
}

func (m *mailing) Reset()                                    { m.to = "" }
func (m *mailing) Logout() error                             { return nil }
func (m *mailing) Mail(string, *smtp.MailOptions) error      { return nil }
func (m *mailing) Rcpt(to string, _ *smtp.RcptOptions) error { m.to = to; return nil }

func (m *mailing) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	m.box.mu.Lock()
	defer m.box.mu.Unlock()
	m.box.mails = append(m.box.mails, mail{m.to, string(text)})
	return err
}

func startMail(t *testing.T) (addr string, box *postbox) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	box = &postbox{}
	server := smtp.NewServer(box)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String(), box
}

// signedBy reports whether a webhook is genuine, by the Standard Webhooks
// specification as somebody else would read it.
func signedBy(secret string, h http.Header, body []byte) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) < 24 {
		return false
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "." + string(body)))
	want := "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	for _, s := range strings.Split(h.Get("webhook-signature"), " ") {
		if hmac.Equal([]byte(s), []byte(want)) {
			return true
		}
	}
	return false
}

// hook is a receiver of webhooks that answers with a status.
type hook struct {
	*httptest.Server
	status atomic.Int32
	mu     sync.Mutex
	posts  []hooked
}

type hooked struct {
	header http.Header
	body   []byte
}

func startHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.status.Store(http.StatusOK)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		h.posts = append(h.posts, hooked{r.Header, body})
		h.mu.Unlock()
		w.WriteHeader(int(h.status.Load()))
	}))
	t.Cleanup(h.Close)
	return h
}

// about is what has come about an approval, of a type.
func (h *hook) about(id, kind string) (posts []hooked) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.posts {
		var e struct {
			Type string
			Data struct {
				ApprovalID string `json:"approval_id"`
			}
		}
		if json.Unmarshal(p.body, &e) == nil && e.Type == kind && e.Data.ApprovalID == id {
			posts = append(posts, p)
		}
	}
	return posts
}

// TestNotifications: people and programs are told what happens to approvals, by
// the program as it is run, from the command that adds an endpoint to the mail.
func TestNotifications(t *testing.T) {
	ownPrograms(t)
	addr, box := startMail(t)
	receiver := startHook(t)
	d := startWith(t, map[string]string{"settings.yaml": sharedPolicy + "smtp: {addr: '" + addr + "', from: 'Holdpoint <gate@example.com>', tls: plain}\n"})
	notify := func(args ...string) string {
		t.Helper()
		return must(t, nil, "", append([]string{"notify"}, append(args, "--data", d.dir)...)...)
	}
	if out := notify("list"); !strings.Contains(out, "nobody is told yet") {
		t.Errorf("an empty list says %q", out)
	}
	notify("add", "email", "The reviewers", "--to", "reviewers")
	added := notify("add", "webhook", "Desk", "--url", receiver.URL+"/path-canary-99", "--plain")
	secret, id := regexp.MustCompile(`whsec_\S+`).FindString(added), regexp.MustCompile(`end_\w+`).FindString(added)
	if secret == "" || strings.Contains(added, "path-canary") || strings.Contains(notify("list"), secret) {
		t.Fatalf("added: %q, listed: %q", added, notify("list"))
	}
	if out := notify("test", id); !strings.Contains(out, "sent ntf_") || len(receiver.about("", "endpoint.test")) != 1 {
		t.Errorf("test: %q, %d came", out, len(receiver.about("", "endpoint.test")))
	}

	argument := newID("canary-argument-")
	receiver.status.Store(http.StatusInternalServerError)
	held := d.agent(t).hold("wire_money", map[string]any{"to": argument})
	for _, r := range d.Reviewers {
		eventually(t, settleWithin, "a mail to "+r.Email, func() bool { return len(box.at(r.Email)) > 0 })
		text := strings.ReplaceAll(box.at(r.Email)[0], "=\r\n", "")
		if !strings.Contains(text, d.URL+"/approvals/"+held.ID) || strings.Contains(text, argument) {
			t.Errorf("%s gets\n%s", r.Email, text)
		}
	}
	if n := len(box.at(d.Owner.Email)) + len(box.at(d.Auditor.Email)); n != 0 {
		t.Errorf("%d mails to the requesting side and to the auditor, who cannot decide", n)
	}
	// Refused the first time, taken the second: the same id, and signed anew.
	eventually(t, settleWithin, "a webhook", func() bool { return len(receiver.about(held.ID, "approval.opened")) >= 1 })
	receiver.status.Store(http.StatusOK)
	eventually(t, settleWithin, "a second attempt", func() bool { return len(receiver.about(held.ID, "approval.opened")) >= 2 })
	posts := receiver.about(held.ID, "approval.opened")
	if posts[0].header.Get("webhook-id") != posts[1].header.Get("webhook-id") || !bytes.Equal(posts[0].body, posts[1].body) {
		t.Error("the second attempt is not the first one again")
	}
	for _, p := range posts {
		if !signedBy(secret, p.header, p.body) || bytes.Contains(p.body, []byte(argument)) {
			t.Errorf("not genuine, or with the argument: %s", p.body)
		}
	}
	d.reviewer(t, 0).approve(held)
	eventually(t, settleWithin, "that it is decided", func() bool {
		return len(receiver.about(held.ID, "approval.decided")) == 1 && len(box.at(d.Owner.Email)) == 1
	})

	// An endpoint that wants no more is switched off; its letter is dead, and can be
	// sent again when it is on.
	receiver.status.Store(http.StatusGone)
	second := d.agent(t).hold("wire_money", map[string]any{"to": argument})
	var dead string
	eventually(t, settleWithin, "a dead letter", func() bool {
		dead = regexp.MustCompile(`ntf_\w+`).FindString(notify("dead"))
		return dead != ""
	})
	if out := notify("list"); !regexp.MustCompile(id + `.*\boff\b`).MatchString(out) {
		t.Errorf("after a 410: %s", out)
	}
	receiver.status.Store(http.StatusOK)
	notify("enable", id)
	notify("resend", dead)
	eventually(t, settleWithin, "the dead letter again", func() bool { return len(receiver.about(second.ID, "approval.opened")) == 2 })
	if again := receiver.about(second.ID, "approval.opened"); again[0].header.Get("webhook-id") != dead || again[1].header.Get("webhook-id") != dead {
		t.Error("a dead letter that is sent again has another id")
	}
	rotated := regexp.MustCompile(`whsec_\S+`).FindString(notify("rotate", id, "--overlap", "0s"))
	notify("test", id)
	last := receiver.about("", "endpoint.test")
	if p := last[len(last)-1]; !signedBy(rotated, p.header, p.body) || signedBy(secret, p.header, p.body) {
		t.Error("the former secret still signs, or the new one does not")
	}

	record := string(d.admin(t).do("GET", "/v1/audit/events?limit=500", nil).Body)
	for _, code := range []string{"ENDPOINT_ADDED", "ENDPOINT_TESTED", "ENDPOINT_GONE", "ENDPOINT_ENABLED", "ENDPOINT_ROTATED", "NOTIFICATION_GIVEN_UP", "NOTIFICATION_RESENT"} {
		if !strings.Contains(record, code) {
			t.Errorf("%s is not on record", code)
		}
	}
	for _, what := range []string{argument, secret, rotated, "path-canary-99"} {
		forms := disguises(what)
		for _, database := range []string{"holdpoint", "temporal"} {
			for table, rows := range dump(t, d.OwnerURL, database) {
				if found := find(forms, rows); found != nil {
					t.Errorf("%.12s… is in %s of %s", what, table, database)
				}
			}
		}
		if strings.Contains(d.program.text(), what) {
			t.Errorf("%.12s… is in the log", what)
		}
	}
}

// TestBrowserNotifications: an administrator adds, tests, rotates and switches
// endpoints, and sends dead letters again; nobody else gets there.
func TestBrowserNotifications(t *testing.T) {
	ownPrograms(t)
	receiver := startHook(t)
	d := startDev(t, nil)
	b := openBrowser(t, d.URL)
	b.signIn(d.Owner)
	b.open("/admin")
	b.click(`main a[href="/notifications"]`)
	b.sees(testid("no-endpoints"), "Nobody is told yet")
	b.sees(testid("dead"), "Nothing was given up")
	b.fits("/notifications, empty")
	shot(b, "empty")

	b.click(testid("add-email") + " button[type=submit]")
	b.sees(testid("notice"), "endpoint was added")
	b.click(testid("add-webhook") + " summary")
	b.put(testid("add-webhook")+" input[name=name]", "Desk")
	b.put(testid("add-webhook")+" input[name=url]", receiver.URL+"/path-canary-99")
	b.click(testid("add-webhook") + " input[name=plain]")
	b.click(testid("add-webhook") + " input[value=decided]")
	b.click(testid("add-webhook") + " button[type=submit]")
	b.sees(testid("secret"), "whsec_")
	first := b.eval(`document.querySelector("[data-testid=secret] code").innerText`)
	b.fits("/notifications with a secret")
	shot(b, "secret")
	b.click(testid("secret") + " a")
	b.until("the secret to be gone", loaded+` && document.querySelector("[data-testid=secret]") === null`)
	if page := b.eval(`document.documentElement.outerHTML`); strings.Contains(page, first) || strings.Contains(page, "path-canary") {
		t.Error("the page shows a secret again")
	}
	id := b.eval(`[...document.querySelectorAll("[data-endpoint]")].find((r) => r.innerText.includes("Desk")).id`)
	row := "#" + id + " "
	b.click(row + "summary")
	b.visible(row + testid("test-form") + " button")
	b.fits("/notifications, open")
	b.click(row + testid("test-form") + " button")
	b.sees(testid("notice"), "test is on its way")
	eventually(t, settleWithin, "the test", func() bool { return len(receiver.about("", "endpoint.test")) == 1 })
	if p := receiver.about("", "endpoint.test")[0]; !signedBy(first, p.header, p.body) {
		t.Error("the test is not signed by the secret that the page showed")
	}
	b.click(row + "summary")
	b.click(row + testid("rotate-form") + " button")
	b.sees(testid("secret"), "whsec_")
	if b.eval(`document.querySelector("[data-testid=secret] code").innerText`) == first {
		t.Error("the new secret is the old one")
	}

	// Its settings are changed on a page of their own; the secret and the address stay.
	settings := "/notifications/endpoints/" + strings.Trim(id, `"`)
	b.open(settings)
	b.visible(testid("endpoint-form"))
	b.fits("the page of an endpoint")
	shot(b, "endpoint")
	if page := b.eval(`document.documentElement.outerHTML`); strings.Contains(page, "path-canary") || b.eval(`document.querySelector("input[value=decided]").checked`) != "true" {
		t.Error("the page shows the address, or not what is told")
	}
	b.put(testid("endpoint-form")+" textarea[name=tools]", "wire_*")
	b.click(testid("endpoint-form") + " button")
	b.sees(testid("notice"), "the endpoint was changed")
	b.sees(row, "tools wire_*")

	// A dead letter, by a receiver that wants no more.
	receiver.status.Store(http.StatusGone)
	held := d.agent(t).hold("wire_money", map[string]any{"x": 1})
	d.reviewer(t, 0).approve(held)
	eventually(t, settleWithin, "the decision", func() bool { return len(receiver.about(held.ID, "approval.decided")) == 1 })
	if posts := receiver.about(held.ID, "approval.opened"); len(posts) != 0 {
		t.Error("the endpoint is told of what was not ticked")
	}
	b.open("/notifications")
	b.until("the dead letter", `document.querySelector("[data-testid=dead-letters]") !== null || (location.reload(), false)`)
	b.sees(testid("dead-letters"), "410")
	b.sees(row, "Off")
	b.fits("/notifications with a dead letter")
	shot(b, "dead")
	for _, width := range []int64{390, 360} {
		b.do(chromedp.EmulateViewport(width, 740, chromedp.EmulateMobile))
		for _, scheme := range []string{"light", "dark"} {
			b.colours(scheme)
			b.open("/notifications")
			b.click(row + "summary")
			b.click(testid("add-webhook") + " summary")
			b.visible(testid("add-webhook") + " button[type=submit]")
			if got := b.eval(`document.documentElement.scrollWidth <= innerWidth ? "" : document.documentElement.scrollWidth + " of " + innerWidth`); got != "" {
				t.Errorf("scrolls sideways: %s", got)
			}
			b.fits("/notifications on a phone, " + scheme)
		}
		b.colours("light")
		shot(b, "phone-"+b.eval("innerWidth"))
	}
	b.do(chromedp.EmulateViewport(1280, 900))
	receiver.status.Store(http.StatusOK)
	b.open("/notifications")
	b.click(row + "summary")
	b.click(row + testid("switch-form") + " button")
	b.sees(testid("notice"), "switched on")
	b.click(testid("dead-letters") + " tr:has(a) button")
	b.sees(testid("notice"), "sent again")
	eventually(t, settleWithin, "the dead letter again", func() bool { return len(receiver.about(held.ID, "approval.decided")) == 2 })
	b.clean()

	// A mistake, in a tab of its own: a browser complains of every 422 by itself.
	wrong := b.tab()
	wrong.open("/notifications")
	wrong.click(testid("add-slack") + " summary")
	wrong.put(testid("add-slack")+" input[name=name]", "Desk")
	wrong.put(testid("add-slack")+" input[name=url]", "https://hooks.example.com/services/secret-canary")
	wrong.click(testid("add-slack") + " button[type=submit]")
	wrong.sees(testid("add-slack"), "there is an endpoint of this name already")
	if strings.Contains(wrong.eval(`document.documentElement.outerHTML`), "secret-canary") {
		t.Error("the page repeats an address")
	}
	for _, who := range []person{d.Reviewers[0], d.Auditor} {
		d.as(t, who).do("GET", "/notifications", nil).want(t, http.StatusForbidden)
		form := url.Values{"to": {"off"}}.Encode()
		d.as(t, who).do("POST", "/notifications/endpoints/"+id+"/switch", []byte(form), header{"Content-Type", "application/x-www-form-urlencoded"}).want(t, http.StatusForbidden)
	}
}

// shot keeps a picture of the page where HOLDPOINT_TEST_SHOTS names a directory.
func shot(b *browser, name string) {
	b.t.Helper()
	dir := os.Getenv("HOLDPOINT_TEST_SHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/"+name+".png", png, 0o644); err != nil {
		b.t.Error(err)
	}
}
