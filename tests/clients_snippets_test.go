package tests

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// snippet is the only block of a page that has these words.
func snippet(t *testing.T, page, language, words string) (text string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```\n").FindAllStringSubmatch(fileText(page), -1) {
		if strings.Contains(m[1], words) {
			if text != "" {
				t.Fatalf("%s has two blocks with %q", page, words)
			}
			text = m[1]
		}
	}
	if text == "" {
		t.Fatalf("%s has no block with %q", page, words)
	}
	return text
}

// TestUnfinishedCallsGoOn: the loops of the clients' pages, as they are, go on with what a
// killed agent has left, and settle what had begun.
func TestUnfinishedCallsGoOn(t *testing.T) {
	d := onCalled(t)
	for _, each := range []struct {
		clientLanguage
		page, block, until, was string
	}{
		{pythonAgent, "../clients/python/README.md", "python", `if command == "call":`, "def it_was_paid(arguments):\n    return True\n\n\n"},
		{typescriptAgent, "../clients/typescript/README.md", "ts", `if (command === "call") {`, "const wasPaid = (args) => true;\n"},
	} {
		t.Run(each.name, func(t *testing.T) {
			needs(t, each.program)
			file := each.args[len(each.args)-1]
			agent, _, found := strings.Cut(fileText(file), each.until)
			if !found {
				t.Fatalf("%s has no %q", file, each.until)
			}
			built, err := filepath.Abs("../clients/typescript/dist/index.js")
			if err != nil {
				t.Fatal(err)
			}
			program := strings.Replace(agent, "../dist/index.js", built, 1) + each.was + snippet(t, each.page, each.block, "unfinished()") + "\n"
			path := filepath.Join(t.TempDir(), filepath.Base(file))
			if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			a := newClientAgent(t, d, each.clientLanguage)
			waits, begun := newID("clients_"), newID("clients_")
			p := a.followed("call", waits, oneArgument)
			one := a.opened(waits)
			p.kill()
			p = a.start("call", begun, oneArgument, "hang")
			other := a.opened(begun)
			d.reviewer(t, 0).approve(one)
			d.reviewer(t, 0).approve(other)
			if !p.next().Running {
				t.Fatal("it does not run")
			}
			p.kill()
			a.language.args = append(each.args[:len(each.args)-1:len(each.args)-1], path)
			p = a.start("resume", waits)
			for p.lines.Scan() { // what its tool says
			}
			if err := p.cmd.Wait(); err != nil || p.errs.Len() > 0 {
				t.Fatalf("%v\n%s", err, p.errs)
			}
			a.ran(2)
			a.executed(one.ID, "succeeded")
			a.executed(other.ID, "succeeded")
		})
	}
}

// TestWebhooksAreVerifiedAsShown: what the page shows, as it is, takes a webhook for genuine
// that is, and no other.
func TestWebhooksAreVerifiedAsShown(t *testing.T) {
	const page, secret, body = "../docs/notifications.md", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"type":"approval.decided"}`
	sign := func(at time.Time, body string) (stamp, signature string) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		stamp = strconv.FormatInt(at.Unix(), 10)
		m := hmac.New(sha256.New, key)
		m.Write([]byte("msg_1." + stamp + "." + body))
		return stamp, "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	}
	now, good := sign(time.Now(), body)
	old, stale := sign(time.Now().Add(-time.Hour), body)
	_, others := sign(time.Now(), "{}")
	cases := [][]string{{now, "v1,AAAA " + good}, {old, stale}, {now, others}, {now, "v1,AAAA"}, {now, ""}, {"x", good}}
	const want = "yes no no no no no"
	check := func(what string, cmd *exec.Cmd) {
		t.Helper()
		for _, each := range cases {
			cmd.Args = append(cmd.Args, each...)
		}
		out, err := cmd.CombinedOutput()
		if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
			t.Errorf("%s says %q, want %q (%v)", what, got, want, err)
		}
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	needs(t, "python3")
	check("Python", exec.Command("python3", "-B", write("genuine.py", snippet(t, page, "python", "def genuine")+`

import sys
for at in range(1, len(sys.argv), 2):
    headers = {"webhook-id": "msg_1", "webhook-timestamp": sys.argv[at], "webhook-signature": sys.argv[at + 1]}
    print("yes" if genuine("`+secret+`", headers, b'`+body+`') else "no")
`)))
	program := write("genuine.go", `package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

`+snippet(t, page, "go", "func genuine")+`

func main() {
	for at := 1; at < len(os.Args); at += 2 {
		h := http.Header{}
		h.Set("webhook-id", "msg_1")
		h.Set("webhook-timestamp", os.Args[at])
		h.Set("webhook-signature", os.Args[at+1])
		fmt.Println(map[bool]string{true: "yes", false: "no"}[genuine("`+secret+`", h, []byte(`+"`"+body+"`"+`))])
	}
}
`)
	binary := filepath.Join(dir, "genuine")
	build := exec.Command("go", "build", "-o", binary, program)
	build.Env = append(environment(), "GOWORK=off", "GO111MODULE=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	check("Go", exec.Command(binary))
}
