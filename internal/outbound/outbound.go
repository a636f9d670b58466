// Package outbound is the one HTTP client for addresses that people configure
// or that come from outside: trackers, webhooks, chat. It decides at the moment
// of dialing, on the address that was resolved, whether the address may be
// asked at all, so that a name that changes its mind (DNS rebinding) gains
// nothing. It never follows a redirect, never uses a proxy, keeps no cookies,
// reuses no connection, decompresses nothing, and bounds time, header and body.
// Its errors name the host and never a path, a query, a header or anything that
// the other side has sent.
package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// What a Client refuses. Every error that Do or a response body returns for one
// of these reasons matches it with errors.Is.
var (
	// ErrForbiddenAddress: the address, or the port on it, is not for us to ask.
	ErrForbiddenAddress = errors.New("the address is not allowed")
	// ErrRedirect: the answer is a redirect; RedirectError has its status.
	ErrRedirect = errors.New("the answer is a redirect")
	// ErrTooLarge: the answer's header or body exceeds its limit.
	ErrTooLarge = errors.New("the answer is too large")
)

// RedirectError is a redirect that was not followed. It matches ErrRedirect.
type RedirectError struct{ Status int }

// Error names the status, and not where the redirect leads.
func (e *RedirectError) Error() string { return fmt.Sprintf("%s (%d)", ErrRedirect, e.Status) }

// Unwrap returns ErrRedirect.
func (e *RedirectError) Unwrap() error { return ErrRedirect }

const (
	defaultTimeout = 10 * time.Second
	defaultMaxBody = 1 << 20
	maxHeader      = 64 << 10
)

// Config says what a Client may reach. The zero value asks public addresses by
// https, for at most 10 seconds and at most 1 MiB.
type Config struct {
	// AllowPrivate are addresses that may be asked although they are not public,
	// on any port.
	AllowPrivate []netip.Prefix
	// AllowHTTP permits plain http, and only to addresses in AllowPrivate.
	AllowHTTP bool
	// Timeout bounds a request from the first lookup to the last byte of the
	// body. Zero stands for 10 seconds.
	Timeout time.Duration
	// MaxBody bounds a response body, in bytes. Zero stands for 1 MiB.
	MaxBody int64
	// RootCAs are the authorities to trust. Nil stands for the system's.
	RootCAs *x509.CertPool
	// Resolver looks names up. Nil stands for the system's.
	Resolver *net.Resolver
}

// Client sends requests within the bounds of its Config. It is safe for use by
// several goroutines.
type Client struct {
	config Config
	// Two transports: whether a connection will be plain is known here and not
	// where it is dialed.
	secure, plain *http.Transport
}

// New returns a client that keeps within config.
func New(config Config) *Client {
	if config.Timeout <= 0 {
		config.Timeout = defaultTimeout
	}
	if config.MaxBody <= 0 {
		config.MaxBody = defaultMaxBody
	}
	config.AllowPrivate = slices.Clone(config.AllowPrivate)
	return &Client{config: config, secure: config.transport(false), plain: config.transport(true)}
}

func (c Config) transport(plain bool) *http.Transport {
	dialer := &net.Dialer{
		Resolver: c.Resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(address)
			if err != nil || network != "tcp4" && network != "tcp6" {
				return ErrForbiddenAddress
			}
			return c.checkDial(target, plain)
		},
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		Protocols:              &protocols,
	}
}

// Do sends one request and returns its answer, whatever its status, as long as
// that is neither a redirect nor a change of protocol. The caller closes the
// body; reading it beyond MaxBody or the timeout is an error as well.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	if err := c.config.check(req.URL); err != nil {
		closeBody(req)
		return nil, fmt.Errorf("check the address: %w", err)
	}
	transport := c.secure
	if req.URL.Scheme == "http" {
		transport = c.plain
	}
	host := req.URL.Host
	ctx, cancel := context.WithTimeout(req.Context(), c.config.Timeout)
	resp, err := transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		err = reason(ctx, err)
		cancel()
		return nil, fmt.Errorf("ask %s: %w", host, err)
	}
	switch {
	case resp.StatusCode < 200:
		err = fmt.Errorf("unexpected status %d", resp.StatusCode)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		err = &RedirectError{Status: resp.StatusCode}
	case resp.ContentLength > c.config.MaxBody:
		err = ErrTooLarge
	}
	if err != nil {
		cancel()
		resp.Body.Close() //nolint:errcheck // nothing was read of it
		return nil, fmt.Errorf("ask %s: %w", host, err)
	}
	resp.Body = &body{from: resp.Body, left: c.config.MaxBody, host: host, ctx: ctx, cancel: cancel}
	return resp, nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close() //nolint:errcheck // it was never sent
	}
}

// body is a response body that ends with an error where its limit is passed.
type body struct {
	from   io.ReadCloser
	left   int64 // bytes that may still come; -1 once one too many has come
	host   string
	ctx    context.Context
	cancel context.CancelFunc
}

// Read reads one byte more than is allowed, to tell an end from a limit.
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("read the answer of %s: %w", b.host, ErrTooLarge)
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.from.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, fmt.Errorf("read the answer of %s: %w", b.host, ErrTooLarge)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read the answer of %s: %w", b.host, reason(b.ctx, err))
	}
	return n, err
}

// Close ends the request, whether or not all of it was read.
func (b *body) Close() error {
	b.cancel()
	return b.from.Close()
}

// reason says what went wrong in words of our own. What the libraries say may
// quote the other side, which may quote our own header and query.
func reason(ctx context.Context, err error) error {
	var (
		timeout net.Error
		dns     *net.DNSError
		cert    *tls.CertificateVerificationError
		errno   syscall.Errno
	)
	switch {
	case errors.Is(err, ErrForbiddenAddress):
		return ErrForbiddenAddress
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &timeout) && timeout.Timeout():
		return context.DeadlineExceeded
	case errors.As(err, &dns):
		return errors.New("the name cannot be resolved")
	case errors.As(err, &cert):
		return errors.New("the certificate is not valid")
	case errors.As(err, &errno):
		return errno
	// The transport has no type for this error; a test watches over its words.
	case strings.Contains(err.Error(), "server response headers exceeded"):
		return ErrTooLarge
	}
	return errors.New("the answer cannot be read")
}
