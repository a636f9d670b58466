package outbound

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const maxURL = 2048

// CheckURL reads an address that a Client with this configuration would ask:
// https, or http if that is allowed, with a host and without user, password and
// fragment. A host is a name of letters, digits and hyphens, or an IP address in
// its usual form; numbers that a resolver would read as an address are refused.
// Names are not looked up: what they stand for is judged when they are dialed.
// Errors never quote the address.
func (c Config) CheckURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, errors.New("the address is too long")
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] >= 0x7f || raw[i] == '\\' {
			return nil, errors.New("the address has a character that no address has")
		}
	}
	if strings.Contains(raw, "#") {
		return nil, errors.New("the address has a fragment")
	}
	u, err := url.Parse(raw)
	if err != nil {
		// url.Error quotes the address.
		return nil, errors.New("the address cannot be read")
	}
	if err := c.check(u); err != nil {
		return nil, err
	}
	return u, nil
}

func (c Config) check(u *url.URL) error {
	switch {
	case u == nil || u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "":
		return errors.New("the address is not https://host")
	case u.Scheme == "http" && !c.AllowHTTP:
		return errors.New("the address is not https")
	case u.User != nil:
		return errors.New("the address has a user or password")
	case u.Fragment != "":
		return errors.New("the address has a fragment")
	case u.Hostname() == "":
		return errors.New("the address has no host")
	}
	port := uint64(443)
	if u.Scheme == "http" {
		port = 80
	}
	if text := u.Port(); text != "" || strings.HasSuffix(u.Host, ":") {
		var err error
		if port, err = strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			return errors.New("the address has no usable port")
		}
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return c.checkDial(netip.AddrPortFrom(addr, uint16(port)), u.Scheme == "http")
	}
	if !isName(u.Hostname()) {
		return errors.New("the address has no usable host")
	}
	return nil
}

// isName reports whether host is a name in the letters, digits and hyphens of
// DNS whose last label is no number. Resolvers read 2130706433, 0x7f.1 and
// 127.1 as 127.0.0.1.
func isName(host string) bool {
	if len(host) > 253 {
		return false
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !isAlnum(label[i]) && label[i] != '-' {
				return false
			}
		}
	}
	last := strings.ToLower(labels[len(labels)-1])
	return strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}

func isAlnum(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
