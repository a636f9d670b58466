package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// CheckAddress reads host:port as DialTCP would ask it. A host is what CheckURL
// takes for one. Errors never quote the address.
func (c Config) CheckAddress(address string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, errors.New("the address is not host:port")
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, errors.New("the address has no usable port")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return host, uint16(n), c.checkTCP(addr)
	}
	if !isName(host) {
		return "", 0, errors.New("the address has no usable host")
	}
	return host, uint16(n), nil
}

// checkTCP says whether a connection may be made that is encrypted before a word
// is said. Any port will do: whoever is no server of TLS learns nothing.
func (c Config) checkTCP(addr netip.Addr) error {
	if !addr.Is4In6() && within(addr, c.AllowPrivate) || public(addr) {
		return nil
	}
	return ErrForbiddenAddress
}

// DialTCP connects to host:port, for protocols that begin with TLS. The address
// that a name stands for is judged when it is dialed, as a Client does it. The
// other side is asked now and then whether it is still there. The timeout is for
// connecting alone.
func (c Config) DialTCP(ctx context.Context, address string) (*net.TCPConn, error) {
	host, _, err := c.CheckAddress(address)
	if err != nil {
		return nil, fmt.Errorf("check the address: %w", err)
	}
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dialer := &net.Dialer{
		Resolver:        c.Resolver,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(address)
			if err != nil || network != "tcp4" && network != "tcp6" {
				return ErrForbiddenAddress
			}
			return c.checkTCP(target.Addr())
		},
	}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", host, reason(ctx, err))
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to %s: it is not by TCP", host)
	}
	return tcp, nil
}
