// Package sso signs people in by OpenID Connect: it sends a browser to a provider and
// checks what comes back (OpenID Connect Core 1.0, the authorization code flow with
// PKCE). It says who somebody is at the provider, and never whose account here that is;
// it keeps and logs no token.
package sso

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"holdpoint/internal/outbound"
)

// Config describes one provider. Printed or logged as a whole it shows its name only.
type Config struct {
	// Name is part of the addresses: lower-case letters, digits, hyphens. Label is what
	// people read on the button; the name when "".
	Name  string `yaml:"name"`
	Label string `yaml:"label"`
	// Issuer is the provider, exactly as it names itself.
	Issuer   string `yaml:"issuer"`
	ClientID string `yaml:"client_id"`
	// ClientSecret is "" for a public client. Whoever reads the configuration reads
	// ClientSecretFile as well: nothing here does.
	ClientSecret     string `yaml:"client_secret"`
	ClientSecretFile string `yaml:"client_secret_file"`
	// Scopes are asked for beside openid; email and profile when empty.
	Scopes []string `yaml:"scopes"`
	// GroupsClaim is the claim that lists somebody's groups; "groups" when "".
	GroupsClaim string `yaml:"groups_claim"`
	// Roles are those that a group gives. Every role that is named here comes and goes
	// with the groups.
	Roles map[string][]string `yaml:"roles"`
	// Create makes an account for whoever has none; LinkByEmail gives them the one that
	// has their address. Either takes EmailDomains, of which the address has to be.
	Create       bool     `yaml:"create"`
	LinkByEmail  bool     `yaml:"link_by_email"`
	EmailDomains []string `yaml:"email_domains"`
	// SCIM says that the provider's directory tells of people and groups, and that Roles
	// go by the groups that it tells of. SCIMIDClaim is the claim of the ID token that has
	// somebody's externalId there; "sub" when "".
	SCIM        bool   `yaml:"scim"`
	SCIMIDClaim string `yaml:"scim_id_claim"`
	// AssumeEmailVerified takes addresses of which the provider does not say whether
	// they are verified.
	AssumeEmailVerified bool `yaml:"assume_email_verified"`
	// TrustMFA takes the provider's word that more than one factor was given: "mfa" in
	// amr, or an acr of MFAACR.
	TrustMFA bool     `yaml:"trust_mfa"`
	MFAACR   []string `yaml:"mfa_acr"`
	// SignOut leads whoever signs out on to the provider's own sign-out.
	SignOut bool `yaml:"sign_out"`
	// AllowPrivate are networks in which the provider may be, although they are not
	// public.
	AllowPrivate []string `yaml:"allow_private"`
}

// String names the provider and not its secret.
func (c Config) String() string { return fmt.Sprintf("provider of single sign-on %q", c.Name) }

// GoString is String.
func (c Config) GoString() string { return c.String() }

// LogValue is String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$`)
	domainForm = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$`)
)

// changing are claims that are no identity: people change them, or get a former
// colleague's.
var changing = []string{"email", "mail", "login", "username", "name", "nickname", "preferred_username", "unique_name", "upn", "phone_number", "given_name", "family_name"}

// onCall is how the roles begin that come and go with an on-call schedule.
const onCall = "on-call/"

// Check returns everything that is wrong, one error for each setting and with its name
// in front. No error holds the value of a secret.
func (c Config) Check() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !nameForm.MatchString(c.Name) {
		bad("name: want up to 32 lower-case letters, digits and hyphens, got %q", c.Name)
	}
	if len(c.Label) > 60 || strings.ContainsFunc(c.Label, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		bad("label: want one line of at most 60 bytes")
	}
	if c.ClientID == "" {
		bad("client_id: it is missing: the provider gives it when you register Holdpoint there")
	}
	reach, err := c.reach()
	if err != nil {
		bad("%w", err)
	} else if err := c.checkIssuer(reach); err != nil {
		bad("issuer: %w", err)
	}
	if slices.Contains(c.Scopes, "offline_access") {
		bad("scopes: offline_access is for programs that act without the person; leave it out")
	}
	for _, domain := range c.EmailDomains {
		if !domainForm.MatchString(domain) {
			bad("email_domains: want names such as example.com in lower case, got %q", domain)
		}
	}
	if (c.Create || c.LinkByEmail || c.SCIM) && len(c.EmailDomains) == 0 {
		bad("email_domains: it is missing: create, link_by_email and scim take addresses of these domains only")
	}
	if c.Create && c.SCIM {
		bad("create: accounts come from the directory with scim: true; leave one of the two out")
	}
	if c.SCIMIDClaim != "" && !c.SCIM {
		bad("scim_id_claim: it says nothing without scim: true")
	}
	if slices.Contains(changing, strings.ToLower(c.SCIMIDClaim)) {
		bad("scim_id_claim: %s may change hands; name a claim that never does, such as sub or oid", c.SCIMIDClaim)
	}
	if len(c.MFAACR) > 0 && !c.TrustMFA {
		bad("mfa_acr: it says nothing without trust_mfa: true")
	}
	for _, group := range slices.Sorted(maps.Keys(c.Roles)) {
		if err := rolesFit(c.Roles[group]); err != nil {
			bad("roles: group %q: %w", group, err)
		}
	}
	return errs
}

func rolesFit(roles []string) error {
	if len(roles) == 0 {
		return errors.New("it gives no role: want a list such as [reviewer]")
	}
	for _, role := range roles {
		switch {
		case role == "" || len(role) > 100 || role != strings.TrimSpace(role) || strings.Contains(role, ","):
			return fmt.Errorf("%q is no role: want a word of at most 100 bytes, without commas", role)
		case strings.HasPrefix(role, onCall):
			return fmt.Errorf("the role %q comes and goes with its on-call schedule", role)
		}
	}
	return nil
}

// checkIssuer refuses an issuer that no client could ask.
func (c Config) checkIssuer(reach outbound.Config) error {
	if c.Issuer == "" {
		return errors.New("it is missing: the provider's address, exactly as it names itself, such as https://id.example.com")
	}
	u, err := url.Parse(c.Issuer)
	if err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		return errors.New("want https (http is for loopback only)")
	}
	if err == nil && (u.RawQuery != "" || strings.HasSuffix(u.Path, "/.well-known/openid-configuration")) {
		return errors.New("want the issuer alone, without a query and without /.well-known/openid-configuration")
	}
	_, err = reach.CheckURL(c.Issuer)
	return err
}

// reach are the addresses that may be asked: public ones by https, those of
// AllowPrivate, and for a provider on loopback that.
func (c Config) reach() (outbound.Config, error) {
	var r outbound.Config
	for _, text := range c.AllowPrivate {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return r, fmt.Errorf("allow_private: want networks such as 10.1.0.0/16, got %q", text)
		}
		r.AllowPrivate = append(r.AllowPrivate, network.Masked())
	}
	if u, err := url.Parse(c.Issuer); err == nil && loopback(u.Hostname()) {
		r.AllowPrivate = append(r.AllowPrivate, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
		r.AllowHTTP = u.Scheme == "http"
	}
	return r, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c Config) label() string {
	if c.Label == "" {
		return c.Name
	}
	return c.Label
}

// IDClaim is the claim that has somebody's externalId in the directory.
func (c Config) IDClaim() string {
	if c.SCIMIDClaim == "" {
		return "sub"
	}
	return c.SCIMIDClaim
}

func (c Config) groupsClaim() string {
	if c.GroupsClaim == "" {
		return "groups"
	}
	return c.GroupsClaim
}
