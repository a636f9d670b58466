package auditlog_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// wire stands between a sequencer and Postgres, and cuts the leader's connection
// where it is told to. Nothing else takes the lead away: over a wire, Postgres waits
// a minute for a leader that says nothing.
type wire struct {
	t   *testing.T
	to  string
	url string
	// leaders is how many connections have had the lead.
	leaders atomic.Int64

	mu  sync.Mutex
	cut cut
	// done is closed when the cut was made.
	done chan struct{}
}

// cut says where: before the next thing that the leader says has arrived, within
// it, or after it has arrived and before the answer has.
type cut struct {
	armed  bool
	after  bool
	within int // so many bytes of it arrive
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	u, err := url.Parse(to)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	w := &wire{t: t, to: u.Host}
	u.Host = listener.Addr().String()
	w.url = u.String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", w.to)
			if err != nil {
				_ = client.Close()
				continue
			}
			leads := make(chan struct{})
			go w.forth(client, server, leads)
			go w.back(client, server, leads)
		}
	}()
	return w
}

func (w *wire) arm(c cut) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.armed = true
	w.cut, w.done = c, make(chan struct{})
	return w.done
}

// take returns the cut that is to be made now, if it is of this direction.
func (w *wire) take(after bool) (cut, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.cut.armed || w.cut.after != after {
		return cut{}, false
	}
	w.cut.armed = false
	close(w.done)
	return w.cut, true
}

func isLeading(leads chan struct{}) bool {
	select {
	case <-leads:
		return true
	default:
		return false
	}
}

func (w *wire) forth(client, server net.Conn, leads chan struct{}) {
	defer func() { _, _ = client.Close(), server.Close() }()
	buf := make([]byte, 1<<20)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		// Whoever has the lead says this first, and nobody else does.
		if at := bytes.Index(buf[:n], []byte("SET idle_session_timeout")); !isLeading(leads) && at >= 0 {
			// The message has to stay as long as it is.
			if was := []byte("timeout = 3000"); bytes.Contains(buf[at:n], was) {
				copy(buf[at:n], bytes.Replace(buf[at:n], was, []byte("timeout =60000"), 1))
			} else {
				w.t.Errorf("the leader says %q", buf[at:n])
			}
			w.leaders.Add(1)
			close(leads)
		} else if isLeading(leads) {
			if c, ok := w.take(false); ok {
				_, _ = server.Write(buf[:min(n, c.within)])
				return
			}
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (w *wire) back(client, server net.Conn, leads chan struct{}) {
	defer func() { _, _ = client.Close(), server.Close() }()
	buf := make([]byte, 1<<20)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if isLeading(leads) {
			if _, ok := w.take(true); ok {
				return
			}
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// The leader's connection is cut just before its append arrives, within it, and
// after it was done and before anybody says so.
func TestConnectionCutAroundCommit(t *testing.T) {
	t.Parallel()
	in := install(t)
	ctx, conn := context.Background(), connect(t, in.owner)
	w := newWire(t, in.app)
	next := make(chan cut, 1)
	armed := make(chan chan struct{}, 1)
	leader, appends, answered, unanswered := int64(0), 0, 0, 0
	q := in.sequencer(nil)
	q.Store = openStore(t, w.url)
	q.At = func(step string) {
		// The first append of a connection is prepared, which is a round trip more.
		if step == "append" {
			if now := w.leaders.Load(); now != leader {
				leader, appends = now, 0
			}
			if appends++; appends > 1 {
				select {
				case c := <-next:
					armed <- w.arm(c)
				default:
				}
			}
		}
		if step == "appended" {
			answered++
		}
	}
	end := in.run(q)
	for _, c := range []cut{{}, {within: 1}, {within: 40}, {within: 300}, {after: true}, {}, {after: true}, {after: true}} {
		must(t, write(ctx, conn, 3))
		in.placed(conn, goesOn)
		before := size(t, conn)
		next <- c
		must(t, write(ctx, conn, 4))
		// Perhaps that was the connection's first append.
		for done := false; !done; {
			select {
			case cutMade := <-armed:
				<-cutMade
				done = true
			default:
				in.placed(conn, goesOn)
				if len(armed) == 0 {
					must(t, write(ctx, conn, 1))
				}
			}
		}
		in.placed(conn, goesOn)
		if c.after {
			unanswered++
		}
		if got := size(t, conn); got < before+4 {
			t.Errorf("%d leaves, want %d at least", got, before+4)
		}
		in.check()
	}
	end()
	// Each append that was done has one checkpoint. Of those that were cut off
	// before, nothing was done.
	var done int
	must(t, conn.QueryRow(ctx, `SELECT count(*) FROM log_checkpoints`).Scan(&done))
	if done != answered+unanswered || unanswered != 3 {
		t.Errorf("%d appends were done, %d answered, and %d cut off before the answer", done, answered, unanswered)
	}
}
