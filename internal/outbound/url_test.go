package outbound

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCheckURL(t *testing.T) {
	strict := Config{}
	inner := Config{AllowPrivate: prefixes("127.0.0.1/32"), AllowHTTP: true}
	for _, test := range []struct {
		config Config
		raw    string
		want   bool
	}{
		{strict, "https://acme.atlassian.net", true},
		{strict, "https://acme.atlassian.net:443/rest/api?x=1", true},
		{strict, "https://acme.example:8443/", true}, // the port is judged with the address
		{strict, "https://xn--bcher-kva.example/", true},
		{strict, "HTTPS://ACME.EXAMPLE/", true},
		{strict, "https://3com.example", true},
		{strict, "https://deadbeef.cafe/", true},
		{strict, "https://140.82.112.5/", true},
		{strict, "https://[2606:4700:4700::1111]/", true},

		{strict, "", false},
		{strict, "acme.example", false},
		{strict, "//acme.example", false},
		{strict, "https:acme.example", false},
		{strict, "https://", false},
		{strict, "https:///path", false},
		{strict, "http://acme.example", false},
		{strict, "ftp://acme.example", false},
		{strict, "file:///etc/passwd", false},
		{strict, "gopher://acme.example", false},
		{strict, "https://user@acme.example", false},
		{strict, "https://user:secret@acme.example", false},
		{strict, "https://@acme.example", false},
		{strict, "https://acme.example/#x", false},
		{strict, "https://acme.example/#", false},
		{strict, "https://acme.example:0/", false},
		{strict, "https://acme.example:65536/", false},
		{strict, "https://acme.example:/", false},
		{strict, "https://acme.example:x/", false},
		{strict, "https://acme.example./", false},
		{strict, "https://acme..example/", false},
		{strict, "https://-acme.example/", false},
		{strict, "https://ac_me.example/", false},
		{strict, "https://acme.example\\@evil.example/", false},
		{strict, "https://acme.example /", false},
		{strict, "https://acme.example\r\nHost: evil", false},
		{strict, "https://b\u00fccher.example/", false},
		{strict, "https://%31%32%37.0.0.1/", false},
		{strict, "https://" + strings.Repeat("a", 64) + ".example", false},
		{strict, "https://acme.example/" + strings.Repeat("a", 2048), false},

		{strict, "https://127.0.0.1/", false},
		{strict, "https://2130706433/", false},
		{strict, "https://0x7f000001/", false},
		{strict, "https://0x7f.0.0.1/", false},
		{strict, "https://0X7F.1/", false},
		{strict, "https://127.0.0.0x1/", false},
		{strict, "https://017700000001/", false},
		{strict, "https://0177.0.0.1/", false},
		{strict, "https://127.1/", false},
		{strict, "https://127.0.0.1./", false},
		{strict, "https://a.127.0.0.1.5/", false},
		{strict, "https://169.254.169.254/latest/meta-data", false},
		{strict, "https://[::1]/", false},
		{strict, "https://[::ffff:127.0.0.1]/", false},
		{strict, "https://[::ffff:8.8.8.8]/", false},
		{strict, "https://[fe80::1%25eth0]/", false},
		{strict, "https://140.82.112.5:22/", false},

		{inner, "http://127.0.0.1:8080/", true},
		{inner, "https://127.0.0.1/", true},
		{inner, "http://tracker.internal/", true}, // judged when dialed
		{inner, "http://127.0.0.2/", false},
		{inner, "http://140.82.112.5/", false},
		{inner, "http://[::ffff:127.0.0.1]/", false},
	} {
		u, err := test.config.CheckURL(test.raw)
		if got := err == nil; got != test.want {
			t.Errorf("%.80q: %v, want allowed %t", test.raw, err, test.want)
		}
		if (u != nil) != (err == nil) {
			t.Errorf("%.80q: %v and %v", test.raw, u, err)
		}
	}
}

func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{"https://acme.example/x?y=1", "https://0x7f.1", "https://[::1%25a]:443", "http://u:p@h#f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := Config{}.CheckURL(raw)
		if err != nil {
			if len(raw) > 12 && strings.Contains(err.Error(), raw) {
				t.Fatalf("the error quotes the address: %v", err)
			}
			return
		}
		if u.Scheme != "https" || u.User != nil || u.Fragment != "" || u.Hostname() == "" {
			t.Fatalf("%q: %#v", raw, u)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !public(addr) {
			t.Fatalf("%q: allowed", raw)
		}
		if again, err := (Config{}).CheckURL(u.String()); err != nil || again.Host != u.Host {
			t.Fatalf("%q becomes %q: %v", raw, u, err)
		}
	})
}
