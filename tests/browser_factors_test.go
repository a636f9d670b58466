package tests

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/pquerna/otp/totp"
)

// authenticator gives the tab a passkey authenticator of the browser's own, and
// returns how to say whether its holder's finger is the right one.
func (b *browser) authenticator() (verified func(bool)) {
	b.t.Helper()
	var id webauthn.AuthenticatorID
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, webauthn.Enable, webauthn.EnableParams{}); err != nil {
			return err
		}
		made, err := cdp.Call(ctx, target, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: "ctap2", Transport: "internal", HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		}})
		id = made.AuthenticatorID
		return err
	}))
	return func(is bool) {
		b.t.Helper()
		b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: id, IsUserVerified: is})
			return err
		}))
	}
}

// code is what an authenticator app with the secret shows now.
func code(t testing.TB, secret string) string {
	t.Helper()
	text, err := totp.GenerateCode(strings.ReplaceAll(secret, " ", ""), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// password fills the first step of a sign-in.
func (b *browser) password(p person) {
	b.t.Helper()
	b.open("/login")
	b.write(`input[name=email]`, p.Email)
	b.write(`input[name=password]`, p.Password+kb.Enter)
}

// at waits until the page is at a path.
func (b *browser) at(path string) {
	b.t.Helper()
	b.until("the page "+path, `location.pathname === `+quote(path)+` && `+loaded)
}

// everywhere looks at a page, all of it unfolded, in both colours and on a phone.
func (b *browser) everywhere(path string) {
	b.t.Helper()
	const still = `document.getAnimations().length === 0`
	b.eval(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
	for _, scheme := range []string{"light", "dark"} {
		b.colours(scheme)
		b.until("the colours of "+path, still)
		b.fits(path + " " + scheme)
	}
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	if got := b.eval(`document.documentElement.scrollWidth + " of " + innerWidth`); got != "360 of 360" {
		b.t.Errorf("%s scrolls sideways: %s", path, got)
	}
	b.until("the width of "+path, still)
	b.fits(path + " on a phone")
	b.do(chromedp.EmulateViewport(1280, 900))
}

// TestBrowserSecondFactors: somebody adds a passkey, needs it from then on, sets
// up an authenticator app, and signs in with either, by keys and on any screen.
func TestBrowserSecondFactors(t *testing.T) {
	d := onBrowsed(t)
	p := d.newPerson(t, "--role", "reviewer")

	// Passkeys are bound to a name, which an address is not.
	bare := openBrowser(t, d.URL)
	bare.signIn(p)
	bare.click("a.person")
	bare.sees(testid("passkeys"), "belongs to one address")
	bare.everywhere("/account without passkeys")
	bare.clean()

	b := openBrowser(t, strings.Replace(d.URL, "127.0.0.1", "localhost", 1))
	finger := b.authenticator()
	b.signIn(p)
	b.open("/account")
	b.everywhere("/account")
	b.write(`[data-testid=new-passkey] input[name=name]`, "Work laptop"+kb.Enter)
	b.sees(testid("notice"), "passkey was added")
	b.sees(testid("passkeys"), "Work laptop")
	b.everywhere("/account with a passkey")

	// The password of a moment ago is not enough any more.
	b.click(testid("totp") + ` button`)
	b.at("/verify")
	b.everywhere("/verify")
	if b.eval(`document.querySelector("input[name=password]") === null`) != "true" {
		t.Error("a password is asked for where there is a passkey")
	}
	finger(false)
	b.click(testid("use-passkey"))
	b.sees("[data-passkey-status]", "cancelled")
	finger(true)
	b.click(testid("use-passkey"))
	b.at("/account")
	b.click(testid("totp") + ` button`)
	b.visible("svg.qr")
	b.everywhere("/account/totp")
	secret := b.text(testid("totp-secret"))
	b.write(`input[name=code]`, code(t, secret)+kb.Enter)
	b.sees(testid("notice"), "authenticator app was added")

	b.click("form.who button")
	b.at("/login")
	b.password(p)
	b.at("/login/verify")
	b.everywhere("/login/verify")
	if b.eval(`document.activeElement.name`) != "code" {
		t.Error("the cursor is not where the code goes")
	}
	b.click(testid("use-passkey"))
	b.visible("form.who")
	b.open("/account")
	b.sees(testid("account"), "a passkey")
	b.sees(testid("passkeys"), "last used")

	b.click(testid("passkeys") + " summary")
	b.click(`form[action="/account/passkeys/remove"] input[type=checkbox]`)
	b.click(`form[action="/account/passkeys/remove"] button`)
	b.sees(testid("notice"), "passkey was removed")
	b.clean()
}

// TestBrowserSignsInWithACode: the example person with an authenticator app
// signs in by keys alone.
func TestBrowserSignsInWithACode(t *testing.T) {
	d := onBrowsed(t)
	fay := d.Reviewers[len(d.Reviewers)-1]
	if fay.Email != "fay@example.com" || fay.TOTPSecret == "" {
		t.Fatalf("the last reviewer is %+v", fay)
	}
	b := openBrowser(t, d.URL)
	b.password(fay)
	b.at("/login/verify")
	b.until("the field of the code to have the focus", `document.activeElement.name === "code"`)
	b.key(code(t, fay.TOTPSecret) + kb.Enter)
	b.visible("form.who")
	b.open("/account")
	b.sees(testid("account"), "a code")
	b.clean()
}
