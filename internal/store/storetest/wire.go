package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Cut is how a connection to Postgres ends at a commit.
type Cut string

// The ways in which a connection ends. In each of them the program loses it.
const (
	// BeforeCommit: Postgres never hears of the commit.
	BeforeCommit Cut = "before the commit"
	// BeforeAnswer: Postgres has committed, and its answer is lost.
	BeforeAnswer Cut = "before the answer"
	// Torn: the program hears that the statements are done, and nothing is committed. It
	// is BeforeCommit where the commit is a statement.
	Torn Cut = "within the answer"
	// Late: Postgres hears of the commit once Release is called, or another connection
	// may wait for it.
	Late Cut = "before the commit, which arrives late"
)

// Wire is a connection between a program and Postgres that ends when a test wants it to,
// at the commit of a transaction that appends events.
type Wire struct {
	t        testing.TB
	address  string // of Postgres
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	cut   Cut
	after int     // commits that are left alone before the cut
	made  bool    // the cut
	late  *onWire // has the commit that comes late
}

// NewWire makes a wire to the Postgres of a URL, and the URL that leads through it.
func NewWire(t testing.TB, through string) (w *Wire, address string) {
	t.Helper()
	u, err := url.Parse(through)
	if err != nil {
		t.Fatal(err)
	}
	w = &Wire{t: t, address: u.Host, conns: map[net.Conn]bool{}}
	if w.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	u.Host = w.listener.Addr().String()
	w.running.Go(w.accept)
	t.Cleanup(w.close)
	return w, u.String()
}

// Cut ends a connection at one of the commits from now on, once the first ones are done.
func (w *Wire) Cut(how Cut, after int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut, w.after, w.made = how, after, false
}

// Release lets a late commit arrive, and returns once it is done; and reports whether
// anything was cut since Cut. Nothing is cut any more.
func (w *Wire) Release() (cut bool) {
	w.mu.Lock()
	late, cut := w.late, w.made
	w.late, w.cut, w.made = nil, "", false
	w.mu.Unlock()
	if late != nil {
		late.commit()
	}
	return cut
}

// atCommit says what becomes of a commit, which this message makes.
func (w *Wire) atCommit(c *onWire, m []byte) Cut {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == "" || w.made {
		return ""
	}
	if w.after--; w.after >= 0 {
		return ""
	}
	w.made = true
	if w.cut == Late {
		c.keep(m) // before anybody can have it committed
		w.late = c
	}
	return w.cut
}

// takeLate is the connection whose commit is late; nil for none.
func (w *Wire) takeLate() *onWire {
	w.mu.Lock()
	defer w.mu.Unlock()
	late := w.late
	w.late = nil
	return late
}

func (w *Wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", w.address)
		if err != nil {
			_ = client.Close()
			continue
		}
		w.mu.Lock()
		w.conns[client], w.conns[server] = true, true
		w.mu.Unlock()
		c := &onWire{wire: w, client: client, server: server, statements: map[string]string{}, status: 'I', committed: make(chan struct{})}
		w.running.Go(c.forward)
		w.running.Go(c.backward)
	}
}

func (w *Wire) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	for c := range w.conns {
		_ = c.Close()
	}
	w.mu.Unlock()
	w.running.Wait()
}

// onWire is one connection. It knows the protocol as far as it needs to tell when a
// transaction that appends events commits.
type onWire struct {
	wire           *Wire
	client, server net.Conn
	statements     map[string]string // SQL by name
	bound          string            // SQL of the portal that will be executed
	appends        bool              // the transaction has appended events
	executes       int               // since the last Sync

	mu        sync.Mutex
	status    byte // of the transaction: I, T or E
	executed  int  // of them, as far as Postgres has said
	ending    Cut
	last      []byte // the message that commits
	committed chan struct{}
}

// keep keeps the message that commits.
func (c *onWire) keep(m []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = m
}

// commit sends the commit that was kept back, and waits until it is done.
func (c *onWire) commit() {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if _, err := c.server.Write(last); err == nil {
		<-c.committed
	}
}

