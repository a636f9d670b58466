package tracker

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/outbound"
)

// Config describes one connector. Printed or logged as a whole it shows its
// name and kind only; written as JSON or YAML it holds the token.
type Config struct {
	// Name is what people call the connector: lower-case letters, digits, hyphens.
	Name string `json:"name" yaml:"name"`
	Kind string `json:"kind" yaml:"kind"`
	// BaseURL is the address of the tracker's API, before its documented paths.
	// GitHub, GitLab and Linear have their public address as a default.
	BaseURL string `json:"base_url,omitempty" yaml:"base_url,omitempty"`
	// WebURL is where people see tickets, if that does not follow from BaseURL.
	WebURL string `json:"web_url,omitempty" yaml:"web_url,omitempty"`
	// Token is the API token or, with User, the password.
	Token string `json:"token,omitempty" yaml:"token,omitempty"`
	// TokenFile names a file with Token in it. Whoever reads the configuration reads
	// that as well: nothing here does.
	TokenFile string `json:"token_file,omitempty" yaml:"token_file,omitempty"`
	User      string `json:"user,omitempty" yaml:"user,omitempty"`
	// Projects, States and MaxAge are the terms for calls that have none of their own.
	Projects []string        `json:"projects,omitempty" yaml:"projects,omitempty"`
	States   []string        `json:"states,omitempty" yaml:"states,omitempty"`
	MaxAge   engine.Duration `json:"max_age,omitempty" yaml:"max_age,omitempty"`
	// AllowPrivate are ranges of addresses (10.1.2.0/24) at which the tracker may
	// be, although they are not public. AllowHTTP permits plain http to them.
	AllowPrivate []string `json:"allow_private,omitempty" yaml:"allow_private,omitempty"`
	AllowHTTP    bool     `json:"allow_http,omitempty" yaml:"allow_http,omitempty"`
	// Timeout bounds one lookup. Zero stands for 10 seconds.
	Timeout engine.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty"`
}

// String names the connector and not its token.
func (c Config) String() string { return fmt.Sprintf("ticket connector %q (%s)", c.Name, c.Kind) }

// GoString is String.
func (c Config) GoString() string { return c.String() }

// LogValue is String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Terms are the connector's own terms, for Terms.Or.
func (c Config) Terms() Terms {
	return Terms{Projects: c.Projects, States: c.States, MaxAge: time.Duration(c.MaxAge)}
}

var (
	nameForm = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$`)
	// pathForm keeps an address's path to what needs no escapes and goes nowhere up.
	pathForm = regexp.MustCompile(`^(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`)
)

const maxTimeout = engine.Duration(time.Minute)

// Check returns everything that is wrong, one error for each setting and with
// its name in front. No error holds the value of a setting.
func (c Config) Check() []error {
	var errs []error
	fails := func(field string, err error) { errs = append(errs, fmt.Errorf("%s: %w", field, err)) }
	wrong := func(field, what string) { fails(field, errors.New(what)) }

	if !nameForm.MatchString(c.Name) {
		wrong("name", "must be 1 to 64 lower-case letters, digits and hyphens")
	}
	tracker, ok := kindOf(c.Kind)
	if !ok {
		wrong("kind", "must be one of "+strings.Join(namesOf(func(kind) bool { return true }), ", "))
	}
	if base := tracker.base(c.BaseURL); base == "" {
		wrong("base_url", "is missing")
	} else if err := c.checkAddress(base); err != nil {
		fails("base_url", err)
	}
	if c.WebURL != "" {
		if err := c.checkAddress(c.WebURL); err != nil {
			fails("web_url", err)
		}
	}
	if c.Token == "" && (c.User != "" || tracker.needsToken) {
		wrong("token", "is missing")
	}
	if !visible(c.Token) {
		wrong("token", "must be printable ASCII without blanks")
	}
	takers := namesOf(func(k kind) bool { return k.takesUser })
	switch {
	case c.User == "" && tracker.needsUser:
		wrong("user", "is missing")
	case c.User != "" && !tracker.takesUser:
		wrong("user", "is for "+strings.Join(takers, " and ")+" only")
	case !visible(c.User) || strings.Contains(c.User, ":"):
		wrong("user", "must be printable ASCII without blanks and colons")
	}
	if slices.ContainsFunc(c.Projects, blank) {
		wrong("projects", "has an empty name")
	}
	if slices.ContainsFunc(c.States, blank) {
		wrong("states", "has an empty name")
	}
	if c.MaxAge < 0 {
		wrong("max_age", "must not be negative")
	}
	if c.Timeout < 0 || c.Timeout > maxTimeout {
		wrong("timeout", "must be at most 1m")
	}
	if _, err := c.private(); err != nil {
		fails("allow_private", err)
	}
	if c.AllowHTTP && len(c.AllowPrivate) == 0 {
		wrong("allow_http", "needs allow_private: plain http is for private addresses only")
	}
	return errs
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

func visible(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

func (c Config) checkAddress(raw string) error {
	private, _ := c.private() // what is wrong with it is reported once
	u, err := outbound.Config{AllowPrivate: private, AllowHTTP: c.AllowHTTP}.CheckURL(raw)
	switch {
	case err != nil:
		return err
	case strings.Contains(raw, "?"):
		return errors.New("the address has a query")
	case !pathForm.MatchString(strings.TrimSuffix(u.EscapedPath(), "/")):
		return errors.New("the address has an unusual path")
	}
	return nil
}

func (c Config) private() ([]netip.Prefix, error) {
	out := make([]netip.Prefix, len(c.AllowPrivate))
	for i, text := range c.AllowPrivate {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, errors.New("must be ranges such as 10.1.2.0/24 or fd12::/64")
		}
		if prefix != prefix.Masked() {
			return nil, errors.New("has a range whose address does not fit its length")
		}
		out[i] = prefix
	}
	return out, nil
}
