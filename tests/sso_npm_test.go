//go:build npm

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestSSOOfOthers: people sign in by a provider that others have written
// (testdata/openid), whose ID tokens have no address, and prove there who they are.
func TestSSOOfOthers(t *testing.T) {
	ownPrograms(t)
	program := filepath.Join(t.TempDir(), "openid")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("testdata", "openid")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := exec.Command(program)
	in, said := startTalking(t, server)
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	if !said.Scan() {
		t.Fatalf("it does not say where it is: %v", said.Err())
	}
	issuer := said.Text()
	d := startDev(t, func(o *devOptions) {
		o.policy = fmt.Sprintf("sso:\n  - {name: others, label: Others, issuer: %q, client_id: web, client_secret: secret, create: true, email_domains: [zitadel.ch]}\n", issuer)
	})
	if _, err := fmt.Fprintln(in, d.URL+"/login/sso/others/callback"); err != nil {
		t.Fatal(err)
	}
	b := openBrowser(t, d.URL)
	there := func() {
		t.Helper()
		b.until("the page of the provider", `location.href.startsWith(`+quote(issuer)+`) && `+loaded)
		b.write("#username", "test-user@"+strings.Split(strings.TrimPrefix(issuer, "http://"), ":")[0])
		b.write("#password", "verysecure"+kb.Enter)
	}
	b.open("/login?next=/account")
	b.click(testid("providers") + " a")
	there()
	b.at("/account")
	b.sees(testid("account"), "test-user@zitadel.ch")
	b.open("/verify?next=/account")
	b.click(testid("at-provider"))
	there()
	b.at("/account")
	b.sees(testid("account"), "single sign-on")
}
