package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"holdpoint/internal/notify/channel"
	"holdpoint/internal/notify/webpush"
)

// SMTP is the mail server that sends notifications, and their sender.
type SMTP struct {
	Addr         string `yaml:"addr"` // host:port; "" for none
	From         string `yaml:"from"`
	User         string `yaml:"user"`
	Password     string `yaml:"password"`
	PasswordFile string `yaml:"password_file"`
	TLS          string `yaml:"tls"` // starttls (the default), tls or plain
	AllowPlain   bool   `yaml:"allow_plain"`
}

// Mail is the mail server as package notify knows it, and false when none is
// configured.
func (c *Config) Mail() (channel.MailConfig, bool) {
	s := c.SMTP
	if s.Addr == "" {
		return channel.MailConfig{}, false
	}
	return channel.MailConfig{Addr: s.Addr, From: s.From, User: s.User, Password: s.Password, TLS: channel.TLSMode(s.TLS), AllowPlain: s.AllowPlain}, true
}

// checkNotifications checks what notifications need; their links, too, where nothing else checks those.
func (c *Config) checkNotifications(links bool) (errs []error) {
	if mail, there := c.Mail(); there {
		if err := mail.Check(); err != nil {
			for line := range strings.Lines(err.Error()) {
				errs = append(errs, fmt.Errorf("smtp.%s", strings.TrimSpace(line)))
			}
		}
	} else if c.SMTP != (SMTP{}) {
		errs = append(errs, errors.New("smtp.addr: it is missing: want host:port"))
	}
	errs = append(errs, c.privateNetworks()...)
	if c.PushKey != "" {
		var err error
		if c.Pushes, err = webpush.ParseKey(c.PushKey); err != nil {
			errs = append(errs, fmt.Errorf("push_key: %w (holdpoint key push FILE makes one)", err))
		}
	}
	// Whoever does not serve the console still links to it.
	if c.PublicURL = strings.TrimRight(c.PublicURL, "/"); links && c.PublicURL != "" {
		if u, err := url.Parse(c.PublicURL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
			errs = append(errs, errors.New("public_url: want scheme and host only, such as https://holdpoint.example.com"))
		}
	}
	return errs
}

// PrivateNetworks are those of OutboundAllowPrivate.
func (c *Config) PrivateNetworks() ([]netip.Prefix, error) {
	err := errors.Join(c.privateNetworks()...)
	return c.AllowPrivate, err
}

// privateNetworks reads the networks that are not public and may be asked all the same.
func (c *Config) privateNetworks() (errs []error) {
	c.AllowPrivate = nil
	for _, text := range c.OutboundAllowPrivate {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("outbound_allow_private: want networks such as 10.20.0.0/16, got %q", text))
			continue
		}
		if prefix.Bits() == 0 {
			errs = append(errs, fmt.Errorf("outbound_allow_private: %s is everything: name the networks of your receivers", text))
			continue
		}
		if !slices.Contains(c.AllowPrivate, prefix.Masked()) {
			c.AllowPrivate = append(c.AllowPrivate, prefix.Masked())
		}
	}
	return errs
}
