package tests

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"holdpoint/internal/pushtest"
)

// allowNotifications is what somebody answers whom the browser asks.
func (b *browser) allowNotifications() {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		about, err := cdp.Call(ctx, tab, target.GetTargetInfo, target.GetTargetInfoParams{})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, tab, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
			Permission: &cdpbrowser.PermissionDescriptor{Name: "notifications"}, Setting: cdpbrowser.PermissionSettingGranted, Origin: b.url,
			BrowserContextID: about.TargetInfo.BrowserContextID,
		})
		return err
	}))
}

// pushTo has a push of this text come to the page's service worker, as the browser's own
// push service would: again and again until shown is true, for a push is lost when the
// browser has just put the worker to sleep, or has not kept it yet.
func (b *browser) pushTo(text, shown string) {
	b.t.Helper()
	found, errs := make(chan serviceworker.RegistrationID, 100), make(chan string, 100)
	if err := chromedp.Listen(b.ctx, func(ev any) {
		switch e := ev.(type) {
		case *serviceworker.EventWorkerRegistrationUpdated:
			for _, r := range e.Registrations {
				if !r.IsDeleted && strings.HasPrefix(r.ScopeURL, b.url) {
					found <- r.RegistrationID
				}
			}
		case *serviceworker.EventWorkerErrorReported:
			errs <- e.ErrorMessage.ErrorMessage
		}
	}); err != nil {
		b.t.Fatal(err)
	}
	var id serviceworker.RegistrationID
	b.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		if _, err := cdp.Call(ctx, tab, serviceworker.Enable, cdp.Empty{}); err != nil {
			return err
		}
		select {
		case id = <-found:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}))
	began, sent := time.Now(), time.Time{}
	for ; b.eval(shown) != "true"; time.Sleep(100 * time.Millisecond) {
		if time.Since(sent) > 5*time.Second {
			sent = time.Now()
			b.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
				_, err := cdp.Call(ctx, tab, serviceworker.DeliverPushMessage, serviceworker.DeliverPushMessageParams{Origin: b.url, RegistrationID: id, Data: text})
				return err
			}))
		}
		if time.Since(began) > 3*seeWithin {
			for len(errs) > 0 {
				b.t.Log("the service worker: ", <-errs)
			}
			b.t.Fatalf("what is pushed is not shown: registration %s, %s; shown are %s", id, b.eval(`window.workerThere`), b.eval(`JSON.stringify((window.shownThere || []).map((n) => [n.title, n.body, n.data]))`))
		}
	}
}

// TestBrowserIsPushedTo: somebody has their browser notified, by a stand-in of a push
// service that takes what a real one takes; a call that waits is told there; the service
// worker shows it; and signing out ends it.
func TestBrowserIsPushedTo(t *testing.T) {
	d := onBrowsed(t)
	service := pushtest.New(t, false)
	must(t, nil, "", "notify", "add", "push", "People's browsers", "--data", d.dir)
	b := openIn(&whole, t, d.URL)
	b.signIn(d.Reviewers[1])
	b.allowNotifications()
	b.open("/account")
	phone := service.Subscribe(t, b.eval(`document.querySelector("[data-push]").dataset.push`))
	said, err := json.Marshal(phone.Subscription)
	if err != nil {
		t.Fatal(err)
	}
	// The browser's maker cannot be reached from here. All else is real.
	b.eval(`(() => {
		const said = ` + string(said) + `;
		const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0)).buffer;
		PushManager.prototype.subscribe = async () => ({ endpoint: said.endpoint, getKey: (name) => bytes(said[name]) });
	})()`)
	b.click(testid("push-add") + ` input[name=details]`)
	b.click(testid("push-add") + ` button`)
	b.sees(testid("push"), "this browser")
	b.sees(testid("push"), "with details")
	// One that is not active yet drops what is pushed.
	b.until("the service worker is at work for the whole console", `(navigator.serviceWorker.ready.then((r) => { window.workerThere = r.active.state + " " + r.scope; }), window.workerThere === "activated " + location.origin + "/")`)

	agent, run := d.agent(t), strconv.FormatInt(time.Now().UnixNano(), 10)
	a := agent.hold("pay_push_"+run, map[string]any{"amount": 12, "currency": "EUR", "to": "Ann " + run})
	ctx, cancel := context.WithTimeout(t.Context(), seeWithin)
	defer cancel()
	var got pushtest.Push
	for !strings.Contains(got.Text, "/approvals/"+a.ID) { // other tests' calls wait for the same people
		if got, err = phone.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(got.Text, "A payment waits for you") || !strings.Contains(got.Text, "Pay 12 EUR") || got.Urgency != "high" {
		t.Errorf("pushed %s, urgency %s", got.Text, got.Urgency)
	}
	b.pushTo(got.Text, `(navigator.serviceWorker.getRegistration().then((r) => r.getNotifications()).then((l) => { window.shownThere = l; }), (window.shownThere || []).some((n) =>
		n.title === "A payment waits for you" && n.body.startsWith("Pay 12 EUR") && n.body.includes("Until ") && n.data.path === "/approvals/`+a.ID+`"))`)
	b.open("/account")
	b.sees(testid("push"), "last notified")
	b.clean()

	b.click(`form.who button`)
	b.at("/login")
	b.signIn(d.Reviewers[1])
	b.open("/account")
	b.visible(testid("push-add"))
	if text := b.text(testid("push")); strings.Contains(text, "last notified") {
		t.Errorf("signed out, the browser is notified still: %s", text)
	}
}
