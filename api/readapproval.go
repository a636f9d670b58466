package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// maxWait is the longest that an answer is held.
const maxWait = 59 * time.Second

// readOptional reads a body that may be left out altogether.
func readOptional(c *call, into any) (canon.Value, error) {
	if c.r.ContentLength == 0 {
		return canon.Object(), nil
	}
	return readInto(c, into)
}

// reader reads the approval for whoever asks. Whoever waits long is asked again
// before each further read who it is: a key may have been revoked since, a
// person signed out.
func (a approvalDoor) reader(c *call) func(context.Context) (gate.View, error) {
	id, again := c.r.PathValue("id"), false
	return func(ctx context.Context) (gate.View, error) {
		if again {
			if err := a.authorize(c, keyOrHuman); err != nil {
				return gate.View{}, err
			}
		}
		again = true
		if c.isPerson {
			return a.Gate.Queries.ForPerson(ctx, c.person, id)
		}
		return a.Gate.Queries.ForAgent(ctx, c.principal, id)
	}
}

func (a approvalDoor) getApproval(c *call) error {
	wait, preferred, err := waitOf(c.r)
	if err != nil {
		return err
	}
	read := a.reader(c)
	var changes <-chan struct{}
	if wait > 0 {
		changes = a.Gate.Queries.Changes(c.r.Context(), c.r.PathValue("id"))
	}
	v, err := read(c.r.Context())
	if err != nil {
		return err
	}
	// A caller who says what it has seen is answered at once if that is old.
	tags := c.r.Header.Values("If-None-Match")
	hasSeen, current := seenIn(tags, v.Approval)
	// One who says nothing waits for the decision, and then for the outcome.
	decided := v.Approval.Status.Terminal() && v.Approval.Execution != approval.Redeemed
	if wait > 0 && (current || !hasSeen && !decided) {
		release, err := a.enter(c)
		if err != nil {
			return err
		}
		defer release()
		a.unbounded(c)
		ctx, end := a.untilStopping(c)
		defer end()
		var changed bool
		if v, changed, err = a.hold(ctx, changes, v, wait, read); err == nil && !changed {
			v, err = read(c.r.Context())
		}
		if err != nil {
			return err
		}
	}
	header := map[string]string{"ETag": etag(v.Approval)}
	if v.Approval.Status == approval.Pending {
		header["Retry-After"] = retrySoon
	}
	if preferred {
		header["Preference-Applied"] = fmt.Sprintf("wait=%d", int(wait.Seconds()))
	}
	if _, current = seenIn(tags, v.Approval); current {
		writeReply(c.w, access.Reply{Status: http.StatusNotModified, Header: header})
		return nil
	}
	data, err := a.encoded(c, v)
	if err != nil {
		return err
	}
	writeReply(c.w, encodedReply(http.StatusOK, slices.Clip(data), header))
	return nil
}

// encoded is the approval as JSON, which is written once for all who wait for it with keys of one kind.
func (a approvalDoor) encoded(c *call, v gate.View) ([]byte, error) {
	return v.Once("JSON for "+c.principal.Kind, func() ([]byte, error) { return json.Marshal(a.wire(c.principal, v)) })
}

const (
	ownPage    = 50
	maxOwnPage = 100
)

func (a approvalDoor) ownApprovals(c *call) error {
	var own gate.OwnFilter
	limit, cursor, status := ownPage, "", ""
	read := parameters{
		"status":    oneOf(&status, string(approval.Pending), string(approval.Approved), string(approval.Denied), string(approval.Expired), string(approval.Cancelled)),
		"tool_name": anyText(&own.Tool), "session": anyText(&own.Session), "cursor": anyText(&cursor), "limit": whole(&limit, 1, maxOwnPage),
	}
	if err := read.read(c.r.URL.Query()); err != nil {
		return err
	}
	own.Status = approval.Status(status)
	page, next, err := a.Gate.Queries.Own(c.r.Context(), c.principal, own, cursor, limit)
	if err != nil {
		return err
	}
	out := OwnApprovals{Approvals: []Approval{}, NextCursor: next}
	for _, each := range page {
		out.Approvals = append(out.Approvals, a.wire(c.principal, gate.View{Approval: each}))
	}
	return ok(c, out)
}

