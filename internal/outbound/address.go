package outbound

import (
	"net/netip"
	"slices"
)

// Addresses of the special-purpose registries of IANA (RFC 6890 and its
// updates) that are not part of the public Internet. Whole blocks, also where a
// few addresses in them would be reachable: no tracker lives there.
var notPublic = prefixes(
	"0.0.0.0/8",        // this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // carrier-grade NAT
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // Azure's inside service, on an address that looks public
	"169.254.0.0/16",   // link-local, where clouds keep their metadata
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // 6to4 relays
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, and broadcast
	"2001::/23",        // protocol assignments, Teredo among them
	"2001:db8::/32",    // documentation
	"2002::/16",        // 6to4: an IPv4 address in disguise
	"3fff::/20",        // documentation
)

var (
	// globalUnicast is all of IPv6 that has been given out to the public:
	// loopback, private, link-local, multicast and mapped IPv4 lie outside.
	globalUnicast = netip.MustParsePrefix("2000::/3")
	// nat64 has an IPv4 address in its last four bytes (RFC 6052).
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

func within(addr netip.Addr, in []netip.Prefix) bool {
	return slices.ContainsFunc(in, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// public reports whether addr belongs to the public Internet. An IPv6 address
// that stands for an IPv4 address is judged as that address or not public.
func public(addr netip.Addr) bool {
	switch {
	case !addr.IsValid() || addr.Zone() != "" || within(addr, notPublic):
		return false
	case addr.Is4():
		return true
	case nat64.Contains(addr):
		bytes := addr.As16()
		return public(netip.AddrFrom4([4]byte(bytes[12:])))
	}
	return globalUnicast.Contains(addr)
}

// checkDial says whether a connection to target may be made. What is in
// AllowPrivate may be asked on any port and without encryption.
func (c Config) checkDial(target netip.AddrPort, plain bool) error {
	addr, port := target.Addr(), target.Port()
	if !addr.Is4In6() && within(addr, c.AllowPrivate) {
		return nil
	}
	if plain || !public(addr) || port != 443 && port != 80 {
		return ErrForbiddenAddress
	}
	return nil
}
