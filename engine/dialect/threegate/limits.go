package threegate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	decimal   = regexp.MustCompile(`^(?:0|[1-9][0-9]{0,5})(?:\.[0-9]{1,6})?$`)
	positive  = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)
	hostLabel = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)
	lastLabel = regexp.MustCompile(`^(?:[a-z]{2,63}|xn--[a-z0-9-]{1,58}[a-z0-9])$`)
)

// limits applies L1 and L2.
func (c *checker) limits() {
	if n := c.root.get("cpu_limit"); n != nil {
		quoted := n.kind == scalarNode && (n.style == doubleStyle || n.style == singleStyle)
		if quoted && decimal.MatchString(n.text) && strings.Trim(n.text, "0.") != "" {
			c.request.CPULimit = n.text
		} else {
			c.add("L1", n.line, "cpu_limit must be a positive decimal number in quotes, such as \"2\" or \"0.5\"")
		}
	}
	c.limit("memory_limit_mb", &c.request.MemoryLimitMB)
	c.limit("time_limit_sec", &c.request.TimeLimitSec)
}

func (c *checker) limit(key string, to *int) {
	n := c.root.get(key)
	if n == nil {
		return
	}
	text, plain := n.plain()
	if !plain || !positive.MatchString(text) {
		c.add("L2", n.line, "%s must be a positive integer of at most nine plain digits, without quotes", key)
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
	mode := c.root.get("network")
	c.oneOf("N1", "network", &r.Network, "none", "allowlist")
	list := c.root.get(optionalKey)
	hosts := 0
	if list != nil && list.kind == listNode {
		hosts = len(list.items)
		for _, item := range list.items {
			host, ok := item.str()
			if !ok || !isHost(host) {
				c.add("N4", item.line, "every host must be a full public domain name in lower case, without scheme, port, path or wildcard")
				continue
			}
			if strings.Contains(host, "xn--") {
				c.warn("N4", item.line, "the host is written in punycode; look up which name people would see")
			}
			r.NetworkAllowlist = append(r.NetworkAllowlist, host)
		}
	}
	switch {
	case list != nil && list.kind != listNode:
		rule := "N2"
		if r.Network == "none" {
			rule = "N3"
		}
		c.add(rule, list.line, "network_allowlist must be a list of host names, [] for none")
	case r.Network == "allowlist" && hosts == 0 && c.complete:
		line := mode.line
		if list != nil {
			line = list.line
		}
		c.add("N2", line, "network: allowlist needs at least one host in network_allowlist; else write network: none")
	case r.Network == "none" && hosts > 0:
		c.add("N3", list.line, "network: none allows no hosts; empty network_allowlist or write network: allowlist")
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