// hold waits for the approval to change, for no longer than wait. changed is false,
// and the view as it was, when that is over, or ctx.
func (a approvalDoor) hold(ctx context.Context, changes <-chan struct{}, v gate.View, wait time.Duration, read func(context.Context) (gate.View, error)) (now gate.View, changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	a.Metrics.waiting.Inc()
	defer a.Metrics.waiting.Dec()
	if now, changed, err = gate.Wait(ctx, changes, v.Approval.Revision, read); !changed {
		now = v
	}
	return now, changed, err
}

// untilStopping is the request's context, which also ends when the server is going
// down.
func (a approvalDoor) untilStopping(c *call) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(c.r.Context())
	go func() {
		select {
		case <-a.Stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// unbounded lifts the server's own time limits from a request that is held on
// purpose.
func (a approvalDoor) unbounded(c *call) {
	rc := http.NewResponseController(c.w)
	// A writer that cannot do this has no deadlines to lift.
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})
}

// waitOf reads ?wait=N or Prefer: wait=N.
func waitOf(r *http.Request) (wait time.Duration, preferred bool, err error) {
	text, preferred := r.URL.Query().Get("wait"), false
	if text == "" {
		for _, preference := range strings.FieldsFunc(strings.Join(r.Header.Values("Prefer"), ","), func(c rune) bool { return c == ',' || c == ';' }) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(preference), "wait="); ok {
				text, preferred = value, true
			}
		}
	}
	if text == "" {
		return 0, false, nil
	}
	seconds, err := strconv.Atoi(text)
	if preferred {
		// A preference that cannot be honoured is honoured as far as it can be.
		if err != nil || seconds < 0 {
			return 0, false, nil
		}
		seconds = min(seconds, int(maxWait.Seconds()))
	}
	if err != nil || seconds < 0 || seconds > int(maxWait.Seconds()) {
		return 0, false, &failure{Status: http.StatusBadRequest, Code: "bad_wait", Detail: fmt.Sprintf("wait is a whole number of seconds from 0 to %d.", int(maxWait.Seconds()))}
	}
	return time.Duration(seconds) * time.Second, preferred, nil
}

func etag(a approval.Approval) string { return fmt.Sprintf(`"r%d"`, a.Revision) }

// seenIn reads If-None-Match: whether it names what the caller has seen of the
// approval, and whether that is how it is now.
func seenIn(headers []string, a approval.Approval) (known, current bool) {
	for tag := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		known = known || tag == "*" || ourTag.MatchString(tag)
		current = current || tag == "*" || tag == etag(a)
	}
	return known, current
}

var ourTag = regexp.MustCompile(`^"r[0-9]+"$`)

// heartbeat keeps a silent stream from being taken for a dead one.
const heartbeat = 15 * time.Second

// writeWithin is how long a reader may take to accept a message.
const writeWithin = 10 * time.Second

func (a approvalDoor) followApproval(c *call) error {
	read := a.reader(c)
	changes := a.Gate.Queries.Changes(c.r.Context(), c.r.PathValue("id"))
	v, err := read(c.r.Context())
	if err != nil {
		return err
	}
	release, err := a.enter(c)
	if err != nil {
		return err
	}
	defer release()
	a.unbounded(c)
	ctx, end := a.untilStopping(c)
	defer end()
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.Header().Set("X-Accel-Buffering", "no")
	for changed := true; ; {
		message := []byte(": still waiting\n\n")
		if changed {
			data, err := a.encoded(c, v)
			if err != nil {
				return err
			}
			message = fmt.Appendf(nil, "id: %d\nevent: approval\ndata: %s\n\n", v.Approval.Revision, data)
		}
		if send(c.w, message) != nil {
			return nil // the reader has gone
		}
		if v.Approval.Over() {
			return nil
		}
		v, changed, err = a.hold(ctx, changes, v, heartbeat, read)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil && !changed {
			err = a.authorize(c, keyOrHuman) // nothing is read, and a key may have been revoked
		}
		if err != nil {
			a.Logger.WarnContext(c.r.Context(), "a stream of events was cut short", "error", err)
			return nil // the headers are gone: a reader connects again
		}
	}
}

// send writes a message of a stream, within writeWithin.
func send(w http.ResponseWriter, message []byte) error {
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeWithin)) // a writer without deadlines has none
	if _, err := w.Write(message); err != nil {
		return err
	}
	return rc.Flush()
}
