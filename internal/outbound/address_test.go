package outbound

import (
	"errors"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"1.1.1.1":         true,
		"9.255.255.255":   true,
		"11.0.0.0":        true,
		"100.63.255.255":  true,
		"100.128.0.0":     true,
		"172.15.255.255":  true,
		"172.32.0.0":      true,
		"192.0.1.0":       true,
		"198.17.255.255":  true,
		"198.20.0.0":      true,
		"223.255.255.255": true,
		"140.82.112.5":    true,

		"0.0.0.0":         false,
		"0.1.2.3":         false,
		"10.0.0.1":        false,
		"10.255.255.255":  false,
		"100.64.0.1":      false,
		"100.100.100.200": false,
		"127.0.0.1":       false,
		"127.255.255.254": false,
		"168.63.129.16":   false,
		"169.254.169.254": false,
		"169.254.170.2":   false,
		"172.16.0.1":      false,
		"172.31.255.255":  false,
		"192.0.0.192":     false,
		"192.0.2.1":       false,
		"192.88.99.1":     false,
		"192.168.1.1":     false,
		"198.18.0.1":      false,
		"198.19.255.255":  false,
		"198.51.100.7":    false,
		"203.0.113.9":     false,
		"224.0.0.1":       false,
		"239.255.255.250": false,
		"240.0.0.1":       false,
		"255.255.255.255": false,

		"2606:4700:4700::1111": true,
		"2a00:1450:4001::200e": true,
		"2001:4860:4860::8888": true,
		"64:ff9b::8.8.8.8":     true,

		"::":                       false,
		"::1":                      false,
		"::127.0.0.1":              false,
		"::ffff:127.0.0.1":         false,
		"::ffff:8.8.8.8":           false,
		"::ffff:0:127.0.0.1":       false,
		"64:ff9b::127.0.0.1":       false,
		"64:ff9b::10.1.2.3":        false,
		"64:ff9b::169.254.169.254": false,
		"64:ff9b:1::8.8.8.8":       false,
		"100::1":                   false,
		"2001::1":                  false, // Teredo
		"2001:0:7f00:1::1":         false,
		"2001:2::1":                false,
		"2001:db8::1":              false,
		"2002:7f00:1::1":           false, // 6to4 of 127.0.0.1
		"2002:808:808::1":          false,
		"3fff::1":                  false,
		"5f00::1":                  false,
		"fc00::1":                  false,
		"fd00:ec2::254":            false,
		"fe80::1":                  false,
		"fe80::1%eth0":             false,
		"febf::1":                  false,
		"fec0::1":                  false,
		"ff02::1":                  false,
	} {
		if got := public(netip.MustParseAddr(text)); got != want {
			t.Errorf("public(%s) = %t, want %t", text, got, want)
		}
	}
	if public(netip.Addr{}) {
		t.Error("the zero address is public")
	}
}

// Whatever the standard library calls loopback, private and so on is never
// public, neither as it is nor in an IPv6 coat.
func TestPublicAgreesWithNetip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var four [4]byte
		var sixteen [16]byte
		copy(four[:], rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "four"))
		copy(sixteen[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "sixteen"))
		a4, a6 := netip.AddrFrom4(four), netip.AddrFrom16(sixteen)
		for _, addr := range []netip.Addr{a4, a6} {
			if public(addr) && (!addr.IsGlobalUnicast() || addr.IsPrivate()) {
				t.Fatalf("%s is public", addr)
			}
		}
		coat := nat64.Addr().As16()
		copy(coat[12:], four[:])
		if got, want := public(netip.AddrFrom16(coat)), public(a4); got != want {
			t.Fatalf("public(%s) = %t, and %t behind NAT64", a4, want, got)
		}
		if public(netip.AddrFrom16(a4.As16())) {
			t.Fatalf("%s is public as a mapped address", a4)
		}
	})
}

func TestCheckDial(t *testing.T) {
	c := Config{AllowPrivate: prefixes("10.1.0.0/16", "fd12::/16"), AllowHTTP: true}
	for _, test := range []struct {
		target string
		plain  bool
		want   error
	}{
		{"8.8.8.8:443", false, nil},
		{"8.8.8.8:80", false, nil},
		{"8.8.8.8:22", false, ErrForbiddenAddress},
		{"8.8.8.8:8443", false, ErrForbiddenAddress},
		{"8.8.8.8:80", true, ErrForbiddenAddress},
		{"10.1.2.3:443", false, nil},
		{"10.1.2.3:8080", true, nil},
		{"10.2.0.1:443", false, ErrForbiddenAddress},
		{"[::ffff:10.1.2.3]:443", false, ErrForbiddenAddress},
		{"[fd12::1]:8443", false, nil},
		{"[fd12::1%eth0]:8443", false, ErrForbiddenAddress},
		{"[fd13::1]:443", false, ErrForbiddenAddress},
		{"[64:ff9b::10.1.2.3]:443", false, ErrForbiddenAddress},
	} {
		if got := c.checkDial(netip.MustParseAddrPort(test.target), test.plain); !errors.Is(got, test.want) {
			t.Errorf("%s, plain %t: %v, want %v", test.target, test.plain, got, test.want)
		}
	}
	all := Config{AllowPrivate: prefixes("::/0")}
	if got := all.checkDial(netip.MustParseAddrPort("[::ffff:10.1.2.3]:443"), false); !errors.Is(got, ErrForbiddenAddress) {
		t.Errorf("a mapped address where all of IPv6 is allowed: %v", got)
	}
}