// message reads a message; typed ones have a letter first.
func message(r io.Reader, typed bool) (all []byte, err error) {
	head := make([]byte, 4, 5)
	if typed {
		head = head[:5]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[len(head)-4:])
	if length < 4 || length > 64<<20 {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	all = append(head, make([]byte, length-4)...)
	_, err = io.ReadFull(r, all[len(head):])
	return all, err
}

// texts are the first n texts of a message's body.
func texts(body []byte, n int) []string {
	parts := bytes.SplitN(body, []byte{0}, n+1)
	found := make([]string, n)
	for i := range min(n, len(parts)) {
		found[i] = string(parts[i])
	}
	return found
}

// forward carries what the program says.
func (c *onWire) forward() {
	defer func() { _ = c.client.Close() }()
	first, err := message(c.client, false)
	if err != nil {
		return
	}
	if _, err := c.server.Write(first); err != nil {
		return
	}
	for {
		m, err := message(c.client, true)
		if err != nil {
			_ = c.server.Close()
			return
		}
		waits, commits := c.look(m)
		if commits {
			if cut := c.wire.atCommit(c, m); cut != "" {
				c.end(cut, m)
				return
			}
		}
		if m[0] == 'S' {
			c.executes = 0
		}
		if _, err := c.server.Write(m); err != nil {
			return
		}
		if waits {
			if late := c.wire.takeLate(); late != nil {
				late.commit()
			}
		}
	}
}

// look reads a message of the program's: whether it may wait for a commit that is late,
// and whether it commits a transaction that has appended events.
func (c *onWire) look(m []byte) (waits, commits bool) {
	body := m[5:]
	switch m[0] {
	case 'P': // Parse
		t := texts(body, 2)
		c.statements[t[0]] = t[1]
	case 'B': // Bind
		c.bound = c.statements[texts(body, 2)[1]]
	case 'E': // Execute
		c.executes++
		appends := strings.Contains(c.bound, "append_events(")
		c.appends = c.appends || appends
		waits = appends || strings.Contains(c.bound, "pg_advisory_xact_lock(") || strings.Contains(c.bound, "FOR UPDATE")
	case 'Q': // Query
		switch texts(body, 1)[0] {
		case "commit":
			commits, c.appends = c.appends, false
		case "rollback":
			c.appends = false
		}
	case 'S': // Sync
		c.mu.Lock()
		if c.status == 'I' {
			commits, c.appends = c.appends, false
		}
		c.mu.Unlock()
	}
	return waits, commits
}

// end ends the connection at the message that commits.
func (c *onWire) end(cut Cut, m []byte) {
	if cut == Torn && m[0] == 'Q' {
		cut = BeforeCommit
	}
	c.mu.Lock()
	c.ending, c.last = cut, m
	c.mu.Unlock()
	switch cut {
	case BeforeCommit:
		_ = c.server.Close()
	case BeforeAnswer:
		c.commit()
	case Torn:
		_, _ = c.server.Write([]byte{'H', 0, 0, 0, 4}) // Flush: say what is done so far
		<-c.committed
	case Late:
	}
}

// backward carries what Postgres says.
func (c *onWire) backward() {
	defer func() { _ = c.client.Close(); _ = c.server.Close() }()
	defer close(c.committed)
	for {
		m, err := message(c.server, true)
		if err != nil {
			return
		}
		c.mu.Lock()
		ending := c.ending
		switch m[0] {
		case 'Z': // ReadyForQuery
			c.status, c.executed = m[5], 0
		case 'C', 'I', 's': // CommandComplete, EmptyQueryResponse, PortalSuspended
			c.executed++
		}
		done := m[0] == 'Z'
		if ending == Torn {
			done = c.executed >= c.executes
		}
		c.mu.Unlock()
		if ending == "" || ending == Torn {
			if _, err := c.client.Write(m); err != nil {
				return
			}
		}
		if ending != "" && done {
			return
		}
	}
}
