package channel

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
)

// genuine is the receiver that docs/notifications.md shows.
func genuine(secret string, h http.Header, body []byte) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	seconds, errTime := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || errTime != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "." + string(body)))
	want := "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	return slices.ContainsFunc(strings.Split(h.Get("webhook-signature"), " "), func(got string) bool {
		return hmac.Equal([]byte(got), []byte(want))
	})
}

// TestReceivers: what the documentation tells receivers to do is what this file
// does, in Go and in Python, and it works.
func TestReceivers(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		t.Helper()
		_, rest, ok := strings.Cut(string(doc), "```"+language+"\n")
		code, _, closed := strings.Cut(rest, "```\n")
		if !ok || !closed {
			t.Fatalf("the documentation has no %s", language)
		}
		return code
	}
	self, err := os.ReadFile("receiver_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(self), block("go")) {
		t.Error("the documentation's receiver is not the one that is tested")
	}
	secret := NewSecret()
	body := []byte(`{"a":"ü"}`)
	at := time.Now()
	good, err := Sign([]string{NewSecret(), secret}, "ntf_1", at, body)
	if err != nil {
		t.Fatal(err)
	}
	old, err := Sign([]string{secret}, "ntf_1", at.Add(-time.Hour), body)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		secret string
		header http.Header
		body   string
		want   bool
	}{
		"good":         {secret, good, string(body), true},
		"other secret": {NewSecret(), good, string(body), false},
		"other body":   {secret, good, `{"a":"u"}`, false},
		"old":          {secret, old, string(body), false},
	} {
		if got := genuine(c.secret, c.header, []byte(c.body)); got != c.want {
			t.Errorf("%s, in Go: %t", name, got)
		}
		python, err := exec.LookPath("python3")
		if err != nil {
			t.Log("no python3 here: its receiver is not tried")
			continue
		}
		script := block("python") + `
import sys
h = {"webhook-id": sys.argv[2], "webhook-timestamp": sys.argv[3], "webhook-signature": sys.argv[4]}
print(genuine(sys.argv[1], h, sys.argv[5].encode()))
`
		cmd := exec.Command(python, "-c", script, c.secret, c.header.Get(HeaderID), c.header.Get(HeaderTimestamp), c.header.Get(HeaderSignature), c.body)
		cmd.Env = append(os.Environ(), "PYTHONUTF8=1")
		out, err := cmd.CombinedOutput()
		if want := map[bool]string{true: "True\n", false: "False\n"}[c.want]; err != nil || string(out) != want {
			t.Errorf("%s, in Python: %s %v", name, out, err)
		}
	}
	for _, k := range engine.NotificationKinds() {
		if !strings.Contains(string(doc), "`"+EventType(k)+"`") {
			t.Errorf("the documentation does not tell of %s", k)
		}
	}
}
