package stream

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/notify/channel"
)

func TestConfigCheck(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.pair(t)
	const secretText = "s3cr3t-t0k3n"
	syslog := Config{Name: "siem", Kind: SyslogKind, Address: "siem.example.com:6514", CA: a.pem, Cert: cert, Key: key, Types: []string{"vote"}, Outcomes: []string{"DENY"}}
	webhook := Config{Name: "hook-2", Kind: WebhookKind, URL: "https://siem.example.com/in?k=" + secretText, Secret: channel.NewSecret(), Token: secretText, Format: OCSFFormat, From: FromBeginning, Body: "array"}
	for _, good := range []Config{syslog, webhook} {
		if errs := good.Check(nil); len(errs) != 0 {
			t.Fatal(errs)
		}
	}
	for i, test := range []struct {
		from   Config
		change func(*Config)
		want   []string
	}{
		{syslog, func(c *Config) { *c = Config{} }, []string{"name", "kind"}},
		{syslog, func(c *Config) { c.Name = "SIEM" }, []string{"name"}},
		{syslog, func(c *Config) { c.Name = strings.Repeat("a", 65) }, []string{"name"}},
		{syslog, func(c *Config) { c.Kind = "kafka" }, []string{"kind"}},
		{syslog, func(c *Config) { c.Format = "cef" }, []string{"format"}},
		{syslog, func(c *Config) { c.From = "yesterday" }, []string{"from"}},
		{syslog, func(c *Config) { c.Types = []string{"vote", "votes"} }, []string{"types"}},
		{syslog, func(c *Config) { c.Outcomes = []string{"deny"} }, []string{"outcomes"}},
		{syslog, func(c *Config) { c.Address = "" }, []string{"address"}},
		{syslog, func(c *Config) { c.Address = "siem.example.com" }, []string{"address"}},
		{syslog, func(c *Config) { c.Address = "siem.example.com:0" }, []string{"address"}},
		{syslog, func(c *Config) { c.Address = "2130706433:6514" }, []string{"address"}},
		{syslog, func(c *Config) { c.Address = "10.1.2.3:6514" }, []string{"address"}},
		{syslog, func(c *Config) { c.Address = "[::ffff:10.20.0.1]:6514" }, []string{"address"}},
		{syslog, func(c *Config) { c.Address = "10.20.0.1:6514" }, nil},
		{syslog, func(c *Config) { c.Address = "[2600::1]:601" }, nil},
		{syslog, func(c *Config) { c.CA = []byte("x") }, []string{"ca_file"}},
		{syslog, func(c *Config) { c.CA = []byte{} }, []string{"ca_file"}},
		{syslog, func(c *Config) { c.Key = nil }, []string{"cert_file"}},
		{syslog, func(c *Config) { c.Key = a.pem }, []string{"cert_file"}},
		{syslog, func(c *Config) { c.Enterprise = -1 }, []string{"enterprise"}},
		{syslog, func(c *Config) { c.URL, c.Secret, c.Token, c.Body = "x", "x", "x", "lines" }, []string{"url", "secret", "token", "body"}},
		{syslog, func(c *Config) { c.Batch = -1 }, []string{"batch"}},
		{syslog, func(c *Config) { c.MaxEvent = 100 }, []string{"max_event"}},
		{syslog, func(c *Config) { c.Every = -1 }, []string{"every"}},
		{syslog, func(c *Config) { c.Timeout = engine.Duration(time.Hour) }, []string{"timeout"}},
		{webhook, func(c *Config) { c.URL = "" }, []string{"url"}},
		{webhook, func(c *Config) { c.URL = "ftp://siem.example.com" }, []string{"url"}},
		{webhook, func(c *Config) { c.URL = "http://siem.example.com" }, nil},
		{webhook, func(c *Config) { c.URL = "http://8.8.8.8/" }, []string{"url"}},
		{webhook, func(c *Config) { c.URL = "https://10.1.2.3/" + secretText }, []string{"url"}},
		{webhook, func(c *Config) { c.Secret, c.Token = "", "" }, []string{"secret"}},
		{webhook, func(c *Config) { c.Secret = secretText }, []string{"secret"}},
		{webhook, func(c *Config) { c.Secret = "" }, nil},
		{webhook, func(c *Config) { c.Token = secretText + "\r\nX: y" }, []string{"token"}},
		{webhook, func(c *Config) { c.Body = "xml" }, []string{"body"}},
		{webhook, func(c *Config) {
			c.Address, c.Cert, c.Key, c.Enterprise, c.RequireCloseNotify = "x", cert, key, 1, true
		}, []string{"address", "cert_file", "key_file", "enterprise", "require_close_notify"}},
	} {
		c := test.from
		test.change(&c)
		var got []string
		for _, err := range c.Check([]netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")}) {
			name, _, _ := strings.Cut(err.Error(), ":")
			got = append(got, name)
			if text := err.Error(); strings.Contains(text, secretText) || strings.Contains(text, "10.1.2.3") || strings.Contains(text, "\n") {
				t.Errorf("case %d: %q", i, text)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("case %d: %v, want %v", i, got, test.want)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v %s", webhook, webhook, webhook, webhook); strings.Contains(text, secretText) || strings.Contains(text, "whsec_") {
		t.Errorf("printed: %s", text)
	}
}
