package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
)

const (
	// heartbeat is how often a quiet stream says that it is there, and how often
	// it looks whether its session still is.
	heartbeat = 15 * time.Second
	// lookEvery is after how many quiet heartbeats a stream looks at the state
	// itself, in case that word of a change was lost.
	lookEvery = 4
	// settle is how long a stream lets further changes gather before it tells of them.
	settle = 150 * time.Millisecond
	// writeWithin is how long a reader may take to accept a message.
	writeWithin = 10 * time.Second
	// A person's streams and all streams together are bounded.
	maxStreamsEach = 16
	maxStreams     = 4000
)

// streams counts open event streams.
type streams struct {
	mu    sync.Mutex
	by    map[string]int
	total int
}

// enter reports whether the person may open one more stream.
func (s *streams) enter(person string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= maxStreams || s.by[person] >= maxStreamsEach {
		return false
	}
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.total++
	s.by[person]++
	return true
}

func (s *streams) leave(person string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.by[person]--; s.by[person] == 0 {
		delete(s.by, person)
	}
}

// liveInbox tells when the person's inbox is not the one named by ?seen= any more.
func (c *Console) liveInbox(w http.ResponseWriter, r *http.Request) {
	c.live(w, r, "", func(ctx context.Context, p engine.Person) (string, error) {
		waiting, err := c.cfg.Desk.Inbox(ctx, p)
		if err != nil {
			return "", err
		}
		errands, err := c.cfg.Desk.Errands(ctx, p)
		return inboxMark(waiting, errands), err
	})
}

// liveApproval tells when the approval is past the revision named by ?seen=.
func (c *Console) liveApproval(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	c.live(w, r, id, func(ctx context.Context, p engine.Person) (string, error) {
		found, err := c.cfg.Desk.ForPerson(ctx, p, id)
		return strconv.FormatInt(found.Approval.Revision, 10), err
	})
}

// inboxMark names a state of an inbox.
func inboxMark(waiting []approval.Approval, errands gate.Errands) string {
	h := sha256.New()
	for _, list := range [][]approval.Approval{waiting, errands.Unknown, errands.Reviews, errands.Mine} {
		for _, a := range list {
			_, _ = fmt.Fprintf(h, "%s %d\n", a.ID, a.Revision) // a hash takes everything
		}
		_, _ = fmt.Fprintln(h)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// live streams an event whenever state names another state than the one that
// the reader has seen. It subscribes before it looks, so that no change falls
// in between, and ends with the session.
func (c *Console) live(w http.ResponseWriter, r *http.Request, id string, state func(context.Context, engine.Person) (string, error)) {
	person, ok, err := c.site.person(r)
	if err != nil {
		http.Error(w, "Not available.", http.StatusServiceUnavailable)
		return
	}
	if !ok {
		http.Error(w, "Sign in first.", http.StatusUnauthorized)
		return
	}
	if !c.streams.enter(person.ID) {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "Too many pages are open.", http.StatusTooManyRequests)
		return
	}
	defer c.streams.leave(person.ID)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	changes := c.cfg.Desk.Changes(ctx, id)
	seen := r.URL.Query().Get("seen")
	now, err := state(ctx, person)
	if err != nil {
		status := http.StatusServiceUnavailable
		var refusal *gate.Refusal
		if errors.As(err, &refusal) {
			status = refusal.Status
		}
		http.Error(w, "Not available.", status)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	send, end := sender(w)
	defer end()
	message := ": here\n\n"
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for quiet := 0; ; {
		if now != seen {
			seen, message = now, "event: changed\ndata: "+now+"\n\n"
		}
		if send(message) != nil {
			return
		}
		message = ": here\n\n"
		select {
		case <-ctx.Done():
			return
		case <-c.cfg.Stopping:
			return
		case _, open := <-changes:
			if !open {
				return
			}
			if !pause(ctx, settle) {
				return
			}
			quiet = 0
		case <-ticker.C:
			quiet++
		}
		if person, ok = c.still(r); !ok {
			return
		}
		if quiet%lookEvery != 0 {
			continue
		}
		if now, err = state(ctx, person); err != nil {
			return // the page asks again and is told what is wrong
		}
	}
}

// still looks the session of a long request up again.
func (c *Console) still(r *http.Request) (engine.Person, bool) {
	id, ok := c.site.sessions.id(r)
	if !ok {
		return engine.Person{}, false
	}
	person, err := c.site.sessions.load(r.Context(), id)
	return person, err == nil
}

// sender returns a function that writes and flushes within writeWithin, whatever
// the server's own limit on answers is. The other gives as much time to what the
// server writes to end the stream, however long ago the last message was.
func sender(w http.ResponseWriter) (send func(string) error, end func()) {
	control := http.NewResponseController(w)
	// The server's limit on reading a request would otherwise end the stream: the
	// server goes on listening for the reader's hanging up. A writer that has no
	// deadlines has none to lift.
	_ = control.SetReadDeadline(time.Time{})
	inTime := func() error { return control.SetWriteDeadline(time.Now().Add(writeWithin)) }
	send = func(message string) error {
		if err := inTime(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := io.WriteString(w, message); err != nil {
			return err
		}
		return control.Flush()
	}
	return send, func() { _ = inTime() }
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
