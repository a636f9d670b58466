package threegate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine/source"
)

var (
	decimal   = regexp.MustCompile(`^(?:0|[1-9][0-9]{0,5})(?:\.[0-9]{1,6})?$`)
	positive  = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)
	hostLabel = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)
	lastLabel = regexp.MustCompile(`^(?:[a-z]{2,63}|xn--[a-z0-9-]{1,58}[a-z0-9])$`)
)

// limits applies L1 and L2.
func (c *checker) limits() {
	if n := c.root.Get("cpu_limit"); n != nil {
		quoted := n.Kind == source.Scalar && (n.Style == source.DoubleQuoted || n.Style == source.SingleQuoted)
		if quoted && decimal.MatchString(n.Text) && strings.Trim(n.Text, "0.") != "" {
			c.request.CPULimit = n.Text
		} else {
			c.add("L1", n.Line, "cpu_limit must be a positive decimal number in quotes, such as \"2\" or \"0.5\"")
		}
	}
	c.limit("memory_limit_mb", &c.request.MemoryLimitMB)
	c.limit("time_limit_sec", &c.request.TimeLimitSec)
}

func (c *checker) limit(key string, to *int) {
	n := c.root.Get(key)
	if n == nil {
		return
	}
	text, plain := plainText(n)
	if !plain || !positive.MatchString(text) {
		c.add("L2", n.Line, "%s must be a positive integer of at most nine plain digits, without quotes", key)
		return
	}
	*to, _ = strconv.Atoi(text)
}

// privateDomains hold names that mean something only inside a network.
var privateDomains = []string{
	"localhost", "localdomain", "local", "internal", "intranet", "lan", "corp", "home", "private", "home.arpa", "in-addr.arpa", "ip6.arpa",
}

// network applies N1 to N4.
func (c *checker) network() {
	r := c.request
	mode := c.root.Get("network")
	c.oneOf("N1", "network", &r.Network, "none", "allowlist")
	list := c.root.Get(optionalKey)
	hosts := 0
	if list != nil && list.Kind == source.List {
		hosts = len(list.Items)
		for _, item := range list.Items {
			host, ok := stringOf(item)
			if !ok || !isHost(host) {
				c.add("N4", item.Line, "every host must be a full public domain name in lower case, without scheme, port, path or wildcard")
				continue
			}
			if strings.Contains(host, "xn--") {
				c.warn("N4", item.Line, "the host is written in punycode; look up which name people would see")
			}
			r.NetworkAllowlist = append(r.NetworkAllowlist, host)
		}
	}
	switch {
	case list != nil && list.Kind != source.List:
		rule := "N2"
		if r.Network == "none" {
			rule = "N3"
		}
		c.add(rule, list.Line, "network_allowlist must be a list of host names, [] for none")
	case r.Network == "allowlist" && hosts == 0 && c.complete:
		line := mode.Line
		if list != nil {
			line = list.Line
		}
		c.add("N2", line, "network: allowlist needs at least one host in network_allowlist; else write network: none")
	case r.Network == "none" && hosts > 0:
		c.add("N3", list.Line, "network: none allows no hosts; empty network_allowlist or write network: allowlist")
	}
}

// isHost reports whether s is a full public domain name in lower case.
func isHost(s string) bool {
	labels := strings.Split(s, ".")
	if len(s) > 253 || len(labels) < 2 || !lastLabel.MatchString(labels[len(labels)-1]) {
		return false
	}
	for _, label := range labels {
		if !hostLabel.MatchString(label) {
			return false
		}
	}
	return !slices.ContainsFunc(privateDomains, func(domain string) bool { return strings.HasSuffix(s, "."+domain) })
}
