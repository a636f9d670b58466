package stream

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"holdpoint/internal/outbound"
)

const (
	// settleFor is how long the receiver has to hold the connection open after its
	// system has acknowledged everything: one that dies meanwhile is seen to.
	settleFor = 200 * time.Millisecond
	// lingerFor is how long the last acknowledgements may take after the receiver's
	// end, and how long a reset is waited for.
	lingerFor = 3 * time.Second
	lookEvery = 5 * time.Millisecond
)

// Syslog sends messages by RFC 5424 over TLS (RFC 5425), a connection a window.
type Syslog struct {
	address    string
	hostname   string
	enterprise int64
	strict     bool
	timeout    time.Duration
	settle     time.Duration
	dial       outbound.Config
	tls        *tls.Config
}

// NewSyslog makes a sender of a configuration that Check takes. Hostname is what
// messages say they come from.
func NewSyslog(c Config, private []netip.Prefix, hostname string) (*Syslog, error) {
	s := &Syslog{
		address: c.Address, hostname: hostname, enterprise: cmp.Or(c.Enterprise, documentationNumber), strict: c.RequireCloseNotify,
		timeout: c.timeout(), settle: settleFor, dial: outbound.Config{AllowPrivate: private},
	}
	host, _, err := s.dial.CheckAddress(c.Address)
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	// No session is resumed: servers that ask for certificates may refuse that.
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: c.roots()}
	if c.Cert != nil {
		pair, err := tls.X509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, errors.New("cert_file: it and key_file are no pair")
		}
		s.tls.Certificates = []tls.Certificate{pair}
	}
	return s, nil
}

// Send sends a window and waits until the receiver has taken it: all of it, or
// for all that is known nothing.
func (s *Syslog) Send(ctx context.Context, messages []Message) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	l, err := s.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer l.close()
	if err := s.deliver(ctx, l, messages); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w (%w)", err, ctx.Err())
		}
		return 0, err
	}
	return len(messages), nil
}

func (s *Syslog) deliver(ctx context.Context, l *link, messages []Message) error {
	w := bufio.NewWriterSize(l.tls, 16<<10)
	for _, m := range messages {
		if _, err := w.Write(frame(syslogLine(m, s.hostname, s.enterprise))); err != nil {
			return l.broken("send", err)
		}
	}
	if err := w.Flush(); err != nil {
		return l.broken("send", err)
	}
	// Not a word of "done" before everything has arrived and was survived.
	if err := l.acknowledged(ctx, l.ended); err != nil {
		return err
	}
	select {
	case <-l.ended:
		return l.broken("wait", io.EOF)
	case <-ctx.Done():
		return errors.New("the receiver was waited for in vain")
	case <-time.After(s.settle):
	}
	return l.finish(ctx, s.strict)
}

// link is one connection.
type link struct {
	tcp  *watched
	tls  *tls.Conn
	stop func() bool
	// ended is closed once nothing more can come from the receiver; end says why,
	// nil for an end in order.
	ended chan struct{}
	end   error
}

// watched knows whether the connection itself has ended, and not only what TLS
// says on it.
type watched struct {
	*net.TCPConn
	over atomic.Bool
}

// Read reads, and remembers an end.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.TCPConn.Read(p)
	if errors.Is(err, io.EOF) {
		w.over.Store(true)
	}
	return n, err
}

func (s *Syslog) connect(ctx context.Context) (*link, error) {
	conn, err := s.dial.DialTCP(ctx, s.address)
	if err != nil {
		return nil, err
	}
	l := &link{tcp: &watched{TCPConn: conn}, ended: make(chan struct{})}
	l.tls = tls.Client(l.tcp, s.tls)
	l.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	if err := l.tls.HandshakeContext(ctx); err != nil {
		l.stop()
		_ = conn.Close()
		return nil, fmt.Errorf("speak TLS to the receiver: %w", inOurWords(err))
	}
	go func() {
		// A receiver has nothing to say; what it says is read for its end.
		_, l.end = io.Copy(io.Discard, l.tls)
		close(l.ended)
	}()
	return l, nil
}

// close ends the connection, in whatever state it is.
func (l *link) close() {
	l.stop()
	_ = l.tcp.Close()
	<-l.ended
}

// broken says why the connection ended before it should. What the receiver said
// last, by an alert of TLS for one, says more than that nobody reads.
func (l *link) broken(what string, err error) error {
	select {
	case <-l.ended:
		if l.end != nil {
			err = l.end
		}
	case <-time.After(lookEvery):
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the receiver closed the connection before it was told that everything was sent")
	}
	return fmt.Errorf("%s to the receiver: %w", what, inOurWords(err))
}

// acknowledged waits until the receiver's system has acknowledged every byte, or
// until the end comes, where that is too soon.
func (l *link) acknowledged(ctx context.Context, end <-chan struct{}) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		left, err := unsent(l.tcp.TCPConn)
		if err != nil {
			return fmt.Errorf("the receiver has not taken everything: %w", inOurWords(err))
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the receiver does not read")
		case <-end:
			return l.broken("send", io.EOF)
		case <-ticker.C:
		}
	}
}

// finish tells the receiver that everything was sent, and waits for its end.
func (l *link) finish(ctx context.Context, strict bool) error {
	if err := l.tls.CloseWrite(); err != nil {
		return l.broken("send", err)
	}
	select {
	case <-l.ended:
	case <-ctx.Done():
		return errors.New("the receiver has not closed the connection after everything was sent")
	}
	if l.end != nil {
		return l.broken("finish", l.end)
	}
	// TLS ends by a close_notify, or with the connection under it.
	answered := !l.tcp.over.Load()
	if strict && !answered {
		return errors.New("the receiver closed the connection without the close_notify that RFC 5425 demands; " +
			"if it never sends one, take require_close_notify out of the settings")
	}
	ctx, cancel := context.WithTimeout(ctx, lingerFor)
	defer cancel()
	if err := l.acknowledged(ctx, nil); err != nil {
		return err
	}
	if answered {
		// A receiver that stopped with messages unread says goodbye first and then
		// resets the connection.
		_ = l.tcp.CloseWrite()
		_ = l.tcp.SetReadDeadline(time.Now().Add(lingerFor))
		if _, err := io.Copy(io.Discard, l.tcp.TCPConn); err != nil && !isTimeout(err) {
			return fmt.Errorf("the receiver has not read everything: %w", inOurWords(err))
		}
	}
	return nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// inOurWords says what went wrong without anything that the other side wrote.
func inOurWords(err error) error {
	var (
		op    *net.OpError
		cert  *tls.CertificateVerificationError
		errno syscall.Errno
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case isTimeout(err):
		return context.DeadlineExceeded
	case errors.As(err, &cert):
		return errors.New("its certificate is not valid, or not for this name")
	case errors.As(err, &op) && op.Op == "remote error":
		// An alert of TLS: one of a few words of the library's.
		return fmt.Errorf("it refuses us: %w", op.Err)
	case errors.As(err, &errno):
		return errno
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it closed the connection")
	}
	return errors.New("it does not speak TLS as it should")
}
