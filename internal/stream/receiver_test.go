package stream

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// authority signs certificates for this machine and for us.
type authority struct {
	pem  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key, a.pem = certificate(t, &x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true}, nil)
	return a
}

func certificate(t testing.TB, template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: fmt.Sprintf("test %d", template.SerialNumber)}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// pair is a certificate and its key in PEM: a server's for 127.0.0.1, a client's.
func (a *authority) pair(t testing.TB) (cert, key []byte) {
	t.Helper()
	_, private, cert := certificate(t, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// server is the TLS side of a receiver.
func (a *authority) server(t testing.TB) *tls.Config {
	t.Helper()
	cert, key := a.pair(t)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// collector is a receiver of syslog that reads strictly and remembers. It drops
// connections, and stops and starts again, as luck has it.
type collector struct {
	t    testing.TB
	tls  *tls.Config
	addr string
	// Of so many messages each one ends the connection, or the whole receiver; 0 for
	// none.
	drops int

	mu      sync.Mutex
	luck    *mathrand.Rand
	l       net.Listener
	conns   map[net.Conn]bool
	heard   [][]int64        // the seqs, by connection in order of accepting
	lines   map[int64]string // by seq
	arrived chan struct{}    // after each message
	kinds   map[string]int   // of ways in which connections ended
	msgs    map[int64][]byte // MSG by seq
	parsed  map[int64]parsed // by seq
	stopped bool             // for good
	wait    sync.WaitGroup
}

func newCollector(t testing.TB, a *authority, drops int) *collector {
	t.Helper()
	seed := uint64(time.Now().UnixNano()) // #nosec G115 -- any will do
	t.Logf("seed %d", seed)
	c := &collector{
		t: t, tls: a.server(t), addr: "127.0.0.1:0", drops: drops, luck: mathrand.New(mathrand.NewPCG(seed, 1)), conns: map[net.Conn]bool{},
		lines: map[int64]string{}, arrived: make(chan struct{}, 1), kinds: map[string]int{}, msgs: map[int64][]byte{}, parsed: map[int64]parsed{},
	}
	c.start()
	t.Cleanup(func() {
		c.mu.Lock()
		c.stopped = true
		c.halt()
		c.mu.Unlock()
		c.wait.Wait()
	})
	return c
}

// start listens, always at the same address.
func (c *collector) start() {
	l, err := net.Listen("tcp", c.addr)
	if err != nil {
		c.t.Errorf("listen: %v", err)
		return
	}
	c.l, c.addr = l, l.Addr().String()
	c.wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			if c.stopped || c.l != l {
				c.mu.Unlock()
				_ = conn.Close()
				return
			}
			n := len(c.heard)
			c.heard, c.conns[conn] = append(c.heard, nil), true
			c.mu.Unlock()
			c.wait.Go(func() { c.serve(conn, n) })
		}
	})
}

// halt ends the listener and every connection, as a process that is killed does.
func (c *collector) halt() {
	if c.l != nil {
		_ = c.l.Close()
	}
	for conn := range c.conns {
		_ = conn.Close()
	}
}

func (c *collector) serve(raw net.Conn, n int) {
	conn := tls.Server(raw, c.tls)
	defer func() {
		_ = raw.Close()
		c.mu.Lock()
		delete(c.conns, raw)
		c.mu.Unlock()
	}()
	r := bufio.NewReader(conn)
	for {
		line, err := readFrame(r)
		if errors.Is(err, io.EOF) {
			// The whole window was read, and we say so; or just go.
			c.mu.Lock()
			polite := c.luck.IntN(2) == 0
			c.kinds["end"]++
			c.mu.Unlock()
			if polite {
				_ = conn.Close()
			}
			return
		}
		if err != nil {
			var garbled net.Error
			if !errors.As(err, &garbled) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed) {
				c.t.Logf("a connection ended: %v", err)
			}
			return
		}
		if !c.take(conn, raw, n, line) {
			return
		}
	}
}

// take remembers a message, and reports whether the connection goes on.
func (c *collector) take(conn *tls.Conn, raw net.Conn, n int, line string) bool {
	p, err := parse(line)
	if err != nil {
		c.t.Errorf("%v: %s", err, line)
		return false
	}
	seq, err := strconv.ParseInt(p.data["holdpoint@32473"]["seq"], 10, 64)
	if err != nil {
		c.t.Errorf("no seq: %s", line)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	if former, again := c.lines[seq]; again && former != line {
		c.t.Errorf("sent again, and not the same:\n%s\n%s", former, line)
	}
	c.lines[seq], c.msgs[seq], c.parsed[seq] = line, p.msg, p
	c.heard[n] = append(c.heard[n], seq)
	select {
	case c.arrived <- struct{}{}:
	default:
	}
	if c.drops == 0 || c.luck.IntN(c.drops) != 0 {
		return true
	}
	switch c.luck.IntN(4) {
	case 0:
		c.kinds["goodbye"]++
		_ = conn.Close() // says close_notify, whatever there is to read
	case 1:
		c.kinds["gone"]++
		_ = raw.Close()
	case 2:
		c.kinds["reset"]++
		_ = raw.(*net.TCPConn).SetLinger(0)
		_ = raw.Close()
	case 3:
		c.kinds["restart"]++
		c.halt()
		c.start()
	}
	return false
}

// union is every seq that arrived, in a set.
func (c *collector) union() map[int64]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := map[int64]bool{}
	for _, seqs := range c.heard {
		for _, s := range seqs {
			set[s] = true
		}
	}
	return set
}

// count is how many messages arrived, repetitions among them.
func (c *collector) count() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, seqs := range c.heard {
		n += len(seqs)
	}
	return n
}

// inOrder checks that connections follow each other as windows do: each goes up
// without a gap, and none begins before the one before it, more than a window
// behind it, or beyond what has arrived.
func (c *collector) inOrder(window int64) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var begun, highest int64
	for i, seqs := range c.heard {
		if len(seqs) == 0 {
			continue
		}
		for j, s := range seqs[1:] {
			if s != seqs[j]+1 {
				c.t.Errorf("connection %d: %d after %d", i, s, seqs[j])
			}
		}
		if seqs[0] < begun || highest > 0 && (seqs[0] > highest+1 || highest-seqs[0] >= window) {
			c.t.Errorf("connection %d begins at %d; the former began at %d, and %d has arrived", i, seqs[0], begun, highest)
		}
		if int64(len(seqs)) > window {
			c.t.Errorf("connection %d has %d messages", i, len(seqs))
		}
		begun, highest = seqs[0], max(highest, seqs[len(seqs)-1])
	}
}
