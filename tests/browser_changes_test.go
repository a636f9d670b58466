package tests

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// changesThePolicy has the owner propose a policy in the console, take it back, and propose it
// again; the owner's own vote is refused, somebody else approves it with a signature, and it is in force
// and in the history, with its difference.
func changesThePolicy(t *testing.T, d *dev, b *browser) {
	t.Helper()
	must(t, nil, "", "changes", "require", "policy", "--role", "policy-owner", "--signed", "--data", d.dir)
	approver := d.newPerson(t, "--role", "policy-owner")
	b.open("/policies")
	b.click(`a[href="/policies/propose"]`)
	text := `[data-testid=propose-form] textarea`
	b.visible(text)
	b.everywhere("/policies/propose")
	propose := func(complaint string) string {
		t.Helper()
		b.open("/policies/propose")
		b.visible(text)
		if complaint != "" {
			wrong := b.tab() // a browser complains of every 409 by itself
			wrong.open("/policies/propose")
			wrong.write(`input[name=reason]`, "nothing"+kb.Enter)
			wrong.sees(testid("failure"), complaint)
			wrong.everywhere("/policies/propose, refused")
		}
		if complaint != "" {
			b.eval(`(() => { const t = document.querySelector("` + text + `"); t.value = t.value.replace('version: "1"', 'version: "2"'); return ""; })()`)
		} else { // by a file, in place of the text
			second := strings.Replace(b.eval(`document.querySelector("`+text+`").value`), `version: "1"`, `version: "2"`, 1)
			file := filepath.Join(t.TempDir(), "policy.yaml")
			if err := os.WriteFile(file, []byte(second), 0o600); err != nil {
				t.Fatal(err)
			}
			b.do(chromedp.SetUploadFiles(chromedp.CSS(`input[name=file]`), []string{file}))
		}
		b.write(`input[name=reason]`, "the second edition"+kb.Enter)
		b.sees(testid("difference"), `+version: "2"`)
		b.sees(testid("seen-change"), "1 → 2")
		b.everywhere("/policies/propose, looked at")
		b.click(testid("propose"))
		b.sees(testid("notice"), "The change is proposed")
		return strings.TrimPrefix(b.eval(`location.pathname`), "/approvals/")
	}
	first := propose("in force already")
	b.everywhere("/approvals/" + first)
	b.open("/approvals/" + first)
	b.unfold("do-withdraw")
	b.click(testid("withdraw"))
	b.sees(testid("notice"), "The change was taken back")
	id := propose("")
	if b.eval(`document.querySelector("[data-testid=approve]") === null`) != "true" {
		t.Error("the author is offered to approve")
	}
	var a approval
	d.as(t, d.Owner).do("GET", "/v1/approvals/"+id, nil).want(t, http.StatusOK).into(t, &a)
	d.as(t, d.Owner).vote(a, "approve").want(t, http.StatusForbidden, "self_review")
	d.as(t, approver).vote(a, "approve").want(t, http.StatusForbidden, "signature_required")

	other := openBrowser(t, strings.Replace(d.URL, "127.0.0.1", "localhost", 1))
	other.authenticator()
	other.signIn(approver)
	other.open("/account")
	other.write(`[data-testid=new-passkey] input[name=name]`, "Work laptop"+kb.Enter)
	other.sees(testid("notice"), "passkey was added")
	other.open("/")
	other.sees(`[data-row="`+id+`"]`, "Change of the policy") // and not the name that it goes by
	other.open("/approvals/" + id)
	other.sees("h1", "wants to change the policy")
	other.sees(testid("approve"), "Approve and sign")
	other.click(testid("approve"))
	other.sees(testid("status"), "approved")
	other.sees(testid("timeline"), "proposed a change of the policy")
	other.sees(testid("timeline"), "in force")
	other.clean()

	b.open("/policies/history")
	b.sees(testid("editions"), "the second edition")
	b.sees(testid("editions"), approver.Email)
	b.everywhere("/policies/history")
	b.click(testid("editions") + ` a[href*="difference"]`)
	b.sees(testid("difference"), `+version: "2"`)
	b.clean()
	if got := string(d.admin(t).do("GET", "/v1/admin/changes/editions", nil).want(t, http.StatusOK).Body); !strings.Contains(got, `"reason":"the second edition"`) {
		t.Errorf("the editions: %s", got)
	}
	if got := string(d.admin(t).do("GET", "/v1/admin/rules", nil).Body); !strings.Contains(got, `"policy_version":"2"`) {
		t.Errorf("in force: %s", got)
	}
	r := d.verified(t, d.exported(t))
	if r.code != 0 || !strings.Contains(r.out, "signed by the voters’ own passkeys") {
		t.Errorf("%d: %s", r.code, r.out)
	}
}
