package holdpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// silence is how long a stream may say nothing: a server says something every 15 seconds.
const silence = 40 * time.Second

// Wait is Await by the server's events: it follows them, through outages and restarts, and
// asks as Await does where they do not arrive (a proxy that keeps them back). An HTTP client
// of your own must not bound the time of a whole answer.
func (c *Client) Wait(ctx context.Context, approvalID string) (Approval, error) {
	return c.wait(ctx, approvalID, nil)
}

// wait is Wait that hands saw each state of the approval that is not final.
func (c *Client) wait(ctx context.Context, approvalID string, saw func(Approval)) (Approval, error) {
	pause := firstPause
	for streams := 2; streams > 0; {
		a, fruitful, err := c.follow(ctx, approvalID, saw)
		switch {
		case ctx.Err() != nil:
			return Approval{}, context.Cause(ctx)
		case err == nil && a.Status.Final():
			return a, nil
		case err == nil && fruitful:
			streams, pause = 2, firstPause
		case err == nil:
			streams--
		case !temporary(err) && !isLimited(err):
			return Approval{}, fmt.Errorf("wait for %s: %w", approvalID, err)
		}
		if err := sleep(ctx, max(pause, askedFor(err))); err != nil {
			return Approval{}, err
		}
		pause = min(2*pause, longestPause)
	}
	return c.await(ctx, approvalID, saw)
}

func isLimited(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == http.StatusTooManyRequests
}

// follow reads the stream until it ends: the approval if it is final by then, and whether
// anything was said of it at all. saw is handed each state before.
func (c *Client) follow(ctx context.Context, approvalID string, saw func(Approval)) (last Approval, fruitful bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	began := time.Now()
	resp, err := c.do(ctx, http.MethodGet, "/v1/approvals/"+url.PathEscape(approvalID)+"/events", http.Header{"Accept": {"text/event-stream"}}, nil)
	if err != nil {
		return last, false, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return last, false, c.unreachable(err, began)
		}
		p := problemOf(resp.StatusCode, resp.Header, answer)
		if p.Status == http.StatusNotAcceptable || p.Code == "http_404" {
			return last, false, nil // something between that has no streams
		}
		return last, false, p
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		return last, false, nil
	}
	// However it ends, it has broken off: what was said by then counts.
	_ = readMessages(heard{resp.Body, quiet}, func(m message) bool {
		var a Approval
		if m.event != "approval" || json.Unmarshal([]byte(m.data), &a) != nil || a.ID != approvalID {
			return true
		}
		last, fruitful = a, true
		if a.Status.Final() {
			return false
		}
		if saw != nil {
			saw(a)
		}
		return true
	})
	return last, fruitful, nil
}

// heard begins the silence anew with each piece that comes.
type heard struct {
	body  io.Reader
	quiet *time.Timer
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.body.Read(p)
	if n > 0 {
		h.quiet.Reset(silence)
	}
	return n, err
}

// message is one server-sent event.
type message struct{ event, id, data string }

// readMessages gives each the events of a stream (WHATWG HTML, section 9.2) until it wants
// no more. One that is cut off before its blank line is none.
func readMessages(stream io.Reader, each func(message) bool) error {
	var m message
	var data []string
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxAnswer)
	lines.Split(splitLines)
	for size := 0; lines.Scan(); {
		line := lines.Text()
		if line == "" {
			m.event = cmp.Or(m.event, "message")
			m.data = strings.Join(data, "\n")
			if len(data) > 0 && !each(m) {
				return nil
			}
			m, data, size = message{id: m.id}, nil, 0
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			m.event = value
		case "data":
			if size += len(value); size > maxAnswer {
				return errors.New("an event that is too large")
			}
			data = append(data, value)
		case "id":
			if !strings.Contains(value, "\x00") {
				m.id = value
			}
		}
	}
	return lines.Err()
}

// splitLines splits at LF, CR and CRLF, and passes over a line that has not ended.
func splitLines(data []byte, atEOF bool) (int, []byte, error) {
	at := bytes.IndexAny(data, "\r\n")
	switch {
	case at < 0 && atEOF:
		return len(data), nil, nil
	case at < 0:
		return 0, nil, nil
	case data[at] == '\r' && at+1 == len(data):
		return 0, nil, nil // its LF may be still to come
	case data[at] == '\r' && data[at+1] == '\n':
		return at + 2, data[:at], nil
	}
	return at + 1, data[:at], nil
}
