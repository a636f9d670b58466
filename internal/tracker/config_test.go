package tracker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"holdpoint/engine"
)

func TestConfigCheck(t *testing.T) {
	good := Config{Name: "acme-jira", Kind: Jira, BaseURL: "https://acme.atlassian.net", User: "bot@acme.example", Token: secret}
	if errs := good.Check(); len(errs) != 0 {
		t.Fatal(errs)
	}
	for _, test := range []struct {
		change func(*Config)
		want   []string
	}{
		{func(c *Config) { *c = Config{} }, []string{"name", "kind", "base_url"}},
		{func(c *Config) { c.Name = "Acme" }, []string{"name"}},
		{func(c *Config) { c.Name = strings.Repeat("a", 65) }, []string{"name"}},
		{func(c *Config) { c.Kind = "trello" }, []string{"kind", "user"}},
		{func(c *Config) { c.BaseURL = "" }, []string{"base_url"}},
		{func(c *Config) { c.BaseURL = "http://acme.atlassian.net" }, []string{"base_url"}},
		{func(c *Config) { c.BaseURL = "https://bot:s3cr3t-t0k3n@acme.atlassian.net" }, []string{"base_url"}},
		{func(c *Config) { c.BaseURL = "https://acme.atlassian.net/?s3cr3t-t0k3n" }, []string{"base_url"}},
		{func(c *Config) { c.BaseURL = "https://acme.atlassian.net/../x" }, []string{"base_url"}},
		{func(c *Config) { c.BaseURL = "https://acme.atlassian.net/%2e%2e" }, []string{"base_url"}},
		{func(c *Config) { c.BaseURL = "https://acme.atlassian.net//x" }, []string{"base_url"}},
		{func(c *Config) { c.BaseURL = "https://127.0.0.1" }, []string{"base_url"}},
		{func(c *Config) { c.BaseURL = "https://2130706433" }, []string{"base_url"}},
		{func(c *Config) { c.WebURL = "ftp://x.example" }, []string{"web_url"}},
		{func(c *Config) { c.Token = "" }, []string{"token"}},
		{func(c *Config) { c.Token = "s3cr3t-t0k3n\r\nX: y" }, []string{"token"}},
		{func(c *Config) { c.User = "bot:x" }, []string{"user"}},
		{func(c *Config) { c.User = "bot x" }, []string{"user"}},
		{func(c *Config) { c.Kind, c.User = ServiceNow, "" }, []string{"user"}},
		{func(c *Config) { c.Kind = GitHub }, []string{"user"}},
		{func(c *Config) { c.Kind, c.User, c.Token = Linear, "", "" }, []string{"token"}},
		{func(c *Config) { c.Projects = []string{"PAY", " "} }, []string{"projects"}},
		{func(c *Config) { c.States = []string{""} }, []string{"states"}},
		{func(c *Config) { c.MaxAge = -1 }, []string{"max_age"}},
		{func(c *Config) { c.Timeout = engine.Duration(61 * time.Second) }, []string{"timeout"}},
		{func(c *Config) { c.Timeout = -1 }, []string{"timeout"}},
		{func(c *Config) { c.AllowPrivate = []string{"10.0.0.1"} }, []string{"allow_private"}},
		{func(c *Config) { c.AllowPrivate = []string{"10.0.0.1/8"} }, []string{"allow_private"}},
		{func(c *Config) { c.AllowHTTP = true }, []string{"allow_http"}},
	} {
		c := good
		test.change(&c)
		var got []string
		for _, err := range c.Check() {
			name, _, _ := strings.Cut(err.Error(), ":")
			got = append(got, name)
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error has the secret: %v", err)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: %v, want %v", c, got, test.want)
		}
		if _, err := New(c); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("New: %v", err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, test := range []struct{ kind, base, web, wantBase, wantWeb string }{
		{GitHub, "", "", "https://api.github.com", "https://github.com"},
		{GitHub, "https://github.com/", "", "https://api.github.com", "https://github.com"},
		{GitHub, "https://api.github.com", "", "https://api.github.com", "https://github.com"},
		{GitHub, "https://git.acme.example/api/v3", "", "https://git.acme.example/api/v3", "https://git.acme.example"},
		{GitLab, "", "", "https://gitlab.com", "https://gitlab.com"},
		{GitLab, "https://acme.example/gitlab/", "", "https://acme.example/gitlab", "https://acme.example/gitlab"},
		{Linear, "", "", "https://api.linear.app", "https://linear.app"},
		{Linear, "https://linear.app", "", "https://api.linear.app", "https://linear.app"},
		{Jira, "https://api.atlassian.com/ex/jira/1", "https://acme.atlassian.net", "https://api.atlassian.com/ex/jira/1", "https://acme.atlassian.net"},
	} {
		c := Config{Name: "x", Kind: test.kind, BaseURL: test.base, WebURL: test.web, Token: secret}
		source, err := c.tracker()
		if errs := c.Check(); err != nil || len(errs) > 0 || source.base != test.wantBase || source.web.String() != test.wantWeb {
			t.Errorf("%s %q: %q, %q, %v, %v", test.kind, test.base, source.base, source.web, err, errs)
		}
	}
}

func TestConfigHidesToken(t *testing.T) {
	c := Config{Name: "acme", Kind: Jira, Token: secret}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("connector", slog.Any("config", c))
	for _, got := range []string{fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s", c, &c, c, c), fmt.Sprint([]Config{c}), log.String()} {
		if strings.Contains(got, secret) || !strings.Contains(got, "acme") {
			t.Errorf("%s", got)
		}
	}
}

func TestConfigFormats(t *testing.T) {
	want := Config{
		Name: "acme", Kind: HTTP, BaseURL: "https://ops.example", WebURL: "https://see.example", Token: "t", Projects: []string{"OPS"},
		States: []string{"ready"}, MaxAge: engine.Duration(time.Hour), AllowPrivate: []string{"10.1.0.0/16"}, AllowHTTP: true, Timeout: engine.Duration(time.Second),
	}
	for what, format := range map[string]struct {
		write func(any) ([]byte, error)
		read  func([]byte, any) error
	}{"json": {json.Marshal, json.Unmarshal}, "yaml": {yaml.Marshal, yaml.Unmarshal}} {
		raw, err := format.write(want)
		var got Config
		if err == nil {
			err = format.read(raw, &got)
		}
		if err != nil || fmt.Sprintf("%q %q", got.AllowPrivate, got.Terms()) != fmt.Sprintf("%q %q", want.AllowPrivate, want.Terms()) ||
			got.Token != want.Token || got.BaseURL != want.BaseURL || got.WebURL != want.WebURL || got.Timeout != want.Timeout || !got.AllowHTTP {
			t.Errorf("%s: %s, %v", what, raw, err)
		}
	}
}

// TestEveryTrackerIsWhole names what the table and the tests of kinds lack.
func TestEveryTrackerIsWhole(t *testing.T) {
	for _, k := range kinds {
		fake := slices.ContainsFunc(fakes, func(f fake) bool { return f.kind == k.name })
		for what, there := range map[string]bool{
			"name": k.name != "", "source": k.source != nil, "authorize": k.authorize != nil, "web beside api": (k.api == "") == (k.web == ""),
			"takesUser beside needsUser": k.takesUser || !k.needsUser, "fakes": fake, "parsers": parsers[k.name].parse != nil,
			"goodRefs": len(goodRefs[k.name]) > 0, "badRefs": len(badRefs[k.name]) > 0, "others": len(others[k.name]) > 0,
		} {
			if !there {
				t.Errorf("%s has no %s", k.name, what)
			}
		}
	}
}

// Every example in the documentation is a configuration.
func TestDocumentation(t *testing.T) {
	doc, err := os.ReadFile("../../docs/tickets.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(doc, -1) {
		var examples []Config
		if err := yaml.UnmarshalWithOptions(block[1], &examples, yaml.Strict()); err != nil {
			t.Fatalf("%s\n%v", block[1], err)
		}
		for _, c := range examples {
			found = append(found, c.Kind)
			if errs := c.Check(); len(errs) > 0 {
				t.Errorf("%s: %v", c, errs)
			}
		}
	}
	for _, k := range kinds {
		if !slices.Contains(found, k.name) {
			t.Errorf("no example for %s", k.name)
		}
	}
	for _, code := range []Code{TicketClosed, TicketOtherProject, TicketState, TicketTooNew, TicketTooOld} {
		if !bytes.Contains(doc, []byte("`"+code+"`")) {
			t.Errorf("%s is not explained", code)
		}
	}
}
