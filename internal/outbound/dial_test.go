package outbound

import (
	"context"
	"errors"
	"net"
	"testing"
)

func TestCheckAddress(t *testing.T) {
	c := Config{AllowPrivate: prefixes("10.20.0.0/16")}
	for address, want := range map[string]bool{
		"siem.example.com:6514": true, "siem.example.com:1": true, "8.8.8.8:6514": true, "10.20.0.1:6514": true, "[2600::1]:6514": true,
		"siem.example.com": false, "siem.example.com:": false, "siem.example.com:0": false, "siem.example.com:65536": false, "siem.example.com:syslog": false,
		":6514": false, "10.21.0.1:6514": false, "127.0.0.1:6514": false, "[::1]:6514": false, "[::ffff:10.20.0.1]:6514": false, "169.254.169.254:6514": false,
		"2130706433:6514": false, "0x7f.1:6514": false, "a b:6514": false, "[fe80::1%eth0]:6514": false,
	} {
		if _, _, err := c.CheckAddress(address); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A name is judged by what it stands for.
func TestDialTCP(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	conn, err := Config{AllowPrivate: loopback}.DialTCP(t.Context(), "localhost:"+port)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := (Config{}).DialTCP(t.Context(), "localhost:"+port); !errors.Is(err, ErrForbiddenAddress) {
		t.Errorf("inside the house: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Config{AllowPrivate: loopback}).DialTCP(ctx, "localhost:"+port); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
