package holdpoint

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is an error that the server answered with (RFC 9457). Code is
// stable and meant for programs; Detail is for people.
type Problem struct {
	Status int          `json:"status"`
	Code   string       `json:"code"`
	Title  string       `json:"title"`
	Detail string       `json:"detail"`
	Errors []FieldError `json:"errors"` // where, if the body was at fault
	// Successor is the approval by which people are asked anew for a call that is
	// stale; "" otherwise.
	Successor string `json:"successor"`
	// RetryAfter is how long the server asks to be left alone; 0 when it does not.
	RetryAfter time.Duration `json:"-"`
	// RequestID finds the request in the server's log.
	RequestID string `json:"-"`
}

// FieldError says which part of a body is wrong.
type FieldError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Error is the code and the detail.
func (p *Problem) Error() string {
	text := p.Code
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	if p.RequestID != "" {
		text += " (request " + p.RequestID + ")"
	}
	return text
}

// problemOf reads an answer that is not a 2xx. What is no problem document,
// such as a proxy's own page, gets the code "http_" and its status.
func problemOf(status int, header http.Header, body []byte) *Problem {
	return problemAt(status, header, body, time.Now())
}

func problemAt(status int, header http.Header, body []byte, now time.Time) *Problem {
	p := &Problem{}
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || kind != "application/problem+json" || json.Unmarshal(body, p) != nil || p.Code == "" {
		p = &Problem{
			Code: "http_" + strconv.Itoa(status), Title: http.StatusText(status),
			Detail: fmt.Sprintf("The server answered %d without saying why.", status),
		}
	}
	p.Status, p.RetryAfter, p.RequestID = status, retryAfter(header, now), header.Get("X-Request-Id")
	return p
}

// Retryable reports whether the same request may do better later, not sooner than RetryAfter.
func (p *Problem) Retryable() bool { return p.again() || p.Status == http.StatusTooManyRequests }

// again reports whether the same request may do better in a moment: the event
// store was away, or something between client and server was.
func (p *Problem) again() bool {
	switch p.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// retryAfter reads Retry-After as seconds or as a date.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.Atoi(text); err == nil {
		return min(max(time.Duration(seconds), 0), maxRetryAfter/time.Second) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = 10 * time.Minute
