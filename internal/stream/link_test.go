package stream

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/outbound"
)

// listen serves one connection after the other by do, until the test ends, and
// returns the address.
func listen(t *testing.T, config *tls.Config, do func(conn *tls.Conn, raw *net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			do(tls.Server(raw, config), raw.(*net.TCPConn))
			_ = raw.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func window(t testing.TB, n int, size int) []Message {
	list := make([]Message, n)
	for i := range list {
		list[i] = message(t, record(int64(i), engine.Decided, engine.Allow, `{"a":"`+strings.Repeat("x", size)+`"}`), nil, 0)
	}
	return list
}

func TestWhatCountsAsTaken(t *testing.T) {
	a := newAuthority(t)
	readAll := func(r io.Reader) (n int) {
		for b := bufio.NewReader(r); ; n++ {
			if _, err := readFrame(b); err != nil {
				return n
			}
		}
	}
	readSome := func(r io.Reader, n int) {
		for b := bufio.NewReader(r); n > 0; n-- {
			if _, err := readFrame(b); err != nil {
				return
			}
		}
	}
	const n = 100
	for name, test := range map[string]struct {
		do     func(conn *tls.Conn, raw *net.TCPConn)
		strict bool
		size   int
		want   string // part of the error; "" for taken
	}{
		"read and answered":     {do: func(c *tls.Conn, _ *net.TCPConn) { readAll(c); _ = c.Close() }, strict: true},
		"read and closed":       {do: func(c *tls.Conn, _ *net.TCPConn) { readAll(c) }},
		"closed without notify": {do: func(c *tls.Conn, _ *net.TCPConn) { readAll(c) }, strict: true, want: "close_notify"},
		"reset at the end":      {do: func(c *tls.Conn, r *net.TCPConn) { readAll(c); _ = r.SetLinger(0) }, want: "reset"},
		"goodbye after one":     {do: func(c *tls.Conn, _ *net.TCPConn) { readSome(c, 1); _ = c.Close() }, want: "receiver"},
		"goodbye and then reset": {do: func(c *tls.Conn, r *net.TCPConn) {
			readAll(c)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, r) // until our end
			_ = r.SetLinger(0)
		}, want: "not read everything"},
		"gone after one":          {do: func(c *tls.Conn, _ *net.TCPConn) { readSome(c, 1) }, want: "receiver"},
		"gone after all":          {do: func(c *tls.Conn, _ *net.TCPConn) { readSome(c, n) }, want: "before it was told"},
		"goodbye after all":       {do: func(c *tls.Conn, _ *net.TCPConn) { readSome(c, n); _ = c.Close() }, want: "before it was told"},
		"goodbye with much to go": {do: func(c *tls.Conn, _ *net.TCPConn) { readSome(c, 1); _ = c.Close() }, size: 40_000, want: "receiver"},
		"gone with much to go":    {do: func(c *tls.Conn, _ *net.TCPConn) { readSome(c, 1) }, size: 40_000, want: "receiver"},
		"never reads":             {do: func(c *tls.Conn, _ *net.TCPConn) { _ = c.Handshake(); <-t.Context().Done() }, size: 100_000, want: "deadline exceeded"},
		"never ends":              {do: func(c *tls.Conn, _ *net.TCPConn) { readAll(c); <-t.Context().Done() }, want: "has not closed"},
		"no TLS": {do: func(_ *tls.Conn, r *net.TCPConn) {
			_, _ = r.Write([]byte("hello, who is there?"))
			_, _ = io.Copy(io.Discard, r)
		}, want: "TLS"},
		"chatters": {do: func(c *tls.Conn, _ *net.TCPConn) { _, _ = c.Write([]byte("secret words")); readAll(c); _ = c.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			do := test.do
			ended, cancel := context.WithCancel(context.Background())
			if strings.HasPrefix(name, "never") {
				do = func(c *tls.Conn, _ *net.TCPConn) {
					if _ = c.Handshake(); name == "never ends" {
						readAll(c)
					}
					<-ended.Done()
				}
			}
			s, err := NewSyslog(Config{Address: listen(t, a.server(t), do), CA: a.pem, RequireCloseNotify: test.strict}, loopback, "h")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cancel)
			s.timeout = 20 * time.Second
			if strings.HasPrefix(name, "never") {
				s.timeout = 10 * time.Second
			}
			if strings.HasSuffix(name, "after all") {
				s.settle = 10 * time.Second
			}
			taken, err := s.Send(t.Context(), window(t, n, test.size))
			switch {
			case test.want == "" && (err != nil || taken != n):
				t.Errorf("not taken: %d, %v", taken, err)
			case test.want != "" && (err == nil || taken != 0 || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %d, %v; want %q", taken, err, test.want)
			}
		})
	}
}

func TestReceiverIsAuthenticated(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	var heard atomic.Int64
	config := a.server(t)
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	config.ClientCAs.AddCert(a.cert)
	address := listen(t, config, func(c *tls.Conn, _ *net.TCPConn) {
		n, _ := io.Copy(io.Discard, c)
		heard.Add(n)
		_ = c.Close()
	})
	cert, key := a.pair(t)
	wrongCert, wrongKey := other.pair(t)
	for name, test := range map[string]struct {
		config Config
		want   string
	}{
		"both are known":           {Config{CA: a.pem, Cert: cert, Key: key}, ""},
		"we do not say who we are": {Config{CA: a.pem}, "refuses us: tls: certificate required"},
		"we are somebody else":     {Config{CA: a.pem, Cert: wrongCert, Key: wrongKey}, "refuses us"},
		"the receiver is unknown":  {Config{CA: other.pem, Cert: cert, Key: key}, "certificate is not valid"},
		"the system does not know": {Config{Cert: cert, Key: key}, "certificate is not valid"},
	} {
		before := heard.Load()
		test.config.Address = address
		s, err := NewSyslog(test.config, loopback, "h")
		if err != nil {
			t.Fatal(err)
		}
		taken, err := s.Send(t.Context(), window(t, 3, 1))
		if test.want == "" {
			if err != nil || taken != 3 {
				t.Errorf("%s: %d, %v", name, taken, err)
			}
			continue
		}
		if err == nil || taken != 0 || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %d, %v; want %q", name, taken, err, test.want)
		}
		if heard.Load() != before {
			t.Errorf("%s: the receiver heard something", name)
		}
	}
	// A name is judged by what it stands for, when it is dialed.
	_, port, _ := net.SplitHostPort(address)
	s, err := NewSyslog(Config{Address: "localhost:" + port, CA: a.pem}, nil, "h")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Send(t.Context(), window(t, 1, 1)); !errors.Is(err, outbound.ErrForbiddenAddress) {
		t.Errorf("inside the house: %v", err)
	}
	if _, err := NewSyslog(Config{Address: address}, nil, "h"); !errors.Is(err, outbound.ErrForbiddenAddress) {
		t.Errorf("inside the house, by address: %v", err)
	}
	// An end of ours ends it at once.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err = NewSyslog(Config{Address: address, CA: a.pem, Cert: cert, Key: key}, loopback, "h"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Send(ctx, window(t, 1, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
