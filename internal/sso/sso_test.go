package sso_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdpoint/internal/sso"
	"holdpoint/internal/ssotest"
)

func good() sso.Config {
	return sso.Config{Name: "corp", Issuer: "https://id.example.com/realms/corp", ClientID: "holdpoint", ClientSecret: "hush, hush"}
}

// TestMistakes: each mistake in the settings has one line, which names the setting and has
// no secret.
func TestMistakes(t *testing.T) {
	for want, edit := range map[string]func(*sso.Config){
		"":                           func(*sso.Config) {},
		"name: ":                     func(c *sso.Config) { c.Name = "Corp ID" },
		"name: want":                 func(c *sso.Config) { c.Name = "" },
		"label: ":                    func(c *sso.Config) { c.Label = "two\nlines" },
		"client_id: ":                func(c *sso.Config) { c.ClientID = "" },
		"issuer: it is missing":      func(c *sso.Config) { c.Issuer = "" },
		"issuer: want https":         func(c *sso.Config) { c.Issuer = "http://id.example.com" },
		"issuer: want the issuer":    func(c *sso.Config) { c.Issuer += "/.well-known/openid-configuration" },
		"issuer: the address":        func(c *sso.Config) { c.Issuer = "id.example.com" },
		"allow_private: ":            func(c *sso.Config) { c.AllowPrivate = []string{"10.0.0.1/99"} },
		"scopes: ":                   func(c *sso.Config) { c.Scopes = []string{"email", "offline_access"} },
		"email_domains: it is":       func(c *sso.Config) { c.Create = true },
		"email_domains: it is missi": func(c *sso.Config) { c.LinkByEmail = true },
		"email_domains: want":        func(c *sso.Config) { c.EmailDomains = []string{"@example.com"} },
		"email_domains: it is m":     func(c *sso.Config) { c.SCIM = true },
		"create: ":                   func(c *sso.Config) { c.SCIM, c.Create, c.EmailDomains = true, true, []string{"example.com"} },
		"scim_id_claim: it says":     func(c *sso.Config) { c.SCIMIDClaim = "oid" },
		"scim_id_claim: email may":   func(c *sso.Config) { c.SCIM, c.SCIMIDClaim, c.EmailDomains = true, "email", []string{"example.com"} },
		"scim_id_claim: Email may":   func(c *sso.Config) { c.SCIM, c.SCIMIDClaim, c.EmailDomains = true, "Email", []string{"example.com"} },
		"mfa_acr: ":                  func(c *sso.Config) { c.MFAACR = []string{"gold"} },
		`roles: group "a": it`:       func(c *sso.Config) { c.Roles = map[string][]string{"a": nil} },
		`roles: group "a": "b,c"`:    func(c *sso.Config) { c.Roles = map[string][]string{"a": {"b,c"}} },
		`roles: group "a": the role`: func(c *sso.Config) { c.Roles = map[string][]string{"a": {"on-call/pay"}} },
	} {
		c := good()
		edit(&c)
		switch errs := c.Check(); {
		case want == "" && len(errs) == 0:
		case want == "" || len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) || strings.Contains(errs[0].Error(), "hush") || strings.Contains(errs[0].Error(), "\n"):
			t.Errorf("want %q, got %v", want, errs)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", good(), good(), good()); strings.Contains(text, "hush") {
		t.Errorf("printed, it is %s", text)
	}
}

// TestCheck: the operator is told what is wrong with a provider.
func TestCheck(t *testing.T) {
	p := ssotest.New(t)
	c := sso.Config{Name: "corp", Issuer: p.URL, ClientID: "holdpoint", SignOut: true}
	for want, change := range map[string]func(*ssotest.Provider){
		"":                                   func(*ssotest.Provider) {},
		"the provider names itself":          func(p *ssotest.Provider) { p.Discovery = map[string]any{"issuer": p.URL + "/"} },
		"no https address":                   func(p *ssotest.Provider) { p.Discovery = map[string]any{"token_endpoint": "ftp://id.example.com"} },
		"authorization_endpoint is \"\"":     func(p *ssotest.Provider) { p.Discovery = map[string]any{"authorization_endpoint": ""} },
		"javascript":                         func(p *ssotest.Provider) { p.Discovery = map[string]any{"end_session_endpoint": "javascript:alert(1)"} },
		"sign_out: the provider has no":      func(p *ssotest.Provider) { p.Discovery = map[string]any{"end_session_endpoint": ""} },
		"read what the provider says of its": func(p *ssotest.Provider) { p.Away = true },
	} {
		p.Set(func(p *ssotest.Provider) { p.Discovery, p.Away = nil, false; change(p) })
		redirect, err := sso.Check(t.Context(), c, "https://hp.example.com")
		if redirect != "https://hp.example.com/login/sso/corp/callback" || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v, %s", want, err, redirect)
		}
	}
	// An address inside the house takes allow_private.
	c.Issuer = "https://10.1.2.3"
	if errs := c.Check(); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "issuer: ") {
		t.Errorf("a private address: %v", errs)
	}
	c.AllowPrivate = []string{"10.1.0.0/16"}
	if err := errors.Join(c.Check()...); err != nil {
		t.Error(err)
	}
}
