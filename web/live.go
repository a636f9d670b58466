package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/httpstatus"
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

// Changes is what live pages need.
type Changes interface {
	// ForPerson reads an approval without its card. It never counts as having shown
	// anything to anybody.
	ForPerson(ctx context.Context, p engine.Person, id string) (gate.View, error)
	// Changes returns a channel that receives (coalesced) whenever any approval
	// changes, or only the one named by id when it is not "". It ends with ctx.
	Changes(ctx context.Context, id string) <-chan struct{}
}

// liveHandler streams to open pages that something has changed.
type liveHandler struct {
	site      *site
	inbox     Inbox
	approvals Changes
	stops     func(context.Context) <-chan struct{} // nil: nobody tells
	streams   streams
	stopping  <-chan struct{}
}

func (h *liveHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /live", h.inboxChanges)
	mux.HandleFunc("GET /approvals/{id}/live", h.approvalChanges)
}

// inboxChanges tells how the page of the inbox that the address asks for has changed
// since the state named by ?seen=.
func (h *liveHandler) inboxChanges(w http.ResponseWriter, r *http.Request) {
	list := &inboxHandler{h.site, h.inbox}
	var shown *inboxShown
	h.stream(w, r, "", func(ctx context.Context, p engine.Person) (mark, event string, err error) {
		asked := readInboxOf(r.URL.RawQuery, p)
		if len(asked.problems) > 0 {
			return "", "", &access.Refusal{Kind: access.Malformed, Code: "bad_search", Detail: strings.Join(asked.problems, "\n")}
		}
		page, tasks, err := list.read(ctx, p, asked)
		if err != nil {
			return "", "", err
		}
		kills := h.site.inForce().Registered.Kills
		coming := shown.coming(page.Rows, kills)
		told := atStake{list.stakes(ctx, coming), list.groups(ctx, coming)}
		now := showInbox(h.site, p, asked, page, told, tasks, kills, list.names(ctx, page, tasks))
		event, err = now.since(ctx, shown)
		shown = now
		return now.mark, event, err
	})
}

// approvalChanges tells when the approval is past the revision named by ?seen=.
func (h *liveHandler) approvalChanges(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	h.stream(w, r, id, func(ctx context.Context, p engine.Person) (mark, event string, err error) {
		found, err := h.approvals.ForPerson(ctx, p, id)
		mark = cardMark(found.Approval, h.site.killsOn(found.Approval.Call.AgentID))
		return mark, changedEvent(mark), err
	})
}

// changedEvent tells a page to look at itself again.
func changedEvent(mark string) string { return "event: changed\ndata: " + mark + "\n\n" }

// stream streams the event of a state whenever it is another one than the reader has
// seen. It subscribes before it looks, so that no change falls
// in between, and ends with the session.
func (h *liveHandler) stream(w http.ResponseWriter, r *http.Request, id string, state func(context.Context, engine.Person) (mark, event string, err error)) {
	person, ok, err := h.site.person(r)
	if err != nil {
		http.Error(w, "Not available.", http.StatusServiceUnavailable)
		return
	}
	if !ok {
		http.Error(w, "Sign in first.", http.StatusUnauthorized)
		return
	}
	if h.site.lacksFactor(person) != "" {
		http.Error(w, "Add a second factor first.", http.StatusForbidden)
		return
	}
	if !h.streams.enter(person.ID) {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "Too many pages are open.", http.StatusTooManyRequests)
		return
	}
	defer h.streams.leave(person.ID)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	changes := h.approvals.Changes(ctx, id)
	var stops <-chan struct{}
	if h.stops != nil {
		stops = h.stops(ctx)
	}
	seen := r.URL.Query().Get("seen")
	now, event, err := state(ctx, person)
	if err != nil {
		status := http.StatusServiceUnavailable
		var refusal *access.Refusal
		if errors.As(err, &refusal) {
			status = httpstatus.Of(refusal.Kind)
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
			seen, message = now, event
		}
		if send(message) != nil {
			return
		}
		message = ": here\n\n"
		select {
		case <-ctx.Done():
			return
		case <-h.stopping:
			return
		case _, open := <-changes:
			if !open {
				return
			}
			if !pause(ctx, settle) {
				return
			}
			quiet = 0
		case <-stops:
			quiet = 0
		case <-ticker.C:
			quiet++
		}
		if person, ok = h.stillSignedIn(r); !ok || h.site.lacksFactor(person) != "" {
			return
		}
		if quiet%lookEvery != 0 {
			continue
		}
		if now, event, err = state(ctx, person); err != nil {
			return // the page asks again and is told what is wrong
		}
	}
}

// stillSignedIn looks the session of a long request up again.
func (h *liveHandler) stillSignedIn(r *http.Request) (engine.Person, bool) {
	person, err := h.site.sessions.again(r)
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
