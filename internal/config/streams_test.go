package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/notify/channel"
	"holdpoint/internal/stream"
)

const streams = `outbound_allow_private: [10.20.0.0/16]
log_streams:
  - name: siem
    kind: syslog
    address: 10.20.0.7:6514
    every: 5s
    types: [decision, settled]
    from: beginning
  - {name: hook, kind: webhook, url: "https://siem.example.com/in", secret_file: SECRET, token_file: TOKEN, format: ocsf}
`

func TestLogStreams(t *testing.T) {
	secret := channel.NewSecret()
	text := strings.NewReplacer("SECRET", write(t, secret+"\n"), "TOKEN", write(t, " hunter2\n")).Replace(streams)
	c, err := Load(write(t, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // whoever checks twice finds the same
		if err := c.Check(Temporal); err != nil {
			t.Fatal(err)
		}
		if got := c.LogStreams[1]; got.Secret != secret || got.Token != "hunter2" || time.Duration(c.LogStreams[0].Every) != 5*time.Second {
			t.Errorf("%q %q %v", got.Secret, got.Token, c.LogStreams)
		}
	}
	if text := fmt.Sprintf("%v %+v", c.LogStreams, c); strings.Contains(text, "hunter2") || strings.Contains(text, "whsec_") {
		t.Errorf("a secret is shown: %s", text)
	}
	// Whoever sends nothing needs no secrets for it.
	other := Default()
	other.LogStreams = []stream.Config{{Name: "x", TokenFile: "/nowhere"}}
	if err := other.Check(0); err != nil {
		t.Errorf("not needed: %v", err)
	}
}

func TestMistakesInLogStreamsAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		old, new string
		want     []string
	}{
		"no file":          {"TOKEN", "/nowhere/token", []string{"log_streams[1].token_file:"}},
		"twice":            {"token_file: TOKEN", "token: hunter2, token_file: TOKEN", []string{"log_streams[1].token:"}},
		"same name":        {"name: hook", "name: siem", []string{"log_streams[1].name:"}},
		"inside the house": {"10.20.0.7", "10.21.0.7", []string{"log_streams[0].address:"}},
		"no secret":        {"secret_file: SECRET", "secret: hunter2", []string{"log_streams[1].secret:"}},
		"several":          {"kind: syslog\n", "kind: syslog\n    format: cef\n    batch: 9999\n", []string{"log_streams[0].format:", "log_streams[0].batch:"}},
		"no duration":      {"every: 5s", "every: 5", []string{"[6:12] every: want a duration"}},
		"no such setting":  {"kind: syslog\n", "kind: syslog\n    addr: x\n", []string{`unknown field "addr"`}},
		"no certificate":   {"kind: syslog\n", "kind: syslog\n    ca_file: TOKEN\n", []string{"log_streams[0].ca_file:"}},
		"half a pair":      {"kind: syslog\n", "kind: syslog\n    cert_file: TOKEN\n", []string{"log_streams[0].cert_file:"}},
	} {
		text := strings.Replace(streams, tc.old, tc.new, 1)
		if text == streams {
			t.Errorf("%s: nothing was changed", name)
		}
		text = strings.NewReplacer("SECRET", write(t, channel.NewSecret()), "TOKEN", write(t, "hunter2")).Replace(text)
		c, err := Load(write(t, text), nil)
		if err == nil {
			err = c.Check(Temporal)
		}
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(tc.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %q", name, err)
			continue
		}
		for i, want := range tc.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s: got %q, want %q", name, lines[i], want)
			}
		}
	}
}
